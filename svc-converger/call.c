#include "svc-converger/call.h"

#include <errno.h>
#include <stdlib.h>

struct call {
	struct call **slot;          /* weak; NULL once dropped */
	struct rpc_request *request; /* weak */
	call_reply_fn fn;
	const struct call_stream_handlers *handlers; /* weak; NULL: unary */
	void *owner;                                 /* weak */
};

static struct call *call_new(struct call **slot, void *owner)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->slot = slot;
	call->owner = owner;
	return call;
}

static void on_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct call *call = userdata;

	if (call->slot) {
		*call->slot = NULL;
		call->fn(status, reply, call->owner);
	}
	free(call);
}

int call_unary(struct call **slot, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, call_reply_fn fn, void *owner)
{
	struct call *call = call_new(slot, owner);

	if (!call)
		return -ENOMEM;
	call->fn = fn;
	call->request = rpc_unary(channel, method, message, timeout_usec, on_reply, call);
	if (!call->request) {
		free(call);
		return -ENOMEM;
	}
	*slot = call;
	return 0;
}

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct call *call = userdata;

	if (call->slot)
		call->handlers->on_message(message, call->owner);
	if (call->slot) /* not dropped meanwhile */
		rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct call *call = userdata;

	if (call->slot) {
		*call->slot = NULL;
		call->handlers->on_end(status, call->owner);
	}
	free(call);
}

int call_stream(struct call **slot, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *first, uint64_t timeout_usec, const struct call_stream_handlers *handlers,
        void *owner)
{
	static const struct rpc_stream_handlers forward = { .on_message = on_message, .on_end = on_end };
	struct call *call = call_new(slot, owner);

	if (!call)
		return -ENOMEM;
	call->handlers = handlers;
	call->request = rpc_stream(channel, method, first, timeout_usec, &forward, call);
	if (!call->request) {
		free(call);
		return -ENOMEM;
	}
	*slot = call;
	rpc_request_read(call->request);
	return 0;
}

void call_drop(struct call **slot)
{
	struct call *call = *slot;

	if (!call)
		return;
	*slot = NULL;
	call->slot = NULL;
	rpc_cancel(call->request);
}

void call_cancel(struct call *call)
{
	if (call)
		rpc_cancel(call->request);
}
