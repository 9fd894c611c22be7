/* What the files of the edge share, edge.c and edge_*.c: the service, and its calls that have no end of their own. */
#pragma once

#include "lib/base/cleanup.h"
#include "svc-converger/edge.h"

#include "bc/v1/converger.pb-c.h"

/* A call that at the end of the service is given an end. */
struct long_call {
	struct rpc_call *call;        /* weak */
	struct long_call *next, **at; /* weak; in the edge's list */
};

struct edge {
	Bc__V1__Converger_Service service;
	struct converger *c;          /* weak */
	struct long_call *long_calls; /* weak */
	bool is_draining;
};

static inline struct edge *edge_of(Bc__V1__Converger_Service *service)
{
	return CONTAINER_OF(service, struct edge, service);
}

static inline struct converger *edge_converger(Bc__V1__Converger_Service *service)
{
	return edge_of(service)->c;
}

/* Fails the call at once when the end has begun. long_call_end() comes with the call's own. */
void long_call_begin(struct edge *edge, struct long_call *lc, struct rpc_call *call);
void long_call_end(struct long_call *lc);

/* --- handlers in files of their own --- */

void edge__session(Bc__V1__Converger_Service *service, const Bc__V1__ControlMessage *request,
        Bc__V1__NodeMessage_Closure closure, void *closure_data);
void edge__snapshot(Bc__V1__Converger_Service *service, const Bc__V1__SnapshotCommand *request,
        Bc__V1__SnapshotProgress_Closure closure, void *closure_data);
void edge__console(Bc__V1__Converger_Service *service, const Bc__V1__ConsoleInput *request,
        Bc__V1__ConsoleOutput_Closure closure, void *closure_data);
void edge__events(Bc__V1__Converger_Service *service, const Bc__V1__EventsRequest *request,
        Bc__V1__Event_Closure closure, void *closure_data);
