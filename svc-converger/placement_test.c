#include "svc-converger/placement.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

/* CPUs 0-3, nodes 0 and 1, a pool of 2 MiB pages and an empty one of 1 GiB pages. */
static void host_init(struct host_facts *host)
{
	memset(host, 0, sizeof(*host));
	host->cpus_known = true;
	host->cpus.bits[0] = 0xf;
	host->n_cpus = 4;
	node_set_add(&host->nodes, 0);
	node_set_add(&host->nodes, 1);
	host->n_pools = 2;
	host->pools[0] = (struct huge_pool){ .page_bytes = 2 * MIB, .total_pages = 8 };
	host->pools[1] = (struct huge_pool){ .page_bytes = 1024 * MIB };
}

struct numbers {
	size_t n;
	uint32_t items[4];
};

static void what_the_host_cannot_apply_is_said(void **state)
{
	static const struct {
		struct numbers pins, emulator, nodes;
		uint64_t page_bytes, memory_mib;
		uint32_t vcpus;
		int want;
		const char *says;
	} TABLE[] = {
		{ .vcpus = 2, .memory_mib = 64 },
		{ .vcpus = 2, .memory_mib = 64, .pins = { 2, { 0, 3 } } },
		{ .vcpus = 2, .memory_mib = 64, .pins = { 2, { 1, 1 } } },
		{ .vcpus = 2,
		        .memory_mib = 64,
		        .pins = { 1, { 0 } },
		        .want = -EINVAL,
		        .says = "1 pins for 2" },
		{ .vcpus = 2,
		        .memory_mib = 64,
		        .pins = { 3, { 0, 1, 2 } },
		        .want = -EINVAL,
		        .says = "3 pins" },
		{ .vcpus = 2,
		        .memory_mib = 64,
		        .pins = { 2, { 0, 4 } },
		        .want = -EBUSY,
		        .says = "cpuPins[1]: CPU 4" },
		{ .vcpus = 1,
		        .memory_mib = 64,
		        .pins = { 1, { UINT32_MAX } },
		        .want = -EBUSY,
		        .says = "CPU 4294967295" },
		{ .vcpus = 2, .memory_mib = 64, .emulator = { 1, { 3 } } },
		{ .vcpus = 2,
		        .memory_mib = 64,
		        .emulator = { 2, { 3, 9 } },
		        .want = -EBUSY,
		        .says = "emulatorCpus[1]" },
		{ .vcpus = 2, .memory_mib = 64, .nodes = { 2, { 0, 1 } } },
		{ .vcpus = 2,
		        .memory_mib = 64,
		        .nodes = { 1, { 2 } },
		        .want = -EBUSY,
		        .says = "no NUMA node 2" },
		{ .vcpus = 2, .memory_mib = 64, .page_bytes = 2 * MIB },
		{ .vcpus = 2,
		        .memory_mib = 63,
		        .page_bytes = 2 * MIB,
		        .want = -EINVAL,
		        .says = "no multiple" },
		{ .vcpus = 2,
		        .memory_mib = 1024,
		        .page_bytes = 1024 * MIB,
		        .want = -EBUSY,
		        .says = "huge pages of 1048576 KiB" },
		{ .vcpus = 2, .memory_mib = 64, .page_bytes = 65536, .want = -EBUSY, .says = "no pool" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct host_facts host;
		Bc__V1__InstanceSpec spec = BC__V1__INSTANCE_SPEC__INIT;
		Bc__V1__Placement placement = BC__V1__PLACEMENT__INIT;
		struct err err = { 0 };

		host_init(&host);
		spec.vcpus = TABLE[i].vcpus;
		spec.memory_bytes = TABLE[i].memory_mib * MIB;
		spec.placement = &placement;
		placement.cpu_pins = (uint32_t *)TABLE[i].pins.items;
		placement.n_cpu_pins = TABLE[i].pins.n;
		placement.emulator_cpus = (uint32_t *)TABLE[i].emulator.items;
		placement.n_emulator_cpus = TABLE[i].emulator.n;
		placement.numa_nodes = (uint32_t *)TABLE[i].nodes.items;
		placement.n_numa_nodes = TABLE[i].nodes.n;
		placement.huge_page_bytes = TABLE[i].page_bytes;
		int r = placement_check(&host, &spec, &err);

		if (r != TABLE[i].want)
			fail_msg("row %zu: %d, wanted %d (%s)", i, r, TABLE[i].want, err.text);
		if (r < 0 && !strstr(err.text, TABLE[i].says))
			fail_msg("row %zu: '%s' lacks '%s'", i, err.text, TABLE[i].says);
	}
}

static void without_a_placement_any_host_will_do(void **state)
{
	struct host_facts host = { 0 };
	Bc__V1__InstanceSpec spec = BC__V1__INSTANCE_SPEC__INIT;

	(void)state;
	assert_int_equal(placement_check(&host, &spec, NULL), 0);
}

static void pins_are_not_judged_by_a_host_that_cannot_be_read(void **state)
{
	struct host_facts host = { 0 };
	Bc__V1__InstanceSpec spec = BC__V1__INSTANCE_SPEC__INIT;
	Bc__V1__Placement placement = BC__V1__PLACEMENT__INIT;
	uint32_t pin = 3;

	(void)state;
	spec.vcpus = 1;
	spec.placement = &placement;
	placement.cpu_pins = &pin;
	placement.n_cpu_pins = 1;
	assert_int_equal(placement_check(&host, &spec, NULL), 0);
}

TEST_SUITE(placement_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_host_cannot_apply_is_said),
		cmocka_unit_test(without_a_placement_any_host_will_do),
		cmocka_unit_test(pins_are_not_judged_by_a_host_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
