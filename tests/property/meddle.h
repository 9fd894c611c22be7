/* Somebody with the right to do so lays hand on what is ours in the kernel. */
#pragma once

#include "tests/property/plane.h"
#include "tests/property/stranger.h"
#include "tests/property/wish.h"

#include "lib/base/tap_name.h"

enum { MEDDLE_LOST_MAX = 256 };

struct meddler {
	struct set *set; /* weak, as all */
	struct plane *plane;
	struct strangers *strangers;
	struct wish *wish;
	char lost[MEDDLE_LOST_MAX]
	         [IFNAME_MAX]; /* interfaces deleted under their owners, and not seen since */
	size_t n_lost;
	char words[256];
};

void meddle_bridge_make(void);
/* One random deed. What has to hold at once and does not is in meddle_fault(). */
void meddle(struct meddler *meddler, char ret[static WISH_TEXT_MAX]);
const char *meddle_fault(const struct meddler *meddler);

bool meddle_has_deleted(const struct meddler *meddler, const char *ifname);
/* It is there again. */
void meddle_forget(struct meddler *meddler, const char *ifname);
