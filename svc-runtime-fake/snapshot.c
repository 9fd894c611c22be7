#include "svc-runtime-fake/snapshot.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/snapshot/tar.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

struct snapshot_job {
	struct job job;
	struct fake *fake;     /* weak */
	struct rpc_call *call; /* a reference */
	struct snapshot_meta meta;
	char *path; /* owned */
	struct fault fault;
	int cancel_fd; /* owned; readable once the caller has gone */
	/* the result */
	int result;
	struct err err;
	char digest[SHA256_DIGEST_MAX];
	uint64_t n_bytes;
};

/* A disk of the right size with a line at its start, and nothing else. */
static int disk_make(const struct snapshot_meta *meta)
{
	CLEANUP_CLOSE int fd = memfd_create("fake-disk", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (dprintf(fd, "disk of %s\n", meta->instance_id) < 0 ||
	        (meta->disk_bytes && ftruncate(fd, (off_t)meta->disk_bytes) < 0))
		return -errno;
	return TAKE_FD(fd);
}

/* Waits that long (UINT64_MAX: for ever) for the caller to go: -ECANCELED then. */
static int cancel_wait(struct snapshot_job *job, uint64_t usec)
{
	struct pollfd p = { .fd = job->cancel_fd, .events = POLLIN };

	(void)poll(&p, 1, usec == UINT64_MAX ? -1 : (int)(usec / USEC_PER_MSEC));
	return p.revents ? err_set(&job->err, -ECANCELED, "the caller has gone") : 0;
}

static int tar_write(struct snapshot_job *job)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *writer = NULL;
	CLEANUP_CLOSE int disk_fd = disk_make(&job->meta);
	static const char MEMORY[] = "memory of a fake\n";

	if (disk_fd < 0)
		return disk_fd;
	int r = snapshot_writer_new(job->path, FILE_PERM(0640), &job->meta, &writer, &job->err);
	if (r == 0)
		r = snapshot_writer_add_file(writer, "disk.raw", disk_fd, NULL, NULL, &job->err);
	if (r == 0 && job->meta.kind == SNAPSHOT_MEMORY)
		r = snapshot_writer_add_bytes(writer, "memory", MEMORY, sizeof(MEMORY) - 1, &job->err);
	/* Half of the tar is written. */
	if (r == 0)
		r = cancel_wait(
		        job, job->fault.action == BC__FAKE__FAULT__ACTION__STALL ? job->fault.stall_usec : 0);
	if (r == 0)
		r = snapshot_writer_finish(writer, job->digest, &job->n_bytes, &job->err);
	return r;
}

static void on_run(struct job *job)
{
	struct snapshot_job *s = CONTAINER_OF(job, struct snapshot_job, job);

	s->result = tar_write(s);
	/* Nobody takes what was finished as its caller went. */
	if (s->result == 0 && cancel_wait(s, 0) < 0)
		(void)unlink(s->path);
}

static void event_send(struct snapshot_job *s, bool last)
{
	Bc__V1__RuntimeSnapshotEvent event = BC__V1__RUNTIME_SNAPSHOT_EVENT__INIT;
	Bc__V1__Progress progress = BC__V1__PROGRESS__INIT;

	progress.what = (char[]){ "writing snapshot" };
	progress.total_bytes = s->meta.disk_bytes;
	progress.done_bytes = last ? s->meta.disk_bytes : 0;
	event.progress = &progress;
	if (last) {
		event.digest = s->digest;
		event.size_bytes = s->n_bytes;
	}
	(void)rpc_stream_send(s->call, &event.base);
}

static void job_free(struct snapshot_job *s)
{
	s->fake->n_held--;
	(void)rpc_call_unref(s->call);
	(void)close(s->cancel_fd);
	free(s->path);
	free(s);
}

static void on_cancel(struct rpc_call *call, void *userdata)
{
	const struct snapshot_job *s = userdata;

	(void)call;
	(void)eventfd_write(s->cancel_fd, 1);
}

static void on_done(struct job *job)
{
	struct snapshot_job *s = CONTAINER_OF(job, struct snapshot_job, job);

	if (s->result == 0 && s->fault.action == BC__FAKE__FAULT__ACTION__LIE)
		s->digest[sizeof("sha256:") - 1] ^= 1; /* another hex digit */
	if (s->result == 0 && s->fault.action == BC__FAKE__FAULT__ACTION__LOSE)
		(void)unlink(s->path);
	if (s->result < 0) {
		rpc_fail_err(s->call, s->result, &s->err);
	} else {
		event_send(s, true);
		rpc_stream_finish(s->call);
	}
	job_free(s);
}

void snapshot_serve(struct fake *fake, const Bc__V1__RuntimeSnapshotRequest *request, struct rpc_call *call)
{
	struct rules rules = fake_rules(fake);
	struct snapshot_job *s = calloc(1, sizeof(*s));
	struct err err = { 0 };

	int r = s ? rules_snapshot(&rules, domains_get(fake->domains, request->id), request, &s->meta, &err)
	          : -ENOMEM;
	if (r == 0) {
		s->path = strdup(request->path);
		s->cancel_fd = eventfd(0, EFD_CLOEXEC);
		r = !s->path ? -ENOMEM : s->cancel_fd < 0 ? -errno : 0;
	}
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		if (s)
			free(s->path);
		free(s);
		return;
	}
	s->fake = fake;
	s->call = rpc_call_ref(call);
	s->fault = control_judge(fake->control, "Snapshot.write", request->id);
	s->job.run = on_run;
	s->job.done = on_done;
	(void)snprintf(s->job.key, sizeof(s->job.key), "%s", request->id);
	fake->n_held++;
	rpc_call_on_cancel(call, on_cancel, s);
	event_send(s, false);
	r = job_submit(fake->jobs, &s->job);
	if (r < 0) {
		rpc_fail(call, rpc_code_from_errno(r), "the runtime is busy; call again");
		job_free(s);
	}
}
