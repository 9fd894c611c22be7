/* What the parts of an operation share: the operation itself, how it calls, and how it ends. Private to operation.c and
 * the *_steps.c. Each step ends the operation, at once or when what it waits for has come: exactly one of
 * operation_succeed() and operation_fail*() runs, and op is gone then. */
#pragma once

#include "svc-converger/operation.h"

#include "lib/rpc/client.h"
#include "svc-converger/call.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/trouble.h"

#include "bc/v1/netd.pb-c.h"
#include "bc/v1/runtime.pb-c.h"

enum { USES_MAX = 32 };

struct operation {
	struct converger *c;       /* weak */
	struct instance *instance; /* weak; it outlives the operation */
	enum machine_action action;
	struct runtime_link *runtime; /* weak; never freed while an operation is in flight; may be NULL */
	unsigned lane;
	struct call *call;                /* owned while in flight */
	Bc__V1__InstanceSpec *spec;       /* owned; the wish it began with; NULL where none is needed */
	size_t at;                        /* the NIC or volume whose turn it is */
	uint64_t grown_bytes;             /* of the volumes the guest was told of */
	uint64_t nics_hash, started_hash; /* of that wish */
	bool uses_netd, is_job;           /* likewise */
	struct removal *removal;          /* owned; for MARK_REMOVAL until it is written */
	struct store_facts facts;         /* for RECORD until it is written */
	struct job job;                   /* for REMOVE_FILES */
	char path[512];
	int job_result;
	grpc_status_code failure; /* of a START, while it is looked whether it came up all the same */
	/* A failed start gives its interfaces back before it ends with what failed. */
	enum trouble_kind kind;
	const char *reason; /* static */
	char message[512];
};

#define RUNTIME(member) RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, member)
#define NETD(member) RPC_METHOD(Bc__V1__Netd_Service, bc__v1__netd__descriptor, member)

void operation_succeed(struct operation *op);
void operation_end(struct operation *op); /* what troubles the instance is as it was */
/* A start gives back what it holds first, unless the outcome is unknown: then its VMM may be there. reason is static. */
void operation_fail(struct operation *op, enum trouble_kind kind, const char *reason, const char *message,
        bool outcome_is_known);
void operation_fail_status(struct operation *op, const struct rpc_status *status);
void operation_fail_outcome(struct operation *op, const struct rpc_status *status, bool outcome_is_known);
void operation_fail_err(struct operation *op, int r, const struct err *err); /* err may be NULL */

/* fn runs once, with op as its owner; a call that cannot be made ends the operation. */
void operation_call_runtime(struct operation *op, struct rpc_method method, const ProtobufCMessage *message,
        uint64_t timeout_usec, call_reply_fn fn);
/* The same for the store; batch is consumed, NULL is out of memory. */
void operation_commit(struct operation *op, struct store_batch *batch, store_lane_fn fn);
/* The attempt of a start, its memory charged. */
int operation_make_attempt(struct operation *op);
const char *operation_state_word(Bc__V1__InstanceSpec__DesiredState state); /* "RUNNING" */

/* removal_steps.c */
void operation_mark_removal(struct operation *op, const struct instance_view *view);
void operation_remove_domain(struct operation *op);
void operation_remove_files(struct operation *op);
void operation_forget_removal(struct operation *op);
/* record_steps.c */
void operation_record(struct operation *op);
/* nic_steps.c */
void operation_prepare_nics(struct operation *op);
void operation_set_policies(struct operation *op);
void operation_release_nics(struct operation *op);
/* define_steps.c; is_new: its runtime has no domain of it */
void operation_define(struct operation *op, bool is_new);
/* state_steps.c */
void operation_set_state(struct operation *op, Bc__V1__InstanceSpec__DesiredState state);
/* guest_steps.c */
void operation_grow_volumes(struct operation *op);
void operation_rebind(struct operation *op);
