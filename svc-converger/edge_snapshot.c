/* Snapshot: begins one, or asks how far it is; tells its progress and its end. */
#include "svc-converger/edge_calls.h"
#include "svc-converger/snapshot_task.h"

#include <stdio.h>
#include <string.h>

enum { QUEUED_MAX = 16 }; /* messages waiting for a slow reader before numbers on the way are left out */

struct snapshot_call {
	struct rpc_call *call; /* weak */
	struct converger *c;   /* weak */
	struct snapshot_follower follower;
	char id[SNAPSHOT_ID_MAX];
};

static void on_snapshot_progress(
        const Bc__V1__SnapshotProgress *progress, const struct rpc_status *status, void *userdata)
{
	struct snapshot_call *sc = userdata;

	if (strcmp(progress->id, sc->id) != 0)
		return;
	if (progress->done && status->code != GRPC_STATUS_OK) {
		rpc_fail(sc->call, status->code, "%s", status->message);
		return;
	}
	/* Numbers on the way may be left out for a slow reader; the end may not. */
	if (progress->done || rpc_stream_queued(sc->call) < QUEUED_MAX)
		(void)rpc_stream_send(sc->call, &progress->base);
	if (progress->done)
		rpc_stream_finish(sc->call);
}

/* Who asked may go: the snapshot goes on, and can be asked about under its id. */
static void on_snapshot_call_end(struct rpc_call *call, void *userdata)
{
	struct snapshot_call *sc = userdata;

	(void)call;
	snapshot_tasks_unfollow(sc->c->snapshot_tasks, &sc->follower);
	free(sc);
}

void edge__snapshot(Bc__V1__Converger_Service *service, const Bc__V1__SnapshotCommand *request,
        Bc__V1__SnapshotProgress_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct converger *c = edge_converger(service);
	struct rpc_status status = { 0 };
	struct snapshot_call *sc = calloc(1, sizeof(*sc));

	(void)closure;
	if (!sc) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (snapshot_tasks_begin(c->snapshot_tasks, request, &status) < 0) {
		free(sc);
		rpc_fail(call, status.code, "%s", status.message);
		return;
	}
	rpc_call_set_subject(call, request->instance_id);
	sc->call = call;
	sc->c = c;
	(void)snprintf(sc->id, sizeof(sc->id), "%s", request->id);
	sc->follower = (struct snapshot_follower){ .on_progress = on_snapshot_progress, .userdata = sc };
	snapshot_tasks_follow(c->snapshot_tasks, &sc->follower);
	rpc_call_on_end(call, on_snapshot_call_end, sc);
	(void)snapshot_tasks_tell(c->snapshot_tasks, sc->id, &sc->follower);
}
