/* "Did you mean": the candidate nearest to a word that is not known. */
#pragma once

#include <stddef.h>

struct suggestion {
	const char *word; /* weak: what was written */
	const char *best; /* weak: the nearest candidate so far; NULL while none is near enough */
	unsigned distance;
};

struct suggestion suggestion_of(const char *word);
/* Takes candidate when fewer slips (insertion, deletion, substitution, swap of neighbours; case counts
 * little) lead to it than to the best so far, and few enough for its length. */
void suggestion_offer(struct suggestion *suggestion, const char *candidate);

enum { SUGGESTION_TEXT_MAX = 96 };
/* ", did you mean 'x'?" or "". Returns buf. */
char *suggestion_text(const struct suggestion *suggestion, char buf[static SUGGESTION_TEXT_MAX]);
