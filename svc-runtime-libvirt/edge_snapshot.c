/* Snapshot: how far it is, at the reader's pace, then the digest. */
#include "svc-runtime-libvirt/edge.h"
#include "svc-runtime-libvirt/snapshots.h"

#include <stdlib.h>
#include <string.h>

enum {
	QUEUE = 4, /* messages that wait for a reader; more of them would be old news */
	PATH_BYTES_MAX = 1024,
};

/* Held by the call and by the snapshot, whichever ends first. */
struct snapshot_call {
	struct rpc_call *call; /* weak: until on_call_end(); NULL then */
	struct slow *slow;     /* weak: until on_snapshot_end(); NULL then */
};

static void release(struct snapshot_call *s)
{
	if (!s->call && !s->slow)
		free(s);
}

static void on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	const struct snapshot_call *s = userdata;
	Bc__V1__RuntimeSnapshotEvent event = BC__V1__RUNTIME_SNAPSHOT_EVENT__INIT;
	Bc__V1__Progress progress = BC__V1__PROGRESS__INIT;

	if (!s->call || rpc_stream_queued(s->call) >= QUEUE)
		return;
	progress.what = (char *)"writing snapshot";
	progress.done_bytes = done_bytes;
	progress.total_bytes = total_bytes;
	event.progress = &progress;
	(void)rpc_stream_send(s->call, &event.base);
}

static void on_snapshot_end(int r, const struct err *err, const char *digest, uint64_t bytes, void *userdata)
{
	struct snapshot_call *s = userdata;
	Bc__V1__RuntimeSnapshotEvent event = BC__V1__RUNTIME_SNAPSHOT_EVENT__INIT;

	s->slow = NULL;
	if (s->call && r < 0) {
		rpc_fail_err(s->call, r, err);
	} else if (s->call) {
		event.digest = (char *)digest;
		event.size_bytes = bytes;
		(void)rpc_stream_send(s->call, &event.base);
		rpc_stream_finish(s->call);
	}
	release(s);
}

static void on_call_end(struct rpc_call *call, void *userdata)
{
	struct snapshot_call *s = userdata;

	(void)call;
	s->call = NULL;
	if (s->slow)
		snapshot_abandon(s->slow);
	release(s);
}

static void do_snapshot(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	static const struct snapshot_handlers handlers = { .on_progress = on_progress,
		.on_end = on_snapshot_end };
	const Bc__V1__RuntimeSnapshotRequest *request = arg;

	if (!edge_id(call, request->id))
		return;
	if (request->path[0] != '/' || strlen(request->path) > PATH_BYTES_MAX) {
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT,
		        "path: the absolute path of a new file is wanted");
		return;
	}
	if (!edge_ready(runtime, call))
		return;
	struct snapshot_call *s = calloc(1, sizeof(*s));
	if (s)
		s->slow = snapshot_begin(
		        runtime, request->id, request->with_memory, request->path, &handlers, s);
	if (!s || !s->slow) {
		free(s);
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	s->call = call;
	rpc_call_on_end(call, on_call_end, s);
}

void edge_snapshot(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeSnapshotRequest *request,
        Bc__V1__RuntimeSnapshotEvent_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_snapshot, request);
}
