/* What admission and placement must know of the host, read from /proc and /sys in one go. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HOST_CPUS_MAX = 4096, /* ids from 0; higher ones are not used */
	HOST_NODES_MAX = 128, /* likewise for NUMA nodes */
	HOST_POOLS_MAX = 4,   /* huge page sizes */
};

/* A set of small numbers. */
struct cpu_set {
	uint64_t bits[HOST_CPUS_MAX / 64];
};
struct node_set {
	uint64_t bits[HOST_NODES_MAX / 64];
};

/* The huge pages of one size. */
struct huge_pool {
	uint64_t page_bytes;
	uint64_t total_pages; /* configured, and what may be added on demand */
	uint64_t free_pages;  /* not reserved by anybody, host-wide */
	uint64_t node_free_pages
	        [HOST_NODES_MAX]; /* free on each node; reservations are not told apart there */
};

struct host_facts {
	bool memory_known; /* /proc/meminfo could be read */
	uint64_t memory_total_bytes;
	uint64_t memory_available_bytes;
	uint64_t huge_total_bytes; /* set aside for huge pages of every size */
	bool cpus_known;
	struct cpu_set cpus; /* online */
	size_t n_cpus;
	struct node_set nodes; /* online; node 0 alone where the kernel knows no NUMA */
	size_t n_pools;
	struct huge_pool pools[HOST_POOLS_MAX];
};

/* proc and sys are "/proc" and "/sys", or a test's directories. Never fails: what cannot be read is not known,
 * or not there. About 2 KiB are written and a few small files read: cheap, yet not for every instance. */
void host_facts_read(const char *proc, const char *sys, struct host_facts *ret);

/* NULL when there is no pool of pages of this size. */
const struct huge_pool *host_facts_pool(const struct host_facts *host, uint64_t page_bytes);
bool cpu_set_has(const struct cpu_set *set, uint32_t cpu);
bool node_set_has(const struct node_set *set, uint32_t node);
void node_set_add(struct node_set *set, uint32_t node); /* numbers from HOST_NODES_MAX on are left out */
bool node_set_is_empty(const struct node_set *set);
