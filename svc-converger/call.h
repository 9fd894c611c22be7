/* A call to another service that its owner may walk away from: after call_drop() none of the owner's functions
 * runs any more, whatever still arrives. The owner keeps one `struct call *` per call in flight. */
#pragma once

#include "lib/rpc/client.h"

struct call;

typedef void (*call_reply_fn)(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner);

/* Like rpc_unary(). *slot must be NULL; it is the call until fn runs, and NULL again inside fn. */
int call_unary(struct call **slot, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, call_reply_fn fn, void *owner);

struct call_stream_handlers {
	/* The next message is read once this returns. */
	void (*on_message)(const ProtobufCMessage *message, void *owner);
	void (*on_end)(const struct rpc_status *status, void *owner); /* *slot is NULL inside */
};
/* Like rpc_stream() with a first message and nothing to send after it. handlers must outlive the call. */
int call_stream(struct call **slot, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *first, uint64_t timeout_usec, const struct call_stream_handlers *handlers,
        void *owner);

/* Cancels the call and forgets the owner; *slot becomes NULL. Accepts a NULL call. */
void call_drop(struct call **slot);
/* Cancels it; fn or on_end still runs, with CANCELLED. */
void call_cancel(struct call *call);
