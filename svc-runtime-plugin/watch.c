/* Watch: every domain, SYNCED, then each change, at the reader's pace. */
#include "svc-runtime-plugin/plugin.h"

enum { WATCHES_MAX = 64, GONE_MAX = 10000 };

struct watch {
	LIST_ENTRY(watch) link;
	struct plugin *plugin; /* weak */
	struct rpc_call *call; /* weak: until on_end */
	uint64_t version;      /* of the last change it was told */
	bool is_synced;
};

static void event_send(struct watch *watch, Bc__V1__DomainEvent__Type type, struct guest *guest)
{
	Bc__V1__DomainEvent event = BC__V1__DOMAIN_EVENT__INIT;

	event.type = type;
	event.domain = guest ? guest_message(guest) : NULL;
	if (guest && !event.domain)
		rpc_fail(watch->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
	else
		(void)rpc_stream_send(watch->call, &event.base);
	if (event.domain)
		bc__v1__domain__free_unpacked(event.domain, NULL);
}

static void guest_send(struct watch *watch, struct guest *guest)
{
	if (!guest->is_gone)
		event_send(watch,
		        watch->is_synced ? BC__V1__DOMAIN_EVENT__TYPE__CHANGED
		                         : BC__V1__DOMAIN_EVENT__TYPE__PRESENT,
		        guest);
	else if (watch->is_synced)
		event_send(watch, BC__V1__DOMAIN_EVENT__TYPE__GONE, guest);
}

static bool has_room(const struct watch *watch)
{
	return rpc_stream_queued(watch->call) < RPC_STREAM_QUEUE_MAX;
}

static void watch_pump(struct watch *watch)
{
	struct guest *guest = guests_after(&watch->plugin->guests, watch->version);

	for (; guest && has_room(watch); guest = TAILQ_NEXT(guest, link)) {
		watch->version = guest->version;
		guest_send(watch, guest);
	}
	if (!guest && !watch->is_synced && has_room(watch)) {
		watch->is_synced = true;
		event_send(watch, BC__V1__DOMAIN_EVENT__TYPE__SYNCED, NULL);
	}
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	(void)call;
	watch_pump(userdata);
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct watch *watch = userdata;

	(void)call;
	LIST_REMOVE(watch, link);
	watch->plugin->n_watches--;
	free(watch);
}

void watch_add(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	struct watch *watch;

	(void)request;
	if (!plugin->is_known) {
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "%s", plugin->why);
		return;
	}
	watch = plugin->n_watches < WATCHES_MAX ? calloc(1, sizeof(*watch)) : NULL;
	if (!watch) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "%zu Watch streams are open; at most %d",
		        plugin->n_watches, WATCHES_MAX);
		return;
	}
	watch->plugin = plugin;
	watch->call = call;
	LIST_INSERT_HEAD(&plugin->watches, watch, link);
	plugin->n_watches++;
	rpc_call_on_end(call, on_end, watch);
	rpc_stream_on_writable(call, on_writable, watch);
	watch_pump(watch);
}

void watches_pump(void *userdata)
{
	struct plugin *plugin = userdata;
	struct watch *watch;

	LIST_FOREACH (watch, &plugin->watches, link) {
		watch_pump(watch);
	}
	if (plugin->guests.n_gone > GONE_MAX)
		watches_drop(plugin, "the reader is too slow; call again");
}

void watches_bury(struct plugin *plugin)
{
	struct watch *watch;

	LIST_FOREACH (watch, &plugin->watches, link) {
		if (watch->version < plugin->guests.version)
			return;
	}
	guests_bury(&plugin->guests);
}

void watches_drop(struct plugin *plugin, const char *why)
{
	struct watch *watch, *next;

	for (watch = LIST_FIRST(&plugin->watches); watch; watch = next) {
		next = LIST_NEXT(watch, link);
		rpc_fail(watch->call, GRPC_STATUS_UNAVAILABLE, "%s", why);
	}
}
