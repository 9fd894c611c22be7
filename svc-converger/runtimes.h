/* The runtimes of this host: every runtime-*.sock in the run directory that answers. They come and go at any time;
 * a directory watch and each link's pauses see to that. */
#pragma once

#include "svc-converger/runtime_link.h"

struct runtimes;

enum { RUNTIMES_MAX = 64 }; /* sockets; more are not looked at */

struct runtimes_options {
	const char *run_dir; /* weak */
	struct runtime_link_options
	        link; /* path is filled in; handlers, userdata and times are each link's */
	/* Another socket has appeared in the run directory; name without the directory. May be NULL. */
	void (*on_other)(const char *name, void *userdata);
};

int runtimes_new(
        struct loop *loop, const struct runtimes_options *options, struct runtimes **ret, struct err *err);
struct runtimes *runtimes_free(struct runtimes *runtimes);

/* The runtime that calls itself id; NULL: none has, yet. A link stays found after it is lost. */
struct runtime_link *runtimes_find(const struct runtimes *runtimes, const char *id);
struct runtime_link *runtimes_next(const struct runtimes *runtimes, size_t *cursor); /* each link; from 0 */
size_t runtimes_count_named(const struct runtimes *runtimes); /* that described themselves once */
/* A socket that is there, but has not told yet whose it is: any runtime may be behind it. NULL: there is none. */
const struct runtime_link *runtimes_nameless(const struct runtimes *runtimes);
void runtimes_resync(struct runtimes *runtimes);
