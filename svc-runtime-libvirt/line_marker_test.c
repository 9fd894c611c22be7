#include "svc-runtime-libvirt/line_marker.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* How many pieces of size step it takes until the marker is found; 0: never. */
static size_t found_after(const char *marker, const char *output, size_t step)
{
	struct line_marker m = { .text = marker };
	size_t n = strlen(output), pieces = 0;

	line_marker_begin(&m);
	for (size_t at = 0; at < n; at += step) {
		pieces++;
		if (line_marker_find(&m, output + at, step < n - at ? step : n - at))
			return pieces;
	}
	return 0;
}

static void found_in_pieces_of_any_size(void **state)
{
	static const char output[] = "boot\r\nREADX\r\nREADY now\r\n";

	(void)state;
	for (size_t step = 1; step <= sizeof(output); step++)
		assert_true(found_after("READY", output, step) > 0);
	assert_int_equal(found_after("READY", output, 1), 18); /* with its last letter */
	assert_true(found_after("READY", "READY", 1) > 0);     /* on the first line, and an unfinished one */
	assert_true(found_after("READY", "x\rREADY", 2) > 0);
}

static void only_at_the_beginning_of_a_line(void **state)
{
	(void)state;
	assert_int_equal(found_after("READY", "not READY\n", 3), 0);
	assert_int_equal(found_after("READY", " READY\n", 1), 0);
	assert_int_equal(found_after("READY", "REA\nDY\n", 1), 0);
	assert_int_equal(found_after("", "READY\n", 1), 0);
}

static void an_overlong_marker_is_never_found(void **state)
{
	char text[LINE_MARKER_MAX + 1];

	(void)state;
	memset(text, 'a', LINE_MARKER_MAX);
	text[LINE_MARKER_MAX] = '\0';
	assert_int_equal(found_after(text, text, 7), 0);
	text[LINE_MARKER_MAX - 1] = '\0';
	assert_true(found_after(text, text, 7) > 0);
}

TEST_SUITE(line_marker_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_in_pieces_of_any_size),
		cmocka_unit_test(only_at_the_beginning_of_a_line),
		cmocka_unit_test(an_overlong_marker_is_never_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
