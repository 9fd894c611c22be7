/* How the fakes are made to misbehave: their control files, at random. */
#pragma once

#include "tests/property/set.h"
#include "tests/property/wish.h"

/* New faults for that fake in the place of the old ones. lies: also what makes the converger believe what is not so. */
void fault_random(
        struct set *set, enum set_service fake, struct wish *wish, bool lies, char ret[static WISH_TEXT_MAX]);
/* Something that happens to a guest of that fake, once; its faults stay as they are. */
void fault_event(struct set *set, enum set_service fake, const char *type, const char *id);
/* No faults any more. */
void fault_none(struct set *set, enum set_service fake);
