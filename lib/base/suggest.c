#include "lib/base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 64, SLIP = 2, CASE_SLIP = 1 };

struct suggestion suggestion_of(const char *word)
{
	return (struct suggestion){ .word = word };
}

static unsigned substitution(char a, char b)
{
	if (a == b)
		return 0;
	return tolower((unsigned char)a) == tolower((unsigned char)b) ? CASE_SLIP : SLIP;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Optimal string alignment. Both words are at most WORD_MAX bytes. */
static unsigned distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned rows[3][WORD_MAX + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];

	for (size_t j = 0; j <= n_b; j++)
		above[j] = (unsigned)j * SLIP;
	for (size_t i = 1; i <= n_a; i++) {
		row[0] = (unsigned)i * SLIP;
		for (size_t j = 1; j <= n_b; j++) {
			row[j] = least(above[j], row[j - 1]) + SLIP;
			row[j] = least(row[j], above[j - 1] + substitution(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + SLIP);
		}
		unsigned *spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[n_b];
}

void suggestion_offer(struct suggestion *suggestion, const char *candidate)
{
	size_t n_word = strlen(suggestion->word), n_candidate = strlen(candidate);

	if (n_word == 0 || n_word > WORD_MAX || n_candidate > WORD_MAX)
		return;
	unsigned d = distance(suggestion->word, n_word, candidate, n_candidate);
	/* A third of the letters may be wrong, at least one; other case throughout is always near. */
	unsigned limit = SLIP * (n_candidate < 6 ? 1 : (unsigned)n_candidate / 3);
	if (strcasecmp(suggestion->word, candidate) != 0 && d > limit)
		return;
	if (suggestion->best && d >= suggestion->distance)
		return;
	suggestion->best = candidate;
	suggestion->distance = d;
}

char *suggestion_text(const struct suggestion *suggestion, char buf[static SUGGESTION_TEXT_MAX])
{
	buf[0] = '\0';
	if (suggestion->best)
		(void)snprintf(buf, SUGGESTION_TEXT_MAX, ", did you mean '%s'?", suggestion->best);
	return buf;
}
