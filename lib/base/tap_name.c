#include "lib/base/tap_name.h"

#include "lib/base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int tap_name(const char *instance_id, unsigned index, char ret[static IFNAME_MAX])
{
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX];

	if (!uuid_is_valid(instance_id))
		return -EINVAL;
	if (index > TAP_INDEX_MAX)
		return -ERANGE;
	int r = sha256(instance_id, UUID_TEXT_MAX - 1, sum);
	if (r < 0)
		return r;
	sha256_to_hex(sum, hex);
	(void)snprintf(ret, IFNAME_MAX, "bc%.10sn%u", hex, index);
	return 0;
}

bool tap_name_parse(const char *name, char *ret_hash, unsigned *ret_index)
{
	static const char DIGITS[] = "0123456789";

	if (!name || strncmp(name, "bc", 2) != 0 || strspn(name + 2, "0123456789abcdef") != 10 ||
	        name[12] != 'n')
		return false;
	const char *index = name + 13;
	size_t n = strspn(index, DIGITS);
	if (n < 1 || n > 2 || index[n] != '\0' || (n == 2 && index[0] == '0'))
		return false;
	if (ret_hash) {
		memcpy(ret_hash, name + 2, 10);
		ret_hash[10] = '\0';
	}
	if (ret_index)
		*ret_index = n == 1 ? (unsigned)(index[0] - '0')
		                    : (unsigned)(index[0] - '0') * 10 + (unsigned)(index[1] - '0');
	return true;
}

bool tap_name_matches(const char *name, const char *instance_id, unsigned index)
{
	char derived[IFNAME_MAX];

	return name && tap_name(instance_id, index, derived) == 0 && strcmp(name, derived) == 0;
}

int tap_mac(const char *instance_id, unsigned index, struct mac *ret)
{
	char text[UUID_TEXT_MAX + 16];
	uint8_t sum[SHA256_SIZE];

	if (!uuid_is_valid(instance_id))
		return -EINVAL;
	if (index > TAP_INDEX_MAX)
		return -ERANGE;
	int n = snprintf(text, sizeof(text), "%s/mac/%u", instance_id, index);
	int r = sha256(text, (size_t)n, sum);
	if (r < 0)
		return r;
	memcpy(ret->bytes, sum, MAC_SIZE);
	/* Bit 7 stays clear so that no guest has the fe:… that host sides of TAPs carry. */
	ret->bytes[0] = (uint8_t)((ret->bytes[0] & 0x7c) | 0x02);
	return 0;
}
