#include "lib/base/mac.h"

#include "lib/base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool mac_scan(const char *s, struct mac *ret)
{
	if (!s || strnlen(s, MAC_TEXT_MAX) != MAC_TEXT_MAX - 1)
		return false;
	for (size_t i = 0; i < MAC_SIZE; i++, s += 3) {
		int hi = hex_digit(s[0]), lo = hex_digit(s[1]);

		if (hi < 0 || lo < 0 || s[2] != (i + 1 < MAC_SIZE ? ':' : '\0'))
			return false;
		ret->bytes[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

int mac_parse(const char *what, const char *s, struct mac *ret, struct err *err)
{
	static const struct mac ZERO;
	struct mac mac;

	if (!mac_scan(s, &mac))
		return err_set(err, -EINVAL,
		        "%s: '%s' is not a MAC address; write six pairs of hex digits, such as "
		        "02:1a:2b:3c:4d:5e",
		        what, QUOTED(s));
	if (mac.bytes[0] & 1)
		return err_set(err, -EINVAL,
		        "%s: '%s' is a multicast address; a NIC needs a unicast one, with an even first byte",
		        what, s);
	if (mac_equal(&mac, &ZERO))
		return err_set(err, -EINVAL,
		        "%s: the all-zero MAC address names no NIC; leave it empty to have one "
		        "derived",
		        what);
	*ret = mac;
	return 0;
}

void mac_format(const struct mac *mac, char ret[static MAC_TEXT_MAX])
{
	const uint8_t *b = mac->bytes;

	(void)snprintf(
	        ret, MAC_TEXT_MAX, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
}

bool mac_equal(const struct mac *a, const struct mac *b)
{
	return memcmp(a->bytes, b->bytes, MAC_SIZE) == 0;
}
