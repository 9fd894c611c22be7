#include "svc-converger/housekeeping.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sha256.h"
#include "svc-converger/test/world.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

/* Puts a file into data_dir/images under its digest, unused since 1970. */
static void image_put(
        struct world *w, const char *text, char digest[static SHA256_DIGEST_MAX], char *path, size_t size)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX];

	assert_int_equal(sha256(text, strlen(text), sum), 0);
	sha256_to_hex(sum, hex);
	(void)snprintf(digest, SHA256_DIGEST_MAX, "sha256:%s", hex);
	(void)snprintf(path, size, "%s/images/%s", w->data_dir, hex);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0444), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void images_nobody_uses_go(void **state)
{
	struct world *w = *state;
	char used[SHA256_DIGEST_MAX], unused[SHA256_DIGEST_MAX], used_path[256], unused_path[256];

	image_put(w, "an image that is used", used, used_path, sizeof(used_path));
	image_put(w, "an image that is not", unused, unused_path, sizeof(unused_path));
	world_restart(w); /* which finds them */
	assert_int_equal(
	        world_apply(w,
	                (struct wish[]){
	                        { .id = A, .image_digest = used, .image_url = "file:///none" }, { 0 } }),
	        0);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	housekeeping_run(w->converger->housekeeping);
	assert_int_equal(access(used_path, F_OK), 0);
	assert_int_equal(access(unused_path, F_OK), -1);
}

static void nothing_is_removed_while_a_runtime_cannot_tell(void **state)
{
	struct world *w = *state;
	char unused[SHA256_DIGEST_MAX], path[256];

	image_put(w, "an image that is not", unused, path, sizeof(path));
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = A }, { 0 } }), 0);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	stub_runtime_kill(w->runtime);
	WORLD_WAIT(w, world_is(w, A, "UNKNOWN") || strncmp(world_status(w, A), "UNKNOWN", 7) == 0);
	housekeeping_run(w->converger->housekeeping);
	assert_int_equal(access(path, F_OK), 0);
	stub_runtime_revive(w->runtime);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	housekeeping_run(w->converger->housekeeping);
	assert_int_equal(access(path, F_OK), -1);
}

/* Nobody would use what is fetched; and it is the runtime that cannot tell, not the spec. */
static void a_download_nobody_wants_any_more_ends(void **state)
{
	static const char URL[] = "file:///nowhere/at/all";
	struct world *w = *state;
	char kept[SHA256_DIGEST_MAX], dropped[SHA256_DIGEST_MAX], path[256];
	struct download_status restore;
	struct image image;

	image_put(w, "an image that stays wished for", kept, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	image_put(w, "one that does not", dropped, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
	APPLY(w, { .id = A, .image_digest = kept, .image_url = URL },
	        { .id = B, .image_digest = dropped, .image_url = URL });
	WAIT_STATUS(w, A, "PENDING/FetchingImage");
	WAIT_STATUS(w, B, "PENDING/FetchingImage");
	APPLY(w, { .id = A, .image_digest = kept, .image_url = URL },
	        { .id = B, .restore_digest = dropped, .restore_url = URL });
	WAIT_STATUS(w, B, "PENDING/FetchingSnapshot");
	stub_runtime_kill(w->runtime);
	housekeeping_run(w->converger->housekeeping);
	image_store_get(w->converger->images, dropped, &image);
	assert_int_equal(image.download.state, DOWNLOAD_ABSENT);
	image_store_get(w->converger->images, kept, &image);
	assert_int_not_equal(image.download.state, DOWNLOAD_ABSENT);
	snapshot_store_get(w->converger->snapshots, dropped, &restore);
	assert_int_not_equal(restore.state, DOWNLOAD_ABSENT);
	APPLY(w, { .id = A, .image_digest = kept, .image_url = URL });
	housekeeping_run(w->converger->housekeeping);
	snapshot_store_get(w->converger->snapshots, dropped, &restore);
	assert_int_equal(restore.state, DOWNLOAD_ABSENT);
}

/* A host has all services, those that are not built yet too. */
static void what_is_no_runtime_keeps_nothing(void **state)
{
	struct world *w = *state;
	char unused[SHA256_DIGEST_MAX], path[256];

	image_put(w, "an image that is not", unused, path, sizeof(path));
	struct stub_runtime *later = world_runtime(w, "later", "later");
	later->code = GRPC_STATUS_UNIMPLEMENTED;
	later->fail[STUB_DESCRIBE] = UINT_MAX;
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = A }, { 0 } }), 0);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	WORLD_WAIT(w, later->n_calls[STUB_DESCRIBE] > 1);
	housekeeping_run(w->converger->housekeeping);
	assert_int_equal(access(path, F_OK), -1);
}

static void claims_of_instances_long_gone_are_released(void **state)
{
	struct world *w = *state;
	const struct volume_use use = { "data", false };

	world_volume(w, "data", 1);
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = A, .volume = "data" }, { 0 } }), 0);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	/* what a crash between two records may leave */
	assert_int_equal(volume_store_adopt(w->converger->volumes, B, &use, 1), 0);
	housekeeping_run(w->converger->housekeeping);
	assert_false(volume_store_has_claim(w->converger->volumes, B));
	assert_true(volume_store_has_claim(w->converger->volumes, A));
	world_settle(w);
	world_volume(w, "", 0);
}

static void a_volume_that_somebody_took_away_is_made_anew(void **state)
{
	struct world *w = *state;
	struct volume_info info;

	world_volume(w, "data", 1);
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = A }, { 0 } }), 0);
	WORLD_WAIT(
	        w, volume_store_get(w->converger->volumes, "data", &info) == 0 && info.exists && !info.busy);
	assert_int_equal(unlink(info.path), 0);
	housekeeping_run(w->converger->housekeeping);
	WORLD_WAIT(w, access(info.path, F_OK) == 0);
	world_settle(w);
	world_volume(w, "", 0);
}

TEST_SUITE(housekeeping_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(images_nobody_uses_go),
		TEST(nothing_is_removed_while_a_runtime_cannot_tell),
		TEST(a_download_nobody_wants_any_more_ends),
		TEST(what_is_no_runtime_keeps_nothing),
		TEST(claims_of_instances_long_gone_are_released),
		TEST(a_volume_that_somebody_took_away_is_made_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
