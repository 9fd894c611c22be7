/* Foreign text made fit to be shown in a message: cut, and without control characters. */
#pragma once

#include <stddef.h>

enum { QUOTE_MAX = 80 }; /* bytes, with the NUL */

/* Copies s to buf: bytes that are no printable ASCII and no well-formed UTF-8 become '?', what does not
 * fit is cut with "…". s may be NULL (""). Returns buf. size must be at least 8. */
char *quote_text(const char *s, char *buf, size_t size);

/* For printf arguments: valid until the end of the enclosing block. */
#define QUOTED(s) quote_text((s), (char[QUOTE_MAX]){ 0 }, QUOTE_MAX)
