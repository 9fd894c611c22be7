/* What the state of a domain, as a runtime tells it, means to who has something at stake. */
#pragma once

#include "bc/v1/runtime.pb-c.h"

#include <stdbool.h>

/* A VMM may have its memory, disks and TAPs. */
bool domain_state_is_up(Bc__V1__Domain__State state);
