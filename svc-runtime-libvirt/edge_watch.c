/* Watch: every domain, SYNCED, then each change, at the reader's pace. */
#include "svc-runtime-libvirt/domain_message.h"
#include "svc-runtime-libvirt/edge.h"

#include <stdlib.h>

/* A stalled reader holds this many messages here; of what changes after that it gets the newest state. */
enum { WATCH_QUEUE = 16 };

struct watch {
	struct domains_watcher watcher;
	struct runtime *runtime;          /* weak */
	struct rpc_call *call;            /* weak: until on_end */
	const struct domain_entry *first; /* weak; of the first list: the last one sent */
	uint64_t first_version;
	bool synced;
};

static void send_event(struct watch *watch, Bc__V1__DomainEvent__Type type, const struct domain_entry *entry)
{
	Bc__V1__DomainEvent event = BC__V1__DOMAIN_EVENT__INIT;

	event.type = type;
	if (entry)
		event.domain = domain_message_new(entry);
	(void)rpc_stream_send(watch->call, &event.base);
	domain_message_free(event.domain);
}

static void send_more(struct watch *watch)
{
	struct domains *domains = watch->runtime->domains;

	if (!domains_synced(domains)) {
		(void)edge_ready(watch->runtime, watch->call); /* says why */
		return;
	}
	while (rpc_stream_queued(watch->call) < WATCH_QUEUE) {
		struct domain_entry *entry = domains_watcher_next(domains, &watch->watcher);
		if (entry && entry->look.present)
			send_event(watch,
			        watch->synced ? BC__V1__DOMAIN_EVENT__TYPE__CHANGED
			                      : BC__V1__DOMAIN_EVENT__TYPE__PRESENT,
			        entry);
		else if (entry && watch->synced)
			send_event(watch, BC__V1__DOMAIN_EVENT__TYPE__GONE, entry);
		else if (!entry && !watch->synced) {
			watch->synced = true;
			send_event(watch, BC__V1__DOMAIN_EVENT__TYPE__SYNCED, NULL);
		} else if (!entry) {
			return;
		}
	}
}

static void on_more(struct domains_watcher *watcher)
{
	send_more(CONTAINER_OF(watcher, struct watch, watcher));
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	(void)call;
	send_more(userdata);
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct watch *watch = userdata;

	(void)call;
	domains_unwatch(watch->runtime->domains, &watch->watcher);
	free(watch);
}

static void do_watch(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	(void)arg;

	if (!edge_ready(runtime, call))
		return;
	struct watch *watch = calloc(1, sizeof(*watch));
	if (!watch) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	*watch = (struct watch){ .watcher.on_more = on_more, .runtime = runtime, .call = call };
	domains_watch(runtime->domains, &watch->watcher);
	rpc_call_on_end(call, on_end, watch);
	rpc_stream_on_writable(call, on_writable, watch);
	send_more(watch);
}

void edge_watch(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeWatchRequest *request,
        Bc__V1__DomainEvent_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_watch, request);
}
