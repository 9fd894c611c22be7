#include "svc-runtime-plugin/child.h"

#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void on_exit_(const char *how, void *userdata)
{
	(void)userdata;
	fail_msg("%s", how);
}

/* sd-event watches no child while SIGCHLD is let through. */
static void one_that_cannot_be_watched_is_not_left_behind(void **state)
{
	static const char *const ARGV[] = { "sleep", "60", NULL };
	const struct child_options options = {
		.argv = ARGV, .socket = SANDBOX_PATH(state, "socket"), .on_exit = on_exit_
	};
	struct child *child = NULL;
	struct err err = { 0 };
	sd_event *event = NULL;

	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(child_new(event, &options, &child, &err), -EBUSY);
	assert_non_null(strstr(err.text, "cannot start the plugin sleep"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	(void)sd_event_unref(event);
}

TEST_SUITE(child_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        one_that_cannot_be_watched_is_not_left_behind, sandbox_setup, sandbox_teardown),
	};
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
