/* The sockets in the run directory. */
#pragma once

#include "cli/cli.h"

enum { RUNTIMES_MAX = 32, SOCKET_NAME_MAX = 48 };

/* The names, without ".sock", of the sockets that begin with prefix, sorted: their number, at most RUNTIMES_MAX, or
 * -errno when the directory cannot be read. */
int run_dir_list(const struct cli *cli, const char *prefix, char names[RUNTIMES_MAX][SOCKET_NAME_MAX]);
