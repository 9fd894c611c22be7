/* PCI devices and IOMMU groups as sysfs tells them. sysfs is "/sys", or a tree of a test. Nothing is written. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PCI_ADDRESS_MAX = 13, /* "dddd:bb:ss.f" with the NUL */
	PCI_DRIVER_MAX = 64,
	PCI_GROUP_DEVICES_MAX = 64,
};

struct pci_address {
	char text[PCI_ADDRESS_MAX]; /* canonical: lower-case hex, a domain of four digits */
};

/* Takes the domain with four or eight digits and either case, as drivers print them. -EINVAL. */
int pci_address_parse(const char *text, struct pci_address *ret);

struct pci_device {
	struct pci_address address;
	uint32_t vendor, device;       /* ids */
	uint32_t class_code;           /* 24 bits: base class, subclass, interface */
	int iommu_group;               /* -1: none (no IOMMU, or it is off) */
	char driver[PCI_DRIVER_MAX];   /* "" when unbound */
	char override[PCI_DRIVER_MAX]; /* "" for none */
};

/* -ENODEV when there is no such device. */
int pci_device_read(
        const char *sysfs, const struct pci_address *address, struct pci_device *ret, struct err *err);
bool pci_device_is_bridge(const struct pci_device *device);
bool pci_device_is_display(const struct pci_device *device);

/* All devices of a group, by address. -EFBIG over PCI_GROUP_DEVICES_MAX. */
int pci_group_read(const char *sysfs, int group, struct pci_device ret[static PCI_GROUP_DEVICES_MAX],
        size_t *ret_n, struct err *err);

/* A group can be given to a VM when each of its devices but bridges is one of ours (to be bound to vfio-pci), is on
 * vfio-pci already, or has no driver. -EBUSY names every device that is in the way, with its driver. */
int pci_group_check(const struct pci_device *devices, size_t n_devices, const struct pci_address *ours,
        size_t n_ours, struct err *err);
