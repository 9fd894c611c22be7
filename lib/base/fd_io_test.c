#include "lib/base/fd_io.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { SIZE = 300000 }; /* more than a pipe takes at a time */

static void *pipe_drain(void *arg)
{
	static char got[SIZE];
	const int *fd = arg;
	size_t n = 0;
	ssize_t k;

	while ((k = read(*fd, got + n, SIZE - n)) > 0)
		n += (size_t)k;
	return n == SIZE ? got : NULL;
}

static void a_full_pipe_is_no_end(void **state)
{
	CLEANUP_FREE char *data = malloc(SIZE);
	int fds[2];
	pthread_t reader;
	void *got;

	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char)(i * 7);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&reader, NULL, pipe_drain, &fds[0]), 0);
	assert_int_equal(fd_write_all(fds[1], data, SIZE), 0);
	(void)close(fds[1]);
	assert_int_equal(pthread_join(reader, &got), 0);
	assert_non_null(got);
	assert_memory_equal(got, data, SIZE);
	(void)close(fds[0]);
}

static void what_is_written_at_is_read_at(void **state)
{
	CLEANUP_CLOSE int fd = memfd_create("fd_io", MFD_CLOEXEC);
	char got[6] = "";

	(void)state;
	assert_int_equal(fd_write_all_at(fd, "world", 5, 7), 0);
	assert_int_equal(fd_read_all_at(fd, got, 5, 7), 0);
	assert_string_equal(got, "world");
	assert_int_equal(fd_read_all_at(fd, got, 0, 100), 0);
	/* one byte short */
	assert_int_equal(fd_read_all_at(fd, got, 6, 7), -ENODATA);
	assert_int_equal(fd_read_all_at(-EBADF, got, 1, 0), -EBADF);
	assert_int_equal(fd_write_all_at(-EBADF, got, 1, 0), -EBADF);
	assert_int_equal(fd_write_all(-EBADF, got, 1), -EBADF);
}

TEST_SUITE(fd_io_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_pipe_is_no_end),
		cmocka_unit_test(what_is_written_at_is_read_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
