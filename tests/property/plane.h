/* The control plane of a run: applies specs, holds a session that answers secret requests, and watches what the
 * converger says of each instance. Streams that break are opened again. */
#pragma once

#include "tests/property/set.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/netd.pb-c.h"

struct plane;

enum { PLANE_SECRET_SIZE = 144 };

struct plane *plane_new(struct set *set, uint64_t seed);
struct plane *plane_free(struct plane *plane);

/* Sends a spec; the answer is not waited for. */
void plane_apply(struct plane *plane, const Bc__V1__NodeSpec *spec);
/* True once no Apply is in flight. */
bool plane_is_quiet(const struct plane *plane);
uint64_t plane_accepted(const struct plane *plane); /* the highest revision that was acknowledged */
/* Runs the loop for that long. */
void plane_run(struct plane *plane, uint64_t usec);
/* Runs it until something is heard of an instance, and that long at most. */
void plane_wait(struct plane *plane, uint64_t usec);

/* NULL when the converger does not list it. */
const Bc__V1__InstanceStatus *plane_status(const struct plane *plane, const char *id);
const Bc__V1__InstanceStatus *plane_next(const struct plane *plane, size_t *cursor);
/* True while the board holds all that the converger now running said. */
bool plane_is_synced(const struct plane *plane);

/* One that is asked for by a call: each progress, then the end. */
void plane_snapshot(struct plane *plane, const Bc__V1__SnapshotCommand *command,
        void (*on_progress)(const Bc__V1__SnapshotProgress *progress, void *userdata),
        void (*on_end)(const struct rpc_status *status, void *userdata), void *userdata);
/* One that is asked for on the session; lost when there is none now. */
void plane_session_snapshot(struct plane *plane, const Bc__V1__SnapshotCommand *command);
/* What is heard of snapshots on the session, and that a new one has begun. */
void plane_follow_snapshots(struct plane *plane, void (*on_session)(void *userdata),
        void (*on_progress)(const Bc__V1__SnapshotProgress *progress, void *userdata), void *userdata);

/* Whether secrets are given or refused; a change drops the session, so that they are asked for anew. */
void plane_give_secrets(struct plane *plane, bool gives);
void plane_drop_session(struct plane *plane);
void plane_secret(const struct plane *plane, const char *ref, char ret[static PLANE_SECRET_SIZE + 1]);

/* One call, waited for. The reply is owned by the caller, NULL unless OK. */
ProtobufCMessage *plane_call(struct plane *plane, enum set_service service, struct rpc_method method,
        const ProtobufCMessage *message, struct rpc_status *ret);
#define PLANE_NETD(member) RPC_METHOD(Bc__V1__Netd_Service, bc__v1__netd__descriptor, member)
#define PLANE_CONVERGER(member) RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, member)

/* What the converger did that it must never do, or NULL. */
const char *plane_fault(const struct plane *plane);
