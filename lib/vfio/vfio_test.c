#include "lib/vfio/vfio.h"

#include "lib/base/cleanup.h"
#include "lib/vfio/sysfs_tree_test.h"
#include "tests/harness/suite.h"

#define GPU "0000:01:00.0"

/* The kernel's part, played on the made-up tree: one device, its own driver is nvidia. */
static struct {
	const char *sysfs; /* weak */
	bool no_vfio;      /* the module is not loaded */
	bool unbind_hangs;
	char writes[1024]; /* "file=text " of each write, in order */
} kernel;

static void driver_set(const char *driver)
{
	char target[256];

	(void)snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
	tree_mkdir(kernel.sysfs, "bus/pci/drivers/%s", driver);
	tree_link(kernel.sysfs, "bus/pci/devices/" GPU "/driver", target);
}

static void probe(void)
{
	struct pci_address address;
	struct pci_device device;

	assert_int_equal(pci_address_parse(GPU, &address), 0);
	assert_int_equal(pci_device_read(kernel.sysfs, &address, &device, NULL), 0);
	if (device.driver[0])
		return;
	if (!device.override[0])
		driver_set("nvidia");
	else if (!kernel.no_vfio && strcmp(device.override, "vfio-pci") == 0)
		driver_set("vfio-pci");
}

static int kernel_write(const char *path, const char *text, uint64_t timeout_usec, struct err *err)
{
	const char *name = strrchr(path, '/') + 1;
	char unbound[PATH_MAX];

	(void)timeout_usec;
	size_t n = strlen(kernel.writes);
	(void)snprintf(
	        kernel.writes + n, sizeof(kernel.writes) - n, "%s=%s ", name, strcmp(text, "\n") ? text : "");
	if (strcmp(name, "driver_override") == 0)
		tree_write(kernel.sysfs, "bus/pci/devices/" GPU "/driver_override",
		        strcmp(text, "\n") ? text : "(null)\n");
	else if (strcmp(name, "unbind") == 0 && kernel.unbind_hangs)
		return err_set(err, -ETIMEDOUT, "writing to '%s' has not ended", path);
	else if (strcmp(name, "unbind") == 0) {
		(void)snprintf(unbound, sizeof(unbound), "%.*s", (int)(name - 1 - path), path);
		assert_int_equal(unlink(unbound), 0);
	} else if (strcmp(name, "drivers_probe") == 0)
		probe();
	else
		fail_msg("write to %s", path);
	return 0;
}

static const struct vfio_host *host_make(void **state, struct vfio_host *host, const char *driver)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.sysfs = *state;
	tree_device(*state, GPU, "0x030000\n", driver, 1);
	*host = (struct vfio_host){ .sysfs = *state, .timeout_usec = 1000000, .write = kernel_write };
	return host;
}

static struct pci_address gpu(void)
{
	struct pci_address address;

	assert_int_equal(pci_address_parse(GPU, &address), 0);
	return address;
}

static void driver_is(const char *driver, const char *override)
{
	struct pci_address address = gpu();
	struct pci_device device;

	assert_int_equal(pci_device_read(kernel.sysfs, &address, &device, NULL), 0);
	assert_string_equal(device.driver, driver);
	assert_string_equal(device.override, override);
}

static void only_the_addressed_device_is_overridden_and_given_back(void **state)
{
	struct pci_address address = gpu();
	struct vfio_host host;

	host_make(state, &host, "nvidia");
	assert_int_equal(vfio_bind(&host, &address, NULL), 0);
	driver_is("vfio-pci", "vfio-pci");
	assert_string_equal(kernel.writes, "driver_override=vfio-pci unbind=" GPU " drivers_probe=" GPU " ");
	kernel.writes[0] = 0;
	assert_int_equal(vfio_bind(&host, &address, NULL), 0);
	assert_string_equal(kernel.writes, "");
	assert_int_equal(vfio_release(&host, &address, NULL), 0);
	driver_is("nvidia", "");
	assert_string_equal(kernel.writes, "driver_override= unbind=" GPU " drivers_probe=" GPU " ");
	kernel.writes[0] = 0;
	assert_int_equal(vfio_release(&host, &address, NULL), 0);
	assert_string_equal(kernel.writes, "");
}

static void an_unbound_device_needs_no_unbind(void **state)
{
	struct pci_address address = gpu();
	struct vfio_host host;

	host_make(state, &host, NULL);
	assert_int_equal(vfio_bind(&host, &address, NULL), 0);
	driver_is("vfio-pci", "vfio-pci");
	assert_null(strstr(kernel.writes, "unbind"));
}

static void a_failed_bind_gives_the_device_back(void **state)
{
	struct pci_address address = gpu();
	struct vfio_host host;
	struct err err = { 0 };

	host_make(state, &host, "nvidia");
	kernel.no_vfio = true;
	assert_int_equal(vfio_bind(&host, &address, &err), -ENODEV);
	assert_non_null(strstr(err.text, GPU));
	assert_non_null(strstr(err.text, "is the module loaded"));
	driver_is("nvidia", "");
}

static void a_hanging_unbind_is_reported_and_the_override_cleared(void **state)
{
	struct pci_address address = gpu();
	struct vfio_host host;
	struct err err = { 0 };

	host_make(state, &host, "nvidia");
	kernel.unbind_hangs = true;
	assert_int_equal(vfio_bind(&host, &address, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, GPU));
	driver_is("nvidia", "");
	assert_null(strstr(kernel.writes, "drivers_probe"));
}

static void a_device_that_is_gone(void **state)
{
	struct pci_address address;
	struct vfio_host host;

	host_make(state, &host, "nvidia");
	assert_int_equal(pci_address_parse("0000:09:00.0", &address), 0);
	assert_int_equal(vfio_bind(&host, &address, NULL), -ENODEV);
	assert_int_equal(vfio_release(&host, &address, NULL), 0);
	assert_string_equal(kernel.writes, "");
}

static void groups_are_checked_and_nothing_is_written(void **state)
{
	struct pci_address ours[2];
	struct vfio_host host;
	struct err err = { 0 };
	int groups[2];

	host_make(state, &host, "nvidia");
	tree_device(*state, "0000:01:00.1", "0x040300\n", "snd_hda_intel", 1);
	tree_device(*state, "0000:02:00.0", "0x030000\n", "nvidia", 2);
	tree_device(*state, "0000:03:00.0", "0x030000\n", "nvidia", -1);
	ours[0] = gpu();
	assert_int_equal(pci_address_parse("0000:02:00.0", &ours[1]), 0);
	assert_int_equal(vfio_check(&host, ours, 2, groups, &err), -EBUSY);
	assert_non_null(strstr(err.text, "0000:01:00.1 (snd_hda_intel)"));
	assert_int_equal(unlink(SANDBOX_PATH(state, "bus/pci/devices/0000:01:00.1/driver")), 0);
	assert_int_equal(vfio_check(&host, ours, 2, groups, NULL), 0);
	assert_int_equal(groups[0], 1);
	assert_int_equal(groups[1], 2);
	assert_int_equal(pci_address_parse("0000:03:00.0", &ours[1]), 0);
	err = (struct err){ 0 };
	assert_int_equal(vfio_check(&host, ours, 2, NULL, &err), -ENODEV);
	assert_non_null(strstr(err.text, "no IOMMU group"));
	assert_string_equal(kernel.writes, "");
}

TEST_SUITE(vfio_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(only_the_addressed_device_is_overridden_and_given_back),
		SANDBOXED(an_unbound_device_needs_no_unbind),
		SANDBOXED(a_failed_bind_gives_the_device_back),
		SANDBOXED(a_hanging_unbind_is_reported_and_the_override_cleared),
		SANDBOXED(a_device_that_is_gone),
		SANDBOXED(groups_are_checked_and_nothing_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
