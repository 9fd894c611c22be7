/* What bcctl's exit code says; part of its interface, listed in bcctl(1). */
#pragma once

#include "lib/rpc/status.h"

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,      /* it was tried and failed */
	EXIT_USAGE = 2,       /* what was asked for, or a file that was given, is not valid */
	EXIT_NOT_FOUND = 3,   /* no such instance, volume, interface, … */
	EXIT_ABSENT = 4,      /* nobody listens: the service does not run */
	EXIT_REFUSED = 5,     /* it runs, and we may not */
	EXIT_CONFLICT = 6,    /* wrong state: stale revision, taken, already there, not running */
	EXIT_TIMEOUT = 7,     /* no answer in time, or a wait that ran out */
	EXIT_NO_CAPACITY = 8, /* the host has no room for it */
	EXIT_UNSUPPORTED = 9, /* this service or runtime cannot do that */
	EXIT_INTERRUPTED = 130,
};

/* EXIT_OK for OK. */
enum exit_code exit_code_of(const struct rpc_status *status);
/* One line per code for --help and tests; NULL for a number that is none. */
const char *exit_code_text(int code);
