#include "lib/base/atomic_file.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static size_t entries_count(const char *path)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

static void content_and_mode_are_exact_and_replaced(void **state)
{
	CLEANUP_FREE char *data = NULL;
	const char *path = SANDBOX_PATH(state, "file");
	struct stat st;
	size_t n;

	(void)umask(0077);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, "old", 3, 0600), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, "new\0er", 6, 0644), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(file_read(AT_FDCWD, path, 6, &data, &n), 0);
	assert_int_equal(n, 6);
	assert_memory_equal(data, "new\0er\0", 7);
	assert_int_equal(entries_count(*state), 1);
}

static void it_is_relative_to_the_directory(void **state)
{
	CLEANUP_CLOSE int dir = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FREE char *data = NULL;

	assert_int_equal(mkdirat(dir, "sub", 0755), 0);
	assert_int_equal(atomic_file_write(dir, "sub/file", "", 0, 0600), 0);
	assert_int_equal(file_read(dir, "sub/file", 0, &data, NULL), 0);
	assert_string_equal(data, "");
	assert_int_equal(atomic_file_write(dir, "file", "x", 1, 0600), 0);
	assert_int_equal(atomic_file_write(dir, "missing/file", "x", 1, 0600), -ENOENT);
	assert_int_equal(atomic_file_write(dir, "sub/", "x", 1, 0600), -EISDIR);
	assert_int_equal(atomic_file_write(dir, "sub", "x", 1, 0600), -EISDIR);
	assert_int_equal(entries_count(*state), 2);
}

static void a_failed_write_leaves_the_old_file_alone(void **state)
{
	CLEANUP_FREE char *data = NULL;
	const char *path = SANDBOX_PATH(state, "file");
	char big[8192] = { 0 };
	struct rlimit old, small;

	assert_int_equal(atomic_file_write(AT_FDCWD, path, "old", 3, 0600), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = old.rlim_max };
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int r = atomic_file_write(AT_FDCWD, path, big, sizeof(big), 0600);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(file_read(AT_FDCWD, path, 100, &data, NULL), 0);
	assert_string_equal(data, "old");
	assert_int_equal(entries_count(*state), 1);
}

static void a_symlink_is_replaced_and_not_followed(void **state)
{
	CLEANUP_FREE char *data = NULL;
	const char *target = SANDBOX_PATH(state, "target"), *link = SANDBOX_PATH(state, "link");

	assert_int_equal(atomic_file_write(AT_FDCWD, target, "kept", 4, 0600), 0);
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(file_read(AT_FDCWD, link, 100, &data, NULL), -ELOOP);
	assert_int_equal(atomic_file_write(AT_FDCWD, link, "new", 3, 0600), 0);
	assert_int_equal(file_read(AT_FDCWD, target, 100, &data, NULL), 0);
	assert_string_equal(data, "kept");
}

static void reading_is_bounded(void **state)
{
	CLEANUP_FREE char *data = NULL;
	const char *path = SANDBOX_PATH(state, "file"), *fifo = SANDBOX_PATH(state, "fifo");

	assert_int_equal(atomic_file_write(AT_FDCWD, path, "12345", 5, 0600), 0);
	assert_int_equal(file_read(AT_FDCWD, path, 4, &data, NULL), -EFBIG);
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", 16, &data, NULL), -EFBIG);
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", 1 << 20, &data, NULL), 0);
	assert_non_null(strstr(data, "[stack]"));
	assert_int_equal(file_read(AT_FDCWD, *state, 100, &data, NULL), -EISDIR);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(file_read(AT_FDCWD, fifo, 100, &data, NULL), -EINVAL); /* and does not hang */
	assert_int_equal(file_read(AT_FDCWD, SANDBOX_PATH(state, "none"), 100, &data, NULL), -ENOENT);
}

static void temporary_names_are_recognised(void **state)
{
	(void)state;
	assert_true(atomic_file_is_temporary(".file.0123456789abcdef.tmp"));
	assert_false(atomic_file_is_temporary("file"));
	assert_false(atomic_file_is_temporary(".file.tmp"));
	assert_false(atomic_file_is_temporary("..0123456789abcdef.tmp"));
	assert_false(atomic_file_is_temporary(".file.0123456789abcdeX.tmp"));
	assert_false(atomic_file_is_temporary("file.0123456789abcdef.tmp"));
}

static void boot_ids(void **state)
{
	const char *path = SANDBOX_PATH(state, "boot_id");
	char id[UUID_TEXT_MAX];

	assert_int_equal(boot_id_read(BOOT_ID_PATH, id), 0);
	assert_true(uuid_is_valid(id));
	assert_int_equal(atomic_file_write(AT_FDCWD, path, "nonsense\n", 9, 0600), 0);
	assert_int_equal(boot_id_read(path, id), -EINVAL);
	assert_int_equal(boot_id_read(SANDBOX_PATH(state, "none"), id), -ENOENT);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, sandbox_setup, sandbox_teardown)

TEST_SUITE(atomic_file_test)
{
	const struct CMUnitTest tests[] = {
		TEST(content_and_mode_are_exact_and_replaced),
		TEST(it_is_relative_to_the_directory),
		TEST(a_failed_write_leaves_the_old_file_alone),
		TEST(a_symlink_is_replaced_and_not_followed),
		TEST(reading_is_bounded),
		TEST(temporary_names_are_recognised),
		TEST(boot_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
