/* The audit trail: who called what that changes something, and how it ended. */
#pragma once

#include "lib/rpc/server.h"

#include <stdbool.h>

/* False for methods that only look. One that is not known counts as changing something. */
bool audit_concerns(const char *method);
/* For rpc_server_options.on_call_end: one log line with the peer's uid, gid and pid for each call that
 * changes something; the others at debug level only. */
void audit_call_end(const struct rpc_call_record *record, void *userdata);

/* Connections that were closed without a word: who, why; one line a second at most. */
struct audit_refusals {
	uint64_t logged_usec; /* CLOCK_MONOTONIC */
	size_t n_silent;      /* since then */
};
void audit_refuse(struct audit_refusals *refusals, const struct rpc_peer *peer, const char *why);
