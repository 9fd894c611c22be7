/* The schema of state.db, and how an older one becomes the present one. */
#pragma once

#include "svc-converger/store_sql.h"

struct store_schema {
	const char *const *steps; /* step i brings version i to i + 1 */
	size_t n_steps;           /* the present version */
};

/* Released steps are never edited: a change of the schema is one more at the end. */
extern const struct store_schema store_schema;

/* Brings a database up to the present version in one transaction: on failure it is what it was. -EPROTO: a newer
 * version wrote it. */
int store_schema_migrate(const struct store_sql *sql, const struct store_schema *schema, struct err *err);
