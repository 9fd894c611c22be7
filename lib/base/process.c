#include "lib/base/process.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

enum { N_FDS_MAX = 256, FD_MAX = 1023 };

/* --- environment --- */

static bool variable_is_ours(const char *variable)
{
	static const char *const OURS[] = { "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=",
		"LISTEN_PIDFDID=", "NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC=", "JOURNAL_STREAM=",
		"INVOCATION_ID=", "MAINPID=", "MANAGERPID=", "SYSTEMD_EXEC_PID=", "CREDENTIALS_DIRECTORY=",
		"FDSTORE=", "MEMORY_PRESSURE_WATCH=", "MEMORY_PRESSURE_WRITE=" };

	for (size_t i = 0; i < ARRAY_SIZE(OURS); i++)
		if (strncmp(variable, OURS[i], strlen(OURS[i])) == 0)
			return true;
	return false;
}

static bool variable_is_in(const char *variable, const char *const *env)
{
	size_t n = strcspn(variable, "=") + 1;

	for (; env && *env; env++)
		if (strncmp(variable, *env, n) == 0)
			return true;
	return false;
}

/* A new array of weak strings. */
static const char **environment_new(const char *const *extra)
{
	size_t n = 0, n_max = 1;

	for (char **v = environ; v && *v; v++)
		n_max++;
	for (const char *const *v = extra; v && *v; v++)
		n_max++;
	const char **env = calloc(n_max, sizeof(*env));
	if (!env)
		return NULL;
	for (char **v = environ; v && *v; v++)
		if (!variable_is_ours(*v) && !variable_is_in(*v, extra))
			env[n++] = *v;
	for (const char *const *v = extra; v && *v; v++)
		env[n++] = *v;
	return env;
}

/* --- descriptors --- */

/* Copies of the given descriptors above every target, so that no dup2 in the child hits one still needed. */
struct fd_copies {
	int fds[N_FDS_MAX]; /* owned */
	size_t n;
};

static void fd_copies_done(struct fd_copies *copies)
{
	while (copies->n > 0)
		(void)close(copies->fds[--copies->n]);
}

static int fd_copies_add(struct fd_copies *copies, int fd, int above)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, above);

	if (copy < 0)
		return -errno;
	copies->fds[copies->n++] = copy;
	return 0;
}

static bool fd_is_target(const struct process_options *options, int fd)
{
	for (size_t i = 0; i < options->n_fds; i++)
		if (options->fds[i].to == fd)
			return true;
	return false;
}

static int actions_fill(
        posix_spawn_file_actions_t *actions, const struct process_options *options, struct fd_copies *copies)
{
	int last = STDERR_FILENO, r = 0;

	if (options->n_fds > N_FDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < options->n_fds; i++) {
		if (options->fds[i].to < 0 || options->fds[i].to > FD_MAX)
			return -EINVAL;
		if (options->fds[i].to > last)
			last = options->fds[i].to;
	}
	for (size_t i = 0; i < options->n_fds; i++) {
		r = fd_copies_add(copies, options->fds[i].from, last + 1);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < options->n_fds && r == 0; i++)
		r = posix_spawn_file_actions_adddup2(actions, copies->fds[i], options->fds[i].to);
	for (int fd = 0; fd <= last && r == 0; fd++) {
		if (fd_is_target(options, fd))
			continue;
		/* Closing what is not open is no error in a spawn action. */
		r = fd <= STDERR_FILENO
		        ? posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0)
		        : posix_spawn_file_actions_addclose(actions, fd);
	}
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, last + 1);
	if (r == 0 && options->cwd)
		r = posix_spawn_file_actions_addchdir_np(actions, options->cwd);
	return -r;
}

static int attributes_fill(posix_spawnattr_t *attributes, const struct process_options *options)
{
	sigset_t none, all;
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	if (options->own_group)
		flags |= POSIX_SPAWN_SETPGROUP;
	int r = posix_spawnattr_setflags(attributes, flags);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	return -r;
}

/* --- the child --- */

static int child_start(const struct process_options *options, const char **env,
        const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, pid_t *ret_pid,
        int *ret_pidfd)
{
	pid_t pid;
	/* posix_spawn takes arrays of writable strings for historical reasons and writes to none. */
	int r = posix_spawnp(&pid, options->argv[0], actions, attributes,
	        (char *const *)(uintptr_t)options->argv, (char *const *)(uintptr_t)env);

	if (r != 0)
		return -r;
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		r = -errno;
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	if (ret_pid)
		*ret_pid = pid;
	*ret_pidfd = pidfd;
	return 0;
}

int process_spawn(const struct process_options *options, pid_t *ret_pid, int *ret_pidfd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	struct fd_copies copies = { .n = 0 };
	CLEANUP_FREE const char **env = environment_new(options->env);

	if (!env)
		return -ENOMEM;
	int r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = actions_fill(&actions, options, &copies);
		if (r == 0)
			r = attributes_fill(&attributes, options);
		if (r == 0)
			r = child_start(options, env, &actions, &attributes, ret_pid, ret_pidfd);
		(void)posix_spawnattr_destroy(&attributes);
	}
	fd_copies_done(&copies);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r;
}

static int timeout_left_msec(uint64_t deadline_usec)
{
	if (deadline_usec == UINT64_MAX)
		return -1;
	uint64_t now = clock_monotonic_usec();
	if (now >= deadline_usec)
		return 0;
	uint64_t left = (deadline_usec - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
	return left > INT_MAX ? INT_MAX : (int)left;
}

static uint64_t deadline_after(uint64_t timeout_usec)
{
	uint64_t deadline;

	return __builtin_add_overflow(clock_monotonic_usec(), timeout_usec, &deadline) ? UINT64_MAX
	                                                                               : deadline;
}

static int reap(int pidfd, int *ret_status)
{
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
		return -errno;
	*ret_status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
	return 0;
}

int process_wait(int pidfd, uint64_t timeout_usec, int *ret_status)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	uint64_t deadline = deadline_after(timeout_usec);

	for (;;) {
		int r = poll(&p, 1, timeout_left_msec(deadline));

		if (r > 0)
			return reap(pidfd, ret_status);
		if (r == 0 && clock_monotonic_usec() >= deadline)
			return -ETIMEDOUT;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* --- captured output --- */

/* Reads what is there. 1 when the writers are gone, 0 when they may write more. */
static int output_read(int fd, size_t n_max, struct process_output *output)
{
	char rest[4096];

	for (;;) {
		bool full = output->n_text == n_max;
		ssize_t n = full ? read(fd, rest, sizeof(rest))
		                 : read(fd, output->text + output->n_text, n_max - output->n_text);

		if (n == 0)
			return 1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (full)
			output->cut = true;
		else
			output->n_text += (size_t)n;
	}
}

static int output_collect(
        int pidfd, int fd, int cancel_fd, size_t n_max, uint64_t deadline, struct process_output *output)
{
	struct pollfd p[] = { { .fd = pidfd, .events = POLLIN }, { .fd = fd, .events = POLLIN },
		{ .fd = cancel_fd, .events = POLLIN } };

	for (;;) {
		int r = poll(p, ARRAY_SIZE(p), timeout_left_msec(deadline));

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0 && clock_monotonic_usec() >= deadline)
			return -ETIMEDOUT;
		if (r <= 0)
			continue;
		if (p[2].revents && !p[0].revents)
			return -ECANCELED;
		if (p[1].fd >= 0) {
			r = output_read(fd, n_max, output);
			if (r < 0)
				return r;
			if (r > 0)
				p[1].fd = -1;
		}
		/* Its own children may hold the pipe open for ever: its end is what counts. */
		if (p[0].revents) {
			r = reap(pidfd, &output->status);
			if (r == 0 && p[1].fd >= 0)
				r = output_read(fd, n_max, output);
			return r < 0 ? r : 0;
		}
	}
}

int process_capture(const struct process_options *options, size_t n_max, uint64_t timeout_usec,
        struct process_output *ret)
{
	struct process_fd fds[N_FDS_MAX];
	struct process_options own = *options;
	struct process_output output = { 0 };
	CLEANUP_CLOSE int pidfd = -EBADF;
	int pipe_fds[2];
	pid_t pid;

	own.n_fds = 0;
	for (size_t i = 0; i < options->n_fds; i++) {
		if (options->fds[i].to == STDOUT_FILENO || options->fds[i].to == STDERR_FILENO)
			continue;
		if (own.n_fds + 2 >= N_FDS_MAX)
			return -EINVAL;
		fds[own.n_fds++] = options->fds[i];
	}
	CLEANUP_FREE char *text = malloc(n_max + 1);
	if (!text)
		return -ENOMEM;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	CLEANUP_CLOSE int read_fd = pipe_fds[0];
	CLEANUP_CLOSE int write_fd = pipe_fds[1];
	fds[own.n_fds++] = (struct process_fd){ .from = write_fd, .to = STDOUT_FILENO };
	fds[own.n_fds++] = (struct process_fd){ .from = write_fd, .to = STDERR_FILENO };
	own.fds = fds;
	own.own_group = true;
	output.text = text;
	/* Only the reading end: the flag belongs to the open file, and a program expects a blocking
	 * stdout. */
	if (fcntl(read_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;

	int r = process_spawn(&own, &pid, &pidfd);
	if (r < 0)
		return r;
	(void)close(TAKE_FD(write_fd));
	r = output_collect(pidfd, read_fd, options->cancel_fd ? *options->cancel_fd : -1, n_max,
	        deadline_after(timeout_usec), &output);
	if (r < 0) {
		(void)kill(-pid, SIGKILL);
		(void)reap(pidfd, &output.status);
		return r;
	}
	output.text[output.n_text] = '\0';
	*ret = output;
	(void)TAKE_PTR(text);
	return 0;
}

void process_output_done(struct process_output *output)
{
	free(output->text);
	*output = (struct process_output){ 0 };
}

char *process_status_text(int status, char *buf, size_t size)
{
	if (WIFEXITED(status))
		(void)snprintf(buf, size, "exited with status %d", WEXITSTATUS(status));
	else
		(void)snprintf(buf, size, "was killed by signal %d (%s)", WTERMSIG(status),
		        strsignal(WTERMSIG(status)));
	return buf;
}
