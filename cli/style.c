#include "cli/style.h"

#include "lib/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool style_wanted(const char *mode, FILE *stream)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (strcmp(mode, "auto") != 0)
		return strcmp(mode, "always") == 0;
	if (no_color && no_color[0])
		return false;
	return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

const char *style_begin(enum style style, bool color)
{
	static const char *const ESCAPES[STYLE_MAX] = {
		[STYLE_PLAIN] = "",
		[STYLE_GOOD] = "\033[32m",
		[STYLE_WARN] = "\033[33m",
		[STYLE_BAD] = "\033[31m",
		[STYLE_FAINT] = "\033[2m",
		[STYLE_BOLD] = "\033[1m",
	};

	return color ? ESCAPES[style] : "";
}

const char *style_end(enum style style, bool color)
{
	return color && style != STYLE_PLAIN ? "\033[0m" : "";
}

/* C1 controls (U+0080…U+009F) steer some terminals just as escapes do. */
static bool is_c1(const char *s, size_t n)
{
	return n == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0;
}

char *style_safe(const char *s)
{
	size_t n = strlen(s), to = 0;
	char *buf = malloc(n + 1);

	if (!buf)
		return NULL;
	for (size_t i = 0; i < n;) {
		size_t n_char = utf8_char_size(s + i, n - i);
		unsigned char c = (unsigned char)s[i];

		if (c == '\n' || c == '\t') {
			buf[to++] = ' ';
			i++;
		} else if (n_char == 0 || c < 0x20 || c == 0x7f || is_c1(s + i, n_char)) {
			buf[to++] = '?';
			i += n_char ? n_char : 1;
		} else {
			memcpy(buf + to, s + i, n_char);
			to += n_char;
			i += n_char;
		}
	}
	buf[to] = '\0';
	return buf;
}

size_t style_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}
