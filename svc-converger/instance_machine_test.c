#include "svc-converger/instance_machine.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define F(fact) FACT_##fact

struct machine_case {
	enum machine_desired desired;
	enum machine_observed observed;
	uint32_t facts;
	enum machine_action action;
};

/* One line per arrow of the diagram in docs/converger.md. */
static const struct machine_case cases[] = {
	/* a removal: domain, interfaces, files, mark, whatever is wished now */
	{ DESIRED_ABSENT, OBSERVED_RUNNING, F(REMOVAL), ACTION_REMOVE_DOMAIN },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(REMOVAL), ACTION_REMOVE_DOMAIN },
	{ DESIRED_ABSENT, OBSERVED_ABSENT, F(REMOVAL), ACTION_REMOVE_DOMAIN },
	{ DESIRED_ABSENT, OBSERVED_STOPPING, F(REMOVAL), ACTION_REMOVE_DOMAIN },
	{ DESIRED_ABSENT, OBSERVED_UNKNOWN, F(REMOVAL), ACTION_WAIT_RUNTIME },
	{ DESIRED_ABSENT, OBSERVED_FOREIGN, F(REMOVAL), ACTION_RELEASE_NICS },
	{ DESIRED_ABSENT, OBSERVED_UNKNOWN, F(REMOVAL) | F(DOMAIN_GONE), ACTION_RELEASE_NICS },
	{ DESIRED_ABSENT, OBSERVED_ABSENT, F(REMOVAL) | F(DOMAIN_GONE) | F(NETD_AWAY), ACTION_WAIT_NETD },
	{ DESIRED_ABSENT, OBSERVED_ABSENT, F(REMOVAL) | F(DOMAIN_GONE) | F(NICS_GONE) | F(NETD_AWAY),
	        ACTION_REMOVE_FILES },
	{ DESIRED_ABSENT, OBSERVED_ABSENT, F(REMOVAL) | F(DOMAIN_GONE) | F(NICS_GONE) | F(FILES_GONE),
	        ACTION_FORGET_REMOVAL },
	{ DESIRED_ABSENT, OBSERVED_RUNNING, F(REMOVAL) | F(BACKOFF), ACTION_WAIT_BACKOFF },
	{ DESIRED_ABSENT, OBSERVED_RUNNING, F(REMOVAL) | F(TERMINAL) | F(DRAINING) | F(NO_CAPACITY),
	        ACTION_REMOVE_DOMAIN },
	{ DESIRED_ABSENT, OBSERVED_ABSENT, 0, ACTION_FORGET },
	{ DESIRED_ABSENT, OBSERVED_UNKNOWN, 0, ACTION_FORGET },
	{ DESIRED_ABSENT, OBSERVED_STOPPED, F(STALE), ACTION_MARK_REMOVAL },
	/* what is not ours, or not known, or of another incarnation */
	{ DESIRED_RUNNING, OBSERVED_FOREIGN, 0, ACTION_REFUSE_FOREIGN },
	{ DESIRED_STOPPED, OBSERVED_FOREIGN, F(STALE), ACTION_REFUSE_FOREIGN },
	{ DESIRED_RUNNING, OBSERVED_UNKNOWN, F(STALE), ACTION_WAIT_RUNTIME },
	{ DESIRED_STOPPED, OBSERVED_UNKNOWN, 0, ACTION_WAIT_RUNTIME },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(STALE), ACTION_MARK_REMOVAL },
	{ DESIRED_RUNNING, OBSERVED_STOPPED, F(STALE) | F(BACKOFF) | F(TERMINAL), ACTION_MARK_REMOVAL },
	/* stopping */
	{ DESIRED_STOPPED, OBSERVED_RUNNING, 0, ACTION_STOP },
	{ DESIRED_STOPPED, OBSERVED_PAUSED, F(DRAINING), ACTION_STOP },
	{ DESIRED_STOPPED, OBSERVED_RUNNING, F(NETD_AWAY), ACTION_STOP },
	{ DESIRED_STOPPED, OBSERVED_RUNNING, F(BACKOFF), ACTION_WAIT_BACKOFF },
	{ DESIRED_STOPPED, OBSERVED_STOPPING, 0, ACTION_WAIT_STOPPING },
	{ DESIRED_STOPPED, OBSERVED_STOPPED, F(NICS_HELD), ACTION_RELEASE_NICS },
	{ DESIRED_STOPPED, OBSERVED_STOPPED, F(NICS_HELD) | F(NETD_AWAY), ACTION_NONE },
	{ DESIRED_STOPPED, OBSERVED_STOPPED, F(NICS_HELD) | F(BACKOFF), ACTION_WAIT_BACKOFF },
	{ DESIRED_STOPPED, OBSERVED_CRASHED, 0, ACTION_NONE },
	{ DESIRED_STOPPED, OBSERVED_ABSENT, 0, ACTION_NONE },
	/* a job runs once */
	{ DESIRED_RUNNING, OBSERVED_STOPPED, F(JOB_ENDED), ACTION_NONE },
	{ DESIRED_RUNNING, OBSERVED_CRASHED, F(JOB_ENDED) | F(NICS_HELD), ACTION_RELEASE_NICS },
	{ DESIRED_RUNNING, OBSERVED_CRASHED, F(JOB_ENDED) | F(NICS_HELD) | F(BACKOFF), ACTION_WAIT_BACKOFF },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(JOB_ENDED), ACTION_NONE },
	/* reasons not to start, alone and in their order */
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(TERMINAL) | F(DRAINING), ACTION_REFUSE_TERMINAL },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(DRAINING) | F(BACKOFF), ACTION_WAIT_DRAINING },
	{ DESIRED_RUNNING, OBSERVED_CRASHED, F(BACKOFF) | F(MISPLACED), ACTION_WAIT_BACKOFF },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(MISPLACED) | F(VOLUME_MISSING), ACTION_REFUSE_MISPLACED },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(VOLUME_MISSING) | F(VOLUME_BUSY), ACTION_WAIT_VOLUME },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(VOLUME_BUSY) | F(NO_CAPACITY), ACTION_WAIT_VOLUME_BUSY },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(NO_CAPACITY) | F(IMAGE_MISSING), ACTION_WAIT_CAPACITY },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(NO_CAPACITY) | F(IMAGE_REFUSED), ACTION_WAIT_CAPACITY },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(IMAGE_REFUSED) | F(IMAGE_MISSING), ACTION_REFUSE_IMAGE },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(IMAGE_MISSING) | F(RESTORE_MISSING), ACTION_WAIT_IMAGE },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(RESTORE_MISSING) | F(NETD_AWAY), ACTION_WAIT_RESTORE },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(NETD_AWAY) | F(SECRET_MISSING), ACTION_WAIT_NETD },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(SECRET_MISSING) | F(UNRECORDED), ACTION_WAIT_SECRET },
	/* what was prepared is not kept meanwhile */
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(VOLUME_BUSY) | F(NICS_HELD), ACTION_RELEASE_NICS },
	{ DESIRED_PAUSED, OBSERVED_CRASHED, F(DRAINING) | F(NICS_HELD), ACTION_RELEASE_NICS },
	{ DESIRED_RUNNING, OBSERVED_STOPPED, F(NO_CAPACITY) | F(NICS_HELD) | F(NICS_READY),
	        ACTION_RELEASE_NICS },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(IMAGE_MISSING) | F(NICS_HELD) | F(NETD_AWAY),
	        ACTION_WAIT_IMAGE },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(TERMINAL) | F(NICS_HELD) | F(BACKOFF), ACTION_REFUSE_TERMINAL },
	/* a start, step by step */
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(UNRECORDED), ACTION_RECORD },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, 0, ACTION_PREPARE_NICS },
	{ DESIRED_PAUSED, OBSERVED_STOPPED, 0, ACTION_PREPARE_NICS },
	{ DESIRED_RUNNING, OBSERVED_CRASHED, F(NICS_HELD), ACTION_PREPARE_NICS },
	{ DESIRED_RUNNING, OBSERVED_ABSENT, F(NICS_READY), ACTION_DEFINE },
	{ DESIRED_RUNNING, OBSERVED_STOPPED, F(NICS_READY) | F(DEFINED), ACTION_START },
	{ DESIRED_PAUSED, OBSERVED_STOPPED, F(NICS_READY) | F(DEFINED), ACTION_START },
	{ DESIRED_RUNNING, OBSERVED_STOPPING, F(NICS_READY) | F(DEFINED), ACTION_WAIT_STOPPING },
	/* up */
	{ DESIRED_RUNNING, OBSERVED_RUNNING, 0, ACTION_NONE },
	{ DESIRED_PAUSED, OBSERVED_PAUSED, 0, ACTION_NONE },
	{ DESIRED_RUNNING, OBSERVED_PAUSED, F(DRAINING) | F(NO_CAPACITY), ACTION_RESUME },
	{ DESIRED_PAUSED, OBSERVED_RUNNING, 0, ACTION_PAUSE },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(NICS_DUE), ACTION_SET_POLICY },
	{ DESIRED_PAUSED, OBSERVED_PAUSED, F(NICS_DUE), ACTION_SET_POLICY },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(NICS_DUE) | F(NETD_AWAY), ACTION_NONE },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(GROW_DUE), ACTION_GROW_VOLUMES },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(REBIND_DUE), ACTION_REBIND },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(REBIND_WAITS), ACTION_WAIT_REBIND_SECRET },
	{ DESIRED_PAUSED, OBSERVED_PAUSED, F(REBIND_DUE), ACTION_NONE },
	{ DESIRED_RUNNING, OBSERVED_RUNNING, F(BACKOFF) | F(REBIND_DUE), ACTION_WAIT_BACKOFF },
};

static void machine_answers_every_row(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct machine_case *c = &cases[i];
		enum machine_action action = machine_next(c->desired, c->observed, c->facts);

		if (action != c->action)
			fail_msg("case %zu (desired %d, observed %d, facts %#x): %s, not %s", i, c->desired,
			        c->observed, c->facts, machine_action_to_string(action),
			        machine_action_to_string(c->action));
	}
}

static void machine_cases_reach_every_action(void **state)
{
	bool seen[ACTION_MAX] = { false };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		seen[cases[i].action] = true;
	for (int a = 0; a < ACTION_MAX; a++) {
		assert_non_null(machine_action_to_string(a));
		if (!seen[a])
			fail_msg("no case asks for %s", machine_action_to_string(a));
	}
	assert_null(machine_action_to_string(ACTION_MAX));
}

/* What must hold whatever the facts are. */
static void check_rules(enum machine_desired desired, enum machine_observed observed, uint32_t facts)
{
	enum machine_action action = machine_next(desired, observed, facts);
	enum machine_class class = machine_action_class(action);
	bool touches_domain = action == ACTION_REMOVE_DOMAIN || action == ACTION_STOP ||
	        action == ACTION_PAUSE || action == ACTION_RESUME || action == ACTION_DEFINE ||
	        action == ACTION_START || action == ACTION_GROW_VOLUMES || action == ACTION_REBIND;

#define RULE(holds)                                                                                          \
	do {                                                                                                 \
		if (!(holds))                                                                                \
			fail_msg("desired %d, observed %d, facts %#x give %s against: %s", desired,          \
			        observed, facts, machine_action_to_string(action), #holds);                  \
	} while (0)

	/* "I cannot tell" and "not ours" never lead to touching a domain. */
	RULE(!(touches_domain && (observed == OBSERVED_UNKNOWN || observed == OBSERVED_FOREIGN)));
	/* An earlier incarnation goes first. */
	RULE(!(facts & (F(REMOVAL) | F(STALE)) && class == CLASS_STARTING));
	RULE(!(facts & F(REMOVAL) && class == CLASS_OTHER));
	/* A removal is never over before everything is gone. */
	RULE(action != ACTION_FORGET_REMOVAL || facts & F(FILES_GONE));
	RULE(action != ACTION_REMOVE_FILES || facts & F(NICS_GONE));
	RULE(action != ACTION_RELEASE_NICS || !(facts & F(REMOVAL)) || facts & F(DOMAIN_GONE) ||
	        observed == OBSERVED_FOREIGN);
	/* Only a mark, or a wish, ends a domain; and interfaces never go from under a running one. */
	RULE(action != ACTION_REMOVE_DOMAIN || facts & F(REMOVAL));
	RULE(action != ACTION_STOP || desired == DESIRED_STOPPED);
	RULE(action != ACTION_RELEASE_NICS || facts & F(REMOVAL) ||
	        (observed != OBSERVED_RUNNING && observed != OBSERVED_PAUSED &&
	                observed != OBSERVED_STOPPING));
	/* Nothing starts against a reason, or what nobody wishes up, or what is up. */
	RULE(class != CLASS_STARTING ||
	        (!(facts &
	                 (F(BACKOFF) | F(TERMINAL) | F(DRAINING) | F(JOB_ENDED) | F(MISPLACED) |
	                         F(VOLUME_MISSING) | F(VOLUME_BUSY) | F(NO_CAPACITY) | F(IMAGE_MISSING) |
	                         F(IMAGE_REFUSED) | F(RESTORE_MISSING) | F(NETD_AWAY) | F(SECRET_MISSING))) &&
	                (desired == DESIRED_RUNNING || desired == DESIRED_PAUSED) &&
	                (observed == OBSERVED_ABSENT || observed == OBSERVED_STOPPED ||
	                        observed == OBSERVED_CRASHED)));
	RULE(class != CLASS_STARTING || machine_wants_start(desired, observed, facts));
	RULE(class != CLASS_STARTING || action == ACTION_RECORD || !(facts & F(UNRECORDED)));
	RULE(action != ACTION_START || (facts & F(NICS_READY) && facts & F(DEFINED)));
	/* Failing starts, a full or draining host never stand in the way of going away. */
	RULE(!(facts & F(REMOVAL)) ||
	        action ==
	                machine_next(desired, observed,
	                        facts &
	                                ~(F(TERMINAL) | F(DRAINING) | F(NO_CAPACITY) | F(MISPLACED) |
	                                        F(IMAGE_MISSING) | F(IMAGE_REFUSED) | F(SECRET_MISSING) |
	                                        F(VOLUME_BUSY))));
	/* A stop needs no netd. */
	RULE(!(facts & F(NETD_AWAY)) || facts & F(REMOVAL) || desired != DESIRED_STOPPED ||
	        action != ACTION_WAIT_NETD);
#undef RULE
}

static void machine_keeps_its_rules(void **state)
{
	uint64_t random = 0x9e3779b97f4a7c15;

	(void)state;
	for (int d = 0; d < DESIRED_MAX; d++) {
		for (int o = 0; o < OBSERVED_MAX; o++) {
			check_rules(d, o, 0);
			for (int a = 0; a < FACT_BITS; a++)
				for (int b = a; b < FACT_BITS; b++)
					for (int c = b; c < FACT_BITS; c++)
						check_rules(d, o, 1u << a | 1u << b | 1u << c);
			for (int i = 0; i < 20000; i++) {
				random = random * 6364136223846793005 + 1442695040888963407;
				check_rules(d, o, (uint32_t)(random >> 33) & ((1u << FACT_BITS) - 1));
			}
		}
	}
}

/* From nothing, doing what the machine says and letting each action have its effect reaches the wish. */
static void machine_reaches_the_wish(void **state)
{
	enum machine_observed observed = OBSERVED_ABSENT;
	uint32_t facts = F(UNRECORDED) | F(IMAGE_MISSING);
	enum machine_desired wishes[] = { DESIRED_RUNNING, DESIRED_PAUSED, DESIRED_RUNNING, DESIRED_STOPPED };

	(void)state;
	for (size_t w = 0; w < ARRAY_SIZE(wishes); w++) {
		int steps = 0;

		for (;; steps++) {
			enum machine_action action = machine_next(wishes[w], observed, facts);

			assert_true(steps < 10);
			if (action == ACTION_NONE)
				break;
			switch (action) {
			case ACTION_WAIT_IMAGE:
				facts &= ~F(IMAGE_MISSING);
				break;
			case ACTION_RECORD:
				facts &= ~F(UNRECORDED);
				break;
			case ACTION_PREPARE_NICS:
				facts |= F(NICS_READY) | F(NICS_HELD);
				break;
			case ACTION_DEFINE:
				facts |= F(DEFINED);
				observed = OBSERVED_STOPPED;
				break;
			case ACTION_START:
			case ACTION_RESUME:
				facts &= ~(F(NICS_READY) | F(DEFINED));
				observed = OBSERVED_RUNNING;
				break;
			case ACTION_PAUSE:
				observed = OBSERVED_PAUSED;
				break;
			case ACTION_STOP:
				observed = OBSERVED_STOPPED;
				break;
			case ACTION_RELEASE_NICS:
				facts &= ~F(NICS_HELD);
				break;
			default:
				fail_msg("unexpected %s", machine_action_to_string(action));
			}
		}
		assert_int_equal(observed,
		        wishes[w] == DESIRED_RUNNING          ? OBSERVED_RUNNING
		                : wishes[w] == DESIRED_PAUSED ? OBSERVED_PAUSED
		                                              : OBSERVED_STOPPED);
	}
	assert_false(facts & F(NICS_HELD));
}

TEST_SUITE(instance_machine_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machine_answers_every_row),
		cmocka_unit_test(machine_cases_reach_every_action),
		cmocka_unit_test(machine_keeps_its_rules),
		cmocka_unit_test(machine_reaches_the_wish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
