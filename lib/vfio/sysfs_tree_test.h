/* A made-up sysfs for tests: devices, drivers and IOMMU groups as directories, links and files. */
#pragma once

#include "lib/base/sandbox_test.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

__attribute__((format(printf, 2, 3))) static inline void tree_mkdir(const char *root, const char *fmt, ...)
{
	char path[PATH_MAX], name[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			(void)mkdir(path, 0755);
			*p = '/';
		}
	(void)mkdir(path, 0755);
}

static inline void tree_write(const char *root, const char *name, const char *text)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static inline void tree_link(const char *root, const char *name, const char *target)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	(void)unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

/* class like "0x030000"; driver and group may be NULL / -1. */
static inline void tree_device(
        const char *root, const char *address, const char *class, const char *driver, int group)
{
	char name[256], target[256];

	tree_mkdir(root, "bus/pci/devices/%s", address);
	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/vendor", address);
	tree_write(root, name, "0x10de\n");
	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/device", address);
	tree_write(root, name, "0x2b85\n");
	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/class", address);
	tree_write(root, name, class);
	(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/driver_override", address);
	tree_write(root, name, "(null)\n");
	if (driver) {
		tree_mkdir(root, "bus/pci/drivers/%s", driver);
		(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/driver", address);
		(void)snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
		tree_link(root, name, target);
	}
	if (group >= 0) {
		tree_mkdir(root, "kernel/iommu_groups/%d/devices", group);
		(void)snprintf(name, sizeof(name), "bus/pci/devices/%s/iommu_group", address);
		(void)snprintf(target, sizeof(target), "../../../../kernel/iommu_groups/%d", group);
		tree_link(root, name, target);
		(void)snprintf(name, sizeof(name), "kernel/iommu_groups/%d/devices/%s", group, address);
		(void)snprintf(target, sizeof(target), "../../../../bus/pci/devices/%s", address);
		tree_link(root, name, target);
	}
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)
