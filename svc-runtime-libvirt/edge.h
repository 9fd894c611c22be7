/* bc.v1.Runtime: messages in, messages out. What the service does is elsewhere. Loop thread. */
#pragma once

#include "bc/v1/runtime.pb-c.h"
#include "svc-runtime-libvirt/runtime.h"

#include "lib/rpc/server.h"

#include <sys/queue.h>

struct edge_parked;

struct edge {
	Bc__V1__Runtime_Service service; /* what is added to a server */
	struct runtime *runtime;         /* weak */
	TAILQ_HEAD(, edge_parked)
	parked; /* owned; calls that came before libvirt was open for the first time */
	size_t n_parked;
};

void edge_init(struct edge *edge, struct runtime *runtime);
/* To be called when libvirt was opened, or could not be, and when the host is known. */
void edge_settle(struct edge *edge);

/* --- handlers in files of their own --- */

void edge_ensure(Bc__V1__Runtime_Service *service, const Bc__V1__EnsureRequest *request,
        Bc__V1__EnsureReply_Closure reply, void *closure_data);
void edge_watch(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeWatchRequest *request,
        Bc__V1__DomainEvent_Closure reply, void *closure_data);
void edge_console(Bc__V1__Runtime_Service *service, const Bc__V1__ConsoleInput *none,
        Bc__V1__ConsoleOutput_Closure reply, void *closure_data);
void edge_snapshot(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeSnapshotRequest *request,
        Bc__V1__RuntimeSnapshotEvent_Closure reply, void *closure_data);

/* --- and of edge_guest.c --- */

void edge_get_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__BalloonRequest *request,
        Bc__V1__BalloonReply_Closure reply, void *closure_data);
void edge_set_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__SetBalloonRequest *request,
        Bc__V1__BalloonReply_Closure reply, void *closure_data);
void edge_grow_volume(Bc__V1__Runtime_Service *service, const Bc__V1__GrowVolumeRequest *request,
        Bc__V1__GrowVolumeReply_Closure reply, void *closure_data);
void edge_rebind(Bc__V1__Runtime_Service *service, const Bc__V1__RebindRequest *request,
        Bc__V1__RebindReply_Closure reply, void *closure_data);

/* --- for all of them --- */

static inline struct runtime *edge_runtime(Bc__V1__Runtime_Service *service)
{
	return ((struct edge *)service)->runtime;
}
/* Calls fn now, or as soon as it is known whether libvirt can be asked: a service that has just begun makes nobody try
 * again. arg must live as long as the call. */
typedef void (*edge_fn)(struct runtime *runtime, struct rpc_call *call, const void *arg);
void edge_when_settled(Bc__V1__Runtime_Service *service, struct rpc_call *call, edge_fn fn, const void *arg);
/* Fails the call with UNAVAILABLE and returns false while libvirt cannot be asked. */
bool edge_ready(struct runtime *runtime, struct rpc_call *call);
/* Fails the call unless id is a UUID. */
bool edge_id(struct rpc_call *call, const char *id);
/* Fails the call unless key is empty or "instance:<id>:<what>". */
bool edge_key(struct rpc_call *call, const char *id, const char *key, const char *what);
/* What such a key says of a call that brings about state. */
const char *edge_apply_key(Bc__V1__InstanceSpec__DesiredState state);
