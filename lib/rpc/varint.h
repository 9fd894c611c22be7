/* Protobuf's variable-length numbers. For those who read bytes before intake.h unpacks them. */
#pragma once

#include <errno.h>
#include <stdint.h>

/* Reads one at *p, which moves behind it. -EBADMSG: cut short, or more than 64 bits. */
static inline int varint_read(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (*p == end)
			return -EBADMSG;
		uint8_t b = *(*p)++;
		if (shift == 63 && b > 1)
			return -EBADMSG;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return -EBADMSG;
}
