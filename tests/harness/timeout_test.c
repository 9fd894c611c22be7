#include "tests/harness/timeout.h"

#include "lib/base/process.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void the_factor_grows_with_each_reason(void **state)
{
	static const struct {
		const char *environment;
		bool is_sanitized;
		double load;
		unsigned factor;
	} CASES[] = {
		{ NULL, false, 0, 1 },
		{ NULL, false, 2.0, 1 }, /* as busy as it can be, and nobody waits */
		{ NULL, false, 2.01, 2 },
		{ NULL, true, 0, 4 },
		{ NULL, true, 8, 8 },
		{ "3", false, 0, 3 },
		{ "3", true, 8, 24 },
		{ "0", false, 0, 1 },
		{ "-1", false, 0, 1 },
		{ "101", false, 0, 1 },
		{ "many", false, 0, 1 },
		{ "3x", false, 0, 1 },
		{ "05", false, 0, 1 },
		{ "-18446744073709551613", false, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
		assert_int_equal(
		        test_timeout_factor(CASES[i].environment, CASES[i].is_sanitized, CASES[i].load, 2),
		        CASES[i].factor);
}

static unsigned long script_says(const char *name)
{
	const char *argv[] = { BC_TIMEOUT_SCRIPT, name, NULL };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&(struct process_options){ .argv = argv }, 4096,
	                         test_timeout_usec(TEST_SERVICE_SEC), &output),
	        0);
	assert_int_equal(output.status, 0);
	unsigned long said = strtoul(output.text, NULL, 10);
	process_output_done(&output);
	return said;
}

/* but for sanitizers, which scripts have nothing to do with, and a load that comes and goes between two looks */
static void scripts_wait_as_long(void **state)
{
	static const struct {
		const char *environment;
		unsigned factor;
	} CASES[] = { { "1", 1 }, { "3", 3 }, { "100", 100 }, { "0", 1 }, { "-1", 1 }, { "101", 1 },
		{ "many", 1 }, { "3x", 1 }, { "05", 1 }, { "", 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		(void)setenv("BC_TEST_TIMEOUT_FACTOR", CASES[i].environment, 1);
		unsigned long service = script_says("SERVICE"), guest = script_says("GUEST");
		unsigned long factor = CASES[i].factor;

		assert_true(service == TEST_SERVICE_SEC * factor || service == TEST_SERVICE_SEC * factor * 2);
		assert_true(guest == TEST_GUEST_SEC * factor || guest == TEST_GUEST_SEC * factor * 2);
	}
	(void)unsetenv("BC_TEST_TIMEOUT_FACTOR");
}

TEST_SUITE(timeout_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_factor_grows_with_each_reason),
		cmocka_unit_test(scripts_wait_as_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
