/* Blocking work off the loop thread: a small bounded pool in which jobs of one key run one after another, in
 * order of submission, and jobs of different keys in parallel. One stuck key never delays another while a thread
 * is left. A key's next run() may start before the done() of the one before it; the done()s keep the order too. */
#pragma once

#include "lib/loop/loop.h"

#include <stddef.h>

enum { JOB_KEY_MAX = 64 }; /* bytes with the NUL; an instance id fits */

struct job_pool;

/* Embedded in the caller's own struct, which carries copies of what run() needs: run() is on a pool thread and
 * sees no live object; done() is on the loop thread and may free the job. Each runs exactly once. */
struct job {
	void (*run)(struct job *job);
	void (*done)(struct job *job);
	char key[JOB_KEY_MAX]; /* "" for no order with others */
	/* private to the pool */
	struct loop_tag tag;
	struct job_pool *pool; /* weak */
	struct job *next;      /* weak; ready to run after this one */
	struct job *behind;    /* weak; of the same key, waits for this one */
	struct job *lane_last; /* weak; in the first of a key: its last */
	struct job *lane_next; /* weak; in the first of a key: the next key of the same hash */
};

/* name is the threads' name (at most 12 bytes); n_queued_max bounds jobs waiting, over all keys. */
int job_pool_new(struct loop *loop, const char *name, size_t n_threads, size_t n_queued_max,
        struct job_pool **ret); /* both numbers at least 1 */
/* -EAGAIN when n_queued_max jobs wait already; nothing is kept then. */
int job_submit(struct job_pool *pool, struct job *job);
/* However many wait: for what has to be released, which nobody could try again. */
void job_submit_always(struct job_pool *pool, struct job *job);
size_t job_pool_pending(const struct job_pool *pool); /* submitted, done() not yet called; loop thread */
/* on_idle runs on the loop thread after each done() that leaves nothing pending. It must not free the pool. */
void job_pool_set_idle(struct job_pool *pool, void (*on_idle)(void *userdata), void *userdata);
/* Waits for running jobs; every job must be done before. Accepts NULL. */
struct job_pool *job_pool_free(struct job_pool *pool);
