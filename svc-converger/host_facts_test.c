#include "svc-converger/host_facts.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/tree.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define POOL_2M "sys/kernel/mm/hugepages/hugepages-2048kB/"
#define POOL_1G "sys/kernel/mm/hugepages/hugepages-1048576kB/"

static void put(void **state, const char *name, const char *text)
{
	char path[256], parent[256];

	(void)snprintf(path, sizeof(path), "%s/%s", (const char *)*state, name);
	(void)snprintf(parent, sizeof(parent), "%s", path);
	assert_int_equal(mkdir_p(dirname(parent), 0755), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static void look(void **state, struct host_facts *ret)
{
	host_facts_read(SANDBOX_PATH(state, "proc"), SANDBOX_PATH(state, "sys"), ret);
}

static void a_numa_host_with_two_pools(void **state)
{
	struct host_facts host;

	put(state, "proc/meminfo",
	        "MemTotal:       16384 kB\nMemFree:         1 kB\nMemAvailable:    8192 kB\n"
	        "HugePages_Total:       4\nHugetlb:         4096 kB\n");
	put(state, "sys/devices/system/cpu/online", "0-3,8,70-71\n");
	put(state, "sys/devices/system/node/online", "0,2\n");
	put(state, POOL_2M "nr_hugepages", "10\n");
	put(state, POOL_2M "nr_overcommit_hugepages", "2\n");
	put(state, POOL_2M "free_hugepages", "7\n");
	put(state, POOL_2M "resv_hugepages", "3\n");
	put(state, POOL_1G "nr_hugepages", "1\n");
	put(state, POOL_1G "free_hugepages", "1\n");
	put(state, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "5\n");
	put(state, "sys/devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages", "2\n");
	put(state, "sys/kernel/mm/hugepages/hugepages-64MB/nr_hugepages", "9\n"); /* not the kernel's form */
	look(state, &host);

	assert_true(host.memory_known);
	assert_int_equal(host.memory_total_bytes, 16 * MIB);
	assert_int_equal(host.memory_available_bytes, 8 * MIB);
	assert_int_equal(host.huge_total_bytes, 4 * MIB);
	assert_true(host.cpus_known);
	assert_int_equal(host.n_cpus, 7);
	assert_true(cpu_set_has(&host.cpus, 3));
	assert_false(cpu_set_has(&host.cpus, 4));
	assert_true(cpu_set_has(&host.cpus, 71));
	assert_false(cpu_set_has(&host.cpus, UINT32_MAX));
	assert_true(node_set_has(&host.nodes, 2));
	assert_false(node_set_has(&host.nodes, 1));
	assert_int_equal(host.n_pools, 2);

	const struct huge_pool *pool = host_facts_pool(&host, 2 * MIB);

	assert_non_null(pool);
	assert_int_equal(pool->total_pages, 12);
	assert_int_equal(pool->free_pages, 4);
	assert_int_equal(pool->node_free_pages[0], 5);
	assert_int_equal(pool->node_free_pages[2], 2);
	assert_non_null(host_facts_pool(&host, 1024 * MIB));
	assert_null(host_facts_pool(&host, 4096));
}

static void without_numa_node_0_is_the_host(void **state)
{
	struct host_facts host;

	put(state, POOL_2M "nr_hugepages", "10\n");
	put(state, POOL_2M "free_hugepages", "9\n");
	look(state, &host);
	assert_true(node_set_has(&host.nodes, 0));
	assert_int_equal(host_facts_pool(&host, 2 * MIB)->node_free_pages[0], 9);
}

static void more_reserved_than_free_is_none(void **state)
{
	struct host_facts host;

	put(state, POOL_2M "nr_hugepages", "10\n");
	put(state, POOL_2M "free_hugepages", "2\n");
	put(state, POOL_2M "resv_hugepages", "5\n");
	look(state, &host);
	assert_int_equal(host_facts_pool(&host, 2 * MIB)->free_pages, 0);
}

static void what_cannot_be_read_is_not_known(void **state)
{
	static const char *const MEMINFO[] = { "", "MemTotal: 5 kB\n", "MemTotal: x kB\nMemAvailable: 3 kB\n",
		"MemTotal: 99999999999999999999 kB\nMemAvailable: 3 kB\n",
		"XMemTotal: 5 kB\nMemAvailable: 5 kB\n" };
	static const char *const ONLINE[] = { "", "\n", "x", "0-", "3,x", "0 1" };
	struct host_facts host;

	look(state, &host);
	assert_false(host.memory_known);
	assert_false(host.cpus_known);
	assert_int_equal(host.n_pools, 0);
	for (size_t i = 0; i < sizeof(MEMINFO) / sizeof(MEMINFO[0]); i++) {
		put(state, "proc/meminfo", MEMINFO[i]);
		look(state, &host);
		assert_false(host.memory_known);
	}
	for (size_t i = 0; i < sizeof(ONLINE) / sizeof(ONLINE[0]); i++) {
		put(state, "sys/devices/system/cpu/online", ONLINE[i]);
		look(state, &host);
		assert_false(host.cpus_known);
	}
	/* A number far beyond the set's size is left out, not written beyond it. */
	put(state, "sys/devices/system/cpu/online", "0-99999999999\n");
	look(state, &host);
	assert_true(host.cpus_known);
	assert_int_equal(host.n_cpus, HOST_CPUS_MAX);
}

static void this_host_is_read(void **state)
{
	struct host_facts host;

	(void)state;
	host_facts_read("/proc", "/sys", &host);
	assert_true(host.memory_known);
	assert_true(host.memory_total_bytes > host.memory_available_bytes);
	assert_true(host.cpus_known);
	assert_true(node_set_has(&host.nodes, 0));
}

static void node_sets(void **state)
{
	struct node_set set = { 0 };

	(void)state;
	assert_true(node_set_is_empty(&set));
	node_set_add(&set, HOST_NODES_MAX);
	assert_true(node_set_is_empty(&set));
	node_set_add(&set, HOST_NODES_MAX - 1);
	assert_false(node_set_is_empty(&set));
	assert_true(node_set_has(&set, HOST_NODES_MAX - 1));
	assert_false(node_set_has(&set, HOST_NODES_MAX));
}

TEST_SUITE(host_facts_test)
{
#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)
	const struct CMUnitTest tests[] = {
		SANDBOXED(a_numa_host_with_two_pools),
		SANDBOXED(without_numa_node_0_is_the_host),
		SANDBOXED(more_reserved_than_free_is_none),
		SANDBOXED(what_cannot_be_read_is_not_known),
		cmocka_unit_test(this_host_is_read),
		cmocka_unit_test(node_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
