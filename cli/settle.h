/* Whether a node has become what a spec says: fed with status deltas, asked after each. */
#pragma once

#include "lib/base/cleanup.h"

#include "bc/v1/converger.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settle;

/* spec is weak. revision is what the converger accepted it as. NULL: no memory. */
struct settle *settle_new(const Bc__V1__NodeSpec *spec, uint64_t revision);
struct settle *settle_free(struct settle *settle);
CLEANUP_DEFINE(settle, settle_free)

void settle_delta(struct settle *settle, const Bc__V1__StatusDelta *delta);
/* The stream broke: what is known is stale until the next synced delta. */
void settle_break(struct settle *settle);

enum settle_result {
	SETTLE_WAITS,
	SETTLE_DONE,
	SETTLE_FAILED, /* some instance has failed and is not tried again by itself */
};
enum settle_result settle_check(const struct settle *settle);

/* How far it is, and what is in the way of the first few: "3 of 5 as wished; 6f1c… PENDING WaitingForUserData". */
void settle_text(const struct settle *settle, char *buf, size_t size);
