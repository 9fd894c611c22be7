/* Who has changed, in the order of the last change: what lets any number of readers follow at their own pace
 * without a queue of their own. Of an item that changed many times since a reader looked it finds the newest only.
 *
 * What has gone leaves its id behind, up to a limit; a reader that is further behind than that is lost and has to
 * begin anew. */
#pragma once

#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STATUS_GONE_MAX = 4096, STATUS_ID_MAX = 68 };

struct status_board;
struct status_reader;

/* Embedded in what has a status. */
struct status_item {
	int kind;                          /* the owner's business */
	uint64_t change;                   /* number of its last change; 0: not on the board */
	struct status_item *older, *newer; /* weak */
};

struct status_board *status_board_new(void); /* NULL: no memory */
/* Every reader and item is gone. Accepts NULL. */
struct status_board *status_board_free(struct status_board *board);
CLEANUP_DEFINE(status_board, status_board_free)

/* It is new or has changed: readers will find it. */
void status_board_touch(struct status_board *board, struct status_item *item);
/* It is gone, which readers hear once; id is copied. Nothing for an item that is not on the board. */
void status_board_remove(struct status_board *board, struct status_item *item, const char *id);

struct status_change {
	struct status_item *item; /* weak; NULL: it is gone */
	int kind;
	const char *id; /* weak; of what is gone, else NULL */
};

/* A new reader finds everything that is on the board. on_news runs when there is something new, once, until the
 * reader has looked again: it may only make a note, not call in here. */
struct status_reader *status_reader_new(
        struct status_board *board, void (*on_news)(void *userdata), void *userdata); /* NULL: no memory */
struct status_reader *status_reader_free(struct status_reader *reader);
/* The next change; true: it counts as seen. false: there is none, and on_news will say when there is. */
bool status_reader_next(struct status_reader *reader, struct status_change *ret);
bool status_reader_is_lost(const struct status_reader *reader);
