/* A libvirt that begins anew lets us in while it still looks for its QEMUs. One that it does not find again, or finds
 * half started, it ends, and no event tells. So what was active at first is looked at once more when libvirt is done
 * with it. */
#pragma once

#include "svc-runtime-libvirt/runtime.h"

/* Of every domain that is said to be active. */
void checks_begin(struct runtime *runtime);
