/* The socket of one service, and calls through it that say on stderr what went wrong. */
#pragma once

#include "cli/cli.h"
#include "lib/base/cleanup.h"
#include "lib/rpc/client.h"

struct door {
	struct cli *cli;  /* weak */
	char service[48]; /* "bc-converger" */
	char unit[64];    /* as systemctl and journalctl know it: a plugin's is an instance of a template */
	char path[108];
	struct rpc_channel *channel; /* owned */
};
#define DOOR_EMPTY ((struct door){ 0 })

/* name is the socket's, without ".sock": "converger", "runtime-fake". Nothing is connected yet. An exit code. */
int door_open(struct cli *cli, const char *name, struct door *ret);
void door_done(struct door *door);
#define CLEANUP_DOOR __attribute__((cleanup(door_done)))

/* A unary call, bounded by the global time-out. EXIT_OK and *ret_reply, owned by the caller; else what
 * door_failed() said. The second form leaves saying it to the caller. */
int door_call(struct door *door, struct rpc_method method, const ProtobufCMessage *message,
        ProtobufCMessage **ret_reply);
int door_try(struct door *door, struct rpc_method method, const ProtobufCMessage *message,
        uint64_t timeout_usec, ProtobufCMessage **ret_reply, struct rpc_status *ret_status);

/* Says why a call through this door failed (absent, refused and busy apart), and gives its exit code. */
int door_failed(const struct door *door, const struct rpc_status *status);
/* The same as words, for lines of a table: "absent: …". Returns buf. */
char *door_failure_text(const struct door *door, const struct rpc_status *status, char *buf, size_t size);

#define DOOR_METHOD(service, member)                                                                         \
	RPC_METHOD(Bc__V1__##service##_Service, DOOR_DESCRIPTOR_##service, member)
#define DOOR_DESCRIPTOR_Converger bc__v1__converger__descriptor
#define DOOR_DESCRIPTOR_Netd bc__v1__netd__descriptor
#define DOOR_DESCRIPTOR_Runtime bc__v1__runtime__descriptor
#define DOOR_DESCRIPTOR_Intelligence bc__v1__intelligence__descriptor

static inline void cleanup_message(ProtobufCMessage **message)
{
	if (*message)
		protobuf_c_message_free_unpacked(*message, NULL);
}
#define CLEANUP_MESSAGE __attribute__((cleanup(cleanup_message)))

/* A server stream, run to its end on the loop. on_message returns false to end it early (then EXIT_OK is returned);
 * it may be called with NULL never. timeout_usec UINT64_MAX: none. *ret_status is how it ended. */
struct door_stream {
	bool (*on_message)(const ProtobufCMessage *message, void *userdata);
	void *userdata;
};
int door_stream(struct door *door, struct rpc_method method, const ProtobufCMessage *first,
        uint64_t timeout_usec, const struct door_stream *stream, struct rpc_status *ret_status);
