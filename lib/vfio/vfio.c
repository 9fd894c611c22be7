#include "lib/vfio/vfio.h"

#include "lib/base/cleanup.h"
#include "lib/vfio/sysfs_write.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define VFIO_DRIVER "vfio-pci"

int vfio_check(const struct vfio_host *host, const struct pci_address *addresses, size_t n_addresses,
        int *ret_groups, struct err *err)
{
	CLEANUP_FREE struct pci_device *group = calloc(PCI_GROUP_DEVICES_MAX, sizeof(*group));

	if (!group)
		return -ENOMEM;
	for (size_t i = 0; i < n_addresses; i++) {
		struct pci_device device;
		size_t n_group;
		int r = pci_device_read(host->sysfs, &addresses[i], &device, err);

		if (r < 0)
			return r;
		if (device.iommu_group < 0)
			return err_set(err, -ENODEV,
			        "PCI device %s is in no IOMMU group: switch the IOMMU on (firmware, and "
			        "intel_iommu=on or amd_iommu=on)",
			        addresses[i].text);
		r = pci_group_read(host->sysfs, device.iommu_group, group, &n_group, err);
		if (r >= 0)
			r = pci_group_check(group, n_group, addresses, n_addresses, err);
		if (r < 0)
			return r;
		if (ret_groups)
			ret_groups[i] = device.iommu_group;
	}
	return 0;
}

static int path_write(const struct vfio_host *host, const char *path, const char *text, struct err *err)
{
	return host->write ? host->write(path, text, host->timeout_usec, err)
	                   : sysfs_write(path, text, host->timeout_usec, err);
}

static int device_write(const struct vfio_host *host, const struct pci_address *address, const char *file,
        const char *text, struct err *err)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", host->sysfs, address->text, file);
	return path_write(host, path, text, err);
}

/* Asks the bus to find a driver; with an override only that one is tried. */
static int device_probe(const struct vfio_host *host, const struct pci_address *address, struct err *err)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/bus/pci/drivers_probe", host->sysfs);
	return path_write(host, path, address->text, err);
}

/* Best effort, after a failure: the device goes back to what the host would do with it. The probe is left out when the
 * unbind hangs: the kernel holds the device's lock, and another write would hang too. */
static void bind_undo(const struct vfio_host *host, const struct pci_address *address, int r)
{
	(void)device_write(host, address, "driver_override", "\n", NULL);
	if (r != -ETIMEDOUT)
		(void)device_probe(host, address, NULL);
}

int vfio_bind(const struct vfio_host *host, const struct pci_address *address, struct err *err)
{
	struct pci_device device;
	int r = pci_device_read(host->sysfs, address, &device, err);

	if (r < 0)
		return r;
	if (strcmp(device.driver, VFIO_DRIVER) == 0)
		return 0;
	r = device_write(host, address, "driver_override", VFIO_DRIVER, err);
	if (r >= 0 && device.driver[0])
		r = device_write(host, address, "driver/unbind", address->text, err);
	if (r >= 0)
		r = device_probe(host, address, err);
	if (r >= 0)
		r = pci_device_read(host->sysfs, address, &device, err);
	if (r >= 0 && strcmp(device.driver, VFIO_DRIVER) != 0)
		r = err_set(err, -ENODEV, "not taken by vfio-pci (its driver is '%s'): is the module loaded?",
		        device.driver);
	if (r < 0) {
		bind_undo(host, address, r);
		err_wrap(err, "PCI device %s", address->text);
	}
	return r;
}

int vfio_release(const struct vfio_host *host, const struct pci_address *address, struct err *err)
{
	struct pci_device device;
	struct err own = { 0 };
	int r = pci_device_read(host->sysfs, address, &device, &own);

	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return err_set(err, r, "%s", err_text(&own, r));
	if (device.override[0])
		r = device_write(host, address, "driver_override", "\n", err);
	if (r >= 0 && strcmp(device.driver, VFIO_DRIVER) == 0) {
		r = device_write(host, address, "driver/unbind", address->text, err);
		if (r >= 0)
			r = device_probe(host, address, err);
	}
	if (r < 0)
		err_wrap(err, "PCI device %s", address->text);
	return r;
}
