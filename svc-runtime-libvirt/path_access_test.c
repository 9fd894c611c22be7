#include "svc-runtime-libvirt/path_access.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

static mode_t mode_of(void **state, const char *name)
{
	struct stat st;

	assert_int_equal(stat(SANDBOX_PATH(state, name), &st), 0);
	return st.st_mode & 07777;
}

static void dir_make(void **state, const char *name, mode_t mode)
{
	assert_int_equal(mkdir(SANDBOX_PATH(state, name), 0700), 0);
	assert_int_equal(chmod(SANDBOX_PATH(state, name), mode), 0);
}

static void file_make(void **state, const char *name)
{
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
}

static void on_change(const char *dir, mode_t before, mode_t after, void *userdata)
{
	char *record = userdata;
	size_t n = strlen(record);
	const char *name = strrchr(dir, '/') + 1;

	(void)snprintf(record + n, 512 - n, "%s %o>%o ", name, before, after);
}

static void only_search_is_added_and_only_on_the_way(void **state)
{
	char record[512] = { 0 };

	assert_int_equal(chmod(*state, 0700), 0);
	dir_make(state, "data", 0700);
	dir_make(state, "data/instances", 0750);
	dir_make(state, "data/instances/id", 02700);
	dir_make(state, "data/instances/other", 0700);
	dir_make(state, "data/images", 0711);
	file_make(state, "data/instances/id/disk");
	assert_int_equal(
	        path_access_add(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, "data/instances/id/disk"),
	                PATH_ACCESS_OTHERS, on_change, record, NULL),
	        0);
	assert_int_equal(mode_of(state, "data"), 0701);
	assert_int_equal(mode_of(state, "data/instances"), 0751);
	assert_int_equal(mode_of(state, "data/instances/id"), 02701);
	assert_int_equal(mode_of(state, "data/instances/id/disk"), 0600);
	assert_int_equal(mode_of(state, "data/instances/other"), 0700);
	assert_int_equal(mode_of(state, "data/images"), 0711);
	assert_int_equal(mode_of(state, ""), 0700);
	assert_string_equal(record, "data 700>701 instances 750>751 id 2700>2701 ");
	record[0] = 0;
	assert_int_equal(
	        path_access_add(SANDBOX_PATH(state, "data/"), SANDBOX_PATH(state, "data/instances/id/disk"),
	                PATH_ACCESS_OTHERS, on_change, record, NULL),
	        0);
	assert_string_equal(record, "");
}

static void the_group_gets_search_where_it_is_asked_for(void **state)
{
	dir_make(state, "data", 0700);
	dir_make(state, "data/images", 0700);
	assert_int_equal(path_access_add(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, "data/images/x"),
	                         PATH_ACCESS_GROUP, NULL, NULL, NULL),
	        0);
	assert_int_equal(mode_of(state, "data"), 0710);
	assert_int_equal(mode_of(state, "data/images"), 0710);
}

static void what_is_not_below_is_refused_and_untouched(void **state)
{
	static const char *const bad[] = { "database/x", "data", "data/", "other/x", "data/../other/x",
		"data/images/../../other/x" };
	struct err err = { 0 };

	dir_make(state, "data", 0700);
	dir_make(state, "data/images", 0700);
	dir_make(state, "database", 0700);
	dir_make(state, "other", 0700);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(path_access_add(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, bad[i]),
		                         PATH_ACCESS_OTHERS, NULL, NULL, NULL),
		        -EINVAL);
	assert_int_equal(
	        path_access_add("relative", "relative/x", PATH_ACCESS_OTHERS, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(mode_of(state, "other"), 0700);
	assert_int_equal(mode_of(state, "database"), 0700);
	assert_int_equal(path_access_add(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, "data/gone/x"),
	                         PATH_ACCESS_OTHERS, NULL, NULL, &err),
	        -ENOENT);
	assert_non_null(strstr(err.text, "/data/gone'"));
}

static void a_link_below_is_refused_and_what_it_leads_to_untouched(void **state)
{
	struct err err = { 0 };

	dir_make(state, "secret", 0700);
	dir_make(state, "data", 0700);
	dir_make(state, "data/images", 0700);
	assert_int_equal(symlink(SANDBOX_PATH(state, "secret"), SANDBOX_PATH(state, "data/images/way")), 0);
	assert_int_equal(
	        path_access_add(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, "data/images/way/x"),
	                PATH_ACCESS_OTHERS, NULL, NULL, &err),
	        -ELOOP);
	assert_non_null(strstr(err.text, "images/way"));
	assert_int_equal(mode_of(state, "secret"), 0700);
	/* data_dir itself may be one: an operator's own. */
	assert_int_equal(symlink(SANDBOX_PATH(state, "data"), SANDBOX_PATH(state, "moved")), 0);
	assert_int_equal(path_access_add(SANDBOX_PATH(state, "moved"), SANDBOX_PATH(state, "moved/images/x"),
	                         PATH_ACCESS_OTHERS, NULL, NULL, NULL),
	        0);
	assert_int_equal(mode_of(state, "data"), 0701);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(path_access_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(only_search_is_added_and_only_on_the_way),
		SANDBOXED(the_group_gets_search_where_it_is_asked_for),
		SANDBOXED(what_is_not_below_is_refused_and_untouched),
		SANDBOXED(a_link_below_is_refused_and_what_it_leads_to_untouched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
