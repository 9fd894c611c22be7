#include "lib/loop/job.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct loop *loop;
	struct job_pool *pool;
	pthread_t loop_thread;
};

static void fixture_init(struct fixture *f, size_t n_threads, size_t n_queued_max)
{
	f->loop_thread = pthread_self();
	assert_int_equal(loop_new(&f->loop), 0);
	assert_int_equal(job_pool_new(f->loop, "test", n_threads, n_queued_max, &f->pool), 0);
}

static void fixture_done(struct fixture *f)
{
	assert_int_equal(job_pool_pending(f->pool), 0);
	f->pool = job_pool_free(f->pool);
	f->loop = loop_free(f->loop);
}

/* What all jobs of one key share: catches two at once and any disorder. */
struct lane {
	atomic_int running;
	int last_run, last_done;
};

struct work {
	struct job job;
	struct fixture *fixture;
	struct lane *lane;
	int number;
	size_t *n_left;
};

static void work_run(struct job *job)
{
	struct work *work = CONTAINER_OF(job, struct work, job);

	assert_false(pthread_equal(pthread_self(), work->fixture->loop_thread));
	assert_int_equal(atomic_fetch_add(&work->lane->running, 1), 0);
	assert_int_equal(work->number, work->lane->last_run + 1);
	work->lane->last_run = work->number;
	assert_int_equal(atomic_fetch_sub(&work->lane->running, 1), 1);
}

static void work_done(struct job *job)
{
	struct work *work = CONTAINER_OF(job, struct work, job);

	assert_true(pthread_equal(pthread_self(), work->fixture->loop_thread));
	assert_int_equal(work->number, work->lane->last_done + 1);
	work->lane->last_done = work->number;
	if (--*work->n_left == 0)
		loop_exit(work->fixture->loop, 0);
	free(work);
}

static void jobs_of_a_key_keep_their_order(void **state)
{
	enum { KEYS = 300, ROUNDS = 20 }; /* more keys than hash buckets */
	static struct lane lanes[KEYS];
	struct fixture f;
	size_t n_left = (size_t)KEYS * ROUNDS;

	(void)state;
	fixture_init(&f, 4, n_left);
	for (int round = 1; round <= ROUNDS; round++) {
		for (int key = 0; key < KEYS; key++) {
			struct work *work = calloc(1, sizeof(*work));

			*work = (struct work){ { .run = work_run, .done = work_done }, &f, &lanes[key], round,
				&n_left };
			(void)snprintf(work->job.key, sizeof(work->job.key), "key-%d", key);
			assert_int_equal(job_submit(f.pool, &work->job), 0);
		}
	}
	assert_int_equal(loop_run(f.loop), 0);
	assert_int_equal(n_left, 0);
	fixture_done(&f);
}

/* Jobs that meet at a barrier end only if all of them run at the same time. */
struct meeting {
	struct job job;
	pthread_barrier_t *barrier;
	struct loop *loop;
	int *n_left;
};

static void meeting_run(struct job *job)
{
	(void)pthread_barrier_wait(CONTAINER_OF(job, struct meeting, job)->barrier);
}

static void meeting_done(struct job *job)
{
	struct meeting *meeting = CONTAINER_OF(job, struct meeting, job);

	if (--*meeting->n_left == 0)
		loop_exit(meeting->loop, 0);
}

static void different_keys_run_in_parallel(void **state)
{
	enum { N = 4 };
	struct meeting meetings[N];
	pthread_barrier_t barrier;
	struct fixture f;
	int n_left = N;

	(void)state;
	fixture_init(&f, N, N);
	(void)pthread_barrier_init(&barrier, NULL, N);
	for (int i = 0; i < N; i++) {
		meetings[i] = (struct meeting){ { .run = meeting_run, .done = meeting_done }, &barrier,
			f.loop, &n_left };
		if (i > 1) /* two have no key at all: those are free of each other too */
			(void)snprintf(meetings[i].job.key, JOB_KEY_MAX, "%d", i);
		assert_int_equal(job_submit(f.pool, &meetings[i].job), 0);
	}
	assert_int_equal(loop_run(f.loop), 0);
	(void)pthread_barrier_destroy(&barrier);
	fixture_done(&f);
}

/* A stuck key with many jobs behind it holds one thread; the last job of another key frees it. */
static void a_stuck_key_delays_no_other(void **state)
{
	enum { BEHIND = 10 };
	struct meeting stuck[BEHIND], other;
	pthread_barrier_t barrier, none;
	struct fixture f;
	int n_left = BEHIND + 1;

	(void)state;
	fixture_init(&f, 2, 64);
	(void)pthread_barrier_init(&barrier, NULL, 2);
	(void)pthread_barrier_init(&none, NULL, 1);
	for (int i = 0; i < BEHIND; i++) {
		stuck[i] = (struct meeting){ { .run = meeting_run, .done = meeting_done, .key = "stuck" },
			i == 0 ? &barrier : &none, f.loop, &n_left };
		assert_int_equal(job_submit(f.pool, &stuck[i].job), 0);
	}
	other = (struct meeting){ { .run = meeting_run, .done = meeting_done, .key = "other" }, &barrier,
		f.loop, &n_left };
	assert_int_equal(job_submit(f.pool, &other.job), 0);
	assert_int_equal(loop_run(f.loop), 0);
	(void)pthread_barrier_destroy(&barrier);
	(void)pthread_barrier_destroy(&none);
	fixture_done(&f);
}

static void a_full_queue_refuses_and_keeps_nothing(void **state)
{
	enum { QUEUED = 3 };
	struct meeting jobs[1 + QUEUED], refused;
	pthread_barrier_t barrier, none;
	struct fixture f;
	int n_left = 1 + QUEUED;

	(void)state;
	fixture_init(&f, 1, 1 + QUEUED);
	(void)pthread_barrier_init(&barrier, NULL, 2);
	(void)pthread_barrier_init(&none, NULL, 1);
	for (int i = 0; i < 1 + QUEUED; i++) {
		jobs[i] = (struct meeting){ { .run = meeting_run, .done = meeting_done, .key = "k" },
			i == 0 ? &barrier : &none, f.loop, &n_left };
		assert_int_equal(job_submit(f.pool, &jobs[i].job), 0);
	}
	refused = (struct meeting){ { .run = meeting_run, .done = meeting_done, .key = "k" }, &none, f.loop,
		&n_left };
	int n_accepted = 0; /* at most one more: the thread may have taken the first already */
	if (job_submit(f.pool, &refused.job) == 0) {
		n_left++;
		n_accepted++;
	}
	struct meeting again = refused, release = refused;
	/* but what has to be released finds room */
	job_submit_always(f.pool, &release.job);
	n_left++;
	if (n_accepted)
		assert_int_equal(job_submit(f.pool, &again.job), -EAGAIN);
	assert_int_equal(job_pool_pending(f.pool), 2 + QUEUED + n_accepted);
	(void)pthread_barrier_wait(&barrier);
	assert_int_equal(loop_run(f.loop), 0);
	(void)pthread_barrier_destroy(&barrier);
	(void)pthread_barrier_destroy(&none);
	fixture_done(&f);
}

static void a_pool_without_threads_or_queue_is_refused(void **state)
{
	struct fixture f;
	struct job_pool *pool = NULL;

	(void)state;
	fixture_init(&f, 1, 1);
	assert_int_equal(job_pool_new(f.loop, "t", 0, 1, &pool), -EINVAL);
	assert_int_equal(job_pool_new(f.loop, "t", 1, 0, &pool), -EINVAL);
	assert_null(pool);
	assert_null(job_pool_free(NULL));
	fixture_done(&f);
}

/* A chain: each job's done() submits the next, until none is left. */
struct link {
	struct job job;
	struct fixture *fixture;
	int n_left, n_idle;
};

static void link_run(struct job *job)
{
	(void)job;
}

static void link_done(struct job *job)
{
	struct link *link = CONTAINER_OF(job, struct link, job);

	assert_int_equal(link->n_idle, 0);
	if (--link->n_left > 0)
		assert_int_equal(job_submit(link->fixture->pool, &link->job), 0);
}

static void on_idle(void *userdata)
{
	struct link *link = userdata;

	link->n_idle++;
	loop_exit(link->fixture->loop, 0);
}

static void idle_is_told_when_nothing_is_pending(void **state)
{
	struct fixture f;
	struct link link = { .job = { .run = link_run, .done = link_done }, .fixture = &f, .n_left = 100 };

	(void)state;
	fixture_init(&f, 2, 8);
	job_pool_set_idle(f.pool, on_idle, &link);
	assert_int_equal(job_submit(f.pool, &link.job), 0);
	assert_int_equal(loop_run(f.loop), 0);
	assert_int_equal(link.n_left, 0);
	assert_int_equal(link.n_idle, 1);
	fixture_done(&f);
}

TEST_SUITE(job_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_of_a_key_keep_their_order),
		cmocka_unit_test(different_keys_run_in_parallel),
		cmocka_unit_test(a_stuck_key_delays_no_other),
		cmocka_unit_test(a_full_queue_refuses_and_keeps_nothing),
		cmocka_unit_test(idle_is_told_when_nothing_is_pending),
		cmocka_unit_test(a_pool_without_threads_or_queue_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
