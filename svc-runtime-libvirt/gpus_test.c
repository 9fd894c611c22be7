#include "svc-runtime-libvirt/gpus.h"

#include "lib/vfio/sysfs_tree_test.h"
#include "tests/harness/suite.h"

#include <errno.h>

#define UUID_A "GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000001"
#define UUID_B "GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000002"

struct host {
	char sys[256], gpus[256], proc[256], memory[256];
	struct gpu_paths paths;
	struct domain_gpu two[2];
	struct domain_def def; /* with both */
};

/* A GPU that its driver has, with its sound function beside it, and one on vfio-pci. */
static void host_make(void **state, struct host *host)
{
	const char *dir = *state;

	*host = (struct host){ 0 };
	(void)snprintf(host->sys, sizeof(host->sys), "%s/sys", dir);
	(void)snprintf(host->gpus, sizeof(host->gpus), "%s/gpus", dir);
	(void)snprintf(host->proc, sizeof(host->proc), "%s/proc", dir);
	(void)snprintf(host->memory, sizeof(host->memory), "%s/gpus.json", dir);
	host->paths = (struct gpu_paths){ host->sys, host->proc, host->gpus, host->memory };
	(void)mkdir(host->sys, 0755);
	(void)mkdir(host->gpus, 0755);
	(void)mkdir(host->proc, 0755);
	tree_device(host->sys, "0000:01:00.0", "0x030000\n", "nvidia", 1);
	tree_device(host->sys, "0000:01:00.1", "0x040300\n", "snd_hda_intel", 1);
	tree_device(host->sys, "0000:02:00.0", "0x030000\n", "vfio-pci", 2);
	tree_mkdir(host->gpus, "0000:01:00.0");
	tree_write(host->gpus, "0000:01:00.0/information", "GPU UUID: \t " UUID_A "\nDevice Minor: \t 0\n");
	tree_write(dir, "gpus.json", "{\"" UUID_B "\": \"0000:02:00.0\"}");
	host->two[0].uuid = (char *)UUID_A;
	host->two[1].uuid = (char *)UUID_B;
	host->def.gpus = host->two;
	host->def.n_gpus = 2;
}

static void addresses_come_from_the_driver_and_from_memory(void **state)
{
	struct err err = { 0 };
	struct host host;

	host_make(state, &host);
	assert_true(gpus_unresolved(&host.def));
	assert_int_equal(gpus_resolve(&host.def, &host.paths, NULL), 0);
	assert_false(gpus_unresolved(&host.def));
	assert_string_equal(host.two[0].address.text, "0000:01:00.0");
	assert_string_equal(host.two[1].address.text, "0000:02:00.0");
	/* One that was stated is not looked for; one that nobody knows is refused as a state of the host. */
	host.two[1].address.text[0] = '\0';
	host.two[1].uuid = (char *)"GPU-unknown";
	assert_int_equal(gpus_resolve(&host.def, &host.paths, &err), -EBUSY);
	assert_int_equal(err.code, -EBUSY);
	assert_non_null(strstr(err.text, "GPU-unknown"));
	host.def.n_gpus = 0;
	assert_false(gpus_unresolved(&host.def));
}

static void what_is_in_the_way_is_named(void **state)
{
	struct err err = { 0 };
	struct host host;

	host_make(state, &host);
	assert_int_equal(gpus_resolve(&host.def, &host.paths, NULL), 0);
	assert_int_equal(gpus_check(&host.def, &host.paths, &err), -EBUSY);
	assert_non_null(strstr(err.text, "0000:01:00.1 (snd_hda_intel)"));
	/* The way is free, but somebody holds it open. */
	assert_int_equal(unlink(SANDBOX_PATH(state, "sys/bus/pci/devices/0000:01:00.1/driver")), 0);
	tree_mkdir(host.proc, "77/fd");
	tree_write(host.proc, "77/comm", "nvidia-persiste\n");
	tree_link(host.proc, "77/fd/3", "/dev/nvidia0");
	err = (struct err){ 0 };
	assert_int_equal(gpus_check(&host.def, &host.paths, &err), -EBUSY);
	assert_non_null(strstr(err.text, "nvidia-persiste (pid 77)"));
	assert_int_equal(unlink(SANDBOX_PATH(state, "proc/77/fd/3")), 0);
	assert_int_equal(gpus_check(&host.def, &host.paths, NULL), 0);
	/* A host without that device, and one without an IOMMU. */
	(void)snprintf(host.two[0].address.text, sizeof(host.two[0].address.text), "0000:09:00.0");
	err = (struct err){ 0 };
	assert_int_equal(gpus_check(&host.def, &host.paths, &err), -EBUSY);
	assert_non_null(strstr(err.text, "0000:09:00.0"));
	tree_device(host.sys, "0000:09:00.0", "0x030000\n", NULL, -1);
	err = (struct err){ 0 };
	assert_int_equal(gpus_check(&host.def, &host.paths, &err), -EBUSY);
	assert_non_null(strstr(err.text, "IOMMU"));
	host.def.n_gpus = 0;
	assert_int_equal(gpus_check(&host.def, &host.paths, NULL), 0);
}

TEST_SUITE(gpus_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(addresses_come_from_the_driver_and_from_memory),
		SANDBOXED(what_is_in_the_way_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
