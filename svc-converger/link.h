/* A connection to another service that may come and go: when to try, how it answers, what to say about it.
 *
 * The owner has the conversation (a greeting, a stream); a link only decides when it is begun: at once when the
 * socket appears, after a pause that grows when it failed. Absent, refused and busy stay apart. */
#pragma once

#include "lib/loop/loop.h"
#include "svc-converger/call.h"

#include <stdbool.h>
#include <stdint.h>

enum link_state {
	LINK_WAITING, /* for the next try; never answered yet, or lost */
	LINK_TRYING,  /* a conversation is begun */
	LINK_READY,   /* the owner says so */
	LINK_ABSENT,  /* waiting: no socket, or nobody behind it */
	LINK_REFUSED, /* waiting: there, but we may not */
	LINK_BUSY,    /* waiting: there, but did not answer in time */
	LINK_ERROR,   /* waiting: answered with an error, or the conversation broke */
};

struct link;

struct link_options {
	const char *path;                        /* weak */
	uint64_t call_timeout_usec;              /* of link_call_unary(); 0: 10 s */
	uint64_t retry_min_usec, retry_max_usec; /* 0: 100 ms, 10 s */
};

struct link_handlers {
	void (*on_try)(void *owner); /* begin the conversation */
	/* A call of the conversation could not be made: the owner ends it with link_failed(). */
	void (*on_lost)(void *owner, const struct rpc_status *status);
};

/* handlers and owner are weak. */
int link_new(struct loop *loop, const struct link_options *options, const struct link_handlers *handlers,
        void *owner, struct link **ret);
struct link *link_free(struct link *link); /* accepts NULL */

/* Try now: the socket appeared, or somebody asked. Nothing while TRYING or READY. */
void link_poke(struct link *link);
/* The conversation stands: the pause is short again. */
void link_ready(struct link *link);
/* It failed or broke: classed by status, tried again after a pause. True when it is not
 * the failure of the last time again. */
bool link_failed(struct link *link, const struct rpc_status *status);

/* As call_unary() and call_stream(), with the link's owner as theirs; a stream has no end of its own. */
void link_call_unary(struct link *link, struct call **slot, struct rpc_method method,
        const ProtobufCMessage *message, call_reply_fn fn);
void link_call_stream(struct link *link, struct call **slot, struct rpc_method method,
        const ProtobufCMessage *first, const struct call_stream_handlers *handlers);

extern const struct rpc_status link_no_memory;
/* How a Watch stream ended, as link_failed() needs it: its orderly end is none that was wished. Returns ret. */
const struct rpc_status *link_broken_watch(const struct rpc_status *status, struct rpc_status *ret);

enum link_state link_state(const struct link *link);
const char *link_message(const struct link *link); /* words for the last failure; "" when READY */
const char *link_path(const struct link *link);
uint64_t link_call_timeout_usec(const struct link *link);
struct rpc_channel *link_channel(const struct link *link); /* weak; never NULL */
