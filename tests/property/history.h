/* What became of the fakes' domains, read from the files they keep: what each is now, and who had which volume open
 * from when to when. The files are appended to at each change and written anew when a fake starts, so they are to be
 * read before that. */
#pragma once

#include "tests/property/set.h"

#include "fake.pb-c.h"

struct history;

struct history *history_new(const struct set *set);
struct history *history_free(struct history *history);
/* Reads what is new. Ends the test for a file that is none. */
void history_read(struct history *history);

/* The domain as it is; NULL for none. */
const Bc__Fake__Record *history_domain(const struct history *history, unsigned runtime, const char *id);
/* Each domain of a runtime in turn; *cursor begins at 0. */
const Bc__Fake__Record *history_next(const struct history *history, unsigned runtime, size_t *cursor);
bool history_is_up(const Bc__Fake__Record *record);

/* From now on, or no longer: no managed domain that is down may start. */
void history_forbid_starts(struct history *history, bool are_forbidden);
/* One that did, in words, or NULL. */
const char *history_forbidden_start(const struct history *history);

/* Two domains that had one volume open at a time, one of them for writing: in words, or NULL. */
const char *history_double_writer(struct history *history);
