#include "cli/human.h"
#include "cli/instance_view.h"
#include "cli/node_status.h"
#include "cli/top_view.h"
#include "cli/verbs.h"

#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_USEC UINT64_C(2000000)

struct top {
	struct cli *cli; /* weak */
	struct door converger, intelligence;
	struct top_view *view; /* owned */
	uint64_t period_usec;
	bool once;
	int code;
};

/* The busiest would scroll away. The line behind the last one is the cursor's. 0: nobody knows. */
static size_t screen_lines(const struct cli *cli)
{
	struct winsize size;

	return ioctl(fileno(cli->out), TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row - 1U : 0;
}

/* One look at everything; false when the converger does not answer. */
static bool sample(struct top *top)
{
	Bc__V1__ListVmsRequest request = BC__V1__LIST_VMS_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *status = NULL;
	CLEANUP_MESSAGE ProtobufCMessage *vms = NULL;
	struct rpc_status failure = { 0 };
	struct timespec now;
	char why[256] = "";

	top->code = node_status_get(&top->converger, "", (Bc__V1__NodeStatus **)(void *)&status);
	if (top->code != EXIT_OK)
		return false;
	if (door_try(&top->intelligence, DOOR_METHOD(Intelligence, list_vms), &request.base,
	            top->cli->timeout_usec, &vms, &failure) < 0)
		(void)door_failure_text(&top->intelligence, &failure, why, sizeof(why));
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	top_view_update(top->view, (const Bc__V1__NodeStatus *)status, (const Bc__V1__ListVmsReply *)vms,
	        (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	if (!top->once) /* home, clear to the end, and cut long lines instead of wrapping them */
		(void)fputs("\033[H\033[J\033[?7l", top->cli->out);
	top->code = top_view_print(top->view, top->cli, why, top->once ? 0 : screen_lines(top->cli));
	if (!top->once)
		(void)fputs("\033[?7h", top->cli->out);
	(void)fflush(top->cli->out);
	return top->code == EXIT_OK;
}

static int on_period(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct top *top = userdata;

	(void)source;
	(void)usec;
	loop_exit(top->cli->loop, 0);
	return 0;
}

/* Waits a period on the loop, so that Ctrl-C ends it. */
static void period_wait(struct top *top)
{
	sd_event_source *timer = NULL;

	(void)sd_event_add_time_relative(
	        loop_event(top->cli->loop), &timer, CLOCK_MONOTONIC, top->period_usec, 1000, on_period, top);
	(void)loop_run(top->cli->loop);
	sd_event_source_disable_unref(timer);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	struct top top = { .cli = cli, .period_usec = PERIOD_USEC };
	const char *interval = arguments_value(arguments, "interval");
	int r;

	if (interval && human_parse_duration(interval, &top.period_usec) < 0)
		return cli_usage(cli, "top: --interval takes a time such as 5s, not '%s'", interval);
	top.once = arguments_given(arguments, "once") || !isatty(fileno(cli->out)) || cli_output_is_data(cli);
	top.view = top_view_new();
	if (!top.view)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	r = door_open(cli, "converger", &top.converger);
	if (r == EXIT_OK)
		r = door_open(cli, "intelligence", &top.intelligence);
	if (r == EXIT_OK)
		while (sample(&top) && !top.once)
			period_wait(&top);
	door_done(&top.converger);
	door_done(&top.intelligence);
	(void)top_view_free(top.view);
	return r == EXIT_OK ? top.code : r;
}

static const struct option_def OPTIONS[] = {
	{ 0, "once", NULL, WORD_NONE, "one table, then end; so it is when the output is no terminal" },
	{ 0, "interval", "TIME", WORD_NONE, "between two looks; 2s" },
	{ 0 },
};

const struct command verb_top = {
	.name = "top",
	.summary = "Show what each VM takes: CPU, waiting, memory, disk and exits, the busiest first",
	.description =
	        "Rates are since the look before; the first shows totals since each VM began. What has no source is\n"
	        "shown as -, never as 0: 'bcctl doctor' says what is missing.",
	.options = OPTIONS,
	.example = "  bcctl top\n"
	           "  bcctl top --once -o json",
	.run = run,
};
