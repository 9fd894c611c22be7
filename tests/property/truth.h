/* Whether the host is as it is wished, whatever there was to see meanwhile: what the converger says, the fakes'
 * domains, interfaces, rules and files, all read from where they are and not from who made them. */
#pragma once

#include "tests/property/history.h"
#include "tests/property/meddle.h"
#include "tests/property/plane.h"
#include "tests/property/snapshot.h"
#include "tests/property/stranger.h"
#include "tests/property/wish.h"

struct truth {
	struct set *set; /* weak, as all */
	struct plane *plane;
	struct history *history;
	struct strangers *strangers;
	struct wish *wish;
	struct meddler *meddler;
	struct snapshots *snapshots;
	/* What else than the spec is wished. */
	enum truth_drain { TRUTH_UNDRAINED, TRUTH_DRAINED, TRUTH_STOPPED } drain;
	char words[1024]; /* what is not so yet */
};

/* True when all is as it is to be; else words say what is not. */
bool truth_is_reached(struct truth *truth);
/* All that is wished, told and had of an instance; on standard error. */
void truth_print_instance(struct truth *truth, const char *id);
/* The first instance from that slot on that has a domain and is as it is wished; NULL for none. Once the truth is
 * reached. */
const struct wish_instance *truth_find_at_rest(const struct truth *truth, unsigned first);
/* A place on disk where a secret lies in clear, or NULL. */
const char *truth_leak(struct truth *truth);
