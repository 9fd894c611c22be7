#include "svc-runtime-libvirt/embed_root.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define URI "qemu:///embed?root="

static void uris_are_read(void **state)
{
	static const struct {
		const char *uri;
		int r;
		const char *root; /* or what the refusal says */
	} cases[] = {
		{ "qemu:///system", 0, NULL },
		{ "qemu:///session", 0, NULL },
		{ "test:///default", 0, NULL },
		{ "qemu:///embed", -EINVAL, "names no root" },
		{ "qemu:///embedded?root=/x", -EINVAL, "names no root" },
		{ "qemu:///embed?pool=/x", -EINVAL, "names no root" },
		{ URI, -EINVAL, "absolute" },
		{ URI "relative", -EINVAL, "absolute" },
		{ URI "/run/x/", -EINVAL, "last '/'" },
		{ URI "/run/x&root=/y", -EINVAL, "plain" },
		{ URI "/run/%2e", -EINVAL, "plain" },
		{ URI "/run/bc libvirt", -EINVAL, "plain" },
		{ URI "/run/bc", 0, "/run/bc" },
		{ URI "/", 0, "/" },
		/* 50 bytes, and one more */
		{ URI "/2345678901234567890123456789012345678901234567890", 0,
		        "/2345678901234567890123456789012345678901234567890" },
		{ URI "/23456789012345678901234567890123456789012345678901", -EINVAL,
		        "51 bytes; at most 50" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP_FREE char *root = NULL;
		struct err err = { 0 };

		print_message("%s\n", cases[i].uri);
		assert_int_equal(embed_root_parse(cases[i].uri, &root, &err), cases[i].r);
		if (cases[i].r < 0)
			assert_non_null(strstr(err.text, cases[i].root));
		else if (cases[i].root)
			assert_string_equal(root, cases[i].root);
		else
			assert_null(root);
	}
}

static void a_root_is_made_and_its_configuration_is_kept(void **state)
{
	const char *root = SANDBOX_PATH(state, "root");
	CLEANUP_FREE char *first = NULL, *later = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;

	assert_int_equal(embed_root_prepare(root, &fd, NULL), 0);
	assert_int_equal(
	        file_read(AT_FDCWD, SANDBOX_PATH(state, "root/etc/qemu.conf"), 4096, &first, NULL), 0);
	assert_non_null(strstr(first, "dynamic_ownership = 0\n"));
	assert_int_equal(strstr(first, "user = \"root\"") != NULL, geteuid() == 0);
	assert_int_equal(stat(SANDBOX_PATH(state, "root/bc-runtime.lock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(close(TAKE_FD(fd)), 0);
	/* an operator's changes */
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "root/etc/qemu.conf"), "# mine\n", 7, 0644),
	        0);
	assert_int_equal(embed_root_prepare(root, &fd, NULL), 0);
	assert_int_equal(
	        file_read(AT_FDCWD, SANDBOX_PATH(state, "root/etc/qemu.conf"), 4096, &later, NULL), 0);
	assert_string_equal(later, "# mine\n");
}

/* By a process of its own, as a second service would be; what it holds ends with it, however it ends. */
static void a_root_has_one_holder_who_is_named(void **state)
{
	const char *root = SANDBOX_PATH(state, "root");
	CLEANUP_CLOSE int fd = -EBADF;
	struct err err = { 0 };
	int ready[2], status;
	char byte, pid_text[32];

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int held = -EBADF;
		if (embed_root_prepare(root, &held, NULL) == 0 && write(ready[1], "", 1) == 1)
			(void)pause();
		_exit(1);
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	assert_int_equal(embed_root_prepare(root, &fd, &err), -EBUSY);
	(void)snprintf(pid_text, sizeof(pid_text), "pid %d", pid);
	assert_non_null(strstr(err.text, root));
	assert_non_null(strstr(err.text, pid_text));
	assert_int_equal(fd, -EBADF);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(embed_root_prepare(root, &fd, NULL), 0);
}

static void a_root_that_cannot_be_made_is_named(void **state)
{
	struct err err = { 0 };
	int fd = -EBADF;

	CLEANUP_CLOSE int file = open(SANDBOX_PATH(state, "file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	assert_true(embed_root_prepare(SANDBOX_PATH(state, "file/root"), &fd, &err) < 0);
	assert_non_null(strstr(err.text, "file/root"));
	/* nobody else's file is taken for a lock */
	assert_int_equal(mkdir(SANDBOX_PATH(state, "root"), 0755), 0);
	assert_int_equal(symlink("/dev/null", SANDBOX_PATH(state, "root/bc-runtime.lock")), 0);
	assert_int_equal(embed_root_prepare(SANDBOX_PATH(state, "root"), &fd, &err), -ELOOP);
	assert_int_equal(fd, -EBADF);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(embed_root_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uris_are_read),
		SANDBOXED(a_root_is_made_and_its_configuration_is_kept),
		SANDBOXED(a_root_has_one_holder_who_is_named),
		SANDBOXED(a_root_that_cannot_be_made_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
