#include "svc-converger/store_sql.h"

#include <errno.h>
#include <stdio.h>

static int errno_from_sqlite(int r)
{
	switch (r & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
	case SQLITE_MISMATCH:
		return -EBADMSG;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_CANTOPEN:
		return -EACCES;
	default:
		return -EIO;
	}
}

int store_sql_fail(const struct store_sql *sql, int sqlite_error, struct err *err, const char *what)
{
	int r = errno_from_sqlite(sqlite_error);

	if (r == -EBADMSG)
		return err_set(err, r,
		        "%s: is corrupted: %s; put a copy in its place, or move it away and apply the spec anew: VMs run on meanwhile",
		        sql->path, sqlite3_errmsg(sql->db));
	return err_set(err, r ? r : -EIO, "%s: cannot %s: %s", sql->path, what, sqlite3_errmsg(sql->db));
}

int store_sql_exec(const struct store_sql *sql, const char *text, struct err *err, const char *what)
{
	int r = sqlite3_exec(sql->db, text, NULL, NULL, NULL);

	return r == SQLITE_OK ? 0 : store_sql_fail(sql, r, err, what);
}

int store_sql_first(const struct store_sql *sql, const char *text, int64_t *ret_number, char *ret_text,
        size_t size, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = sqlite3_prepare_v2(sql->db, text, -1, &statement, NULL);

	if (r == SQLITE_OK)
		r = sqlite3_step(statement);
	if (r != SQLITE_ROW) {
		r = store_sql_fail(sql, r, err, "read it");
		(void)sqlite3_finalize(statement);
		return r;
	}
	if (ret_number)
		*ret_number = sqlite3_column_int64(statement, 0);
	if (ret_text) {
		const char *found = (const char *)sqlite3_column_text(statement, 0);

		(void)snprintf(ret_text, size, "%s", found ? found : "");
	}
	(void)sqlite3_finalize(statement);
	return 0;
}
