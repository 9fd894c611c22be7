#include "lib/text/number.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void unsigned_integers(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t value;
	} CASES[] = {
		{ "0", 0, 0 },
		{ "-0", 0, 0 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "-1", -ERANGE, 0 },
		{ "1e3", 0, 1000 },
		{ "1.5e3", 0, 1500 },
		{ "1.50", -EINVAL, 0 },
		{ "15.0", 0, 15 },
		{ "1500e-2", 0, 15 },
		{ "1500e-3", -EINVAL, 0 },
		{ "0e400", 0, 0 },
		{ "1e400", -ERANGE, 0 },
		{ "1e401", -EINVAL, 0 },
		{ "1e-400", -EINVAL, 0 },
		{ "1e99999999999999999999", -EINVAL, 0 },
		{ "1844674407370955161.5e1", 0, UINT64_MAX },
		{ "01", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "1e", -EINVAL, 0 },
		{ "1e+", -EINVAL, 0 },
		{ "1e 3", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1_000", -EINVAL, 0 },
		{ "NaN", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		uint64_t value = 77;
		int r = number_parse_u64(CASES[i].text, &value);

		if (r != CASES[i].r || value != (r == 0 ? CASES[i].value : 77))
			fail_msg("'%s': %d %llu", CASES[i].text, r, (unsigned long long)value);
	}
}

static void signed_integers(void **state)
{
	int64_t value;

	(void)state;
	assert_int_equal(number_parse_i64("-9223372036854775808", &value), 0);
	assert_true(value == INT64_MIN);
	assert_int_equal(number_parse_i64("9223372036854775807", &value), 0);
	assert_true(value == INT64_MAX);
	assert_int_equal(number_parse_i64("9223372036854775808", &value), -ERANGE);
	assert_int_equal(number_parse_i64("-9223372036854775809", &value), -ERANGE);
	assert_int_equal(number_parse_i64("-1.5e1", &value), 0);
	assert_true(value == -15);
	assert_int_equal(number_parse_i64("--1", &value), -EINVAL);
}

static void doubles(void **state)
{
	double value;

	(void)state;
	assert_int_equal(number_parse_double("0.1", &value), 0);
	assert_true(value == 0.1);
	assert_int_equal(number_parse_double("-1e-3", &value), 0);
	assert_true(value == -0.001);
	assert_int_equal(number_parse_double("NaN", &value), 0);
	assert_true(isnan(value));
	assert_int_equal(number_parse_double("-Infinity", &value), 0);
	assert_true(isinf(value) && value < 0);
	assert_int_equal(number_parse_double("1e309", &value), -ERANGE);
	assert_int_equal(number_parse_double("1e-350", &value), 0);
	assert_true(value == 0);
	assert_int_equal(number_parse_double("inf", &value), -EINVAL);
	assert_int_equal(number_parse_double("nan", &value), -EINVAL);
	assert_int_equal(number_parse_double("0x1p3", &value), -EINVAL);
	assert_int_equal(number_parse_double("1,5", &value), -EINVAL);
}

static void sizes_are_guessed_for_messages(void **state)
{
	uint64_t size;

	(void)state;
	assert_true(number_guess_size("2GiB", &size) && size == UINT64_C(2) << 30);
	assert_true(number_guess_size("512M", &size) && size == UINT64_C(512) << 20);
	assert_true(number_guess_size("1.5 TB", &size) && size == UINT64_C(3) << 39);
	assert_true(number_guess_size("64k", &size) && size == 65536);
	assert_false(number_guess_size("2", &size));
	assert_false(number_guess_size("GiB", &size));
	assert_false(number_guess_size("2GiBit", &size));
	assert_false(number_guess_size("99999999999999T", &size));
}

static void digits_are_as_few_as_will_do(void **state)
{
	(void)state;
	assert_int_equal(number_digits_double(0.1), 15);
	assert_int_equal(number_digits_double(1.0 / 3), 16);
	assert_int_equal(number_digits_double(0.1 + 0.2), 17);
	assert_int_equal(number_digits_float(0.1F), 6);
	assert_int_equal(number_digits_float(16777217.0F / 3), 8);
}

TEST_SUITE(number_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsigned_integers),
		cmocka_unit_test(signed_integers),
		cmocka_unit_test(doubles),
		cmocka_unit_test(sizes_are_guessed_for_messages),
		cmocka_unit_test(digits_are_as_few_as_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
