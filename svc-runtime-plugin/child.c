#include "svc-runtime-plugin/child.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/rpc/client.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const uint64_t PATIENCE_USEC = 5 * USEC_PER_SEC; /* between SIGTERM and SIGKILL */
static const uint64_t STEADY_USEC = 60 * USEC_PER_SEC;  /* up for so long, it may die again at once */

struct child {
	sd_event *event;              /* weak */
	struct child_options options; /* weak texts */
	char socket_env[PATH_MAX];
	pid_t pid;               /* 0: it does not run */
	int lifeline;            /* owned; the other end of its standard input */
	sd_event_source *source; /* owned; its end */
	sd_event_source *timer;  /* owned; to start it again, or to kill it */
	struct rpc_backoff backoff;
	uint64_t started_usec; /* monotonic */
	void (*on_ended)(void *userdata);
};

static int child_start(struct child *child, struct err *err);

static int on_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;
	struct err err = { 0 };

	(void)source;
	(void)usec;
	if (child_start(child, &err) == 0)
		return 0;
	child->options.on_exit(err_text(&err, err.code), child->options.userdata);
	(void)sd_event_source_set_time_relative(child->timer, rpc_backoff_next(&child->backoff));
	(void)sd_event_source_set_enabled(child->timer, SD_EVENT_ONESHOT);
	return 0;
}

static int timer_arm(struct child *child, uint64_t usec, sd_event_time_handler_t fn)
{
	child->timer = sd_event_source_disable_unref(child->timer);
	return sd_event_add_time_relative(child->event, &child->timer, CLOCK_MONOTONIC, usec, 1, fn, child);
}

static void lifeline_close(struct child *child)
{
	if (child->lifeline >= 0)
		(void)close(TAKE_FD(child->lifeline));
}

static int on_child(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct child *child = userdata;
	char how[64];
	int status =
	        info->si_code == CLD_EXITED ? W_EXITCODE(info->si_status, 0) : W_EXITCODE(0, info->si_status);

	(void)source;
	child->source = sd_event_source_disable_unref(child->source);
	child->pid = 0;
	lifeline_close(child);
	if (child->on_ended) {
		child->on_ended(child->options.userdata);
		return 0;
	}
	if (clock_monotonic_usec() - child->started_usec > STEADY_USEC)
		rpc_backoff_reset(&child->backoff);
	(void)timer_arm(child, rpc_backoff_next(&child->backoff), on_again);
	child->options.on_exit(process_status_text(status, how, sizeof(how)), child->options.userdata);
	return 0;
}

/* One that nobody would hear the end of. It has just begun, and SIGKILL is not waited for long. */
static void end_unwatched(struct child *child, int pidfd)
{
	int status;

	(void)kill(child->pid, SIGKILL);
	(void)process_wait(pidfd, UINT64_MAX, &status);
	child->pid = 0;
}

static int child_start(struct child *child, struct err *err)
{
	const char *env[] = { child->socket_env, NULL };
	CLEANUP_CLOSE int stdin_fd = -EBADF, pidfd = -EBADF;
	int pipe_fds[2], r;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "no pipe: %s", strerror(errno));
	stdin_fd = pipe_fds[0];
	child->lifeline = pipe_fds[1];
	const struct process_fd fds[] = { { .from = stdin_fd, .to = STDIN_FILENO },
		{ .from = STDERR_FILENO, .to = STDOUT_FILENO },
		{ .from = STDERR_FILENO, .to = STDERR_FILENO } };
	/* Whoever listened there before is not this one. */
	(void)unlink(child->options.socket);
	r = process_spawn(&(struct process_options){ .argv = child->options.argv,
	                          .env = env,
	                          .fds = fds,
	                          .n_fds = ARRAY_SIZE(fds),
	                          .own_group = true },
	        &child->pid, &pidfd);
	if (r == 0) {
		r = sd_event_add_child_pidfd(child->event, &child->source, pidfd, WEXITED, on_child, child);
		if (r < 0)
			end_unwatched(child, pidfd);
	}
	if (r < 0) {
		lifeline_close(child);
		return err_set(
		        err, r, "cannot start the plugin %s: %s", child->options.argv[0], strerror(-r));
	}
	(void)sd_event_source_set_child_pidfd_own(child->source, 1);
	TAKE_FD(pidfd);
	child->started_usec = clock_monotonic_usec();
	if (child->options.on_start)
		child->options.on_start(child->options.userdata);
	return 0;
}

int child_new(sd_event *event, const struct child_options *options, struct child **ret, struct err *err)
{
	struct child *child = calloc(1, sizeof(*child));
	int r;

	if (!child)
		return -ENOMEM;
	child->event = event;
	child->options = *options;
	child->lifeline = -EBADF;
	child->backoff = (struct rpc_backoff){ .min_usec = USEC_PER_SEC / 10, .max_usec = 60 * USEC_PER_SEC };
	(void)snprintf(child->socket_env, sizeof(child->socket_env), "BC_PLUGIN_SOCKET=%s", options->socket);
	r = child_start(child, err);
	if (r < 0) {
		child_free(child);
		return r;
	}
	*ret = child;
	return 0;
}

static int on_patience_ended(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;

	(void)source;
	(void)usec;
	if (child->pid > 0)
		(void)kill(child->pid, SIGKILL);
	return 0;
}

void child_end(struct child *child, void (*on_ended)(void *userdata))
{
	if (!child->source) {
		child->timer = sd_event_source_disable_unref(child->timer);
		on_ended(child->options.userdata);
		return;
	}
	child->on_ended = on_ended;
	lifeline_close(child);
	(void)kill(child->pid, SIGTERM);
	(void)timer_arm(child, PATIENCE_USEC, on_patience_ended);
}

struct child *child_free(struct child *child)
{
	if (!child)
		return NULL;
	sd_event_source_disable_unref(child->source);
	sd_event_source_disable_unref(child->timer);
	lifeline_close(child);
	free(child);
	return NULL;
}
