#include "svc-converger/status_board.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct thing {
	struct status_item item;
	char name[8];
};

static void count(void *userdata)
{
	(*(int *)userdata)++;
}

/* Everything a reader finds now, as text: names, and "-name" for what is gone. */
static const char *read_all(struct status_reader *reader, char *buf, size_t size)
{
	struct status_change change;

	buf[0] = 0;
	while (status_reader_next(reader, &change)) {
		size_t n = strlen(buf);

		if (change.item)
			(void)snprintf(buf + n, size - n, "%s ",
			        CONTAINER_OF(change.item, struct thing, item)->name);
		else
			(void)snprintf(buf + n, size - n, "-%s ", change.id);
	}
	return buf;
}

static void readers_find_the_newest_of_each(void **state)
{
	CLEANUP(status_board) struct status_board *board = status_board_new();
	struct thing a = { .name = "a" }, b = { .name = "b" }, c = { .name = "c" };
	struct status_change change;
	char text[128];
	int news = 0, late_news = 0;

	(void)state;
	status_board_touch(board, &a.item);
	status_board_touch(board, &b.item);
	struct status_reader *reader = status_reader_new(board, count, &news);
	assert_string_equal(read_all(reader, text, sizeof(text)), "a b ");
	assert_int_equal(news, 0);

	status_board_touch(board, &a.item);
	status_board_touch(board, &c.item);
	status_board_touch(board, &a.item);
	assert_int_equal(news, 1);
	assert_string_equal(read_all(reader, text, sizeof(text)), "c a ");
	assert_string_equal(read_all(reader, text, sizeof(text)), "");

	/* What the reader saw last moves on, or goes, under its feet. */
	struct status_reader *late = status_reader_new(board, count, &late_news);
	assert_true(status_reader_next(late, &change));
	assert_ptr_equal(change.item, &b.item);
	status_board_touch(board, &b.item);
	assert_string_equal(read_all(late, text, sizeof(text)), "c a b ");
	status_board_remove(board, &b.item, "b");
	status_board_remove(board, &b.item, "b");
	assert_string_equal(read_all(late, text, sizeof(text)), "-b ");
	assert_string_equal(read_all(reader, text, sizeof(text)), "-b ");
	assert_int_equal(news, 2);
	assert_int_equal(late_news, 1);

	status_board_remove(board, &a.item, "a");
	status_board_touch(board, &a.item);
	assert_string_equal(read_all(late, text, sizeof(text)), "-a a ");
	status_reader_free(late);
	assert_string_equal(read_all(reader, text, sizeof(text)), "-a a ");
	assert_false(status_reader_is_lost(reader));
	status_reader_free(reader);

	/* With nobody to tell nothing is remembered: the board is empty once its items are gone. */
	status_board_remove(board, &a.item, "a");
	status_board_remove(board, &c.item, "c");
	reader = status_reader_new(board, count, &news);
	assert_string_equal(read_all(reader, text, sizeof(text)), "");
	status_reader_free(reader);
}

static void a_reader_too_far_behind_is_lost(void **state)
{
	CLEANUP(status_board) struct status_board *board = status_board_new();
	struct thing thing = { .name = "x" };
	struct status_change change;
	int news = 0;

	(void)state;
	struct status_reader *stalled = status_reader_new(board, count, &news);
	struct status_reader *quick = status_reader_new(board, count, &news);
	for (int i = 0; i < STATUS_GONE_MAX + 1; i++) {
		assert_false(status_reader_is_lost(stalled));
		status_board_touch(board, &thing.item);
		status_board_remove(board, &thing.item, "x");
		while (status_reader_next(quick, &change))
			;
	}
	assert_true(status_reader_is_lost(stalled));
	assert_false(status_reader_is_lost(quick));
	status_reader_free(stalled);
	status_reader_free(quick);
}

/* A stalled reader costs nothing: a storm of changes of few items leaves few to read. */
static void a_storm_is_coalesced(void **state)
{
	CLEANUP(status_board) struct status_board *board = status_board_new();
	struct thing things[10] = { 0 };
	struct status_change change;
	int news = 0, n = 0;

	(void)state;
	struct status_reader *reader = status_reader_new(board, count, &news);
	assert_false(status_reader_next(reader, &change));
	for (int i = 0; i < 100000; i++)
		status_board_touch(board, &things[i % 10].item);
	while (status_reader_next(reader, &change))
		n++;
	assert_int_equal(n, 10);
	assert_int_equal(news, 1);
	status_reader_free(reader);
	for (int i = 0; i < 10; i++)
		status_board_remove(board, &things[i].item, "");
}

TEST_SUITE(status_board_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_find_the_newest_of_each),
		cmocka_unit_test(a_reader_too_far_behind_is_lost),
		cmocka_unit_test(a_storm_is_coalesced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
