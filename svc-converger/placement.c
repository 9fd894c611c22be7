#include "svc-converger/placement.h"

#include <errno.h>

static int cpus_check(const struct host_facts *host, const char *field, const uint32_t *cpus, size_t n_cpus,
        struct err *err)
{
	if (!host->cpus_known)
		return 0;
	for (size_t i = 0; i < n_cpus; i++)
		if (!cpu_set_has(&host->cpus, cpus[i]))
			return err_set(err, -EBUSY, "placement.%s[%zu]: CPU %u is not online on this host",
			        field, i, cpus[i]);
	return 0;
}

static int nodes_check(const struct host_facts *host, const Bc__V1__Placement *placement, struct err *err)
{
	for (size_t i = 0; i < placement->n_numa_nodes; i++)
		if (!node_set_has(&host->nodes, placement->numa_nodes[i]))
			return err_set(err, -EBUSY, "placement.numaNodes[%zu]: this host has no NUMA node %u",
			        i, placement->numa_nodes[i]);
	return 0;
}

static int pages_check(
        const struct host_facts *host, uint64_t page_bytes, uint64_t memory_bytes, struct err *err)
{
	if (page_bytes == 0)
		return 0;

	const struct huge_pool *pool = host_facts_pool(host, page_bytes);

	if (!pool || pool->total_pages == 0)
		return err_set(err, -EBUSY,
		        "placement.hugePageBytes: this host has no pool of huge pages of %llu KiB",
		        (unsigned long long)(page_bytes >> 10));
	if (memory_bytes % page_bytes)
		return err_set(err, -EINVAL,
		        "memoryBytes: %llu is no multiple of placement.hugePageBytes, which is %llu",
		        (unsigned long long)memory_bytes, (unsigned long long)page_bytes);
	return 0;
}

int placement_check(const struct host_facts *host, const Bc__V1__InstanceSpec *spec, struct err *err)
{
	const Bc__V1__Placement *placement = spec->placement;
	int r;

	if (!placement)
		return 0;
	if (placement->n_cpu_pins && placement->n_cpu_pins != spec->vcpus)
		return err_set(err, -EINVAL,
		        "placement.cpuPins: %zu pins for %u vCPUs; write one for each, or none",
		        placement->n_cpu_pins, spec->vcpus);
	r = cpus_check(host, "cpuPins", placement->cpu_pins, placement->n_cpu_pins, err);
	if (r == 0)
		r = cpus_check(
		        host, "emulatorCpus", placement->emulator_cpus, placement->n_emulator_cpus, err);
	if (r == 0)
		r = nodes_check(host, placement, err);
	if (r == 0)
		r = pages_check(host, placement->huge_page_bytes, spec->memory_bytes, err);
	return r;
}
