#include "lib/base/process.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static void run(const struct process_options *options, struct process_output *ret)
{
	assert_int_equal(process_capture(options, 65536, test_timeout_usec(TEST_SERVICE_SEC), ret), 0);
}

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define SH(script) ARGV("/bin/sh", "-c", script)

static void output_and_status_come_back(void **state)
{
	struct process_output out;
	char text[64];

	(void)state;
	run(&(struct process_options){ .argv = SH("echo out; echo err >&2; exit 3") }, &out);
	assert_string_equal(out.text, "out\nerr\n");
	assert_false(out.cut);
	assert_string_equal(process_status_text(out.status, text, sizeof(text)), "exited with status 3");
	process_output_done(&out);
	run(&(struct process_options){ .argv = SH("kill -9 $$") }, &out);
	assert_string_equal(
	        process_status_text(out.status, text, sizeof(text)), "was killed by signal 9 (Killed)");
	process_output_done(&out);
}

static void arguments_arrive_byte_for_byte(void **state)
{
	struct process_output out;

	(void)state;
	run(&(struct process_options){ .argv = ARGV("printf", "%s|", "$HOME", "a b", "\"'`%n", "") }, &out);
	assert_string_equal(out.text, "$HOME|a b|\"'`%n||");
	process_output_done(&out);
}

static void a_missing_program_is_an_errno(void **state)
{
	int pidfd = -EBADF;

	(void)state;
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("/nonexistent") }, NULL, &pidfd),
	        -ENOENT);
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("/etc/passwd") }, NULL, &pidfd),
	        -EACCES);
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("true"), .cwd = "/nonexistent" }, NULL,
	                &pidfd),
	        -ENOENT);
	assert_int_equal(pidfd, -EBADF);
}

static void only_the_given_descriptors_are_open(void **state)
{
	struct process_output out;
	int leaky = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as LISTEN_FDS come */
	int a = open("/etc/passwd", O_RDONLY | O_CLOEXEC), b = open("/etc/group", O_RDONLY | O_CLOEXEC);
	/* Targets that are sources of others: a swap, and a gap at 4 and 5. */
	const struct process_fd fds[] = { { .from = a, .to = b }, { .from = b, .to = a },
		{ .from = a, .to = 40 } };

	(void)state;
	assert_true(leaky >= 0 && a >= 0 && b >= 0);
	run(&(struct process_options){ .argv = ARGV("ls", "-l", "/proc/self/fd"), .fds = fds, .n_fds = 3 },
	        &out);
	char want_a[64], want_b[64];
	(void)snprintf(want_a, sizeof(want_a), " %d -> /etc/group\n", a);
	(void)snprintf(want_b, sizeof(want_b), " %d -> /etc/passwd\n", b);
	assert_non_null(strstr(out.text, want_a));
	assert_non_null(strstr(out.text, want_b));
	assert_non_null(strstr(out.text, " 40 -> /etc/passwd\n"));
	assert_non_null(strstr(out.text, " 0 -> /dev/null\n"));
	size_t n = 0;
	for (const char *p = out.text; (p = strstr(p, " -> ")); p++)
		n++;
	assert_int_equal(n, 3 + 3 + 1); /* standard ones, given ones, ls's own on the directory */
	process_output_done(&out);
	(void)close(leaky);
	(void)close(a);
	(void)close(b);
}

static void the_environment_has_nothing_of_systemd(void **state)
{
	static const char *const OURS[] = { "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET",
		"WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM" };
	struct process_output out;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(OURS); i++)
		assert_int_equal(setenv(OURS[i], "1", 1), 0);
	assert_int_equal(setenv("BC_TEST_KEPT", "kept", 1), 0);
	assert_int_equal(setenv("BC_TEST_REPLACED", "old", 1), 0);
	run(&(struct process_options){ .argv = ARGV("env"),
	            .env = ARGV("BC_TEST_REPLACED=new", "BC_TEST_ADDED=a b") },
	        &out);
	for (size_t i = 0; i < ARRAY_SIZE(OURS); i++) {
		assert_null(strstr(out.text, OURS[i]));
		(void)unsetenv(OURS[i]);
	}
	assert_non_null(strstr(out.text, "BC_TEST_KEPT=kept\n"));
	assert_non_null(strstr(out.text, "BC_TEST_REPLACED=new\n"));
	assert_null(strstr(out.text, "=old\n"));
	assert_non_null(strstr(out.text, "BC_TEST_ADDED=a b\n"));
	process_output_done(&out);
}

static void signals_are_as_at_birth(void **state)
{
	struct process_output out;
	sigset_t blocked, old;

	(void)state;
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)sigaddset(&blocked, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &old), 0);
	(void)signal(SIGPIPE, SIG_IGN);
	run(&(struct process_options){ .argv = ARGV("grep", "^Sig[BI]", "/proc/self/status") }, &out);
	unsigned long long mask = 1, ignored = 1;
	assert_int_equal(sscanf(out.text, "SigBlk: %llx SigIgn: %llx", &mask, &ignored), 2);
	assert_int_equal(mask, 0);
	/* glibc ignores its two internal signals, 32 and 33, in every spawned child. */
	assert_int_equal(ignored & ~0x180000000ULL, 0);
	process_output_done(&out);
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

static void output_is_bounded_and_the_program_ends_all_the_same(void **state)
{
	struct process_output out;

	(void)state;
	assert_int_equal(
	        process_capture(
	                &(struct process_options){ .argv = SH("head -c 1000000 /dev/zero | tr '\\0' x") },
	                100, test_timeout_usec(TEST_SERVICE_SEC), &out),
	        0);
	assert_int_equal(out.n_text, 100);
	assert_int_equal(strlen(out.text), 100);
	assert_true(out.cut);
	assert_true(WIFEXITED(out.status) && WEXITSTATUS(out.status) == 0);
	process_output_done(&out);
}

static void a_timeout_kills_it_with_its_children(void **state)
{
	struct process_output out;
	int fds[2];
	char c;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	/* The grandchild holds the pipe: end of file here means that it is dead too. */
	assert_int_equal(process_capture(&(struct process_options){ .argv = SH("sleep 1000 & sleep 1000"),
	                                         .fds = &(struct process_fd){ .from = fds[1], .to = 7 },
	                                         .n_fds = 1 },
	                         100, 50 * USEC_PER_MSEC, &out),
	        -ETIMEDOUT);
	(void)close(fds[1]);
	assert_int_equal(read(fds[0], &c, 1), 0);
	(void)close(fds[0]);
}

static void whoever_waits_can_end_it(void **state)
{
	struct process_output out;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct process_options options = { .argv = SH("exit 3"), .cancel_fd = &fds[0] };
	assert_int_equal(process_capture(&options, 100, test_timeout_usec(TEST_SERVICE_SEC), &out), 0);
	assert_true(WIFEXITED(out.status) && WEXITSTATUS(out.status) == 3);
	process_output_done(&out);
	options.argv = SH("sleep 1000 & sleep 1000");
	(void)close(fds[1]); /* readable for good */
	assert_int_equal(
	        process_capture(&options, 100, test_timeout_usec(TEST_SERVICE_SEC), &out), -ECANCELED);
	(void)close(fds[0]);
}

static void an_orphan_with_the_pipe_does_not_hold_us(void **state)
{
	struct process_output out;
	int fds[2];

	(void)state;
	/* The orphan lives until our end of its stdin closes, and keeps stdout open until then. */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	run(&(struct process_options){ .argv = SH("cat <&9 & echo done"),
	            .fds = &(struct process_fd){ .from = fds[0], .to = 9 },
	            .n_fds = 1 },
	        &out);
	assert_string_equal(out.text, "done\n");
	process_output_done(&out);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void waiting_times_out_and_then_reaps(void **state)
{
	CLEANUP_CLOSE int pidfd = -EBADF;
	int status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("sleep", "1000") }, &pid, &pidfd), 0);
	assert_int_equal(process_wait(pidfd, 1, &status), -ETIMEDOUT); /* runs out */
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(process_wait(pidfd, 0, &status), -ECHILD);
}

static void bad_targets_are_refused(void **state)
{
	int pidfd;
	const struct process_fd negative = { .from = 0, .to = -1 }, closed = { .from = 900, .to = 3 };

	(void)state;
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("true"), .fds = &negative, .n_fds = 1 },
	                NULL, &pidfd),
	        -EINVAL);
	assert_int_equal(
	        process_spawn(&(struct process_options){ .argv = ARGV("true"), .fds = &closed, .n_fds = 1 },
	                NULL, &pidfd),
	        -EBADF);
}

TEST_SUITE(process_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_and_status_come_back),
		cmocka_unit_test(arguments_arrive_byte_for_byte),
		cmocka_unit_test(a_missing_program_is_an_errno),
		cmocka_unit_test(only_the_given_descriptors_are_open),
		cmocka_unit_test(the_environment_has_nothing_of_systemd),
		cmocka_unit_test(signals_are_as_at_birth),
		cmocka_unit_test(output_is_bounded_and_the_program_ends_all_the_same),
		cmocka_unit_test(a_timeout_kills_it_with_its_children),
		cmocka_unit_test(whoever_waits_can_end_it),
		cmocka_unit_test(an_orphan_with_the_pipe_does_not_hold_us),
		cmocka_unit_test(waiting_times_out_and_then_reaps),
		cmocka_unit_test(bad_targets_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
