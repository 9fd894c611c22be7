#include "lib/base/utf8.h"

#include "lib/base/cleanup.h"

#include <string.h>

size_t utf8_char_size(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t size;
	unsigned char lo = 0x80,
	              hi = 0xbf; /* bounds of the second byte: they exclude overlongs and surrogates */

	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		size = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		size = 3;
		lo = p[0] == 0xe0 ? 0xa0 : lo;
		hi = p[0] == 0xed ? 0x9f : hi;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		size = 4;
		lo = p[0] == 0xf0 ? 0x90 : lo;
		hi = p[0] == 0xf4 ? 0x8f : hi;
	} else {
		return 0;
	}
	if (n < size || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < size; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return size;
}

bool utf8_is_valid(const char *s, size_t n)
{
	while (n > 0) {
		size_t size = utf8_char_size(s, n);

		if (size == 0)
			return false;
		s += size;
		n -= size;
	}
	return true;
}

/* Whether the bytes are the beginning of a character, and no more. */
static bool is_cut_short(const char *s)
{
	static const char *const ENDS[] = { "\x80", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\xbf\xbf\xbf" };
	size_t n = strnlen(s, 4);

	/* It is one if some continuation makes it whole; the bounds of second bytes are intervals, so their ends do. */
	for (size_t i = 0; n < 4 && i < ARRAY_SIZE(ENDS); i++) {
		char whole[8] = "";

		memcpy(whole, s, n);
		strcat(whole, ENDS[i]);
		if (utf8_char_size(whole, strlen(whole)) == strlen(whole))
			return true;
	}
	return false;
}

size_t utf8_mend(char *s)
{
	char *p = s;

	while (*p) {
		size_t size = utf8_char_size(p, strnlen(p, 4));

		if (size == 0 && is_cut_short(p)) {
			*p = '\0';
			break;
		}
		if (size == 0)
			*p = '?';
		p += size ? size : 1;
	}
	return (size_t)(p - s);
}

size_t utf8_encode(uint32_t c, char ret[static 4])
{
	if (c < 0x80) {
		ret[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (char)(0xc0 | c >> 6);
		ret[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (char)(0xe0 | c >> 12);
		ret[1] = (char)(0x80 | (c >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | c >> 18);
	ret[1] = (char)(0x80 | (c >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (c >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}
