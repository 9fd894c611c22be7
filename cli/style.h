/* Colours, and text that is safe to print. Colours are used on a terminal only, never when NO_COLOR is set. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum style {
	STYLE_PLAIN,
	STYLE_GOOD,
	STYLE_WARN,
	STYLE_BAD,
	STYLE_FAINT,
	STYLE_BOLD,
	STYLE_MAX,
};

/* Whether to use colours on stream: mode is "auto", "always" or "never". */
bool style_wanted(const char *mode, FILE *stream);
/* The escape that begins a style, or ends all; "" without colours. */
const char *style_begin(enum style style, bool color);
const char *style_end(enum style style, bool color);

/* Copies s with every byte that could steer a terminal (control characters, broken UTF-8) as '?'; line breaks
 * become spaces. Owned by the caller; NULL without memory. */
char *style_safe(const char *s);
/* Columns of a UTF-8 text, counting characters. */
size_t style_width(const char *s);
