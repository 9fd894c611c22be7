#include "cli/matcher.h"

#include <stdlib.h>
#include <string.h>

struct matcher {
	size_t n;        /* of text */
	size_t matched;  /* bytes of text that the last bytes fed are */
	size_t *borders; /* owned; borders[i]: length of the longest proper border of the first i + 1 bytes */
	char text[];
};

static void borders_fill(struct matcher *matcher)
{
	size_t k = 0;

	for (size_t i = 1; i < matcher->n; i++) {
		while (k > 0 && matcher->text[i] != matcher->text[k])
			k = matcher->borders[k - 1];
		k += matcher->text[i] == matcher->text[k];
		matcher->borders[i] = k;
	}
}

struct matcher *matcher_new(const char *text)
{
	size_t n = strlen(text);
	struct matcher *matcher = calloc(1, sizeof(*matcher) + n + 1);

	if (!matcher)
		return NULL;
	memcpy(matcher->text, text, n);
	matcher->n = n;
	matcher->borders = calloc(n, sizeof(*matcher->borders));
	if (!matcher->borders)
		return matcher_free(matcher);
	borders_fill(matcher);
	return matcher;
}

struct matcher *matcher_free(struct matcher *matcher)
{
	if (matcher)
		free(matcher->borders);
	free(matcher);
	return NULL;
}

bool matcher_feed(struct matcher *matcher, const void *data, size_t n_data)
{
	const char *bytes = data;

	for (size_t i = 0; i < n_data && matcher->matched < matcher->n; i++) {
		while (matcher->matched > 0 && bytes[i] != matcher->text[matcher->matched])
			matcher->matched = matcher->borders[matcher->matched - 1];
		matcher->matched += bytes[i] == matcher->text[matcher->matched];
	}
	return matcher->matched == matcher->n;
}
