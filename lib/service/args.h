/* The command line every service understands. */
#pragma once

#include <stdbool.h>

struct service_args {
	const char *config;   /* weak, as all; NULL: not given */
	const char *socket;   /* overrides the configuration */
	const char *data_dir; /* overrides the configuration */
	bool print_config;
};

/* 0: go on with *ret. 1: everything was said (--help, --version), exit with 0. -EINVAL: said on stderr
 * what is wrong. */
int service_args_parse(const char *name, int argc, char **argv, struct service_args *ret);
