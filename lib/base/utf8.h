/* UTF-8, as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at s (1…4), 0 when there is none within n bytes. A NUL is a
 * character. */
size_t utf8_char_size(const char *s, size_t n);
bool utf8_is_valid(const char *s, size_t n);
/* Makes text well-formed that was cut or came from elsewhere: a last character that was cut short goes, other bytes that
 * belong to none become '?'. Control characters stay: quote.h is for what is shown. Returns the new length. */
size_t utf8_mend(char *s);
/* Writes a code point (not a surrogate, at most 0x10ffff) and returns its bytes, 1…4; no NUL is added. */
size_t utf8_encode(uint32_t code_point, char ret[static 4]);
