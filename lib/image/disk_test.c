#include "lib/image/disk.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/image/qcow2_header.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* Runs a tool in the sandbox and gives what it printed; fails the test unless it exits with 0. */
static void tool(const char *dir, char *text, size_t size, const char *const argv[])
{
	struct process_options options = { .argv = argv, .cwd = dir };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&options, 65536, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	if (output.status != 0)
		fail_msg("%s %s: %s", argv[0], argv[1], output.text);
	if (text)
		(void)snprintf(text, size, "%s", output.text);
	process_output_done(&output);
}

#define TOOL(state, ...) tool(*(state), NULL, 0, (const char *const[]){ __VA_ARGS__, NULL })
#define TOOL_TEXT(state, text, ...)                                                                          \
	tool(*(state), text, sizeof(text), (const char *const[]){ __VA_ARGS__, NULL })

static void base_make(void **state, const char *name, off_t bytes, const char *head)
{
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, name), O_RDWR | O_CREAT | O_CLOEXEC, 0440);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, head, strlen(head), 0), (ssize_t)strlen(head));
	assert_int_equal(ftruncate(fd, bytes), 0);
}

#define BASE(state, name, f) (&(struct disk_base){ .path = SANDBOX_PATH(state, name), .format = (f) })

static void overlay_reads_as_its_base_for_qemu(void **state)
{
	struct stat before, after;
	char text[4096];

	base_make(state, "base", 64 << 20, "boot sector");
	assert_int_equal(stat(SANDBOX_PATH(state, "base"), &before), 0);
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), GIB,
	                         FILE_PERM(0660), NULL),
	        0);
	TOOL_TEXT(state, text, "qemu-img", "info", "-f", "qcow2", "disk");
	assert_non_null(strstr(text, "virtual size: 1 GiB"));
	assert_non_null(strstr(text, "backing file format: raw"));
	assert_non_null(strstr(text, *state));
	TOOL_TEXT(state, text, "qemu-img", "check", "-f", "qcow2", "disk");
	assert_non_null(strstr(text, "No errors were found"));
	/* The sector of the base, and zeros behind its end. */
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 0x62 0 1", "disk");
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 0 512M 1M", "disk");
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "write -P 7 0 1M", "-c", "write -P 8 1023M 1M", "disk");
	TOOL_TEXT(state, text, "qemu-img", "check", "-f", "qcow2", "disk");
	assert_non_null(strstr(text, "No errors were found"));
	assert_int_equal(stat(SANDBOX_PATH(state, "base"), &after), 0);
	assert_int_equal(before.st_mode, after.st_mode);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
	assert_int_equal(sandbox_n_entries(*state), 2);
}

static void overlay_on_qcow2_of_every_size(void **state)
{
	static const struct {
		const char *base;
		uint64_t bytes;
		const char *said;
	} cases[] = {
		{ "512", 0, "(512 bytes)" },
		{ "1M", 0, "(1048576 bytes)" },
		{ "1M", MIB + 512, "(1049088 bytes)" },
		{ "512M", 512 * MIB, "512 MiB" },
		{ "512M", 512 * MIB + 512, "(536871424 bytes)" },
		{ "1M", 4 * TIB, "4 TiB" },
		{ "1M", 64 * TIB, "64 TiB" },
	};
	char text[4096];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "base", cases[i].base);
		assert_int_equal(
		        disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_QCOW2),
		                cases[i].bytes, FILE_PERM(0600), NULL),
		        0);
		TOOL_TEXT(state, text, "qemu-img", "info", "-f", "qcow2", "disk");
		assert_non_null(strstr(text, "backing file format: qcow2"));
		if (!strstr(text, cases[i].said))
			fail_msg("%s is not in: %s", cases[i].said, text);
		TOOL(state, "qemu-img", "check", "-q", "-f", "qcow2", "disk");
		assert_int_equal(unlink(SANDBOX_PATH(state, "disk")), 0);
	}
}

static void no_program_runs_and_the_base_is_opened_read_only(void **state)
{
	const char *child = getenv("BC_DISK_TEST_CHILD");
	char self[256] = { 0 };

	if (child) { /* below strace: the one call */
		assert_int_equal(
		        disk_create_overlay(SANDBOX_PATH(state, "disk"),
		                &(struct disk_base){ child, IMAGE_QCOW2 }, GIB, FILE_PERM(0600), NULL),
		        0);
		return;
	}
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "base", "10M");
	const char *argv[] = { "strace", "-f", "-e", "trace=openat,execve,write,pwrite64,ftruncate", "-y",
		self, "disk_test", __func__, NULL };
	char env[512];
	(void)snprintf(env, sizeof(env), "BC_DISK_TEST_CHILD=%s/base", (const char *)*state);
	const char *envs[] = { env, "ASAN_OPTIONS=detect_leaks=0", NULL };
	struct process_options options = { .argv = argv, .env = envs, .cwd = *state };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&options, 2 << 20, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	assert_int_equal(output.status, 0);
	(void)snprintf(env, sizeof(env), "%s/base\"", (const char *)*state);
	const char *opened = strstr(output.text, env);
	assert_non_null(opened);
	assert_int_equal(strncmp(opened + strlen(env), ", O_RDONLY", 10), 0);
	assert_null(strstr(opened + 1, env));
	const char *exec = strstr(output.text, "execve(");
	assert_non_null(exec);
	assert_null(strstr(exec + 1, "execve("));
	(void)snprintf(env, sizeof(env), "<%s/base>,", (const char *)*state);
	assert_null(strstr(output.text, env));
	process_output_done(&output);
}

static void what_may_not_be_a_base_is_refused_and_nothing_is_left(void **state)
{
	struct err err = { 0 };

	base_make(state, "raw", 10 << 20, "x");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-b", "raw", "-F", "raw", "backed");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "backed", IMAGE_QCOW2),
	                         0, FILE_PERM(0600), &err),
	        -EINVAL);
	assert_non_null(strstr(err.text, "backing file"));
	err = (struct err){ 0 };
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "backed", IMAGE_RAW), 0,
	                         FILE_PERM(0600), &err),
	        -EINVAL);
	assert_non_null(strstr(err.text, "state format QCOW2"));
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "gone", IMAGE_RAW), 0,
	                         FILE_PERM(0600), NULL),
	        -ENOENT);
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"),
	                         &(struct disk_base){ "relative", IMAGE_RAW }, 0, FILE_PERM(0600), NULL),
	        -EINVAL);
	assert_int_equal(disk_create_copy(SANDBOX_PATH(state, "disk"), BASE(state, "backed", IMAGE_QCOW2), 0,
	                         FILE_PERM(0600), NULL, NULL, NULL),
	        -EINVAL);
	assert_int_equal(sandbox_n_entries(*state), 2);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	static const struct {
		uint64_t bytes;
		int r;
	} cases[] = { { 512, -EBUSY }, { 10 * MIB - 512, -EBUSY }, { 10 * MIB + 1, -EINVAL },
		{ 64 * TIB + 512, -EINVAL }, { UINT64_MAX, -EINVAL } };

	base_make(state, "base", 10 << 20, "x");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(
		        disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW),
		                cases[i].bytes, FILE_PERM(0600), NULL),
		        cases[i].r);
		assert_int_equal(disk_create_copy(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW),
		                         cases[i].bytes, FILE_PERM(0600), NULL, NULL, NULL),
		        cases[i].r);
	}
	assert_int_equal(disk_create_empty(SANDBOX_PATH(state, "disk"), 0, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(sandbox_n_entries(*state), 1);
}

static void an_existing_disk_is_left_alone(void **state)
{
	struct err err = { 0 };
	struct stat st;

	base_make(state, "base", 1 << 20, "x");
	base_make(state, "disk", 3, "old");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), 0,
	                         FILE_PERM(0600), &err),
	        -EEXIST);
	assert_non_null(strstr(err.text, "/disk'"));
	assert_int_equal(disk_create_copy(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), 0,
	                         FILE_PERM(0600), NULL, NULL, NULL),
	        -EEXIST);
	assert_int_equal(disk_create_empty(SANDBOX_PATH(state, "disk"), MIB, FILE_PERM(0600), NULL), -EEXIST);
	assert_int_equal(stat(SANDBOX_PATH(state, "disk"), &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(sandbox_n_entries(*state), 2);
}

static void a_layer_lies_on_a_disk_that_is_not_looked_at(void **state)
{
	base_make(state, "base", 10 << 20, "boot sector");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), GIB,
	                         FILE_PERM(0600), NULL),
	        0);
	assert_int_equal(disk_create_layer(SANDBOX_PATH(state, "layer"), SANDBOX_PATH(state, "disk"), GIB,
	                         FILE_PERM(0600), NULL),
	        0);
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 0x62 0 1", "-c", "write -P 7 1M 64k", "layer");
	TOOL(state, "qemu-img", "commit", "-q", "-f", "qcow2", "layer");
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 7 1M 64k", "disk");
	assert_int_equal(disk_create_layer(SANDBOX_PATH(state, "two"), SANDBOX_PATH(state, "not-there-yet"),
	                         GIB, FILE_PERM(0600), NULL),
	        0);
	assert_int_equal(
	        disk_create_layer(SANDBOX_PATH(state, "three"), "disk", GIB, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(disk_create_layer(SANDBOX_PATH(state, "three"), SANDBOX_PATH(state, "disk"), 1,
	                         FILE_PERM(0600), NULL),
	        -EINVAL);
	assert_int_equal(sandbox_n_entries(*state), 4);
}

static void layer_make(void **state)
{
	TOOL(state, "rm", "-f", "disk", "layer");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), GIB,
	                         FILE_PERM(0660), NULL),
	        0);
	assert_int_equal(disk_create_layer(SANDBOX_PATH(state, "layer"), SANDBOX_PATH(state, "disk"), GIB,
	                         FILE_PERM(0660), NULL),
	        0);
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 64k", "layer");
}

static int layer_commit(void **state, const int *cancel_fd, struct err *err)
{
	return disk_commit_layer(SANDBOX_PATH(state, "layer"), SANDBOX_PATH(state, "disk"),
	        BASE(state, "base", IMAGE_RAW), test_timeout_usec(TEST_SERVICE_SEC), cancel_fd, err);
}

static void a_layer_is_committed_to_the_disk_below_it(void **state)
{
	base_make(state, "base", 64 << 20, "boot sector");
	layer_make(state);
	assert_int_equal(layer_commit(state, NULL, NULL), 0);
	assert_int_equal(unlink(SANDBOX_PATH(state, "layer")), 0);
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 0x62 0 1", "-c", "read -P 7 1M 64k", "disk");

	layer_make(state);
	int cancel_fd = eventfd(1, EFD_CLOEXEC);
	assert_int_equal(layer_commit(state, &cancel_fd, NULL), -ECANCELED);
	(void)close(cancel_fd);
	assert_int_equal(layer_commit(state, NULL, NULL), 0);
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 7 1M 64k", "disk");
}

/* What an escaped guest's VMM could write into the files it has open. */
static void a_layer_that_names_other_files_is_not_committed(void **state)
{
	static const struct {
		const char *file, *backing;
	} cases[] = {
		{ "layer", "secret" },
		{ "layer", "base" },
		{ "layer", "" },
		{ "disk", "secret" },
		{ "disk", "nbd://127.0.0.1/x" },
		{ "disk", "json:{\"driver\":\"file\",\"filename\":\"secret\"}" },
		{ "disk", "" },
	};

	base_make(state, "base", 64 << 20, "boot sector");
	base_make(state, "secret", 64 << 20, "somebody else's");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };

		layer_make(state);
		TOOL(state, "qemu-img", "rebase", "-u", "-f", "qcow2", "-b", cases[i].backing, "-F", "raw",
		        cases[i].file);
		if (layer_commit(state, NULL, &err) != -EINVAL)
			fail_msg("%zu: %s", i, err.text);
		assert_non_null(strstr(err.text, cases[i].file));
		assert_non_null(strstr(err.text, cases[i].backing));
	}
	layer_make(state);
	TOOL(state, "qemu-img", "rebase", "-u", "-f", "qcow2", "-b", SANDBOX_PATH(state, "base"), "-F",
	        "qcow2", "disk");
	assert_int_equal(layer_commit(state, NULL, NULL), -EINVAL);
	TOOL(state, "rm", "disk");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file=data", "-b",
	        SANDBOX_PATH(state, "base"), "-F", "raw", "disk", "1G");
	assert_int_equal(layer_commit(state, NULL, NULL), -EINVAL);
	TOOL(state, "rm", "disk");
	assert_int_equal(symlink("secret", SANDBOX_PATH(state, "disk")), 0);
	assert_int_equal(layer_commit(state, NULL, NULL), -ELOOP);
}

static void raw_copy_has_the_bases_bytes_and_its_own_size(void **state)
{
	struct disk_usage usage;
	char head[12] = { 0 };

	base_make(state, "base", 10 << 20, "boot sector");
	assert_int_equal(disk_create_copy(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), GIB,
	                         FILE_PERM(0640), NULL, NULL, NULL),
	        0);
	assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_RAW, &usage, NULL), 0);
	assert_int_equal(usage.virtual_bytes, GIB);
	assert_true(usage.allocated_bytes <= MIB);
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "disk"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, head, 11), 11);
	assert_string_equal(head, "boot sector");
}

static void qcow2_is_converted_to_a_raw_disk(void **state)
{
	struct disk_usage usage;
	struct err err = { 0 };
	struct stat before, after;

	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "base", "100M");
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "write -P 7 0 64k", "-c", "write -P 8 99M 1M", "base");
	assert_int_equal(stat(SANDBOX_PATH(state, "base"), &before), 0);
	assert_int_equal(disk_create_converted(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_QCOW2),
	                         GIB, FILE_PERM(0640), test_timeout_usec(TEST_SERVICE_SEC), NULL),
	        0);
	TOOL(state, "qemu-io", "-f", "raw", "-c", "read -P 7 0 64k", "-c", "read -P 8 99M 1M", "-c",
	        "read -P 0 100M 1M", "disk");
	assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_RAW, &usage, NULL), 0);
	assert_int_equal(usage.virtual_bytes, GIB);
	assert_true(usage.allocated_bytes < 4 * MIB);
	assert_int_equal(stat(SANDBOX_PATH(state, "base"), &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(stat(SANDBOX_PATH(state, "disk"), &after), 0);
	assert_int_equal(after.st_mode & 07777, 0640);
	/* Judged before the tool sees it; ended at its time. */
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw",
	        "backed", "1M");
	assert_int_equal(disk_create_converted(SANDBOX_PATH(state, "two"), BASE(state, "backed", IMAGE_QCOW2),
	                         0, FILE_PERM(0600), test_timeout_usec(TEST_SERVICE_SEC), &err),
	        -EINVAL);
	assert_non_null(strstr(err.text, "backing file"));
	assert_int_equal(disk_create_converted(SANDBOX_PATH(state, "two"), BASE(state, "base", IMAGE_QCOW2),
	                         0, FILE_PERM(0600), 1, NULL),
	        -ETIMEDOUT);
	assert_int_equal(disk_create_converted(SANDBOX_PATH(state, "two"), BASE(state, "base", IMAGE_RAW), 0,
	                         FILE_PERM(0600), test_timeout_usec(TEST_SERVICE_SEC), NULL),
	        -EINVAL);
	assert_int_equal(sandbox_n_entries(*state), 3);
}

static void overlay_grows_and_never_shrinks(void **state)
{
	struct disk_usage usage;
	struct err err = { 0 };
	char text[4096];

	base_make(state, "base", 10 << 20, "x");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), 0,
	                         FILE_PERM(0600), NULL),
	        0);
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "write -P 7 9M 1M", "disk");
	static const uint64_t sizes[] = { 10 * MIB, 10 * MIB + 512, 3 * GIB, 3 * GIB, 4 * TIB };
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, sizes[i], NULL), 0);
		assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, &usage, NULL), 0);
		assert_int_equal(usage.virtual_bytes, sizes[i]);
		TOOL(state, "qemu-img", "check", "-q", "-f", "qcow2", "disk");
	}
	TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 7 9M 1M", "-c", "read -P 0 10M 1M", "-c",
	        "write -P 9 4095G 1M", "-c", "read -P 9 4095G 1M", "disk");
	TOOL_TEXT(state, text, "qemu-img", "check", "-f", "qcow2", "disk");
	assert_non_null(strstr(text, "No errors were found"));
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, 4 * TIB + 512, &err), -EFBIG);
	assert_non_null(strstr(err.text, "room for 4398046511104 bytes"));
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, GIB, NULL), -EBUSY);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, 5 * TIB + 1, NULL), -EINVAL);
	assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, &usage, NULL), 0);
	assert_int_equal(usage.virtual_bytes, 4 * TIB);
}

static void raw_disk_grows_and_never_shrinks(void **state)
{
	struct disk_usage usage;

	assert_int_equal(disk_create_empty(SANDBOX_PATH(state, "disk"), MIB, FILE_PERM(0600), NULL), 0);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_RAW, 3 * GIB, NULL), 0);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_RAW, 3 * GIB, NULL), 0);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_RAW, GIB, NULL), -EBUSY);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "disk"), IMAGE_RAW, 3 * GIB + 511, NULL), -EINVAL);
	assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_RAW, &usage, NULL), 0);
	assert_int_equal(usage.apparent_bytes, 3 * GIB);
	assert_int_equal(usage.allocated_bytes, 0);
	assert_int_equal(disk_grow(SANDBOX_PATH(state, "gone"), IMAGE_RAW, GIB, NULL), -ENOENT);
}

static void usage_is_told_beside_a_write_lock(void **state)
{
	struct disk_usage usage;

	base_make(state, "base", 10 << 20, "x");
	assert_int_equal(disk_create_overlay(SANDBOX_PATH(state, "disk"), BASE(state, "base", IMAGE_RAW), GIB,
	                         FILE_PERM(0600), NULL),
	        0);
	/* QEMU's own lock on the byte that says "somebody writes"; qemu-img info would refuse. */
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "disk"), O_RDWR | O_CLOEXEC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 200 };
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(disk_usage(SANDBOX_PATH(state, "disk"), IMAGE_QCOW2, &usage, NULL), 0);
	assert_int_equal(usage.virtual_bytes, GIB);
	assert_true(usage.allocated_bytes > 0 && usage.allocated_bytes < MIB);
	lock.l_pid = 0;
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
}

static void overlay_from_elsewhere_is_judged_and_bound_to_our_base(void **state)
{
	struct err err = { 0 };
	char text[4096];

	base_make(state, "base", 10 << 20, "boot sector");
	base_make(state, "other", 10 << 20, "x");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-b", "other", "-F", "raw", "v3", "20M");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "compat=0.10", "-b", "other", "-F",
	        "raw", "v2", "20M");
	static const char *const good[] = { "v3", "v2" };
	for (size_t i = 0; i < 2; i++) {
		TOOL(state, "qemu-io", "-f", "qcow2", "-c", "write -P 9 1M 64k", good[i]);
		assert_int_equal(disk_adopt_overlay(
		                         SANDBOX_PATH(state, good[i]), BASE(state, "base", IMAGE_RAW), NULL),
		        0);
		TOOL_TEXT(state, text, "qemu-img", "info", "-f", "qcow2", good[i]);
		assert_non_null(strstr(text, SANDBOX_PATH(state, "base")));
		assert_null(strstr(text, "other"));
		TOOL(state, "qemu-img", "check", "-q", "-f", "qcow2", good[i]);
		TOOL(state, "qemu-io", "-f", "qcow2", "-c", "read -P 0x62 0 1", "-c", "read -P 9 1M 64k",
		        good[i]);
	}
	/* Not ours to take: no overlay, another format below, an external data file, one that is too small. */
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "alone", "20M");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "alone", "-F", "qcow2", "two",
	        "20M");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file=data", "ext", "20M");
	TOOL(state, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "other", "-F", "raw", "small",
	        "1M");
	static const struct {
		const char *name;
		const char *word;
		int r;
	} bad[] = { { "alone", "not an overlay", -EINVAL }, { "two", "not an overlay", -EINVAL },
		{ "ext", "not an overlay", -EINVAL }, { "small", "never shrinks", -EBUSY },
		{ "base", "not a qcow2", -EINVAL } };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct err){ 0 };
		assert_int_equal(disk_adopt_overlay(SANDBOX_PATH(state, bad[i].name),
		                         BASE(state, "base", IMAGE_RAW), &err),
		        bad[i].r);
		if (!strstr(err.text, bad[i].word))
			fail_msg("%s: '%s' is not in: %s", bad[i].name, bad[i].word, err.text);
	}
}

/* A tmpfs of 256 KiB: every step that runs out of space leaves the directory as it was. */
static void full_file_system_leaves_nothing(void **state)
{
	struct err err = { 0 };
	char *full = strdup(SANDBOX_PATH(state, "full"));

	assert_int_equal(mkdir(full, 0700), 0);
	base_make(state, "base", 1 << 20, "x");
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "base"), O_RDWR | O_CLOEXEC);
	if (fd < 0)
		skip();
	for (off_t at = 0; at < 1 << 20; at += 4096)
		assert_int_equal(pwrite(fd, "data", 4, at), 4);
	if (mount("none", full, "tmpfs", 0, "size=256k") < 0) {
		free(full);
		skip(); /* not root: cannot make a small file system */
	}
	int r = disk_create_copy(SANDBOX_PATH(state, "full/disk"), BASE(state, "base", IMAGE_RAW), 0,
	        FILE_PERM(0600), NULL, NULL, &err);
	size_t n_left = sandbox_n_entries(full);
	CLEANUP_CLOSE int filler =
	        open(SANDBOX_PATH(state, "full/filler"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	while (write(filler, "0123456789abcdef", 16) == 16)
		;
	int r_overlay = disk_create_overlay(
	        SANDBOX_PATH(state, "full/disk"), BASE(state, "base", IMAGE_RAW), 0, FILE_PERM(0600), NULL);
	size_t n_left_overlay = sandbox_n_entries(full);
	(void)umount2(full, MNT_DETACH);
	free(full);
	assert_int_equal(r, -ENOSPC);
	assert_non_null(strstr(err.text, "No space left"));
	assert_int_equal(n_left, 0);
	assert_int_equal(r_overlay, -ENOSPC);
	assert_int_equal(n_left_overlay, 1);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(disk_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(overlay_reads_as_its_base_for_qemu),
		SANDBOXED(overlay_on_qcow2_of_every_size),
		SANDBOXED(no_program_runs_and_the_base_is_opened_read_only),
		SANDBOXED(what_may_not_be_a_base_is_refused_and_nothing_is_left),
		SANDBOXED(sizes_that_cannot_be_are_refused),
		SANDBOXED(an_existing_disk_is_left_alone),
		SANDBOXED(a_layer_lies_on_a_disk_that_is_not_looked_at),
		SANDBOXED(a_layer_is_committed_to_the_disk_below_it),
		SANDBOXED(a_layer_that_names_other_files_is_not_committed),
		SANDBOXED(raw_copy_has_the_bases_bytes_and_its_own_size),
		SANDBOXED(qcow2_is_converted_to_a_raw_disk),
		SANDBOXED(overlay_grows_and_never_shrinks),
		SANDBOXED(raw_disk_grows_and_never_shrinks),
		SANDBOXED(usage_is_told_beside_a_write_lock),
		SANDBOXED(overlay_from_elsewhere_is_judged_and_bound_to_our_base),
		SANDBOXED(full_file_system_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
