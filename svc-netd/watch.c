#include "svc-netd/watch.h"

#include <stdlib.h>
#include <sys/queue.h>

enum { WATCHERS_MAX = 64 };

struct watcher {
	LIST_ENTRY(watcher) link;
	struct watch *watch;   /* weak */
	struct rpc_call *call; /* weak: until on_end */
	bool missed;           /* something could not be sent */
};

struct watch {
	LIST_HEAD(, watcher) list;
	size_t n;
	uint64_t sequence;
};

struct watch *watch_new(void)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		LIST_INIT(&watch->list);
	return watch;
}

struct watch *watch_free(struct watch *watch)
{
	free(watch);
	return NULL;
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct watcher *w = userdata;

	(void)call;
	LIST_REMOVE(w, link);
	w->watch->n--;
	free(w);
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	struct watcher *w = userdata;
	Bc__V1__NetdEvent event = BC__V1__NETD_EVENT__INIT;

	if (!w->missed)
		return;
	w->missed = false;
	event.sequence = w->watch->sequence;
	event.type = BC__V1__NETD_EVENT__TYPE__RESYNC;
	event.message = (char *)"events were lost: list anew";
	(void)rpc_stream_send(call, &event.base);
}

void watch_add(struct watch *watch, struct rpc_call *call)
{
	struct watcher *w = watch->n < WATCHERS_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (!w) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "%zu Watch streams are open; at most %d",
		        watch->n, WATCHERS_MAX);
		return;
	}
	w->watch = watch;
	w->call = call;
	LIST_INSERT_HEAD(&watch->list, w, link);
	watch->n++;
	rpc_call_on_end(call, on_end, w);
	rpc_stream_on_writable(call, on_writable, w);
}

void watch_tell(struct watch *watch, Bc__V1__NetdEvent *event)
{
	struct watcher *w;

	event->sequence = ++watch->sequence;
	LIST_FOREACH (w, &watch->list, link)
		if (w->missed || rpc_stream_send(w->call, &event->base) < 0)
			w->missed = true;
}

void watch_end(struct watch *watch)
{
	struct watcher *w;

	LIST_FOREACH (w, &watch->list, link)
		rpc_fail(w->call, GRPC_STATUS_UNAVAILABLE, "netd is shutting down: retry");
}
