/* A unary call from its request to its answer, with what faults and configured delays do to it on the way. */
#pragma once

#include "svc-runtime-fake/fake.h"

struct unary_context {
	struct fake *fake; /* weak, as all */
	const ProtobufCMessage *request;
	const struct snapshot_meta *restored; /* meta.json of an Ensure's restore_path; NULL for none */
	bool keep; /* false: everything is checked and answered, and nothing kept */
};

/* What one method does. */
struct unary_op {
	const char *method;                                    /* "SetState" */
	const char *(*id_of)(const ProtobufCMessage *request); /* NULL: it concerns no domain */
	/* *ret is the answer, the caller's to free even when this fails after setting it. */
	int (*run)(const struct unary_context *context, ProtobufCMessage **ret, struct err *err);
	bool changes; /* false: it only looks */
};

void unary_serve(
        struct fake *fake, const struct unary_op *op, const ProtobufCMessage *request, void *closure_data);
/* For streams: true when a fault ended or holds the call, which must not be served then. */
bool stream_is_faulted(struct fake *fake, const char *method, const char *id, struct rpc_call *call);
