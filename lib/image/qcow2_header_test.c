#include "lib/image/qcow2_header.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { FILE_BYTES = 1 << 20 };

/* A plain version 3 header in a file of FILE_BYTES: 64 KiB clusters, 1 GiB, tables at clusters 1 and 3. */
struct image {
	uint8_t data[QCOW2_READ_MAX];
};

static void put32(struct image *image, size_t at, uint32_t v)
{
	v = htobe32(v);
	memcpy(image->data + at, &v, sizeof(v));
}

static void put64(struct image *image, size_t at, uint64_t v)
{
	v = htobe64(v);
	memcpy(image->data + at, &v, sizeof(v));
}

static struct image *image_new(void)
{
	struct image *image = calloc(1, sizeof(*image));

	assert_non_null(image);
	put32(image, 0, QCOW2_MAGIC);
	put32(image, 4, 3);
	put32(image, 20, 16);
	put64(image, 24, UINT64_C(1) << 30);
	put32(image, 36, 2);
	put64(image, 40, 3 << 16);
	put64(image, 48, 1 << 16);
	put32(image, 56, 1);
	put32(image, 96, 4);
	put32(image, 100, 104);
	return image;
}

static size_t put_extension(struct image *image, size_t at, uint32_t type, const char *text)
{
	put32(image, at, type);
	put32(image, at + 4, (uint32_t)strlen(text));
	memcpy(image->data + at + 8, text, strlen(text));
	return at + 8 + ((strlen(text) + 7) & ~(size_t)7);
}

static void parse_expect(struct image *image, int expected, const char *word)
{
	struct qcow2_header header = { .version = 77 };
	struct err err = { 0 };
	int r = qcow2_header_parse(image->data, sizeof(image->data), FILE_BYTES, &header, &err);

	if (r != expected || (word && !strstr(err.text, word)))
		fail_msg("got %d \"%s\", expected %d \"%s\"", r, err.text, expected, word ? word : "");
	if (r < 0)
		assert_int_equal(header.version, 77);
	free(image);
}

static void plain_header_is_read(void **state)
{
	CLEANUP_FREE struct image *image = image_new();
	struct qcow2_header header;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(qcow2_header_parse(image->data, sizeof(image->data), FILE_BYTES, &header, &err), 0);
	assert_int_equal(header.version, 3);
	assert_int_equal(header.virtual_bytes, UINT64_C(1) << 30);
	assert_int_equal(header.cluster_bits, 16);
	assert_false(header.has_backing);
	assert_false(header.has_data_file);
	assert_int_equal(qcow2_header_check_base(&header, &err), 0);
}

/* One field changed at a time, and the word that must be in the answer. */
static void nonsense_is_refused_with_its_reason(void **state)
{
	static const struct {
		const char *word;
		uint64_t value;
		uint8_t at, width;
	} cases[] = {
		{ "magic", 0x51464900, 0, 4 },
		{ "version 0", 0, 4, 4 },
		{ "version 1", 1, 4, 4 },
		{ "version 4", 4, 4, 4 },
		{ "cluster_bits 8", 8, 20, 4 },
		{ "cluster_bits 22", 22, 20, 4 },
		{ "cluster_bits 4294967295", UINT32_MAX, 20, 4 },
		{ "virtual size 0", 0, 24, 8 },
		{ "virtual size 513", 513, 24, 8 },
		{ "virtual size", UINT64_MAX, 24, 8 },
		{ "virtual size", QCOW2_VIRTUAL_BYTES_MAX + 512, 24, 8 },
		{ "L1 table of 2 entries", UINT64_C(3) << 30, 24, 8 },
		{ "encryption method 3", 3, 32, 4 },
		{ "L1 table of 0 entries", 0, 36, 4 },
		{ "L1 table of 4194305", 4194305, 36, 4 },
		{ "not within the file", 1 << 17, 36, 4 },
		{ "L1 table at 0 ", 0, 40, 8 },
		{ "L1 table at 0x30001", 0x30001, 40, 8 },
		{ "L1 table at 0x100000", FILE_BYTES, 40, 8 },
		{ "L1 table at", UINT64_MAX - 0xffff, 40, 8 },
		{ "refcount table", 0, 48, 8 },
		{ "refcount table", UINT64_C(1) << 63, 48, 8 },
		{ "refcount table of 0", 0, 56, 4 },
		{ "refcount table of 16 clusters", 16, 56, 4 },
		{ "refcount table of 4294967295", UINT32_MAX, 56, 4 },
		{ "snapshots", 65537, 60, 4 },
		{ "1 snapshots at 0", 1, 60, 4 },
		{ "incompatible features: bits 0x20", 32, 72, 8 },
		{ "0x8000000000000000", UINT64_C(1) << 63, 72, 8 },
		{ "compression type", QCOW2_COMPRESSION_TYPE, 72, 8 },
		{ "refcount order 7", 7, 96, 4 },
		{ "header length 0", 0, 100, 4 },
		{ "header length 72", 72, 100, 4 },
		{ "header length 103", 103, 100, 4 },
		{ "header length 106", 106, 100, 4 },
		{ "header length 65544", 65544, 100, 4 },
		{ "header length 4294967288", UINT32_MAX - 7, 100, 4 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image *image = image_new();

		if (cases[i].width == 4)
			put32(image, cases[i].at, (uint32_t)cases[i].value);
		else
			put64(image, cases[i].at, cases[i].value);
		parse_expect(image, -EINVAL, cases[i].word);
	}
}

static void every_length_of_a_cut_file_is_refused(void **state)
{
	CLEANUP_FREE struct image *image = image_new();
	struct qcow2_header header;

	(void)state;
	for (size_t n = 0; n < 0x30010; n = n < 128 ? n + 1 : n + 977) {
		size_t n_data = n < sizeof(image->data) ? n : sizeof(image->data);
		CLEANUP_FREE uint8_t *exact = malloc(n_data + 1); /* so that ASan sees a read behind it */

		assert_non_null(exact);
		memcpy(exact, image->data, n_data);
		assert_int_equal(qcow2_header_parse(exact, n_data, n, &header, NULL), -EINVAL);
	}
}

static void compression_type_needs_its_bit(void **state)
{
	struct image *image = image_new();

	(void)state;
	put64(image, 72, QCOW2_COMPRESSION_TYPE);
	put32(image, 100, 112);
	image->data[104] = 1;
	parse_expect(image, 0, NULL);
	image = image_new();
	put32(image, 100, 112);
	image->data[104] = 1;
	parse_expect(image, -EINVAL, "compression type 1");
	image = image_new();
	put64(image, 72, QCOW2_COMPRESSION_TYPE);
	put32(image, 100, 112);
	image->data[104] = 2;
	parse_expect(image, -EINVAL, "compression type 2");
}

static void extended_l2_halves_what_the_table_covers(void **state)
{
	struct image *image = image_new();

	(void)state;
	put64(image, 72, QCOW2_EXTENDED_L2);
	parse_expect(image, -EINVAL, "needs 4");
	image = image_new();
	put64(image, 72, QCOW2_EXTENDED_L2);
	put32(image, 36, 4);
	parse_expect(image, 0, NULL);
}

static void base_expect(struct image *image, const char *word)
{
	struct qcow2_header header;
	struct err err = { 0 };

	assert_int_equal(qcow2_header_parse(image->data, sizeof(image->data), FILE_BYTES, &header, &err), 0);
	assert_int_equal(qcow2_header_check_base(&header, &err), -EINVAL);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" is not in \"%s\"", word, err.text);
	free(image);
}

static void base_image_stands_alone(void **state)
{
	struct image *image = image_new();

	(void)state;
	put64(image, 8, 200);
	put32(image, 16, 11);
	memcpy(image->data + 200, "/etc/passwd", 11);
	base_expect(image, "backing file ('/etc/passwd')");

	image = image_new();
	put64(image, 72, QCOW2_DATA_FILE);
	base_expect(image, "external file");

	image = image_new(); /* named, though its bit is not set */
	(void)put_extension(image, 104, 0x44415441, "/etc/shadow");
	base_expect(image, "external file");

	image = image_new();
	put32(image, 32, 1);
	base_expect(image, "encrypted");
	image = image_new();
	put32(image, 32, 2);
	base_expect(image, "encrypted");

	image = image_new();
	put64(image, 72, QCOW2_CORRUPT);
	base_expect(image, "corrupt");
	image = image_new();
	put64(image, 72, QCOW2_DIRTY);
	base_expect(image, "closed cleanly");

	image = image_new();
	put32(image, 60, 1);
	put64(image, 64, 5 << 16);
	base_expect(image, "1 internal snapshots");
}

static void references_are_read_or_refused(void **state)
{
	struct qcow2_header header;
	struct image *image = image_new();
	size_t at;

	(void)state;
	at = put_extension(image, 104, 0x6803f857, "a feature table may be ignored");
	at = put_extension(image, at, 0xe2792aca, "raw");
	put64(image, 8, at + 8);
	put32(image, 16, 5);
	memcpy(image->data + at + 8, "/base", 5);
	assert_int_equal(qcow2_header_parse(image->data, sizeof(image->data), FILE_BYTES, &header, NULL), 0);
	assert_true(header.has_backing);
	assert_string_equal(header.backing_name, "/base");
	assert_string_equal(header.backing_format, "raw");
	free(image);

	static const struct {
		uint64_t offset;
		uint32_t bytes;
	} bad[] = { { 200, 0 }, { 200, 1024 }, { 8, 5 }, { 65535, 5 }, { 1 << 20, 5 }, { UINT64_MAX, 1 },
		{ UINT64_MAX, 1023 } };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		image = image_new();
		put64(image, 8, bad[i].offset);
		put32(image, 16, bad[i].bytes);
		memset(image->data + 200, 'x', 2000);
		parse_expect(image, -EINVAL, "backing file's name");
	}
	image = image_new();
	put64(image, 8, 200);
	put32(image, 16, 5);
	memcpy(image->data + 200, "/a\0bc", 5);
	parse_expect(image, -EINVAL, "NUL");

	image = image_new();
	put32(image, 104, 0x12345678);
	put32(image, 108, UINT32_MAX);
	parse_expect(image, -EINVAL, "extension 0x12345678");
	image = image_new();
	(void)put_extension(image, 104, 0xe2792aca, "sixteen-letters!");
	parse_expect(image, -EINVAL, "backing format");
	image = image_new();
	(void)put_extension(image, 104, 0x0537be77, "where the key is");
	parse_expect(image, -EINVAL, "encryption header");
}

static void version_2_has_a_short_header(void **state)
{
	struct image *image = image_new();
	struct qcow2_header header;

	(void)state;
	put32(image, 4, 2);
	memset(image->data + 72, 0, 32);
	(void)put_extension(image, 72, 0xe2792aca, "qcow2");
	assert_int_equal(qcow2_header_parse(image->data, sizeof(image->data), FILE_BYTES, &header, NULL), 0);
	assert_int_equal(header.header_bytes, 72);
	assert_int_equal(header.refcount_order, 4);
	assert_string_equal(header.backing_format, "qcow2");
	free(image);
}

static void qemu_img(const char *dir, const char *const argv[])
{
	struct process_options options = { .argv = argv, .cwd = dir };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&options, 4096, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	if (output.status != 0)
		fail_msg("qemu-img %s: %s", argv[1], output.text);
	process_output_done(&output);
}

#define QEMU_IMG(dir, ...) qemu_img(dir, (const char *const[]){ "qemu-img", __VA_ARGS__, NULL })

static int file_read_header(void **state, const char *name, struct qcow2_header *ret)
{
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, name), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return qcow2_header_read(fd, ret, NULL);
}

static void images_made_by_qemu_img_are_read(void **state)
{
	static const struct {
		const char *options;
		const char *size;
		uint64_t bytes;
	} cases[] = {
		{ "compat=0.10", "10M", 10 << 20 },
		{ "compat=1.1", "3G", UINT64_C(3) << 30 },
		{ "cluster_size=512", "64M", 64 << 20 },
		{ "cluster_size=2M", "100G", UINT64_C(100) << 30 },
		{ "extended_l2=on", "1T", UINT64_C(1) << 40 },
		{ "compression_type=zstd", "1G", UINT64_C(1) << 30 },
		{ "lazy_refcounts=on,refcount_bits=64", "1G", UINT64_C(1) << 30 },
		{ "refcount_bits=1", "8T", UINT64_C(8) << 40 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct qcow2_header header;

		QEMU_IMG(*state, "create", "-q", "-f", "qcow2", "-o", cases[i].options, "t", cases[i].size);
		assert_int_equal(file_read_header(state, "t", &header), 0);
		assert_int_equal(header.virtual_bytes, cases[i].bytes);
		assert_int_equal(qcow2_header_check_base(&header, NULL), 0);
	}
}

static void hostile_images_made_by_qemu_img_are_refused(void **state)
{
	struct qcow2_header header;

	QEMU_IMG(*state, "create", "-q", "-f", "raw", "base", "1M");
	QEMU_IMG(*state, "create", "-q", "-f", "qcow2", "-b", "base", "-F", "raw", "backed");
	assert_int_equal(file_read_header(state, "backed", &header), 0);
	assert_string_equal(header.backing_name, "base");
	assert_string_equal(header.backing_format, "raw");
	assert_int_equal(qcow2_header_check_base(&header, NULL), -EINVAL);
	QEMU_IMG(*state, "create", "-q", "-f", "qcow2", "-o", "data_file=data", "external", "1M");
	assert_int_equal(file_read_header(state, "external", &header), 0);
	assert_true(header.has_data_file);
	assert_int_equal(qcow2_header_check_base(&header, NULL), -EINVAL);
	/* Not LUKS, whose key is made slow by the clock: on a busy machine qemu-img gives that up. */
	QEMU_IMG(*state, "create", "-q", "--object", "secret,id=s,data=abcdefgh", "-f", "qcow2", "-o",
	        "encrypt.format=aes,encrypt.key-secret=s", "aes", "1M");
	assert_int_equal(file_read_header(state, "aes", &header), 0);
	assert_int_equal(header.encryption, 1);
	assert_int_equal(qcow2_header_check_base(&header, NULL), -EINVAL);
	QEMU_IMG(*state, "create", "-q", "-f", "qcow2", "snapped", "1M");
	QEMU_IMG(*state, "snapshot", "-c", "one", "snapped");
	assert_int_equal(file_read_header(state, "snapped", &header), 0);
	assert_int_equal(header.n_snapshots, 1);
	assert_int_equal(qcow2_header_check_base(&header, NULL), -EINVAL);
}

/* What the fuzzer starts from: valid-* may be a base image, invalid-* may not. */
static void the_fuzzers_corpus_is_judged_by_its_names(void **state)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(BC_CORPUS_DIR);
	size_t n_valid = 0, n_invalid = 0;

	(void)state;
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		CLEANUP_FREE char *data = NULL;
		struct qcow2_header header;
		size_t n_data;

		if (entry->d_name[0] == '.')
			continue;
		assert_int_equal(file_read(dirfd(dir), entry->d_name, QCOW2_READ_MAX, &data, &n_data), 0);
		int r = qcow2_header_parse((const uint8_t *)data, n_data, UINT64_C(1) << 30, &header, NULL);
		if (r >= 0)
			r = qcow2_header_check_base(&header, NULL);
		if ((r == 0) != (strncmp(entry->d_name, "valid-", 6) == 0))
			fail_msg("%s: %d", entry->d_name, r);
		n_valid += r == 0;
		n_invalid += r < 0;
	}
	assert_true(n_valid >= 4 && n_invalid >= 12);
}

static void what_is_no_regular_file_is_refused(void **state)
{
	CLEANUP_CLOSE int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct qcow2_header header;

	(void)state;
	assert_int_equal(qcow2_header_read(fd, &header, NULL), -EINVAL);
	assert_int_equal(qcow2_header_read(-1, &header, NULL), -EBADF);
}

TEST_SUITE(qcow2_header_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_header_is_read),
		cmocka_unit_test(nonsense_is_refused_with_its_reason),
		cmocka_unit_test(every_length_of_a_cut_file_is_refused),
		cmocka_unit_test(compression_type_needs_its_bit),
		cmocka_unit_test(extended_l2_halves_what_the_table_covers),
		cmocka_unit_test(base_image_stands_alone),
		cmocka_unit_test(references_are_read_or_refused),
		cmocka_unit_test(version_2_has_a_short_header),
		cmocka_unit_test_setup_teardown(
		        images_made_by_qemu_img_are_read, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        hostile_images_made_by_qemu_img_are_refused, sandbox_setup, sandbox_teardown),
		cmocka_unit_test(the_fuzzers_corpus_is_judged_by_its_names),
		cmocka_unit_test(what_is_no_regular_file_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
