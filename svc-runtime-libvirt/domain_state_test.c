#include "svc-runtime-libvirt/domain_state.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <libvirt/libvirt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_state_has_its_words(void **state)
{
	static const struct {
		int state, reason;
		bool asked, panicked;
		enum domain_state is;
		const char *words;
	} cases[] = {
		{ VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_BOOTED, false, false, DOMAIN_RUNNING, "" },
		{ VIR_DOMAIN_BLOCKED, 0, false, false, DOMAIN_RUNNING, "" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_USER, false, false, DOMAIN_PAUSED, "" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_IOERROR, false, false, DOMAIN_PAUSED, "DiskError" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_WATCHDOG, false, false, DOMAIN_PAUSED, "Watchdog" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_SAVE, false, false, DOMAIN_PAUSED, "Snapshotting" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_SHUTTING_DOWN, false, false, DOMAIN_STOPPING, "" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_CRASHED, false, false, DOMAIN_CRASHED,
		        "GuestPanicked" },
		{ VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_STARTING_UP, false, false, DOMAIN_PAUSED, "Starting" },
		{ VIR_DOMAIN_SHUTDOWN, 0, false, false, DOMAIN_STOPPING, "" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_SHUTDOWN, false, false, DOMAIN_STOPPED,
		        "GuestShutdown" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_DESTROYED, false, false, DOMAIN_STOPPED,
		        "Destroyed" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED, false, false, DOMAIN_CRASHED, "VmmDied" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_DAEMON, false, false, DOMAIN_CRASHED, "VmmDied" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_FAILED, false, false, DOMAIN_CRASHED,
		        "StartFailed" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_SAVED, false, false, DOMAIN_STOPPED, "Saved" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_UNKNOWN, false, false, DOMAIN_STOPPED, "" },
		/* a panic ends QEMU as a crash does: the event alone tells */
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED, false, true, DOMAIN_CRASHED,
		        "GuestPanicked" },
		/* whoever was asked to stop has stopped, however it went down */
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_SHUTDOWN, true, false, DOMAIN_STOPPED, "" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_DESTROYED, true, false, DOMAIN_STOPPED, "" },
		{ VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED, true, true, DOMAIN_STOPPED, "" },
		{ VIR_DOMAIN_CRASHED, VIR_DOMAIN_CRASHED_PANICKED, false, true, DOMAIN_CRASHED,
		        "GuestPanicked" },
		{ VIR_DOMAIN_PMSUSPENDED, 0, false, false, DOMAIN_PAUSED, "GuestSuspended" },
		{ VIR_DOMAIN_NOSTATE, 0, false, false, DOMAIN_STOPPED, "Unknown" },
		{ 4711, 4711, false, false, DOMAIN_STOPPED, "Unknown" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct domain_condition condition = domain_condition_from_virt(
		        cases[i].state, cases[i].reason, cases[i].asked, cases[i].panicked);

		print_message("case %zu\n", i);
		assert_int_equal(condition.state, cases[i].is);
		assert_string_equal(condition.reason, cases[i].words);
		/* a reason has words for a person, and no reason has none */
		assert_int_equal(condition.reason[0] == '\0', condition.message[0] == '\0');
	}
}

static void every_state_has_a_name(void **state)
{
	(void)state;
	for (int i = DOMAIN_STOPPED; i <= DOMAIN_CRASHED; i++)
		assert_non_null(domain_state_to_string((enum domain_state)i));
	assert_true(domain_state_is_active(DOMAIN_RUNNING));
	assert_true(domain_state_is_active(DOMAIN_PAUSED));
	assert_true(domain_state_is_active(DOMAIN_STOPPING));
	assert_false(domain_state_is_active(DOMAIN_STOPPED));
	assert_false(domain_state_is_active(DOMAIN_CRASHED));
}

TEST_SUITE(domain_state_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_state_has_its_words),
		cmocka_unit_test(every_state_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
