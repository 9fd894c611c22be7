/* Asks guests for memory under pressure and gives it back afterwards, as balloon_control.h decides: a look at the host
 * every few seconds; guests are only asked while the host is pressed or one of them has given something. */
#pragma once

#include "svc-converger/balloon_control.h"
#include "svc-converger/converger.h"

struct balloons;

int balloons_new(struct converger *converger, struct balloons **ret);
struct balloons *balloons_free(struct balloons *balloons); /* what is in flight is given up */
/* One look now; it comes by itself too. Nothing while the last one is still under way. */
void balloons_look(struct balloons *balloons);
bool balloons_are_busy(const struct balloons *balloons); /* a look is under way */
/* What a guest has by its balloon, as last heard; 0: unknown. */
uint64_t balloons_current_bytes(const struct balloons *balloons, const char *instance_id);
