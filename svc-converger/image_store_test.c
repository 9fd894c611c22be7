#include "svc-converger/image_store.h"

#include "lib/base/atomic_file.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/sha256.h"
#include "svc-converger/test/event_until.h"
#include "svc-converger/transfer.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

struct fixture {
	void *dir;
	sd_event *event;
	struct image_store *store;
	char digest[SHA256_DIGEST_MAX], url[300];
	Bc__V1__ImageBoot boot;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct transfer_config transfer = { 0 };

	assert_non_null(f);
	assert_int_equal(sandbox_setup(&f->dir), 0);
	assert_int_equal(mkdir(SANDBOX_PATH(&f->dir, "images"), 0700), 0);
	assert_true(sd_event_new(&f->event) >= 0);
	struct download_cache_options options = { .event = f->event, .transfer = &transfer };
	const char *images = SANDBOX_PATH(&f->dir, "images");

	options.dir = images;
	assert_int_equal(image_store_open(&options, &f->store, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)image_store_free(f->store);
	sd_event_unref(f->event);
	(void)sandbox_teardown(&f->dir);
	free(f);
	return 0;
}

/* States the file as the wish. */
static void boot_of(struct fixture *f, const char *name, Bc__V1__ImageBoot__Format format)
{
	CLEANUP_FREE char *text = NULL;
	size_t n;
	struct sha256_stream *stream;
	const char *path = SANDBOX_PATH(&f->dir, name);

	assert_int_equal(file_read(AT_FDCWD, path, 1 << 24, &text, &n), 0);
	assert_int_equal(sha256_stream_new(&stream), 0);
	assert_int_equal(sha256_stream_add(stream, text, n), 0);
	assert_int_equal(sha256_stream_digest(stream, f->digest), 0);
	(void)sha256_stream_free(stream);
	(void)snprintf(f->url, sizeof(f->url), "file://%s", path);
	bc__v1__image_boot__init(&f->boot);
	f->boot.digest = f->digest;
	f->boot.format = format;
	f->boot.source_url = f->url;
	f->boot.size_bytes = n;
}

static int want(struct fixture *f, struct image *ret, struct err *err)
{
	int r;

	EVENT_UNTIL(f->event, (r = image_store_want(f->store, &f->boot, ret, err)) != -EINPROGRESS);
	return r;
}

static void qemu_img(const char *const *argv)
{
	struct process_output output = { 0 };
	const struct process_options options = { .argv = argv };

	assert_int_equal(process_capture(&options, 4096, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	if (output.status != 0)
		fail_msg("%s", output.text);
	process_output_done(&output);
}

static void a_raw_image_is_what_it_says(void **state)
{
	struct fixture *f = *state;
	struct image image;
	static const char DATA[4096] = "a boot sector";

	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "a.raw"), DATA, sizeof(DATA), 0644), 0);
	boot_of(f, "a.raw", BC__V1__IMAGE_BOOT__FORMAT__RAW);
	assert_int_equal(want(f, &image, NULL), 0);
	assert_int_equal(image.virtual_bytes, sizeof(DATA));
	assert_int_equal(image.download.size_bytes, sizeof(DATA));
	assert_non_null(strstr(image.download.path, f->digest + 7));
	/* the same file as another format is another question */
	struct err err = { 0 };

	f->boot.format = BC__V1__IMAGE_BOOT__FORMAT__QCOW2;
	assert_int_equal(image_store_want(f->store, &f->boot, &image, &err), -EINVAL);
	assert_non_null(strstr(err.text, "cannot be used as qcow2"));
	f->boot.format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
	assert_int_equal(image_store_want(f->store, &f->boot, &image, NULL), 0);
}

static void a_qcow2_image_is_judged_before_anybody_uses_it(void **state)
{
	struct fixture *f = *state;
	struct image image;
	struct err err = { 0 };
	const char *good = SANDBOX_PATH(&f->dir, "good.qcow2");
	const char *backed = SANDBOX_PATH(&f->dir, "backed.qcow2");

	qemu_img((const char *const[]){ "qemu-img", "create", "-q", "-f", "qcow2", good, "64M", NULL });
	qemu_img((const char *const[]){
	        "qemu-img", "create", "-q", "-f", "qcow2", "-b", good, "-F", "qcow2", backed, NULL });
	boot_of(f, "good.qcow2", BC__V1__IMAGE_BOOT__FORMAT__QCOW2);
	assert_int_equal(want(f, &image, NULL), 0);
	assert_int_equal(image.virtual_bytes, 64 << 20);
	f->boot.format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
	assert_int_equal(want(f, &image, &err), -EINVAL);

	boot_of(f, "backed.qcow2", BC__V1__IMAGE_BOOT__FORMAT__QCOW2);
	for (int i = 0; i < 2; i++) { /* the second time from what is known */
		err = (struct err){ 0 };
		assert_int_equal(want(f, &image, &err), -EINVAL);
		assert_non_null(strstr(err.text, "backing"));
	}
}

static bool nobody(const char *digest, void *userdata)
{
	(void)digest;
	(void)userdata;
	return false;
}

static void an_image_nobody_uses_goes(void **state)
{
	struct fixture *f = *state;
	struct image image;
	static const char DATA[512] = "x";

	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "a.raw"), DATA, sizeof(DATA), 0644), 0);
	boot_of(f, "a.raw", BC__V1__IMAGE_BOOT__FORMAT__RAW);
	assert_int_equal(want(f, &image, NULL), 0);
	assert_true(image_store_collect(f->store, 0, nobody, NULL) > 0);
	image_store_get(f->store, f->digest, &image);
	assert_int_equal(image.download.state, DOWNLOAD_ABSENT);
	assert_int_equal(want(f, &image, NULL), 0);
}

TEST_SUITE(image_store_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_raw_image_is_what_it_says),
		TEST(a_qcow2_image_is_judged_before_anybody_uses_it),
		TEST(an_image_nobody_uses_goes),
	};
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
