/* How much memory a running guest has and uses, and giving it less or more. For pool threads. */
#pragma once

#include "lib/base/err.h"

#include <libvirt/libvirt.h>
#include <stdbool.h>
#include <stdint.h>

struct domain_memory {
	uint64_t current_bytes; /* what the balloon leaves it now */
	uint64_t maximum_bytes;
	uint64_t unused_bytes; /* that it could do without, as it says itself */
	bool usage_known;
};

/* -EBUSY when it is off. */
int domain_op_get_memory(virConnectPtr conn, const char *id, struct domain_memory *ret, struct err *err);
/* Asks the guest for a balloon that leaves it target_bytes, rounded down to KiB; it obeys when it can: *ret is what is
 * now. -EINVAL below what it may have by its balloon's minimum, or above its memory. */
int domain_op_set_memory(virConnectPtr conn, const char *id, uint64_t target_bytes, struct domain_memory *ret,
        struct err *err);
