#include "cli/table.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_printed(const struct table *table, bool color, bool wide, bool headings, const char *want)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	assert_int_equal(table_print(table, to, color, wide, headings), 0);
	(void)fclose(to);
	assert_string_equal(text, want);
	free(text);
}

static struct table *sample(void)
{
	struct table *table = table_new();

	assert_non_null(table);
	table_column(table, "ID", 0);
	table_column(table, "CPUS", TABLE_RIGHT);
	table_column(table, "EXTRA", TABLE_WIDE);
	table_column(table, "STATE", 0);
	table_cell(table, STYLE_PLAIN, "a-long-one");
	table_cell(table, STYLE_PLAIN, "%d", 2);
	table_cell(table, STYLE_PLAIN, "x");
	table_cell(table, STYLE_GOOD, "RUNNING");
	table_cell(table, STYLE_PLAIN, "ä");
	table_cell(table, STYLE_PLAIN, "%d", 16);
	table_cell(table, STYLE_PLAIN, "y");
	table_cell(table, STYLE_BAD, "FAILED");
	return table;
}

static void columns_line_up(void **state)
{
	CLEANUP(table) struct table *table = sample();

	(void)state;
	assert_int_equal(table_n_rows(table), 2);
	check_printed(table, false, false, true,
	        "ID          CPUS  STATE\n"
	        "a-long-one     2  RUNNING\n"
	        "ä             16  FAILED\n");
	check_printed(table, false, true, false,
	        "a-long-one   2  x  RUNNING\n"
	        "ä           16  y  FAILED\n");
}

static void lines_have_no_spaces_at_their_end(void **state)
{
	CLEANUP(table) struct table *table = table_new();

	(void)state;
	table_column(table, "A", 0);
	table_column(table, "B", TABLE_RIGHT);
	table_column(table, "C", 0);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			table_cell(table, STYLE_PLAIN, "%s", j <= i ? "x" : "");
	check_printed(table, false, false, false, "x\nx  x\nx  x  x\n");
}

static void colours_do_not_move_columns(void **state)
{
	CLEANUP(table) struct table *table = sample();

	(void)state;
	check_printed(table, true, false, false,
	        "a-long-one   2  \033[32mRUNNING\033[0m\n"
	        "ä           16  \033[31mFAILED\033[0m\n");
}

static void a_table_without_rows_is_its_headings(void **state)
{
	CLEANUP(table) struct table *table = table_new();

	(void)state;
	table_column(table, "ID", 0);
	table_column(table, "STATE", 0);
	check_printed(table, false, false, true, "ID  STATE\n");
	check_printed(table, false, false, false, "");
}

static void foreign_text_cannot_steer_the_terminal(void **state)
{
	CLEANUP(table) struct table *table = table_new();

	(void)state;
	table_column(table, "X", 0);
	table_cell(table, STYLE_PLAIN, "%s",
	        "a\033[2Jb\nc\td\xff\xc2\x9b"
	        "e\x7f");
	check_printed(table, false, false, false, "a?[2Jb c d??e?\n");
}

static void colours_are_for_terminals(void **state)
{
	FILE *null = fopen("/dev/null", "w");

	(void)state;
	assert_non_null(null);
	assert_int_equal(unsetenv("NO_COLOR"), 0);
	assert_false(style_wanted("auto", null));
	assert_true(style_wanted("always", null));
	assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
	assert_false(style_wanted("auto", null));
	assert_true(style_wanted("always", null));
	assert_false(style_wanted("never", null));
	assert_int_equal(unsetenv("NO_COLOR"), 0);
	(void)fclose(null);
	assert_string_equal(style_begin(STYLE_BAD, false), "");
	assert_string_equal(style_end(STYLE_PLAIN, true), "");
}

TEST_SUITE(table_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_line_up),
		cmocka_unit_test(lines_have_no_spaces_at_their_end),
		cmocka_unit_test(colours_do_not_move_columns),
		cmocka_unit_test(a_table_without_rows_is_its_headings),
		cmocka_unit_test(foreign_text_cannot_steer_the_terminal),
		cmocka_unit_test(colours_are_for_terminals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
