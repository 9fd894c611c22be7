#include "cli/human.h"
#include "cli/matcher.h"
#include "cli/node_status.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

enum { ESCAPE = 0x1d, CHUNK = 4096 }; /* Ctrl-], as virsh console and telnet have it */
#define LINGER_USEC UINT64_C(1000000)

struct console {
	struct cli *cli;             /* weak */
	struct door *door;           /* weak */
	struct rpc_request *request; /* weak; NULL when it has ended */
	struct matcher *until;       /* owned */
	struct terminal terminal;
	sd_event_source *input, *late; /* owned */
	uint64_t linger_usec;
	bool opened, left; /* left: by our own wish */
	bool sent;         /* something of the input */
	bool input_open;
	bool input_always; /* a file, which epoll does not take: it can always be read */
	int code;
};

/* Leaves the session; on_end follows. */
static void console_leave(struct console *console, int code)
{
	if (console->left)
		return;
	console->left = true;
	console->code = code;
	rpc_cancel(console->request);
}

static int on_linger_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct console *console = userdata;

	(void)source;
	(void)usec;
	console_leave(console, console->until ? EXIT_TIMEOUT : EXIT_OK);
	return 0;
}

/* No more comes from our side: what the guest still says is waited for, for a while. */
static void input_end(struct console *console)
{
	if (!console->input_open)
		return;
	console->input_open = false;
	console->input = sd_event_source_disable_unref(console->input);
	/* Who says nothing at all wants to listen: until Ctrl-C, or the text, or --timeout. */
	if (!console->linger_usec && (console->until || !console->sent))
		return;
	(void)sd_event_add_time_relative(loop_event(console->cli->loop), NULL, CLOCK_MONOTONIC,
	        console->linger_usec ? console->linger_usec : LINGER_USEC, 1000, on_linger_over, console);
}

static void input_pause(struct console *console, bool pause)
{
	if (console->input)
		(void)sd_event_source_set_enabled(console->input,
		        pause                           ? SD_EVENT_OFF
		                : console->input_always ? SD_EVENT_ONESHOT
		                                        : SD_EVENT_ON);
}

/* The bytes before the escape; whether it was among them. Only a person's keyboard has one. */
static size_t escape_find(const struct console *console, const char *data, size_t n, bool *ret_found)
{
	const char *at = console->terminal.raw ? memchr(data, ESCAPE, n) : NULL;

	*ret_found = at != NULL;
	return at ? (size_t)(at - data) : n;
}

static void input_take(struct console *console)
{
	Bc__V1__ConsoleInput message = BC__V1__CONSOLE_INPUT__INIT;
	char data[CHUNK];
	ssize_t n = read(STDIN_FILENO, data, sizeof(data));
	bool escaped;
	size_t n_send;

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		input_pause(console, false);
		return;
	}
	if (n <= 0) {
		input_end(console);
		return;
	}
	n_send = escape_find(console, data, (size_t)n, &escaped);
	message.input_case = BC__V1__CONSOLE_INPUT__INPUT_DATA;
	message.data.data = (uint8_t *)data;
	message.data.len = n_send;
	if (n_send && rpc_request_send(console->request, &message.base) < 0)
		return; /* it has ended: on_end follows */
	console->sent = true;
	if (escaped) {
		console_leave(console, EXIT_OK);
		return;
	}
	/* One piece at a time is on its way: a guest that does not read holds us up, not our memory. */
	input_pause(console, true);
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	input_take(userdata);
	return 0;
}

static int on_input_file(sd_event_source *source, void *userdata)
{
	(void)source;
	input_take(userdata);
	return 0;
}

static void on_writable(struct rpc_request *request, void *userdata)
{
	struct console *console = userdata;

	(void)request;
	if (console->opened)
		input_pause(console, false);
}

static void input_start(struct console *console)
{
	sd_event *event = loop_event(console->cli->loop);
	int r = sd_event_add_io(event, &console->input, STDIN_FILENO, EPOLLIN, on_input, console);

	console->input_open = true;
	if (r == -EPERM) {
		console->input_always = true;
		r = sd_event_add_defer(event, &console->input, on_input_file, console);
	}
	if (r < 0)
		input_end(console); /* a closed descriptor says as much as its end */
}

static void opened(struct console *console)
{
	console->opened = true;
	if (isatty(STDIN_FILENO))
		(void)fprintf(console->cli->err, "Connected. Escape is Ctrl-].\n");
	if (terminal_raw(&console->terminal, STDIN_FILENO) < 0)
		(void)cli_fail(console->cli, EXIT_OK, "the terminal stays as it is: %s", strerror(errno));
	input_start(console);
}

static void output_write(struct console *console, const ProtobufCBinaryData *data)
{
	(void)fwrite(data->data, 1, data->len, console->cli->out);
	if (fflush(console->cli->out) != 0)
		console_leave(console, EXIT_FAILED);
	if (console->until && matcher_feed(console->until, data->data, data->len))
		console_leave(console, EXIT_OK);
}

static void on_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	struct console *console = userdata;
	const Bc__V1__ConsoleOutput *output = (const Bc__V1__ConsoleOutput *)message;

	if (console->left)
		return;
	if (output->output_case == BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED && !console->opened)
		opened(console);
	else if (output->output_case == BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA)
		output_write(console, &output->data);
	rpc_request_read(request);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct console *console = userdata;

	console->request = NULL;
	terminal_restore(&console->terminal, STDIN_FILENO);
	if (!console->left && status->code == GRPC_STATUS_OK)
		console->code = console->until ? EXIT_FAILED : EXIT_OK;
	else if (!console->left)
		console->code = door_failed(console->door, status);
	/* An instance that does not run is a conflict too; the word is the request's own field. */
	if (!console->left && strstr(status->message, "take_over"))
		(void)fprintf(console->cli->err, "--take-over ends the other session.\n");
	loop_exit(console->cli->loop, 0);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)source;
	console_leave(userdata, 128 + (int)si->ssi_signo);
	return 0;
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct console *console = userdata;

	(void)source;
	(void)usec;
	console_leave(console, EXIT_TIMEOUT);
	return 0;
}

static void console_run(struct console *console, const char *id, const struct arguments *arguments)
{
	static const struct rpc_stream_handlers HANDLERS = {
		.on_message = on_message, .on_writable = on_writable, .on_end = on_end
	};
	Bc__V1__ConsoleOpen open = BC__V1__CONSOLE_OPEN__INIT;
	Bc__V1__ConsoleInput first = BC__V1__CONSOLE_INPUT__INIT;
	struct cli *cli = console->cli;

	open.id = (char *)(uintptr_t)id;
	open.take_over = arguments_given(arguments, "take-over");
	open.no_backlog = arguments_given(arguments, "no-backlog");
	first.input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
	first.open = &open;
	cli_catch_signals(cli, on_signal, console);
	console->request = rpc_stream(console->door->channel, DOOR_METHOD(Converger, console), NULL,
	        UINT64_MAX, &HANDLERS, console);
	(void)rpc_request_send(console->request, &first.base);
	rpc_request_read(console->request);
	if (console->until)
		(void)sd_event_add_time_relative(loop_event(cli->loop), &console->late, CLOCK_MONOTONIC,
		        cli->timeout_usec, 1000, on_late, console);
	(void)loop_run(cli->loop);
	sd_event_source_disable_unref(console->input);
	sd_event_source_disable_unref(console->late);
	if (console->terminal.raw || isatty(STDOUT_FILENO))
		(void)fputc('\n', cli->err);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	struct console console = { .cli = cli, .door = &door };
	const char *until = arguments_value(arguments, "until");
	const char *linger = arguments_value(arguments, "linger");
	char id[UUID_TEXT_MAX];
	int r;

	if (until && !until[0])
		return cli_usage(cli, "console: --until needs a text");
	if (linger && human_parse_duration(linger, &console.linger_usec) < 0)
		return cli_usage(cli, "console: --linger takes a time such as 5s, not '%s'", linger);
	r = door_open(cli, "converger", &door);
	if (r == EXIT_OK)
		r = instance_id_resolve(&door, arguments->words[0], id, sizeof(id));
	if (r != EXIT_OK)
		return r;
	if (until) {
		console.until = matcher_new(until);
		if (!console.until)
			return cli_fail(cli, EXIT_FAILED, "out of memory");
	}
	console_run(&console, id, arguments);
	(void)matcher_free(console.until);
	if (console.code == EXIT_TIMEOUT)
		return cli_fail(cli, EXIT_TIMEOUT, "'%s' was not seen in time", until);
	return console.code;
}

static const struct option_def OPTIONS[] = {
	{ 0, "take-over", NULL, WORD_NONE, "end another session instead of being refused" },
	{ 0, "no-backlog", NULL, WORD_NONE, "begin now, without what was printed before" },
	{ 0, "until", "TEXT", WORD_NONE, "end when the guest has printed this, or --timeout is over" },
	{ 0, "linger", "TIME", WORD_NONE, "how long to listen on after the end of the input; 1s" },
	{ 0 },
};

const struct command verb_console = {
	.name = "console",
	.words = "ID",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Use an instance's serial console; Ctrl-] leaves it",
	.description =
	        "One session at a time. The last 64 KiB the guest printed come first. When the input is no terminal\n"
	        "every byte of it is sent, and bcctl leaves a while after its end.",
	.options = OPTIONS,
	.example = "  bcctl console 6f1c\n"
	           "  echo uname | bcctl console 6f1c --linger 3s\n"
	           "  bcctl console 6f1c --until 'login:' --timeout 2m </dev/null",
	.run = run,
};
