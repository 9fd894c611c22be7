#include "svc-converger/admission.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* 16 GiB, of which 2 GiB are set aside as 2 MiB pages: 512 free on node 0, 256 on node 1, 700 not reserved. */
static void host_init(struct host_facts *host)
{
	memset(host, 0, sizeof(*host));
	host->memory_known = true;
	host->memory_total_bytes = 16 * GIB;
	host->huge_total_bytes = 2 * GIB;
	node_set_add(&host->nodes, 0);
	node_set_add(&host->nodes, 1);
	host->n_pools = 1;
	host->pools[0] = (struct huge_pool){ .page_bytes = 2 * MIB, .total_pages = 1024, .free_pages = 700 };
	host->pools[0].node_free_pages[0] = 512;
	host->pools[0].node_free_pages[1] = 256;
}

static struct memory_charge normal(uint64_t bytes)
{
	return (struct memory_charge){ .memory_bytes = bytes };
}

static struct memory_charge huge(uint64_t bytes, int node_a, int node_b)
{
	struct memory_charge charge = { .huge_bytes = bytes, .huge_page_bytes = 2 * MIB };

	if (node_a >= 0)
		node_set_add(&charge.nodes, (uint32_t)node_a);
	if (node_b >= 0)
		node_set_add(&charge.nodes, (uint32_t)node_b);
	return charge;
}

static void overhead_is_a_32nd_and_256_mib(void **state)
{
	(void)state;
	assert_int_equal(admission_with_overhead(0), 0);
	assert_int_equal(admission_with_overhead(32 * MIB), 32 * MIB + MIB + 256 * MIB);
	assert_int_equal(admission_with_overhead(2 * GIB), 2 * GIB + 64 * MIB + 256 * MIB);
	assert_int_equal(admission_with_overhead(31), 31 + 256 * MIB);
	assert_int_equal(admission_with_overhead(UINT64_MAX), UINT64_MAX);
}

/* Free on normal pages with nothing committed: 16 - 2 - 1 = 13 GiB = 13,312 MiB. */
static void what_fits_on_normal_pages(void **state)
{
	static const struct {
		const char *what;
		uint64_t committed_mib; /* one domain of this memory; 0: none */
		uint64_t held_bytes;
		uint64_t wanted_mib;
		int want;
	} TABLE[] = {
		{ "an empty host", 0, 0, 16, 0 },
		/* x + x/32 + 256 = 13312 exactly: x = 12660.36…; the nearest multiples of 32 around it */
		{ "just below", 0, 0, 12640, 0 },
		{ "just above", 0, 0, 12672, -ENOSPC },
		/* 12640 + 395 + 256 = 13291, so 21 MiB are left */
		{ "equality through a hold", 0, 21 * MIB, 12640, 0 },
		{ "a hold one byte larger", 0, 21 * MIB + 1, 12640, -ENOSPC },
		/* 6400 + 200 + 256 = 6856 committed; 6456 are left; 6000 + 187.5 + 256 = 6443.5 */
		{ "beside another", 6400, 0, 6000, 0 },
		{ "not beside another", 6400, 0, 6016, -ENOSPC },
		{ "held to the last byte", 0, 13312 * MIB, 16, -ENOSPC },
		{ "held beyond the host", 0, UINT64_MAX, 16, -ENOSPC },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct host_facts host;
		struct admission admission;
		struct memory_charge other = normal(TABLE[i].committed_mib * MIB);
		struct memory_charge wanted = normal(TABLE[i].wanted_mib * MIB);
		struct err err = { 0 };

		host_init(&host);
		admission_init(&admission, &host);
		admission_add(&admission, &other);
		admission_set_held(&admission, TABLE[i].held_bytes);
		int r = admission_check(&admission, &wanted, &err);

		if (r != TABLE[i].want)
			fail_msg("%s: %d, wanted %d (%s)", TABLE[i].what, r, TABLE[i].want, err.text);
		if (r < 0) {
			assert_non_null(strstr(err.text, "needs "));
			assert_non_null(strstr(err.text, " are free"));
		}
	}
}

static void a_refusal_says_needed_above_free_even_at_the_edge(void **state)
{
	struct host_facts host;
	struct admission admission;
	struct memory_charge wanted = normal(12640 * MIB);
	struct err err = { 0 };

	(void)state;
	host_init(&host);
	admission_init(&admission, &host);
	admission_set_held(&admission, 21 * MIB + 1);
	assert_int_equal(admission_check(&admission, &wanted, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "needs 13291 MiB"));
	assert_non_null(strstr(err.text, "13290 MiB are free"));
}

static void a_host_that_cannot_be_read_admits(void **state)
{
	struct host_facts host = { 0 };
	struct admission admission;
	struct memory_charge wanted = normal(1000 * GIB);

	(void)state;
	admission_init(&admission, &host);
	assert_int_equal(admission_check(&admission, &wanted, NULL), 0);
}

static void starts_of_one_pass_add_up_and_come_back(void **state)
{
	struct host_facts host;
	struct admission admission;
	struct memory_charge each =
	        normal(4096 * MIB); /* 4096 + 128 + 256 = 4480; two fit into 13312, and 4352 more */

	(void)state;
	host_init(&host);
	admission_init(&admission, &host);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(admission_check(&admission, &each, NULL), 0);
		admission_add(&admission, &each);
	}
	assert_int_equal(admission_check(&admission, &each, NULL), -ENOSPC);
	admission_sub(&admission, &each);
	assert_int_equal(admission_check(&admission, &each, NULL), 0);
	admission_sub(&admission, &each);
	admission_sub(&admission, &each); /* once too often: never below nothing */

	Bc__V1__Capacity capacity;

	admission_capacity(&admission, &capacity);
	assert_int_equal(capacity.committed_bytes, 0);
	assert_int_equal(capacity.total_bytes, 16 * GIB);
	assert_int_equal(capacity.huge_pool_bytes, 2 * GIB);
	assert_int_equal(capacity.headroom_bytes, GIB);
	assert_true(capacity.known);
}

static void huge_pages_are_counted_on_their_nodes_and_on_the_host(void **state)
{
	static const struct {
		const char *what;
		int other_a, other_b; /* nodes of a start under way; -1: any */
		uint64_t other_pages; /* 0: none */
		int a, b;
		uint64_t pages;
		int want;
	} TABLE[] = {
		{ "anywhere, all that is not reserved", -1, -1, 0, -1, -1, 700, 0 },
		{ "one more", -1, -1, 0, -1, -1, 701, -ENOSPC },
		{ "all of node 0", -1, -1, 0, 0, -1, 512, 0 },
		{ "one more than node 0 has", -1, -1, 0, 0, -1, 513, -ENOSPC },
		{ "both nodes, bounded by the host", -1, -1, 0, 0, 1, 701, -ENOSPC },
		{ "both nodes", -1, -1, 0, 0, 1, 700, 0 },
		{ "a node that is not there", -1, -1, 0, 7, -1, 1, -ENOSPC },
		{ "beside a start on the same node", 0, -1, 500, 0, -1, 12, 0 },
		{ "too much beside a start on the same node", 0, -1, 500, 0, -1, 13, -ENOSPC },
		{ "beside a start on the other node", 0, -1, 444, 1, -1, 256, 0 },
		{ "the host's reserve counts there too", 0, -1, 445, 1, -1, 256, -ENOSPC },
		{ "beside a start that may go anywhere", -1, -1, 200, 1, -1, 56, 0 },
		{ "which might take these", -1, -1, 200, 1, -1, 57, -ENOSPC },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct host_facts host;
		struct admission admission;
		struct memory_charge other =
		        huge(TABLE[i].other_pages * 2 * MIB, TABLE[i].other_a, TABLE[i].other_b);
		struct memory_charge wanted = huge(TABLE[i].pages * 2 * MIB, TABLE[i].a, TABLE[i].b);
		struct err err = { 0 };

		host_init(&host);
		admission_init(&admission, &host);
		admission_set_held(&admission, UINT64_MAX); /* normal pages have no say */
		admission_add(&admission, &other);
		int r = admission_check(&admission, &wanted, &err);

		if (r != TABLE[i].want)
			fail_msg("%s: %d, wanted %d (%s)", TABLE[i].what, r, TABLE[i].want, err.text);
		admission_sub(&admission, &other);
		wanted = huge(2 * MIB, -1, -1);
		assert_int_equal(admission_check(&admission, &wanted, NULL), 0);
	}
}

static void a_page_size_without_a_pool_has_nothing_free(void **state)
{
	struct host_facts host;
	struct admission admission;
	struct memory_charge wanted = huge(GIB, -1, -1);

	(void)state;
	host_init(&host);
	admission_init(&admission, &host);
	wanted.huge_page_bytes = GIB;
	assert_int_equal(admission_check(&admission, &wanted, NULL), -ENOSPC);
}

static void the_table_of_huge_starts_is_bounded(void **state)
{
	struct host_facts host;
	struct admission admission;

	(void)state;
	host_init(&host);
	admission_init(&admission, &host);
	for (int i = 0; i < ADMISSION_HUGE_MAX; i++) {
		struct memory_charge charge = huge(2 * MIB, i, -1);

		admission_add(&admission, &charge);
	}
	struct memory_charge known = huge(2 * MIB, 0, -1), unknown = huge(2 * MIB, 0, 1);

	assert_int_equal(admission_check(&admission, &known, NULL), 0);
	assert_int_equal(admission_check(&admission, &unknown, NULL), -ENOSPC);
	admission_add(&admission, &unknown);
	admission_sub(&admission, &known);
	assert_int_equal(admission_check(&admission, &unknown, NULL), 0);
}

static void a_start_is_charged_where_its_memory_will_be(void **state)
{
	Bc__V1__InstanceSpec spec = BC__V1__INSTANCE_SPEC__INIT;
	Bc__V1__Placement placement = BC__V1__PLACEMENT__INIT;
	Bc__V1__RestoreFrom restore = BC__V1__RESTORE_FROM__INIT;
	uint32_t nodes[] = { 1 };

	(void)state;
	spec.memory_bytes = GIB;
	struct memory_charge charge = memory_charge_start(&spec, true);

	assert_int_equal(charge.memory_bytes, GIB);
	assert_int_equal(charge.huge_bytes, 0);

	spec.placement = &placement;
	placement.numa_nodes = nodes;
	placement.n_numa_nodes = 1;
	assert_int_equal(memory_charge_start(&spec, true).memory_bytes, GIB);

	placement.huge_page_bytes = 2 * MIB;
	charge = memory_charge_start(&spec, true);
	assert_int_equal(charge.memory_bytes, 0);
	assert_int_equal(charge.huge_bytes, GIB);
	assert_int_equal(charge.huge_page_bytes, 2 * MIB);
	assert_true(node_set_has(&charge.nodes, 1));
	assert_false(node_set_has(&charge.nodes, 0));

	/* A restore of disks alone keeps its huge pages; one with memory does not, on a runtime that says so. */
	spec.restore_from = &restore;
	assert_int_equal(memory_charge_start(&spec, true).huge_bytes, GIB);
	restore.with_memory = true;
	assert_int_equal(memory_charge_start(&spec, false).huge_bytes, GIB);
	charge = memory_charge_start(&spec, true);
	assert_int_equal(charge.huge_bytes, 0);
	assert_int_equal(charge.memory_bytes, GIB);
}

static void a_domain_is_charged_while_it_is_up_and_ours(void **state)
{
	static const struct {
		Bc__V1__Domain__State domain_state;
		bool managed;
		uint64_t huge_page_bytes;
		uint64_t want;
	} TABLE[] = {
		{ BC__V1__DOMAIN__STATE__RUNNING, true, 0, GIB },
		{ BC__V1__DOMAIN__STATE__PAUSED, true, 0, GIB },
		{ BC__V1__DOMAIN__STATE__STOPPING, true, 0, GIB },
		{ BC__V1__DOMAIN__STATE__STOPPED, true, 0, 0 },
		{ BC__V1__DOMAIN__STATE__CRASHED, true, 0, 0 },
		{ BC__V1__DOMAIN__STATE__RUNNING, false, 0, 0 },
		{ BC__V1__DOMAIN__STATE__RUNNING, true, 2 * MIB, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		Bc__V1__Domain domain = BC__V1__DOMAIN__INIT;

		domain.memory_bytes = GIB;
		domain.state = TABLE[i].domain_state;
		domain.managed = TABLE[i].managed;
		domain.huge_page_bytes = TABLE[i].huge_page_bytes;
		struct memory_charge charge = memory_charge_domain(&domain);

		assert_int_equal(charge.memory_bytes, TABLE[i].want);
		assert_int_equal(charge.huge_bytes, 0);
	}
}

static void only_bound_holds_count(void **state)
{
	Bc__V1__Hold a = BC__V1__HOLD__INIT, b = BC__V1__HOLD__INIT, c = BC__V1__HOLD__INIT;
	Bc__V1__Hold *holds[] = { &a, &b, &c };

	(void)state;
	a.memory_bytes = GIB;
	a.bound = true;
	b.memory_bytes = 4 * GIB;
	c.memory_bytes = 2 * GIB;
	c.bound = true;
	assert_int_equal(admission_held_bytes(holds, 3), 3 * GIB);
	a.memory_bytes = UINT64_MAX;
	assert_int_equal(admission_held_bytes(holds, 3), UINT64_MAX);
	assert_int_equal(admission_held_bytes(NULL, 0), 0);
}

/* Sums of what a runtime says cannot wrap around and open the gate. */
static void absurd_domains_do_not_wrap(void **state)
{
	struct host_facts host;
	struct admission admission;
	struct memory_charge absurd = normal(UINT64_MAX), small = normal(16 * MIB);

	(void)state;
	host_init(&host);
	admission_init(&admission, &host);
	for (int i = 0; i < 100; i++)
		admission_add(&admission, &absurd);
	assert_int_equal(admission_check(&admission, &small, NULL), -ENOSPC);
	for (int i = 0; i < 100; i++)
		admission_sub(&admission, &absurd);
	assert_int_equal(admission_check(&admission, &small, NULL), 0);
}

TEST_SUITE(admission_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overhead_is_a_32nd_and_256_mib),
		cmocka_unit_test(what_fits_on_normal_pages),
		cmocka_unit_test(a_refusal_says_needed_above_free_even_at_the_edge),
		cmocka_unit_test(a_host_that_cannot_be_read_admits),
		cmocka_unit_test(starts_of_one_pass_add_up_and_come_back),
		cmocka_unit_test(huge_pages_are_counted_on_their_nodes_and_on_the_host),
		cmocka_unit_test(a_page_size_without_a_pool_has_nothing_free),
		cmocka_unit_test(the_table_of_huge_starts_is_bounded),
		cmocka_unit_test(a_start_is_charged_where_its_memory_will_be),
		cmocka_unit_test(a_domain_is_charged_while_it_is_up_and_ours),
		cmocka_unit_test(only_bound_holds_count),
		cmocka_unit_test(absurd_domains_do_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
