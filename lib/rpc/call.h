/* A call on the server's side, from the armed request to its last completion. Private to lib/rpc.
 *
 * Lifetime: the struct is freed when its references are gone. One is the call's own, until it is over; each started
 * batch holds one; handlers may hold more. The call is over when the peer is done with it (RECV_CLOSE_ON_SERVER
 * completed) and no batch is in flight. */
#pragma once

#include "lib/rpc/server.h"

#include <grpc/byte_buffer.h>

struct rpc_method_entry {
	struct rpc_server *server; /* weak */
	ProtobufCService *service; /* weak */
	unsigned index;
	char name[128]; /* "/bc.v1.Netd/List" */
	bool client_streams, server_streams;
	bool takes_bytes;
	bool internal; /* health, reflection: not in the audit trail */
	void *handle;  /* gRPC's; weak */
};

struct rpc_call {
	struct rpc_server *server;             /* weak */
	const struct rpc_method_entry *method; /* weak; NULL for a method that is not served */
	struct rpc_call *next, **at_next;      /* in the server's list of live calls */
	grpc_call *call;                       /* owned */
	gpr_timespec deadline;
	uint64_t
	        expires_usec; /* CLOCK_MONOTONIC; set once the answer did not come at once; UINT64_MAX: none */
	grpc_metadata_array metadata; /* owned */
	grpc_call_details details;    /* owned; of calls to methods that are not served */
	grpc_byte_buffer *payload;    /* owned; the request, then each incoming message */
	ProtobufCMessage *request;    /* owned */
	grpc_slice bytes;             /* owned; the request of a method that takes bytes */
	struct rpc_peer peer;
	char subject[RPC_SUBJECT_MAX];
	uint64_t started_usec; /* CLOCK_MONOTONIC */
	unsigned refs, n_batches;

	bool in_handler;   /* an answer given now leaves with everything else in one batch */
	bool initial_sent; /* initial metadata */
	bool close_armed, closed, over;
	bool answered; /* status is decided */
	bool status_started;
	bool sending, reading, half_closed;
	int cancelled;

	grpc_status_code code;
	char *message;            /* owned; NULL when OK */
	grpc_slice details_slice; /* owned once status_started */
	grpc_byte_buffer *answer; /* owned; of a unary call */

	/* messages waiting, a ring; owned. Allocated with the first one. */
	grpc_byte_buffer **queue;
	size_t queue_first, n_queued;
	grpc_byte_buffer *in_flight; /* owned */

	struct loop_tag on_request, on_close, on_sent, on_final, on_read;

	void (*cancel_fn)(struct rpc_call *, void *);
	void *cancel_userdata;
	void (*end_fn)(struct rpc_call *, void *);
	void *end_userdata;
	void (*writable_fn)(struct rpc_call *, void *);
	void *writable_userdata;
	void (*message_fn)(struct rpc_call *, const ProtobufCMessage *, void *);
	void *message_userdata;
};

/* A call that a request has just arrived for: parses it and runs the handler. */
void call_begin(struct rpc_call *call);
struct rpc_call *call_new(struct rpc_server *server, const struct rpc_method_entry *method);
/* An armed call that no request came for. */
void call_discard(struct rpc_call *call);

/* The server's part in a call's life (server.c). */
void server_call_over(struct rpc_server *server, struct rpc_call *call);
void server_call_freed(struct rpc_server *server);
/* The call goes on: its deadline has to be watched. */
void server_call_waits(struct rpc_server *server, struct rpc_call *call);
/* A completion of the call ran nobody's code. */
void server_quiet(struct rpc_server *server);
/* CLOCK_MONOTONIC; UINT64_MAX: none. */
uint64_t call_deadline_usec(const struct rpc_call *call);
void call_expire(struct rpc_call *call);
