#include "lib/image/new_file.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

static void file_appears_whole_with_its_exact_mode(void **state)
{
	const char *path = SANDBOX_PATH(state, "disk");
	struct new_file file = NEW_FILE_EMPTY;
	struct stat st;
	mode_t old = umask(077);

	assert_int_equal(new_file_open(path, FILE_PERM(0664), &file), 0);
	umask(old);
	assert_int_equal(write(file.fd, "abc", 3), 3);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(new_file_commit(&file, false), 0);
	new_file_done(&file);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0664);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(sandbox_n_entries(*state), 1);
}

static void owner_is_as_asked(void **state)
{
	const char *path = SANDBOX_PATH(state, "disk");
	struct new_file file = NEW_FILE_EMPTY;
	struct file_perm perm = { .mode = 0640, .uid = (uid_t)-1, .gid = getegid() };
	struct stat st;

	if (geteuid() == 0)
		perm.uid = 12345;
	assert_int_equal(new_file_open(path, perm, &file), 0);
	assert_int_equal(new_file_commit(&file, false), 0);
	new_file_done(&file);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, geteuid() == 0 ? 12345 : geteuid());
	assert_int_equal(st.st_gid, perm.gid);
}

static void uncommitted_leaves_nothing(void **state)
{
	struct new_file file = NEW_FILE_EMPTY;

	assert_int_equal(new_file_open(SANDBOX_PATH(state, "disk"), FILE_PERM(0600), &file), 0);
	new_file_done(&file);
	new_file_done(&file);
	assert_int_equal(sandbox_n_entries(*state), 0);
}

static void existing_target_is_kept_unless_replaced(void **state)
{
	const char *path = SANDBOX_PATH(state, "disk");

	for (int i = 0; i < 3; i++) {
		CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;

		assert_int_equal(new_file_open(path, FILE_PERM(0600), &file), 0);
		assert_int_equal(write(file.fd, "0123456789", (size_t)i + 1), i + 1);
		assert_int_equal(new_file_commit(&file, i == 2), i == 1 ? -EEXIST : 0);
	}
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(sandbox_n_entries(*state), 1);
}

static void leftover_of_a_kill_is_replaced_and_known_as_temporary(void **state)
{
	const char *path = SANDBOX_PATH(state, "disk");
	struct new_file killed = NEW_FILE_EMPTY;
	struct new_file file = NEW_FILE_EMPTY;

	assert_int_equal(new_file_open(path, FILE_PERM(0600), &killed), 0);
	assert_true(atomic_file_is_temporary(killed.tmp));
	assert_int_equal(new_file_open(path, FILE_PERM(0600), &file), 0);
	assert_int_equal(write(killed.fd, "late", 4), 4);
	assert_int_equal(new_file_commit(&file, false), 0);
	new_file_done(&file);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	new_file_done(&killed);
	assert_int_equal(sandbox_n_entries(*state), 1);
}

static void bad_names_and_missing_directories(void **state)
{
	struct new_file file = NEW_FILE_EMPTY;
	char name[300];

	assert_int_equal(new_file_open(SANDBOX_PATH(state, ""), FILE_PERM(0600), &file), -EINVAL);
	assert_int_equal(new_file_open(SANDBOX_PATH(state, ".."), FILE_PERM(0600), &file), -EINVAL);
	assert_int_equal(new_file_open(SANDBOX_PATH(state, "no/disk"), FILE_PERM(0600), &file), -ENOENT);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(new_file_open(name, FILE_PERM(0600), &file), -EINVAL);
	assert_int_equal(file.fd, -EBADF);
}

TEST_SUITE(new_file_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        file_appears_whole_with_its_exact_mode, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(owner_is_as_asked, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(uncommitted_leaves_nothing, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        existing_target_is_kept_unless_replaced, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(leftover_of_a_kill_is_replaced_and_known_as_temporary,
		        sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        bad_names_and_missing_directories, sandbox_setup, sandbox_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
