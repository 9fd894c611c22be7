#include "lib/vfio/sysfs_write.h"

#include "lib/base/cleanup.h"
#include "lib/vfio/sysfs_tree_test.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

static void the_text_is_written(void **state)
{
	char text[16] = { 0 };
	struct err err = { 0 };

	tree_write(*state, "unbind", "");
	assert_int_equal(sysfs_write(SANDBOX_PATH(state, "unbind"), "0000:01:00.0",
	                         test_timeout_usec(TEST_SERVICE_SEC), NULL),
	        0);
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "unbind"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 12);
	assert_string_equal(text, "0000:01:00.0");
	assert_int_equal(
	        sysfs_write(SANDBOX_PATH(state, "gone"), "x", test_timeout_usec(TEST_SERVICE_SEC), &err),
	        -ENOENT);
	assert_non_null(strstr(err.text, "/gone'"));
	assert_int_equal(sysfs_write("/dev/full", "x", test_timeout_usec(TEST_SERVICE_SEC), NULL), -ENOSPC);
}

/* A FIFO nobody reads: the open waits as an unbind of a busy device does. */
static void a_hanging_write_is_abandoned_and_others_go_on(void **state)
{
	const char *busy = SANDBOX_PATH(state, "busy");
	struct err err = { 0 };
	char text[8] = { 0 };

	assert_int_equal(mkfifo(busy, 0600), 0);
	tree_write(*state, "free", "");
	assert_int_equal(sysfs_write(busy, "hang", 20000, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "'hang'"));
	assert_non_null(strstr(err.text, "/busy'"));
	assert_non_null(strstr(err.text, "20 ms"));
	assert_int_equal(
	        sysfs_write(SANDBOX_PATH(state, "free"), "x", test_timeout_usec(TEST_SERVICE_SEC), NULL), 0);
	/* Let go at last, the abandoned write happens, and its thread ends. */
	CLEANUP_CLOSE int fd = open(busy, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, 4), 4);
	assert_string_equal(text, "hang");
}

TEST_SUITE(sysfs_write_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(the_text_is_written),
		SANDBOXED(a_hanging_write_is_abandoned_and_others_go_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
