#include "lib/base/quote.h"

#include "lib/base/utf8.h"

#include <string.h>

static const char ELLIPSIS[] = "…";

char *quote_text(const char *s, char *buf, size_t size)
{
	size_t n = 0;

	for (const char *p = s ? s : ""; *p;) {
		size_t len = utf8_char_size(p, strnlen(p, 4));
		bool printable = len > 1 || (len == 1 && *p >= 0x20 && *p < 0x7f);

		/* C1 controls (U+0080…U+009F) drive terminals just as the C0 ones do. */
		if (len == 2 && (unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0)
			printable = false;
		if (len == 0)
			len = 1;
		size_t n_out = printable ? len : 1;
		if (n + n_out + sizeof(ELLIPSIS) > size && strlen(p) + n + 1 > size) {
			memcpy(buf + n, ELLIPSIS, sizeof(ELLIPSIS));
			return buf;
		}
		if (printable)
			memcpy(buf + n, p, len);
		else
			buf[n] = '?';
		n += n_out;
		p += len;
	}
	buf[n] = '\0';
	return buf;
}
