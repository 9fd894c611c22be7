#include "svc-runtime-fake/watch.h"

#include "svc-runtime-fake/fake.h"

#include <sys/queue.h>

enum { GRAVESTONES_MAX = 10000 };

struct watcher {
	LIST_ENTRY(watcher) link;
	struct watchers *watchers; /* weak */
	struct rpc_call *call;     /* weak: until on_end */
	struct change_cursor cursor;
	bool synced;
};

struct watchers {
	struct fake *fake; /* weak */
	LIST_HEAD(, watcher) list;
	size_t n;
};

/* Room for one more: what is sent is never refused then. */
static bool has_room(const struct watcher *watcher)
{
	return rpc_stream_queued(watcher->call) < RPC_STREAM_QUEUE_MAX;
}

static void event_send(struct watcher *watcher, Bc__V1__DomainEvent__Type type, Bc__V1__Domain *domain)
{
	Bc__V1__DomainEvent event = BC__V1__DOMAIN_EVENT__INIT;

	event.type = type;
	event.domain = domain;
	(void)rpc_stream_send(watcher->call, &event.base);
}

static void gone_send(struct watcher *watcher, const char *id)
{
	Bc__V1__Domain gone = BC__V1__DOMAIN__INIT;

	gone.id = (char *)(uintptr_t)id;
	event_send(watcher, BC__V1__DOMAIN_EVENT__TYPE__GONE, &gone);
}

static void change_send(struct watcher *watcher, const char *id, const record *r)
{
	Bc__V1__DomainEvent__Type type =
	        watcher->synced ? BC__V1__DOMAIN_EVENT__TYPE__CHANGED : BC__V1__DOMAIN_EVENT__TYPE__PRESENT;
	struct fake *fake = watcher->watchers->fake;
	Bc__V1__Domain *told = NULL;

	if (!r) {
		gone_send(watcher, id);
	} else if (!control_concerns(fake->control, "Watch.domain")) {
		event_send(watcher, type, r->domain);
	} else if (fake_tell(fake, "Watch.domain", r, &told) == 0 && told) {
		event_send(watcher, type, told);
		bc__v1__domain__free_unpacked(told, NULL);
	}
}

static void watcher_pump(struct watcher *watcher)
{
	const record *r;
	const char *id;

	while (has_room(watcher) && change_cursor_next(&watcher->cursor, &id, &r))
		change_send(watcher, id, r);
	/* Only where nothing is left to tell is the first list complete. */
	if (!watcher->synced && !watcher->cursor.next && has_room(watcher)) {
		event_send(watcher, BC__V1__DOMAIN_EVENT__TYPE__SYNCED, NULL);
		watcher->synced = true;
	}
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	(void)call;
	watcher_pump(userdata);
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct watcher *watcher = userdata;

	(void)call;
	change_cursor_done(&watcher->cursor);
	LIST_REMOVE(watcher, link);
	watcher->watchers->n--;
	free(watcher);
}

int watchers_new(struct fake *fake, struct watchers **ret)
{
	struct watchers *watchers = calloc(1, sizeof(*watchers));

	if (!watchers)
		return -ENOMEM;
	watchers->fake = fake;
	LIST_INIT(&watchers->list);
	*ret = watchers;
	return 0;
}

void watchers_add(struct watchers *watchers, struct rpc_call *call)
{
	struct watcher *watcher = watchers->n < WATCHERS_MAX ? calloc(1, sizeof(*watcher)) : NULL;

	if (!watcher) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "%zu Watch streams are open; at most %d",
		        watchers->n, WATCHERS_MAX);
		return;
	}
	watcher->watchers = watchers;
	watcher->call = call;
	change_cursor_init(&watcher->cursor, watchers->fake->domains);
	LIST_INSERT_HEAD(&watchers->list, watcher, link);
	watchers->n++;
	rpc_call_on_end(call, on_end, watcher);
	rpc_stream_on_writable(call, on_writable, watcher);
	watcher_pump(watcher);
}

void watchers_pump(struct watchers *watchers)
{
	struct watcher *watcher;

	LIST_FOREACH (watcher, &watchers->list, link) {
		watcher_pump(watcher);
	}
	if (domains_gravestones(watchers->fake->domains) > GRAVESTONES_MAX)
		watchers_drop(watchers, "the reader is too slow; call again");
}

void watchers_drop(struct watchers *watchers, const char *why)
{
	struct watcher *watcher, *next;

	for (watcher = LIST_FIRST(&watchers->list); watcher; watcher = next) {
		next = LIST_NEXT(watcher, link);
		rpc_fail(watcher->call, GRPC_STATUS_UNAVAILABLE, "%s", why);
	}
}

struct watchers *watchers_free(struct watchers *watchers)
{
	free(watchers);
	return NULL;
}
