#include "cli/settle.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	Bc__V1__NodeSpec spec;
	Bc__V1__Instances instances;
	Bc__V1__InstanceSpec item[3], *items[3];
	struct settle *settle;
};

/* Three instances: a RUNNING, b STOPPED, c PAUSED; not in the order of their ids. */
static void fixture_open(struct fixture *f)
{
	static const char *const IDS[] = { "c", "a", "b" };
	static const Bc__V1__InstanceSpec__DesiredState STATES[] = {
		BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED,
		BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING,
		BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED,
	};

	bc__v1__node_spec__init(&f->spec);
	bc__v1__instances__init(&f->instances);
	f->spec.instances = &f->instances;
	f->instances.items = f->items;
	f->instances.n_items = 3;
	for (size_t i = 0; i < 3; i++) {
		bc__v1__instance_spec__init(&f->item[i]);
		f->item[i].id = (char *)IDS[i];
		f->item[i].desired_state = STATES[i];
		f->items[i] = &f->item[i];
	}
	f->settle = settle_new(&f->spec, 7);
	assert_non_null(f->settle);
}

/* One delta about one instance. */
static void tell(struct fixture *f, const char *id, Bc__V1__InstanceStatus__State state, bool synced)
{
	Bc__V1__StatusDelta delta = BC__V1__STATUS_DELTA__INIT;
	Bc__V1__InstanceStatus status = BC__V1__INSTANCE_STATUS__INIT, *statuses[] = { &status };

	status.id = (char *)id;
	status.state = state;
	delta.instances = statuses;
	delta.n_instances = 1;
	delta.synced = synced;
	delta.accepted_revision = 7;
	settle_delta(f->settle, &delta);
}

#define STATE(name) BC__V1__INSTANCE_STATUS__STATE__##name

static void it_waits_for_every_one(void **state)
{
	struct fixture f;
	char text[256];

	(void)state;
	fixture_open(&f);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	tell(&f, "a", STATE(RUNNING), false);
	tell(&f, "b", STATE(STOPPED), false);
	tell(&f, "c", STATE(PAUSED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS); /* not synced */
	tell(&f, "c", STATE(STARTING), true);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	settle_text(f.settle, text, sizeof(text));
	assert_string_equal(text, "2 of 3 as wished; c STARTING");
	tell(&f, "c", STATE(PAUSED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE);
	tell(&f, "a", STATE(STOPPED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	tell(&f, "a", STATE(COMPLETED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE);
	(void)settle_free(f.settle);
}

static void what_is_not_in_the_spec_must_go(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	tell(&f, "a", STATE(RUNNING), false);
	tell(&f, "b", STATE(STOPPED), false);
	tell(&f, "c", STATE(PAUSED), true);
	tell(&f, "foreign", STATE(UNMANAGED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE);
	tell(&f, "old", STATE(REMOVING), false);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	tell(&f, "old", STATE(REMOVED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE);
	(void)settle_free(f.settle);
}

static void an_older_revision_settles_nothing(void **state)
{
	struct fixture f;
	Bc__V1__StatusDelta delta = BC__V1__STATUS_DELTA__INIT;

	(void)state;
	fixture_open(&f);
	f.instances.n_items = 0;
	(void)settle_free(f.settle);
	f.settle = settle_new(&f.spec, 7);
	delta.synced = true;
	delta.accepted_revision = 6;
	settle_delta(f.settle, &delta);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	delta.accepted_revision = 7;
	settle_delta(f.settle, &delta);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE);
	(void)settle_free(f.settle);
}

static void a_final_failure_ends_the_wait(void **state)
{
	struct fixture f;
	Bc__V1__StatusDelta delta = BC__V1__STATUS_DELTA__INIT;
	Bc__V1__InstanceStatus status = BC__V1__INSTANCE_STATUS__INIT, *statuses[] = { &status };
	Google__Protobuf__Timestamp soon = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

	(void)state;
	fixture_open(&f);
	soon.seconds = 100;
	status.id = (char *)"a";
	status.state = STATE(FAILED);
	status.next_attempt = &soon;
	delta.instances = statuses;
	delta.n_instances = 1;
	delta.synced = true;
	delta.accepted_revision = 7;
	settle_delta(f.settle, &delta);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS); /* it is tried again */
	status.next_attempt = NULL;
	settle_delta(f.settle, &delta);
	assert_int_equal(settle_check(f.settle), SETTLE_FAILED);
	(void)settle_free(f.settle);
}

static void a_break_makes_what_is_known_stale(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	tell(&f, "a", STATE(RUNNING), false);
	tell(&f, "b", STATE(STOPPED), false);
	tell(&f, "c", STATE(PAUSED), true);
	tell(&f, "old", STATE(REMOVING), false);
	settle_break(f.settle);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	tell(&f, "a", STATE(RUNNING), false);
	tell(&f, "b", STATE(STOPPED), true);
	assert_int_equal(settle_check(f.settle), SETTLE_WAITS);
	tell(&f, "c", STATE(PAUSED), false);
	assert_int_equal(settle_check(f.settle), SETTLE_DONE); /* the old one went meanwhile */
	(void)settle_free(f.settle);
}

static void many_strangers_are_kept_apart(void **state)
{
	struct fixture f;
	char id[16];

	(void)state;
	fixture_open(&f);
	tell(&f, "a", STATE(RUNNING), false);
	tell(&f, "b", STATE(STOPPED), false);
	tell(&f, "c", STATE(PAUSED), true);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < 100; i++) {
			(void)snprintf(id, sizeof(id), "old%d", i);
			tell(&f, id, pass ? STATE(REMOVED) : STATE(REMOVING), false);
			assert_int_equal(
			        settle_check(f.settle), pass && i == 99 ? SETTLE_DONE : SETTLE_WAITS);
		}
	(void)settle_free(f.settle);
}

static void what_failed_is_named_first(void **state)
{
	struct fixture f;
	char text[256];

	(void)state;
	fixture_open(&f);
	tell(&f, "a", STATE(STARTING), false);
	tell(&f, "b", STATE(STARTING), true);
	tell(&f, "c", STATE(FAILED), true);
	assert_int_equal(settle_check(f.settle), SETTLE_FAILED);
	settle_text(f.settle, text, sizeof(text));
	assert_string_equal(text, "0 of 3 as wished; c FAILED; a STARTING; b STARTING");
	(void)settle_free(f.settle);
}

static void ids_are_shown_as_far_as_they_differ(void **state)
{
	struct fixture f;
	char text[256];

	(void)state;
	fixture_open(&f);
	(void)settle_free(f.settle);
	f.item[0].id = (char *)"6f1d2c3e-0000-000b";
	f.item[1].id = (char *)"6f1d2c3e-0001-000a";
	f.item[2].id = (char *)"7f1d2c3e-0000-000b";
	f.settle = settle_new(&f.spec, 7);
	assert_non_null(f.settle);
	settle_text(f.settle, text, sizeof(text));
	assert_string_equal(text,
	        "0 of 3 as wished; 6f1d2c3e-0000 not seen yet; 6f1d2c3e-0001 not seen yet; "
	        "7f1d2c3e not seen yet");
	(void)settle_free(f.settle);
}

TEST_SUITE(settle_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_waits_for_every_one),
		cmocka_unit_test(what_is_not_in_the_spec_must_go),
		cmocka_unit_test(an_older_revision_settles_nothing),
		cmocka_unit_test(a_final_failure_ends_the_wait),
		cmocka_unit_test(a_break_makes_what_is_known_stale),
		cmocka_unit_test(many_strangers_are_kept_apart),
		cmocka_unit_test(what_failed_is_named_first),
		cmocka_unit_test(ids_are_shown_as_far_as_they_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
