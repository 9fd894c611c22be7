#include "cli/apply_wait.h"

#include "cli/progress.h"
#include "cli/settle.h"
#include "cli/status_stream.h"

struct wait {
	struct door *door;     /* weak */
	struct settle *settle; /* weak */
	struct progress progress;
	int code;
};

static void wait_end(struct wait *wait, int code)
{
	wait->code = code;
	progress_done(&wait->progress);
	loop_exit(wait->door->cli->loop, 0);
}

static void on_delta(const Bc__V1__StatusDelta *delta, void *userdata)
{
	struct wait *wait = userdata;
	char text[256];

	settle_delta(wait->settle, delta);
	settle_text(wait->settle, text, sizeof(text));
	switch (settle_check(wait->settle)) {
	case SETTLE_WAITS:
		progress_text(&wait->progress, text);
		return;
	case SETTLE_DONE:
		progress_text(&wait->progress, text);
		wait_end(wait, EXIT_OK);
		return;
	case SETTLE_FAILED:
		wait_end(wait, EXIT_FAILED);
		(void)cli_fail(wait->door->cli, EXIT_FAILED, "an instance failed: %s", text);
		return;
	}
}

static void on_break(const struct rpc_status *status, void *userdata)
{
	struct wait *wait = userdata;

	(void)status;
	settle_break(wait->settle);
	progress_text(&wait->progress, "waiting for the converger");
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct wait *wait = userdata;

	wait_end(wait, door_failed(wait->door, status));
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct wait *wait = userdata;
	char text[256];

	(void)source;
	(void)usec;
	settle_text(wait->settle, text, sizeof(text));
	wait_end(wait, EXIT_TIMEOUT);
	(void)cli_fail(wait->door->cli, EXIT_TIMEOUT, "not reached in time: %s", text);
	return 0;
}

int apply_wait(struct door *door, const Bc__V1__NodeSpec *spec, uint64_t revision, uint64_t timeout_usec)
{
	CLEANUP(settle) struct settle *settle = settle_new(spec, revision);
	CLEANUP(status_stream) struct status_stream *stream = NULL;
	struct wait wait = { .door = door, .settle = settle };
	const struct status_stream_handlers handlers = {
		.on_delta = on_delta, .on_break = on_break, .on_end = on_end, .userdata = &wait
	};
	sd_event_source *timer = NULL;

	if (!settle)
		return cli_fail(door->cli, EXIT_FAILED, "out of memory");
	progress_init(&wait.progress, door->cli);
	stream = status_stream_new(door, "", &handlers);
	if (!stream)
		return EXIT_FAILED;
	(void)sd_event_add_time_relative(
	        loop_event(door->cli->loop), &timer, CLOCK_MONOTONIC, timeout_usec, 1000, on_late, &wait);
	(void)loop_run(door->cli->loop);
	sd_event_source_disable_unref(timer);
	return wait.code;
}
