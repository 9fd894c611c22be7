/* A text as a number, where telling one from another is enough and keeping both costs too much. */
#pragma once

#include <stdint.h>

/* FNV-1a, 64 bits; never 0, which callers may use for "none". */
static inline uint64_t text_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash | 1;
}
