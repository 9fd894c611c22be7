#include "tests/harness/timeout.h"

#include "lib/base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FACTOR_MAX = 100, SANITIZED_FACTOR = 4, LOADED_FACTOR = 2 };

unsigned test_timeout_factor(const char *environment, bool is_sanitized, double load, long n_processors)
{
	unsigned long factor = 1;

	if (environment && environment[0] >= '1' && environment[0] <= '9') {
		char *end;

		factor = strtoul(environment, &end, 10);
		if (*end || factor > FACTOR_MAX)
			factor = 1;
	}
	if (is_sanitized)
		factor *= SANITIZED_FACTOR;
	if (load > (double)n_processors)
		factor *= LOADED_FACTOR;
	return (unsigned)factor;
}

uint64_t test_timeout_usec(enum test_timeout base)
{
#ifdef BC_SANITIZED
	const bool is_sanitized = true;
#else
	const bool is_sanitized = false;
#endif
	double load = 0;

	(void)getloadavg(&load, 1);
	return (uint64_t)base * USEC_PER_SEC *
	        test_timeout_factor(
	                getenv("BC_TEST_TIMEOUT_FACTOR"), is_sanitized, load, sysconf(_SC_NPROCESSORS_ONLN));
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
