#include "lib/base/utf8.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void utf8_takes_every_code_point_and_no_surrogate(void **state)
{
	char c[4];

	(void)state;
	for (uint32_t code = 0; code <= 0x10ffff; code++) {
		size_t n = utf8_encode(code, c);
		bool surrogate = code >= 0xd800 && code <= 0xdfff;

		assert_int_equal(utf8_char_size(c, n), surrogate ? 0 : n);
		/* A character cut short is none. */
		assert_int_equal(utf8_char_size(c, n - 1), 0);
	}
}

static void utf8_refuses_malformed_bytes(void **state)
{
	static const char *const BAD[] = { "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
		"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82(",
		"\xf0\x9f\x98(", "fine\xed\xa0\x80" };

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_false(utf8_is_valid(BAD[i], strlen(BAD[i])));
	assert_true(utf8_is_valid("a\0é😀", 8));
	assert_true(utf8_is_valid("", 0));
}

static void utf8_mends_what_is_cut_anywhere(void **state)
{
	static const char WHOLE[] =
	        "a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
	char text[sizeof(WHOLE)];
	size_t n_whole = 0;

	(void)state;
	for (size_t n = 0; n < sizeof(WHOLE); n++) {
		memcpy(text, WHOLE, n);
		text[n] = '\0';
		if (utf8_is_valid(WHOLE, n))
			n_whole = n; /* the last place between two characters */
		assert_int_equal(utf8_mend(text), n_whole);
		assert_int_equal(strlen(text), n_whole);
		assert_memory_equal(text, WHOLE, n_whole);
	}
}

static void utf8_mends_what_was_never_text(void **state)
{
	static const char *const CASES[][2] = { { "\xff\xfe", "??" }, { "a\x80z", "a?z" }, { "\xc3(", "?(" },
		{ "\xed\xa0\x80", "???" }, { "\xf4\x90", "??" }, { "\xe0\x9f", "??" },
		{ "\xf0\x9f\x98\x80\xf0", "😀" }, { "", "" } };
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		strcpy(text, CASES[i][0]);
		assert_int_equal(utf8_mend(text), strlen(CASES[i][1]));
		assert_string_equal(text, CASES[i][1]);
	}
}

TEST_SUITE(utf8_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_takes_every_code_point_and_no_surrogate),
		cmocka_unit_test(utf8_refuses_malformed_bytes),
		cmocka_unit_test(utf8_mends_what_is_cut_anywhere),
		cmocka_unit_test(utf8_mends_what_was_never_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
