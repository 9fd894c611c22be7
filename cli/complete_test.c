#include "cli/complete.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ids(
        struct cli *cli, enum word_kind kind, void (*fn)(const char *word, void *userdata), void *userdata)
{
	fn(kind == WORD_INSTANCE ? "6f1c0d8e" : kind == WORD_INTERFACE ? "bc0123456789n0" : "fake", userdata);
	if (strcmp(cli->run_dir, "/elsewhere") == 0)
		fn("6elsewhere", userdata);
}

/* Candidates for a line whose last word is being written, joined by spaces, without their explanations. */
static char *candidates(const char *const *words, size_t n)
{
	static const struct complete_sources SOURCES = { .ids = ids };
	char *text = NULL, *to;
	size_t size;
	struct cli cli;

	cli_init(&cli);
	cli.run_dir = "/nonexistent";
	cli.out = open_memstream(&text, &size);
	assert_non_null(cli.out);
	complete_words(&cli, words, n, &SOURCES);
	(void)fclose(cli.out);
	to = text;
	for (char *from = text; *from; from++) {
		if (*from == '\t')
			from = strchr(from, '\n');
		*to++ = *from == '\n' ? ' ' : *from;
	}
	*to = '\0';
	return text;
}

static void check(const char *want, size_t n, const char *const *words)
{
	char *text = candidates(words, n);

	if (strcmp(text, want) != 0)
		fail_msg("'%s', not '%s'", text, want);
	free(text);
}
#define CHECK(want, ...)                                                                                     \
	check(want, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *),                                \
	        (const char *const[]){ __VA_ARGS__ })

static void words_are_offered_where_they_may_stand(void **state)
{
	(void)state;
	CHECK("apply ", "ap");
	CHECK("describe drain doctor ", "d");
	CHECK("", "nothing-like-it");
	CHECK("drivers ", "get", "d");
	CHECK("6f1c0d8e ", "get", "6");
	CHECK("6f1c0d8e ", "describe", "");
	CHECK("", "describe", "6f1c0d8e", "");
	CHECK("list check remove-instance remove-interface ", "netd", "");
	CHECK("6f1c0d8e ", "netd", "check", "");
	CHECK("remove-instance remove-interface ", "netd", "remove-");
	CHECK("bc0123456789n0 ", "netd", "remove-interface", "");
	CHECK("fake ", "runtime", "list", "");
	CHECK("bash ", "completion", "b");
	CHECK("", "no-such-verb", "");
}

static void options_and_their_values(void **state)
{
	(void)state;
	CHECK("--dry-run ", "apply", "--dr");
	CHECK("--output ", "apply", "--o");
	CHECK("--run-dir ", "--run");
	CHECK(":file ", "apply", "-f", "");
	CHECK(":file ", "apply", "--file", "no");
	CHECK(":dir ", "apply", "--secrets", "");
	CHECK("json ", "get", "-o", "j");
	CHECK("json ", "-o", "j");
	CHECK("never ", "--color", "n");
	CHECK("REMOVING REMOVED ", "watch", "6f", "--until", "REM");
	CHECK("6f1c0d8e ", "-o", "json", "get", "6"); /* a value is no verb */
	CHECK("6f1c0d8e ", "events", "--follow", "");
	CHECK("", "snapshot", "--to", "");
	CHECK("6f1c0d8e 6elsewhere ", "--run-dir", "/elsewhere", "console", "6");
}

static void a_verb_of_each_group_is_offered(void **state)
{
	char *text = candidates((const char *const[]){ "" }, 1);

	(void)state;
	for (const struct command *const *command = commands; *command; command++)
		assert_int_equal(strstr(text, (*command)->name) != NULL, !(*command)->hidden);
	free(text);
}

TEST_SUITE(complete_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_offered_where_they_may_stand),
		cmocka_unit_test(options_and_their_values),
		cmocka_unit_test(a_verb_of_each_group_is_offered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
