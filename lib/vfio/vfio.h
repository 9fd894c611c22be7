/* Giving PCI devices to VMs and taking them back, through sysfs. Only the addressed device gets a driver_override: a
 * card of the same kind beside it is never grabbed. Blocks for up to the time-out of each step: for pool threads. */
#pragma once

#include "lib/base/err.h"
#include "lib/vfio/pci.h"

#include <stddef.h>
#include <stdint.h>

struct vfio_host {
	const char *sysfs;     /* "/sys"; weak */
	uint64_t timeout_usec; /* of each write */
	/* NULL: sysfs_write(); a test's own kernel otherwise */
	int (*write)(const char *path, const char *text, uint64_t timeout_usec, struct err *err);
};

/* Is every device there, behind an IOMMU, and every group they are in free of what the host uses? Changes nothing.
 * -EBUSY and -ENODEV name all that is in the way. ret_groups[i], if not NULL, is the group of addresses[i]. */
int vfio_check(const struct vfio_host *host, const struct pci_address *addresses, size_t n_addresses,
        int *ret_groups, struct err *err);

/* Puts the device on vfio-pci. One that is there already stays as it is. On failure the override is cleared again and
 * the original driver asked back; -ETIMEDOUT: a write hangs, the device is the kernel's until it ends. */
int vfio_bind(const struct vfio_host *host, const struct pci_address *address, struct err *err);

/* Clears the override, takes it off vfio-pci and lets the host's own driver have it. One that is not on vfio-pci only
 * has the override cleared; one that is gone is success. */
int vfio_release(const struct vfio_host *host, const struct pci_address *address, struct err *err);
