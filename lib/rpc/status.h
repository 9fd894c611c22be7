/* A call's outcome: a canonical gRPC code and the words for it. The only place where -errno becomes a code. */
#pragma once

#include "lib/base/err.h"

#include <grpc/status.h>
#include <stdbool.h>

/* Bytes of a message with the NUL; longer ones are cut. A refused NodeSpec lists 20 faults in it. gRPC takes at
 * most 8 KiB of metadata, percent-encoded. */
enum { RPC_MESSAGE_MAX = 4096 };

struct rpc_status {
	grpc_status_code code;
	char message[RPC_MESSAGE_MAX]; /* "" when OK */
	int errno_hint; /* client side: the -errno of a failed connect (-ENOENT, -ECONNREFUSED: absent;
				     * -EACCES: refused); -ECONNRESET of one that ended before it answered
				     * anything, as it does for a uid that is not allowed; else 0 */
};

/* Sets code and message, and returns the -errno of the code. */
int rpc_status_set(struct rpc_status *status, grpc_status_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

grpc_status_code rpc_code_from_errno(int r);
/* For clients: the -errno of a code (0 for OK), the inverse of rpc_code_from_errno() as far as it has one. */
int rpc_errno_from_code(grpc_status_code code);
const char *rpc_code_to_string(grpc_status_code code); /* "INVALID_ARGUMENT"; NULL for an unknown number */
/* True when nobody listens: the one answer that means absence. Refused and busy are not. */
bool rpc_status_absent(const struct rpc_status *status);
