#include "cli/answer.h"
#include "cli/human.h"
#include "cli/node_status.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"
#include "lib/base/quote.h"

#include <string.h>
#include <time.h>

struct events_view {
	struct cli *cli; /* weak */
	uint64_t last;   /* sequence of the newest shown */
	int r;
};

static enum style severity_style(Bc__V1__Event__Severity severity)
{
	return severity == BC__V1__EVENT__SEVERITY__ERROR      ? STYLE_BAD
	        : severity == BC__V1__EVENT__SEVERITY__WARNING ? STYLE_WARN
	                                                       : STYLE_PLAIN;
}

static void event_print(struct cli *cli, const Bc__V1__Event *event)
{
	enum style style = severity_style(event->severity);
	CLEANUP_FREE char *message = style_safe(event->message);
	CLEANUP_FREE char *reason = style_safe(event->reason);
	CLEANUP_FREE char *id = style_safe(event->instance_id[0] ? event->instance_id : "-");
	time_t seconds = (time_t)timestamp_seconds(event->time);
	struct tm tm;
	char when[32] = "";

	if (localtime_r(&seconds, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	(void)fprintf(cli->out, "%s  %-36s  %s%-7s%s  %s%s%s\n", when, id ? id : "",
	        style_begin(style, cli->color),
	        ENUM_TEXT(bc__v1__event__severity__descriptor, event->severity), style_end(style, cli->color),
	        reason ? reason : "", reason && reason[0] ? ": " : "", message ? message : "");
	(void)fflush(cli->out);
}

static bool on_event(const ProtobufCMessage *message, void *userdata)
{
	struct events_view *view = userdata;
	const Bc__V1__Event *event = (const Bc__V1__Event *)message;

	view->last = event->sequence;
	if (cli_output_is_data(view->cli))
		view->r = answer_print_next(view->cli, message);
	else
		event_print(view->cli, event);
	return view->r == EXIT_OK && !ferror(view->cli->out);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	struct events_view view = { .cli = cli };
	const struct door_stream stream = { .on_message = on_event, .userdata = &view };
	Bc__V1__EventsRequest request = BC__V1__EVENTS_REQUEST__INIT;
	struct rpc_status status = { 0 };
	char id[UUID_TEXT_MAX] = "";
	const char *after = arguments_value(arguments, "after");
	int r = door_open(cli, "converger", &door);

	if (r == EXIT_OK && arguments->n_words)
		r = instance_id_resolve(&door, arguments->words[0], id, sizeof(id));
	if (r != EXIT_OK)
		return r;
	if (after && human_parse_number(after, &request.after_sequence) < 0)
		return cli_usage(cli, "events: --after takes an event's number, not '%s'", QUOTED(after));
	request.instance_id = id;
	request.follow = arguments_given(arguments, "follow");
	cli_end_with_reader(cli);
	r = door_stream(&door, DOOR_METHOD(Converger, events), &request.base,
	        request.follow ? UINT64_MAX : cli->timeout_usec, &stream, &status);
	return r == EXIT_OK ? view.r : door_failed(&door, &status);
}

static const struct option_def OPTIONS[] = {
	{ 'f', "follow", NULL, WORD_NONE, "go on with new ones as they come" },
	{ 0, "after", "NUMBER", WORD_NONE, "only those after this one (\"sequence\" in -o json)" },
	{ 0 },
};

const struct command verb_events = {
	.name = "events",
	.words = "[ID]",
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Show what happened, of one instance or all",
	.options = OPTIONS,
	.example = "  bcctl events -f\n"
	           "  bcctl events 6f1c -o json",
	.run = run,
};

/* What people who come from other tools type first. */
const struct command verb_logs = {
	.name = "logs",
	.words = "[ID]",
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "The same as events",
	.description =
	        "The services' own logs are in the journal: journalctl -u 'bc-*'. A guest's own output is on its\n"
	        "console: bcctl console ID.",
	.options = OPTIONS,
	.example = "  bcctl logs 6f1c -f",
	.run = run,
};
