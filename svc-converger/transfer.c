#include "svc-converger/transfer.h"

#include "lib/base/process.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STALL_SEC = 60 };

struct transfer {
	struct transfer_request request; /* url and digest are not kept */
	sd_event_source *reports;        /* owned; of reports_fd */
	sd_event_source *exit;           /* owned; of pidfd */
	int reports_fd;                  /* owned; the process's standard output */
	int pidfd;                       /* owned; of a child that is not reaped; -EBADF when there is none */
	char line[TRANSFER_LINE_MAX];
	size_t n_line;
	bool ended; /* the process said how it ended */
	struct transfer_result result;
};

/* The process has ended, or was killed and does nothing that could not be interrupted: this wait is short. */
static void process_reap(struct transfer *transfer)
{
	siginfo_t info;

	while (waitid(P_PIDFD, (id_t)transfer->pidfd, &info, WEXITED) < 0 && errno == EINTR)
		;
	(void)close(TAKE_FD(transfer->pidfd));
}

static void process_end(struct transfer *transfer)
{
	if (transfer->pidfd < 0)
		return;
	(void)pidfd_send_signal(transfer->pidfd, SIGKILL, NULL, 0);
	process_reap(transfer);
}

struct transfer *transfer_free(struct transfer *transfer)
{
	if (!transfer)
		return NULL;
	sd_event_source_disable_unref(transfer->reports);
	sd_event_source_disable_unref(transfer->exit);
	process_end(transfer);
	if (transfer->reports_fd >= 0)
		(void)close(transfer->reports_fd);
	free(transfer);
	return NULL;
}

static void report_take(struct transfer *transfer, const struct transfer_report *report)
{
	switch (report->kind) {
	case TRANSFER_PROGRESS:
		if (transfer->request.on_progress)
			transfer->request.on_progress(
			        report->done_bytes, report->total_bytes, transfer->request.userdata);
		return;
	case TRANSFER_DONE:
		transfer->ended = true;
		transfer->result.size_bytes = report->done_bytes;
		return;
	case TRANSFER_FAILED:
		transfer->ended = true;
		transfer->result.r = report->r;
		transfer->result.permanent = report->permanent;
		(void)err_set(&transfer->result.error, report->r, "%s", report->text);
		return;
	}
}

/* Takes whole lines out of the buffer. A line that is none, or has no end, is no progress and no success. */
static void lines_take(struct transfer *transfer)
{
	char *end;

	while ((end = memchr(transfer->line, '\n', transfer->n_line)) && !transfer->ended) {
		struct transfer_report report;
		size_t n = (size_t)(end + 1 - transfer->line);

		*end = '\0';
		if (transfer_report_read(transfer->line, &report) == 0)
			report_take(transfer, &report);
		memmove(transfer->line, transfer->line + n, transfer->n_line - n);
		transfer->n_line -= n;
	}
	if (transfer->n_line == sizeof(transfer->line))
		transfer->n_line = 0;
}

/* Reads what is there. False at the end of file. */
static bool reports_read(struct transfer *transfer)
{
	for (;;) {
		ssize_t n = read(transfer->reports_fd, transfer->line + transfer->n_line,
		        sizeof(transfer->line) - transfer->n_line);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0)
			return false;
		transfer->n_line += (size_t)n;
		lines_take(transfer);
	}
}

static int on_reports(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct transfer *transfer = userdata;

	(void)fd;
	(void)revents;
	if (!reports_read(transfer))
		(void)sd_event_source_set_enabled(source, SD_EVENT_OFF); /* its exit follows */
	return 0;
}

static int on_exit_seen(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct transfer *transfer = userdata;
	struct transfer_result result;

	(void)source;
	process_reap(transfer); /* sd-event would only do it after on_done, which may free everything */
	(void)reports_read(transfer);
	if (!transfer->ended) {
		transfer->result.r = -EIO;
		(void)err_set(&transfer->result.error, -EIO, "bc-transfer %s %d without an answer",
		        info->si_code == CLD_EXITED ? "exited with status" : "was killed by signal",
		        info->si_status);
	}
	result = transfer->result;
	transfer->request.on_done(&result, transfer->request.userdata);
	return 0;
}

static int order_fill(struct transfer_order *order, const struct transfer_config *config,
        const struct transfer_request *request)
{
	*order = (struct transfer_order){
		.upload = request->upload,
		.offset = request->offset,
		.size_bytes = request->size_bytes,
		.max_bytes = request->max_bytes,
		.stall_sec = config->stall_sec ? config->stall_sec : STALL_SEC,
	};
	if (strlen(request->url) >= sizeof(order->url) || strlen(request->digest) >= sizeof(order->digest) ||
	        (config->ca_path && strlen(config->ca_path) >= sizeof(order->ca_path)))
		return -EINVAL;
	(void)strcpy(order->url, request->url);
	(void)strcpy(order->digest, request->digest);
	if (config->ca_path)
		(void)strcpy(order->ca_path, config->ca_path);
	return 0;
}

/* The read end of a pipe that holds the whole order. */
static int order_pipe(
        const struct transfer_config *config, const struct transfer_request *request, int *ret_fd)
{
	struct transfer_order order;
	char text[TRANSFER_ORDER_TEXT_MAX];
	int fds[2];
	int r = order_fill(&order, config, request);

	if (r == 0)
		r = transfer_order_write(&order, text);
	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;

	CLEANUP_CLOSE int from = fds[0];
	CLEANUP_CLOSE int to = fds[1];
	ssize_t n = write(to, text, strlen(text)); /* an empty pipe takes it at once */

	if (n != (ssize_t)strlen(text))
		return n < 0 ? -errno : -EIO;
	*ret_fd = TAKE_FD(from);
	return 0;
}

static int program_path(const struct transfer_config *config, char *buf, size_t size)
{
	ssize_t n;
	char *slash;

	if (config->program) {
		(void)snprintf(buf, size, "%s", config->program);
		return 0;
	}
	n = readlink("/proc/self/exe", buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	slash = strrchr(buf, '/');
	if (!slash || (size_t)(slash - buf) + sizeof("/bc-transfer") > size)
		return -ENAMETOOLONG;
	(void)strcpy(slash, "/bc-transfer");
	return 0;
}

static int process_start(struct transfer *transfer, const struct transfer_config *config,
        const struct transfer_request *request, struct err *err)
{
	char program[PATH_MAX];
	CLEANUP_CLOSE int order_fd = -EBADF;
	int fds[2];
	pid_t pid;
	int r = order_pipe(config, request, &order_fd);

	if (r < 0)
		return err_set(err, r, "cannot order a transfer: %s", strerror(-r));
	r = program_path(config, program, sizeof(program));
	if (r < 0)
		return err_set(err, r, "cannot find bc-transfer: %s", strerror(-r));
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;

	CLEANUP_CLOSE int reports_to = fds[1];
	const char *const argv[] = { program, NULL };
	const struct process_fd handed[] = { { order_fd, STDIN_FILENO }, { reports_to, STDOUT_FILENO },
		{ request->fd, TRANSFER_FILE_FD } };
	const struct process_options options = { .argv = argv, .fds = handed, .n_fds = ARRAY_SIZE(handed) };

	transfer->reports_fd = fds[0];
	if (fcntl(transfer->reports_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	r = process_spawn(&options, &pid, &transfer->pidfd);
	return r < 0 ? err_set(err, r, "cannot start %s: %s", program, strerror(-r)) : 0;
}

int transfer_start(sd_event *event, const struct transfer_config *config,
        const struct transfer_request *request, struct transfer **ret, struct err *err)
{
	CLEANUP(transfer) struct transfer *transfer = calloc(1, sizeof(*transfer));
	int r;

	if (!transfer)
		return -ENOMEM;
	transfer->reports_fd = transfer->pidfd = -EBADF;
	transfer->request = *request;
	transfer->request.url = transfer->request.digest = NULL;
	transfer->request.fd = -EBADF;
	r = process_start(transfer, config, request, err);
	if (r < 0)
		return r;
	r = sd_event_add_io(event, &transfer->reports, transfer->reports_fd, EPOLLIN, on_reports, transfer);
	if (r >= 0)
		r = sd_event_add_child_pidfd(
		        event, &transfer->exit, transfer->pidfd, WEXITED, on_exit_seen, transfer);
	if (r < 0)
		return err_set(err, r, "cannot watch a transfer: %s", strerror(-r));
	(void)sd_event_source_set_description(transfer->reports, "transfer-reports");
	(void)sd_event_source_set_description(transfer->exit, "transfer-exit");
	*ret = TAKE_PTR(transfer);
	return 0;
}
