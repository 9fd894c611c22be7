/* What fails is tried again after a pause, and what waits is woken by what it waits for. */
#include "svc-converger/trouble.h"

#include "lib/base/clock.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/test/fault_vfs.h"
#include "svc-converger/test/world.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";
static const char C[] = "00000000-0000-4000-8000-00000000000c";
static const char D[] = "00000000-0000-4000-8000-00000000000d";

/* --- tries --- */

/* Its next try failed as well, and what follows is the longest pause there is. */
static void fails_for_an_hour(struct world *w, const char *id)
{
	struct instance *instance = converger_instance(w->converger, id);
	struct converger_options *options = &w->converger->options, before = *options;

	options->retry_min_usec = options->retry_max_usec = 3600 * USEC_PER_SEC;
	instance_fail(w->converger, instance, TROUBLE_RETRIED, 50, "StartFailed", "for the fiftieth time");
	*options = before;
	assert_true(instance->trouble->retry_usec > clock_realtime_usec() + 1800 * USEC_PER_SEC);
}

static void what_failed_often_can_still_be_removed(void **state)
{
	struct world *w = *state;

	w->runtime->fail[STUB_SET_STATE] = UINT32_MAX;
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WORLD_WAIT(w, w->runtime->n_calls[STUB_SET_STATE] >= 10);
	WAIT_STATUS(w, A, "FAILED/StartFailed");
	fails_for_an_hour(w, A);
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WAIT_STATUS(w, A, "none");
	assert_null(stub_runtime_domain(w->runtime, A));
	assert_int_equal(stub_netd_held(w->netd, A), 0);
}

/* What failed before failed for another wish: neither its pause nor its finality is the next one's. */
static void a_new_wish_begins_anew(void **state)
{
	struct world *w = *state;
	struct wish wishes[] = { { .id = A, .memory_mib = 65 }, { .id = B, .state = STATE(STOPPED) },
		{ .id = C, .allocation = "a2" }, { 0 } };

	for (int terminal = 0; terminal < 2; terminal++) {
		w->runtime->fail[STUB_SET_STATE] = UINT32_MAX;
		APPLY(w, { .id = A }, { .id = B }, { .id = C }, { .id = D });
		for (const char *const *id = (const char *const[]){ A, B, C, D, NULL }; *id; id++) {
			WAIT_STATUS(w, *id, "FAILED/StartFailed");
			if (terminal)
				instance_fail(w->converger, converger_instance(w->converger, *id),
				        TROUBLE_TERMINAL, 0, "StartFailed", "for ever");
			else
				fails_for_an_hour(w, *id);
		}
		w->runtime->fail[STUB_SET_STATE] = 0;
		assert_int_equal(world_apply(w, wishes), 0);
		WAIT_STATUS(w, A, "RUNNING");
		WAIT_STATUS(w, B, "STOPPED");
		WAIT_STATUS(w, C, "RUNNING");
		WAIT_STATUS(w, D, "none");
		assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
		WAIT_STATUS(w, A, "none");
		WAIT_STATUS(w, B, "none");
		WAIT_STATUS(w, C, "none");
	}
}

/* Each step of a start and of a removal fails once; the second try ends as if nothing had been. */
static void each_step_may_fail_once(void **state)
{
	struct world *w = *state;

	w->netd->fail_prepare = 1;
	w->runtime->fail[STUB_ENSURE] = 1;
	w->runtime->fail[STUB_SET_STATE] = 1;
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(stub_netd_held(w->netd, A), 2);
	assert_int_equal(w->runtime->n_domains, 1);
	assert_null(converger_instance(w->converger, A)->trouble);
	w->runtime->fail[STUB_SET_STATE] = 1;
	APPLY(w, { .id = A, .n_bridge_nics = 2, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	w->runtime->fail[STUB_REMOVE] = 2;
	w->netd->fail_remove = 2;
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WAIT_STATUS(w, A, "none");
	assert_int_equal(w->runtime->n_domains, 0);
	assert_int_equal(w->netd->n_nics, 0);
	assert_int_equal(w->runtime->n_in_flight_max, 1);
}

static unsigned failures_of(struct world *w, const char *id)
{
	const struct trouble *trouble = converger_instance(w->converger, id)->trouble;

	return trouble ? trouble->failures : 0;
}

static void pauses_double_up_to_their_limit(void **state)
{
	struct world *w = *state;
	struct instance *instance = converger_instance_make(w->converger, A);
	const uint64_t min_usec = 1000 * USEC_PER_SEC, max_usec = 6000 * USEC_PER_SEC;

	w->converger->options.retry_min_usec = min_usec;
	w->converger->options.retry_max_usec = max_usec;
	for (uint32_t n = 1; n <= 70; n++) {
		uint64_t pause_usec = n < 4 ? min_usec << (n - 1) : max_usec;
		uint64_t before_usec = clock_realtime_usec();

		instance_fail(w->converger, instance, TROUBLE_RETRIED, 0, "Test", "it was made to");
		assert_int_equal(instance->trouble->failures, n);
		assert_true(instance->trouble->retry_usec >= before_usec + pause_usec * 3 / 4);
		assert_true(instance->trouble->retry_usec <= clock_realtime_usec() + pause_usec * 5 / 4);
	}
	instance_fail(w->converger, instance, TROUBLE_RETRIED, 2, "Test", "counted elsewhere");
	assert_int_equal(instance->trouble->failures, 2);
	/* What is useless to try again has no pause. */
	instance_fail(w->converger, instance, TROUBLE_TERMINAL, 0, "Test", "for ever");
	assert_null(instance->trouble->timer);
	assert_int_equal(instance->trouble->retry_usec, 0);
}

/* FAILED without a next attempt is for good, so at no moment may one that is tried again look like that. */
static void a_pause_that_is_over_is_no_final_failure(void **state)
{
	struct world *w = *state;
	struct instance_report report;

	w->runtime->fail[STUB_SET_STATE] = UINT32_MAX;
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "FAILED/StartFailed");
	struct instance *instance = converger_instance(w->converger, A);
	trouble_end_pause(instance->trouble);
	instance_report_init(w->converger, instance, &report);
	assert_int_equal(report.status.state, BC__V1__INSTANCE_STATUS__STATE__FAILED);
	assert_non_null(report.status.next_attempt);
	instance_report_done(&report);
	instance_fail(w->converger, instance, TROUBLE_TERMINAL, 0, "StartFailed", "for ever");
	instance_report_init(w->converger, instance, &report);
	assert_null(report.status.next_attempt);
	instance_report_done(&report);
}

/* Tries count until one has come to its end, not to its first step. */
static void whatever_step_fails_the_pauses_grow(void **state)
{
	struct world *w = *state;
	static const enum stub_method methods[] = { STUB_ENSURE, STUB_SET_STATE };

	world_volume(w, "v", 1);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		w->runtime->fail[methods[i]] = UINT32_MAX;
		w->runtime->code = GRPC_STATUS_INTERNAL;
		APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "v" });
		WORLD_WAIT(w, failures_of(w, A) > 3);
		w->runtime->fail[methods[i]] = 0;
		WAIT_STATUS(w, A, "RUNNING");
		assert_int_equal(failures_of(w, A), 0);
		APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "v", .state = STATE(STOPPED) });
		WAIT_STATUS(w, A, "STOPPED");
	}
	w->netd->fail_prepare = UINT32_MAX;
	APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "v" });
	WORLD_WAIT(w, failures_of(w, A) > 3);
	w->netd->fail_prepare = 0;
	WAIT_STATUS(w, A, "RUNNING");
}

/* Whatever is answered, a domain that does not come up was not started, and is not tried without a pause. */
static void a_start_that_starts_nothing_has_failed(void **state)
{
	struct world *w = *state;

	w->runtime->starts_nothing = true;
	APPLY(w, { .id = A, .n_bridge_nics = 1 }, { .id = B, .is_job = true });
	WORLD_WAIT(w, failures_of(w, A) > 3 && failures_of(w, B) > 3);
	WAIT_STATUS(w, A, "FAILED/StartFailed");
	WAIT_STATUS(w, B, "FAILED/StartFailed");
	w->runtime->starts_nothing = false;
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	assert_int_equal(failures_of(w, A) + failures_of(w, B), 0);
}

/* What became of a start is asked for anew when the list under way was asked for before it. */
static void a_doubt_is_not_left_to_an_older_list(void **state)
{
	struct world *w = *state;

	/* No full look but the one below, however long it takes. */
	w->resync_usec = 3600 * USEC_PER_SEC;
	world_restart(w);
	APPLY(w, { .id = A, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	world_settle(w);
	w->runtime->hangs[STUB_LIST] = true;
	reconciler_resync(w->converger);
	WORLD_WAIT(w, w->runtime->n_held == 1);
	w->runtime->fails_after = true;
	w->runtime->code = GRPC_STATUS_INTERNAL;
	w->runtime->fail[STUB_SET_STATE] = w->runtime->fail[STUB_GET] = 1;
	APPLY(w, { .id = A });
	WORLD_WAIT(w, converger_instance(w->converger, A)->trouble != NULL);
	WAIT_STATUS(w, A, "UNKNOWN/RuntimeUnreachable");
	w->runtime->hangs[STUB_LIST] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;");
	/* It came up: the try that was told to have failed counts no more. */
	WORLD_WAIT(w, failures_of(w, A) == 0);
}

/* --- a disk that fails --- */

/* Takes it from the state that it is in to running, at each point where its record may not reach the disk. */
static bool record_fails_at(struct world *w, struct fault_vfs *vfs, int code, unsigned nth)
{
	unsigned n_asked, n_failed;

	w->converger->is_draining = true;
	APPLY(w, { .id = A }, { .id = B, .n_bridge_nics = 1 });
	WAIT_STATUS(w, B, "STOPPED/Draining");
	world_settle(w);
	n_asked = w->runtime->n_calls[STUB_ENSURE];
	fault_vfs_arm(vfs, code, nth, 1);
	w->converger->is_draining = false;
	reconciler_mark_all(w->converger);
	WAIT_STATUS(w, B, "RUNNING");
	n_failed = fault_vfs_disarm(vfs);
	assert_int_equal(w->runtime->n_calls[STUB_ENSURE], n_asked + 1);
	assert_int_equal(stub_netd_held(w->netd, B), 1);
	assert_true(converger_instance(w->converger, B)->facts.recorded);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, B, "none");
	assert_int_equal(stub_netd_held(w->netd, B), 0);
	return n_failed > 0;
}

/* Nothing is made before it is written down that it may exist; and what runs is none of the disk's business. */
static void a_record_that_cannot_be_written_is_tried_again(void **state)
{
	struct world *w = *state;
	static const struct {
		int code;
		const char *status;
	} faults[] = { { SQLITE_FULL, "STOPPED/StateNotSaved" },
		{ SQLITE_IOERR_WRITE, "FAILED/StateNotSaved" },
		{ SQLITE_IOERR_FSYNC, "FAILED/StateNotSaved" } };
	struct fault_vfs *vfs = fault_vfs_new();

	world_restart(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		/* For as long as it lasts. */
		w->converger->is_draining = true;
		APPLY(w, { .id = A }, { .id = B, .n_bridge_nics = 1 });
		WAIT_STATUS(w, B, "STOPPED/Draining");
		world_settle(w);
		w->runtime->log[0] = 0;
		unsigned n_prepared = w->netd->n_prepared;
		fault_vfs_arm(vfs, faults[i].code, 1, FAULT_FOR_EVER);
		w->converger->is_draining = false;
		reconciler_mark_all(w->converger);
		WAIT_STATUS(w, B, faults[i].status);
		assert_non_null(strstr(world_words(w, B), "state.db"));
		WORLD_WAIT(w, converger_instance(w->converger, B)->trouble->failures > 3);
		assert_true(world_is(w, A, "RUNNING"));
		assert_true(world_domain_is(w, A, DOMAIN(RUNNING)));
		/* Nor is a spec taken that cannot be kept. */
		int r = world_apply(w, (struct wish[]){ { .id = A, .state = STATE(STOPPED) }, { 0 } });
		assert_int_equal(r, faults[i].code == SQLITE_FULL ? -ENOSPC : -EIO);
		assert_non_null(strstr(w->message, "state.db"));
		assert_false(converger_instance(w->converger, B)->facts.recorded);
		assert_string_equal(w->runtime->log, "");
		assert_int_equal(w->netd->n_prepared, n_prepared);
		assert_true(fault_vfs_disarm(vfs) > 0);
		w->revision--;
		WAIT_STATUS(w, B, "RUNNING");
		assert_string_equal(w->runtime->log, "ensure 000b;run 000b;");
		APPLY(w, { .id = A });
		WAIT_STATUS(w, B, "none");
		/* Once, at each change that is made of the file. */
		for (unsigned nth = 1; record_fails_at(w, vfs, faults[i].code, nth); nth++)
			;
	}
	assert_null(strstr(w->runtime->log, "000a"));
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	assert_null(strstr(w->runtime->log, "000a"));
	world_stop(w);
	fault_vfs_free(vfs);
}

/* What was to be remembered, and could not be written when it was learned, is written when it can be. */
static void facts_outlast_a_full_disk(void **state)
{
	struct world *w = *state;
	struct fault_vfs *vfs = fault_vfs_new();

	world_restart(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	fault_vfs_arm(vfs, SQLITE_FULL, 1, FAULT_FOR_EVER);
	stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, A), DOMAIN(CRASHED));
	WORLD_WAIT(w, world_said(w, "StateNotSaved"));
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(converger_instance(w->converger, A)->facts.restarts, 1);
	(void)fault_vfs_disarm(vfs);
	WORLD_WAIT(w, !w->converger->facts_are_unsaved && !store_lane_pending(w->converger->lane));
	world_restart(w);
	assert_int_equal(converger_instance(w->converger, A)->facts.restarts, 1);
	WAIT_STATUS(w, A, "RUNNING");
	world_stop(w);
	fault_vfs_free(vfs);
}

/* The marks of a removal are as durable as it is long: its end is not told before it is written. */
static void a_removal_whose_end_cannot_be_written_goes_on(void **state)
{
	struct world *w = *state;
	struct fault_vfs *vfs = fault_vfs_new();

	world_restart(w);
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	w->netd->fail_remove = UINT32_MAX;
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WAIT_STATUS(w, A, "REMOVING/ReleaseFailed");
	fault_vfs_arm(vfs, SQLITE_IOERR_WRITE, 1, FAULT_FOR_EVER);
	w->netd->fail_remove = 0;
	WAIT_STATUS(w, A, "REMOVING/StateNotSaved");
	assert_int_equal(w->netd->n_nics, 0);
	world_restart(w);
	WAIT_STATUS(w, A, "REMOVING/StateNotSaved");
	(void)fault_vfs_disarm(vfs);
	WAIT_STATUS(w, A, "none");
	world_restart(w);
	assert_true(world_is(w, A, "none"));
	world_stop(w);
	fault_vfs_free(vfs);
}

/* --- who waits for others --- */

static void the_host_has_only_so_much_memory(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .memory_mib = 8 << 20 }, { .id = B });
	WAIT_STATUS(w, A, "STOPPED/ResourcesExhausted");
	assert_non_null(strstr(world_words(w, A), "needs"));
	WAIT_STATUS(w, B, "RUNNING");
	/* A runtime's own word counts the same. */
	w->runtime->fail[STUB_SET_STATE] = 2;
	w->runtime->code = GRPC_STATUS_RESOURCE_EXHAUSTED;
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "STOPPED/ResourcesExhausted");
	WAIT_STATUS(w, A, "RUNNING");
}

/* Two that fit one at a time: starts of one pass count, what goes makes room, and a host that cannot be read is no
 * reason to start nothing. */
static void who_does_not_fit_waits_for_room(void **state)
{
	struct world *w = *state;

	world_has_memory(w, 2048);
	APPLY(w, { .id = A, .memory_mib = 256 }, { .id = B, .memory_mib = 256 });
	WORLD_WAIT(w, world_is(w, A, "RUNNING") || world_is(w, B, "RUNNING"));
	world_settle(w);
	assert_int_equal(w->runtime->n_domains, 1);
	const char *first = world_is(w, A, "RUNNING") ? A : B, *second = first == A ? B : A;
	assert_true(world_is(w, second, "STOPPED/ResourcesExhausted"));
	assert_non_null(strstr(world_words(w, second), "needs 520 MiB"));
	assert_non_null(strstr(world_words(w, second), "504 MiB are free"));
	/* One that is paused holds its memory. */
	APPLY(w, { .id = first, .memory_mib = 256, .state = STATE(PAUSED) },
	        { .id = second, .memory_mib = 256 });
	WAIT_STATUS(w, first, "PAUSED");
	world_settle(w);
	assert_true(world_is(w, second, "STOPPED/ResourcesExhausted"));
	APPLY(w, { .id = first, .memory_mib = 256, .state = STATE(STOPPED) },
	        { .id = second, .memory_mib = 256 });
	WAIT_STATUS(w, second, "RUNNING");
	assert_false(world_said(w, "HostMemoryUnknown"));
	world_has_memory(w, 0);
	APPLY(w, { .id = first, .memory_mib = 256 }, { .id = second, .memory_mib = 256 });
	WAIT_STATUS(w, first, "RUNNING");
	assert_true(world_said(w, "HostMemoryUnknown"));
}

static void a_hold_keeps_memory_back_until_it_goes(void **state)
{
	struct world *w = *state;

	w->resync_usec = 3600 * USEC_PER_SEC;
	world_has_memory(w, 2048);
	w->hold_mib = 600;
	APPLY(w, { .id = A, .memory_mib = 256 });
	WAIT_STATUS(w, A, "STOPPED/ResourcesExhausted");
	assert_non_null(strstr(world_words(w, A), "424 MiB are free"));
	w->hold_mib = 0;
	APPLY(w, { .id = A, .memory_mib = 256 });
	WAIT_STATUS(w, A, "RUNNING");
}

/* Its own word is the only one; and what it runs is not counted against others. */
static void a_runtime_that_admits_for_itself_is_left_alone(void **state)
{
	struct world *w = *state;

	w->runtime->features[w->runtime->n_features++] = "self-admitting";
	(void)world_runtime(w, "other", "other");
	world_has_memory(w, 2048);
	APPLY(w, { .id = A, .memory_mib = 8 << 20 }, { .id = B, .memory_mib = 256, .runtime = "other" });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
}

/* A start that failed gives back the memory that it was charged, and who waits for it hears of it. */
static void a_failed_start_makes_room(void **state)
{
	struct world *w = *state;

	w->resync_usec = 3600 * USEC_PER_SEC;
	world_has_memory(w, 2048);
	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A, .memory_mib = 256 });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	w->converger->options.retry_min_usec = w->converger->options.retry_max_usec = 3600 * USEC_PER_SEC;
	APPLY(w, { .id = A, .memory_mib = 256 }, { .id = B, .memory_mib = 256 });
	WAIT_STATUS(w, B, "STOPPED/ResourcesExhausted");
	w->runtime->hangs[STUB_ENSURE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, B, "RUNNING");
	WAIT_STATUS(w, A, "FAILED/DefineFailed");
}

/* Two that a full runtime refuses do not wake each other by what each gives back; a domain that goes wakes both. */
static void the_refused_do_not_wake_each_other(void **state)
{
	struct world *w = *state;

	w->resync_usec = 3600 * USEC_PER_SEC;
	world_restart(w);
	w->converger->options.retry_min_usec = w->converger->options.retry_max_usec = 3600 * USEC_PER_SEC;
	world_volume(w, "v", 1);
	APPLY(w, { .id = C });
	WAIT_STATUS(w, C, "RUNNING");
	w->runtime->n_calls[STUB_SET_STATE] = 0;
	w->runtime->fail[STUB_SET_STATE] = 2;
	w->runtime->code = GRPC_STATUS_RESOURCE_EXHAUSTED;
	APPLY(w, { .id = A, .volume = "v", .volume_read_only = true },
	        { .id = B, .volume = "v", .volume_read_only = true }, { .id = C });
	WAIT_STATUS(w, A, "STOPPED/ResourcesExhausted");
	WAIT_STATUS(w, B, "STOPPED/ResourcesExhausted");
	APPLY(w, { .id = A, .volume = "v", .volume_read_only = true },
	        { .id = B, .volume = "v", .volume_read_only = true }, { .id = C },
	        { .id = D, .state = STATE(STOPPED) });
	WAIT_STATUS(w, D, "STOPPED");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_SET_STATE], 2);
	assert_false(volume_store_has_claim(w->converger->volumes, A));
	APPLY(w, { .id = A, .volume = "v", .volume_read_only = true },
	        { .id = B, .volume = "v", .volume_read_only = true }, { .id = C, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
}

/* The turn it waits for is at a runtime that answers nobody; its spec is not about that one any more. */
static void a_turn_that_is_not_wished_any_more_is_not_waited_for(void **state)
{
	struct world *w = *state;

	w->n_parallel = 1;
	world_restart(w);
	(void)world_runtime(w, "other", "other");
	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	APPLY(w, { .id = A }, { .id = B }, { .id = C });
	WAIT_STATUS(w, B, "PENDING/WaitingForTurn");
	WAIT_STATUS(w, C, "PENDING/WaitingForTurn");
	APPLY(w, { .id = A }, { .id = B, .runtime = "other" });
	WAIT_STATUS(w, B, "RUNNING");
	WAIT_STATUS(w, C, "none");
	assert_int_equal(w->runtime->n_held, 1);
	w->runtime->hangs[STUB_ENSURE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
}

TEST_SUITE(trouble_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_failed_often_can_still_be_removed),
		TEST(a_new_wish_begins_anew),
		TEST(each_step_may_fail_once),
		TEST(pauses_double_up_to_their_limit),
		TEST(a_pause_that_is_over_is_no_final_failure),
		TEST(whatever_step_fails_the_pauses_grow),
		TEST(a_start_that_starts_nothing_has_failed),
		TEST(a_doubt_is_not_left_to_an_older_list),
		TEST(a_record_that_cannot_be_written_is_tried_again),
		TEST(facts_outlast_a_full_disk),
		TEST(a_removal_whose_end_cannot_be_written_goes_on),
		TEST(the_host_has_only_so_much_memory),
		TEST(who_does_not_fit_waits_for_room),
		TEST(a_hold_keeps_memory_back_until_it_goes),
		TEST(a_runtime_that_admits_for_itself_is_left_alone),
		TEST(a_failed_start_makes_room),
		TEST(the_refused_do_not_wake_each_other),
		TEST(a_turn_that_is_not_wished_any_more_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
