#include "lib/loop/job.h"

#include "lib/base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 256 }; /* buckets of the key table */

/* A lane is a key's jobs that are not finished. Its head is running or ready to run; only heads are in the key
 * table and in the ready list, so a lane costs no allocation: the head carries it. */
struct job_pool {
	struct loop *loop;  /* weak */
	pthread_t *threads; /* owned */
	size_t n_threads;
	size_t n_queued_max;
	size_t n_pending; /* loop thread only, as the next */
	void (*on_idle)(void *userdata);
	void *userdata; /* of on_idle */

	pthread_mutex_t lock; /* all that follows */
	pthread_cond_t wake;
	bool quitting;
	size_t n_waiting;                     /* not yet running */
	struct job *ready_first, *ready_last; /* weak, through job.next */
	struct job *lanes[LANES];             /* weak, through job.lane_next */
};

static size_t lane_of(const char *key)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *key; key++)
		hash = (hash ^ (uint8_t)*key) * 16777619u;
	return hash % LANES;
}

static struct job **lane_find(struct job_pool *pool, const char *key)
{
	struct job **at = &pool->lanes[lane_of(key)];

	while (*at && strcmp((*at)->key, key) != 0)
		at = &(*at)->lane_next;
	return at;
}

static void ready_push(struct job_pool *pool, struct job *job)
{
	job->next = NULL;
	if (pool->ready_last)
		pool->ready_last->next = job;
	else
		pool->ready_first = job;
	pool->ready_last = job;
	(void)pthread_cond_signal(&pool->wake);
}

static struct job *ready_pop(struct job_pool *pool)
{
	struct job *job = pool->ready_first;

	pool->ready_first = job->next;
	if (!pool->ready_first)
		pool->ready_last = NULL;
	job->next = NULL;
	return job;
}

static void lane_push(struct job_pool *pool, struct job *job)
{
	struct job **head = lane_find(pool, job->key);

	job->behind = job->lane_next = NULL;
	job->lane_last = job;
	if (*head) {
		(*head)->lane_last->behind = job;
		(*head)->lane_last = job;
		return;
	}
	*head = job;
	ready_push(pool, job);
}

/* The lane's head has run: the job behind it becomes the head, or the lane ends. */
static void lane_pop(struct job_pool *pool, struct job *job)
{
	struct job **head = lane_find(pool, job->key);
	struct job *behind = job->behind;

	assert(*head == job);
	if (!behind) {
		*head = job->lane_next;
		return;
	}
	behind->lane_last = job->lane_last;
	behind->lane_next = job->lane_next;
	*head = behind;
	ready_push(pool, behind);
}

static void on_job_done(struct loop_tag *tag, bool ok)
{
	struct job *job = CONTAINER_OF(tag, struct job, tag);
	struct job_pool *pool = job->pool;
	bool told = pool->on_idle != NULL;

	(void)ok;
	pool->n_pending--;
	job->done(job); /* may free it, and a pool that tells nobody */
	if (told && pool->n_pending == 0)
		pool->on_idle(pool->userdata);
}

static void *thread_run(void *userdata)
{
	struct job_pool *pool = userdata;

	(void)pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->ready_first && !pool->quitting)
			(void)pthread_cond_wait(&pool->wake, &pool->lock);
		if (!pool->ready_first)
			break;
		struct job *job = ready_pop(pool);

		pool->n_waiting--;
		(void)pthread_mutex_unlock(&pool->lock);
		job->run(job);
		(void)pthread_mutex_lock(&pool->lock);
		if (job->key[0])
			lane_pop(pool, job);
		/* With the lock held, so that done() of one key follow each other in order too. */
		loop_post(pool->loop, &job->tag);
	}
	(void)pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Signals belong to the loop thread. */
static int thread_start(struct job_pool *pool, const char *name)
{
	sigset_t all, before;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&pool->threads[pool->n_threads], NULL, thread_run, pool);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		return -r;
	(void)pthread_setname_np(pool->threads[pool->n_threads], name);
	pool->n_threads++;
	return 0;
}

int job_pool_new(
        struct loop *loop, const char *name, size_t n_threads, size_t n_queued_max, struct job_pool **ret)
{
	struct job_pool *pool;

	if (n_threads == 0 || n_queued_max == 0)
		return -EINVAL;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->loop = loop;
	pool->n_queued_max = n_queued_max;
	(void)pthread_mutex_init(&pool->lock, NULL);
	(void)pthread_cond_init(&pool->wake, NULL);
	pool->threads = calloc(n_threads, sizeof(*pool->threads));
	int r = pool->threads ? 0 : -ENOMEM;
	while (r == 0 && pool->n_threads < n_threads)
		r = thread_start(pool, name);
	if (r < 0) {
		job_pool_free(pool);
		return r;
	}
	*ret = pool;
	return 0;
}

static bool submit(struct job_pool *pool, struct job *job, size_t n_queued_max)
{
	job->pool = pool;
	job->tag.on_done = on_job_done;
	(void)pthread_mutex_lock(&pool->lock);
	bool full = pool->n_waiting >= n_queued_max;
	if (!full) {
		pool->n_waiting++;
		if (job->key[0])
			lane_push(pool, job);
		else
			ready_push(pool, job);
	}
	(void)pthread_mutex_unlock(&pool->lock);
	pool->n_pending += !full;
	return !full;
}

int job_submit(struct job_pool *pool, struct job *job)
{
	return submit(pool, job, pool->n_queued_max) ? 0 : -EAGAIN;
}

void job_submit_always(struct job_pool *pool, struct job *job)
{
	(void)submit(pool, job, SIZE_MAX);
}

size_t job_pool_pending(const struct job_pool *pool)
{
	return pool->n_pending;
}

void job_pool_set_idle(struct job_pool *pool, void (*on_idle)(void *userdata), void *userdata)
{
	pool->on_idle = on_idle;
	pool->userdata = userdata;
}

struct job_pool *job_pool_free(struct job_pool *pool)
{
	if (!pool)
		return NULL;
	assert(pool->n_pending == 0);
	(void)pthread_mutex_lock(&pool->lock);
	pool->quitting = true;
	(void)pthread_cond_broadcast(&pool->wake);
	(void)pthread_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < pool->n_threads; i++)
		(void)pthread_join(pool->threads[i], NULL);
	(void)pthread_cond_destroy(&pool->wake);
	(void)pthread_mutex_destroy(&pool->lock);
	free(pool->threads);
	free(pool);
	return NULL;
}
