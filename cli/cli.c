#include "cli/cli.h"

#include "cli/help.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/style.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/suggest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct option_def global_options[] = {
	{ 'o', "output", "FORMAT", WORD_OUTPUT, "table, wide, json, yaml or name" },
	{ 0, "run-dir", "DIR", WORD_DIR, "where the sockets are; $BC_RUN_DIR or " RUN_DIR_DEFAULT },
	{ 0, "socket", "PATH", WORD_FILE, "the one socket to use, whatever its name" },
	{ 0, "timeout", "TIME", WORD_NONE, "how long an answer may take: 30s, 5m; 30s" },
	{ 0, "no-headings", NULL, WORD_NONE, "tables without their first line" },
	{ 0, "color", "WHEN", WORD_COLOR, "auto, always or never; auto minds NO_COLOR" },
	{ 'h', "help", NULL, WORD_NONE, "what a verb does and takes, with an example" },
	{ 0, "version", NULL, WORD_NONE, "bcctl's version" },
	{ 0 },
};

void cli_init(struct cli *cli)
{
	const char *run_dir = getenv("BC_RUN_DIR");

	*cli = (struct cli){
		.run_dir = run_dir && run_dir[0] ? run_dir : RUN_DIR_DEFAULT,
		.timeout_usec = TIMEOUT_DEFAULT_USEC,
		.headings = true,
		.out = stdout,
		.err = stderr,
	};
}

void cli_done(struct cli *cli)
{
	cli->sigint = sd_event_source_disable_unref(cli->sigint);
	cli->sigterm = sd_event_source_disable_unref(cli->sigterm);
	cli->reader = sd_event_source_disable_unref(cli->reader);
	cli->loop = cli->loop ? loop_free(cli->loop) : NULL;
}

bool cli_output_is_data(const struct cli *cli)
{
	return cli->output == OUTPUT_JSON || cli->output == OUTPUT_YAML;
}

static void say(struct cli *cli, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static void say(struct cli *cli, const char *fmt, va_list ap)
{
	(void)fflush(cli->out);
	(void)fprintf(cli->err, "%sbcctl:%s ", style_begin(STYLE_BAD, cli->err_color),
	        style_end(STYLE_BAD, cli->err_color));
	(void)vfprintf(cli->err, fmt, ap);
	(void)fputc('\n', cli->err);
}

int cli_fail(struct cli *cli, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cli, fmt, ap);
	va_end(ap);
	return code;
}

enum { VERB_TEXT_MAX = 64 };

/* As it is written behind "bcctl": "get", "netd check". */
static const char *verb_text(const struct cli *cli, char buf[static VERB_TEXT_MAX])
{
	(void)snprintf(buf, VERB_TEXT_MAX, "%s%s%s", cli->group ? cli->group : "", cli->group ? " " : "",
	        cli->command->name);
	return buf;
}

int cli_usage(struct cli *cli, const char *fmt, ...)
{
	char verb[VERB_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	say(cli, fmt, ap);
	va_end(ap);
	if (cli->command)
		(void)fprintf(cli->err, "Try 'bcctl %s --help'.\n", verb_text(cli, verb));
	else
		(void)fprintf(cli->err, "Try 'bcctl --help'.\n");
	return EXIT_USAGE;
}

/* A person's Ctrl-C ends a tool at once; a verb that has something to undo takes the signal itself. */
static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)source;
	(void)userdata;
	(void)fflush(NULL);
	_exit(128 + (int)si->ssi_signo);
}

struct loop *cli_loop(struct cli *cli)
{
	sigset_t mask;
	struct loop *loop;

	if (cli->loop)
		return cli->loop;
	/* gRPC's own threads inherit the mask, so it is set before they are made. */
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)signal(SIGPIPE, SIG_IGN);

	int r = loop_new(&loop);

	if (r < 0) {
		(void)cli_fail(cli, EXIT_FAILED, "cannot start: %s", strerror(-r));
		return NULL;
	}
	cli->loop = loop;
	cli_catch_signals(cli, on_signal, NULL);
	return loop;
}

void cli_catch_signals(struct cli *cli, sd_event_signal_handler_t handler, void *userdata)
{
	sd_event *event = loop_event(cli->loop);

	sd_event_source_disable_unref(cli->sigint);
	sd_event_source_disable_unref(cli->sigterm);
	cli->sigint = cli->sigterm = NULL;
	(void)sd_event_add_signal(event, &cli->sigint, SIGINT, handler, userdata);
	(void)sd_event_add_signal(event, &cli->sigterm, SIGTERM, handler, userdata);
}

static int on_reader_gone(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	(void)userdata;
	_exit(EXIT_OK); /* what is not written yet nobody wants */
}

void cli_end_with_reader(struct cli *cli)
{
	int fd = fileno(cli->out);

	/* No event is asked for, so only the end of the other side is told; files cannot be watched, nor need be. */
	if (fd >= 0)
		(void)sd_event_add_io(loop_event(cli->loop), &cli->reader, fd, 0, on_reader_gone, NULL);
}

static int output_parse(struct cli *cli, const char *name)
{
	static const char *const NAMES[] = { "table", "wide", "json", "yaml", "name" };

	for (size_t i = 0; name && i < ARRAY_SIZE(NAMES); i++)
		if (strcmp(name, NAMES[i]) == 0) {
			cli->output = (enum output)i;
			return EXIT_OK;
		}
	return name ? cli_usage(cli, "'%s' is no output format; write table, wide, json, yaml or name",
	                      QUOTED(name))
	            : EXIT_OK;
}

static int globals_apply(struct cli *cli, const struct arguments *globals)
{
	const char *color = arguments_value(globals, "color");
	const char *timeout = arguments_value(globals, "timeout");
	const char *run_dir = arguments_value(globals, "run-dir");

	if (!color)
		color = "auto";
	if (strcmp(color, "auto") != 0 && strcmp(color, "always") != 0 && strcmp(color, "never") != 0)
		return cli_usage(cli, "--color takes auto, always or never, not '%s'", QUOTED(color));
	cli->color = style_wanted(color, cli->out);
	cli->err_color = style_wanted(color, cli->err);
	if (timeout && human_parse_duration(timeout, &cli->timeout_usec) < 0)
		return cli_usage(cli, "--timeout takes a time such as 30s or 5m, not '%s'", QUOTED(timeout));
	if (run_dir)
		cli->run_dir = run_dir;
	if (arguments_given(globals, "socket"))
		cli->socket = arguments_value(globals, "socket");
	if (arguments_given(globals, "no-headings"))
		cli->headings = false;
	return output_parse(cli, arguments_value(globals, "output"));
}

static const struct command *command_find(const struct command *const *list, const char *name)
{
	for (; *list; list++)
		if (strcmp((*list)->name, name) == 0)
			return *list;
	return NULL;
}

static int unknown_command(
        struct cli *cli, const struct command *const *list, const char *group, const char *name)
{
	struct suggestion suggestion = suggestion_of(name);
	char hint[SUGGESTION_TEXT_MAX];

	for (; *list; list++)
		if (!(*list)->hidden)
			suggestion_offer(&suggestion, (*list)->name);
	return cli_usage(cli, "%s%sthere is no verb '%s'%s", group ? group : "", group ? ": " : "",
	        QUOTED(name), suggestion_text(&suggestion, hint));
}

static int words_check(struct cli *cli, const struct command *command, const struct arguments *arguments)
{
	char verb[VERB_TEXT_MAX];

	if (arguments->n_words < command->n_words_min)
		return cli_usage(cli, "%s needs %s", verb_text(cli, verb), command->words);
	if (arguments->n_words > command->n_words_max)
		return cli_usage(cli, "%s: '%s' is one word too many", verb_text(cli, verb),
		        QUOTED(arguments->words[command->n_words_max]));
	return EXIT_OK;
}

/* argv[0] is the verb. */
static int command_run(struct cli *cli, const struct command *command, const char *group,
        struct arguments *globals, int argc, char **argv)
{
	struct arguments arguments = { 0 };
	const struct option_set sets[] = { { command->options, &arguments }, { global_options, globals } };
	char verb[VERB_TEXT_MAX];
	struct err err = { 0 };
	int first;

	cli->command = command;
	cli->group = group;
	if (options_parse(argc, argv, command->verbs != NULL, sets, ARRAY_SIZE(sets), &first, &err) < 0)
		return cli_usage(cli, "%s: %s", verb_text(cli, verb), err.text);
	if (arguments_given(globals, "help") && (!command->verbs || first >= argc)) {
		help_command(command, group, cli->out);
		return EXIT_OK;
	}
	if (command->verbs) {
		if (first >= argc)
			return cli_usage(cli, "%s needs a verb of its own", command->name);
		const struct command *inner = command_find(command->verbs, argv[first]);

		return inner ? command_run(cli, inner, command->name, globals, argc - first, argv + first)
		             : unknown_command(cli, command->verbs, command->name, argv[first]);
	}
	arguments.words = (const char *const *)(argv + first);
	arguments.n_words = (size_t)(argc - first);

	int r = globals_apply(cli, globals);

	if (r == EXIT_OK)
		r = words_check(cli, command, &arguments);
	return r == EXIT_OK ? command->run(cli, &arguments) : r;
}

static int command_dispatch(struct cli *cli, struct arguments *globals, int argc, char **argv)
{
	if (strcmp(argv[0], "help") == 0 && argc > 1) { /* "help VERB" is "VERB --help" */
		argv++;
		argc--;
		for (size_t i = 0; global_options[i].name; i++)
			if (strcmp(global_options[i].name, "help") == 0)
				globals->values[i] = "";
	}
	if (strcmp(argv[0], "help") == 0) {
		help_all(cli->out);
		return EXIT_OK;
	}

	const struct command *command = command_find(commands, argv[0]);

	return command ? command_run(cli, command, NULL, globals, argc, argv)
	               : unknown_command(cli, commands, NULL, argv[0]);
}

/* Nobody reads on: that is the reader's affair, and no failure. */
static bool reader_is_gone(const struct cli *cli)
{
	struct pollfd p = { .fd = fileno(cli->out), .events = POLLOUT };

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

/* Every verb's output is whole, or the exit code says so. */
static int output_end(struct cli *cli, int code)
{
	bool had_failed = ferror(cli->out) != 0;
	int r;

	errno = 0;
	r = fflush(cli->out) != 0 ? -errno : 0;
	if ((r == 0 && !had_failed) || code != EXIT_OK || reader_is_gone(cli))
		return code;
	return cli_fail(cli, EXIT_FAILED, "cannot write the output: %s", strerror(r < 0 ? -r : EIO));
}

static int cli_run(struct cli *cli, int argc, char **argv)
{
	struct arguments globals = { 0 };
	const struct option_set set = { global_options, &globals };
	struct err err = { 0 };
	int first;

	if (options_parse(argc, argv, true, &set, 1, &first, &err) < 0)
		return cli_usage(cli, "%s", err.text);
	if (arguments_given(&globals, "version")) {
		(void)fprintf(cli->out, "bcctl %s\n", BC_VERSION);
		return EXIT_OK;
	}
	if (first >= argc) {
		help_all(arguments_given(&globals, "help") ? cli->out : cli->err);
		return arguments_given(&globals, "help") ? EXIT_OK : EXIT_USAGE;
	}
	return command_dispatch(cli, &globals, argc - first, argv + first);
}

int cli_main(struct cli *cli, int argc, char **argv)
{
	return output_end(cli, cli_run(cli, argc, argv));
}
