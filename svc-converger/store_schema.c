#include "svc-converger/store_schema.h"

#include "lib/base/cleanup.h"

#include <stdio.h>

static const char *const steps[] = {
	"CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID;"
	"CREATE TABLE instance("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  spec BLOB NOT NULL,"
	"  revision INTEGER NOT NULL,"
	"  recorded INTEGER NOT NULL DEFAULT 0,"
	"  job INTEGER NOT NULL DEFAULT 0,"
	"  restarts INTEGER NOT NULL DEFAULT 0,"
	"  started_hash INTEGER NOT NULL DEFAULT 0,"
	"  nics_hash INTEGER NOT NULL DEFAULT 0"
	");"
	"CREATE TABLE removal("
	"  id TEXT PRIMARY KEY NOT NULL,"
	"  runtime TEXT NOT NULL,"
	"  allocation_id TEXT NOT NULL,"
	"  uses_netd INTEGER NOT NULL"
	") WITHOUT ROWID;",
};

const struct store_schema store_schema = { .steps = steps, .n_steps = ARRAY_SIZE(steps) };

static int schema_step_all(
        const struct store_sql *sql, const struct store_schema *schema, size_t version, struct err *err)
{
	char bump[64];
	int r = 0;

	for (; version < schema->n_steps && r == 0; version++)
		r = store_sql_exec(sql, schema->steps[version], err, "migrate its schema");
	(void)snprintf(bump, sizeof(bump), "PRAGMA user_version=%zu", schema->n_steps);
	if (r == 0)
		r = store_sql_exec(sql, bump, err, "migrate its schema");
	return r;
}

int store_schema_migrate(const struct store_sql *sql, const struct store_schema *schema, struct err *err)
{
	int64_t version;
	int r = store_sql_first(sql, "PRAGMA user_version", &version, NULL, 0, err);

	if (r < 0)
		return r;
	if (version < 0 || version > (int64_t)schema->n_steps)
		return err_set(err, -EPROTO,
		        "%s: has schema %lld, this version knows up to %zu: it was written by a newer bc-converger; "
		        "start that one, or move the file away to begin anew",
		        sql->path, (long long)version, schema->n_steps);
	if (version == (int64_t)schema->n_steps)
		return 0;
	r = store_sql_exec(sql, "BEGIN IMMEDIATE", err, "begin a migration");
	if (r == 0)
		r = schema_step_all(sql, schema, (size_t)version, err);
	if (r == 0)
		r = store_sql_exec(sql, "COMMIT", err, "commit a migration");
	if (r < 0)
		(void)sqlite3_exec(sql->db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}
