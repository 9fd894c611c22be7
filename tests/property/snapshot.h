/* The snapshots of a run: those that instances are made from, and those that are taken while it goes on. What the
 * converger says is done has to be at its URL, whole, and as it says. */
#pragma once

#include "tests/property/plane.h"
#include "tests/property/wish.h"

struct snapshots;

/* Makes the first ones, of each runtime and kind. */
struct snapshots *snapshots_new(struct set *set, struct plane *plane, struct wish *wish);
struct snapshots *snapshots_free(struct snapshots *snapshots);

/* Asks for one of some instance, now and then for the last one once more; the answer is not waited for. */
void snapshots_take(struct snapshots *snapshots, char ret[static WISH_TEXT_MAX]);
/* Asks for one that cannot be refused for long, and again until it is done. */
void snapshots_want(struct snapshots *snapshots, const char *instance_id, bool with_memory);
/* None is under way, and the one that is wanted is there; else words say what is waited for. */
bool snapshots_are_quiet(struct snapshots *snapshots, char *words, size_t size);
/* What was told of one that is not so, or NULL. */
const char *snapshots_fault(const struct snapshots *snapshots);
