#include "lib/snapshot/tar.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

static const struct snapshot_meta META = {
	.runtime = "libvirt-kvm",
	.instance_id = "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
	.vcpus = 3,
};

static void tool(void **state, char *text, size_t size, const char *const argv[])
{
	struct process_options options = { .argv = argv, .cwd = *state };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&options, 65536, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	if (output.status != 0)
		fail_msg("%s %s: %s", argv[0], argv[1], output.text);
	if (text)
		(void)snprintf(text, size, "%s", output.text);
	process_output_done(&output);
}
#define TOOL(state, ...) tool(state, NULL, 0, (const char *const[]){ __VA_ARGS__, NULL })
#define TOOL_TEXT(state, text, ...)                                                                          \
	tool(state, text, sizeof(text), (const char *const[]){ __VA_ARGS__, NULL })

static int file_make(void **state, const char *name, uint64_t bytes)
{
	int fd = open(SANDBOX_PATH(state, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static void put(int fd, uint64_t at, const char *text)
{
	assert_int_equal(pwrite(fd, text, strlen(text), (off_t)at), (ssize_t)strlen(text));
}

static void text_is(void **state, const char *name, uint64_t at, const char *expected)
{
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, name), O_RDONLY | O_CLOEXEC);
	char text[64] = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, text, strlen(expected), (off_t)at), (ssize_t)strlen(expected));
	assert_string_equal(text, expected);
}

/* disk: first and last byte and the middle of 1 TiB; memory: dense; hole: nothing; empty: no byte. */
static void tar_make(void **state, char digest[static SHA256_DIGEST_MAX], uint64_t *bytes)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *w = NULL;
	CLEANUP_CLOSE int disk = file_make(state, "disk", TIB);
	CLEANUP_CLOSE int memory = file_make(state, "memory", 0);
	CLEANUP_CLOSE int hole = file_make(state, "hole", 5 * GIB);
	CLEANUP_CLOSE int empty = file_make(state, "empty", 0);

	put(disk, 0, "first");
	put(disk, TIB / 2 - 3, "middle");
	put(disk, TIB - 4, "last");
	for (uint64_t i = 0; i < 3 << 20; i += 8)
		put(memory, i, "12345678");
	put(memory, 3 << 20, "odd");
	assert_int_equal(
	        snapshot_writer_new(SANDBOX_PATH(state, "tar"), FILE_PERM(0600), &META, &w, NULL), 0);
	assert_int_equal(access(SANDBOX_PATH(state, "tar"), F_OK), -1);
	assert_int_equal(snapshot_writer_add_file(w, "disk.raw", disk, NULL, NULL, NULL), 0);
	assert_int_equal(snapshot_writer_add_file(w, "memory", memory, NULL, NULL, NULL), 0);
	assert_int_equal(snapshot_writer_add_bytes(w, "domain.xml", "<domain/>", 9, NULL), 0);
	assert_int_equal(snapshot_writer_add_file(w, "hole", hole, NULL, NULL, NULL), 0);
	assert_int_equal(snapshot_writer_add_file(w, "empty", empty, NULL, NULL, NULL), 0);
	assert_int_equal(snapshot_writer_finish(w, digest, bytes, NULL), 0);
}

static void holes_take_no_room_and_the_digest_is_the_files(void **state)
{
	char digest[SHA256_DIGEST_MAX], text[4096], named[128];
	uint64_t bytes;
	struct stat st;

	tar_make(state, digest, &bytes);
	assert_int_equal(stat(SANDBOX_PATH(state, "tar"), &st), 0);
	assert_int_equal(st.st_size, bytes);
	assert_true(bytes < 4 << 20);
	TOOL_TEXT(state, text, "sha256sum", "tar");
	(void)snprintf(named, sizeof(named), "sha256:%.64s", text);
	assert_string_equal(digest, named);
	assert_int_equal(sandbox_n_entries(*state), 5);
}

static void stock_tar_reads_it(void **state)
{
	char digest[SHA256_DIGEST_MAX], text[4096];
	uint64_t bytes;
	struct stat st;

	tar_make(state, digest, &bytes);
	TOOL_TEXT(state, text, "tar", "-tf", "tar");
	assert_string_equal(text, "meta.json\ndisk.raw\nmemory\ndomain.xml\nhole\nempty\n");
	assert_int_equal(mkdir(SANDBOX_PATH(state, "out"), 0700), 0);
	TOOL(state, "tar", "-xf", "tar", "-C", "out");
	assert_int_equal(stat(SANDBOX_PATH(state, "out/disk.raw"), &st), 0);
	assert_int_equal(st.st_size, TIB);
	text_is(state, "out/disk.raw", 0, "first");
	text_is(state, "out/disk.raw", TIB / 2 - 3, "middle");
	text_is(state, "out/disk.raw", TIB - 4, "last");
	TOOL(state, "cmp", "memory", "out/memory");
	assert_int_equal(stat(SANDBOX_PATH(state, "out/hole"), &st), 0);
	assert_int_equal(st.st_size, 5 * GIB);
}

static struct snapshot_member *members_of(void **state, struct snapshot_member members[5])
{
	static const char *const names[] = { "disk.raw", "memory", "domain.xml", "hole", "empty" };
	static char paths[5][256];

	for (size_t i = 0; i < 5; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "%s/new/%s", (const char *)*state, names[i]);
		members[i] = (struct snapshot_member){ .name = names[i],
			.path = paths[i],
			.bytes_max = TIB,
			.required = true,
			.perm = FILE_PERM(0640) };
	}
	(void)mkdir(SANDBOX_PATH(state, "new"), 0700);
	return members;
}

static int on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	assert_true(done_bytes <= total_bytes);
	*(uint64_t *)userdata = done_bytes;
	return 0;
}

static void it_is_extracted_with_its_holes(void **state)
{
	char digest[SHA256_DIGEST_MAX];
	struct snapshot_member members[5];
	struct snapshot_meta meta;
	uint64_t bytes, done = 0;
	struct stat st;

	tar_make(state, digest, &bytes);
	assert_int_equal(snapshot_read_meta(SANDBOX_PATH(state, "tar"), &meta, NULL), 0);
	assert_int_equal(meta.vcpus, 3);
	assert_int_equal(snapshot_extract(SANDBOX_PATH(state, "tar"), members_of(state, members), 5,
	                         on_progress, &done, NULL),
	        0);
	assert_int_equal(done, bytes);
	assert_int_equal(sandbox_n_entries(SANDBOX_PATH(state, "new")), 5);
	assert_int_equal(members[0].bytes, TIB);
	assert_int_equal(stat(members[0].path, &st), 0);
	assert_int_equal(st.st_size, TIB);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_true(st.st_blocks * 512 < 1 << 20);
	text_is(state, "new/disk.raw", 0, "first");
	text_is(state, "new/disk.raw", TIB / 2 - 3, "middle");
	text_is(state, "new/disk.raw", TIB - 4, "last");
	TOOL(state, "cmp", "memory", "new/memory");
	text_is(state, "new/domain.xml", 0, "<domain/>");
	assert_int_equal(stat(members[3].path, &st), 0);
	assert_int_equal(st.st_size, 5 * GIB);
	assert_int_equal(stat(members[4].path, &st), 0);
	assert_int_equal(st.st_size, 0);
}

static void a_skipped_member_is_not_written(void **state)
{
	char digest[SHA256_DIGEST_MAX];
	struct snapshot_member members[5];
	uint64_t bytes;

	tar_make(state, digest, &bytes);
	members_of(state, members)[1].path = NULL;
	assert_int_equal(snapshot_extract(SANDBOX_PATH(state, "tar"), members, 5, NULL, NULL, NULL), 0);
	assert_true(members[1].found);
	assert_int_equal(members[1].bytes, (3 << 20) + 3);
	assert_int_equal(sandbox_n_entries(SANDBOX_PATH(state, "new")), 4);
}

static void extraction_refused(
        void **state, struct snapshot_member *members, size_t n_members, const char *word)
{
	struct err err = { 0 };

	assert_int_equal(
	        snapshot_extract(SANDBOX_PATH(state, "tar"), members, n_members, NULL, NULL, &err), -EINVAL);
	if (!strstr(err.text, word))
		fail_msg("'%s' is not in: %s", word, err.text);
	assert_int_equal(sandbox_n_entries(SANDBOX_PATH(state, "new")), 0);
}

static void what_does_not_fit_the_list_is_refused_and_nothing_is_left(void **state)
{
	char digest[SHA256_DIGEST_MAX];
	struct snapshot_member members[6];
	uint64_t bytes;

	tar_make(state, digest, &bytes);
	extraction_refused(state, members_of(state, members), 4, "'empty', which does not belong");
	members_of(state, members)[3].bytes_max = 5 * GIB - 1;
	extraction_refused(state, members, 5, "'hole' of 5368709120 bytes is over");
	members_of(state, members)[5] =
	        (struct snapshot_member){ .name = "state.json", .required = true, .perm = FILE_PERM(0600) };
	extraction_refused(state, members, 6, "lacks 'state.json'");
	members[5].required = false;
	assert_int_equal(snapshot_extract(SANDBOX_PATH(state, "tar"), members, 6, NULL, NULL, NULL), 0);
	assert_false(members[5].found);
}

/* Tars that stock tar makes of a directory with a good meta.json and something that may not be. */
static void hostile_tars_are_refused(void **state)
{
	static const struct {
		const char *script, *word;
	} cases[] = {
		{ "mkdir a; echo > a/disk.raw; tar -cf ../tar meta.json a/disk.raw", "no plain name" },
		{ "echo > disk.raw; tar -cf ../tar meta.json ./disk.raw", "no plain name" },
		{ "echo > x; tar -P -cf ../tar meta.json --transform 's,x,../../../x,' x", "no plain name" },
		{ "tar -P -cf ../tar meta.json /etc/hostname", "no plain name" },
		{ "ln -s /etc/passwd disk.raw; tar -cf ../tar meta.json disk.raw", "no plain file" },
		{ "echo > x; ln x disk.raw; tar -cf ../tar meta.json x disk.raw", "does not belong" },
		{ "ln meta.json disk.raw; tar -cf ../tar meta.json disk.raw", "no plain file" },
		{ "mkfifo disk.raw; tar -cf ../tar meta.json disk.raw", "no plain file" },
		{ "mkdir disk.raw; tar -cf ../tar meta.json disk.raw", "no plain" },
		{ "echo > disk.raw; tar -cf ../tar meta.json disk.raw; cp disk.raw d; tar -rf "
		  "../tar --transform s/d/disk.raw/ d",
		        "twice" },
		{ "echo > disk.raw; tar -cf ../tar disk.raw meta.json", "does not begin with" },
		{ "echo {} > meta.json; tar -cf ../tar meta.json", "format" },
		{ "truncate -s 65537 meta.json; tar -cf ../tar meta.json", "does not begin with" },
		{ "echo > disk.raw; tar -czf ../tar meta.json disk.raw", "not a tar" },
		{ "echo > disk.raw; zip -q - disk.raw > ../tar 2>/dev/null || echo PK > ../tar",
		        "not a tar" },
		{ "head -c 100000 /dev/urandom > ../tar", "not a tar" },
		{ ": > ../tar", "" },
		{ "seq 200000 > disk.raw; tar -cf - meta.json disk.raw | head -c 300000 > ../tar",
		        "not a tar" },
		{ "seq 200000 > disk.raw; tar -cf - meta.json disk.raw | head -c 2000 > ../tar",
		        "not a tar" },
	};
	struct snapshot_member members[5];
	CLEANUP_FREE char *json = NULL;

	assert_int_equal(snapshot_meta_print(&META, &json), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char script[1024];

		(void)snprintf(script, sizeof(script),
		        "rm -rf in tar; mkdir in; cp meta.json in; cd in; { %s; } 2>&1", cases[i].script);
		CLEANUP_CLOSE int fd = file_make(state, "meta.json", 0);
		put(fd, 0, json);
		TOOL(state, "sh", "-c", script);
		members_of(state, members);
		for (size_t k = 0; k < 5; k++)
			members[k].required = false;
		extraction_refused(state, members, 5, cases[i].word);
	}
}

static int on_progress_stop(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	(void)done_bytes;
	(void)total_bytes;
	(void)userdata;
	return -ECANCELED;
}

static void unfinished_writers_leave_nothing(void **state)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *w = NULL;
	CLEANUP_CLOSE int disk = file_make(state, "disk", GIB);
	CLEANUP_CLOSE int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	put(disk, 0, "x");
	assert_int_equal(
	        snapshot_writer_new(SANDBOX_PATH(state, "tar"), FILE_PERM(0600), &META, &w, NULL), 0);
	assert_int_equal(
	        snapshot_writer_add_file(w, "disk.raw", disk, on_progress_stop, NULL, NULL), -ECANCELED);
	w = snapshot_writer_free(w);
	assert_int_equal(
	        snapshot_writer_new(SANDBOX_PATH(state, "tar"), FILE_PERM(0600), &META, &w, NULL), 0);
	assert_int_equal(snapshot_writer_add_file(w, "disk.raw", full, NULL, NULL, NULL), -EINVAL);
	w = snapshot_writer_free(w);
	assert_int_equal(sandbox_n_entries(*state), 1);
	struct err err = { 0 };
	assert_int_equal(
	        snapshot_writer_new(SANDBOX_PATH(state, "disk"), FILE_PERM(0600), &META, &w, &err), -EEXIST);
	err = (struct err){ 0 };
	assert_int_equal(
	        snapshot_writer_new(SANDBOX_PATH(state, "none/tar"), FILE_PERM(0600), &META, &w, &err),
	        -EBUSY);
	assert_non_null(strstr(err.text, "No such file or directory"));
	assert_null(w);
}

static void a_full_file_system_is_said_and_leaves_nothing(void **state)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *w = NULL;
	CLEANUP_CLOSE int disk = file_make(state, "disk", 0);
	char *full = strdup(SANDBOX_PATH(state, "full"));
	char digest[SHA256_DIGEST_MAX];
	struct err err = { 0 };
	uint64_t bytes;
	int r = 0;

	for (uint64_t i = 0; i < 8 << 20; i += 4096)
		put(disk, i, "x");
	assert_int_equal(mkdir(full, 0700), 0);
	if (mount("none", full, "tmpfs", 0, "size=2m") < 0) {
		free(full);
		skip(); /* not root: cannot make a small file system */
	}
	r = snapshot_writer_new(SANDBOX_PATH(state, "full/tar"), FILE_PERM(0600), &META, &w, &err);
	if (r >= 0)
		r = snapshot_writer_add_file(w, "disk.raw", disk, NULL, NULL, &err);
	if (r >= 0)
		r = snapshot_writer_finish(w, digest, &bytes, &err);
	w = snapshot_writer_free(w);
	size_t n_left = sandbox_n_entries(full);
	(void)umount2(full, MNT_DETACH);
	free(full);
	assert_int_equal(r, -ENOSPC);
	assert_non_null(strstr(err.text, "No space left"));
	assert_int_equal(n_left, 0);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(tar_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(holes_take_no_room_and_the_digest_is_the_files),
		SANDBOXED(stock_tar_reads_it),
		SANDBOXED(it_is_extracted_with_its_holes),
		SANDBOXED(a_skipped_member_is_not_written),
		SANDBOXED(what_does_not_fit_the_list_is_refused_and_nothing_is_left),
		SANDBOXED(hostile_tars_are_refused),
		SANDBOXED(unfinished_writers_leave_nothing),
		SANDBOXED(a_full_file_system_is_said_and_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
