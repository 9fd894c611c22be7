#include "svc-runtime-libvirt/embed_sweep.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/tree.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void dir_make(void **state, const char *name)
{
	assert_int_equal(mkdir_p(SANDBOX_PATH(state, name), 0755), 0);
}

static void file_make(void **state, const char *name, const char *text)
{
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, name), text, strlen(text), 0644), 0);
}

static bool is_there(void **state, const char *name)
{
	return access(SANDBOX_PATH(state, name), F_OK) == 0;
}

static void pid_note(void **state, const char *name, pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d\n", pid);
	file_make(state, name, text);
}

/* Waits for an end that does not come, with that among its arguments. It has said that it runs: the command line of a
 * process in the middle of its exec is empty. */
static pid_t waiter_begin(const char *argument, int *ret_pidfd)
{
	const char *argv[] = { "sh", "-c", "echo && read never", argument, NULL };
	int in[2], out[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	/* its own end of what it reads keeps that open */
	const struct process_fd fds[] = { { in[0], 0 }, { out[1], 1 }, { in[1], 3 } };
	const struct process_options options = { .argv = argv, .fds = fds, .n_fds = 3 };
	assert_int_equal(process_spawn(&options, &pid, ret_pidfd), 0);
	(void)close(in[0]);
	(void)close(in[1]);
	(void)close(out[1]);
	assert_int_equal(poll(&(struct pollfd){ .fd = out[0], .events = POLLIN }, 1,
	                         test_timeout_msec(TEST_SERVICE_SEC)),
	        1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	(void)close(out[0]);
	return pid;
}

static void a_qemu_that_was_only_asked_is_ended(void **state)
{
	char monitor[320];
	int pidfd, status;

	dir_make(state, "lib/qemu/qmp-AbCdEf");
	(void)snprintf(monitor, sizeof(monitor), "unix:%s/lib/qemu/qmp-AbCdEf/qmp.monitor,server=on",
	        (const char *)*state);
	pid_t pid = waiter_begin(monitor, &pidfd);
	pid_note(state, "lib/qemu/qmp-AbCdEf/qmp.pid", pid);
	/* and one whose pid is somebody else's by now */
	dir_make(state, "lib/qemu/qmp-GhIjKl");
	pid_note(state, "lib/qemu/qmp-GhIjKl/qmp.pid", getpid());
	embed_sweep(*state);
	assert_int_equal(process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_false(is_there(state, "lib/qemu/qmp-AbCdEf"));
	assert_false(is_there(state, "lib/qemu/qmp-GhIjKl"));
	assert_true(is_there(state, "lib/qemu"));
	(void)close(pidfd);
}

static void directories_of_guests_stay_as_long_as_libvirt_notes_them(void **state)
{
	dir_make(state, "run/qemu");
	dir_make(state, "lib/qemu/channel/target/domain-1-bc-a");
	dir_make(state, "lib/qemu/channel/target/domain-2-bc-b");
	dir_make(state, "lib/qemu/domain-1-bc-a");
	dir_make(state, "lib/qemu/domain-2-bc-b");
	dir_make(state, "lib/qemu/domain-1-bc");
	dir_make(state, "lib/qemu/nvram");
	/* a name that XML writes in another way, one that it begins, and one whose notes are on somebody else */
	dir_make(state, "lib/qemu/domain-4-it's <1> & \"2\"");
	dir_make(state, "lib/qemu/domain-4-it");
	dir_make(state, "lib/qemu/domain-5-bc-a'");
	file_make(state, "run/qemu/it.xml",
	        "<domstatus><libDir path='/x/lib/qemu/domain-4-it&apos;s &lt;1&gt; &amp; \"2\"'/></domstatus>");
	file_make(state, "lib/qemu/domain-2-bc-b/master-key.aes", "secret");
	file_make(state, "run/qemu/bc-a.xml",
	        "<domstatus><libDir path='/x/lib/qemu/domain-1-bc-a'/></domstatus>");
	file_make(state, "run/qemu/bc-b.pid", "/x/lib/qemu/domain-2-bc-b");
	embed_sweep(*state);
	assert_true(is_there(state, "lib/qemu/domain-1-bc-a"));
	assert_true(is_there(state, "lib/qemu/channel/target/domain-1-bc-a"));
	assert_false(is_there(state, "lib/qemu/domain-1-bc"));
	assert_false(is_there(state, "lib/qemu/domain-2-bc-b"));
	assert_false(is_there(state, "lib/qemu/channel/target/domain-2-bc-b"));
	assert_true(is_there(state, "lib/qemu/nvram"));
	assert_true(is_there(state, "lib/qemu/domain-4-it's <1> & \"2\""));
	assert_false(is_there(state, "lib/qemu/domain-4-it"));
	assert_false(is_there(state, "lib/qemu/domain-5-bc-a'"));
}

/* The process that has the pid of a QEMU that had not begun is ended when it is that one: by the whole of its name. */
static void a_guest_is_known_by_its_whole_name(void **state)
{
	static const struct {
		const char *argument;
		bool ends;
	} cases[] = { { "guest=a,,b,debug-threads=on", true }, { "guest=a,,b", true },
		{ "guest=a,,b,,c,debug-threads=on", false }, { "guest=a,debug-threads=on", false },
		{ "guest=a,,bc,debug-threads=on", false } };

	dir_make(state, "run/qemu");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int pidfd, status;
		pid_t pid = waiter_begin(cases[i].argument, &pidfd);

		pid_note(state, "run/qemu/a,b.pid", pid);
		file_make(state, "run/qemu/a,b.xml", "<domstatus state='paused' pid='0'/>");
		embed_sweep(*state);
		assert_false(is_there(state, "run/qemu/a,b.xml"));
		if (!cases[i].ends)
			assert_int_equal(kill(pid, SIGTERM), 0);
		assert_int_equal(process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == (cases[i].ends ? SIGKILL : SIGTERM));
		(void)close(pidfd);
	}
}

static void a_guest_whose_qemu_had_not_begun_is_off(void **state)
{
	dir_make(state, "run/qemu");
	dir_make(state, "lib/qemu/domain-3-bc-c");
	file_make(state, "run/qemu/bc-c.xml",
	        "<domstatus state='paused' pid='0'><libDir path='/x/lib/qemu/domain-3-bc-c'/></domstatus>");
	pid_note(state, "run/qemu/bc-c.pid", getpid());
	file_make(state, "run/qemu/bc-d.xml", "<domstatus state='running' pid='12'/>");
	file_make(state, "run/qemu/bc-e.xml", "<domstatus state='running' pid='0'"); /* cut off */
	embed_sweep(*state);
	assert_false(is_there(state, "run/qemu/bc-c.xml"));
	assert_false(is_there(state, "run/qemu/bc-c.pid"));
	assert_false(is_there(state, "lib/qemu/domain-3-bc-c"));
	assert_true(is_there(state, "run/qemu/bc-d.xml"));
	assert_true(is_there(state, "run/qemu/bc-e.xml"));
}

static void what_libvirt_had_half_written_goes(void **state)
{
	static const char *const half[] = { "run/qemu/bc-a.xml.new", "etc/qemu/bc-a.xml.new",
		"lib/qemu/snapshot/bc-a/s1.xml.new", "lib/qemu/checkpoint/bc-a/c1.xml.new" };
	/* whole ones, also of a domain with such a name, and what is not libvirt's to write so */
	static const char *const whole[] = { "run/qemu/bc-a.xml", "etc/qemu/bc.xml.new.xml",
		"etc/qemu/notes.new", "lib/qemu/snapshot/bc-a/s1.xml", "lib/qemu/nvram/bc-a.xml.new" };

	dir_make(state, "run/qemu");
	dir_make(state, "etc/qemu");
	dir_make(state, "lib/qemu/nvram");
	dir_make(state, "lib/qemu/snapshot/bc-a");
	dir_make(state, "lib/qemu/checkpoint/bc-a");
	for (size_t i = 0; i < ARRAY_SIZE(half); i++)
		file_make(state, half[i], "<domst");
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
		file_make(state, whole[i], "<domstatus/>");
	embed_sweep(*state);
	for (size_t i = 0; i < ARRAY_SIZE(half); i++)
		assert_false(is_there(state, half[i]));
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
		assert_true(is_there(state, whole[i]));
}

static void a_new_root_has_nothing(void **state)
{
	embed_sweep(*state);
	dir_make(state, "lib/qemu/domain-1-bc-a");
	embed_sweep(*state); /* no notes at all: it cannot be told */
	assert_true(is_there(state, "lib/qemu/domain-1-bc-a"));
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(embed_sweep_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(a_qemu_that_was_only_asked_is_ended),
		SANDBOXED(directories_of_guests_stay_as_long_as_libvirt_notes_them),
		SANDBOXED(a_guest_is_known_by_its_whole_name),
		SANDBOXED(a_guest_whose_qemu_had_not_begun_is_off),
		SANDBOXED(what_libvirt_had_half_written_goes),
		SANDBOXED(a_new_root_has_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
