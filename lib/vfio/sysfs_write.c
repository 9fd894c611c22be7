#include "lib/vfio/sysfs_write.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* Held by the caller and by the thread; the last one frees it. */
struct write_job {
	pthread_mutex_t lock;
	pthread_cond_t finished;
	unsigned n_refs;
	bool done;
	int result;
	char *path; /* owned */
	char *text; /* owned */
};

static void job_unref(struct write_job *job)
{
	bool last;

	(void)pthread_mutex_lock(&job->lock);
	last = --job->n_refs == 0;
	(void)pthread_mutex_unlock(&job->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&job->finished);
	(void)pthread_mutex_destroy(&job->lock);
	free(job->path);
	free(job->text);
	free(job);
}

static struct write_job *job_new(const char *path, const char *text)
{
	struct write_job *job = calloc(1, sizeof(*job));
	pthread_condattr_t attr;

	if (!job)
		return NULL;
	job->path = strdup(path);
	job->text = strdup(text);
	if (!job->path || !job->text) {
		free(job->path);
		free(job->text);
		free(job);
		return NULL;
	}
	job->n_refs = 1;
	(void)pthread_mutex_init(&job->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&job->finished, &attr);
	(void)pthread_condattr_destroy(&attr);
	return job;
}

static int file_write(const char *path, const char *text)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = write(fd, text, strlen(text)); /* one write: sysfs takes each as a value */
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : (size_t)n < strlen(text) ? -EIO : 0;
}

static void *job_run(void *arg)
{
	struct write_job *job = arg;
	int r = file_write(job->path, job->text);

	(void)pthread_mutex_lock(&job->lock);
	job->result = r;
	job->done = true;
	(void)pthread_cond_signal(&job->finished);
	(void)pthread_mutex_unlock(&job->lock);
	job_unref(job);
	return NULL;
}

static int thread_start(struct write_job *job)
{
	pthread_attr_t attr;
	pthread_t thread;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, 64 * 1024);
	job->n_refs++;
	int r = -pthread_create(&thread, &attr, job_run, job);
	if (r < 0)
		job->n_refs--;
	(void)pthread_attr_destroy(&attr);
	return r;
}

int sysfs_write(const char *path, const char *text, uint64_t timeout_usec, struct err *err)
{
	struct write_job *job = job_new(path, text);
	uint64_t until = clock_monotonic_usec() + timeout_usec;
	struct timespec deadline = { .tv_sec = (time_t)(until / USEC_PER_SEC),
		.tv_nsec = (long)(until % USEC_PER_SEC * NSEC_PER_USEC) };
	int r, wait = 0;

	if (!job)
		return -ENOMEM;
	r = thread_start(job);
	if (r < 0) {
		job_unref(job);
		return err_set(err, r, "cannot start a thread to write '%s': %s", path, strerror(-r));
	}
	(void)pthread_mutex_lock(&job->lock);
	while (!job->done && wait != ETIMEDOUT)
		wait = pthread_cond_timedwait(&job->finished, &job->lock, &deadline);
	r = job->done ? job->result : -ETIMEDOUT;
	(void)pthread_mutex_unlock(&job->lock);
	job_unref(job);
	if (r == -ETIMEDOUT)
		return err_set(err, r,
		        "writing '%.40s' to '%s' has not ended after %" PRIu64 " ms: something still uses it",
		        text, path, timeout_usec / USEC_PER_MSEC);
	return r < 0 ? err_set(err, r, "cannot write '%.40s' to '%s': %s", text, path, strerror(-r)) : 0;
}
