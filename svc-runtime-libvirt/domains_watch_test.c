/* What the watchers of the table hear of it. */
#include "svc-runtime-libvirt/domains_table_test.h"

#include "lib/base/clock.h"
#include "tests/harness/suite.h"

static const char A[] = "11111111-1111-4111-8111-111111111111";
static const char B[] = "22222222-2222-4222-8222-222222222222";
static const char C[] = "33333333-3333-4333-8333-333333333333";

/* Later than everything before it. */
static uint64_t next_usec(void)
{
	uint64_t now = clock_monotonic_usec(), next;

	do
		next = clock_monotonic_usec();
	while (next == now);
	return next;
}

static struct domain_look look_of(const char *uuid, int virt_state, int reason)
{
	struct domain_look look = { .begun_usec = next_usec(),
		.ended_usec = next_usec(),
		.present = true,
		.state = virt_state,
		.reason = reason };

	(void)strcpy(look.uuid, uuid);
	(void)strcpy(look.record.uuid, uuid);
	look.record.name = strdup("web");
	assert_non_null(look.record.name);
	return look;
}

static void apply(struct table *t, const char *uuid, int virt_state, int reason)
{
	struct domain_look look = look_of(uuid, virt_state, reason);

	domains_apply(t->domains, &look);
	domain_look_done(&look);
}

static void apply_gone(struct table *t, const char *uuid)
{
	struct domain_look look = { .begun_usec = next_usec(), .ended_usec = next_usec() };

	(void)strcpy(look.uuid, uuid);
	domains_apply(t->domains, &look);
}

static void sync_with(struct table *t, const char *const *uuids, size_t n)
{
	struct domain_look looks[4];

	assert_true(n <= 4);
	for (size_t i = 0; i < n; i++)
		looks[i] = look_of(uuids[i], VIR_DOMAIN_RUNNING, 0);
	domains_sync(t->domains, looks, n);
	for (size_t i = 0; i < n; i++)
		domain_look_done(&looks[i]);
}

static void a_look_that_says_nothing_new_wakes_nobody(void **state)
{
	struct table *t = *state;

	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	assert_int_equal(t->n_changed, 1);
	uint64_t since = domains_find(t->domains, A)->since_usec;
	uint64_t version = domains_find(t->domains, A)->version;
	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	assert_int_equal(t->n_changed, 1);
	assert_int_equal(domains_find(t->domains, A)->version, version);
	assert_int_equal(domains_find(t->domains, A)->since_usec, since);
	apply(t, A, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_USER);
	assert_int_equal(t->n_changed, 2);
	/* another reason for the same state is news, and no new beginning */
	since = domains_find(t->domains, A)->since_usec;
	apply(t, A, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_IOERROR);
	assert_int_equal(t->n_changed, 3);
	assert_string_equal(domains_find(t->domains, A)->condition.reason, "DiskError");
	assert_int_equal(domains_find(t->domains, A)->since_usec, since);
}

static void what_a_sync_does_not_list_is_gone(void **state)
{
	static const char *const all[] = { A, B, C }, *const some[] = { B };
	struct table *t = *state;

	assert_false(domains_synced(t->domains));
	sync_with(t, all, 3);
	assert_true(domains_synced(t->domains));
	assert_int_equal(t->n_gone, 0);
	/* of what was there before us it is not known since when */
	assert_int_equal(domains_find(t->domains, A)->since_usec, 0);
	/* unsynced says nothing about them: they are still known, and nobody is told that they went */
	domains_unsync(t->domains);
	assert_false(domains_synced(t->domains));
	assert_non_null(domains_find(t->domains, A));
	assert_int_equal(t->n_gone, 0);
	sync_with(t, some, 1);
	assert_int_equal(t->n_gone, 2);
	assert_null(domains_find(t->domains, A));
	assert_non_null(domains_find(t->domains, B));
	assert_null(domains_find(t->domains, C));
	struct domain_entry *first = domains_next(t->domains, NULL);
	assert_string_equal(first->uuid, B);
	assert_null(domains_next(t->domains, first));
}

static void nothing_is_known_of_what_was_never_there(void **state)
{
	struct table *t = *state;

	apply_gone(t, A);
	assert_int_equal(t->n_gone, 0);
	assert_null(domains_find_any(t->domains, A));
	/* an entry that waits for its first look is no domain yet, and goes with a look that finds none */
	assert_non_null(domains_get(t->domains, A));
	assert_null(domains_find(t->domains, A));
	assert_non_null(domains_find_any(t->domains, A));
	apply_gone(t, A);
	assert_null(domains_find_any(t->domains, A));
	assert_int_equal(t->n_gone, 0);
}

struct watcher {
	struct domains_watcher watcher;
	unsigned n_woken;
};

static void on_more(struct domains_watcher *watcher)
{
	((struct watcher *)watcher)->n_woken++;
}

static void expect(struct table *t, struct watcher *w, const char *uuid, bool present)
{
	struct domain_entry *entry = domains_watcher_next(t->domains, &w->watcher);

	assert_non_null(entry);
	assert_string_equal(entry->uuid, uuid);
	assert_int_equal(entry->look.present, present);
}

static void watchers_hear_every_change_at_their_own_pace(void **state)
{
	static const char *const all[] = { A, B };
	struct watcher fast = { .watcher = { .on_more = on_more } }, slow = fast;
	struct table *t = *state;

	domains_watch(t->domains, &fast.watcher);
	domains_watch(t->domains, &slow.watcher);
	sync_with(t, all, 2);
	assert_true(fast.n_woken > 0 && slow.n_woken > 0);
	expect(t, &fast, A, true);
	expect(t, &fast, B, true);
	assert_null(domains_watcher_next(t->domains, &fast.watcher));
	/* what changes often is heard of once, in its newest state and after what changed before it */
	for (int i = 0; i < 10; i++)
		apply(t, A, i % 2 ? VIR_DOMAIN_RUNNING : VIR_DOMAIN_PAUSED, 0);
	expect(t, &fast, A, true);
	assert_null(domains_watcher_next(t->domains, &fast.watcher));
	expect(t, &slow, B, true);
	expect(t, &slow, A, true);
	assert_null(domains_watcher_next(t->domains, &slow.watcher));
	/* what goes is kept until the last of them has heard */
	apply_gone(t, A);
	expect(t, &fast, A, false);
	assert_non_null(domains_find_any(t->domains, A));
	expect(t, &slow, A, false);
	assert_null(domains_watcher_next(t->domains, &slow.watcher));
	assert_null(domains_find_any(t->domains, A));
	/* and not for one that has left */
	apply_gone(t, B);
	expect(t, &fast, B, false);
	domains_unwatch(t->domains, &slow.watcher);
	assert_null(domains_watcher_next(t->domains, &fast.watcher));
	assert_null(domains_find_any(t->domains, B));
	domains_unwatch(t->domains, &fast.watcher);
}

static void a_domain_that_comes_again_is_told_again(void **state)
{
	struct watcher w = { .watcher = { .on_more = on_more } };
	struct table *t = *state;

	sync_with(t, NULL, 0);
	domains_watch(t->domains, &w.watcher);
	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	apply_gone(t, A);
	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	expect(t, &w, A, true);
	assert_null(domains_watcher_next(t->domains, &w.watcher));
	assert_int_equal(t->n_changed, 2);
	assert_int_equal(t->n_gone, 1);
	domains_unwatch(t->domains, &w.watcher);
}

static void an_end_that_was_asked_for_is_no_crash(void **state)
{
	struct table *t = *state;

	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	struct domain_entry *entry = domains_find(t->domains, A);
	entry->asked = true;
	apply(t, A, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED);
	assert_int_equal(entry->condition.state, DOMAIN_STOPPED);
	/* the wish is spent when it runs again */
	apply(t, A, VIR_DOMAIN_RUNNING, 0);
	assert_false(entry->asked);
	apply(t, A, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED);
	assert_int_equal(entry->condition.state, DOMAIN_CRASHED);
	assert_string_equal(entry->condition.reason, "VmmDied");
	/* a process before this one had asked, and noted it */
	struct domain_look look = look_of(A, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED);
	look.stop_noted = true;
	domains_apply(t->domains, &look);
	assert_int_equal(entry->condition.state, DOMAIN_STOPPED);
}

TEST_SUITE(domains_watch_test)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLE(a_look_that_says_nothing_new_wakes_nobody),
		WITH_TABLE(what_a_sync_does_not_list_is_gone),
		WITH_TABLE(nothing_is_known_of_what_was_never_there),
		WITH_TABLE(watchers_hear_every_change_at_their_own_pace),
		WITH_TABLE(a_domain_that_comes_again_is_told_again),
		WITH_TABLE(an_end_that_was_asked_for_is_no_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
