/* What may come next on bcctl's command line. */
#pragma once

#include "cli/cli.h"

#include <stddef.h>

/* words are those behind "bcctl", the last one being written. Each candidate is a line "word" or "word<TAB>what it
 * is" on cli->out; ":file" and ":dir" leave it to the shell. ids asks a service for instance ids, interfaces or
 * runtimes, one call of fn for each; NULL for none. */
struct complete_sources {
	void (*ids)(struct cli *cli, enum word_kind kind, void (*fn)(const char *word, void *userdata),
	        void *userdata);
};
void complete_words(
        struct cli *cli, const char *const *words, size_t n_words, const struct complete_sources *sources);
