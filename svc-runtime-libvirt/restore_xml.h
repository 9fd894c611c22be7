/* The definition of an instance that takes over another one's memory: all that touches this host is the instance's own,
 * the hardware its guest is used to is the snapshot's. Pure. */
#pragma once

#include "lib/base/err.h"

/* wanted is the definition we would give the instance, saved the one that lay beside the memory. From saved come the
 * machine's version, CPU, features, clock, controllers, the guest's current memory, and the addresses of devices that
 * wanted has too; nothing of it can name a file, an interface or a device of this host. -EBUSY when both do not have the
 * same disks and NICs, or the memory is from the other accelerator; -EINVAL for what is no domain XML. *ret is owned by
 * the caller. */
int restore_xml_write(const char *wanted, const char *saved, char **ret, struct err *err);
