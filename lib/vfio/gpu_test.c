#include "lib/vfio/gpu.h"

#include "lib/base/cleanup.h"
#include "lib/vfio/sysfs_tree_test.h"
#include "tests/harness/suite.h"

#define UUID_A "GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000001"
#define UUID_B "GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000002"

/* Below the sandbox: sys/, gpus/ (the driver's tree), proc/, and memory.json. */
struct host {
	char sys[256], gpus[256], proc[256], memory_path[256];
	struct gpu_memory *memory; /* owned */
};

static void host_make(void **state, struct host *host)
{
	(void)snprintf(host->sys, sizeof(host->sys), "%s/sys", (const char *)*state);
	(void)snprintf(host->gpus, sizeof(host->gpus), "%s/gpus", (const char *)*state);
	(void)snprintf(host->proc, sizeof(host->proc), "%s/proc", (const char *)*state);
	(void)snprintf(host->memory_path, sizeof(host->memory_path), "%s/memory.json", (const char *)*state);
	(void)mkdir(host->sys, 0755);
	(void)mkdir(host->proc, 0755);
	assert_int_equal(gpu_memory_open(host->memory_path, &host->memory, NULL), 0);
}

static void gpu_put(struct host *host, const char *address, const char *uuid, unsigned minor)
{
	char name[256], text[512];

	tree_mkdir(host->gpus, "%s", address);
	(void)snprintf(name, sizeof(name), "%s/information", address);
	(void)snprintf(text, sizeof(text),
	        "Model: \t\t NVIDIA GeForce RTX 5090\nIRQ:   \t\t 131\nGPU UUID: \t %s\n"
	        "Video BIOS: \t 98.02.2e.00.01\nBus Type: \t PCIe\nBus Location: \t %s\n"
	        "Device Minor: \t %u\nGPU Firmware: \t 570.86.10\n",
	        uuid, address, minor);
	tree_write(host->gpus, name, text);
}

static void found_in_the_drivers_tree_then_remembered(void **state)
{
	struct host host;
	struct pci_address address;
	struct err err = { 0 };

	host_make(state, &host);
	(void)mkdir(host.gpus, 0755);
	tree_device(host.sys, "0000:01:00.0", "0x030000\n", "nvidia", 1);
	tree_device(host.sys, "0000:02:00.0", "0x030200\n", "nvidia", 2);
	gpu_put(&host, "0000:01:00.0", UUID_A, 0);
	gpu_put(&host, "0000:02:00.0", UUID_B, 1);
	assert_int_equal(gpu_find(UUID_B, "", host.sys, host.gpus, host.memory, &address, NULL), 0);
	assert_string_equal(address.text, "0000:02:00.0");
	/* It went to vfio-pci: the tree has lost it, and the service was restarted. */
	assert_int_equal(remove(SANDBOX_PATH(state, "gpus/0000:02:00.0/information")), 0);
	assert_int_equal(rmdir(SANDBOX_PATH(state, "gpus/0000:02:00.0")), 0);
	tree_device(host.sys, "0000:02:00.0", "0x030200\n", "vfio-pci", 2);
	host.memory = gpu_memory_free(host.memory);
	assert_int_equal(gpu_memory_open(host.memory_path, &host.memory, NULL), 0);
	assert_int_equal(gpu_find(UUID_B, "", host.sys, host.gpus, host.memory, &address, NULL), 0);
	assert_string_equal(address.text, "0000:02:00.0");
	/* Another card in that slot, on a driver of its own. */
	tree_device(host.sys, "0000:02:00.0", "0x030000\n", "amdgpu", 2);
	assert_int_equal(gpu_find(UUID_B, "", host.sys, host.gpus, host.memory, &address, &err), -ENODEV);
	assert_non_null(strstr(err.text, "amdgpu"));
	err = (struct err){ 0 };
	assert_int_equal(gpu_find("GPU-none", "", host.sys, host.gpus, host.memory, &address, &err), -ENODEV);
	assert_non_null(strstr(err.text, "GPU-none"));
	(void)gpu_memory_free(host.memory);
}

static void without_the_driver_and_without_memory_there_is_none(void **state)
{
	struct host host;
	struct pci_address address;

	host_make(state, &host);
	assert_int_equal(gpu_find(UUID_A, NULL, host.sys, host.gpus, host.memory, &address, NULL), -ENODEV);
	(void)gpu_memory_free(host.memory);
}

static void a_stated_address_must_be_a_display_device(void **state)
{
	struct host host;
	struct pci_address address;
	struct err err = { 0 };

	host_make(state, &host);
	tree_device(host.sys, "0000:01:00.0", "0x030000\n", NULL, 1);
	tree_device(host.sys, "0000:03:00.0", "0x010802\n", "nvme", 3);
	assert_int_equal(
	        gpu_find(UUID_A, "00000000:01:00.0", host.sys, host.gpus, host.memory, &address, NULL), 0);
	assert_string_equal(address.text, "0000:01:00.0");
	assert_int_equal(
	        gpu_find(UUID_A, "0000:03:00.0", host.sys, host.gpus, host.memory, &address, &err), -ENODEV);
	assert_non_null(strstr(err.text, "no display controller"));
	assert_int_equal(
	        gpu_find(UUID_A, "0000:04:00.0", host.sys, host.gpus, host.memory, &address, NULL), -ENODEV);
	assert_int_equal(
	        gpu_find(UUID_A, "slot 4", host.sys, host.gpus, host.memory, &address, NULL), -EINVAL);
	(void)gpu_memory_free(host.memory);
}

static void memory_keeps_one_gpu_an_address(void **state)
{
	struct pci_address one, two;
	struct host host;

	host_make(state, &host);
	assert_int_equal(pci_address_parse("0000:01:00.0", &one), 0);
	assert_int_equal(pci_address_parse("0000:02:00.0", &two), 0);
	assert_int_equal(gpu_memory_put(host.memory, UUID_A, &one, NULL), 0);
	assert_int_equal(gpu_memory_put(host.memory, UUID_B, &two, NULL), 0);
	assert_int_equal(gpu_memory_put(host.memory, UUID_A, &two, NULL), 0);
	assert_null(gpu_memory_get(host.memory, UUID_B));
	assert_string_equal(gpu_memory_get(host.memory, UUID_A)->text, "0000:02:00.0");
	for (unsigned i = 1; i < GPU_MEMORY_MAX; i++) {
		char uuid[32], text[32];

		(void)snprintf(uuid, sizeof(uuid), "GPU-%u", i);
		(void)snprintf(text, sizeof(text), "0001:%02x:00.0", i);
		assert_int_equal(pci_address_parse(text, &one), 0);
		assert_int_equal(gpu_memory_put(host.memory, uuid, &one, NULL), 0);
	}
	assert_int_equal(pci_address_parse("0002:00:00.0", &one), 0);
	assert_int_equal(gpu_memory_put(host.memory, "GPU-more", &one, NULL), -ENOSPC);
	host.memory = gpu_memory_free(host.memory);
	assert_int_equal(gpu_memory_open(host.memory_path, &host.memory, NULL), 0);
	assert_string_equal(gpu_memory_get(host.memory, "GPU-255")->text, "0001:ff:00.0");
	(void)gpu_memory_free(host.memory);
}

static void a_memory_that_is_not_ours_is_refused_and_kept(void **state)
{
	static const char *const bad[] = { "[]", "{\"GPU-1\": 7}", "{\"GPU-1\": \"slot 1\"}", "{", "",
		"{\"GPU-1\":\"0000:01:00.0\",\"GPU-1\":\"0000:02:00.0\"}",
		"{\"0123456789012345678901234567890123456789012345678901234567890123\":\"0000:01:00.0\"}" };
	struct gpu_memory *memory = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };

		tree_write(*state, "memory.json", bad[i]);
		assert_int_equal(gpu_memory_open(SANDBOX_PATH(state, "memory.json"), &memory, &err), -EINVAL);
		assert_non_null(strstr(err.text, "memory.json"));
	}
}

static void process_put(struct host *host, unsigned pid, const char *name, const char *open_file)
{
	char path[256];

	tree_mkdir(host->proc, "%u/fd", pid);
	(void)snprintf(path, sizeof(path), "%u/comm", pid);
	tree_write(host->proc, path, name);
	(void)snprintf(path, sizeof(path), "%u/fd/0", pid);
	tree_link(host->proc, path, "/dev/null");
	if (open_file) {
		(void)snprintf(path, sizeof(path), "%u/fd/7", pid);
		tree_link(host->proc, path, open_file);
	}
}

static void who_holds_it_open_is_named(void **state)
{
	struct gpu_holder holders[GPU_HOLDERS_MAX];
	struct pci_address address;
	struct err err = { 0 };
	struct host host;
	bool complete;
	size_t n;

	host_make(state, &host);
	(void)mkdir(host.gpus, 0755);
	gpu_put(&host, "0000:01:00.0", UUID_A, 1);
	process_put(&host, 1, "init\n", NULL);
	process_put(&host, 20, "Xorg\n", "/dev/nvidia10");
	process_put(&host, 300, "nvidia-persiste\n", "/dev/nvidia1");
	tree_mkdir(host.proc, "sys/fd");
	assert_int_equal(pci_address_parse("0000:01:00.0", &address), 0);
	assert_int_equal(gpu_holders(host.proc, host.gpus, &address, holders, &n, &complete), 0);
	assert_true(complete);
	assert_int_equal(n, 1);
	assert_int_equal(holders[0].pid, 300);
	assert_int_equal(gpu_holders_check(UUID_A, holders, n, &err), -EBUSY);
	assert_non_null(strstr(err.text, "nvidia-persiste (pid 300)"));
	assert_non_null(strstr(err.text, "nvidia-smi -pm 0"));
	assert_int_equal(gpu_holders_check(UUID_A, holders, 0, NULL), 0);
	for (unsigned i = 0; i < 20; i++)
		process_put(&host, 1000 + i, "python\n", "/dev/nvidia1");
	assert_int_equal(gpu_holders(host.proc, host.gpus, &address, holders, &n, &complete), 0);
	assert_int_equal(n, GPU_HOLDERS_MAX);
	/* Without the driver nobody holds it through the driver. */
	assert_int_equal(pci_address_parse("0000:09:00.0", &address), 0);
	assert_int_equal(gpu_holders(host.proc, host.gpus, &address, holders, &n, &complete), 0);
	assert_int_equal(n, 0);
	(void)gpu_memory_free(host.memory);
}

static void a_process_that_cannot_be_looked_into_is_not_an_empty_answer(void **state)
{
	struct gpu_holder holders[GPU_HOLDERS_MAX];
	struct pci_address address;
	struct host host;
	bool complete;
	size_t n;

	host_make(state, &host);
	(void)mkdir(host.gpus, 0755);
	gpu_put(&host, "0000:01:00.0", UUID_A, 1);
	tree_mkdir(host.proc, "40");
	tree_write(host.proc, "40/fd", "not a directory: opendir fails as it does for a stranger's\n");
	assert_int_equal(pci_address_parse("0000:01:00.0", &address), 0);
	assert_int_equal(gpu_holders(host.proc, host.gpus, &address, holders, &n, &complete), 0);
	assert_int_equal(n, 0);
	assert_false(complete);
	tree_write(host.gpus, "0000:01:00.0/information", "GPU UUID: x\n");
	assert_int_equal(gpu_holders(host.proc, host.gpus, &address, holders, &n, &complete), -EBADMSG);
	(void)gpu_memory_free(host.memory);
}

TEST_SUITE(gpu_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(found_in_the_drivers_tree_then_remembered),
		SANDBOXED(without_the_driver_and_without_memory_there_is_none),
		SANDBOXED(a_stated_address_must_be_a_display_device),
		SANDBOXED(memory_keeps_one_gpu_an_address),
		SANDBOXED(a_memory_that_is_not_ours_is_refused_and_kept),
		SANDBOXED(who_holds_it_open_is_named),
		SANDBOXED(a_process_that_cannot_be_looked_into_is_not_an_empty_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
