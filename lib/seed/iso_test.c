#include "lib/seed/iso.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static int image_open(void **state, const char *name)
{
	int fd = open(SANDBOX_PATH(state, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void isoinfo(void **state, char *text, size_t size, const char *const argv[])
{
	struct process_options options = { .argv = argv, .cwd = *state };
	struct process_output output = { 0 };

	assert_int_equal(
	        process_capture(&options, size - 1, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	if (output.status != 0)
		fail_msg("isoinfo: %s", output.text);
	(void)snprintf(text, size, "%s", output.text);
	process_output_done(&output);
}
#define ISOINFO(state, text, ...)                                                                            \
	isoinfo(state, text, sizeof(text), (const char *const[]){ "isoinfo", "-i", "iso", __VA_ARGS__, NULL })

static void other_tools_read_it(void **state)
{
	CLEANUP_CLOSE int fd = image_open(state, "iso");
	struct iso_member members[] = {
		{ .name = "user-data", .data = "#!/bin/sh\n", .n_data = 10, .mode = 0400 },
		{ .name = "a-name-that-is-longer-than-31-characters",
		        .data = "x",
		        .n_data = 1,
		        .mode = 0444 },
	};
	char text[8192];
	struct stat st;

	assert_int_equal(iso_write(fd, "cidata", members, 2, NULL), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size % 2048, 0);
	ISOINFO(state, text, "-d");
	assert_non_null(strstr(text, "Volume id: cidata\n"));
	assert_non_null(strstr(text, "Joliet with UCS level 3 found"));
	assert_non_null(strstr(text, "Rock Ridge signatures version 1 found"));
	ISOINFO(state, text, "-R", "-l");
	assert_non_null(strstr(text, "-r--------"));
	assert_non_null(strstr(text, " user-data "));
	assert_non_null(strstr(text, "a-name-that-is-longer-than-31-characters"));
	ISOINFO(state, text, "-J", "-x", "/user-data");
	assert_string_equal(text, "#!/bin/sh\n");
	ISOINFO(state, text, "-R", "-x", "/user-data");
	assert_string_equal(text, "#!/bin/sh\n");
}

static void an_empty_place_is_filled_at_its_offset(void **state)
{
	CLEANUP_CLOSE int fd = image_open(state, "iso");
	struct iso_member members[] = {
		{ .name = "first", .data = "one", .n_data = 3, .mode = 0444 },
		{ .name = "place", .n_data = 5000, .mode = 0444 },
		{ .name = "nothing", .mode = 0444 },
	};
	char text[8192];

	assert_int_equal(iso_write(fd, "l", members, 3, NULL), 0);
	assert_int_equal(members[2].offset, 0);
	assert_true(members[1].offset >= 32768);
	memset(text, 'p', 5000);
	assert_int_equal(pwrite(fd, text, 5000, (off_t)members[1].offset), 5000);
	ISOINFO(state, text, "-R", "-x", "/place");
	assert_int_equal(strlen(text), 5000);
	assert_int_equal(strspn(text, "p"), 5000);
	ISOINFO(state, text, "-R", "-x", "/first");
	assert_string_equal(text, "one");
	ISOINFO(state, text, "-R", "-x", "/nothing");
	assert_string_equal(text, "");
}

static void find_refuses_what_is_no_image(void **state)
{
	CLEANUP_CLOSE int fd = image_open(state, "iso");
	struct iso_member member = { .name = "f", .data = "1", .n_data = 1, .mode = 0444 };
	uint64_t offset, bytes;

	assert_int_equal(iso_find(fd, "f", &offset, &bytes), -EINVAL);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(iso_find(fd, "f", &offset, &bytes), -EINVAL);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(iso_write(fd, "l", &member, 1, NULL), 0);
	assert_int_equal(iso_find(fd, "f", &offset, &bytes), 0);
	assert_int_equal(bytes, 1);
	assert_int_equal(iso_find(fd, "F", &offset, &bytes), -ENOENT);
	assert_int_equal(iso_find(fd, "", &offset, &bytes), -ENOENT);
	assert_int_equal(iso_find(fd, "ff", &offset, &bytes), -ENOENT);
}

/* Every byte of the descriptors and the directory changed at a time: found, not found or refused, never more. */
static void find_survives_every_changed_byte(void **state)
{
	CLEANUP_CLOSE int fd = image_open(state, "iso");
	struct iso_member member = { .name = "f", .data = "1", .n_data = 1, .mode = 0444 };
	uint64_t offset, bytes;

	assert_int_equal(iso_write(fd, "l", &member, 1, NULL), 0);
	for (off_t at = 32768; at < 60000; at += at < 40000 ? 1 : 3) {
		uint8_t old, new;

		assert_int_equal(pread(fd, &old, 1, at), 1);
		new = old ^ 0xff;
		assert_int_equal(pwrite(fd, &new, 1, at), 1);
		int r = iso_find(fd, "f", &offset, &bytes);
		assert_true(r == 0 || r == -ENOENT || r == -EINVAL);
		assert_int_equal(pwrite(fd, &old, 1, at), 1);
	}
}

static void too_large_and_full_are_errors(void **state)
{
	CLEANUP_CLOSE int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct iso_member member = { .name = "f", .n_data = (size_t)65 << 20, .mode = 0444 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(iso_write(fd, "l", &member, 1, NULL), -EINVAL);
	member.n_data = 1 << 20;
	assert_int_equal(iso_write(fd, "a label of 17 byt", &member, 1, NULL), -EINVAL);
	assert_int_equal(iso_write(fd, "l", &member, 1, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "No space left"));
}

/* Files of one size: one for another would be found by nothing but what is in them. */
static void *many_write(void *arg)
{
	enum { ROUNDS = 50, FILES = 8, SIZE = 64 };
	const char *dir = arg;

	for (int i = 0; i < ROUNDS; i++) {
		char path[256], names[FILES][8], data[FILES][SIZE] = { 0 };
		struct iso_member members[FILES] = { 0 };

		(void)snprintf(path, sizeof(path), "%s/%lu", dir, (unsigned long)pthread_self());
		for (int k = 0; k < FILES; k++) {
			(void)snprintf(names[k], sizeof(names[k]), "f%d", k);
			(void)snprintf(data[k], SIZE, "%.40s %d %d", path + strlen(path) - 20, i, k);
			members[k] = (struct iso_member){
				.name = names[k], .data = data[k], .n_data = SIZE, .mode = 0444
			};
		}
		CLEANUP_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (iso_write(fd, "l", members, FILES, NULL) < 0)
			return (void *)"fails";
		for (int k = 0; k < FILES; k++) {
			char back[SIZE];

			if (pread(fd, back, SIZE, (off_t)members[k].offset) != SIZE ||
			        memcmp(back, data[k], SIZE) != 0)
				return (void *)"differs";
		}
	}
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, many_write, *state), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *differs = NULL;

		assert_int_equal(pthread_join(threads[i], &differs), 0);
		assert_null(differs);
	}
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(iso_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(other_tools_read_it),
		SANDBOXED(an_empty_place_is_filled_at_its_offset),
		SANDBOXED(find_refuses_what_is_no_image),
		SANDBOXED(find_survives_every_changed_byte),
		SANDBOXED(too_large_and_full_are_errors),
		SANDBOXED(threads_do_not_disturb_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
