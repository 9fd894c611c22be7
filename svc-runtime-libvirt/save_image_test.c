#include "svc-runtime-libvirt/save_image.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { ROOM = 200, HEADER_BYTES = 92 };

/* As libvirt writes it: <old/>, a cookie, room, and a stream. */
static int image_make(const char *cookie)
{
	int fd = memfd_create("save-image", MFD_CLOEXEC);
	char data[ROOM] = { 0 };
	uint32_t words[19] = { 2, ROOM, 1, 0, cookie[0] ? 7 : 0 };

	assert_true(fd >= 0);
	memcpy(data, "<old/>", 7);
	memcpy(data + 7, cookie, strlen(cookie) + 1);
	assert_int_equal(write(fd, "LibvirtQemudSave", 16), 16);
	assert_int_equal(write(fd, words, sizeof(words)), sizeof(words));
	assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	assert_int_equal(write(fd, "QEVM stream", 11), 11);
	return fd;
}

static void texts_are_read(void **state)
{
	CLEANUP_CLOSE int fd = image_make("<cookie/>");
	CLEANUP_CLOSE int plain = image_make("");
	struct save_image image = { 0 };

	(void)state;
	assert_int_equal(save_image_read(fd, &image, NULL), 0);
	assert_string_equal(image.xml, "<old/>");
	assert_string_equal(image.cookie, "<cookie/>");
	save_image_done(&image);
	assert_int_equal(save_image_read(plain, &image, NULL), 0);
	assert_string_equal(image.xml, "<old/>");
	assert_string_equal(image.cookie, "");
	save_image_done(&image);
}

static void xml_is_exchanged_and_all_else_stays(void **state)
{
	CLEANUP_CLOSE int fd = image_make("<cookie/>");
	struct save_image image = { 0 };
	char stream[16] = { 0 };
	struct err err = { 0 };
	char large[ROOM + 1];
	uint32_t was_running = 7;

	(void)state;
	assert_int_equal(save_image_set_xml(fd, "<a-longer-one id='7'/>", NULL), 0);
	assert_int_equal(save_image_read(fd, &image, NULL), 0);
	assert_string_equal(image.xml, "<a-longer-one id='7'/>");
	assert_string_equal(image.cookie, "<cookie/>");
	save_image_done(&image);
	assert_int_equal(pread(fd, stream, 11, HEADER_BYTES + ROOM), 11);
	assert_string_equal(stream, "QEVM stream");
	assert_int_equal(pread(fd, &was_running, 4, 24), 4);
	assert_int_equal(was_running, 0);
	/* Exactly what there is room for, and a byte more. */
	memset(large, 'x', sizeof(large));
	large[ROOM - 11] = 0;
	assert_int_equal(save_image_set_xml(fd, large, NULL), 0);
	large[ROOM - 11] = 'x';
	large[ROOM - 10] = 0;
	assert_int_equal(save_image_set_xml(fd, large, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "room for 200"));
	assert_int_equal(save_image_read(fd, &image, NULL), 0);
	assert_int_equal(strlen(image.xml), ROOM - 11);
	save_image_done(&image);
}

static void what_is_nonsense_is_refused(void **state)
{
	static const struct {
		off_t at;
		uint32_t value;
		const char *word;
	} cases[] = {
		{ 0, 0x6362694c, "not one of libvirt's" },
		{ 12, 0x74726150, "not complete" }, /* "Part" */
		{ 16, 1, "version" },
		{ 16, 3, "version" },
		{ 20, 0, "nonsense" },
		{ 20, UINT32_MAX, "nonsense" },
		{ 20, ROOM + 12, "nonsense" },
		{ 28, 1, "compressed" },
		{ 32, ROOM, "nonsense" },
		{ 32, UINT32_MAX, "nonsense" },
		{ 32, 3, "no end" },
		{ HEADER_BYTES, 0, "no end" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP_CLOSE int fd = image_make("<cookie/>");
		struct save_image image = { 0 };
		struct err err = { 0 };

		assert_int_equal(pwrite(fd, &cases[i].value, 4, cases[i].at), 4);
		assert_int_equal(save_image_read(fd, &image, &err), -EINVAL);
		if (!strstr(err.text, cases[i].word))
			fail_msg("case %zu: '%s' is not in: %s", i, cases[i].word, err.text);
		assert_null(image.xml);
		assert_int_equal(save_image_set_xml(fd, "<x/>", NULL), -EINVAL);
	}
	for (off_t n = 0; n < HEADER_BYTES + ROOM; n += n < 100 ? 1 : 17) {
		CLEANUP_CLOSE int fd = image_make("<cookie/>");
		struct save_image image = { 0 };

		assert_int_equal(ftruncate(fd, n), 0);
		assert_int_equal(save_image_read(fd, &image, NULL), -EINVAL);
	}
}

TEST_SUITE(save_image_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_read),
		cmocka_unit_test(xml_is_exchanged_and_all_else_stays),
		cmocka_unit_test(what_is_nonsense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
