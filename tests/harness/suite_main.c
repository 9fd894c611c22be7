#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* the bounds of the section that TEST_SUITE fills, named by the linker */
extern const struct suite *const __start_suites[];
extern const struct suite *const __stop_suites[];

int main(int argc, char **argv)
{
	for (const struct suite *const *suite = __start_suites; argc > 1 && suite < __stop_suites; suite++) {
		if (strcmp((*suite)->name, argv[1]) != 0)
			continue;
		if (argc == 3 && argv[2][0] != '-')
			cmocka_set_test_filter(argv[2]);
		return (*suite)->run(argc - 1, argv + 1);
	}
	(void)fprintf(stderr, "usage: %s SUITE [PATTERN]; the suites are\n", argv[0]);
	for (const struct suite *const *suite = __start_suites; suite < __stop_suites; suite++)
		(void)fprintf(stderr, "  %s\n", (*suite)->name);
	return 2;
}
