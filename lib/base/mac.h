/* Ethernet addresses of guests. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAC_SIZE = 6, MAC_TEXT_MAX = 18 };

struct mac {
	uint8_t bytes[MAC_SIZE];
};

/* Six pairs of hex digits (either case) joined by ':'. -EINVAL, with words, for anything else and for the
 * multicast, broadcast and all-zero addresses, which no NIC can have. what is the field's path. */
int mac_parse(const char *what, const char *s, struct mac *ret, struct err *err);
void mac_format(const struct mac *mac, char ret[static MAC_TEXT_MAX]); /* lower case */
bool mac_equal(const struct mac *a, const struct mac *b);
