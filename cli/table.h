/* A table for people: columns as wide as their widest cell, two spaces between, headings in capitals. */
#pragma once

#include "cli/style.h"
#include "lib/base/cleanup.h"

struct table;

enum table_column_flags {
	TABLE_RIGHT = 1 << 0, /* numbers */
	TABLE_WIDE = 1 << 1,  /* shown with -o wide only */
};

/* NULL: no memory. */
struct table *table_new(void);
struct table *table_free(struct table *table);
CLEANUP_DEFINE(table, table_free)

/* Columns first, then rows: each row gets one cell per column, in order. What is printed is made safe. Running out
 * of memory is kept and told by table_print(). */
void table_column(struct table *table, const char *title, unsigned flags);
void table_cell(struct table *table, enum style style, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
size_t table_n_rows(const struct table *table);
/* Without rows only the headings, or nothing without headings. 0 or -errno. */
int table_print(const struct table *table, FILE *to, bool color, bool wide, bool headings);
