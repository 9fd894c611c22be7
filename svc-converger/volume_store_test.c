#include "svc-converger/volume_store.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
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

#define MIB (UINT64_C(1) << 20)
#define A "aaaaaaaa-0000-4000-8000-000000000001"
#define B "bbbbbbbb-0000-4000-8000-000000000002"

struct fixture {
	void *dir;
	char volumes[100];
	struct loop *loop;
	struct job_pool *pool;
	struct volume_store *store;
	unsigned n_changes;
};

/* Sends the loop round until nothing is under way. */
struct idle {
	struct loop_tag tag;
	struct fixture *f;
};

static void on_idle(struct loop_tag *tag, bool ok)
{
	struct idle *idle = CONTAINER_OF(tag, struct idle, tag);

	(void)ok;
	if (job_pool_pending(idle->f->pool) == 0)
		loop_exit(idle->f->loop, 0);
	else
		loop_post(idle->f->loop, tag);
}

static void run_jobs(struct fixture *f)
{
	struct idle idle = { .tag.on_done = on_idle, .f = f };

	loop_post(f->loop, &idle.tag);
	assert_int_equal(loop_run(f->loop), 0);
}

static void on_change(const char *volume_id, void *userdata)
{
	struct fixture *f = userdata;

	assert_true(volume_id_is_valid(volume_id));
	f->n_changes++;
}

static void store_open_with(struct fixture *f, uint64_t reserve_bytes)
{
	const struct volume_store_options options = {
		.pool = f->pool,
		.dir = f->volumes,
		.file_gid = (gid_t)-1,
		.reserve_bytes = reserve_bytes,
		.on_change = on_change,
		.userdata = f,
	};
	struct err err = { 0 };

	if (volume_store_open(&options, &f->store, &err) < 0)
		fail_msg("%s", err.text);
}

static void store_reopen(struct fixture *f)
{
	run_jobs(f);
	f->store = volume_store_free(f->store);
	store_open_with(f, 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(sandbox_setup(&f->dir), 0);
	(void)snprintf(f->volumes, sizeof(f->volumes), "%s/volumes", (char *)f->dir);
	assert_int_equal(mkdir(f->volumes, 0700), 0);
	assert_int_equal(loop_new(&f->loop), 0);
	assert_int_equal(job_pool_new(f->loop, "test", 2, 100, &f->pool), 0);
	store_open_with(f, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	run_jobs(f);
	(void)volume_store_free(f->store);
	(void)job_pool_free(f->pool);
	(void)loop_free(f->loop);
	(void)sandbox_teardown(&f->dir);
	free(f);
	return 0;
}

static struct volume_info info_of(struct fixture *f, const char *id)
{
	struct volume_info info;

	assert_int_equal(volume_store_get(f->store, id, &info), 0);
	return info;
}

static void make(struct fixture *f, const char *id, uint64_t bytes)
{
	assert_int_equal(volume_store_want(f->store, id, VOLUME_PRESENT, bytes), 0);
	run_jobs(f);
	struct volume_info info = info_of(f, id);

	assert_string_equal(info.error.text, "");
	assert_true(info.exists);
}

/* --- files --- */

static void a_volume_is_made_sparse(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;
	struct stat st;

	assert_int_equal(volume_store_get(f->store, "data", &info), -ENOENT);
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 64 * MIB), 0);
	assert_true(info_of(f, "data").busy);
	run_jobs(f);
	info = info_of(f, "data");
	assert_true(info.exists);
	assert_false(info.busy);
	assert_int_equal(info.size_bytes, 64 * MIB);
	assert_true(info.allocated_bytes < MIB);
	assert_int_equal(f->n_changes, 1);
	assert_int_equal(stat(info.path, &st), 0);
	assert_int_equal(st.st_size, 64 * MIB);
	assert_int_equal(st.st_mode & 07777, 0660);
	/* the same wish again changes nothing */
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 64 * MIB), 0);
	assert_false(info_of(f, "data").busy);
}

static void a_volume_grows_and_never_shrinks(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;

	make(f, "data", 4 * MIB);
	int fd = open(info_of(f, "data").path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, "kept", 4, 100), 4);
	assert_int_equal(close(fd), 0);
	make(f, "data", 8 * MIB);
	assert_int_equal(info_of(f, "data").size_bytes, 8 * MIB);
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 4 * MIB), 0);
	run_jobs(f);
	info = info_of(f, "data");
	assert_int_equal(info.size_bytes, 8 * MIB);
	assert_int_equal(info.error.code, -EBUSY);
	assert_non_null(strstr(info.error.text, "never shrunk"));
	struct stat st;

	assert_int_equal(stat(info.path, &st), 0);
	assert_int_equal(st.st_size, 8 * MIB);
	/* the fault goes with the wish */
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 8 * MIB), 0);
	assert_string_equal(info_of(f, "data").error.text, "");
}

static void the_last_of_several_wishes_holds(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;

	(void)volume_store_want(f->store, "data", VOLUME_PRESENT, 4 * MIB);
	(void)volume_store_want(f->store, "data", VOLUME_PRESENT, 8 * MIB);
	run_jobs(f);
	assert_int_equal(info_of(f, "data").size_bytes, 8 * MIB);
	(void)volume_store_want(f->store, "data", VOLUME_PRESENT, 16 * MIB);
	(void)volume_store_want(f->store, "data", VOLUME_ABSENT, 0);
	run_jobs(f);
	assert_int_equal(volume_store_get(f->store, "data", &info), -ENOENT);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/data.raw"), F_OK), -1);
	(void)volume_store_want(f->store, "other", VOLUME_PRESENT, 4 * MIB);
	(void)volume_store_want(f->store, "other", VOLUME_ABSENT, 0);
	(void)volume_store_want(f->store, "other", VOLUME_PRESENT, 2 * MIB);
	run_jobs(f);
	assert_true(info_of(f, "other").exists);
}

static void volumes_are_there_after_a_restart(void **state)
{
	struct fixture *f = *state;

	make(f, "data", 4 * MIB);
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "volumes/notes.txt"), "x", 1, 0600), 0);
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "volumes/UPPER.raw"), "x", 1, 0600), 0);
	store_reopen(f);
	struct volume_info info = info_of(f, "data");

	assert_true(info.exists);
	assert_int_equal(info.wish, VOLUME_NO_OPINION);
	assert_int_equal(info.size_bytes, 4 * MIB);
	assert_int_equal(volume_store_get(f->store, "UPPER", &info), -ENOENT);
	/* without an opinion it stays */
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_NO_OPINION, 0), 0);
	run_jobs(f);
	assert_true(info_of(f, "data").exists);
}

static void a_disk_that_is_too_full(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;
	struct statvfs fs;

	f->store = volume_store_free(f->store);
	assert_int_equal(statvfs(f->volumes, &fs), 0);
	store_open_with(f, (uint64_t)fs.f_bavail * fs.f_frsize + (UINT64_C(1) << 40));
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 4 * MIB), 0);
	run_jobs(f);
	info = info_of(f, "data");
	assert_false(info.exists);
	assert_int_equal(info.error.code, -ENOSPC);
	/* no tight loop of attempts: the next one is later */
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 4 * MIB), 0);
	assert_false(info_of(f, "data").busy);
	/* another wish is another matter */
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_PRESENT, 8 * MIB), 0);
	assert_true(info_of(f, "data").busy);
	/* and one that nobody has any more leaves nothing behind */
	run_jobs(f);
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_ABSENT, 0), 0);
	assert_int_equal(volume_store_get(f->store, "data", &info), -ENOENT);
}

static void ids_are_checked(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(volume_store_want(f->store, "../x", VOLUME_PRESENT, MIB), -EINVAL);
	assert_int_equal(volume_store_want(f->store, "", VOLUME_PRESENT, MIB), -EINVAL);
	assert_int_equal(volume_store_want(f->store, "none", VOLUME_ABSENT, 0), 0);
	assert_int_equal(volume_store_want(f->store, "none", VOLUME_NO_OPINION, 0), 0);
}

static void what_others_do_is_measured(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;
	static const char DATA[65536] = "x";

	make(f, "data", 4 * MIB);
	make(f, "gone", 4 * MIB);
	info = info_of(f, "data");
	int fd = open(info.path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, DATA, sizeof(DATA), 0), sizeof(DATA));
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(info_of(f, "gone").path), 0);
	f->n_changes = 0;
	assert_int_equal(volume_store_refresh(f->store), 0);
	run_jobs(f);
	assert_true(info_of(f, "data").allocated_bytes >= sizeof(DATA));
	assert_true(info_of(f, "gone").exists); /* wished, so it was made anew */
	assert_true(f->n_changes >= 2);
}

struct listed {
	char ids[4][VOLUME_ID_MAX];
	size_t n;
};

static void on_info(const struct volume_info *info, void *userdata)
{
	struct listed *listed = userdata;

	assert_true(listed->n < 4);
	memcpy(listed->ids[listed->n++], info->id, VOLUME_ID_MAX);
}

static void all_are_listed_in_order(void **state)
{
	struct fixture *f = *state;
	struct listed listed = { 0 };
	const struct volume_use use = { "b", false };

	make(f, "c", MIB);
	make(f, "a", MIB);
	assert_int_equal(volume_store_adopt(f->store, A, &use, 1), 0);
	volume_store_each(f->store, on_info, &listed);
	assert_int_equal(listed.n, 3);
	assert_string_equal(listed.ids[0], "a");
	assert_string_equal(listed.ids[1], "b"); /* used, though there is no file */
	assert_string_equal(listed.ids[2], "c");
}

/* --- claims --- */

struct answer {
	int r;
	unsigned n;
};

static void on_claimed(int r, void *userdata)
{
	struct answer *answer = userdata;

	answer->r = r;
	answer->n++;
}

static int claim(
        struct fixture *f, const char *instance_id, const char *volume_id, bool read_only, struct err *err)
{
	const struct volume_use use = { volume_id, read_only };
	struct answer answer = { 0 };
	int r = volume_store_claim(f->store, instance_id, &use, 1, on_claimed, &answer, err);

	run_jobs(f);
	assert_int_equal(answer.n, r == 0 ? 1 : 0);
	return r < 0 ? r : answer.r;
}

static void one_writer_at_most_and_no_reader_beside_it(void **state)
{
	static const struct {
		bool first_reads, second_reads;
		int want;
	} TABLE[] = {
		{ false, false, -EBUSY },
		{ false, true, -EBUSY },
		{ true, false, -EBUSY },
		{ true, true, 0 },
	};
	struct fixture *f = *state;

	make(f, "data", MIB);
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct err err = { 0 };
		const struct volume_use use = { "data", TABLE[i].second_reads };

		assert_int_equal(claim(f, A, "data", TABLE[i].first_reads, NULL), 0);
		assert_int_equal(volume_store_check(f->store, B, &use, 1, &err), TABLE[i].want);
		assert_int_equal(claim(f, B, "data", TABLE[i].second_reads, NULL), TABLE[i].want);
		if (TABLE[i].want < 0) {
			assert_non_null(strstr(err.text, "data"));
			assert_non_null(strstr(err.text, A));
		}
		assert_int_equal(info_of(f, "data").n_users, TABLE[i].want < 0 ? 1 : 2);
		volume_store_release(f->store, A);
		volume_store_release(f->store, B);
		run_jobs(f);
		assert_int_equal(info_of(f, "data").n_users, 0);
	}
}

static void a_claim_counts_before_it_is_on_disk(void **state)
{
	struct fixture *f = *state;
	const struct volume_use use = { "data", false };
	struct answer answer = { 0 };

	make(f, "data", MIB);
	assert_int_equal(volume_store_claim(f->store, A, &use, 1, on_claimed, &answer, NULL), 0);
	assert_int_equal(answer.n, 0);
	assert_int_equal(volume_store_check(f->store, B, &use, 1, NULL), -EBUSY);
	assert_int_equal(volume_store_check(f->store, A, &use, 1, NULL), 0); /* its own does not count */
	run_jobs(f);
	assert_int_equal(answer.n, 1);
	assert_int_equal(answer.r, 0);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/claims/" A), F_OK), 0);
}

static void a_claim_is_all_or_nothing(void **state)
{
	struct fixture *f = *state;
	const struct volume_use both[] = { { "one", false }, { "two", false } };
	struct answer answer = { 0 };

	make(f, "one", MIB);
	make(f, "two", MIB);
	assert_int_equal(claim(f, B, "two", false, NULL), 0);
	assert_int_equal(volume_store_claim(f->store, A, both, 2, on_claimed, &answer, NULL), -EBUSY);
	assert_int_equal(info_of(f, "one").n_users, 0);
	assert_false(volume_store_has_claim(f->store, A));
	assert_int_equal(claim(f, A, "none", false, NULL), -ENOENT);
	assert_int_equal(answer.n, 0);
}

static void a_claim_survives_a_restart(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;

	make(f, "data", MIB);
	assert_int_equal(claim(f, A, "data", false, NULL), 0);
	store_reopen(f);
	info = info_of(f, "data");
	assert_int_equal(info.n_users, 1);
	assert_string_equal(info.users[0].instance_id, A);
	assert_false(info.users[0].read_only);
	assert_int_equal(claim(f, B, "data", true, NULL), -EBUSY);
	volume_store_release(f->store, A);
	store_reopen(f);
	assert_int_equal(info_of(f, "data").n_users, 0);
	assert_false(volume_store_has_claim(f->store, A));
}

static void a_new_claim_takes_the_place_of_the_old(void **state)
{
	struct fixture *f = *state;

	make(f, "one", MIB);
	make(f, "two", MIB);
	assert_int_equal(claim(f, A, "one", false, NULL), 0);
	assert_int_equal(claim(f, A, "two", false, NULL), 0);
	assert_int_equal(info_of(f, "one").n_users, 0);
	assert_int_equal(info_of(f, "two").n_users, 1);
	assert_int_equal(claim(f, A, "two", true, NULL), 0); /* the same volume, otherwise */
	assert_int_equal(info_of(f, "two").n_users, 1);
	assert_true(info_of(f, "two").users[0].read_only);
	store_reopen(f);
	assert_int_equal(info_of(f, "two").n_users, 1);
	assert_true(info_of(f, "two").users[0].read_only);
}

static void claims_and_releases_in_quick_succession_end_right(void **state)
{
	struct fixture *f = *state;
	const struct volume_use use = { "data", false };
	struct answer answer = { 0 };

	make(f, "data", MIB);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(volume_store_claim(f->store, A, &use, 1, on_claimed, &answer, NULL), 0);
		volume_store_release(f->store, A);
	}
	run_jobs(f);
	assert_int_equal(answer.n, 50);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/claims/" A), F_OK), -1);
	assert_int_equal(info_of(f, "data").n_users, 0);
	assert_int_equal(volume_store_claim(f->store, A, &use, 1, on_claimed, &answer, NULL), 0);
	volume_store_release(f->store, A);
	assert_int_equal(volume_store_claim(f->store, A, &use, 1, on_claimed, &answer, NULL), 0);
	run_jobs(f);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/claims/" A), F_OK), 0);
	assert_int_equal(info_of(f, "data").n_users, 1);
}

static void what_cannot_be_written_down_is_not_claimed(void **state)
{
	struct fixture *f = *state;

	make(f, "data", MIB);
	make(f, "old", MIB);
	assert_int_equal(claim(f, B, "old", false, NULL), 0);
	/* a directory in the way of the file */
	assert_int_equal(mkdir(SANDBOX_PATH(&f->dir, "volumes/claims/" A), 0700), 0);
	assert_true(claim(f, A, "data", false, NULL) < 0);
	assert_int_equal(info_of(f, "data").n_users, 0);
	assert_false(volume_store_has_claim(f->store, A));
	/* one that had a claim keeps it */
	assert_int_equal(unlink(SANDBOX_PATH(&f->dir, "volumes/claims/" B)), 0);
	assert_int_equal(mkdir(SANDBOX_PATH(&f->dir, "volumes/claims/" B), 0700), 0);
	assert_true(claim(f, B, "data", false, NULL) < 0);
	assert_int_equal(info_of(f, "old").n_users, 1);
	assert_int_equal(info_of(f, "data").n_users, 0);
	/* and what could not be taken off is tried again */
	volume_store_release(f->store, B);
	run_jobs(f);
	assert_int_equal(rmdir(SANDBOX_PATH(&f->dir, "volumes/claims/" B)), 0);
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "volumes/claims/" B), "old rw\n", 7, 0600),
	        0);
	assert_int_equal(volume_store_refresh(f->store), 0);
	run_jobs(f);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/claims/" B), F_OK), -1);
	assert_int_equal(rmdir(SANDBOX_PATH(&f->dir, "volumes/claims/" A)), 0);
}

static void a_volume_somebody_has_open_is_not_destroyed(void **state)
{
	struct fixture *f = *state;
	struct volume_info info;

	make(f, "data", MIB);
	assert_int_equal(claim(f, A, "data", true, NULL), 0);
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_ABSENT, 0), 0);
	run_jobs(f);
	info = info_of(f, "data");
	assert_true(info.exists);
	assert_non_null(strstr(info.error.text, A));
	/* it goes by itself once the last user is gone */
	volume_store_release(f->store, A);
	run_jobs(f);
	assert_int_equal(volume_store_get(f->store, "data", &info), -ENOENT);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/data.raw"), F_OK), -1);
}

static void one_that_is_being_destroyed_cannot_be_claimed(void **state)
{
	struct fixture *f = *state;
	struct answer answer = { 0 };
	const struct volume_use use = { "data", false };

	make(f, "data", MIB);
	assert_int_equal(volume_store_want(f->store, "data", VOLUME_ABSENT, 0), 0);
	assert_int_equal(volume_store_claim(f->store, A, &use, 1, on_claimed, &answer, NULL), -ENOENT);
	run_jobs(f);
	assert_int_equal(answer.n, 0);
}

static void count_claim(const char *instance_id, void *userdata)
{
	assert_true(uuid_is_valid(instance_id));
	(*(size_t *)userdata)++;
}

static void what_is_so_is_written_down_even_when_two_write(void **state)
{
	struct fixture *f = *state;
	const struct volume_use use = { "data", false };
	size_t n = 0;

	make(f, "data", MIB);
	assert_int_equal(volume_store_adopt(f->store, A, &use, 1), 0);
	assert_int_equal(volume_store_adopt(f->store, B, &use, 1), 0);
	run_jobs(f);
	store_reopen(f);
	assert_int_equal(info_of(f, "data").n_users, 2);
	volume_store_each_claim(f->store, count_claim, &n);
	assert_int_equal(n, 2);
	assert_int_equal(volume_store_adopt(f->store, "../../etc", &use, 1), -EINVAL);
	const struct volume_use bad = { "a b", false };

	assert_int_equal(volume_store_adopt(f->store, A, &bad, 1), -EINVAL);
}

static void a_claim_that_cannot_be_read_stops_the_start(void **state)
{
	static const char *const TEXTS[] = { "data", "data\n", "data rw", "data xx\n", "DATA rw\n",
		"data rw\n\n", "\n" };
	struct fixture *f = *state;
	const struct volume_store_options options = {
		.pool = f->pool, .dir = f->volumes, .file_gid = (gid_t)-1
	};

	f->store = volume_store_free(f->store);
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
		struct err err = { 0 };

		assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "volumes/claims/" A),
		                         TEXTS[i], strlen(TEXTS[i]), 0600),
		        0);
		if (volume_store_open(&options, &f->store, &err) != -EBADMSG)
			fail_msg("'%s' was taken", TEXTS[i]);
		assert_non_null(strstr(err.text, "claims/" A));
	}
	assert_int_equal(unlink(SANDBOX_PATH(&f->dir, "volumes/claims/" A)), 0);
	/* what a crash left of a write is swept */
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, "volumes/claims/.x.0123456789abcdef.tmp"),
	                "x", 1, 0600),
	        0);
	store_open_with(f, 0);
	assert_int_equal(access(SANDBOX_PATH(&f->dir, "volumes/claims/.x.0123456789abcdef.tmp"), F_OK), -1);
}

TEST_SUITE(volume_store_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_volume_is_made_sparse),
		TEST(a_volume_grows_and_never_shrinks),
		TEST(the_last_of_several_wishes_holds),
		TEST(volumes_are_there_after_a_restart),
		TEST(a_disk_that_is_too_full),
		TEST(ids_are_checked),
		TEST(what_others_do_is_measured),
		TEST(all_are_listed_in_order),
		TEST(one_writer_at_most_and_no_reader_beside_it),
		TEST(a_claim_counts_before_it_is_on_disk),
		TEST(a_claim_is_all_or_nothing),
		TEST(a_claim_survives_a_restart),
		TEST(a_new_claim_takes_the_place_of_the_old),
		TEST(claims_and_releases_in_quick_succession_end_right),
		TEST(what_cannot_be_written_down_is_not_claimed),
		TEST(a_volume_somebody_has_open_is_not_destroyed),
		TEST(one_that_is_being_destroyed_cannot_be_claimed),
		TEST(what_is_so_is_written_down_even_when_two_write),
		TEST(a_claim_that_cannot_be_read_stops_the_start),
	};
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
