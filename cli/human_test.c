#include "cli/human.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SEC UINT64_C(1000000000)

static void bytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} TABLE[] = {
		{ 0, "0" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ UINT64_C(512) << 20, "512 MiB" },
		{ (UINT64_C(1) << 30) - 1, "1.0 GiB" },
		{ UINT64_C(1) << 30, "1 GiB" },
		{ UINT64_C(1536) << 20, "1.5 GiB" },
		{ (UINT64_C(100) << 30) + 1, "100 GiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buf[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++)
		assert_string_equal(human_bytes(TABLE[i].bytes, buf), TABLE[i].text);
}

static void durations(void **state)
{
	static const struct {
		uint64_t nsec;
		const char *text;
	} TABLE[] = {
		{ 0, "0 ms" },
		{ 850 * SEC / 1000, "850 ms" },
		{ 2312 * SEC / 1000, "2.31 s" },
		{ 60 * SEC, "60s" },
		{ 250 * SEC, "4m10s" },
		{ 3600 * SEC, "60m" },
		{ 7200 * SEC, "2h" },
		{ 7260 * SEC, "2h1m" },
		{ 86400 * SEC, "24h" },
		{ 172800 * SEC, "2d" },
	};
	char buf[HUMAN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++)
		assert_string_equal(human_duration(TABLE[i].nsec, buf), TABLE[i].text);
}

static void ages(void **state)
{
	char buf[HUMAN_MAX];

	(void)state;
	assert_string_equal(human_age(0, 1000, buf), "");
	assert_string_equal(human_age(990, 1000, buf), "10s");
	assert_string_equal(human_age(1010, 1000, buf), "0s");
	assert_string_equal(human_until(1130, 1000, buf), "in 2m10s");
	assert_string_equal(human_until(1000, 1000, buf), "now");
	assert_string_equal(human_percent(1, 2, buf), "50%");
	assert_string_equal(human_percent(1, 0, buf), "");
	assert_string_equal(human_count(0, "port", buf), "0 ports");
	assert_string_equal(human_count(1, "port", buf), "1 port");
	assert_string_equal(
	        human_count(UINT64_MAX, "published port", buf), "18446744073709551615 published ports");
}

static void durations_are_read(void **state)
{
	static const char *const BAD[] = { "", "0", "-1", "s", "5d", "5 m", "1.5", "2592001", "999999h",
		"99999999999999999999", "+5" };
	uint64_t usec = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_int_equal(human_parse_duration(BAD[i], &usec), -EINVAL);
	assert_int_equal(usec, 1);
	assert_int_equal(human_parse_duration("90", &usec), 0);
	assert_int_equal(usec, 90000000);
	assert_int_equal(human_parse_duration("5m", &usec), 0);
	assert_int_equal(usec, 300000000);
	assert_int_equal(human_parse_duration("2h", &usec), 0);
	assert_int_equal(usec, UINT64_C(7200000000));
	assert_int_equal(human_parse_duration("720h", &usec), 0);
}

static void lists(void **state)
{
	char *const texts[] = { (char *)"one", (char *)"two", (char *)"three" };
	char buf[32], small[8];

	(void)state;
	assert_string_equal(human_list(texts, 0, buf, sizeof(buf)), "");
	assert_string_equal(human_list(texts, 1, buf, sizeof(buf)), "one");
	assert_string_equal(human_list(texts, 3, buf, sizeof(buf)), "one,two,three");
	assert_string_equal(human_list(texts, 3, small, sizeof(small)), "one,two");
}

static void numbers_are_digits_alone(void **state)
{
	static const char *const BAD[] = { "", "-1", "+1", " 1", "1 ", "1x", "x", "0x1", "1.0",
		"18446744073709551616", "99999999999999999999" };
	uint64_t value = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_true(human_parse_number(BAD[i], &value) < 0);
	assert_int_equal(value, 7);
	assert_int_equal(human_parse_number("0", &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(human_parse_number("18446744073709551615", &value), 0);
	assert_true(value == UINT64_MAX);
}

TEST_SUITE(human_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_digits_alone),
		cmocka_unit_test(bytes),
		cmocka_unit_test(durations),
		cmocka_unit_test(ages),
		cmocka_unit_test(durations_are_read),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
