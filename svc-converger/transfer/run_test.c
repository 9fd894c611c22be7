/* Transfers against a real https server and real files. */
#include "svc-converger/transfer/run.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "svc-converger/transfer/https_server_test.h"
#include "svc-converger/transfer/local_file.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { N_DATA = 3 * 1024 * 1024 + 777 };

/* Of which the second MiB is zeros. */
static uint8_t data[N_DATA];
static char data_digest[SHA256_DIGEST_MAX];

static int data_make(void **state)
{
	struct sha256_stream *stream;
	uint32_t x = 1;

	(void)state;
	for (size_t i = 0; i < N_DATA; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = i >> 20 == 1 ? 0 : (uint8_t)(x >> 24);
	}
	assert_int_equal(sha256_stream_new(&stream), 0);
	assert_int_equal(sha256_stream_add(stream, data, N_DATA), 0);
	assert_int_equal(sha256_stream_digest(stream, data_digest), 0);
	(void)sha256_stream_free(stream);
	return 0;
}

struct seen {
	struct transfer_report last;
	unsigned n_progress, n_last;
	uint64_t total_bytes;
};

static void on_report(const struct transfer_report *report, void *userdata)
{
	struct seen *seen = userdata;

	assert_int_equal(seen->n_last, 0); /* nothing follows the last one */
	if (report->kind == TRANSFER_PROGRESS) {
		seen->n_progress++;
		seen->total_bytes = report->total_bytes;
	} else {
		seen->last = *report;
		seen->n_last++;
	}
}

static struct transfer_report run(const struct transfer_order *order, int fd)
{
	struct seen seen = { 0 };

	transfer_run(order, fd, on_report, &seen);
	assert_int_equal(seen.n_last, 1);
	return seen.last;
}

static struct transfer_order order_of(void **state, const char *url)
{
	struct transfer_order order = { .max_bytes = UINT64_C(1) << 40, .stall_sec = 60 };

	(void)snprintf(order.url, sizeof(order.url), "%s", url);
	(void)snprintf(order.digest, sizeof(order.digest), "%s", data_digest);
	(void)snprintf(order.ca_path, sizeof(order.ca_path), "%s/ca.pem", (const char *)*state);
	return order;
}

static int file_open(void **state, const char *name)
{
	int fd = open(SANDBOX_PATH(state, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void check_whole(int fd)
{
	static uint8_t back[N_DATA + 1];

	assert_int_equal(pread(fd, back, sizeof(back), 0), N_DATA);
	assert_memory_equal(back, data, N_DATA);
}

static uint64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

struct fixture {
	struct https_server *server;
	int fd;
	struct transfer_order order;
};

static void fixture_open(struct fixture *f, void **state, enum https_certificate certificate)
{
	f->server = https_server_new(certificate, SANDBOX_PATH(state, "ca.pem"));
	https_server_serve(f->server, "image", data, N_DATA);
	f->fd = file_open(state, "file");
	f->order = order_of(state, https_server_url(f->server, "image"));
}

static void fixture_close(struct fixture *f)
{
	(void)https_server_free(f->server);
	(void)close(f->fd);
}

static void a_file_is_fetched_with_its_holes(void **state)
{
	struct fixture f;
	struct stat st;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	struct transfer_report report = run(&f.order, f.fd);

	assert_string_equal(report.text, "");
	assert_int_equal(report.kind, TRANSFER_DONE);
	assert_int_equal(report.done_bytes, N_DATA);
	check_whole(f.fd);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_true(
	        (uint64_t)st.st_blocks * 512 < N_DATA - 512 * 1024); /* of the MiB of zeros most is a hole */
	fixture_close(&f);
}

static void a_broken_download_goes_on_where_it_was(void **state)
{
	struct fixture f;
	struct https_faults faults = { .cuts = 1, .cut_bytes = 1536 * 1024 + 5 };

	fixture_open(&f, state, CERTIFICATE_GOOD);
	https_server_set_faults(f.server, &faults);
	struct transfer_report report = run(&f.order, f.fd);

	assert_int_equal(report.kind, TRANSFER_FAILED);
	assert_false(report.permanent);
	assert_int_equal(size_of(f.fd), 1536 * 1024 + 5);

	f.order.offset = size_of(f.fd);
	f.order.size_bytes = N_DATA;
	report = run(&f.order, f.fd);
	assert_int_equal(report.kind, TRANSFER_DONE);
	assert_string_equal(https_server_seen(f.server).range, "bytes=1572869-");
	check_whole(f.fd);
	fixture_close(&f);
}

static void a_server_without_ranges_sends_it_all_again(void **state)
{
	struct fixture f;
	struct https_faults faults = { .no_ranges = true };

	fixture_open(&f, state, CERTIFICATE_GOOD);
	https_server_set_faults(f.server, &faults);
	assert_int_equal(pwrite(f.fd, data, 1000, 0), 1000);
	f.order.offset = 1000;
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	check_whole(f.fd);
	fixture_close(&f);
}

static void what_is_there_in_full_is_only_compared(void **state)
{
	struct fixture f;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	assert_int_equal(pwrite(f.fd, data, N_DATA, 0), N_DATA);
	f.order.offset = N_DATA;
	f.order.size_bytes = N_DATA;
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	assert_int_equal(https_server_seen(f.server).gets, 0);
	/* without a known size the server says that nothing is behind it */
	f.order.size_bytes = 0;
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	assert_int_equal(https_server_seen(f.server).gets, 1);
	check_whole(f.fd);
	fixture_close(&f);
}

static void a_part_of_another_file_is_thrown_away(void **state)
{
	struct fixture f;
	static const char OTHER[] = "not the beginning of this file";

	fixture_open(&f, state, CERTIFICATE_GOOD);
	assert_int_equal(pwrite(f.fd, OTHER, sizeof(OTHER), 0), sizeof(OTHER));
	f.order.offset = sizeof(OTHER);
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	check_whole(f.fd);
	/* and so is one that is longer than the whole */
	assert_int_equal(ftruncate(f.fd, 2 * N_DATA), 0);
	f.order.offset = 2 * N_DATA;
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	check_whole(f.fd);
	fixture_close(&f);
}

static void a_wrong_file_is_refused_and_nothing_of_it_stays(void **state)
{
	struct fixture f;
	struct transfer_report report;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	f.order.digest[10] = f.order.digest[10] == '0' ? '1' : '0';
	report = run(&f.order, f.fd);
	assert_int_equal(report.r, -EBADMSG);
	assert_true(report.permanent);
	assert_non_null(strstr(report.text, data_digest));
	assert_int_equal(size_of(f.fd), 0);

	f.order = order_of(state, https_server_url(f.server, "image"));
	f.order.size_bytes = N_DATA - 1;
	report = run(&f.order, f.fd);
	assert_int_equal(report.r, -EBADMSG);
	assert_int_equal(size_of(f.fd), 0);
	fixture_close(&f);
}

static void no_more_is_taken_than_agreed(void **state)
{
	struct fixture f;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	f.order.max_bytes = N_DATA - 1;
	struct transfer_report report = run(&f.order, f.fd);

	assert_int_equal(report.r, -EFBIG);
	assert_true(report.permanent);
	assert_true(size_of(f.fd) < N_DATA);
	f.order.max_bytes = N_DATA;
	assert_int_equal(run(&f.order, f.fd).kind, TRANSFER_DONE);
	fixture_close(&f);
}

static void answers_that_are_no_success(void **state)
{
	static const struct {
		unsigned status;
		int r;
		bool permanent;
	} TABLE[] = {
		{ 404, -ENOENT, true },
		{ 403, -EACCES, true },
		{ 401, -EACCES, true },
		{ 400, -EIO, true },
		{ 429, -EIO, false },
		{ 500, -EIO, false },
		{ 503, -EIO, false },
	};
	struct fixture f;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	(void)snprintf(
	        f.order.url, sizeof(f.order.url), "%s?signature=s3cret", https_server_url(f.server, "image"));
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct https_faults faults = { .refusals = 1, .status = TABLE[i].status };
		char number[16];

		https_server_set_faults(f.server, &faults);
		struct transfer_report report = run(&f.order, f.fd);

		(void)snprintf(number, sizeof(number), "answers %u", TABLE[i].status);
		assert_int_equal(report.r, TABLE[i].r);
		assert_int_equal(report.permanent, TABLE[i].permanent);
		assert_non_null(strstr(report.text, number));
		assert_null(strstr(report.text, "s3cret"));
	}
	fixture_close(&f);
}

static void a_server_that_is_not_who_it_should_be(void **state)
{
	for (int i = CERTIFICATE_EXPIRED; i <= CERTIFICATE_OTHER_NAME; i++) {
		struct fixture f;

		fixture_open(&f, state, (enum https_certificate)i);
		struct transfer_report report = run(&f.order, f.fd);

		assert_int_equal(report.r, -EACCES);
		assert_true(report.permanent);
		assert_int_equal(https_server_seen(f.server).gets, 0);
		fixture_close(&f);
	}
	/* and one whose authority this host does not trust */
	struct fixture f;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	f.order.ca_path[0] = '\0';
	assert_int_equal(run(&f.order, f.fd).r, -EACCES);
	fixture_close(&f);
}

static void redirects_stay_on_https(void **state)
{
	struct fixture f;
	char secret[256];

	fixture_open(&f, state, CERTIFICATE_GOOD);
	(void)snprintf(secret, sizeof(secret), "file://%s", SANDBOX_PATH(state, "secret"));
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "secret"), data, N_DATA, 0600), 0);
	https_server_redirect(f.server, secret);
	struct transfer_report report = run(&f.order, f.fd);

	assert_int_equal(report.r, -EACCES);
	assert_int_equal(size_of(f.fd), 0);
	https_server_redirect(f.server, "http://localhost:1/");
	assert_int_equal(run(&f.order, f.fd).r, -EACCES);
	https_server_redirect(f.server, https_server_url(f.server, "image")); /* for ever */
	assert_int_equal(run(&f.order, f.fd).r, -EINVAL);
	fixture_close(&f);
}

static void nobody_there(void **state)
{
	struct transfer_order order = order_of(state, "https://127.0.0.1:1/image");
	int fd = file_open(state, "file");
	struct transfer_report report;

	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "ca.pem"), "", 0, 0600), 0);
	report = run(&order, fd);
	assert_int_equal(report.kind, TRANSFER_FAILED);
	order.ca_path[0] = '\0';
	report = run(&order, fd);
	assert_int_equal(report.r, -EHOSTUNREACH);
	assert_false(report.permanent);
	(void)close(fd);
}

static void files_of_this_host(void **state)
{
	char url[256];
	int fd = file_open(state, "file");

	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "a b%"), data, N_DATA, 0600), 0);
	(void)snprintf(url, sizeof(url), "file://%s/a%%20b%%25", (const char *)*state);
	struct transfer_order order = order_of(state, url);

	assert_int_equal(run(&order, fd).kind, TRANSFER_DONE);
	check_whole(fd);
	assert_int_equal(ftruncate(fd, 12345), 0);
	order.offset = 12345;
	assert_int_equal(run(&order, fd).kind, TRANSFER_DONE);
	check_whole(fd);
	(void)close(fd);
}

static void what_is_no_regular_file_is_not_read(void **state)
{
	char url[256];
	int fd = file_open(state, "file");

	assert_int_equal(mkfifo(SANDBOX_PATH(state, "fifo"), 0600), 0);
	(void)snprintf(url, sizeof(url), "file://%s/fifo", (const char *)*state);
	struct transfer_order order = order_of(state, url);
	struct transfer_report report = run(&order, fd);

	assert_int_equal(report.r, -EINVAL);
	assert_true(report.permanent);
	order = order_of(state, "file:///dev/zero");
	assert_int_equal(run(&order, fd).r, -EINVAL);
	(void)snprintf(url, sizeof(url), "file://%s/none", (const char *)*state);
	order = order_of(state, url);
	assert_int_equal(run(&order, fd).r, -ENOENT);
	(void)close(fd);
}

static void file_urls(void **state)
{
	static const char *const BAD[] = { "file://host/a", "file:///a?b", "file:///a%00b", "https://h/a",
		"/a", "" };
	char *path = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		if (local_file_path(BAD[i], &path, NULL) != -EINVAL)
			fail_msg("'%s' was taken as '%s'", BAD[i], path);
	assert_int_equal(local_file_path("file:///a/%C3%A4", &path, NULL), 0);
	assert_string_equal(path, "/a/\xc3\xa4");
	free(path);
	assert_int_equal(local_file_path("file://localhost/a", &path, NULL), 0);
	free(path);
}

static void upload_order(struct transfer_order *order)
{
	order->upload = true;
	order->size_bytes = N_DATA;
}

static void an_upload_over_https(void **state)
{
	struct fixture f;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	assert_int_equal(pwrite(f.fd, data, N_DATA, 0), N_DATA);
	upload_order(&f.order);
	struct transfer_report report = run(&f.order, f.fd);

	assert_string_equal(report.text, "");
	assert_int_equal(report.kind, TRANSFER_DONE);
	struct https_seen seen = https_server_seen(f.server);

	assert_int_equal(seen.puts, 1);
	assert_int_equal(seen.n_body, N_DATA);
	assert_memory_equal(seen.body, data, N_DATA);
	fixture_close(&f);
}

static void a_changed_file_is_not_sent_in_full(void **state)
{
	struct fixture f;
	struct transfer_report report;

	fixture_open(&f, state, CERTIFICATE_GOOD);
	assert_int_equal(pwrite(f.fd, data, N_DATA, 0), N_DATA);
	upload_order(&f.order);
	assert_int_equal(pwrite(f.fd, "x", 1, 5), 1);
	report = run(&f.order, f.fd);
	assert_int_equal(report.r, -EBADMSG);
	assert_true(report.permanent);
	assert_int_equal(https_server_seen(f.server).n_body, 0); /* it never had the last bytes */
	assert_int_equal(ftruncate(f.fd, N_DATA - 1), 0);
	report = run(&f.order, f.fd);
	assert_int_equal(report.r, -EBADMSG);
	fixture_close(&f);
}

static void an_upload_that_is_refused(void **state)
{
	struct fixture f;
	struct https_faults faults = { .refusals = 1, .status = 403 };

	fixture_open(&f, state, CERTIFICATE_GOOD);
	assert_int_equal(pwrite(f.fd, data, N_DATA, 0), N_DATA);
	upload_order(&f.order);
	https_server_set_faults(f.server, &faults);
	struct transfer_report report = run(&f.order, f.fd);

	assert_int_equal(report.r, -EACCES);
	assert_true(report.permanent);
	faults = (struct https_faults){ .refusals = 1, .status = 500 };
	https_server_set_faults(f.server, &faults);
	report = run(&f.order, f.fd);
	assert_int_equal(report.r, -EIO);
	assert_false(report.permanent);
	fixture_close(&f);
}

static void an_upload_to_a_file_is_whole_or_not_there(void **state)
{
	char url[256];
	int fd = file_open(state, "file"), back;

	(void)snprintf(url, sizeof(url), "file://%s/target", (const char *)*state);
	struct transfer_order order = order_of(state, url);

	upload_order(&order);
	assert_int_equal(pwrite(fd, data, N_DATA, 0), N_DATA);
	assert_int_equal(pwrite(fd, "x", 1, N_DATA - 1), 1);
	assert_int_equal(run(&order, fd).r, -EBADMSG);
	assert_int_equal(access(SANDBOX_PATH(state, "target"), F_OK), -1);
	assert_int_equal(pwrite(fd, data, N_DATA, 0), N_DATA);
	assert_int_equal(run(&order, fd).kind, TRANSFER_DONE);
	assert_int_equal(run(&order, fd).kind, TRANSFER_DONE); /* the same again is no fault */
	back = open(SANDBOX_PATH(state, "target"), O_RDONLY | O_CLOEXEC);
	assert_true(back >= 0);
	check_whole(back);
	(void)close(back);
	(void)snprintf(order.url, sizeof(order.url), "file://%s/none/target", (const char *)*state);
	struct transfer_report report = run(&order, fd);

	assert_int_equal(report.r, -ENOENT);
	assert_true(report.permanent);
	(void)close(fd);
}

TEST_SUITE(run_test)
{
#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)
	const struct CMUnitTest tests[] = {
		SANDBOXED(a_file_is_fetched_with_its_holes),
		SANDBOXED(a_broken_download_goes_on_where_it_was),
		SANDBOXED(a_server_without_ranges_sends_it_all_again),
		SANDBOXED(what_is_there_in_full_is_only_compared),
		SANDBOXED(a_part_of_another_file_is_thrown_away),
		SANDBOXED(a_wrong_file_is_refused_and_nothing_of_it_stays),
		SANDBOXED(no_more_is_taken_than_agreed),
		SANDBOXED(answers_that_are_no_success),
		SANDBOXED(a_server_that_is_not_who_it_should_be),
		SANDBOXED(redirects_stay_on_https),
		SANDBOXED(nobody_there),
		SANDBOXED(files_of_this_host),
		SANDBOXED(what_is_no_regular_file_is_not_read),
		cmocka_unit_test(file_urls),
		SANDBOXED(an_upload_over_https),
		SANDBOXED(a_changed_file_is_not_sent_in_full),
		SANDBOXED(an_upload_that_is_refused),
		SANDBOXED(an_upload_to_a_file_is_whole_or_not_there),
	};

	/* A proxy of the machine has no say about its own loopback. */
	(void)setenv("no_proxy", "localhost,127.0.0.1", 1);
	return cmocka_run_group_tests(tests, data_make, NULL);
}
