/* Waiting until a node is what an applied spec says. */
#pragma once

#include "cli/door.h"

#include "bc/v1/node.pb-c.h"

/* An exit code: EXIT_OK, EXIT_FAILED when an instance failed for good, EXIT_TIMEOUT; what was in the way is said. */
int apply_wait(struct door *door, const Bc__V1__NodeSpec *spec, uint64_t revision, uint64_t timeout_usec);
