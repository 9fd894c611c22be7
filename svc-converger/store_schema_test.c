#include "svc-converger/store_schema.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/sha256.h"
#include "svc-converger/store.h"
#include "svc-converger/test/fault_vfs.h"
#include "svc-converger/test/store_print.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A released step is what state.db files out there were made with. One that is edited fails here: write another step
 * at the end instead, and its digest here. */
static const char *const released[] = {
	"sha256:97645a59519abb60aaddd1bfd95d63166097461b5e0da63a1c6e1b1ecdb90089",
};

/* What each version may have left on a disk, by version, and what the present one reads in it. A new step needs a row
 * for the version it ends. */
static const struct {
	const char *rows, *reads;
} left_by[] = {
	{ "", "" }, /* a file that was made and no more */
	{ "INSERT INTO meta VALUES('revision', 7), ('has_instances', 1), ('boot_id', 'boot');"
	  "INSERT INTO instance VALUES('a', x'6f6e65', 7, 3, 1, 5, -1, 9), ('b', x'74776f', 6, 0, 0, 0, 0, 0);"
	  "INSERT INTO removal VALUES('c', 'fake', 'x', 1);",
	        "a=one@7,1n,1,5,ffffffffffffffff,9;b=two@6,0,0,0,0,0;-c:fake:x:1;revision 7, boot" },
};

/* What the next real one may look like: it changes tables and rows. */
static const char MADE_UP[] = "ALTER TABLE instance ADD COLUMN made_up INTEGER NOT NULL DEFAULT 7;"
                              "UPDATE instance SET made_up=made_up+revision;"
                              "CREATE TABLE made_up(id TEXT PRIMARY KEY NOT NULL);"
                              "INSERT INTO made_up SELECT id FROM removal;";

enum { STEPS_MAX = 64 };

struct fixture {
	char dir[64], path[96];
	struct fault_vfs *vfs;
	const char *steps[STEPS_MAX];
	struct store_schema next; /* the present one and a step more */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/bc-schema-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/state.db", f->dir);
	f->vfs = fault_vfs_new();
	assert_true(store_schema.n_steps < STEPS_MAX);
	memcpy(f->steps, store_schema.steps, store_schema.n_steps * sizeof(f->steps[0]));
	f->steps[store_schema.n_steps] = MADE_UP;
	f->next = (struct store_schema){ .steps = f->steps, .n_steps = store_schema.n_steps + 1 };
	*state = f;
	return 0;
}

static void forget(struct fixture *f)
{
	static const char *const suffixes[] = { "", "-wal", "-journal" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
		(void)unlink(path);
	}
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	forget(f);
	(void)rmdir(f->dir);
	fault_vfs_free(f->vfs);
	free(f);
	return 0;
}

/* As store_open() has it. */
static struct store_sql must_begin(struct fixture *f)
{
	struct store_sql sql = { .path = f->path };

	assert_int_equal(sqlite3_open(f->path, &sql.db), SQLITE_OK);
	assert_int_equal(
	        store_sql_exec(&sql,
	                "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
	                NULL, ""),
	        0);
	return sql;
}

static int64_t number(const struct store_sql *sql, const char *text)
{
	int64_t found = -1;

	assert_int_equal(store_sql_first(sql, text, &found, NULL, 0, NULL), 0);
	return found;
}

/* A file as this version left it. */
static void leave(struct fixture *f, size_t version)
{
	struct store_schema then = { .steps = store_schema.steps, .n_steps = version };
	struct store_sql sql;

	forget(f);
	sql = must_begin(f);
	assert_int_equal(store_schema_migrate(&sql, &then, NULL), 0);
	assert_int_equal(store_sql_exec(&sql, left_by[version].rows, NULL, ""), 0);
	assert_int_equal(number(&sql, "PRAGMA user_version"), version);
	assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
}

/* Opened as the service opens it, and all of it read. */
static void assert_reads(struct fixture *f, const char *expected)
{
	struct err err = { 0 };
	struct store *store = NULL;
	char text[STORE_PRINT_MAX], boot_id[64];
	uint64_t revision;

	if (store_open(f->path, &store, &err) < 0)
		fail_msg("%s", err_text(&err, err.code));
	store_print(store, text);
	assert_int_equal(store_get_number(store, STORE_REVISION, &revision, NULL), 0);
	assert_int_equal(store_get_boot_id(store, boot_id, NULL), 0);
	if (*text)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "revision %llu, %s",
		        (unsigned long long)revision, boot_id);
	assert_string_equal(text, expected);
	store_close(store);
}

static void assert_is_next(const struct store_sql *sql, const struct fixture *f, bool has_rows)
{
	assert_int_equal(number(sql, "PRAGMA user_version"), f->next.n_steps);
	assert_int_equal(number(sql, "SELECT count(*) FROM instance"), has_rows ? 2 : 0);
	assert_int_equal(number(sql, "SELECT total(made_up=revision+7) FROM instance"), has_rows ? 2 : 0);
	assert_int_equal(number(sql, "SELECT count(*) FROM made_up"), has_rows ? 1 : 0);
}

/* --- */

static void a_released_step_is_never_edited(void **state)
{
	(void)state;
	assert_int_equal(ARRAY_SIZE(released), store_schema.n_steps);
	for (size_t i = 0; i < store_schema.n_steps; i++) {
		struct sha256_stream *stream = NULL;
		char digest[SHA256_DIGEST_MAX];

		assert_int_equal(sha256_stream_new(&stream), 0);
		assert_int_equal(
		        sha256_stream_add(stream, store_schema.steps[i], strlen(store_schema.steps[i])), 0);
		assert_int_equal(sha256_stream_digest(stream, digest), 0);
		sha256_stream_free(stream);
		assert_string_equal(digest, released[i]);
	}
}

static void every_earlier_version_becomes_the_present_one(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ARRAY_SIZE(left_by), store_schema.n_steps + 1);
	for (size_t version = 0; version <= store_schema.n_steps; version++) {
		leave(f, version);
		assert_reads(f, left_by[version].reads);
		assert_reads(f, left_by[version].reads);
	}
}

static void every_version_becomes_one_that_is_yet_to_come(void **state)
{
	struct fixture *f = *state;

	for (size_t version = 0; version <= store_schema.n_steps; version++) {
		leave(f, version);
		struct store_sql sql = must_begin(f);
		assert_int_equal(store_schema_migrate(&sql, &f->next, NULL), 0);
		assert_is_next(&sql, f, version > 0);
		/* Done once. */
		assert_int_equal(store_schema_migrate(&sql, &f->next, NULL), 0);
		assert_is_next(&sql, f, version > 0);
		assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
	}
}

static void a_newer_version_is_refused_and_left_alone(void **state)
{
	struct fixture *f = *state;
	CLEANUP_FREE char *before = NULL, *after = NULL;
	size_t n_before, n_after;
	char says[64];
	struct err err = { 0 };
	struct store *store = NULL;

	leave(f, store_schema.n_steps);
	struct store_sql sql = must_begin(f);
	assert_int_equal(store_schema_migrate(&sql, &f->next, NULL), 0);
	assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
	assert_int_equal(file_read(AT_FDCWD, f->path, 1 << 20, &before, &n_before), 0);
	assert_int_equal(store_open(f->path, &store, &err), -EPROTO);
	assert_null(store);
	(void)snprintf(says, sizeof(says), "has schema %zu, this version knows up to %zu", f->next.n_steps,
	        store_schema.n_steps);
	assert_non_null(strstr(err.text, f->path));
	assert_non_null(strstr(err.text, says));
	assert_non_null(strstr(err.text, "newer bc-converger"));
	assert_int_equal(file_read(AT_FDCWD, f->path, 1 << 20, &after, &n_after), 0);
	assert_int_equal(n_before, n_after);
	assert_memory_equal(before, after, n_before);
}

/* A later step that cannot be made takes those before it back with it. */
static void a_migration_that_fails_leaves_the_old_file(void **state)
{
	struct fixture *f = *state;

	f->steps[f->next.n_steps++] = "CREATE TABLE later(x); INSERT INTO nowhere VALUES(1);";
	for (size_t version = 0; version <= store_schema.n_steps; version++) {
		struct err err = { 0 };

		leave(f, version);
		struct store_sql sql = must_begin(f);
		assert_int_equal(store_schema_migrate(&sql, &f->next, &err), -EIO);
		assert_non_null(strstr(err.text, "cannot migrate its schema: no such table: nowhere"));
		assert_int_equal(number(&sql, "PRAGMA user_version"), version);
		assert_int_equal(
		        number(&sql, "SELECT count(*) FROM sqlite_schema WHERE name IN ('made_up', 'later')"),
		        0);
		assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
		assert_reads(f, left_by[version].reads);
	}
}

/* True when it came to its end. */
static bool migrate_cut(struct fixture *f, int code, unsigned nth)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store_sql sql = must_begin(f);

		fault_vfs_arm(f->vfs, code, nth, FAULT_FOR_EVER);
		_exit(store_schema_migrate(&sql, &f->next, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Killed, or without a disk, at each change of the file: what is found is the old one or the new one, whole, and it is
 * gone on from there. */
static void a_migration_may_be_cut_anywhere(void **state)
{
	struct fixture *f = *state;
	static const int codes[] = { FAULT_KILL, SQLITE_FULL, SQLITE_IOERR_WRITE };
	unsigned n_cut = 0;

	for (size_t version = 0; version <= store_schema.n_steps; version++)
		for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
			bool is_over = false;

			for (unsigned nth = 1; !is_over; nth++) {
				leave(f, version);
				is_over = migrate_cut(f, codes[i], nth);
				n_cut += !is_over;
				struct store_sql sql = must_begin(f);
				if (number(&sql, "PRAGMA user_version") == (int64_t)f->next.n_steps) {
					assert_is_next(&sql, f, version > 0);
				} else {
					assert_false(is_over);
					assert_int_equal(number(&sql, "PRAGMA user_version"), version);
					assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
					assert_reads(f, left_by[version].reads);
					sql = must_begin(f);
				}
				assert_int_equal(store_schema_migrate(&sql, &f->next, NULL), 0);
				assert_is_next(&sql, f, version > 0);
				assert_int_equal(sqlite3_close(sql.db), SQLITE_OK);
			}
		}
	assert_true(n_cut > 2 * ARRAY_SIZE(codes));
}

TEST_SUITE(store_schema_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_released_step_is_never_edited),
		TEST(every_earlier_version_becomes_the_present_one),
		TEST(every_version_becomes_one_that_is_yet_to_come),
		TEST(a_newer_version_is_refused_and_left_alone),
		TEST(a_migration_that_fails_leaves_the_old_file),
		TEST(a_migration_may_be_cut_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
