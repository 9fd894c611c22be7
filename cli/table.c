#include "cli/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

enum { COLUMNS_MAX = 24 };

struct cell {
	char *text; /* owned */
	enum style style;
};

struct table {
	const char *titles[COLUMNS_MAX]; /* weak */
	unsigned flags[COLUMNS_MAX];
	size_t n_columns;
	struct cell *cells; /* owned; row by row */
	size_t n_cells, n_room;
	int r; /* the first failure */
};

struct table *table_new(void)
{
	return calloc(1, sizeof(struct table));
}

struct table *table_free(struct table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
	return NULL;
}

void table_column(struct table *table, const char *title, unsigned flags)
{
	if (table->n_columns == COLUMNS_MAX) {
		table->r = -E2BIG;
		return;
	}
	table->titles[table->n_columns] = title;
	table->flags[table->n_columns++] = flags;
}

static bool table_grow(struct table *table)
{
	if (table->n_cells < table->n_room)
		return true;

	size_t n = table->n_room ? table->n_room * 2 : 64;
	struct cell *cells = reallocarray(table->cells, n, sizeof(*cells));

	if (!cells)
		return false;
	table->cells = cells;
	table->n_room = n;
	return true;
}

void table_cell(struct table *table, enum style style, const char *fmt, ...)
{
	CLEANUP_FREE char *raw = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&raw, fmt, ap);
	va_end(ap);
	if (n < 0)
		raw = NULL;

	char *text = raw ? style_safe(raw) : NULL;

	if (!text || !table_grow(table)) {
		free(text);
		table->r = -ENOMEM;
		return;
	}
	table->cells[table->n_cells++] = (struct cell){ .text = text, .style = style };
}

size_t table_n_rows(const struct table *table)
{
	return table->n_columns ? table->n_cells / table->n_columns : 0;
}

static void cell_print(FILE *to, const struct cell *cell, unsigned flags, size_t width, bool last, bool color)
{
	int pad = (int)(width - style_width(cell->text));
	int left = flags & TABLE_RIGHT ? pad : 0;
	int right = flags & TABLE_RIGHT || last ? 0 : pad;

	(void)fprintf(to, "%*s%s%s%s%*s%s", left, "", style_begin(cell->style, color), cell->text,
	        style_end(cell->style, color), right, "", last ? "\n" : "  ");
}

static bool is_shown(const struct table *table, size_t column, bool wide)
{
	return wide || !(table->flags[column] & TABLE_WIDE);
}

/* row 0 is the headings. Behind the last cell that says something the line ends. */
static void row_print(
        const struct table *table, size_t row, const size_t *widths, FILE *to, bool color, bool wide)
{
	struct cell cells[COLUMNS_MAX];
	size_t last = 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		if (row == 0)
			cells[i] = (struct cell){ .text = (char *)(uintptr_t)table->titles[i],
				.style = STYLE_BOLD };
		else
			cells[i] = table->cells[(row - 1) * table->n_columns + i];
		if (is_shown(table, i, wide) && cells[i].text[0])
			last = i;
	}
	for (size_t i = 0; i <= last && i < table->n_columns; i++)
		if (is_shown(table, i, wide))
			cell_print(to, &cells[i], table->flags[i], widths[i], i == last, color);
}

int table_print(const struct table *table, FILE *to, bool color, bool wide, bool headings)
{
	size_t widths[COLUMNS_MAX] = { 0 };
	size_t n_rows = table_n_rows(table);

	if (table->r < 0)
		return table->r;
	for (size_t i = 0; i < table->n_columns; i++) {
		widths[i] = headings ? style_width(table->titles[i]) : 0;
		for (size_t row = 0; row < n_rows; row++) {
			size_t n = style_width(table->cells[row * table->n_columns + i].text);

			widths[i] = n > widths[i] ? n : widths[i];
		}
	}
	for (size_t row = headings ? 0 : 1; row <= n_rows; row++)
		row_print(table, row, widths, to, color, wide);
	return 0; /* whether it was written is seen once, at the end */
}
