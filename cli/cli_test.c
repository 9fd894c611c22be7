/* What is done with a command line before any service is asked. */
#include "cli/cli.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct printed {
	char *out, *err; /* owned */
	int code;
};

static void printed_done(struct printed *output)
{
	free(output->out);
	free(output->err);
}

/* Runs "bcctl WORDS…", words separated by single spaces. */
static struct printed run(const char *words)
{
	struct printed output = { 0 };
	char *line = strdup(words), *argv[32] = { (char *)"bcctl" };
	size_t n_out, n_err;
	int argc = 1;
	struct cli cli;

	assert_non_null(line);
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	cli_init(&cli);
	cli.run_dir = "/nonexistent";
	cli.out = open_memstream(&output.out, &n_out);
	cli.err = open_memstream(&output.err, &n_err);
	assert_true(cli.out && cli.err);
	output.code = cli_main(&cli, argc, argv);
	(void)fclose(cli.out);
	(void)fclose(cli.err);
	cli_done(&cli);
	free(line);
	return output;
}

static void check(const char *words, int code, const char *out_has, const char *err_has)
{
	struct printed output __attribute__((cleanup(printed_done))) = run(words);

	if (output.code != code)
		fail_msg("bcctl %s: %d, not %d: %s", words, output.code, code, output.err);
	if (out_has && !strstr(output.out, out_has))
		fail_msg("bcctl %s prints '%s', without '%s'", words, output.out, out_has);
	if (err_has && !strstr(output.err, err_has))
		fail_msg("bcctl %s says '%s', without '%s'", words, output.err, err_has);
	if (!out_has)
		assert_string_equal(output.out, "");
}

static void usage_is_told_apart_from_failure(void **state)
{
	(void)state;
	check("", EXIT_USAGE, NULL, "Usage: bcctl");
	check("--help", EXIT_OK, "Exit codes:", NULL);
	check("help", EXIT_OK, "Exit codes:", NULL);
	check("--version", EXIT_OK, "bcctl " BC_VERSION, NULL);
	check("version", EXIT_OK, "bcctl " BC_VERSION, NULL);
	check("aply", EXIT_USAGE, NULL, "there is no verb 'aply', did you mean 'apply'?");
	check("xyzzy", EXIT_USAGE, NULL, "there is no verb 'xyzzy'\n");
	check("apply --dryrun", EXIT_USAGE, NULL, "unknown option '--dryrun', did you mean '--dry-run'?");
	check("apply -x", EXIT_USAGE, NULL, "unknown option '-x'");
	check("apply --file", EXIT_USAGE, NULL, "option '--file' needs a value");
	check("apply --dry-run=yes -f x", EXIT_USAGE, NULL, "takes no value");
	check("apply", EXIT_USAGE, NULL, "Try 'bcctl apply --help'.");
	check("describe", EXIT_USAGE, NULL, "describe needs ID");
	check("describe a b", EXIT_USAGE, NULL, "'b' is one word too many");
	check("netd", EXIT_USAGE, NULL, "netd needs a verb of its own");
	check("netd lst", EXIT_USAGE, NULL, "netd: there is no verb 'lst', did you mean 'list'?");
	check("get -o xml", EXIT_USAGE, NULL, "'xml' is no output format");
	check("get --timeout never", EXIT_USAGE, NULL, "--timeout takes a time");
	check("get --color red", EXIT_USAGE, NULL, "--color takes auto, always or never");
	check("drain --undo --stop", EXIT_USAGE, NULL, "opposite");
	check("events --after -1", EXIT_USAGE, NULL, "an event's number, not '-1'");
	check("watch --until RUNNING", EXIT_USAGE, NULL, "--until needs an ID");
	check("watch x --until BUSY", EXIT_USAGE, NULL, "--until takes a state");
	check("snapshot x", EXIT_USAGE, NULL, "--to URL");
	check("completion tcsh", EXIT_USAGE, NULL, "bash, zsh and fish");
	check("apply -f /nonexistent", EXIT_USAGE, NULL, "cannot read /nonexistent: No such file");
	check("apply -f x --dry-run --wait", EXIT_USAGE, NULL, "nothing to wait");
}

/* Runs "bcctl WORDS…" into fd, which it closes, and returns the exit code. */
static int run_into(int fd, const char *words, char **ret_err)
{
	char *argv[] = { (char *)"bcctl", (char *)(uintptr_t)words };
	size_t n_err;
	struct cli cli;
	int code;

	cli_init(&cli);
	cli.run_dir = "/nonexistent";
	cli.out = fdopen(fd, "w");
	cli.err = open_memstream(ret_err, &n_err);
	assert_true(cli.out && cli.err);
	code = cli_main(&cli, 2, argv);
	(void)fclose(cli.out);
	(void)fclose(cli.err);
	cli_done(&cli);
	return code;
}

static void output_that_is_not_written_is_a_failure(void **state)
{
	static const char *const PRINTING[] = { "help", "--help", "--version", "version" };

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(PRINTING) / sizeof(PRINTING[0]); i++) {
		CLEANUP_FREE char *full = NULL;
		CLEANUP_FREE char *gone = NULL;
		int pipe_fds[2];

		assert_int_equal(run_into(open("/dev/full", O_WRONLY), PRINTING[i], &full), EXIT_FAILED);
		assert_string_equal(full, "bcctl: cannot write the output: No space left on device\n");
		/* A reader that had enough is none. */
		assert_int_equal(pipe(pipe_fds), 0);
		(void)close(pipe_fds[0]);
		assert_int_equal(run_into(pipe_fds[1], PRINTING[i], &gone), EXIT_OK);
		assert_string_equal(gone, "");
	}
}

static void absence_has_its_own_code(void **state)
{
	(void)state;
	check("get", EXIT_ABSENT, NULL, "nobody listens on /nonexistent/converger.sock");
	check("-o json get", EXIT_ABSENT, NULL, "bc-converger does not run");
	check("get --socket /nonexistent/x.sock", EXIT_ABSENT, NULL, "/nonexistent/x.sock");
	check("netd list", EXIT_ABSENT, NULL, "bc-netd does not run");
	check("runtime list", EXIT_ABSENT, NULL, "cannot look for runtimes in /nonexistent");
	check("watch", EXIT_ABSENT, NULL, "bc-converger does not run");
	check("events", EXIT_ABSENT, NULL, "bc-converger does not run");
	check("console 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11", EXIT_ABSENT, NULL, "bc-converger does not run");
	check("top", EXIT_ABSENT, NULL, "bc-converger does not run");
}

static void check_help_of(const struct command *command, const char *group)
{
	char words[64];
	struct printed output;

	(void)snprintf(
	        words, sizeof(words), "%s%s%s --help", group ? group : "", group ? " " : "", command->name);
	output = run(words);
	assert_int_equal(output.code, EXIT_OK);
	assert_non_null(strstr(output.out, command->summary));
	if (!command->hidden && !strstr(output.out, "Example:\n  "))
		fail_msg("%s has no example", words);
	/* 110 columns are enough for everybody. */
	for (char *line = strtok(output.out, "\n"); line; line = strtok(NULL, "\n"))
		if (strlen(line) > 120)
			fail_msg("%s: the line '%s' is too long", words, line);
	printed_done(&output);
	for (const struct command *const *inner = command->verbs; inner && *inner; inner++)
		check_help_of(*inner, command->name);
}

static void every_verb_explains_itself(void **state)
{
	(void)state;
	for (const struct command *const *command = commands; *command; command++)
		check_help_of(*command, NULL);
	check("help apply", EXIT_OK, "Usage: bcctl apply", NULL);
	check("apply -h", EXIT_OK, "Usage: bcctl apply", NULL);
}

/* The hint behind a mistake is a command line that helps with just that verb. */
static void check_hint_of(const struct command *command, const char *group)
{
	char words[64], wrong[96], hint[96];

	(void)snprintf(words, sizeof(words), "%s%s%s", group ? group : "", group ? " " : "", command->name);
	(void)snprintf(wrong, sizeof(wrong), "%s --nonsense", words);
	(void)snprintf(hint, sizeof(hint), "%s: unknown option '--nonsense'\nTry 'bcctl %s --help'.\n", words,
	        words);
	check(wrong, EXIT_USAGE, NULL, hint);
	(void)snprintf(wrong, sizeof(wrong), "%s --help", words);
	(void)snprintf(hint, sizeof(hint), "Usage: bcctl %s", words);
	check(wrong, EXIT_OK, hint, NULL);
	for (const struct command *const *inner = command->verbs; inner && *inner; inner++)
		check_hint_of(*inner, command->name);
}

static void a_mistake_is_told_where_help_is(void **state)
{
	(void)state;
	for (const struct command *const *command = commands; *command; command++)
		if (!(*command)->hidden)
			check_hint_of(*command, NULL);
	check("netd check", EXIT_USAGE, NULL, "netd check needs ID [NIC]\nTry 'bcctl netd check --help'.\n");
	check("netd check a b c", EXIT_USAGE, NULL, "netd check: 'c' is one word too many\n");
}

/* Each command is whole: a reader of the table never meets a NULL it does not expect. */
static void check_whole(const struct command *command)
{
	size_t n = 0;

	assert_non_null(command->name);
	assert_non_null(command->summary);
	assert_true((command->run != NULL) != (command->verbs != NULL));
	assert_true(command->n_words_min <= command->n_words_max);
	assert_true(command->n_words_max == 0 || command->words);
	for (; command->options && command->options[n].name; n++)
		assert_non_null(command->options[n].help);
	assert_true(n <= OPTIONS_MAX);
	for (const struct command *const *inner = command->verbs; inner && *inner; inner++)
		check_whole(*inner);
}

static void every_verb_is_whole(void **state)
{
	(void)state;
	for (const struct command *const *command = commands; *command; command++)
		check_whole(*command);
}

/* The manual page, without the backslashes that roff wants. */
static char *man_page(void)
{
	char *text = NULL, *to;
	size_t n_text;

	assert_int_equal(file_read(AT_FDCWD, BC_MAN_PAGE, 1 << 20, &text, &n_text), 0);
	to = text;
	for (const char *from = text; *from; from++)
		if (from[0] == '\\' && from[1] == 'f' && from[2])
			from += 2; /* a change of font */
		else if (*from != '\\')
			*to++ = *from;
	*to = '\0';
	return text;
}

static void check_documented(const char *page, const struct command *command, const char *group)
{
	char text[64];

	if (command->hidden)
		return;
	(void)snprintf(text, sizeof(text), "%s%s%s", group ? group : "", group ? " " : "", command->name);
	if (!command->verbs && !strstr(page, text))
		fail_msg("bcctl(1) says nothing of '%s'", text);
	for (const struct option_def *option = command->options; option && option->name; option++) {
		(void)snprintf(text, sizeof(text), "--%s", option->name);
		if (!strstr(page, text))
			fail_msg("bcctl(1) says nothing of %s of %s", text, command->name);
	}
	for (const struct command *const *inner = command->verbs; inner && *inner; inner++)
		check_documented(page, *inner, command->name);
}

static void the_manual_page_leaves_nothing_out(void **state)
{
	CLEANUP_FREE char *page = man_page();
	const struct command all = { .name = "NAME", .options = global_options };

	(void)state;
	check_documented(page, &all, NULL);
	for (const struct command *const *command = commands; *command; command++)
		check_documented(page, *command, NULL);
	for (int code = 0; code <= EXIT_INTERRUPTED; code++) {
		char text[16];

		(void)snprintf(text, sizeof(text), ".B %d\n", code);
		assert_int_equal(strstr(page, text) != NULL, exit_code_text(code) != NULL);
	}
}

static void a_status_has_one_exit_code(void **state)
{
	static const struct {
		grpc_status_code code;
		int hint;
		enum exit_code want;
	} TABLE[] = {
		{ GRPC_STATUS_OK, 0, EXIT_OK },
		{ GRPC_STATUS_INVALID_ARGUMENT, 0, EXIT_USAGE },
		{ GRPC_STATUS_NOT_FOUND, 0, EXIT_NOT_FOUND },
		{ GRPC_STATUS_UNAVAILABLE, -ENOENT, EXIT_ABSENT },
		{ GRPC_STATUS_UNAVAILABLE, -ECONNREFUSED, EXIT_ABSENT },
		{ GRPC_STATUS_UNAVAILABLE, 0, EXIT_ABSENT },
		{ GRPC_STATUS_UNAVAILABLE, -EACCES, EXIT_REFUSED },
		{ GRPC_STATUS_PERMISSION_DENIED, 0, EXIT_REFUSED },
		{ GRPC_STATUS_FAILED_PRECONDITION, 0, EXIT_CONFLICT },
		{ GRPC_STATUS_ALREADY_EXISTS, 0, EXIT_CONFLICT },
		{ GRPC_STATUS_ABORTED, 0, EXIT_CONFLICT },
		{ GRPC_STATUS_DEADLINE_EXCEEDED, 0, EXIT_TIMEOUT },
		{ GRPC_STATUS_RESOURCE_EXHAUSTED, 0, EXIT_NO_CAPACITY },
		{ GRPC_STATUS_UNIMPLEMENTED, 0, EXIT_UNSUPPORTED },
		{ GRPC_STATUS_INTERNAL, 0, EXIT_FAILED },
		{ (grpc_status_code)99, 0, EXIT_FAILED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct rpc_status status = { .code = TABLE[i].code, .errno_hint = TABLE[i].hint };

		assert_int_equal(exit_code_of(&status), TABLE[i].want);
		assert_non_null(exit_code_text((int)TABLE[i].want));
	}
	assert_null(exit_code_text(42));
}

TEST_SUITE(cli_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_that_is_not_written_is_a_failure),
		cmocka_unit_test(usage_is_told_apart_from_failure),
		cmocka_unit_test(absence_has_its_own_code),
		cmocka_unit_test(every_verb_explains_itself),
		cmocka_unit_test(a_mistake_is_told_where_help_is),
		cmocka_unit_test(every_verb_is_whole),
		cmocka_unit_test(the_manual_page_leaves_nothing_out),
		cmocka_unit_test(a_status_has_one_exit_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
