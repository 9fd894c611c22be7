#include "svc-converger/store.h"

#include "lib/base/cleanup.h"
#include "svc-converger/test/fault_vfs.h"
#include "svc-converger/test/store_print.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sqlite3.h>

struct fixture {
	char dir[64];
	char path[96];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/bc-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/state.db", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };
	char path[128];

	(void)umount(f->dir);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
		(void)unlink(path);
	}
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

static struct store *must_open(const char *path)
{
	struct store *store = NULL;
	struct err err = { 0 };

	if (store_open(path, &store, &err) < 0)
		fail_msg("%s", err_text(&err, err.code));
	return store;
}

static void must_commit(struct store *store, struct store_batch *batch)
{
	struct err err = { 0 };

	if (store_commit(store, &batch, 1, &err) < 0)
		fail_msg("%s", err_text(&err, err.code));
	store_batch_free(batch);
}

static void assert_holds(struct store *store, const char *expected)
{
	char text[STORE_PRINT_MAX];

	store_print(store, text);
	assert_string_equal(text, expected);
}

static struct store_batch *batch_with(const char *id, const char *spec)
{
	struct store_batch *batch = store_batch_new();

	assert_non_null(batch);
	store_batch_put_instance(batch,
	        &(struct store_instance){ .id = id, .spec = spec, .n_spec = strlen(spec), .revision = 7 });
	return batch;
}

static void store_keeps_what_was_committed(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->path);
	struct store_batch *batch = batch_with("b", "two");
	struct stat st;
	uint64_t number;
	char boot_id[64];
	CLEANUP_FREE void *node = NULL;
	size_t n_node;

	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(store_get_number(store, STORE_REVISION, &number, NULL), 0);
	assert_int_equal(number, 0);
	assert_int_equal(store_get_boot_id(store, boot_id, NULL), 0);
	assert_string_equal(boot_id, "");
	assert_int_equal(store_get_node(store, &node, &n_node, NULL), 0);
	assert_null(node);

	store_batch_put_instance(batch,
	        &(struct store_instance){ .id = "a",
	                .spec = "one",
	                .n_spec = 3,
	                .revision = UINT64_MAX,
	                .facts = { .recorded = true,
	                        .used_netd = true,
	                        .job = STORE_JOB_FAILED,
	                        .restarts = 5,
	                        .started_hash = 1,
	                        .nics_hash = UINT64_MAX } });
	store_batch_put_removal(batch,
	        &(struct store_removal){
	                .id = "c", .runtime = "fake", .allocation_id = "x", .uses_netd = true });
	store_batch_set_number(batch, STORE_REVISION, UINT64_MAX);
	store_batch_set_boot_id(batch, "boot");
	store_batch_set_node(batch, "node\0spec", 9);
	must_commit(store, batch);
	store_close(store);

	store = must_open(f->path);
	assert_holds(
	        store, "a=one@18446744073709551615,1n,3,5,1,ffffffffffffffff;b=two@7,0,0,0,0,0;-c:fake:x:1;");
	assert_int_equal(store_get_number(store, STORE_REVISION, &number, NULL), 0);
	assert_true(number == UINT64_MAX);
	assert_int_equal(store_get_boot_id(store, boot_id, NULL), 0);
	assert_string_equal(boot_id, "boot");
	assert_int_equal(store_get_node(store, &node, &n_node, NULL), 0);
	assert_int_equal(n_node, 9);
	assert_memory_equal(node, "node\0spec", 9);

	batch = store_batch_new();
	store_batch_drop_instance(batch, "a");
	store_batch_set_facts(batch, "b", &(struct store_facts){ .recorded = true, .restarts = 2 });
	store_batch_set_facts(batch, "nobody", &(struct store_facts){ .recorded = true });
	store_batch_drop_removal(batch, "c");
	store_batch_drop_removal(batch, "c");
	must_commit(store, batch);
	assert_holds(store, "b=two@7,1,0,2,0,0;");
	/* A new spec under the same id leaves the facts alone. */
	must_commit(store, batch_with("b", "three"));
	assert_holds(store, "b=three@7,1,0,2,0,0;");
	store_close(store);
}

static void store_is_held_by_one(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->path), *second = NULL;
	struct err err = { 0 };
	pid_t pid = fork();

	if (pid == 0) /* SQLite's locks are per process, so the second one is another process */
		_exit(store_open(f->path, &second, &err) == -EBUSY && strstr(err.text, "another process")
		                ? 0
		                : 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	store_close(store);
	store_close(must_open(f->path));
}

static void store_refuses_a_corrupted_file(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->path);
	struct err err = { 0 };
	char spec[3000];
	struct stat before, after;

	memset(spec, 'x', sizeof(spec) - 1);
	spec[sizeof(spec) - 1] = 0;
	for (int i = 0; i < 40; i++) {
		char id[8];
		(void)snprintf(id, sizeof(id), "i%d", i);
		must_commit(store, batch_with(id, spec));
	}
	store_close(store);

	CLEANUP_CLOSE int fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &before), 0);
	/* The middle of the file: table pages, not the header. */
	memset(spec, 0x5a, sizeof(spec));
	for (off_t at = 8192; at + (off_t)sizeof(spec) < before.st_size; at += 8192)
		assert_int_equal(pwrite(fd, spec, sizeof(spec), at), sizeof(spec));
	store = NULL;
	assert_int_equal(store_open(f->path, &store, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "state.db"));
	assert_null(store);

	assert_int_equal(pwrite(fd, "this is no database at all", 26, 0), 26);
	err = (struct err){ 0 };
	assert_int_equal(store_open(f->path, &store, &err), -EBADMSG);
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
}

/* What SQLite finds whole may still be nothing that was ever written by us. */
static void store_refuses_numbers_that_are_none(void **state)
{
	static const char *const VALUES[] = { "'abc'", "x'07'", "1.5" };
	struct fixture *f = *state;
	uint64_t number;

	for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++) {
		struct store *store = must_open(f->path);
		struct store_batch *batch = store_batch_new();
		struct err err = { 0 };
		sqlite3 *db = NULL;
		char sql[128];

		store_batch_set_number(batch, STORE_REVISION, 7);
		must_commit(store, batch);
		store_close(store);
		(void)snprintf(sql, sizeof(sql), "UPDATE meta SET value=%s WHERE key='revision'", VALUES[i]);
		assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_changes(db), 1);
		(void)sqlite3_close(db);
		store = must_open(f->path);
		assert_int_equal(store_get_number(store, STORE_REVISION, &number, &err), -EBADMSG);
		assert_non_null(strstr(err.text, "revision is no number"));
		store_close(store);
	}
}

static void store_says_where_it_cannot_be(void **state)
{
	struct fixture *f = *state;
	struct store *store = NULL;
	struct err err = { 0 };
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/nowhere/state.db", f->dir);
	assert_int_equal(store_open(path, &store, &err), -ENOENT);
	assert_non_null(strstr(err.text, "nowhere"));
	assert_null(store);
}

/* A full disk refuses the transaction as a whole, and the store goes on when there is room again. */
static void store_survives_a_full_disk(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	char spec[4096], fill[128];
	uint64_t number;
	int i;

	if (mount("tmpfs", f->dir, "tmpfs", 0, "size=1m") < 0)
		skip(); /* not root */
	struct store *store = must_open(f->path);
	struct store_batch *batch = batch_with("keep", "me");
	store_batch_set_number(batch, STORE_REVISION, 1);
	must_commit(store, batch);

	memset(spec, 'x', sizeof(spec) - 1);
	spec[sizeof(spec) - 1] = 0;
	(void)snprintf(fill, sizeof(fill), "%s/fill", f->dir);
	CLEANUP_CLOSE int fd = open(fill, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	while (write(fd, spec, sizeof(spec)) > 0)
		;
	batch = batch_with("new", spec);
	for (i = 0; i < 50; i++) {
		char id[8];
		(void)snprintf(id, sizeof(id), "i%d", i);
		store_batch_put_instance(batch,
		        &(struct store_instance){ .id = id, .spec = spec, .n_spec = sizeof(spec) - 1 });
	}
	store_batch_set_number(batch, STORE_REVISION, 2);
	assert_int_equal(store_commit(store, &batch, 1, &err), -ENOSPC);
	assert_holds(store, "keep=me@7,0,0,0,0,0;");
	assert_int_equal(store_get_number(store, STORE_REVISION, &number, NULL), 0);
	assert_int_equal(number, 1);

	assert_int_equal(unlink(fill), 0);
	(void)close(TAKE_FD(fd));
	must_commit(store, batch);
	assert_int_equal(store_get_number(store, STORE_REVISION, &number, NULL), 0);
	assert_int_equal(number, 2);
	store_close(store);
}

/* What was there, and what each test of a failing disk commits over it. */
static const char OLD[] = "a=one@7,0,0,0,0,0;b=two@7,0,0,0,0,0;-c:fake:x:1;",
                  NEW[] = "a=one@7,1,0,9,0,0;b=three@7,0,0,0,0,0;d=four@7,0,0,0,0,0;";

static void put_old(struct store *store)
{
	struct store_batch *batch = batch_with("a", "one");

	store_batch_put_instance(
	        batch, &(struct store_instance){ .id = "b", .spec = "two", .n_spec = 3, .revision = 7 });
	store_batch_put_removal(batch,
	        &(struct store_removal){
	                .id = "c", .runtime = "fake", .allocation_id = "x", .uses_netd = true });
	must_commit(store, batch);
}

/* Two batches of one transaction, as the lane has them. */
static int commit_new(struct store *store, struct err *err)
{
	struct store_batch *batches[] = { batch_with("b", "three"), batch_with("d", "four") };
	int r;

	store_batch_set_facts(batches[0], "a", &(struct store_facts){ .recorded = true, .restarts = 9 });
	store_batch_drop_removal(batches[1], "c");
	r = store_commit(store, batches, ARRAY_SIZE(batches), err);
	store_batch_free(batches[0]);
	store_batch_free(batches[1]);
	return r;
}

static void forget_files(const struct fixture *f)
{
	char wal[128];

	(void)snprintf(wal, sizeof(wal), "%s-wal", f->path);
	(void)unlink(f->path);
	(void)unlink(wal);
}

/* Full, or broken, at each change of the file that a commit makes: nothing of it is there, and it can be made again. */
static void a_commit_that_fails_is_none(void **state)
{
	struct fixture *f = *state;
	static const struct {
		int code, says;
	} faults[] = { { SQLITE_FULL, -ENOSPC }, { SQLITE_IOERR_WRITE, -EIO }, { SQLITE_IOERR_FSYNC, -EIO } };
	struct fault_vfs *vfs = fault_vfs_new();
	unsigned n_failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		bool is_over = false;

		for (unsigned nth = 1; !is_over; nth++) {
			struct store *store = must_open(f->path);
			struct err err = { 0 };
			int r;

			put_old(store);
			fault_vfs_arm(vfs, faults[i].code, nth, 1);
			r = commit_new(store, &err);
			is_over = fault_vfs_disarm(vfs) == 0;
			if (is_over) {
				assert_int_equal(r, 0);
			} else {
				n_failed++;
				assert_int_equal(r, faults[i].says);
				assert_non_null(strstr(err.text, f->path));
				assert_holds(store, OLD);
				assert_int_equal(commit_new(store, NULL), 0);
			}
			assert_holds(store, NEW);
			store_close(store);
			store = must_open(f->path);
			assert_holds(store, NEW);
			store_close(store);
			forget_files(f);
		}
	}
	assert_true(n_failed >= 2 * ARRAY_SIZE(faults));
	fault_vfs_free(vfs);
}

/* Killed at each change, or right after a disk refused it: what the next start finds is whole. */
static void a_commit_is_cut_nowhere(void **state)
{
	struct fixture *f = *state;
	static const int codes[] = { FAULT_KILL, SQLITE_FULL, SQLITE_IOERR_FSYNC };
	struct fault_vfs *vfs = fault_vfs_new();
	bool was_old = false, was_new = false;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		int status = -1;

		for (unsigned nth = 1; status != 0; nth++) {
			pid_t pid = fork();

			if (pid == 0) {
				struct store *child = must_open(f->path);

				put_old(child);
				fault_vfs_arm(vfs, codes[i], nth, FAULT_FOR_EVER);
				_exit(commit_new(child, NULL) == 0 ? 0 : 1);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
			struct store *store = must_open(f->path);
			char text[STORE_PRINT_MAX];

			store_print(store, text);
			was_old |= strcmp(text, OLD) == 0;
			was_new |= strcmp(text, NEW) == 0;
			if (status == 0 || strcmp(text, OLD) != 0)
				assert_string_equal(text, NEW);
			store_close(store);
			forget_files(f);
		}
	}
	assert_true(was_old && was_new);
	fault_vfs_free(vfs);
}

/* A committed batch survives SIGKILL of the writer, and a batch is there as a whole or not at all. */
static void store_survives_sigkill(void **state)
{
	struct fixture *f = *state;

	store_close(must_open(f->path));
	for (int round = 0; round < 10; round++) {
		int pipes[2];
		uint64_t told = 0, a, b, n;

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		pid_t pid = fork();
		if (pid == 0) {
			struct store *store = must_open(f->path);

			(void)store_get_number(store, STORE_REVISION, &n, NULL);
			for (n++;; n++) {
				struct store_batch *batch = store_batch_new();
				store_batch_set_number(batch, STORE_REVISION, n);
				store_batch_set_number(batch, STORE_DRAINING, n);
				must_commit(store, batch);
				if (write(pipes[1], &n, sizeof(n)) != sizeof(n))
					_exit(1);
			}
		}
		(void)close(pipes[1]);
		for (int i = 0; i <= round * 3; i++)
			assert_int_equal(read(pipes[0], &told, sizeof(told)), sizeof(told));
		assert_int_equal(kill(pid, SIGKILL), 0);
		while (read(pipes[0], &n, sizeof(n)) == sizeof(n))
			told = n;
		(void)close(pipes[0]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);

		struct store *store = must_open(f->path);
		assert_int_equal(store_get_number(store, STORE_REVISION, &a, NULL), 0);
		assert_int_equal(store_get_number(store, STORE_DRAINING, &b, NULL), 0);
		assert_true(a >= told);
		assert_true(a == b);
		store_close(store);
	}
}

TEST_SUITE(store_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(store_keeps_what_was_committed, setup, teardown),
		cmocka_unit_test_setup_teardown(store_is_held_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(store_refuses_a_corrupted_file, setup, teardown),
		cmocka_unit_test_setup_teardown(store_refuses_numbers_that_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(store_says_where_it_cannot_be, setup, teardown),
		cmocka_unit_test_setup_teardown(store_survives_a_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(a_commit_that_fails_is_none, setup, teardown),
		cmocka_unit_test_setup_teardown(a_commit_is_cut_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(store_survives_sigkill, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
