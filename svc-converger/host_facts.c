#include "svc-converger/host_facts.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { FACT_FILE_MAX = 64 * 1024 };

bool cpu_set_has(const struct cpu_set *set, uint32_t cpu)
{
	return cpu < HOST_CPUS_MAX && (set->bits[cpu / 64] >> (cpu % 64) & 1);
}

bool node_set_has(const struct node_set *set, uint32_t node)
{
	return node < HOST_NODES_MAX && (set->bits[node / 64] >> (node % 64) & 1);
}

void node_set_add(struct node_set *set, uint32_t node)
{
	if (node < HOST_NODES_MAX)
		set->bits[node / 64] |= UINT64_C(1) << (node % 64);
}

bool node_set_is_empty(const struct node_set *set)
{
	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		if (set->bits[i])
			return false;
	return true;
}

const struct huge_pool *host_facts_pool(const struct host_facts *host, uint64_t page_bytes)
{
	for (size_t i = 0; i < host->n_pools; i++)
		if (host->pools[i].page_bytes == page_bytes)
			return &host->pools[i];
	return NULL;
}

/* A file that holds one decimal number. */
static bool number_read(int dir_fd, const char *path, uint64_t *ret)
{
	CLEANUP_FREE char *text = NULL;
	char *end;

	if (dir_fd < 0 || file_read(dir_fd, path, FACT_FILE_MAX, &text, NULL) < 0)
		return false;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);

	if (errno || end == text)
		return false;
	*ret = value;
	return true;
}

/* "0-3,8,10-11\n", as the kernel writes sets; numbers from max on are left out. False for anything else. */
static bool set_parse(const char *s, uint64_t *bits, uint32_t max, size_t *ret_n)
{
	size_t n = 0;

	while (*s && *s != '\n') {
		char *end;
		unsigned long first = strtoul(s, &end, 10), last = first;

		if (end == s)
			return false;
		if (*end == '-') {
			s = end + 1;
			last = strtoul(s, &end, 10);
			if (end == s)
				return false;
		}
		for (unsigned long i = first; i <= last && i < max; i++) {
			bits[i / 64] |= UINT64_C(1) << (i % 64);
			n++;
		}
		s = *end == ',' ? end + 1 : end;
		if (*end && *end != ',' && *end != '\n')
			return false;
	}
	*ret_n = n;
	return n > 0;
}

static bool set_read(int dir_fd, const char *path, uint64_t *bits, uint32_t max, size_t *ret_n)
{
	CLEANUP_FREE char *text = NULL;

	return dir_fd >= 0 && file_read(dir_fd, path, FACT_FILE_MAX, &text, NULL) == 0 &&
	        set_parse(text, bits, max, ret_n);
}

/* "MemTotal:       16314332 kB" anywhere in text. */
static bool meminfo_field(const char *text, const char *name, uint64_t *ret_bytes)
{
	size_t n_name = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n_name) == 0 && line[n_name] == ':') {
			unsigned long long kib;

			if (sscanf(line + n_name + 1, "%llu kB", &kib) != 1 || kib > UINT64_MAX >> 10)
				return false;
			*ret_bytes = (uint64_t)kib << 10;
			return true;
		}
	}
	return false;
}

static void memory_read(int proc_fd, struct host_facts *ret)
{
	CLEANUP_FREE char *text = NULL;

	if (proc_fd < 0 || file_read(proc_fd, "meminfo", FACT_FILE_MAX, &text, NULL) < 0 ||
	        !meminfo_field(text, "MemTotal", &ret->memory_total_bytes) ||
	        !meminfo_field(text, "MemAvailable", &ret->memory_available_bytes))
		return;
	ret->memory_known = true;
	/* "Hugetlb" is the sum over all sizes; a kernel without it has no huge pages to set aside. */
	(void)meminfo_field(text, "Hugetlb", &ret->huge_total_bytes);
}

/* One "hugepages-2048kB" directory below base. */
static void pool_read(int sys_fd, const char *base, const char *name, struct host_facts *ret)
{
	unsigned long long kib;
	char path[NAME_MAX + 64];
	uint64_t total = 0, surplus = 0, unused = 0, reserved = 0;
	int end = 0;

	if (ret->n_pools == HOST_POOLS_MAX || sscanf(name, "hugepages-%llukB%n", &kib, &end) != 1 ||
	        name[end] || kib == 0 || kib > UINT64_MAX >> 10)
		return;
	(void)snprintf(path, sizeof(path), "%s/%s/nr_hugepages", base, name);
	if (!number_read(sys_fd, path, &total))
		return;
	(void)snprintf(path, sizeof(path), "%s/%s/nr_overcommit_hugepages", base, name);
	(void)number_read(sys_fd, path, &surplus);
	(void)snprintf(path, sizeof(path), "%s/%s/free_hugepages", base, name);
	(void)number_read(sys_fd, path, &unused);
	(void)snprintf(path, sizeof(path), "%s/%s/resv_hugepages", base, name);
	(void)number_read(sys_fd, path, &reserved);

	struct huge_pool *pool = &ret->pools[ret->n_pools++];

	*pool = (struct huge_pool){
		.page_bytes = (uint64_t)kib << 10,
		.total_pages = total + surplus,
		/* A page a VM has mapped but not touched is still "free" to the kernel, and promised. */
		.free_pages = unused > reserved ? unused - reserved : 0,
	};
	for (uint32_t node = 0; node < HOST_NODES_MAX; node++) {
		if (!node_set_has(&ret->nodes, node))
			continue;
		(void)snprintf(path, sizeof(path), "devices/system/node/node%u/hugepages/%s/free_hugepages",
		        node, name);
		if (!number_read(sys_fd, path, &pool->node_free_pages[node]) && node == 0)
			pool->node_free_pages[0] = unused; /* no NUMA: node 0 is the host */
	}
}

static void pools_read(int sys_fd, struct host_facts *ret)
{
	static const char BASE[] = "kernel/mm/hugepages";
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *entry;

	if (sys_fd < 0)
		return;
	int fd = openat(sys_fd, BASE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	dir = fdopendir(fd);
	if (!dir) {
		(void)close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		pool_read(sys_fd, BASE, entry->d_name, ret);
}

void host_facts_read(const char *proc, const char *sys, struct host_facts *ret)
{
	CLEANUP_CLOSE int proc_fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_CLOSE int sys_fd = open(sys, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n_nodes;

	memset(ret, 0, sizeof(*ret));
	memory_read(proc_fd, ret);
	ret->cpus_known =
	        set_read(sys_fd, "devices/system/cpu/online", ret->cpus.bits, HOST_CPUS_MAX, &ret->n_cpus);
	if (!set_read(sys_fd, "devices/system/node/online", ret->nodes.bits, HOST_NODES_MAX, &n_nodes))
		node_set_add(&ret->nodes, 0);
	pools_read(sys_fd, ret);
}
