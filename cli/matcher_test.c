#include "cli/matcher.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* However the bytes are cut, the answer is strstr()'s. */
static void any_pieces_give_the_same_answer(void **state)
{
	static const struct {
		const char *text, *in;
	} TABLE[] = {
		{ "READY", "boot\nREADY\n" },
		{ "READY", "READREADY" },
		{ "aab", "aaab" },
		{ "abab", "abaabab" },
		{ "abcabd", "abcabcabd" },
		{ "x", "" },
		{ "x", "yyy" },
		{ "READY", "READ" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++)
		for (size_t piece = 1; piece <= 4; piece++) {
			struct matcher *matcher = matcher_new(TABLE[i].text);
			size_t n = strlen(TABLE[i].in);
			bool seen = false;

			assert_non_null(matcher);
			for (size_t at = 0; at < n; at += piece)
				seen = matcher_feed(
				        matcher, TABLE[i].in + at, n - at < piece ? n - at : piece);
			assert_int_equal(seen, strstr(TABLE[i].in, TABLE[i].text) != NULL);
			(void)matcher_free(matcher);
		}
}

TEST_SUITE(matcher_test)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(any_pieces_give_the_same_answer) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
