#include "svc-converger/store_lane.h"

#include "lib/base/cleanup.h"
#include "lib/loop/job.h"

#include <stdlib.h>

struct ticket {
	struct ticket *next;
	struct store_batch *batch; /* owned */
	store_lane_fn fn;          /* may be NULL */
	void *userdata;            /* weak */
};

enum { TOGETHER_MAX = 256 }; /* batches of one transaction */

struct store_lane {
	struct store *store;         /* owned */
	struct job_pool *pool;       /* owned; of one thread */
	struct ticket *first, *last; /* owned; waiting */
	size_t n_waiting, n_writing;
	/* The commit being written; the pool thread reads batches, the loop everything else. */
	struct job job;
	struct ticket *writing;                    /* owned */
	struct store_batch *batches[TOGETHER_MAX]; /* weak; writing's */
	int r;
	struct err err;
};

static void on_run(struct job *job)
{
	struct store_lane *lane = CONTAINER_OF(job, struct store_lane, job);

	lane->r = store_commit(lane->store, lane->batches, lane->n_writing, &lane->err);
}

static void lane_begin(struct store_lane *lane);

static void on_done(struct job *job)
{
	struct store_lane *lane = CONTAINER_OF(job, struct store_lane, job);
	struct ticket *ticket = lane->writing;
	struct err err = lane->err;
	int r = lane->r;

	lane->writing = NULL;
	lane->n_writing = 0;
	/* The next one is written while the answers are given. */
	lane_begin(lane);
	while (ticket) {
		struct ticket *next = ticket->next;

		store_batch_free(ticket->batch);
		if (ticket->fn)
			ticket->fn(r, &err, ticket->userdata);
		free(ticket);
		ticket = next;
	}
}

static void lane_begin(struct store_lane *lane)
{
	struct ticket **at = &lane->first;

	if (lane->writing || !lane->first)
		return;
	for (; *at && lane->n_writing < TOGETHER_MAX; at = &(*at)->next)
		lane->batches[lane->n_writing++] = (*at)->batch;
	lane->n_waiting -= lane->n_writing;
	lane->writing = lane->first;
	lane->first = *at;
	*at = NULL;
	if (!lane->first)
		lane->last = NULL;
	lane->err = (struct err){ 0 };
	lane->job = (struct job){ .run = on_run, .done = on_done };
	(void)job_submit(lane->pool, &lane->job); /* one job at a time: it is never full */
}

int store_lane_new(struct loop *loop, struct store *store_consume, struct store_lane **ret)
{
	struct store_lane *lane = calloc(1, sizeof(*lane));
	int r;

	if (!lane)
		return -ENOMEM;
	r = job_pool_new(loop, "bc-store", 1, 1, &lane->pool);
	if (r < 0) {
		free(lane);
		return r;
	}
	lane->store = store_consume;
	*ret = lane;
	return 0;
}

struct store_lane *store_lane_free(struct store_lane *lane)
{
	if (!lane)
		return NULL;
	job_pool_free(lane->pool);
	store_close(lane->store);
	free(lane);
	return NULL;
}

int store_lane_commit(
        struct store_lane *lane, struct store_batch *batch_consume, store_lane_fn fn, void *userdata)
{
	struct ticket *ticket = calloc(1, sizeof(*ticket));

	if (!ticket || !batch_consume) {
		store_batch_free(batch_consume);
		free(ticket);
		return -ENOMEM;
	}
	*ticket = (struct ticket){ .batch = batch_consume, .fn = fn, .userdata = userdata };
	if (lane->last)
		lane->last->next = ticket;
	else
		lane->first = ticket;
	lane->last = ticket;
	lane->n_waiting++;
	lane_begin(lane);
	return 0;
}

size_t store_lane_pending(const struct store_lane *lane)
{
	return lane->n_waiting + lane->n_writing;
}
