/* Against a real https server, by real bc-transfer processes. */
#include "svc-converger/snapshot_store.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/sha256.h"
#include "svc-converger/test/event_until.h"
#include "svc-converger/transfer.h"
#include "svc-converger/transfer/https_server_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cmocka.h>

enum { N_DATA = 600 * 1024 };

static uint8_t data[N_DATA];
static char data_digest[SHA256_DIGEST_MAX];

struct fixture {
	void *dir;
	char snapshots[100], ca[120], url[256];
	sd_event *event;
	struct https_server *server;
	struct snapshot_store *store;
	struct snapshot_result result;
	unsigned n_done, n_pauses;
	uint64_t last_pause_usec;
	uint64_t progressed_bytes;
};

static void store_open_with(struct fixture *f, struct snapshot_store_options options)
{
	struct transfer_config transfer = { .ca_path = f->ca };
	struct err err = { 0 };

	options.restore.event = f->event;
	options.restore.dir = f->snapshots;
	options.restore.transfer = &transfer;
	options.restore.retry_min_usec =
	        options.restore.retry_min_usec ? options.restore.retry_min_usec : 1000;
	options.restore.retry_max_usec = 2000;
	if (snapshot_store_open(&options, &f->store, &err) < 0)
		fail_msg("%s", err.text);
}

static void store_open(struct fixture *f)
{
	store_open_with(f, (struct snapshot_store_options){ 0 });
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(sandbox_setup(&f->dir), 0);
	(void)snprintf(f->snapshots, sizeof(f->snapshots), "%s/snapshots", (char *)f->dir);
	(void)snprintf(f->ca, sizeof(f->ca), "%s/ca.pem", (char *)f->dir);
	assert_int_equal(mkdir(f->snapshots, 0700), 0);
	assert_true(sd_event_new(&f->event) >= 0);
	f->server = https_server_new(CERTIFICATE_GOOD, f->ca);
	(void)snprintf(f->url, sizeof(f->url), "%s", https_server_url(f->server, "snapshot"));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)snapshot_store_free(f->store);
	(void)https_server_free(f->server);
	sd_event_unref(f->event);
	(void)sandbox_teardown(&f->dir);
	free(f);
	return 0;
}

static void on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	assert_int_equal(total_bytes, N_DATA);
	((struct fixture *)userdata)->progressed_bytes = done_bytes;
}

static void on_pause(const struct err *why, uint64_t pause_usec, void *userdata)
{
	struct fixture *f = userdata;

	assert_non_null(strstr(why->text, "answers 503"));
	assert_true(pause_usec >= f->last_pause_usec);
	f->last_pause_usec = pause_usec;
	f->n_pauses++;
}

static void on_done(const struct snapshot_result *result, void *userdata)
{
	struct fixture *f = userdata;

	f->result = *result;
	f->n_done++;
}

static const struct snapshot_upload_handlers handlers = {
	.on_progress = on_progress,
	.on_pause = on_pause,
	.on_done = on_done,
};

/* What a runtime does: writes the tar to the staging path. */
static struct snapshot_upload *staged(struct fixture *f, const char *id)
{
	struct snapshot_upload *upload = NULL;
	struct err err = { 0 };

	if (snapshot_store_stage(f->store, id, N_DATA, &upload, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(access(snapshot_upload_path(upload), F_OK), -1);
	assert_int_equal(atomic_file_write(AT_FDCWD, snapshot_upload_path(upload), data, N_DATA, 0600), 0);
	return upload;
}

static void upload_start(
        struct fixture *f, struct snapshot_upload *upload, const char *url, const char *digest)
{
	f->n_done = 0;
	assert_int_equal(snapshot_upload_start(upload, url, digest, N_DATA, &handlers, f, NULL), 0);
	assert_int_equal(f->n_done, 0);
}

static void run_until_done(struct fixture *f)
{
	EVENT_UNTIL(f->event, f->n_done > 0);
	assert_int_equal(f->n_done, 1);
}

static void a_snapshot_goes_out_and_its_staging_file_goes(void **state)
{
	struct fixture *f = *state;
	struct snapshot_upload *upload;
	struct https_seen seen;
	char path[300];

	store_open(f);
	upload = staged(f, "command/1 with \"odd\" bytes");
	(void)snprintf(path, sizeof(path), "%s", snapshot_upload_path(upload));
	assert_null(strchr(path + strlen(f->snapshots) + 1, '/'));
	upload_start(f, upload, f->url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, 0);
	assert_string_equal(f->result.digest, data_digest);
	assert_int_equal(f->result.size_bytes, N_DATA);
	assert_int_equal(access(path, F_OK), -1);
	seen = https_server_seen(f->server);
	assert_int_equal(seen.n_body, N_DATA);
	assert_memory_equal(seen.body, data, N_DATA);
	assert_true(f->progressed_bytes > 0);
}

static void a_snapshot_can_go_to_a_file(void **state)
{
	struct fixture *f = *state;
	CLEANUP_FREE char *text = NULL;
	char url[300];
	size_t n;

	store_open(f);
	(void)snprintf(url, sizeof(url), "file://%s/out.tar", (char *)f->dir);
	upload_start(f, staged(f, "1"), url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, 0);
	assert_int_equal(file_read(AT_FDCWD, SANDBOX_PATH(&f->dir, "out.tar"), 2 * N_DATA, &text, &n), 0);
	assert_int_equal(n, N_DATA);
	assert_memory_equal(text, data, N_DATA);
}

static void a_failing_server_is_tried_again(void **state)
{
	struct fixture *f = *state;

	store_open(f);
	https_server_set_faults(f->server, &(struct https_faults){ .refusals = 3, .status = 503 });
	upload_start(f, staged(f, "1"), f->url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, 0);
	assert_int_equal(https_server_seen(f->server).puts, 4);
	assert_int_equal(f->n_pauses, 3);
}

static void there_is_an_end_to_trying(void **state)
{
	struct fixture *f = *state;

	store_open(f);
	https_server_set_faults(f->server, &(struct https_faults){ .refusals = 1000, .status = 503 });
	upload_start(f, staged(f, "1"), f->url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, -EIO);
	assert_non_null(strstr(f->result.error.text, "answers 503"));
	assert_int_equal(https_server_seen(f->server).puts, SNAPSHOT_ATTEMPTS_MAX);
	assert_int_equal(f->n_pauses, SNAPSHOT_ATTEMPTS_MAX - 1); /* the end is told as such */
	/* and one that is refused is not tried twice */
	https_server_set_faults(f->server, &(struct https_faults){ .refusals = 1000, .status = 403 });
	upload_start(f, staged(f, "2"), f->url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, -EACCES);
	assert_int_equal(https_server_seen(f->server).puts, SNAPSHOT_ATTEMPTS_MAX + 1);
}

static void another_file_than_the_runtime_hashed_is_not_sent(void **state)
{
	struct fixture *f = *state;
	char digest[SHA256_DIGEST_MAX];
	struct snapshot_upload *upload;
	struct err err = { 0 };

	store_open(f);
	memcpy(digest, data_digest, sizeof(digest));
	digest[12] = digest[12] == '0' ? '1' : '0';
	upload_start(f, staged(f, "1"), f->url, digest);
	run_until_done(f);
	assert_int_equal(f->result.r, -EBADMSG);
	assert_int_equal(https_server_seen(f->server).n_body, 0);
	/* what is no digest at all */
	upload = staged(f, "2");
	assert_int_equal(
	        snapshot_upload_start(upload, f->url, "sha256:x", N_DATA, &handlers, f, &err), -EBADMSG);
	snapshot_upload_cancel(upload);
	/* a file that is not there */
	upload = staged(f, "3");
	assert_int_equal(unlink(snapshot_upload_path(upload)), 0);
	upload_start(f, upload, f->url, data_digest);
	run_until_done(f);
	assert_int_equal(f->result.r, -ENOENT);
}

static void a_cancelled_one_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct snapshot_upload *upload;
	char path[300], temporary[400];
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	store_open(f);
	https_server_set_faults(f->server, &(struct https_faults){ .refusals = 1000, .status = 503 });
	for (int when = 0; when < 3; when++) {
		upload = staged(f, "1");
		(void)snprintf(path, sizeof(path), "%s", snapshot_upload_path(upload));
		if (when > 0)
			upload_start(f, upload, f->url, data_digest);
		while (when > 1 && https_server_seen(f->server).puts == 0) {
			assert_true(clock_monotonic_usec() < until_usec);
			/* runs out: the server is a thread, of which the loop does not hear */
			assert_true(sd_event_run(f->event, 10 * USEC_PER_MSEC) >= 0);
		}
		/* What a runtime wrote before it was killed. */
		(void)snprintf(temporary, sizeof(temporary), "%s/.%s.0123456789abcdef.tmp", f->snapshots,
		        strrchr(path, '/') + 1);
		assert_int_equal(close(creat(temporary, 0600)), 0);
		snapshot_upload_cancel(upload);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(access(temporary, F_OK), -1);
	}
	assert_int_equal(f->n_done, 0);
}

static void one_command_is_done_once_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct snapshot_upload *a, *b, *other = NULL;
	struct err err = { 0 };

	store_open_with(f, (struct snapshot_store_options){ .n_uploads_max = 2 });
	a = staged(f, "1");
	assert_int_equal(snapshot_store_stage(f->store, "1", 1, &other, &err), -EALREADY);
	b = staged(f, "2");
	assert_int_equal(snapshot_store_stage(f->store, "3", 1, &other, NULL), -EAGAIN);
	snapshot_upload_cancel(b);
	b = staged(f, "3");
	snapshot_upload_cancel(a);
	snapshot_upload_cancel(b);
}

static void room_is_asked_for_beforehand(void **state)
{
	struct fixture *f = *state;
	struct snapshot_upload *upload = NULL, *second = NULL;
	struct statvfs fs;
	struct err err = { 0 };
	uint64_t free_bytes;

	store_open(f);
	assert_int_equal(statvfs(f->snapshots, &fs), 0);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	assert_int_equal(snapshot_store_stage(f->store, "1", free_bytes + (UINT64_C(1) << 40), &upload, &err),
	        -ENOSPC);
	assert_non_null(strstr(err.text, "has room for"));
	/* what one is promised the next cannot have */
	assert_int_equal(snapshot_store_stage(f->store, "1", free_bytes / 4 * 3, &upload, NULL), 0);
	assert_int_equal(snapshot_store_stage(f->store, "2", free_bytes / 4 * 3, &second, NULL), -ENOSPC);
	snapshot_upload_cancel(upload);
	assert_int_equal(snapshot_store_stage(f->store, "2", free_bytes / 4 * 3, &second, NULL), 0);
	snapshot_upload_cancel(second);
}

static void what_a_crash_left_is_removed(void **state)
{
	struct fixture *f = *state;
	char left[300], temporary[400], foreign[2][300];

	store_open(f);
	struct snapshot_upload *upload = staged(f, "1");

	(void)snprintf(left, sizeof(left), "%s", snapshot_upload_path(upload));
	(void)snprintf(temporary, sizeof(temporary), "%s/.%s.0000000000000000.tmp", f->snapshots,
	        strrchr(left, '/') + 1);
	snapshot_upload_cancel(upload);
	f->store = snapshot_store_free(f->store);
	(void)snprintf(foreign[0], sizeof(foreign[0]), "%s/mine.tar", f->snapshots);
	(void)snprintf(foreign[1], sizeof(foreign[1]), "%s/.mine.tar.0000000000000000.tmp", f->snapshots);
	assert_int_equal(atomic_file_write(AT_FDCWD, left, "x", 1, 0600), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, temporary, "x", 1, 0600), 0);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		assert_int_equal(atomic_file_write(AT_FDCWD, foreign[i], "x", 1, 0600), 0);
	store_open(f);
	assert_int_equal(access(left, F_OK), -1);
	assert_int_equal(access(temporary, F_OK), -1);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		assert_int_equal(access(foreign[i], F_OK), 0);
}

static bool is_wished(const char *digest, void *userdata)
{
	(void)digest;
	return *(const bool *)userdata;
}

static void a_restore_is_fetched_verified_and_collected(void **state)
{
	struct fixture *f = *state;
	struct download_status status = { 0 };
	const struct download_source source = { .digest = data_digest, .url = f->url, .size_bytes = N_DATA };

	https_server_serve(f->server, "snapshot", data, N_DATA);
	store_open(f);
	EVENT_UNTIL(f->event, snapshot_store_want(f->store, &source, &status) != -EINPROGRESS);
	assert_int_equal(status.state, DOWNLOAD_READY);
	assert_int_equal(access(status.path, R_OK), 0);
	assert_non_null(strstr(status.path, "/restore/"));
	/* a restart forgets nothing */
	f->store = snapshot_store_free(f->store);
	store_open(f);
	assert_int_equal(snapshot_store_want(f->store, &source, &status), 0);
	assert_int_equal(https_server_seen(f->server).gets, 1);
	assert_int_equal(snapshot_store_collect(f->store, 0, is_wished, &(bool){ true }), 0);
	assert_int_equal(access(status.path, F_OK), 0);
	assert_true(snapshot_store_collect(f->store, 0, is_wished, &(bool){ false }) > 0);
	assert_int_equal(access(status.path, F_OK), -1);
}

TEST_SUITE(snapshot_store_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_snapshot_goes_out_and_its_staging_file_goes),
		TEST(a_snapshot_can_go_to_a_file),
		TEST(a_failing_server_is_tried_again),
		TEST(there_is_an_end_to_trying),
		TEST(another_file_than_the_runtime_hashed_is_not_sent),
		TEST(a_cancelled_one_leaves_nothing),
		TEST(one_command_is_done_once_at_a_time),
		TEST(room_is_asked_for_beforehand),
		TEST(what_a_crash_left_is_removed),
		TEST(a_restore_is_fetched_verified_and_collected),
	};
	struct sha256_stream *stream;
	sigset_t mask;
	uint32_t x = 7;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)setenv("no_proxy", "localhost,127.0.0.1", 1);
	for (size_t i = 0; i < N_DATA; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (uint8_t)(x >> 24);
	}
	if (sha256_stream_new(&stream) < 0 || sha256_stream_add(stream, data, N_DATA) < 0 ||
	        sha256_stream_digest(stream, data_digest) < 0)
		return 1;
	(void)sha256_stream_free(stream);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
