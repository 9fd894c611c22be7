/* For tests: an echo server and a channel to it, in one process and one loop, in a directory of their own. What fails
 * in here fails the cmocka test. */
#pragma once

#include "lib/rpc/client.h"
#include "lib/rpc/test/echo_service.h"

#define ECHO(member) RPC_METHOD(Bc__Test__Echo_Service, bc__test__echo__descriptor, member)

struct echo_world {
	char dir[32], path[48];
	struct loop *loop;
	struct rpc_server *server;
	struct rpc_channel *channel;
	struct echo_service echo;
	struct rpc_status status; /* of the last unary call */
	size_t n_refused;
	struct rpc_peer refused; /* the last one */
};

/* options may be NULL; path, listen_fd, the descriptor set and on_refuse are the world's own. */
struct echo_world *echo_world_new(const struct rpc_server_options *options);
void echo_world_stop(struct echo_world *w, uint64_t grace_usec); /* the server; drains it */
void echo_world_free(struct echo_world *w);

/* Runs the loop until fn is true. */
void echo_world_until(struct echo_world *w, bool (*fn)(struct echo_world *w, void *userdata), void *userdata);
void echo_world_run_for(struct echo_world *w, uint64_t usec); /* for what must not happen meanwhile */
/* A call with m; freed by the caller, NULL unless the status is OK. */
Bc__Test__EchoMessage *echo_world_unary(struct echo_world *w, const Bc__Test__EchoMessage *m);
/* Fails unless a plain call is answered. */
void echo_world_answers(struct echo_world *w);
int echo_world_connect(const struct echo_world *w); /* a raw, non-blocking connection; owned by the caller */
