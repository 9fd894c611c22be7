#include "svc-runtime-libvirt/domains_table_test.h"
#include "tests/harness/suite.h"

static const char id[] = "00000000-0000-4000-8000-000000000001";

static struct domain_look look_of(int virt_state, uint64_t begun_usec, uint64_t ended_usec)
{
	struct domain_look look = {
		.begun_usec = begun_usec, .ended_usec = ended_usec, .present = virt_state >= 0
	};

	(void)strcpy(look.uuid, id);
	if (look.present) {
		look.state = virt_state;
		look.record.name = strdup("bc-1");
	}
	return look;
}

/* As an operation's job does. */
static void apply(struct table *t, int virt_state, uint64_t begun_usec, uint64_t ended_usec)
{
	struct domain_look look = look_of(virt_state, begun_usec, ended_usec);

	domains_apply(t->domains, &look);
	domain_look_done(&look);
}

static void reconnect(struct table *t, int virt_state, uint64_t begun_usec, uint64_t ended_usec)
{
	struct domain_look look = look_of(virt_state, begun_usec, ended_usec);

	domains_unsync(t->domains);
	domains_sync(t->domains, &look, virt_state >= 0);
	domain_look_done(&look);
	/* as if it was lost at once: no look can be taken */
	domains_unsync(t->domains);
}

enum { GONE = -1 };

static void an_older_look_that_comes_late_is_not_believed(void **state)
{
	struct table *t = *state;

	apply(t, VIR_DOMAIN_RUNNING, 100, 200);
	apply(t, VIR_DOMAIN_SHUTOFF, 10, 20);
	assert_int_equal(domains_find(t->domains, id)->condition.state, DOMAIN_RUNNING);
	apply(t, GONE, 30, 40);
	assert_int_equal(domains_find(t->domains, id)->condition.state, DOMAIN_RUNNING);
	assert_false(domains_find(t->domains, id)->look_again);
	assert_int_equal(t->n_changed, 1);
	assert_int_equal(t->n_gone, 0);
	apply(t, VIR_DOMAIN_PAUSED, 201, 210);
	assert_int_equal(domains_find(t->domains, id)->condition.state, DOMAIN_PAUSED);
}

static void of_two_at_the_same_time_an_operations_counts_and_a_third_is_taken(void **state)
{
	struct table *t = *state;

	apply(t, VIR_DOMAIN_SHUTOFF, 100, 200);
	apply(t, VIR_DOMAIN_RUNNING, 150, 250);
	assert_int_equal(domains_find(t->domains, id)->condition.state, DOMAIN_RUNNING);
	assert_true(domains_find(t->domains, id)->look_again);
}

static void what_is_gone_does_not_come_back_by_a_look_from_before(void **state)
{
	struct table *t = *state;

	apply(t, VIR_DOMAIN_SHUTOFF, 10, 20);
	/* an event's look is under way, which keeps the entry */
	domains_find(t->domains, id)->looking = true;
	apply(t, GONE, 100, 200);
	assert_null(domains_find(t->domains, id));
	apply(t, VIR_DOMAIN_SHUTOFF, 30, 40);
	assert_null(domains_find(t->domains, id));
	assert_int_equal(t->n_gone, 1);
	apply(t, VIR_DOMAIN_SHUTOFF, 300, 400);
	assert_non_null(domains_find(t->domains, id));
}

static void a_new_connections_list_is_the_truth(void **state)
{
	struct table *t = *state;

	apply(t, VIR_DOMAIN_RUNNING, 100, 200);
	reconnect(t, VIR_DOMAIN_SHUTOFF, 50, 60);
	assert_int_equal(domains_find(t->domains, id)->condition.state, DOMAIN_STOPPED);
	reconnect(t, GONE, 0, 0);
	assert_null(domains_find(t->domains, id));
	assert_int_equal(t->n_gone, 1);
}

TEST_SUITE(domains_test)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLE(an_older_look_that_comes_late_is_not_believed),
		WITH_TABLE(of_two_at_the_same_time_an_operations_counts_and_a_third_is_taken),
		WITH_TABLE(what_is_gone_does_not_come_back_by_a_look_from_before),
		WITH_TABLE(a_new_connections_list_is_the_truth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
