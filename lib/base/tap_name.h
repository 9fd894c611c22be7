/* Names and addresses derived from an instance id: the host interface of NIC i, and its default MAC
 * address. */
#pragma once

#include "lib/base/ids.h"
#include "lib/base/mac.h"

#include <stdbool.h>

enum {
	TAP_INDEX_MAX = 99, /* the largest that fits IFNAMSIZ */
	TAP_INDEX_COUNT = TAP_INDEX_MAX + 1,
	TAP_HASH_MAX = 11, /* hex digits of the instance in the name, with the NUL */
};

/* "bc" + the first 10 hex digits of SHA-256(instance id) + "n" + index, at most 15 bytes.
 * -EINVAL when the id is no canonical UUID, -ERANGE when the index is above TAP_INDEX_MAX. */
int tap_name(const char *instance_id, unsigned index, char ret[static IFNAME_MAX]);

/* True when name has exactly that form. ret_hash has room for TAP_HASH_MAX bytes; both outputs may be
 * NULL. It says nothing of who made the interface. */
bool tap_name_parse(const char *name, char *ret_hash, unsigned *ret_index);

/* True when tap_name(instance_id, index) gives name: the test an ownership record must pass. */
bool tap_name_matches(const char *name, const char *instance_id, unsigned index);

/* The MAC address of a NIC whose spec leaves it empty: locally administered, unicast, first byte below 0x80.
 * Errors as of tap_name(). */
int tap_mac(const char *instance_id, unsigned index, struct mac *ret);
