/* Whether the host can give one more domain its memory. Counted is what is promised, not what is used: arithmetic
 * only, no I/O and no clock.
 *
 *   committed = for each running or paused managed domain on normal pages, and each start that was admitted and is
 *               not such a domain yet: its memory + memory/32 + 256 MiB
 *   held      = bound holds
 *   free      = MemTotal - pool of huge pages - 1 GiB - committed - held
 *
 * A domain on huge pages is checked against the free pages of its size instead, on its NUMA nodes and host-wide.
 * The ledger is kept up as domains come and go, so that a check costs the same however many there are. */
#pragma once

#include "bc/v1/node.pb-c.h"
#include "bc/v1/runtime.pb-c.h"
#include "bc/v1/status.pb-c.h"

#include "lib/base/err.h"
#include "svc-converger/host_facts.h"

#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_HEADROOM_BYTES (UINT64_C(1) << 30)
#define ADMISSION_OVERHEAD_BYTES (UINT64_C(256) << 20)
enum { ADMISSION_OVERHEAD_DIVISOR = 32, ADMISSION_HUGE_MAX = 64 };

/* What one domain takes. All zero: nothing (stopped, unmanaged, or of a runtime that admits for itself). */
struct memory_charge {
	uint64_t memory_bytes;    /* on normal pages; the VMM's overhead comes on top */
	uint64_t huge_bytes;      /* on huge pages */
	uint64_t huge_page_bytes; /* 0: normal pages */
	struct node_set nodes;    /* of the huge pages; empty: any */
};

/* Of a start. restores_on_normal_pages: the runtime's feature of that name, for which a restore with memory never
 * gets huge pages, whatever its placement says. */
struct memory_charge memory_charge_start(const Bc__V1__InstanceSpec *spec, bool restores_on_normal_pages);
/* Of a domain as its runtime shows it: only managed ones that are running, paused or stopping, on normal pages.
 * Huge pages in use are counted by the kernel already. */
struct memory_charge memory_charge_domain(const Bc__V1__Domain *domain);

/* memory_bytes with the overhead of its VMM; 0 for 0. Saturates. */
uint64_t admission_with_overhead(uint64_t memory_bytes);

struct admission {
	const struct host_facts *host; /* weak; may be read anew in place between checks */
	/* private */
	unsigned __int128 committed_bytes, held_bytes;
	struct memory_charge huge[ADMISSION_HUGE_MAX]; /* starts under way, added up by page size and nodes */
	size_t n_huge;
};

void admission_init(struct admission *admission, const struct host_facts *host);

/* Adds a domain's or an admitted start's charge, and takes it back. Each add is paired with one sub of an equal
 * charge, e.g. kept beside the instance. A start's charge is replaced by its domain's once the runtime shows it. */
void admission_add(struct admission *admission, const struct memory_charge *charge);
void admission_sub(struct admission *admission, const struct memory_charge *charge);
void admission_set_held(struct admission *admission, uint64_t bytes);
/* The sum of a spec's bound holds; saturates. */
uint64_t admission_held_bytes(Bc__V1__Hold *const *holds, size_t n_holds);

/* 0: it fits, equality included. -ENOSPC with "needs 2368 MiB …, 2100 MiB are free …". Where /proc/meminfo could
 * not be read every domain on normal pages fits: host->memory_known is for the warning. */
int admission_check(const struct admission *admission, const struct memory_charge *charge, struct err *err);

void admission_capacity(const struct admission *admission, Bc__V1__Capacity *ret);
