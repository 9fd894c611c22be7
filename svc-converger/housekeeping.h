/* What nobody asks for and has to be done all the same: images nobody uses are removed, snapshots that were restored
 * from too, volumes are measured, what failed there is tried again, and claims of instances long gone are released.
 *
 * Nothing is concluded while a runtime cannot tell: its domains may rest on an image, or have a volume open. */
#pragma once

#include "svc-converger/converger.h"

struct housekeeping;

int housekeeping_new(struct converger *converger, struct housekeeping **ret);
struct housekeeping *housekeeping_free(struct housekeeping *housekeeping);
/* One round now; it comes by itself too. */
void housekeeping_run(struct housekeeping *housekeeping);
