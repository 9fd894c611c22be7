/* A gRPC client over protobuf-c descriptors: of a Unix socket, or of a TLS address (the control plane's).
 *
 * The Unix connection is made here, so that absent, refusing and busy stay three answers
 * (rpc_status.errno_hint). It is made at the first call, kept, and made anew at the next call after it
 * broke: a caller that wants to wait for a service retries with rpc_backoff. Everything runs on the loop
 * thread; callbacks too. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/rpc/status.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_channel;
struct rpc_request;

enum { RPC_PING_MSEC = 6 * 60 * 1000 };

struct rpc_tls {
	const char *ca_pem;   /* PEM text; all weak, copied */
	const char *cert_pem; /* the node's own */
	const char *key_pem;
	uint64_t ping_usec; /* of silence, then the peer is asked whether it is there; 0: RPC_PING_MSEC */
};

int rpc_channel_new_unix(struct loop *loop, const char *path, struct rpc_channel **ret);
/* target is host:port; the certificate must match host. */
int rpc_channel_new_tls(struct loop *loop, const char *target, const struct rpc_tls *tls,
        struct rpc_channel **ret, struct err *err);
struct rpc_channel *rpc_channel_free(
        struct rpc_channel *channel); /* cancels what is in flight; accepts NULL */

/* A method, named through the generated service struct so that the compiler checks it:
 *   RPC_METHOD(Bc__V1__Netd_Service, bc__v1__netd__descriptor, prepare_bridge)               */
struct rpc_method {
	const ProtobufCServiceDescriptor *service;
	unsigned index;
};
#define RPC_METHOD(service_type, service_descriptor, member)                                                 \
	((struct rpc_method){ &(service_descriptor),                                                         \
	        (unsigned)((offsetof(service_type, member) - sizeof(ProtobufCService)) /                     \
	                sizeof(void (*)(void))) })

/* reply is NULL unless status->code is OK; both valid during the call only. Runs exactly once, never from
 * inside rpc_unary(). */
typedef void (*rpc_reply_fn)(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata);

/* Starts a unary call. message is serialised at once. timeout_usec bounds it (must not be 0). Returns the
 * request, weak: valid until fn has run; rpc_cancel() makes fn run with CANCELLED. */
struct rpc_request *rpc_unary(struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, rpc_reply_fn fn, void *userdata);
void rpc_cancel(struct rpc_request *request); /* unary or stream; accepts NULL */

/* A stream of any kind. on_message gets each message (valid during the call), then flow control: the next
 * is read after rpc_request_read(). on_end runs exactly once, last. For server-streaming pass the request
 * as first and the sending side is closed at once. timeout_usec UINT64_MAX: none. */
struct rpc_stream_handlers {
	void (*on_message)(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata);
	void (*on_writable)(struct rpc_request *stream, void *userdata); /* queue drained; may be NULL */
	void (*on_end)(const struct rpc_status *status, void *userdata);
};
struct rpc_request *rpc_stream(struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *first, uint64_t timeout_usec, const struct rpc_stream_handlers *handlers,
        void *userdata);
void rpc_request_read(struct rpc_request *stream);
int rpc_request_send(struct rpc_request *stream, const ProtobufCMessage *message); /* -EAGAIN when full */
void rpc_request_close_send(struct rpc_request *stream);

/* Jittered exponential backoff: the next pause, from min doubling to max, each ±25 %. */
struct rpc_backoff {
	uint64_t min_usec, max_usec, next_usec;
};
uint64_t rpc_backoff_next(struct rpc_backoff *backoff);
void rpc_backoff_reset(struct rpc_backoff *backoff);

/* For command-line tools: runs the loop until the unary call is answered. *ret_reply is owned by the
 * caller (protobuf_c_message_free_unpacked). Returns -errno by rpc_errno_from_code(), words in ret_status.
 * A loop_exit() of somebody else cancels the call. */
int rpc_call_sync(struct loop *loop, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, ProtobufCMessage **ret_reply,
        struct rpc_status *ret_status);
