#include "lib/base/suggest.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *nearest(const char *word)
{
	static const char *const CANDIDATES[] = { "desiredState", "memoryBytes", "vcpus", "nics", "RUNNING",
		"id" };
	struct suggestion suggestion = suggestion_of(word);

	for (size_t i = 0; i < sizeof(CANDIDATES) / sizeof(CANDIDATES[0]); i++)
		suggestion_offer(&suggestion, CANDIDATES[i]);
	return suggestion.best ? suggestion.best : "";
}

static void near_words_are_found(void **state)
{
	(void)state;
	assert_string_equal(nearest("vcpu"), "vcpus");
	assert_string_equal(nearest("vpcus"), "vcpus");
	assert_string_equal(nearest("desired-state"), "desiredState");
	assert_string_equal(nearest("memoryByte"), "memoryBytes");
	assert_string_equal(nearest("running"), "RUNNING");
	assert_string_equal(nearest("Id"), "id");
}

static void strangers_are_not(void **state)
{
	char text[SUGGESTION_TEXT_MAX], longest[65];

	(void)state;
	assert_string_equal(nearest("kernel"), "");
	assert_string_equal(nearest(""), "");
	assert_string_equal(nearest("x"), "");
	memset(longest, 'v', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_string_equal(nearest(longest), "");
	struct suggestion suggestion = suggestion_of("vcpu");
	assert_string_equal(suggestion_text(&suggestion, text), "");
	suggestion_offer(&suggestion, "vcpus");
	assert_string_equal(suggestion_text(&suggestion, text), ", did you mean 'vcpus'?");
	suggestion_offer(&suggestion, longest);
	assert_string_equal(suggestion.best, "vcpus");
}

TEST_SUITE(suggest_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_words_are_found),
		cmocka_unit_test(strangers_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
