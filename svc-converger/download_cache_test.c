/* Against a real https server, by real bc-transfer processes. */
#include "svc-converger/download_cache.h"

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
#include <time.h>

#include <cmocka.h>

enum { N_DATA = 1024 * 1024 };

static uint8_t data[N_DATA];

static void digest_of(const void *bytes, size_t n, char ret[static SHA256_DIGEST_MAX])
{
	struct sha256_stream *stream;

	assert_int_equal(sha256_stream_new(&stream), 0);
	assert_int_equal(sha256_stream_add(stream, bytes, n), 0);
	assert_int_equal(sha256_stream_digest(stream, ret), 0);
	(void)sha256_stream_free(stream);
}

struct fixture {
	char dir[200], ca[250], images[250], digest[SHA256_DIGEST_MAX];
	sd_event *event;
	struct https_server *server;
	struct download_cache *cache;
	struct download_source source;
	char url[256];
	unsigned n_changes;
};

static void on_change(const char *digest, void *userdata)
{
	struct fixture *f = userdata;

	assert_true(strlen(digest) == 71);
	f->n_changes++;
}

static void cache_open_with(struct fixture *f, struct download_cache_options options)
{
	struct transfer_config transfer = { .ca_path = f->ca };
	struct err err = { 0 };

	options.event = f->event;
	options.dir = f->images;
	options.transfer = &transfer;
	options.retry_min_usec = options.retry_min_usec ? options.retry_min_usec : 1000;
	options.retry_max_usec = options.retry_max_usec ? options.retry_max_usec : 10000;
	options.on_change = on_change;
	options.userdata = f;
	if (download_cache_open(&options, &f->cache, &err) < 0)
		fail_msg("%s", err.text);
}

static void cache_open(struct fixture *f)
{
	cache_open_with(f, (struct download_cache_options){ 0 });
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	void *dir;

	assert_non_null(f);
	assert_int_equal(sandbox_setup(&dir), 0);
	(void)snprintf(f->dir, sizeof(f->dir), "%s", (char *)dir);
	free(dir);
	(void)snprintf(f->ca, sizeof(f->ca), "%s/ca.pem", f->dir);
	(void)snprintf(f->images, sizeof(f->images), "%s/images", f->dir);
	assert_int_equal(mkdir(f->images, 0700), 0);
	assert_true(sd_event_new(&f->event) >= 0);
	f->server = https_server_new(CERTIFICATE_GOOD, f->ca);
	https_server_serve(f->server, "image", data, N_DATA);
	digest_of(data, N_DATA, f->digest);
	(void)snprintf(f->url, sizeof(f->url), "%s", https_server_url(f->server, "image"));
	f->source = (struct download_source){ .digest = f->digest, .url = f->url, .size_bytes = N_DATA };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	void *dir = strdup(f->dir);

	(void)download_cache_free(f->cache);
	(void)https_server_free(f->server);
	sd_event_unref(f->event);
	free(f);
	return sandbox_teardown(&dir);
}

/* Runs the loop until the state of the one digest is this. */
static bool is_in_use(const char *digest, void *userdata)
{
	const char *used = userdata;

	return used && strcmp(digest, used) == 0;
}

static bool is_another(const char *digest, void *userdata)
{
	return strcmp(digest, userdata) != 0;
}

static const struct download_status *status_of(
        struct fixture *f, const char *digest, struct download_status *ret)
{
	download_cache_get(f->cache, digest, ret);
	return ret;
}

static void run_until(struct fixture *f, enum download_state state, struct download_status *ret)
{
	EVENT_UNTIL(f->event, status_of(f, f->digest, ret)->state == state);
}

static void run_until_failures(struct fixture *f, unsigned n, struct download_status *ret)
{
	EVENT_UNTIL(f->event, status_of(f, f->digest, ret)->failures >= n);
}

static void check_file(const struct download_status *status)
{
	CLEANUP_FREE char *text = NULL;
	size_t n;
	struct stat st;

	assert_int_equal(file_read(AT_FDCWD, status->path, 2 * N_DATA, &text, &n), 0);
	assert_int_equal(n, N_DATA);
	assert_memory_equal(text, data, N_DATA);
	assert_int_equal(stat(status->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
}

static void part_path(const struct fixture *f, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/%s.part", f->images, f->digest + 7);
}

static void one_download_however_many_want_it(void **state)
{
	struct fixture *f = *state;
	struct download_status status;

	cache_open(f);
	for (int i = 0; i < 50; i++)
		assert_int_equal(download_cache_want(f->cache, &f->source, &status), -EINPROGRESS);
	run_until(f, DOWNLOAD_READY, &status);
	assert_int_equal(https_server_seen(f->server).gets, 1);
	assert_int_equal(status.size_bytes, N_DATA);
	check_file(&status);
	assert_true(f->n_changes >= 2); /* started, and ready */
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), 0);
	check_file(&status);
	assert_int_equal(https_server_seen(f->server).gets, 1);
}

static void what_is_ready_is_ready_after_a_restart(void **state)
{
	struct fixture *f = *state;
	struct download_status status;

	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until(f, DOWNLOAD_READY, &status);
	f->cache = download_cache_free(f->cache);
	cache_open(f);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), 0);
	check_file(&status);
	assert_int_equal(https_server_seen(f->server).gets, 1);
	/* and one that somebody took away, or cut, is fetched again */
	assert_int_equal(unlink(status.path), 0);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), -EINPROGRESS);
	run_until(f, DOWNLOAD_READY, &status);
	assert_int_equal(https_server_seen(f->server).gets, 2);
	assert_int_equal(chmod(status.path, 0644), 0);
	assert_int_equal(truncate(status.path, 5), 0);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), -EINPROGRESS);
	run_until(f, DOWNLOAD_READY, &status);
	check_file(&status);
}

static void a_restart_in_the_middle_goes_on(void **state)
{
	struct fixture *f = *state;
	struct https_faults faults = { .hold = true, .cut_bytes = 400000 };
	struct download_status status;

	https_server_set_faults(f->server, &faults);
	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	EVENT_UNTIL(f->event, status_of(f, f->digest, &status)->done_bytes > 0);
	assert_int_equal(status.state, DOWNLOAD_RUNNING);
	assert_int_equal(status.total_bytes, N_DATA);
	f->cache = download_cache_free(f->cache); /* kills the process */
	https_server_set_faults(f->server, &(struct https_faults){ 0 });
	cache_open(f);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), -EINPROGRESS);
	run_until(f, DOWNLOAD_READY, &status);
	check_file(&status);
	assert_memory_equal(https_server_seen(f->server).range, "bytes=", 6);
}

static void failures_are_told_and_tried_again(void **state)
{
	struct fixture *f = *state;
	struct https_faults faults = { .refusals = 2, .status = 503 };
	struct download_status status;

	https_server_set_faults(f->server, &faults);
	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 1, &status);
	assert_int_equal(status.state, DOWNLOAD_WAITING);
	assert_non_null(strstr(status.error.text, "answers 503"));
	assert_true(status.next_attempt_usec > 0);
	run_until(f, DOWNLOAD_READY, &status);
	assert_string_equal(status.error.text, "");
	assert_int_equal(https_server_seen(f->server).gets, 3);
}

static void a_wrong_digest_is_never_ready(void **state)
{
	struct fixture *f = *state;
	struct download_status status;
	char part[512];
	struct stat st;

	f->digest[20] = f->digest[20] == '0' ? '1' : '0';
	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 3, &status);
	assert_int_equal(status.error.code, -EBADMSG);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), -EINPROGRESS);
	part_path(f, part, sizeof(part));
	f->cache = download_cache_free(f->cache);
	if (stat(part, &st) == 0)
		assert_true(st.st_size < N_DATA); /* killed in the next attempt, or emptied */
}

static void a_pause_ends_when_asked(void **state)
{
	struct fixture *f = *state;
	struct https_faults faults = { .refusals = 1, .status = 503 };
	struct download_status status;

	https_server_set_faults(f->server, &faults);
	cache_open_with(f,
	        (struct download_cache_options){
	                .retry_min_usec = UINT64_C(3600000000), .retry_max_usec = UINT64_C(3600000000) });
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 1, &status);
	download_cache_retry(f->cache, f->digest);
	run_until(f, DOWNLOAD_READY, &status);
}

static void another_source_is_tried_at_once_and_only_once(void **state)
{
	struct fixture *f = *state;
	struct download_status status;
	char bad_url[256];
	struct download_source bad = f->source;

	(void)snprintf(bad_url, sizeof(bad_url), "%s", https_server_url(f->server, "none"));
	bad.url = bad_url;
	cache_open_with(f,
	        (struct download_cache_options){
	                .retry_min_usec = UINT64_C(3600000000), .retry_max_usec = UINT64_C(3600000000) });
	(void)download_cache_want(f->cache, &bad, NULL);
	run_until_failures(f, 1, &status);
	(void)download_cache_want(f->cache, &bad, NULL);
	assert_int_equal(https_server_seen(f->server).gets, 1);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until(f, DOWNLOAD_READY, &status);
	assert_int_equal(https_server_seen(f->server).gets, 2);

	/* two that both fail do not drive each other round */
	assert_true(download_cache_collect(f->cache, 0, is_in_use, NULL) > 0);
	https_server_set_faults(f->server, &(struct https_faults){ .refusals = 1000, .status = 503 });
	(void)download_cache_want(f->cache, &bad, NULL);
	run_until_failures(f, 1, &status);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 2, &status);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(
		        download_cache_want(f->cache, i % 2 ? &bad : &f->source, &status), -EINPROGRESS);
		assert_int_equal(status.state, DOWNLOAD_WAITING);
		assert_true(status.next_attempt_usec > 0);
	}
}

static size_t states_count(
        struct fixture *f, const char digests[][SHA256_DIGEST_MAX], size_t n, enum download_state state)
{
	struct download_status status;
	size_t n_of = 0;

	for (size_t i = 0; i < n; i++)
		n_of += status_of(f, digests[i], &status)->state == state;
	return n_of;
}

static void slots_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct https_faults faults = { .hold = true, .cut_bytes = 1000 };
	char digests[6][SHA256_DIGEST_MAX];

	https_server_set_faults(f->server, &faults);
	cache_open_with(f, (struct download_cache_options){ .n_parallel_max = 2, .n_wanted_max = 5 });
	for (size_t i = 0; i < 6; i++) {
		struct download_source source = f->source;

		digest_of(&i, sizeof(i), digests[i]);
		source.digest = digests[i];
		assert_int_equal(
		        download_cache_want(f->cache, &source, NULL), i < 5 ? -EINPROGRESS : -EAGAIN);
	}
	EVENT_UNTIL(f->event, states_count(f, digests, 5, DOWNLOAD_RUNNING) >= 2);
	assert_int_equal(states_count(f, digests, 5, DOWNLOAD_RUNNING), 2);
	assert_int_equal(states_count(f, digests, 5, DOWNLOAD_WAITING), 3);
	/* one that is given up makes room for the next */
	download_cache_end_unwanted(f->cache, is_another, digests[0]);
	struct download_status status;

	EVENT_UNTIL(f->event, status_of(f, digests[2], &status)->state == DOWNLOAD_RUNNING);
	download_cache_get(f->cache, digests[0], &status);
	assert_int_equal(status.state, DOWNLOAD_ABSENT);
}

static void a_full_disk_is_seen_beforehand(void **state)
{
	struct fixture *f = *state;
	struct download_status status;
	struct statvfs fs;

	assert_int_equal(statvfs(f->images, &fs), 0);
	cache_open_with(f,
	        (struct download_cache_options){
	                .reserve_bytes = (uint64_t)fs.f_bavail * fs.f_frsize + (UINT64_C(1) << 40) });
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 1, &status);
	assert_int_equal(status.error.code, -ENOSPC);
	assert_non_null(strstr(status.error.text, "are needed"));
	assert_int_equal(https_server_seen(f->server).gets, 0);
}

static void a_program_that_is_not_there_is_a_failure(void **state)
{
	struct fixture *f = *state;
	struct transfer_config transfer = { .program = "/nonexistent/bc-transfer" };
	struct download_cache_options options = {
		.event = f->event, .dir = f->images, .transfer = &transfer, .retry_min_usec = 1000
	};
	struct download_status status;

	assert_int_equal(download_cache_open(&options, &f->cache, NULL), 0);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 2, &status);
	assert_non_null(strstr(status.error.text, "/nonexistent/bc-transfer"));
	f->cache = download_cache_free(f->cache);
	transfer.program = "/bin/true"; /* ends without a word */
	assert_int_equal(download_cache_open(&options, &f->cache, NULL), 0);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 1, &status);
	assert_non_null(strstr(status.error.text, "exited with status 0 without an answer"));
}

/* --- collection --- */

static void file_age(const char *path, time_t sec)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = time(NULL) - sec } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void what_nobody_uses_goes_after_its_time(void **state)
{
	struct fixture *f = *state;
	struct download_status status;
	struct stat st;
	char foreign[512];

	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until(f, DOWNLOAD_READY, &status);
	(void)snprintf(foreign, sizeof(foreign), "%s/notes.txt", f->images);
	assert_int_equal(atomic_file_write(AT_FDCWD, foreign, "x", 1, 0600), 0);
	file_age(foreign, 1000000);

	/* used: however old, and its time of use is written on it */
	file_age(status.path, 1000000);
	assert_int_equal(download_cache_collect(f->cache, 10000000, is_in_use, f->digest), 0);
	assert_int_equal(stat(status.path, &st), 0);
	assert_true(st.st_mtim.tv_sec > time(NULL) - 3600);
	/* unused, but not for long enough */
	assert_int_equal(download_cache_collect(f->cache, UINT64_C(7200000000), is_in_use, NULL), 0);
	assert_int_equal(download_cache_want(f->cache, &f->source, &status), 0);
	/* unused for longer */
	file_age(status.path, 7300);
	assert_true(download_cache_collect(f->cache, UINT64_C(7200000000), is_in_use, NULL) >= N_DATA / 2);
	assert_int_equal(access(status.path, F_OK), -1);
	download_cache_get(f->cache, f->digest, &status);
	assert_int_equal(status.state, DOWNLOAD_ABSENT);
	assert_int_equal(access(foreign, F_OK), 0);
}

static void parts_and_wishes_nobody_has_go_too(void **state)
{
	struct fixture *f = *state;
	struct https_faults faults = { .cuts = 1000, .cut_bytes = 300000 };
	struct download_status status;
	char part[512];

	https_server_set_faults(f->server, &faults);
	cache_open(f);
	(void)download_cache_want(f->cache, &f->source, NULL);
	run_until_failures(f, 1, &status);
	part_path(f, part, sizeof(part));
	assert_int_equal(access(part, F_OK), 0);
	assert_int_equal(download_cache_collect(f->cache, 0, is_in_use, f->digest), 0);
	assert_int_equal(access(part, F_OK), 0);
	assert_true(download_cache_collect(f->cache, 0, is_in_use, NULL) > 0);
	assert_int_equal(access(part, F_OK), -1);
	download_cache_get(f->cache, f->digest, &status);
	assert_int_equal(status.state, DOWNLOAD_ABSENT);
}

static void a_directory_that_is_not_there_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct transfer_config transfer = { 0 };
	struct download_cache_options options = {
		.event = f->event, .dir = "/nonexistent", .transfer = &transfer
	};
	struct err err = { 0 };

	assert_int_equal(download_cache_open(&options, &f->cache, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent"));
}

TEST_SUITE(download_cache_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(one_download_however_many_want_it),
		TEST(what_is_ready_is_ready_after_a_restart),
		TEST(a_restart_in_the_middle_goes_on),
		TEST(failures_are_told_and_tried_again),
		TEST(a_wrong_digest_is_never_ready),
		TEST(a_pause_ends_when_asked),
		TEST(another_source_is_tried_at_once_and_only_once),
		TEST(slots_are_bounded),
		TEST(a_full_disk_is_seen_beforehand),
		TEST(a_program_that_is_not_there_is_a_failure),
		TEST(what_nobody_uses_goes_after_its_time),
		TEST(parts_and_wishes_nobody_has_go_too),
		TEST(a_directory_that_is_not_there_is_an_error),
	};
	sigset_t mask;
	uint32_t x = 1;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)setenv("no_proxy", "localhost,127.0.0.1", 1);
	for (size_t i = 0; i < N_DATA; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (uint8_t)(x >> 24);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
