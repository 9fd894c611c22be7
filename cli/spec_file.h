/* A NodeSpec as people write it: YAML or JSON. */
#pragma once

#include "cli/cli.h"

#include "bc/v1/node.pb-c.h"

/* path "-": standard input. *ret is owned by the caller. An exit code; every fault of the text is said with its
 * line. */
int spec_file_read(struct cli *cli, const char *path, Bc__V1__NodeSpec **ret);
