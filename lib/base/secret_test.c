#include "lib/base/secret.h"
#include "tests/harness/suite.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void it_holds_a_copy_with_a_nul(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL;
	char text[] = "pass\0word";

	(void)state;
	assert_int_equal(secret_new(text, sizeof(text) - 1, &secret), 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(secret_size(secret), 9);
	assert_memory_equal(secret_data(secret), "pass\0word", 10);
}

static void what_it_is_taken_from_is_cleared(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL, *empty = NULL;
	char text[] = "password and more";

	(void)state;
	assert_int_equal(secret_new_from(text, strlen("password"), &secret), 0);
	assert_string_equal(secret_data(secret), "password");
	assert_memory_equal(text, "\0\0\0\0\0\0\0\0 and more", sizeof(text));
	assert_int_equal(secret_new_from(NULL, 0, &empty), 0);
}

static void sizes_around_a_page(void **state)
{
	(void)state;
	for (size_t n = 4000; n < 4200; n++) {
		CLEANUP(secret) struct secret *secret = NULL;

		assert_int_equal(secret_new_empty(n, &secret), 0);
		memset(secret_data(secret), 'x', n);
		assert_int_equal(secret_data(secret)[n], '\0');
	}
	CLEANUP(secret) struct secret *empty = NULL;
	assert_int_equal(secret_new(NULL, 0, &empty), 0);
	assert_string_equal(secret_data(empty), "");
	assert_int_equal(secret_new_empty(SIZE_MAX, &empty), -ENOMEM);
	assert_null(secret_free(NULL));
}

/* The VmFlags of the mapping that holds address, "" when it is in none. */
static void mapping_flags(const void *address, char *ret, size_t size)
{
	CLEANUP_FCLOSE FILE *f = fopen("/proc/self/smaps", "re");
	uintptr_t start, end, want = (uintptr_t)address;
	char line[512];
	bool inside = false;

	assert_non_null(f);
	ret[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
			inside = want >= start && want < end;
		if (inside && strncmp(line, "VmFlags:", 8) == 0)
			(void)snprintf(ret, size, "%s", line);
	}
}

static void it_is_not_dumped(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL;
	char flags[512];

	(void)state;
	assert_int_equal(secret_new("x", 1, &secret), 0);
	mapping_flags(secret_data(secret), flags, sizeof(flags));
	assert_non_null(strstr(flags, " dd "));
}

TEST_SUITE(secret_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_holds_a_copy_with_a_nul),
		cmocka_unit_test(what_it_is_taken_from_is_cleared),
		cmocka_unit_test(sizes_around_a_page),
		cmocka_unit_test(it_is_not_dumped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
