#include "lib/text/base64.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_length_round_trips(void **state)
{
	uint8_t data[64];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 251);
	for (size_t n = 0; n < sizeof(data); n++) {
		CLEANUP_FREE char *text = base64_encode(data, n);
		CLEANUP_FREE uint8_t *back = NULL;
		size_t n_back = 99;

		assert_non_null(text);
		assert_int_equal(strlen(text), (n + 2) / 3 * 4);
		assert_int_equal(base64_decode(text, strlen(text), &back, &n_back), 0);
		assert_int_equal(n_back, n);
		assert_memory_equal(back, data, n);
	}
}

static void all_usual_spellings_are_read(void **state)
{
	static const char *const SPELLINGS[] = { "+/+/AA==", "-_-_AA==", "+/+/AA", "-_-_AA" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(SPELLINGS); i++) {
		CLEANUP_FREE uint8_t *data = NULL;
		size_t n;

		assert_int_equal(base64_decode(SPELLINGS[i], strlen(SPELLINGS[i]), &data, &n), 0);
		assert_int_equal(n, 4);
		assert_memory_equal(data, "\xfb\xff\xbf\x00", 4);
	}
}

static void other_texts_are_refused(void **state)
{
	static const char *const BAD[] = { "A", "AAAAA", "A===", "AA=", "=", "==", "====", "AA=A", "AA AA",
		"AAA\n", "AA\tA", "AA!A", "AAAA====", "=AAA", "\xc3\xa4\xc3\xa4" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		uint8_t *data = NULL;
		size_t n;

		if (base64_decode(BAD[i], strlen(BAD[i]), &data, &n) != -EINVAL)
			fail_msg("'%s' should be refused", BAD[i]);
	}
	uint8_t *data = NULL;
	size_t n;
	assert_int_equal(base64_decode("AA\0A", 4, &data, &n), -EINVAL);
}

TEST_SUITE(base64_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_round_trips),
		cmocka_unit_test(all_usual_spellings_are_read),
		cmocka_unit_test(other_texts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
