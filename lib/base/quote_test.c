#include "lib/base/quote.h"

#include "lib/base/utf8.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void quote_shows_only_what_is_printable(void **state)
{
	(void)state;
	assert_string_equal(QUOTED("plain"), "plain");
	assert_string_equal(QUOTED("größe"), "größe");
	assert_string_equal(QUOTED("a\nb\x1b[31m\x7f"), "a?b?[31m?");
	assert_string_equal(QUOTED("c1 \xc2\x9b csi"), "c1 ? csi");
	assert_string_equal(QUOTED("bad \xff\xc3"), "bad ??");
	assert_string_equal(QUOTED(NULL), "");
}

static void quote_cuts_between_characters(void **state)
{
	char text[400], buf[16];

	(void)state;
	/* Every cut of a text of two-byte characters stays well-formed. */
	for (size_t n = 0; n < 150; n++) {
		for (size_t i = 0; i < n; i++)
			memcpy(text + 2 * i, "é", 2);
		text[2 * n] = '\0';
		for (size_t size = 8; size <= sizeof(buf); size++) {
			assert_ptr_equal(quote_text(text, buf, size), buf);
			assert_true(strlen(buf) < size);
			assert_true(utf8_is_valid(buf, strlen(buf)));
			if (strlen(text) < size)
				assert_string_equal(buf, text);
		}
	}
}

TEST_SUITE(quote_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quote_shows_only_what_is_printable),
		cmocka_unit_test(quote_cuts_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
