#include "lib/vfio/pci.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define VFIO_DRIVER "vfio-pci"

static bool hex_take(const char **at, size_t n, char *to)
{
	for (size_t i = 0; i < n; i++) {
		if (!isxdigit((unsigned char)(*at)[i]))
			return false;
		to[i] = (char)tolower((unsigned char)(*at)[i]);
	}
	*at += n;
	return true;
}

int pci_address_parse(const char *text, struct pci_address *ret)
{
	char t[PCI_ADDRESS_MAX] = { 0 };

	if (strlen(text) == PCI_ADDRESS_MAX - 1 + 4 && strncmp(text, "0000", 4) == 0)
		text += 4;
	if (strlen(text) != PCI_ADDRESS_MAX - 1)
		return -EINVAL;
	if (!hex_take(&text, 4, t) || *text++ != ':' || !hex_take(&text, 2, t + 5) || *text++ != ':' ||
	        !hex_take(&text, 2, t + 8) || *text++ != '.' || *text < '0' || *text > '7')
		return -EINVAL;
	t[4] = t[7] = ':';
	t[10] = '.';
	t[11] = *text;
	if (strtoul(t + 8, NULL, 16) > 31)
		return -EINVAL;
	memcpy(ret->text, t, sizeof(t));
	return 0;
}

/* The last component of a link's target; "" when there is no link. */
static int link_name(const char *path, char *buf, size_t size)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	buf[0] = 0;
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	target[n] = 0;
	const char *slash = strrchr(target, '/');
	const char *name = slash ? slash + 1 : target;
	if (strlen(name) >= size)
		return -ENAMETOOLONG;
	memcpy(buf, name, strlen(name) + 1);
	return 0;
}

static int number_read(const char *dir, const char *name, uint32_t *ret)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	char *end;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	int r = file_read(AT_FDCWD, path, 4096, &text, NULL);
	if (r < 0)
		return r;
	errno = 0;
	unsigned long v = strtoul(text, &end, 16);
	if (errno || end == text || v > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

static int override_read(const char *dir, char *buf, size_t size)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];

	buf[0] = 0;
	(void)snprintf(path, sizeof(path), "%s/driver_override", dir);
	int r = file_read(AT_FDCWD, path, 4096, &text, NULL);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = 0;
	if (strcmp(text, "(null)") != 0) /* what the kernel prints for none */
		(void)snprintf(buf, size, "%s", text);
	return 0;
}

static int group_number(const char *name)
{
	char *end;
	unsigned long v = strtoul(name, &end, 10);

	return isdigit((unsigned char)name[0]) && !*end && v <= INT_MAX ? (int)v : -1;
}

int pci_device_read(
        const char *sysfs, const struct pci_address *address, struct pci_device *ret, struct err *err)
{
	struct pci_device device = { .address = *address };
	char dir[PATH_MAX], path[PATH_MAX + 16], group[32];
	int r;

	(void)snprintf(dir, sizeof(dir), "%s/bus/pci/devices/%s", sysfs, address->text);
	if (access(dir, F_OK) < 0)
		return err_set(err, -ENODEV, "there is no PCI device %s", address->text);
	r = number_read(dir, "vendor", &device.vendor);
	if (r >= 0)
		r = number_read(dir, "device", &device.device);
	if (r >= 0)
		r = number_read(dir, "class", &device.class_code);
	if (r >= 0) {
		(void)snprintf(path, sizeof(path), "%s/driver", dir);
		r = link_name(path, device.driver, sizeof(device.driver));
	}
	if (r >= 0) {
		(void)snprintf(path, sizeof(path), "%s/iommu_group", dir);
		r = link_name(path, group, sizeof(group));
	}
	if (r >= 0)
		r = override_read(dir, device.override, sizeof(device.override));
	if (r < 0)
		return err_set(err, r, "cannot read PCI device %s: %s", address->text, strerror(-r));
	device.iommu_group = group_number(group);
	*ret = device;
	return 0;
}

bool pci_device_is_bridge(const struct pci_device *device)
{
	return device->class_code >> 16 == 0x06;
}

bool pci_device_is_display(const struct pci_device *device)
{
	return device->class_code >> 16 == 0x03;
}

static int device_compare(const void *a, const void *b)
{
	const struct pci_device *x = a, *y = b;

	return strcmp(x->address.text, y->address.text);
}

int pci_group_read(const char *sysfs, int group, struct pci_device ret[static PCI_GROUP_DEVICES_MAX],
        size_t *ret_n, struct err *err)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	char path[PATH_MAX];
	size_t n = 0;

	(void)snprintf(path, sizeof(path), "%s/kernel/iommu_groups/%d/devices", sysfs, group);
	dir = opendir(path);
	if (!dir)
		return err_set(err, -errno, "cannot read IOMMU group %d: %m", group);
	for (;;) {
		struct pci_address address;

		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			break;
		if (entry->d_name[0] == '.')
			continue;
		/* Others than PCI devices can be in a group; what we cannot judge we do not give away. */
		if (pci_address_parse(entry->d_name, &address) < 0)
			return err_set(err, -EBUSY, "IOMMU group %d has '%s', which is no PCI device", group,
			        QUOTED(entry->d_name));
		if (n == PCI_GROUP_DEVICES_MAX)
			return err_set(err, -EFBIG, "IOMMU group %d has more than %d devices", group,
			        PCI_GROUP_DEVICES_MAX);
		int r = pci_device_read(sysfs, &address, &ret[n++], err);
		if (r < 0)
			return r;
	}
	if (errno)
		return err_set(err, -errno, "cannot read IOMMU group %d: %m", group);
	qsort(ret, n, sizeof(ret[0]), device_compare);
	*ret_n = n;
	return 0;
}

static bool is_ours(const struct pci_device *device, const struct pci_address *ours, size_t n_ours)
{
	for (size_t i = 0; i < n_ours; i++)
		if (strcmp(device->address.text, ours[i].text) == 0)
			return true;
	return false;
}

int pci_group_check(const struct pci_device *devices, size_t n_devices, const struct pci_address *ours,
        size_t n_ours, struct err *err)
{
	char in_the_way[ERR_TEXT_MAX] = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < n_devices; i++) {
		const struct pci_device *d = &devices[i];

		if (pci_device_is_bridge(d) || !d->driver[0] || strcmp(d->driver, VFIO_DRIVER) == 0 ||
		        is_ours(d, ours, n_ours))
			continue;
		if (n < sizeof(in_the_way))
			n += (size_t)snprintf(in_the_way + n, sizeof(in_the_way) - n, "%s%s (%s)",
			        n ? ", " : "", d->address.text, d->driver);
	}
	if (n == 0)
		return 0;
	return err_set(err, -EBUSY,
	        "IOMMU group %d cannot be given to a VM: in it, and on a driver of the host, are %s; bind them to "
	        "vfio-pci or unbind them",
	        n_devices ? devices[0].iommu_group : -1, in_the_way);
}
