#include "tests/harness/timeout.h"

#include "lib/base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FACTOR_MAX = 100, SANITIZED_FACTOR = 4, LOADED_FACTOR = 2 };

static unsigned factor_of_environment(void)
{
	const char *text = getenv("BC_TEST_TIMEOUT_FACTOR");
	unsigned long factor = text ? strtoul(text, NULL, 10) : 1;

	return factor >= 1 && factor <= FACTOR_MAX ? (unsigned)factor : 1;
}

static bool is_loaded(void)
{
	double minute;

	return getloadavg(&minute, 1) == 1 && minute > (double)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t test_timeout_usec(enum test_timeout base)
{
	unsigned factor = factor_of_environment();

#ifdef BC_SANITIZED
	factor *= SANITIZED_FACTOR;
#endif
	if (is_loaded())
		factor *= LOADED_FACTOR;
	return (uint64_t)base * factor * USEC_PER_SEC;
}

int test_timeout_msec(enum test_timeout base)
{
	return (int)(test_timeout_usec(base) / USEC_PER_MSEC);
}

const char *test_timeout_text(enum test_timeout base, char buf[static 16])
{
	(void)snprintf(buf, 16, "%llus", (unsigned long long)(test_timeout_usec(base) / USEC_PER_SEC));
	return buf;
}
