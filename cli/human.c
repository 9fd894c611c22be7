#include "cli/human.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
#define NSEC_PER_SEC UINT64_C(1000000000)
#define DURATION_MAX_SEC (30 * (uint64_t)DAY)

char *human_bytes(uint64_t bytes, char buf[static HUMAN_MAX])
{
	static const char *const UNITS[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	size_t unit = 0;
	double value = (double)bytes;

	while (value >= 1024 && unit + 1 < sizeof(UNITS) / sizeof(UNITS[0])) {
		value /= 1024;
		unit++;
	}
	/* One digit behind the point where it says something, and never "1024.0 MiB". */
	if (unit && value >= 1023.95 && unit + 1 < sizeof(UNITS) / sizeof(UNITS[0])) {
		value = 1;
		unit++;
	}
	if (bytes == 0)
		(void)snprintf(buf, HUMAN_MAX, "0");
	else if (unit == 0 || (value >= 99.95 && value < 1024) || (bytes % (UINT64_C(1) << (10 * unit))) == 0)
		(void)snprintf(buf, HUMAN_MAX, "%.0f %s", value, UNITS[unit]);
	else
		(void)snprintf(buf, HUMAN_MAX, "%.1f %s", value, UNITS[unit]);
	return buf;
}

static char *seconds_text(uint64_t sec, char *buf)
{
	if (sec < 2 * MINUTE)
		(void)snprintf(buf, HUMAN_MAX, "%llus", (unsigned long long)sec);
	else if (sec < 10 * MINUTE && sec % MINUTE)
		(void)snprintf(buf, HUMAN_MAX, "%llum%llus", (unsigned long long)(sec / MINUTE),
		        (unsigned long long)(sec % MINUTE));
	else if (sec < 2 * HOUR)
		(void)snprintf(buf, HUMAN_MAX, "%llum", (unsigned long long)(sec / MINUTE));
	else if (sec < 10 * HOUR && sec % HOUR >= MINUTE)
		(void)snprintf(buf, HUMAN_MAX, "%lluh%llum", (unsigned long long)(sec / HOUR),
		        (unsigned long long)(sec % HOUR / MINUTE));
	else if (sec < 2 * DAY)
		(void)snprintf(buf, HUMAN_MAX, "%lluh", (unsigned long long)(sec / HOUR));
	else
		(void)snprintf(buf, HUMAN_MAX, "%llud", (unsigned long long)(sec / DAY));
	return buf;
}

char *human_duration(uint64_t nsec, char buf[static HUMAN_MAX])
{
	if (nsec < NSEC_PER_SEC)
		(void)snprintf(buf, HUMAN_MAX, "%llu ms", (unsigned long long)(nsec / 1000000));
	else if (nsec < MINUTE * NSEC_PER_SEC)
		(void)snprintf(buf, HUMAN_MAX, "%.2f s", (double)nsec / (double)NSEC_PER_SEC);
	else
		(void)seconds_text(nsec / NSEC_PER_SEC, buf);
	return buf;
}

char *human_age(int64_t then_sec, int64_t now_sec, char buf[static HUMAN_MAX])
{
	if (then_sec == 0)
		buf[0] = '\0';
	else
		(void)seconds_text(then_sec < now_sec ? (uint64_t)(now_sec - then_sec) : 0, buf);
	return buf;
}

char *human_until(int64_t then_sec, int64_t now_sec, char buf[static HUMAN_MAX])
{
	if (then_sec <= now_sec)
		return strcpy(buf, "now");
	char text[HUMAN_MAX];

	(void)snprintf(buf, HUMAN_MAX, "in %.40s", seconds_text((uint64_t)(then_sec - now_sec), text));
	return buf;
}

char *human_percent(uint64_t part, uint64_t whole, char buf[static HUMAN_MAX])
{
	if (whole == 0)
		buf[0] = '\0';
	else
		(void)snprintf(buf, HUMAN_MAX, "%.0f%%", 100.0 * (double)part / (double)whole);
	return buf;
}

int human_parse_number(const char *text, uint64_t *ret)
{
	char *end;

	/* strtoull() takes blanks and signs: "-1" is a very large number to it */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);

	if (errno)
		return -errno;
	if (*end)
		return -EINVAL;
	*ret = value;
	return 0;
}

char *human_count(uint64_t n, const char *one, char buf[static HUMAN_MAX])
{
	(void)snprintf(buf, HUMAN_MAX, "%llu %s%s", (unsigned long long)n, one, n == 1 ? "" : "s");
	return buf;
}

int human_parse_duration(const char *text, uint64_t *ret_usec)
{
	char *end;
	uint64_t unit = 1;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);

	if (errno || end == text)
		return -EINVAL;
	if (strcmp(end, "m") == 0)
		unit = MINUTE;
	else if (strcmp(end, "h") == 0)
		unit = HOUR;
	else if (*end && strcmp(end, "s") != 0)
		return -EINVAL;
	if (value == 0 || value > DURATION_MAX_SEC / unit)
		return -EINVAL;
	*ret_usec = value * unit * 1000000;
	return 0;
}

char *human_list(char *const *texts, size_t n_texts, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n_texts && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? "," : "", texts[i]);
	return buf;
}
