/* Options of the command line, by table, through getopt_long(). */
#pragma once

#include "cli/command.h"
#include "lib/base/err.h"

/* A table of options and where their values go. */
struct option_set {
	const struct option_def *options; /* NULL: none */
	struct arguments *arguments; /* options and values are written; values keep what was given before */
};

/* Reads argv[1…argc) against all of sets; argv[0] is not looked at. With stop_at_word the first word ends it.
 * Words are moved behind the options in argv; *ret_first_word is where they begin. -EINVAL with the reason, e.g.
 * "unknown option '--dryrun', did you mean '--dry-run'?". */
int options_parse(int argc, char **argv, bool stop_at_word, const struct option_set *sets, size_t n_sets,
        int *ret_first_word, struct err *err);
