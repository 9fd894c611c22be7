/* SQLite in our words: -errno, and an err that names the file. Private to the store. */
#pragma once

#include "lib/base/err.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct store_sql {
	sqlite3 *db; /* owned by the store, as path is */
	char *path;  /* for messages */
};

/* sqlite_error has just come from db; what completes "cannot …". */
int store_sql_fail(const struct store_sql *sql, int sqlite_error, struct err *err, const char *what);
int store_sql_exec(const struct store_sql *sql, const char *text, struct err *err, const char *what);
/* The first column of the first row: as a number, as a text of size bytes; each may be NULL. */
int store_sql_first(const struct store_sql *sql, const char *text, int64_t *ret_number, char *ret_text,
        size_t size, struct err *err);
