/* Finds a text in bytes that come in pieces (Knuth, Morris and Pratt). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct matcher;

/* text is copied; it may not be empty. NULL: no memory. */
struct matcher *matcher_new(const char *text);
struct matcher *matcher_free(struct matcher *matcher);
/* True once the text has been seen, also from then on. */
bool matcher_feed(struct matcher *matcher, const void *data, size_t n_data);
