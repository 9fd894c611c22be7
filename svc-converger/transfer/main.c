/* bc-transfer: fetches or sends one file for the converger, in a process of its own, so that whatever a server sends
 * meets neither secrets nor other VMs, a transfer can be ended at once, and the converger stays small.
 *
 * The order comes on standard input, the file is descriptor 3, reports go to standard output. */
#include "svc-converger/transfer/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int order_read(struct transfer_order *ret)
{
	char text[TRANSFER_ORDER_TEXT_MAX];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(text) - 1 && (got = read(STDIN_FILENO, text + n, sizeof(text) - 1 - n)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		n += (size_t)got;
	}
	text[n] = '\0';
	return strlen(text) == n ? transfer_order_read(text, ret) : -EINVAL;
}

/* The converger is gone when nobody reads any more: then nobody wants the file either. */
static void report_line(const struct transfer_report *report, void *userdata)
{
	char line[TRANSFER_LINE_MAX];

	(void)userdata;
	transfer_report_write(report, line);
	for (size_t at = 0, n = strlen(line); at < n;) {
		ssize_t written = write(STDOUT_FILENO, line + at, n - at);

		if (written < 0 && errno != EINTR)
			_exit(1);
		at += written > 0 ? (size_t)written : 0;
	}
}

int main(void)
{
	struct transfer_order order;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (order_read(&order) < 0) {
		(void)fprintf(stderr, "bc-transfer is started by bc-converger\n");
		return 2;
	}
	transfer_run(&order, TRANSFER_FILE_FD, report_line, NULL);
	return 0;
}
