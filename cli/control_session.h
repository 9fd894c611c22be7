/* A small control plane: one session with the converger, which gets a spec and has its questions for secrets
 * answered from files. */
#pragma once

#include "cli/door.h"

#include "bc/v1/node.pb-c.h"

/* Runs until Ctrl-C; with wait_usec not 0 until the node is what the spec says, at most so long. spec's revision 0
 * becomes the one above the node's. An exit code. */
int control_session_run(
        struct door *door, Bc__V1__NodeSpec *spec, const char *secrets_dir, uint64_t wait_usec);
