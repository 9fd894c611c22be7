#include "svc-runtime-libvirt/console_ring.h"

#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

/* What byte the guest wrote at that offset. */
static char byte_at(uint64_t offset)
{
	return (char)(offset * 31 + offset / 251);
}

static void write_bytes(struct console_ring *ring, size_t n)
{
	CLEANUP_FREE char *text = malloc(n + 1);
	uint64_t end = console_ring_end(ring);

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		text[i] = byte_at(end + i);
	assert_int_equal(console_ring_write(ring, text, n), 0);
	assert_int_equal(console_ring_end(ring), end + n);
}

/* All that is kept is what was written, read in pieces of size. */
static void check_ring(const struct console_ring *ring, size_t size)
{
	static char buf[4 * CONSOLE_RING_BYTES];
	uint64_t offset = console_ring_start(ring), end = console_ring_end(ring);

	assert_true(size <= sizeof(buf));
	assert_int_equal(end - offset, end < CONSOLE_RING_BYTES ? end : CONSOLE_RING_BYTES);
	while (offset < end) {
		ssize_t n = console_ring_read(ring, offset, buf, size);
		assert_true(n > 0 && (size_t)n <= size);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(buf[i], byte_at(offset + (uint64_t)i));
		offset += (uint64_t)n;
	}
	assert_int_equal(console_ring_read(ring, end, buf, size), 0);
}

static void the_last_64_kib_are_kept(void **state)
{
	static const size_t sizes[] = { 1, 2, 4095, 1, 60000, 5000, 65535, 65536, 65537, 200000, 3 };
	CLEANUP(console_ring) struct console_ring *ring = NULL;
	char byte;

	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "ring"), &ring), 0);
	assert_int_equal(console_ring_end(ring), 0);
	check_ring(ring, 16);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		write_bytes(ring, sizes[i]);
		check_ring(ring, sizes[i]);
		check_ring(ring, 4096);
		/* and neither what is overwritten nor what is still to come */
		assert_int_equal(console_ring_read(ring, console_ring_end(ring) + 1, &byte, 1), -ERANGE);
		if (console_ring_start(ring) > 0)
			assert_int_equal(
			        console_ring_read(ring, console_ring_start(ring) - 1, &byte, 1), -ERANGE);
	}
}

static void a_ring_outlives_who_writes_it(void **state)
{
	CLEANUP(console_ring) struct console_ring *ring = NULL;
	struct stat st;

	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "ring"), &ring), 0);
	write_bytes(ring, 100000);
	ring = console_ring_free(ring);
	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "ring"), &ring), 0);
	assert_int_equal(console_ring_end(ring), 100000);
	check_ring(ring, 4096);
	write_bytes(ring, 10);
	check_ring(ring, 4096);
	assert_int_equal(stat(SANDBOX_PATH(state, "ring"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(st.st_size <= 4096 + CONSOLE_RING_BYTES);
}

static void what_is_no_ring_is_made_one(void **state)
{
	static const char *const files[] = { "", "bcring1", "bcring1\0\377\377\377\377\377\377\377\377",
		"something else, long" };
	static const size_t n_files[] = { 0, 7, 16, 20 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		CLEANUP(console_ring) struct console_ring *ring = NULL;
		int fd = open(SANDBOX_PATH(state, "ring"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, files[i], n_files[i]), (ssize_t)n_files[i]);
		assert_int_equal(close(fd), 0);
		assert_int_equal(console_ring_open(SANDBOX_PATH(state, "ring"), &ring), 0);
		assert_int_equal(console_ring_end(ring), 0);
		write_bytes(ring, 10);
		check_ring(ring, 3);
	}
}

static void only_a_plain_file_is_opened(void **state)
{
	struct console_ring *ring = NULL;

	assert_int_equal(symlink("/etc/passwd", SANDBOX_PATH(state, "link")), 0);
	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "link"), &ring), -ELOOP);
	assert_int_equal(mkfifo(SANDBOX_PATH(state, "fifo"), 0600), 0);
	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "fifo"), &ring), -EINVAL);
	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "no/ring"), &ring), -ENOENT);
	assert_null(ring);
}

/* A full file system costs what could not be written, and nothing that was there. */
static void a_write_that_fails_changes_nothing(void **state)
{
	CLEANUP(console_ring) struct console_ring *ring = NULL;
	struct rlimit before, small = { .rlim_cur = 4096 + 100, .rlim_max = RLIM_INFINITY };
	char text[200] = { 0 };

	assert_int_equal(console_ring_open(SANDBOX_PATH(state, "ring"), &ring), 0);
	write_bytes(ring, 90);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(console_ring_write(ring, text, sizeof(text)), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(console_ring_end(ring), 90);
	check_ring(ring, 90);
	write_bytes(ring, 200);
	check_ring(ring, 90);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(console_ring_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(the_last_64_kib_are_kept),
		SANDBOXED(a_ring_outlives_who_writes_it),
		SANDBOXED(what_is_no_ring_is_made_one),
		SANDBOXED(only_a_plain_file_is_opened),
		SANDBOXED(a_write_that_fails_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
