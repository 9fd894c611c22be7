#include "cli/instance_view.h"
#include "cli/status_stream.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"

#include <string.h>
#include <time.h>

struct watch {
	struct cli *cli;   /* weak */
	struct door *door; /* weak */
	int until;         /* state to end at; -1: none */
	int r;
};

static void line_print(struct cli *cli, const Bc__V1__InstanceStatus *status)
{
	enum style style = instance_state_style(status->state);
	CLEANUP_FREE char *note = instance_note(status, time(NULL));
	CLEANUP_FREE char *note_safe = note ? style_safe(note) : NULL;
	CLEANUP_FREE char *id = style_safe(status->id);
	char state[ENUM_TEXT_MAX], when[16] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%H:%M:%S", &tm);
	bool has_note = note_safe && note_safe[0];
	(void)fprintf(cli->out, "%s  %-36s  %s%-*s%s%s%s\n", when, id ? id : "",
	        style_begin(style, cli->color), has_note ? 9 : 0, instance_state_text(status->state, state),
	        style_end(style, cli->color), has_note ? "  " : "", has_note ? note_safe : "");
}

static void on_delta(const Bc__V1__StatusDelta *delta, void *userdata)
{
	struct watch *watch = userdata;
	struct cli *cli = watch->cli;

	if (cli_output_is_data(cli))
		(void)answer_print_next(cli, &delta->base);
	for (size_t i = 0; i < delta->n_instances; i++) {
		if (cli->output == OUTPUT_TABLE || cli->output == OUTPUT_WIDE)
			line_print(cli, delta->instances[i]);
		if (watch->until >= 0 && (int)delta->instances[i]->state == watch->until)
			loop_exit(cli->loop, 0);
	}
	/* Nobody reads any more: nothing is worth watching. */
	if (fflush(cli->out) != 0)
		loop_exit(cli->loop, 0);
}

static void on_break(const struct rpc_status *status, void *userdata)
{
	struct watch *watch = userdata;
	char text[256];

	(void)fprintf(watch->cli->err, "bcctl: %s: %s; trying again\n", watch->door->service,
	        door_failure_text(watch->door, status, text, sizeof(text)));
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct watch *watch = userdata;

	watch->r = door_failed(watch->door, status);
	loop_exit(watch->cli->loop, 0);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct watch *watch = userdata;

	(void)source;
	(void)usec;
	watch->r = cli_fail(watch->cli, EXIT_TIMEOUT, "the state was not reached in time");
	loop_exit(watch->cli->loop, 0);
	return 0;
}

static int state_parse(const char *name, int *ret)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(
	        &bc__v1__instance_status__state__descriptor, name);

	if (!value || value->value == 0)
		return -1;
	*ret = value->value;
	return 0;
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP(status_stream) struct status_stream *stream = NULL;
	struct watch watch = { .cli = cli, .door = &door, .until = -1 };
	const struct status_stream_handlers handlers = {
		.on_delta = on_delta, .on_break = on_break, .on_end = on_end, .userdata = &watch
	};
	const char *until = arguments_value(arguments, "until");
	char id[UUID_TEXT_MAX] = "";
	int r;

	if (until && arguments->n_words == 0)
		return cli_usage(cli, "watch: --until needs an ID");
	if (until && state_parse(until, &watch.until) < 0)
		return cli_usage(cli, "watch: --until takes a state such as RUNNING, not '%s'", until);
	r = door_open(cli, "converger", &door);
	if (r == EXIT_OK && arguments->n_words)
		r = instance_id_resolve(&door, arguments->words[0], id, sizeof(id));
	if (r != EXIT_OK)
		return r;
	stream = status_stream_new(&door, id, &handlers);
	if (!stream)
		return EXIT_FAILED;
	cli_end_with_reader(cli);
	if (until)
		(void)sd_event_add_time_relative(loop_event(cli->loop), NULL, CLOCK_MONOTONIC,
		        cli->timeout_usec, 1000, on_late, &watch);
	(void)loop_run(cli->loop);
	return watch.r;
}

static const struct option_def OPTIONS[] = {
	{ 0, "until", "STATE", WORD_STATE, "end when the instance has this state, or --timeout is over" },
	{ 0 },
};

const struct command verb_watch = {
	.name = "watch",
	.words = "[ID]",
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Show each change of state as it happens, until Ctrl-C",
	.description =
	        "Begins with the present state of everything. A converger that restarts meanwhile is waited for.\n"
	        "With -o json each change is a StatusDelta on a line of its own.",
	.options = OPTIONS,
	.example = "  bcctl watch\n"
	           "  bcctl watch 6f1c --until RUNNING --timeout 2m",
	.run = run,
};
