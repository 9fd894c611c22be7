#include "cli/secret_dir.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

static void a_secret_is_its_file(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL;
	CLEANUP_CLOSE int dir = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char DATA[] = "#cloud-config\0with a NUL";

	assert_int_equal(atomic_file_write(dir, "web-1", DATA, sizeof(DATA), 0600), 0);
	assert_int_equal(secret_dir_read(dir, "web-1", &secret, NULL), 0);
	assert_int_equal(secret_size(secret), sizeof(DATA));
	assert_memory_equal(secret_data(secret), DATA, sizeof(DATA));
}

static void nothing_outside_the_directory_can_be_named(void **state)
{
	static const char *const REFS[] = { "", ".", "..", "../secret", "/etc/passwd", "a/b", "fifo",
		"none" };
	CLEANUP(secret) struct secret *secret = NULL;
	CLEANUP_CLOSE int dir = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
	for (size_t i = 0; i < sizeof(REFS) / sizeof(REFS[0]); i++) {
		struct err err = { 0 };

		assert_true(secret_dir_read(dir, REFS[i], &secret, &err) < 0);
		assert_null(secret);
		assert_true(err.text[0]);
	}
}

static void secrets_are_bounded(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL;
	CLEANUP_CLOSE int dir = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static char data[SECRET_BYTES_MAX + 1];

	assert_int_equal(atomic_file_write(dir, "big", data, sizeof(data), 0600), 0);
	assert_int_equal(secret_dir_read(dir, "big", &secret, NULL), -EFBIG);
	assert_int_equal(atomic_file_write(dir, "big", data, SECRET_BYTES_MAX, 0600), 0);
	assert_int_equal(secret_dir_read(dir, "big", &secret, NULL), 0);
	secret = secret_free(secret);
	assert_int_equal(atomic_file_write(dir, "empty", data, 0, 0600), 0);
	assert_int_equal(secret_dir_read(dir, "empty", &secret, NULL), 0);
	assert_int_equal(secret_size(secret), 0);
}

TEST_SUITE(secret_dir_test)
{
#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)
	const struct CMUnitTest tests[] = {
		SANDBOXED(a_secret_is_its_file),
		SANDBOXED(nothing_outside_the_directory_can_be_named),
		SANDBOXED(secrets_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
