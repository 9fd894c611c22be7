#include "lib/image/image.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int raw_check(
        void **state, const void *head, size_t n_head, off_t size, uint64_t *ret, struct err *err)
{
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, "image"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, head, n_head), (ssize_t)n_head);
	assert_int_equal(ftruncate(fd, size), 0);
	return image_check_base(fd, IMAGE_RAW, ret, err);
}

static void formats_round_trip(void **state)
{
	enum image_format format;

	(void)state;
	for (int i = IMAGE_RAW; i <= IMAGE_QCOW2; i++) {
		format = (enum image_format)77;
		assert_int_equal(
		        image_format_from_string(image_format_to_string((enum image_format)i), &format), 0);
		assert_int_equal(format, i);
	}
	assert_int_equal(image_format_from_string("vmdk", &format), -EINVAL);
	assert_int_equal(image_format_from_string("", &format), -EINVAL);
	assert_null(image_format_to_string((enum image_format)9));
}

static void raw_size_is_rounded_up_to_sectors(void **state)
{
	uint64_t bytes = 0;

	assert_int_equal(raw_check(state, "x", 1, 1, &bytes, NULL), 0);
	assert_int_equal(bytes, 512);
	assert_int_equal(raw_check(state, "x", 1, 1 << 20, &bytes, NULL), 0);
	assert_int_equal(bytes, 1 << 20);
}

static void what_is_plainly_not_raw_is_refused_with_its_name(void **state)
{
	static const struct {
		const char *head;
		const char *word;
	} cases[] = {
		{ "QFI\xfb....", "QCOW2" },
		{ "KDMV....", "VMDK" },
		{ "vhdxfile", "VHDX" },
		{ "\x1f\x8b\x08.....", "gzip" },
		{ "\x28\xb5\x2f\xfd....", "zstd" },
	};
	uint64_t bytes = 7;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };

		assert_int_equal(raw_check(state, cases[i].head, 8, 4096, &bytes, &err), -EINVAL);
		assert_non_null(strstr(err.text, cases[i].word));
	}
	assert_int_equal(raw_check(state,
	                         "\xfd"
	                         "7zXZ\0..",
	                         8, 4096, &bytes, NULL),
	        -EINVAL);
	assert_int_equal(raw_check(state, "", 0, 0, &bytes, NULL), -EINVAL);
	assert_int_equal(bytes, 7);
}

static void stated_qcow2_must_be_one(void **state)
{
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "image"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct err err = { 0 };
	uint64_t bytes;

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(image_check_base(fd, IMAGE_QCOW2, &bytes, &err), -EINVAL);
	assert_non_null(strstr(err.text, "not a qcow2 image"));
}

TEST_SUITE(image_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_round_trip),
		cmocka_unit_test_setup_teardown(
		        raw_size_is_rounded_up_to_sectors, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        what_is_plainly_not_raw_is_refused_with_its_name, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(stated_qcow2_must_be_one, sandbox_setup, sandbox_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
