#include "lib/image/sparse_copy.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { HOLE_BYTES = 300 << 20 };

static int file_open(void **state, const char *name)
{
	int fd = open(SANDBOX_PATH(state, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void put(int fd, off_t at, const char *text)
{
	assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
}

static void holes_and_data_are_kept(void **state)
{
	CLEANUP_CLOSE int src = file_open(state, "src");
	CLEANUP_CLOSE int dst = file_open(state, "dst");
	char text[8] = { 0 };
	struct stat st;

	put(src, 0, "first");
	put(src, HOLE_BYTES, "middle");
	assert_int_equal(ftruncate(src, 2 * (off_t)HOLE_BYTES), 0);
	assert_int_equal(sparse_copy(src, dst, 2 * (uint64_t)HOLE_BYTES, NULL, NULL, NULL), 0);
	assert_int_equal(fstat(dst, &st), 0);
	assert_int_equal(st.st_size, 2 * (off_t)HOLE_BYTES);
	assert_true(st.st_blocks * 512 <= 1 << 20);
	assert_int_equal(pread(dst, text, 5, 0), 5);
	assert_string_equal(text, "first");
	assert_int_equal(pread(dst, text, 6, HOLE_BYTES), 6);
	assert_string_equal(text, "middle");
	assert_int_equal(lseek(src, 0, SEEK_SET), 0);
}

static void shorter_source_is_padded_and_longer_is_cut(void **state)
{
	CLEANUP_CLOSE int src = file_open(state, "src");
	CLEANUP_CLOSE int dst = file_open(state, "dst");
	char data[1024];

	put(src, 0, "0123456789");
	assert_int_equal(sparse_copy(src, dst, 1024, NULL, NULL, NULL), 0);
	assert_int_equal(pread(dst, data, sizeof(data), 0), 1024);
	assert_memory_equal(data, "0123456789\0\0", 12);
	assert_int_equal(ftruncate(dst, 0), 0);
	assert_int_equal(sparse_copy(src, dst, 4, NULL, NULL, NULL), 0);
	assert_int_equal(pread(dst, data, sizeof(data), 0), 4);
}

struct steps {
	uint64_t last;
	int n;
	int stop_at; /* the step that answers -ECANCELED; 0: none */
};

static int on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct steps *steps = userdata;

	assert_true(done_bytes >= steps->last && done_bytes <= total_bytes);
	steps->last = done_bytes;
	return ++steps->n == steps->stop_at ? -ECANCELED : 0;
}

static void progress_is_told_and_may_stop_it(void **state)
{
	CLEANUP_CLOSE int src = file_open(state, "src");
	CLEANUP_CLOSE int dst = file_open(state, "dst");
	struct steps steps = { .stop_at = 2 };
	struct err err = { 0 };

	for (off_t at = 0; at < 200 << 20; at += 1 << 20)
		put(src, at, "x");
	assert_int_equal(sparse_copy(src, dst, UINT64_C(200) << 20, on_progress, &steps, &err), -ECANCELED);
	assert_int_equal(steps.n, 2);
	steps = (struct steps){ 0 };
	assert_int_equal(ftruncate(dst, 0), 0);
	assert_int_equal(sparse_copy(src, dst, UINT64_C(200) << 20, on_progress, &steps, NULL), 0);
	assert_int_equal(steps.last, UINT64_C(200) << 20);
}

static void a_full_device_is_an_error_with_words(void **state)
{
	CLEANUP_CLOSE int src = file_open(state, "src");
	CLEANUP_CLOSE int dst = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct err err = { 0 };

	put(src, 0, "x");
	assert_int_equal(sparse_copy(src, dst, 1, NULL, NULL, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "No space left"));
}

static void data_runs_are_found(void **state)
{
	CLEANUP_CLOSE int fd = file_open(state, "src");
	uint64_t start, end;

	put(fd, HOLE_BYTES, "x");
	assert_int_equal(ftruncate(fd, 2 * (off_t)HOLE_BYTES), 0);
	assert_int_equal(sparse_next(fd, 0, 2 * (uint64_t)HOLE_BYTES, &start, &end), 0);
	assert_true(start <= HOLE_BYTES && end > HOLE_BYTES && end - start <= 1 << 20);
	assert_int_equal(sparse_next(fd, end, 2 * (uint64_t)HOLE_BYTES, &start, &end), -ENXIO);
	assert_int_equal(sparse_next(fd, 0, 4096, &start, &end), -ENXIO);
	assert_int_equal(sparse_next(fd, 8, 8, &start, &end), -ENXIO);
}

TEST_SUITE(sparse_copy_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(holes_and_data_are_kept, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        shorter_source_is_padded_and_longer_is_cut, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        progress_is_told_and_may_stop_it, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        a_full_device_is_an_error_with_words, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(data_runs_are_found, sandbox_setup, sandbox_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
