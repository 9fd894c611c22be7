#include "svc-runtime-libvirt/job_guard.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_USEC (USEC_PER_SEC / 2)

struct job_guard {
	virDomainPtr domain; /* weak */
	uint64_t total_bytes;
	uint64_t deadline_usec; /* monotonic */
	progress_fn progress;   /* may be NULL */
	void *userdata;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool end;
	int r; /* why it was aborted */
};

/* True when it is time to look, false when the call has ended. */
static bool guard_wait(struct job_guard *guard)
{
	uint64_t until = clock_monotonic_usec() + LOOK_USEC;
	struct timespec at = { .tv_sec = (time_t)(until / USEC_PER_SEC),
		.tv_nsec = (long)(until % USEC_PER_SEC * NSEC_PER_USEC) };
	int r = 0;

	(void)pthread_mutex_lock(&guard->lock);
	while (!guard->end && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&guard->ended, &guard->lock, &at);
	bool end = guard->end;
	(void)pthread_mutex_unlock(&guard->lock);
	return !end;
}

static int guard_look(const struct job_guard *guard)
{
	virDomainJobInfo info = { 0 };

	if (clock_monotonic_usec() >= guard->deadline_usec)
		return -ETIMEDOUT;
	if (!guard->progress)
		return 0;
	uint64_t done = virDomainGetJobInfo(guard->domain, &info) == 0 ? info.dataProcessed : 0;
	return guard->progress(
	        done < guard->total_bytes ? done : guard->total_bytes, guard->total_bytes, guard->userdata);
}

static void *guard_run(void *arg)
{
	struct job_guard *guard = arg;

	(void)pthread_setname_np(pthread_self(), "bc-guard");
	while (guard_wait(guard)) {
		if (guard->r == 0)
			guard->r = guard_look(guard);
		/* Again each time: the job may not have begun, or not be one that can be aborted yet. */
		if (guard->r < 0)
			(void)virDomainAbortJob(guard->domain);
	}
	return NULL;
}

int job_guard_new(virDomainPtr domain, uint64_t total_bytes, uint64_t timeout_usec, progress_fn progress,
        void *userdata, struct job_guard **ret)
{
	struct job_guard *guard = calloc(1, sizeof(*guard));
	pthread_condattr_t attr;

	if (!guard)
		return -ENOMEM;
	*guard = (struct job_guard){ .domain = domain,
		.total_bytes = total_bytes,
		.deadline_usec = clock_monotonic_usec() + timeout_usec,
		.progress = progress,
		.userdata = userdata };
	(void)pthread_mutex_init(&guard->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&guard->ended, &attr);
	(void)pthread_condattr_destroy(&attr);
	int r = -pthread_create(&guard->thread, NULL, guard_run, guard);
	if (r < 0) {
		(void)pthread_cond_destroy(&guard->ended);
		(void)pthread_mutex_destroy(&guard->lock);
		free(guard);
		return r;
	}
	*ret = guard;
	return 0;
}

int job_guard_end(struct job_guard *guard)
{
	(void)pthread_mutex_lock(&guard->lock);
	guard->end = true;
	(void)pthread_cond_signal(&guard->ended);
	(void)pthread_mutex_unlock(&guard->lock);
	(void)pthread_join(guard->thread, NULL);
	int r = guard->r;
	(void)pthread_cond_destroy(&guard->ended);
	(void)pthread_mutex_destroy(&guard->lock);
	free(guard);
	return r;
}
