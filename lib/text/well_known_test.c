#include "lib/text/well_known.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct time_case {
	const char *text;
	const char *again; /* as printed; NULL when refused with r */
	int r;
	int64_t seconds;
	int32_t nanos;
};

static void check(const struct time_case *c, int (*parse)(const char *, struct proto_time *),
        int (*format)(const struct proto_time *, char *))
{
	for (; c->text; c++) {
		struct proto_time time = { 0 };
		char text[WELL_KNOWN_TEXT_MAX];
		int r = parse(c->text, &time);

		if (r != c->r)
			fail_msg("'%s' gives %d", c->text, r);
		if (r < 0)
			continue;
		if (time.seconds != c->seconds || time.nanos != c->nanos)
			fail_msg("'%s' gives %lld.%09d", c->text, (long long)time.seconds, time.nanos);
		assert_int_equal(format(&time, text), 0);
		assert_string_equal(text, c->again);
	}
}

static int format_timestamp(const struct proto_time *time, char *ret)
{
	return timestamp_format(time, ret);
}

static int format_duration(const struct proto_time *time, char *ret)
{
	return duration_format(time, ret);
}

static void timestamps(void **state)
{
	static const struct time_case CASES[] = {
		{ "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0, 0, 0 },
		{ "2024-02-29T23:59:59.5Z", "2024-02-29T23:59:59.500Z", 0, 1709251199, 500000000 },
		{ "2024-02-29t12:00:00.000001z", "2024-02-29T12:00:00.000001Z", 0, 1709208000, 1000 },
		{ "2024-02-29T12:00:00.123456789+02:00", "2024-02-29T10:00:00.123456789Z", 0, 1709200800,
		        123456789 },
		{ "1969-12-31T23:59:59.9-00:30", "1970-01-01T00:29:59.900Z", 0, 1799, 900000000 },
		{ "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", 0, -62135596800, 0 },
		{ "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z", 0, 253402300799,
		        999999999 },
		{ "0001-01-01T00:00:00+00:01", NULL, -ERANGE, 0, 0 },
		{ "9999-12-31T23:59:59-00:01", NULL, -ERANGE, 0, 0 },
		{ "2023-02-29T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "1900-02-29T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z", 0, 951782400, 0 },
		{ "2024-13-01T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-00-01T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-00T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T24:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:60:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:60Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01 00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01", NULL, -EINVAL, 0, 0 },
		{ "2024-1-1T00:00:00Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00.Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00.1234567890Z", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00Zx", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00+24:00", NULL, -EINVAL, 0, 0 },
		{ "2024-01-01T00:00:00+0200", NULL, -EINVAL, 0, 0 },
		{ "", NULL, -EINVAL, 0, 0 },
		{ 0 },
	};
	char text[WELL_KNOWN_TEXT_MAX];

	(void)state;
	check(CASES, timestamp_parse, format_timestamp);
	assert_int_equal(timestamp_format(&(struct proto_time){ .seconds = 253402300800 }, text), -ERANGE);
	assert_int_equal(timestamp_format(&(struct proto_time){ .nanos = -1 }, text), -ERANGE);
	assert_int_equal(timestamp_format(&(struct proto_time){ .nanos = 1000000000 }, text), -ERANGE);
}

static void durations(void **state)
{
	static const struct time_case CASES[] = {
		{ "0s", "0s", 0, 0, 0 },
		{ "90s", "90s", 0, 90, 0 },
		{ "1.5s", "1.500s", 0, 1, 500000000 },
		{ "-0.25s", "-0.250s", 0, 0, -250000000 },
		{ "-3.000000001s", "-3.000000001s", 0, -3, -1 },
		{ "315576000000s", "315576000000s", 0, 315576000000, 0 },
		{ "-315576000000s", "-315576000000s", 0, -315576000000, 0 },
		{ "315576000001s", NULL, -ERANGE, 0, 0 },
		{ "315576000000.000000001s", NULL, -ERANGE, 0, 0 },
		{ "99999999999999999999999999999s", NULL, -ERANGE, 0, 0 },
		{ "90", NULL, -EINVAL, 0, 0 },
		{ "90m", NULL, -EINVAL, 0, 0 },
		{ "s", NULL, -EINVAL, 0, 0 },
		{ "-s", NULL, -EINVAL, 0, 0 },
		{ "+1s", NULL, -EINVAL, 0, 0 },
		{ "1 s", NULL, -EINVAL, 0, 0 },
		{ "1.s", NULL, -EINVAL, 0, 0 },
		{ ".5s", NULL, -EINVAL, 0, 0 },
		{ "1ss", NULL, -EINVAL, 0, 0 },
		{ 0 },
	};
	char text[WELL_KNOWN_TEXT_MAX];

	(void)state;
	check(CASES, duration_parse, format_duration);
	assert_int_equal(duration_format(&(struct proto_time){ .seconds = 1, .nanos = -1 }, text), -ERANGE);
	assert_int_equal(duration_format(&(struct proto_time){ .seconds = INT64_MIN }, text), -ERANGE);
	assert_int_equal(duration_format(&(struct proto_time){ .nanos = INT32_MIN }, text), -ERANGE);
}

TEST_SUITE(well_known_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timestamps),
		cmocka_unit_test(durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
