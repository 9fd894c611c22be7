#include "svc-converger/admission.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static uint64_t saturate(unsigned __int128 value)
{
	return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

/* Shown to people: what is needed rounds up and what is free rounds down, so that a refusal never reads like
 * an equality. */
static unsigned long long mib_up(uint64_t bytes)
{
	return bytes / MIB + (bytes % MIB != 0);
}

static unsigned long long mib_down(uint64_t bytes)
{
	return bytes / MIB;
}

uint64_t admission_with_overhead(uint64_t memory_bytes)
{
	if (!memory_bytes)
		return 0;
	return saturate((unsigned __int128)memory_bytes + memory_bytes / ADMISSION_OVERHEAD_DIVISOR +
	        ADMISSION_OVERHEAD_BYTES);
}

struct memory_charge memory_charge_start(const Bc__V1__InstanceSpec *spec, bool restores_on_normal_pages)
{
	struct memory_charge charge = { 0 };
	bool restores = spec->restore_from && spec->restore_from->with_memory;
	const Bc__V1__Placement *placement = spec->placement;

	if (!placement || placement->huge_page_bytes == 0 || (restores && restores_on_normal_pages)) {
		charge.memory_bytes = spec->memory_bytes;
		return charge;
	}
	charge.huge_bytes = spec->memory_bytes;
	charge.huge_page_bytes = placement->huge_page_bytes;
	for (size_t i = 0; i < placement->n_numa_nodes; i++)
		node_set_add(&charge.nodes, placement->numa_nodes[i]);
	return charge;
}

struct memory_charge memory_charge_domain(const Bc__V1__Domain *domain)
{
	struct memory_charge charge = { 0 };
	bool up = domain->state == BC__V1__DOMAIN__STATE__RUNNING ||
	        domain->state == BC__V1__DOMAIN__STATE__PAUSED ||
	        domain->state == BC__V1__DOMAIN__STATE__STOPPING;

	if (domain->managed && up && domain->huge_page_bytes == 0)
		charge.memory_bytes = domain->memory_bytes;
	return charge;
}

void admission_init(struct admission *admission, const struct host_facts *host)
{
	memset(admission, 0, sizeof(*admission));
	admission->host = host;
}

/* The entry of this page size and set of nodes; n_huge when there is none. */
static size_t huge_find(const struct admission *admission, const struct memory_charge *charge)
{
	size_t i = 0;

	while (i < admission->n_huge &&
	        (admission->huge[i].huge_page_bytes != charge->huge_page_bytes ||
	                memcmp(&admission->huge[i].nodes, &charge->nodes, sizeof(charge->nodes)) != 0))
		i++;
	return i;
}

void admission_add(struct admission *admission, const struct memory_charge *charge)
{
	admission->committed_bytes += admission_with_overhead(charge->memory_bytes);
	if (!charge->huge_bytes)
		return;

	size_t i = huge_find(admission, charge);

	if (i < admission->n_huge)
		admission->huge[i].huge_bytes += charge->huge_bytes;
	else if (i < ADMISSION_HUGE_MAX) /* else admission_check() has refused it */
		admission->huge[admission->n_huge++] = *charge;
}

void admission_sub(struct admission *admission, const struct memory_charge *charge)
{
	uint64_t bytes = admission_with_overhead(charge->memory_bytes);

	admission->committed_bytes -= bytes < admission->committed_bytes ? bytes : admission->committed_bytes;
	if (!charge->huge_bytes)
		return;

	size_t i = huge_find(admission, charge);

	if (i == admission->n_huge)
		return;

	struct memory_charge *known = &admission->huge[i];

	known->huge_bytes -= charge->huge_bytes < known->huge_bytes ? charge->huge_bytes : known->huge_bytes;
	if (!known->huge_bytes)
		*known = admission->huge[--admission->n_huge];
}

void admission_set_held(struct admission *admission, uint64_t bytes)
{
	admission->held_bytes = bytes;
}

uint64_t admission_held_bytes(Bc__V1__Hold *const *holds, size_t n_holds)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < n_holds; i++)
		if (holds[i]->bound)
			sum += holds[i]->memory_bytes;
	return saturate(sum);
}

static uint64_t normal_free(const struct admission *admission)
{
	const struct host_facts *host = admission->host;
	unsigned __int128 taken = admission->committed_bytes + admission->held_bytes +
	        host->huge_total_bytes + ADMISSION_HEADROOM_BYTES;

	return taken < host->memory_total_bytes ? host->memory_total_bytes - (uint64_t)taken : 0;
}

static int normal_check(
        const struct admission *admission, const struct memory_charge *charge, struct err *err)
{
	uint64_t needed = admission_with_overhead(charge->memory_bytes);
	uint64_t free_bytes = normal_free(admission);

	if (!admission->host->memory_known || needed <= free_bytes)
		return 0;
	return err_set(err, -ENOSPC,
	        "needs %llu MiB (%llu MiB and its VMM's overhead), %llu MiB are free of the host's %llu MiB",
	        mib_up(needed), mib_up(charge->memory_bytes), mib_down(free_bytes),
	        mib_down(admission->host->memory_total_bytes));
}

static bool nodes_overlap(const struct node_set *a, const struct node_set *b)
{
	if (node_set_is_empty(a) || node_set_is_empty(b))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(a->bits); i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

/* Bytes of starts under way that take pages of this size, and of those the ones that may take them from nodes. A
 * start that could also go elsewhere is counted in full: it may have to wait a pass, it never overcommits. */
static void huge_promised(const struct admission *admission, const struct memory_charge *charge,
        unsigned __int128 *ret_all, unsigned __int128 *ret_here)
{
	*ret_all = 0;
	*ret_here = 0;
	for (size_t i = 0; i < admission->n_huge; i++) {
		const struct memory_charge *other = &admission->huge[i];

		if (other->huge_page_bytes != charge->huge_page_bytes)
			continue;
		*ret_all += other->huge_bytes;
		if (nodes_overlap(&other->nodes, &charge->nodes))
			*ret_here += other->huge_bytes;
	}
}

static uint64_t less(unsigned __int128 a, unsigned __int128 b)
{
	return a > b ? saturate(a - b) : 0;
}

static int huge_check(const struct admission *admission, const struct memory_charge *charge, struct err *err)
{
	const struct huge_pool *pool = host_facts_pool(admission->host, charge->huge_page_bytes);
	unsigned __int128 promised, promised_here, on_nodes = 0;
	unsigned long long page_kib = charge->huge_page_bytes >> 10;

	if (huge_find(admission, charge) == ADMISSION_HUGE_MAX)
		return err_set(err, -ENOSPC, "too many starts on huge pages are under way");
	huge_promised(admission, charge, &promised, &promised_here);

	uint64_t free_bytes =
	        less(pool ? (unsigned __int128)pool->free_pages * pool->page_bytes : 0, promised);

	if (charge->huge_bytes > free_bytes)
		return err_set(err, -ENOSPC,
		        "needs %llu MiB in huge pages of %llu KiB, %llu MiB are free on the host",
		        mib_up(charge->huge_bytes), page_kib, mib_down(free_bytes));
	if (node_set_is_empty(&charge->nodes))
		return 0;
	for (uint32_t node = 0; pool && node < HOST_NODES_MAX; node++)
		if (node_set_has(&charge->nodes, node))
			on_nodes += (unsigned __int128)pool->node_free_pages[node] * pool->page_bytes;
	free_bytes = less(on_nodes, promised_here);
	if (charge->huge_bytes > free_bytes)
		return err_set(err, -ENOSPC,
		        "needs %llu MiB in huge pages of %llu KiB, %llu MiB are free on its NUMA nodes",
		        mib_up(charge->huge_bytes), page_kib, mib_down(free_bytes));
	return 0;
}

int admission_check(const struct admission *admission, const struct memory_charge *charge, struct err *err)
{
	int r = charge->memory_bytes ? normal_check(admission, charge, err) : 0;

	return r < 0 || !charge->huge_bytes ? r : huge_check(admission, charge, err);
}

void admission_capacity(const struct admission *admission, Bc__V1__Capacity *ret)
{
	const struct host_facts *host = admission->host;

	bc__v1__capacity__init(ret);
	ret->known = host->memory_known;
	ret->total_bytes = host->memory_total_bytes;
	ret->huge_pool_bytes = host->huge_total_bytes;
	ret->headroom_bytes = ADMISSION_HEADROOM_BYTES;
	ret->committed_bytes = saturate(admission->committed_bytes);
	ret->held_bytes = saturate(admission->held_bytes);
}
