#include "lib/base/tree.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void parents_are_made_and_modes_kept(void **state)
{
	struct stat st;

	(void)umask(0077);
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, "a/b//c/"), 0711), 0);
	assert_int_equal(stat(SANDBOX_PATH(state, "a/b/c"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, "a/b/c"), 0700), 0);
	assert_int_equal(stat(SANDBOX_PATH(state, "a/b/c"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711); /* was there: left as it is */
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "a/file"), "", 0, 0600), 0);
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, "a/file"), 0700), -ENOTDIR);
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, "a/file/x"), 0700), -ENOTDIR);
	assert_int_equal(mkdir_p("", 0700), -ENOENT);
	assert_int_equal(mkdir_p("/", 0700), 0);
}

static void a_tree_goes_whole_and_links_are_not_followed(void **state)
{
	const char *kept = SANDBOX_PATH(state, "kept"), *file = SANDBOX_PATH(state, "kept/file");

	assert_int_equal(mkdir_p(kept, 0755), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, file, "", 0, 0600), 0);
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, "tree/a/b"), 0755), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "tree/a/f"), "", 0, 0400), 0);
	assert_int_equal(mkfifo(SANDBOX_PATH(state, "tree/a/fifo"), 0600), 0);
	assert_int_equal(symlink(kept, SANDBOX_PATH(state, "tree/a/dir-link")), 0);
	assert_int_equal(symlink(file, SANDBOX_PATH(state, "tree/a/file-link")), 0);
	assert_int_equal(symlink("nowhere", SANDBOX_PATH(state, "tree/a/b/dangling")), 0);
	assert_int_equal(remove_tree(AT_FDCWD, SANDBOX_PATH(state, "tree")), 0);
	assert_false(exists(SANDBOX_PATH(state, "tree")));
	assert_true(exists(file));
	assert_int_equal(remove_tree(AT_FDCWD, SANDBOX_PATH(state, "tree")), 0);
}

static void a_path_that_is_a_link_is_refused(void **state)
{
	CLEANUP_CLOSE int dir = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(mkdirat(dir, "kept", 0755), 0);
	assert_int_equal(symlinkat("kept", dir, "link"), 0);
	assert_int_equal(remove_tree(dir, "link"), -ELOOP);
	assert_true(exists(SANDBOX_PATH(state, "kept")));
	assert_true(exists(SANDBOX_PATH(state, "link")));
	assert_int_equal(remove_tree(dir, "kept"), 0);
	assert_false(exists(SANDBOX_PATH(state, "kept")));
}

static void depth_is_bounded(void **state)
{
	CLEANUP_CLOSE int top = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dup(top);

	for (unsigned i = 0; i < TREE_DEPTH_MAX + 1; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	assert_int_equal(remove_tree(top, "d"), -ENAMETOOLONG);
	assert_true(exists(SANDBOX_PATH(state, "d")));
	/* One level less of it is within the bound. */
	assert_int_equal(remove_tree(top, "d/d"), 0);
	assert_int_equal(remove_tree(top, "d"), 0);
}

static void a_mount_point_is_not_crossed(void **state)
{
	const char *mnt = SANDBOX_PATH(state, "tree/mnt"), *file = SANDBOX_PATH(state, "tree/mnt/file");

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	assert_int_equal(mkdir_p(mnt, 0755), 0);
	assert_int_equal(mount("tmpfs", mnt, "tmpfs", 0, NULL), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, file, "", 0, 0600), 0);
	int r = remove_tree(AT_FDCWD, SANDBOX_PATH(state, "tree"));
	bool kept = exists(file);
	assert_int_equal(umount(mnt), 0);
	assert_int_equal(r, -EXDEV);
	assert_true(kept);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, sandbox_setup, sandbox_teardown)

TEST_SUITE(tree_test)
{
	const struct CMUnitTest tests[] = {
		TEST(parents_are_made_and_modes_kept),
		TEST(a_tree_goes_whole_and_links_are_not_followed),
		TEST(a_path_that_is_a_link_is_refused),
		TEST(depth_is_bounded),
		TEST(a_mount_point_is_not_crossed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
