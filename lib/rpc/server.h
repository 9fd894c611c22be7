/* A gRPC server over protobuf-c services, on one Unix socket.
 *
 * A service is protobuf-c's own: fill the generated Bc__V1__X_Service with BC__V1__X__INIT(prefix) and add it;
 * dispatch, request and reply types come from its descriptor, streaming from the embedded FileDescriptorSet.
 * Handlers run on the loop thread and never block: slow work goes to a job_pool (lib/loop/job.h), with a
 * reference on the call until the answer is given.
 *
 *   static void netd__list(Bc__V1__Netd_Service *service, const Bc__V1__ListRequest *req,
 *                          Bc__V1__ListReply_Closure reply, void *closure_data)
 *   {
 *           struct rpc_call *call = rpc_call_of(closure_data);
 *           ...
 *           reply(&answer, closure_data);          unary: answers and ends the call
 *           rpc_fail(call, GRPC_STATUS_NOT_FOUND, "interface '%s' is not ours", name);      or this
 *   }
 *
 * A call is answered exactly once. The request stays valid until the call is answered or, for asynchronous
 * handlers, while they hold a reference. Health and reflection (v1, v1alpha) are always served. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/rpc/status.h"

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <sys/types.h>

struct rpc_server;
struct rpc_call;

struct rpc_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/* One call, when it is over: for the log and the audit trail. Valid during the hook. */
struct rpc_call_record {
	const char *method; /* "bc.v1.Netd/List" */
	struct rpc_peer peer;
	const char *subject; /* what rpc_call_set_subject() said; "" when nothing did */
	grpc_status_code code;
	const char *message; /* "" when OK */
	uint64_t duration_usec;
};

struct rpc_server_options {
	const char *path; /* weak; for messages and for bind when listen_fd is -EBADF */
	int listen_fd; /* consumed; a listening socket from systemd, or -EBADF to bind path with a lock file */
	mode_t mode;   /* of a socket bound here; 0: 0660 */
	const uid_t *allowed_uids; /* copied; the server's own uid and root are always allowed */
	size_t n_allowed_uids;
	bool any_uid; /* no uid check (filesystem permissions alone decide) */
	/* 0: 256. At the limit the oldest connection that no call came over gives way. */
	size_t n_connections_max;
	size_t n_calls_max; /* live calls; 0: 4096; above it RESOURCE_EXHAUSTED */
	/* Runs once for each call that reached a method, health and reflection left out; NULL for none. It is for
	 * the log: it leaves the loop's event sources alone. */
	void (*on_call_end)(const struct rpc_call_record *record, void *userdata);
	/* Runs for each connection that is closed without a word; why goes on from "refused: ". NULL for none. */
	void (*on_refuse)(const struct rpc_peer *peer, const char *why, void *userdata);
	void *userdata; /* weak; of both */
	/* Weak; a serialized FileDescriptorSet with every service; NULL: the embedded one (protos/). */
	const unsigned char *descriptor_set;
	size_t n_descriptor_set;
};

int rpc_server_new(struct loop *loop, const struct rpc_server_options *options, struct rpc_server **ret,
        struct err *err);
/* service must outlive the server. -EINVAL if its descriptor is not in the FileDescriptorSet. */
int rpc_server_add(struct rpc_server *server, ProtobufCService *service);
/* Requests of this method are not unpacked: its handler is given NULL, and the wire bytes by rpc_call_bytes(), which it
 * parses as lib/rpc/intake.h does. Unary or server-streaming. -ENOENT: no service added has it. */
int rpc_server_take_bytes(struct rpc_server *server, const char *method /* "bc.v1.Converger/Apply" */);
int rpc_server_start(struct rpc_server *server, struct err *err);
/* Health of one service ("" for the whole): SERVING by default once started. Watchers hear of it. */
void rpc_server_set_serving(struct rpc_server *server, const char *service_name, bool serving);
/* Refuses new calls, lets live ones end, cancels them after grace_usec, then calls on_drained once. */
void rpc_server_drain(struct rpc_server *server, uint64_t grace_usec,
        void (*on_drained)(struct rpc_server *server, void *userdata), void *userdata);
size_t rpc_server_live_calls(const struct rpc_server *server);
struct rpc_server *rpc_server_free(struct rpc_server *server); /* after on_drained, or never started */

/* --- in handlers, on the loop thread --- */

struct rpc_call *rpc_call_of(void *closure_data);
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);
const char *rpc_call_method(const struct rpc_call *call); /* "bc.v1.Netd/List" */
enum { RPC_SUBJECT_MAX = 64 };                            /* bytes with the NUL; longer ones are cut */
/* What the call is about, an instance id for instance: copied, for on_call_end. Handlers set it once it is
 * validated. */
void rpc_call_set_subject(struct rpc_call *call, const char *subject);
/* The request of a method that takes bytes; weak, valid as long as a request is. */
const void *rpc_call_bytes(const struct rpc_call *call, size_t *ret_size);
/* Time left until the caller's deadline; UINT64_MAX when it set none. */
uint64_t rpc_call_time_left_usec(const struct rpc_call *call);

/* While held the call struct and its request stay valid. Every ref is paired with an unref. */
struct rpc_call *rpc_call_ref(struct rpc_call *call);
struct rpc_call *rpc_call_unref(struct rpc_call *call);

/* Ends the call with an error. A call that ended already (cancelled, deadline) ignores it. */
void rpc_fail(struct rpc_call *call, grpc_status_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
void rpc_fail_err(struct rpc_call *call, int r, const struct err *err); /* code from errno, words from err */

/* fn runs once when the caller cancels, vanishes or its deadline passes before the answer; not after it. */
void rpc_call_on_cancel(
        struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata);
bool rpc_call_is_cancelled(const struct rpc_call *call);

/* Asynchronous unary answer, where closure and closure_data were not kept. message is serialised at once. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);

/* --- streams: server-streaming handlers get the request; client- and bidi-streaming ones get NULL --- */

enum { RPC_STREAM_QUEUE_MAX = 64 }; /* messages waiting to be sent; more is the handler's fault: coalesce */

/* Queues a message (serialised at once). -EAGAIN when the queue is full: wait for on_writable, coalesce.
 * -ECANCELED once the call has ended. */
int rpc_stream_send(struct rpc_call *call, const ProtobufCMessage *message);
size_t rpc_stream_queued(const struct rpc_call *call);
/* fn runs each time the queue drains to empty. */
void rpc_stream_on_writable(
        struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata);
/* Incoming messages of client- and bidi-streaming calls. fn gets each message (valid during fn only), then
 * NULL once when the client half-closed. The next is read only after rpc_stream_read(): that is the flow
 * control. */
void rpc_stream_on_message(struct rpc_call *call,
        void (*fn)(struct rpc_call *call, const ProtobufCMessage *message, void *userdata), void *userdata);
void rpc_stream_read(struct rpc_call *call);
/* Sends what is queued, then status OK. */
void rpc_stream_finish(struct rpc_call *call);
/* fn runs exactly once when the call is over for whatever reason (the place to release userdata). */
void rpc_call_on_end(
        struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata);
