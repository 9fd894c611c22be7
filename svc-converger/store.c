#include "svc-converger/store.h"

#include "lib/base/cleanup.h"
#include "svc-converger/store_schema.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum statement {
	PUT_INSTANCE,
	DROP_INSTANCE,
	SET_FACTS,
	PUT_REMOVAL,
	DROP_REMOVAL,
	SET_META,
	STATEMENT_MAX,
};

struct store {
	struct store_sql sql;                    /* owned */
	sqlite3_stmt *statements[STATEMENT_MAX]; /* owned */
};

enum { ID_MAX = 64, WORD_MAX = 136 };
enum { RECORDED = 1, RECORDED_NETD = 2 }; /* bits of the column recorded */

struct op {
	enum statement statement;
	char id[ID_MAX];
	union {
		struct {
			const void *spec; /* weak */
			size_t n_spec;
			uint64_t revision;
			struct store_facts facts;
		} instance;
		struct {
			char runtime[ID_MAX];
			char allocation_id[WORD_MAX];
			bool uses_netd;
		} removal;
		struct {
			bool is_number;
			uint64_t number;
			const void *blob; /* weak, or text below */
			size_t n_blob;
			char text[ID_MAX];
		} meta;
	};
};

struct store_batch {
	struct op *ops; /* owned */
	size_t n_ops, n_ops_max;
	bool no_memory;
};

static const char *const statement_sql[STATEMENT_MAX] = {
	[PUT_INSTANCE] =
	        "INSERT INTO instance(id, spec, revision, recorded, job, restarts, started_hash, nics_hash)"
	        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
	        " ON CONFLICT(id) DO UPDATE SET spec=?2, revision=?3",
	[DROP_INSTANCE] = "DELETE FROM instance WHERE id=?1",
	[SET_FACTS] = "UPDATE instance SET recorded=?4, job=?5, restarts=?6, started_hash=?7, nics_hash=?8"
	              " WHERE id=?1",
	[PUT_REMOVAL] = "INSERT OR REPLACE INTO removal(id, runtime, allocation_id, uses_netd)"
	                " VALUES(?1, ?2, ?3, ?4)",
	[DROP_REMOVAL] = "DELETE FROM removal WHERE id=?1",
	[SET_META] = "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)",
};

static const char *const meta_keys[STORE_META_MAX] = {
	[STORE_REVISION] = "revision",
	[STORE_HAS_INSTANCES] = "has_instances",
	[STORE_DRAINING] = "draining",
};

static int store_check(struct store *store, struct err *err)
{
	char text[256];
	int r = store_sql_first(&store->sql, "PRAGMA quick_check(1)", NULL, text, sizeof(text), err);

	if (r < 0)
		return r;
	if (strcmp(text, "ok") != 0)
		return err_set(err, -EBADMSG, "%s: is corrupted: %s", store->sql.path, text);
	return 0;
}

static int store_prepare(struct store *store, struct err *err)
{
	for (size_t i = 0; i < STATEMENT_MAX; i++) {
		int r = sqlite3_prepare_v3(store->sql.db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
		        &store->statements[i], NULL);

		if (r != SQLITE_OK)
			return store_sql_fail(&store->sql, r, err, "use it");
	}
	return 0;
}

static int store_begin(struct store *store, struct err *err)
{
	char mode[16];
	/* The lock is held from the first read on: two convergers on one state would undo each other. */
	int r = store_sql_exec(
	        &store->sql, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-256", err, "lock it");

	if (r == 0)
		r = store_sql_first(&store->sql, "PRAGMA journal_mode=WAL", NULL, mode, sizeof(mode), err);
	if (r < 0)
		return r == -EBUSY ? err_wrap(err, "another process has it") : r;
	if (strcmp(mode, "wal") != 0)
		return err_set(
		        err, -EIO, "%s: cannot be put in WAL mode (it stays in %s)", store->sql.path, mode);
	r = store_sql_exec(
	        &store->sql, "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=4194304", err, "set it up");
	if (r == 0)
		r = store_check(store, err);
	if (r == 0)
		r = store_schema_migrate(&store->sql, &store_schema, err);
	if (r == 0)
		r = store_prepare(store, err);
	return r;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
	struct store *store = calloc(1, sizeof(*store));
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	if (!store)
		return -ENOMEM;
	store->sql.path = strdup(path);
	if (!store->sql.path) {
		free(store);
		return -ENOMEM;
	}
	/* Made here so that its mode does not depend on the umask: the spec is nobody else's business. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		r = err_set(err, -errno, "%s: cannot open it: %s", path, strerror(errno));
		store_close(store);
		return r;
	}
	r = sqlite3_open_v2(path, &store->sql.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL);
	if (r != SQLITE_OK)
		r = store->sql.db ? store_sql_fail(&store->sql, r, err, "open it") : -ENOMEM;
	else
		r = store_begin(store, err);
	if (r < 0) {
		store_close(store);
		return r;
	}
	*ret = store;
	return 0;
}

struct store *store_close(struct store *store)
{
	if (!store)
		return NULL;
	for (size_t i = 0; i < STATEMENT_MAX; i++)
		(void)sqlite3_finalize(store->statements[i]);
	(void)sqlite3_close(store->sql.db);
	free(store->sql.path);
	free(store);
	return NULL;
}

/* --- loading --- */

static const char *column_text(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return text ? text : "";
}

static int on_instance_row(
        sqlite3_stmt *row, const struct store_handlers *handlers, void *userdata, struct err *err)
{
	int64_t job = sqlite3_column_int64(row, 4);
	struct store_instance instance = {
		.id = column_text(row, 0),
		.spec = sqlite3_column_blob(row, 1),
		.n_spec = (size_t)sqlite3_column_bytes(row, 1),
		.revision = (uint64_t)sqlite3_column_int64(row, 2),
		.facts = {
			.recorded = (sqlite3_column_int(row, 3) & RECORDED) != 0,
			.used_netd = (sqlite3_column_int(row, 3) & RECORDED_NETD) != 0,
			.job = job >= 0 && job < STORE_JOB_MAX ? (enum store_job)job : STORE_JOB_NONE,
			.restarts = (uint32_t)sqlite3_column_int64(row, 5),
			.started_hash = (uint64_t)sqlite3_column_int64(row, 6),
			.nics_hash = (uint64_t)sqlite3_column_int64(row, 7),
		},
	};

	return handlers->on_instance(&instance, userdata, err);
}

static int on_removal_row(
        sqlite3_stmt *row, const struct store_handlers *handlers, void *userdata, struct err *err)
{
	struct store_removal removal = {
		.id = column_text(row, 0),
		.runtime = column_text(row, 1),
		.allocation_id = column_text(row, 2),
		.uses_netd = sqlite3_column_int(row, 3) != 0,
	};

	return handlers->on_removal(&removal, userdata, err);
}

static int store_each(struct store *store, const char *sql,
        int (*on_row)(
                sqlite3_stmt *row, const struct store_handlers *handlers, void *userdata, struct err *err),
        const struct store_handlers *handlers, void *userdata, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = sqlite3_prepare_v2(store->sql.db, sql, -1, &statement, NULL);

	if (r != SQLITE_OK)
		return store_sql_fail(&store->sql, r, err, "read it");
	for (;;) {
		r = sqlite3_step(statement);
		if (r != SQLITE_ROW)
			break;
		int handled = on_row(statement, handlers, userdata, err);
		if (handled < 0) {
			(void)sqlite3_finalize(statement);
			return err_wrap(err, "%s", store->sql.path), handled;
		}
	}
	r = r == SQLITE_DONE ? 0 : store_sql_fail(&store->sql, r, err, "read it");
	(void)sqlite3_finalize(statement);
	return r;
}

int store_load(struct store *store, const struct store_handlers *handlers, void *userdata, struct err *err)
{
	int r = store_each(store,
	        "SELECT id, spec, revision, recorded, job, restarts, started_hash, nics_hash FROM instance ORDER BY id",
	        on_instance_row, handlers, userdata, err);

	if (r == 0)
		r = store_each(store, "SELECT id, runtime, allocation_id, uses_netd FROM removal ORDER BY id",
		        on_removal_row, handlers, userdata, err);
	return r;
}

static int store_get_meta(struct store *store, const char *key, sqlite3_stmt **ret, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = sqlite3_prepare_v2(
	        store->sql.db, "SELECT value FROM meta WHERE key=?1", -1, &statement, NULL);

	if (r == SQLITE_OK)
		r = sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	if (r == SQLITE_OK)
		r = sqlite3_step(statement);
	if (r == SQLITE_ROW) {
		*ret = statement;
		return 1;
	}
	r = r == SQLITE_DONE ? 0 : store_sql_fail(&store->sql, r, err, "read it");
	(void)sqlite3_finalize(statement);
	return r;
}

int store_get_number(struct store *store, enum store_meta meta, uint64_t *ret, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = store_get_meta(store, meta_keys[meta], &statement, err);

	if (r < 0)
		return r;
	/* SQLite would make 0 of anything, and an old spec acceptable again. */
	if (r && sqlite3_column_type(statement, 0) != SQLITE_INTEGER)
		r = err_set(err, -EBADMSG, "%s: is corrupted: its %s is no number", store->sql.path,
		        meta_keys[meta]);
	else
		*ret = r ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
	(void)sqlite3_finalize(statement);
	return r < 0 ? r : 0;
}

int store_get_node(struct store *store, void **ret, size_t *ret_size, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	void *copy = NULL;
	size_t size = 0;
	int r = store_get_meta(store, "node", &statement, err);

	if (r < 0)
		return r;
	if (r) {
		const void *blob = sqlite3_column_blob(statement, 0);

		size = (size_t)sqlite3_column_bytes(statement, 0);
		if (size) {
			copy = malloc(size);
			if (copy)
				memcpy(copy, blob, size);
		}
	}
	(void)sqlite3_finalize(statement);
	if (size && !copy)
		return -ENOMEM;
	*ret = copy;
	*ret_size = size;
	return 0;
}

int store_get_boot_id(struct store *store, char ret[static 64], struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = store_get_meta(store, "boot_id", &statement, err);

	if (r < 0)
		return r;
	(void)snprintf(ret, 64, "%s", r ? column_text(statement, 0) : "");
	(void)sqlite3_finalize(statement);
	return 0;
}

/* --- batches --- */

struct store_batch *store_batch_new(void)
{
	return calloc(1, sizeof(struct store_batch));
}

struct store_batch *store_batch_free(struct store_batch *batch)
{
	if (!batch)
		return NULL;
	free(batch->ops);
	free(batch);
	return NULL;
}

static struct op *batch_add(struct store_batch *batch, enum statement statement, const char *id)
{
	if (batch->n_ops == batch->n_ops_max) {
		size_t n_max = batch->n_ops_max ? batch->n_ops_max * 2 : 4;
		struct op *ops = reallocarray(batch->ops, n_max, sizeof(*ops));

		if (!ops) {
			batch->no_memory = true;
			return NULL;
		}
		batch->ops = ops;
		batch->n_ops_max = n_max;
	}
	struct op *op = &batch->ops[batch->n_ops++];

	*op = (struct op){ .statement = statement };
	(void)snprintf(op->id, sizeof(op->id), "%s", id);
	return op;
}

void store_batch_put_instance(struct store_batch *batch, const struct store_instance *instance)
{
	struct op *op = batch_add(batch, PUT_INSTANCE, instance->id);

	if (!op)
		return;
	op->instance.spec = instance->spec;
	op->instance.n_spec = instance->n_spec;
	op->instance.revision = instance->revision;
	op->instance.facts = instance->facts;
}

void store_batch_drop_instance(struct store_batch *batch, const char *id)
{
	(void)batch_add(batch, DROP_INSTANCE, id);
}

void store_batch_set_facts(struct store_batch *batch, const char *id, const struct store_facts *facts)
{
	struct op *op = batch_add(batch, SET_FACTS, id);

	if (op)
		op->instance.facts = *facts;
}

void store_batch_put_removal(struct store_batch *batch, const struct store_removal *removal)
{
	struct op *op = batch_add(batch, PUT_REMOVAL, removal->id);

	if (!op)
		return;
	(void)snprintf(op->removal.runtime, sizeof(op->removal.runtime), "%s", removal->runtime);
	(void)snprintf(
	        op->removal.allocation_id, sizeof(op->removal.allocation_id), "%s", removal->allocation_id);
	op->removal.uses_netd = removal->uses_netd;
}

void store_batch_drop_removal(struct store_batch *batch, const char *id)
{
	(void)batch_add(batch, DROP_REMOVAL, id);
}

void store_batch_set_number(struct store_batch *batch, enum store_meta meta, uint64_t value)
{
	struct op *op = batch_add(batch, SET_META, meta_keys[meta]);

	if (!op)
		return;
	op->meta.is_number = true;
	op->meta.number = value;
}

void store_batch_set_node(struct store_batch *batch, const void *node, size_t size)
{
	struct op *op = batch_add(batch, SET_META, "node");

	if (!op)
		return;
	op->meta.blob = node;
	op->meta.n_blob = size;
}

void store_batch_set_boot_id(struct store_batch *batch, const char *boot_id)
{
	struct op *op = batch_add(batch, SET_META, "boot_id");

	if (op)
		(void)snprintf(op->meta.text, sizeof(op->meta.text), "%s", boot_id);
}

/* --- committing --- */

static int bind_facts(sqlite3_stmt *s, const struct store_facts *facts)
{
	int r = sqlite3_bind_int(
	        s, 4, (facts->recorded ? RECORDED : 0) | (facts->used_netd ? RECORDED_NETD : 0));

	if (r == SQLITE_OK)
		r = sqlite3_bind_int(s, 5, (int)facts->job);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(s, 6, facts->restarts);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(s, 7, (sqlite3_int64)facts->started_hash);
	if (r == SQLITE_OK)
		r = sqlite3_bind_int64(s, 8, (sqlite3_int64)facts->nics_hash);
	return r;
}

static int bind_meta(sqlite3_stmt *s, const struct op *op)
{
	if (op->meta.is_number)
		return sqlite3_bind_int64(s, 2, (sqlite3_int64)op->meta.number);
	if (op->meta.text[0])
		return sqlite3_bind_text(s, 2, op->meta.text, -1, SQLITE_STATIC);
	return sqlite3_bind_blob64(
	        s, 2, op->meta.n_blob ? op->meta.blob : "", op->meta.n_blob, SQLITE_STATIC);
}

static int bind_op(sqlite3_stmt *s, const struct op *op)
{
	int r = sqlite3_bind_text(s, 1, op->id, -1, SQLITE_STATIC);

	if (r != SQLITE_OK)
		return r;
	switch (op->statement) {
	case PUT_INSTANCE:
		r = sqlite3_bind_blob64(s, 2, op->instance.n_spec ? op->instance.spec : "",
		        op->instance.n_spec, SQLITE_STATIC);
		if (r == SQLITE_OK)
			r = sqlite3_bind_int64(s, 3, (sqlite3_int64)op->instance.revision);
		return r == SQLITE_OK ? bind_facts(s, &op->instance.facts) : r;
	case SET_FACTS:
		return bind_facts(s, &op->instance.facts);
	case PUT_REMOVAL:
		r = sqlite3_bind_text(s, 2, op->removal.runtime, -1, SQLITE_STATIC);
		if (r == SQLITE_OK)
			r = sqlite3_bind_text(s, 3, op->removal.allocation_id, -1, SQLITE_STATIC);
		return r == SQLITE_OK ? sqlite3_bind_int(s, 4, op->removal.uses_netd) : r;
	case SET_META:
		return bind_meta(s, op);
	case DROP_INSTANCE:
	case DROP_REMOVAL:
	case STATEMENT_MAX:
		break;
	}
	return SQLITE_OK;
}

static int store_run(struct store *store, const struct op *op, struct err *err)
{
	sqlite3_stmt *s = store->statements[op->statement];
	int r = bind_op(s, op);

	if (r == SQLITE_OK)
		r = sqlite3_step(s);
	r = r == SQLITE_DONE ? 0 : store_sql_fail(&store->sql, r, err, "write to it");
	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
	return r;
}

int store_commit(struct store *store, struct store_batch *const *batches, size_t n, struct err *err)
{
	int r;

	for (size_t b = 0; b < n; b++)
		if (batches[b]->no_memory)
			return err_set(err, -ENOMEM, "out of memory");
	r = store_sql_exec(&store->sql, "BEGIN IMMEDIATE", err, "write to it");
	for (size_t b = 0; b < n && r == 0; b++)
		for (size_t i = 0; i < batches[b]->n_ops && r == 0; i++)
			r = store_run(store, &batches[b]->ops[i], err);
	if (r == 0)
		r = store_sql_exec(&store->sql, "COMMIT", err, "commit to it");
	if (r < 0)
		(void)sqlite3_exec(store->sql.db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}
