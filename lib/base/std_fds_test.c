#include "lib/base/std_fds.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a process of its own: bit i of closed says that i is closed. Returns 0 when all is as it should be. */
static int check_closed(int closed)
{
	char byte = 0;

	for (int fd = 0; fd <= 2; fd++)
		if (closed & 1 << fd)
			(void)close(fd);
	if (std_fds_take() < 0)
		return 1;
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return 2;
	if (open("/dev/null", O_RDONLY) <= 2)
		return 3;
	if (closed & 1 && (read(0, &byte, 1) != -1 || errno != EBADF))
		return 4;
	for (int fd = 1; fd <= 2; fd++)
		if (closed & 1 << fd && (write(fd, &byte, 1) != -1 || errno != EBADF))
			return 5;
	return 0;
}

static void no_file_gets_their_numbers(void **state)
{
	(void)state;
	for (int closed = 0; closed < 8; closed++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(check_closed(closed));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

TEST_SUITE(std_fds_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_file_gets_their_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
