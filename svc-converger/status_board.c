#include "svc-converger/status_board.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct gone {
	struct status_item item; /* on the board like any other */
	char id[STATUS_ID_MAX];
};

/* kind of a `struct gone`, with the kind of what is gone behind it. */
enum { KIND_GONE = 1 << 30 };

struct status_board {
	struct status_item *oldest, *newest; /* weak */
	uint64_t changes;
	size_t n_gone;
	struct status_reader *readers; /* weak; a list */
};

struct status_reader {
	struct status_board *board; /* weak */
	struct status_reader *next; /* weak */
	struct status_item *at;     /* weak; the last item seen, NULL before the first */
	void (*on_news)(void *userdata);
	void *userdata; /* weak */
	bool is_waiting, is_lost;
};

struct status_board *status_board_new(void)
{
	return calloc(1, sizeof(struct status_board));
}

static void board_unlink(struct status_board *board, struct status_item *item)
{
	for (struct status_reader *reader = board->readers; reader; reader = reader->next)
		if (reader->at == item)
			reader->at = item->older;
	if (item->older)
		item->older->newer = item->newer;
	else
		board->oldest = item->newer;
	if (item->newer)
		item->newer->older = item->older;
	else
		board->newest = item->older;
	item->older = item->newer = NULL;
	item->change = 0;
}

static void board_append(struct status_board *board, struct status_item *item)
{
	item->change = ++board->changes;
	item->older = board->newest;
	item->newer = NULL;
	if (board->newest)
		board->newest->newer = item;
	else
		board->oldest = item;
	board->newest = item;
	for (struct status_reader *reader = board->readers; reader; reader = reader->next) {
		if (!reader->is_waiting)
			continue;
		reader->is_waiting = false;
		reader->on_news(reader->userdata);
	}
}

static void board_drop_gone(struct status_board *board, struct status_item *item)
{
	board_unlink(board, item);
	board->n_gone--;
	free(CONTAINER_OF(item, struct gone, item));
}

struct status_board *status_board_free(struct status_board *board)
{
	if (!board)
		return NULL;
	assert(!board->readers);
	while (board->oldest) {
		assert(board->oldest->kind & KIND_GONE);
		board_drop_gone(board, board->oldest);
	}
	free(board);
	return NULL;
}

void status_board_touch(struct status_board *board, struct status_item *item)
{
	if (item->change)
		board_unlink(board, item);
	board_append(board, item);
}

/* The oldest memory goes; who had not read it can no longer be told everything. */
static void board_forget_one(struct status_board *board)
{
	struct status_item *item = board->oldest;

	while (!(item->kind & KIND_GONE))
		item = item->newer;
	for (struct status_reader *reader = board->readers; reader; reader = reader->next)
		if (!reader->at || reader->at->change < item->change)
			reader->is_lost = true;
	board_drop_gone(board, item);
}

void status_board_remove(struct status_board *board, struct status_item *item, const char *id)
{
	struct gone *gone;

	if (!item->change)
		return;
	board_unlink(board, item);
	if (!board->readers)
		return;
	if (board->n_gone >= STATUS_GONE_MAX)
		board_forget_one(board);
	gone = calloc(1, sizeof(*gone));
	if (!gone) {
		for (struct status_reader *reader = board->readers; reader; reader = reader->next)
			reader->is_lost = true;
		return;
	}
	gone->item.kind = item->kind | KIND_GONE;
	(void)snprintf(gone->id, sizeof(gone->id), "%s", id);
	board->n_gone++;
	board_append(board, &gone->item);
}

struct status_reader *status_reader_new(
        struct status_board *board, void (*on_news)(void *userdata), void *userdata)
{
	struct status_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->board = board;
	reader->on_news = on_news;
	reader->userdata = userdata;
	reader->next = board->readers;
	board->readers = reader;
	return reader;
}

struct status_reader *status_reader_free(struct status_reader *reader)
{
	if (!reader)
		return NULL;
	struct status_reader **link = &reader->board->readers;
	while (*link != reader)
		link = &(*link)->next;
	*link = reader->next;
	/* Nobody is left who would want to know. */
	if (!reader->board->readers)
		while (reader->board->n_gone)
			board_forget_one(reader->board);
	free(reader);
	return NULL;
}

bool status_reader_next(struct status_reader *reader, struct status_change *ret)
{
	struct status_item *item = reader->at ? reader->at->newer : reader->board->oldest;

	if (!item) {
		reader->is_waiting = true;
		return false;
	}
	reader->at = item;
	*ret = (struct status_change){ .kind = item->kind & ~KIND_GONE };
	if (item->kind & KIND_GONE)
		ret->id = CONTAINER_OF(item, struct gone, item)->id;
	else
		ret->item = item;
	return true;
}

bool status_reader_is_lost(const struct status_reader *reader)
{
	return reader->is_lost;
}
