#include "lib/text/well_known.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMESTAMP_MIN INT64_C(-62135596800) /* 0001-01-01T00:00:00Z */
#define TIMESTAMP_MAX INT64_C(253402300799) /* 9999-12-31T23:59:59Z */
#define DURATION_MAX INT64_C(315576000000)

enum { NANOS_PER_SECOND = 1000000000 };

/* Exactly n digits at *p; moves behind them. */
static bool digits_take(const char **p, int n, int *ret)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		char c = (*p)[i];

		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (c - '0');
	}
	*p += n;
	*ret = value;
	return true;
}

static bool letter_take(const char **p, const char *letters)
{
	if (!**p || !strchr(letters, **p))
		return false;
	(*p)++;
	return true;
}

/* ".5" as nanoseconds, up to nine digits; nothing at all is 0. */
static bool fraction_take(const char **p, int32_t *ret)
{
	int32_t nanos = 0, unit = NANOS_PER_SECOND / 10;

	*ret = 0;
	if (**p != '.')
		return true;
	(*p)++;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++, unit /= 10) {
		if (unit == 0)
			return false;
		nanos += (**p - '0') * unit;
	}
	*ret = nanos;
	return true;
}

/* "Z", "+02:00", "-00:30": seconds east of UTC. */
static bool offset_take(const char **p, int *ret)
{
	int hours, minutes, sign = **p == '-' ? -1 : 1;

	if (letter_take(p, "Zz")) {
		*ret = 0;
		return true;
	}
	if (!letter_take(p, "+-") || !digits_take(p, 2, &hours) || !letter_take(p, ":") ||
	        !digits_take(p, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret = sign * (hours * 3600 + minutes * 60);
	return true;
}

static int month_days(int year, int month)
{
	static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return DAYS[month - 1] + (month == 2 && leap);
}

int timestamp_parse(const char *text, struct proto_time *ret)
{
	struct tm tm = { 0 };
	int year, month, offset;
	int32_t nanos;
	const char *p = text;

	if (!digits_take(&p, 4, &year) || !letter_take(&p, "-") || !digits_take(&p, 2, &month) ||
	        !letter_take(&p, "-") || !digits_take(&p, 2, &tm.tm_mday) || !letter_take(&p, "Tt") ||
	        !digits_take(&p, 2, &tm.tm_hour) || !letter_take(&p, ":") ||
	        !digits_take(&p, 2, &tm.tm_min) || !letter_take(&p, ":") || !digits_take(&p, 2, &tm.tm_sec) ||
	        !fraction_take(&p, &nanos) || !offset_take(&p, &offset) || *p)
		return -EINVAL;
	if (month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > month_days(year, month) ||
	        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59)
		return -EINVAL;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	int64_t seconds = (int64_t)timegm(&tm) - offset;
	if (seconds < TIMESTAMP_MIN || seconds > TIMESTAMP_MAX)
		return -ERANGE;
	*ret = (struct proto_time){ .seconds = seconds, .nanos = nanos };
	return 0;
}

/* ".5" with 3, 6 or 9 digits, "" for 0. */
static void fraction_format(int32_t nanos, char ret[static 11])
{
	if (nanos == 0)
		ret[0] = '\0';
	else if (nanos % 1000000 == 0)
		(void)snprintf(ret, 11, ".%03" PRId32, nanos / 1000000);
	else if (nanos % 1000 == 0)
		(void)snprintf(ret, 11, ".%06" PRId32, nanos / 1000);
	else
		(void)snprintf(ret, 11, ".%09" PRId32, nanos);
}

int timestamp_format(const struct proto_time *time, char ret[static WELL_KNOWN_TEXT_MAX])
{
	time_t seconds = (time_t)time->seconds;
	char fraction[11];
	struct tm tm;

	if (time->seconds < TIMESTAMP_MIN || time->seconds > TIMESTAMP_MAX || time->nanos < 0 ||
	        time->nanos >= NANOS_PER_SECOND || !gmtime_r(&seconds, &tm))
		return -ERANGE;
	fraction_format(time->nanos, fraction);
	(void)snprintf(ret, WELL_KNOWN_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900,
	        tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
	return 0;
}

int duration_parse(const char *text, struct proto_time *ret)
{
	const char *p = text;
	bool negative = *p == '-';
	int64_t seconds = 0;
	int32_t nanos;

	p += negative;
	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (seconds <= DURATION_MAX)
			seconds = seconds * 10 + (*p - '0');
	if (!fraction_take(&p, &nanos) || strcmp(p, "s") != 0)
		return -EINVAL;
	if (seconds > DURATION_MAX || (seconds == DURATION_MAX && nanos > 0))
		return -ERANGE;
	*ret = (struct proto_time){ .seconds = negative ? -seconds : seconds,
		.nanos = negative ? -nanos : nanos };
	return 0;
}

int duration_format(const struct proto_time *time, char ret[static WELL_KNOWN_TEXT_MAX])
{
	int64_t seconds = time->seconds;
	int32_t nanos = time->nanos;
	bool negative = seconds < 0 || nanos < 0;
	char fraction[11];

	if (seconds < -DURATION_MAX || seconds > DURATION_MAX || nanos <= -NANOS_PER_SECOND ||
	        nanos >= NANOS_PER_SECOND || (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0))
		return -ERANGE;
	fraction_format(negative ? -nanos : nanos, fraction);
	(void)snprintf(ret, WELL_KNOWN_TEXT_MAX, "%s%" PRId64 "%ss", negative ? "-" : "",
	        negative ? -seconds : seconds, fraction);
	return 0;
}
