#include "lib/vfio/pci.h"

#include "lib/base/cleanup.h"
#include "lib/vfio/sysfs_tree_test.h"
#include "tests/harness/suite.h"

static struct pci_address addr(const char *text)
{
	struct pci_address address;

	assert_int_equal(pci_address_parse(text, &address), 0);
	return address;
}

static void addresses_are_made_canonical_or_refused(void **state)
{
	static const char *const bad[] = { "", "01:00.0", "0000:01:00", "0000:01:00.8", "0000:20:20.0",
		"0000:01:00.0 ", "0001:01:0g.0", "00010000:01:00.0", "0000:01.00.0", "0000-01:00.0",
		"0000:01:00.00", "../../../../x" };
	struct pci_address address = { "unset" };

	(void)state;
	assert_string_equal(addr("0000:01:00.0").text, "0000:01:00.0");
	assert_string_equal(addr("00000000:AF:1E.7").text, "0000:af:1e.7");
	assert_string_equal(addr("Ab12:00:00.1").text, "ab12:00:00.1");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(pci_address_parse(bad[i], &address), -EINVAL);
	assert_string_equal(address.text, "unset");
}

static void a_device_is_read(void **state)
{
	struct pci_address address = addr("0000:01:00.0");
	struct pci_device device;
	struct err err = { 0 };

	tree_device(*state, "0000:01:00.0", "0x030000\n", "nvidia", 7);
	assert_int_equal(pci_device_read(*state, &address, &device, NULL), 0);
	assert_int_equal(device.vendor, 0x10de);
	assert_int_equal(device.device, 0x2b85);
	assert_int_equal(device.class_code, 0x030000);
	assert_int_equal(device.iommu_group, 7);
	assert_string_equal(device.driver, "nvidia");
	assert_string_equal(device.override, "");
	assert_true(pci_device_is_display(&device));
	assert_false(pci_device_is_bridge(&device));
	tree_write(*state, "bus/pci/devices/0000:01:00.0/driver_override", "vfio-pci\n");
	assert_int_equal(pci_device_read(*state, &address, &device, NULL), 0);
	assert_string_equal(device.override, "vfio-pci");
	tree_device(*state, "0000:02:00.0", "0x060400\n", NULL, -1);
	address = addr("0000:02:00.0");
	assert_int_equal(pci_device_read(*state, &address, &device, NULL), 0);
	assert_int_equal(device.iommu_group, -1);
	assert_string_equal(device.driver, "");
	assert_true(pci_device_is_bridge(&device));
	address = addr("0000:03:00.0");
	assert_int_equal(pci_device_read(*state, &address, &device, &err), -ENODEV);
	assert_non_null(strstr(err.text, "0000:03:00.0"));
	tree_write(*state, "bus/pci/devices/0000:02:00.0/class", "what\n");
	address = addr("0000:02:00.0");
	assert_int_equal(pci_device_read(*state, &address, &device, NULL), -EINVAL);
}

static void every_member_in_the_way_is_named(void **state)
{
	struct pci_address ours = addr("0000:01:00.0");
	CLEANUP_FREE struct pci_device *group = calloc(PCI_GROUP_DEVICES_MAX, sizeof(*group));
	struct err err = { 0 };
	size_t n;

	tree_device(*state, "0000:00:01.0", "0x060400\n", "pcieport", 2);
	tree_device(*state, "0000:01:00.0", "0x030000\n", "nvidia", 2);
	tree_device(*state, "0000:01:00.1", "0x040300\n", "snd_hda_intel", 2);
	tree_device(*state, "0000:01:00.2", "0x0c0330\n", NULL, 2);
	tree_device(*state, "0000:01:00.3", "0x0c8000\n", "vfio-pci", 2);
	tree_device(*state, "0000:02:00.0", "0x010802\n", "nvme", 2);
	assert_int_equal(pci_group_read(*state, 2, group, &n, NULL), 0);
	assert_int_equal(n, 6);
	assert_string_equal(group[0].address.text, "0000:00:01.0");
	assert_int_equal(pci_group_check(group, n, &ours, 1, &err), -EBUSY);
	assert_non_null(strstr(err.text, "group 2"));
	assert_non_null(strstr(err.text, "0000:01:00.1 (snd_hda_intel), 0000:02:00.0 (nvme)"));
	assert_null(strstr(err.text, "pcieport"));
	assert_null(strstr(err.text, "01:00.2"));
	assert_null(strstr(err.text, "01:00.3"));
	assert_null(strstr(err.text, "01:00.0"));
	struct pci_address all[] = { addr("0000:01:00.0"), addr("0000:01:00.1"), addr("0000:02:00.0") };
	assert_int_equal(pci_group_check(group, n, all, 3, NULL), 0);
}

static void a_group_of_too_many_or_strangers_is_refused(void **state)
{
	CLEANUP_FREE struct pci_device *group = calloc(PCI_GROUP_DEVICES_MAX, sizeof(*group));
	struct err err = { 0 };
	size_t n;

	assert_int_equal(pci_group_read(*state, 3, group, &n, &err), -ENOENT);
	for (unsigned i = 0; i <= PCI_GROUP_DEVICES_MAX; i++) {
		char address[32];

		(void)snprintf(address, sizeof(address), "0000:%02x:00.0", i);
		tree_device(*state, address, "0x020000\n", "a-driver-with-a-long-name", 3);
		if (i == PCI_GROUP_DEVICES_MAX - 1) {
			struct err long_err = { 0 };

			assert_int_equal(pci_group_read(*state, 3, group, &n, NULL), 0);
			assert_int_equal(pci_group_check(group, n, NULL, 0, &long_err), -EBUSY);
			assert_true(strlen(long_err.text) < sizeof(long_err.text));
		}
	}
	assert_int_equal(pci_group_read(*state, 3, group, &n, NULL), -EFBIG);
	tree_mkdir(*state, "kernel/iommu_groups/4/devices/platform-thing");
	err = (struct err){ 0 };
	assert_int_equal(pci_group_read(*state, 4, group, &n, &err), -EBUSY);
	assert_non_null(strstr(err.text, "platform-thing"));
}

TEST_SUITE(pci_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_made_canonical_or_refused),
		SANDBOXED(a_device_is_read),
		SANDBOXED(every_member_in_the_way_is_named),
		SANDBOXED(a_group_of_too_many_or_strangers_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
