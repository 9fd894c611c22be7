#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* the bounds of the section that TEST_SUITE fills, named by the linker */
extern const struct suite *const __start_suites[];
extern const struct suite *const __stop_suites[];

/* The process whose suite is still to return; 0: it has. */
static pid_t unfinished;

/* A test that calls exit(0) would pass for all that come after it. */
static void on_exit_of_process(void)
{
	if (unfinished != getpid()) /* or a child of a test */
		return;
	(void)fprintf(stderr, "a test has called exit(): the suite did not end\n");
	_exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	for (const struct suite *const *suite = __start_suites; argc > 1 && suite < __stop_suites; suite++) {
		if (strcmp((*suite)->name, argv[1]) != 0)
			continue;
		if (argc == 3 && argv[2][0] != '-')
			cmocka_set_test_filter(argv[2]);
		unfinished = getpid();
		(void)atexit(on_exit_of_process);
		int result = (*suite)->run(argc - 1, argv + 1);
		unfinished = 0;
		return result != 0 && (result & 0xff) == 0 ? EXIT_FAILURE
		                                           : result; /* it may count 256 failures */
	}
	(void)fprintf(stderr, "usage: %s SUITE [PATTERN]; the suites are\n", argv[0]);
	for (const struct suite *const *suite = __start_suites; suite < __stop_suites; suite++)
		(void)fprintf(stderr, "  %s\n", (*suite)->name);
	return 2;
}
