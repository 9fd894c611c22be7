#include "svc-converger/reconciler.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/test/world.h"
#include "svc-converger/trouble.h"
#include "tests/harness/suite.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

static unsigned instance_failures(struct world *w, const char *id)
{
	const struct trouble *trouble = converger_instance(w->converger, id)->trouble;

	return trouble ? trouble->failures : 0;
}

static void an_instance_lives_its_life(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(stub_netd_held(w->netd, A), 2);
	APPLY(w, { .id = A, .n_bridge_nics = 2, .state = STATE(PAUSED) });
	WAIT_STATUS(w, A, "PAUSED");
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .n_bridge_nics = 2, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	WORLD_WAIT(w, stub_netd_held(w->netd, A) == 0);
	assert_true(world_domain_is(w, A, DOMAIN(STOPPED)));
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = B });
	WAIT_STATUS(w, A, "none");
	WAIT_STATUS(w, B, "RUNNING");
	assert_null(stub_runtime_domain(w->runtime, A));
	assert_int_equal(stub_netd_held(w->netd, A), 0);
	assert_string_equal(w->runtime->log,
	        "ensure 000a;run 000a;pause 000a;run 000a;stop 000a;ensure 000a;run 000a;remove 000a;"
	        "ensure 000b;run 000b;");
}

static void a_settled_world_asks_for_nothing(void **state)
{
	struct world *w = *state;
	char log[sizeof(w->runtime->log)];

	APPLY(w, { .id = A, .n_bridge_nics = 1 }, { .id = B, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "RUNNING");
	strcpy(log, w->runtime->log);
	unsigned n_listed = w->runtime->n_calls[STUB_LIST];
	WORLD_WAIT(w, w->runtime->n_calls[STUB_LIST] >= n_listed + 3);
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "STOPPED");
	world_settle(w);
	/* The same spec again, of a higher revision. */
	APPLY(w, { .id = A, .n_bridge_nics = 1 }, { .id = B, .state = STATE(STOPPED) });
	assert_int_equal(w->n_planned, 0);
	world_settle(w);
	assert_string_equal(w->runtime->log, log);
}

static void a_spec_is_refused_as_a_whole(void **state)
{
	struct world *w = *state;
	struct wish two_of_one[] = { { .id = A }, { .id = A }, { 0 } };

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(world_apply(w, two_of_one), -EINVAL);
	w->revision -= 2; /* sent again with the accepted number, and below */
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = B }, { 0 } }), -EBUSY);
	assert_non_null(strstr(w->message, "revision"));
	w->revision = 7;
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING"));
	assert_true(world_is(w, B, "none"));
	assert_int_equal(w->converger->revision, 1);
}

static void no_instances_section_changes_nothing(void **state)
{
	struct world *w = *state;

	stub_runtime_add(w->runtime, B, "old", true, DOMAIN(RUNNING));
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, B));
	WORLD_WAIT(w, world_has_heard(w, B));
	assert_int_equal(world_apply_no_opinion(w), 0);
	world_settle(w);
	assert_true(world_domain_is(w, B, DOMAIN(RUNNING)));
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	/* The first section that speaks of instances does not name B. */
	WORLD_WAIT(w, !stub_runtime_domain(w->runtime, B));
	assert_int_equal(world_apply_no_opinion(w), 0);
	world_settle(w);
	assert_true(world_domain_is(w, A, DOMAIN(RUNNING)));
	/* Present and empty: none. */
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WORLD_WAIT(w, !stub_runtime_domain(w->runtime, A));
}

/* A domain that no spec names is told of before its runtime has told all, and a pass comes in between: it is removed
 * all the same. */
static void what_no_spec_names_goes_however_late_the_rest_is_told(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	world_stop(w);
	stub_runtime_add(w->runtime, A, "old", true, DOMAIN(RUNNING));
	w->runtime->syncs_never = true;
	world_start(w);
	WORLD_WAIT(w, w->runtime->n_watchers == 1);
	world_settle(w);
	assert_non_null(stub_runtime_domain(w->runtime, A));
	stub_runtime_sync(w->runtime);
	WORLD_WAIT(w, !stub_runtime_domain(w->runtime, A));
	WAIT_STATUS(w, B, "RUNNING");
}

static void a_foreign_domain_is_never_touched(void **state)
{
	struct world *w = *state;

	stub_runtime_add(w->runtime, A, "", false, DOMAIN(RUNNING));
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	WORLD_WAIT(w, world_has_heard(w, A));
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "FAILED/ForeignDomain");
	APPLY(w, { .id = A, .state = STATE(STOPPED) });
	world_settle(w);
	APPLY(w, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	WAIT_STATUS(w, A, "none");
	world_settle(w);
	assert_true(world_domain_is(w, A, DOMAIN(RUNNING)));
	assert_null(strstr(w->runtime->log, "000a"));
	assert_int_equal(id_map_count(w->converger->foreigns), 1);
}

/* Refusing, hanging and failing runtimes: nothing is concluded from any of them. */
static void unreachable_is_not_gone(void **state)
{
	struct world *w = *state;
	char log[sizeof(w->runtime->log)];

	APPLY(w, { .id = A, .n_bridge_nics = 1 }, { .id = B, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	strcpy(log, w->runtime->log);

	stub_runtime_kill(w->runtime);
	WAIT_STATUS(w, A, "UNKNOWN/RuntimeUnreachable");
	w->call_timeout_usec = 500 * USEC_PER_MSEC;
	world_restart(w);
	APPLY(w, { .id = A, .n_bridge_nics = 1 }); /* B is dropped meanwhile */
	WAIT_STATUS(w, B, "REMOVING/WaitingForRuntime");
	assert_int_equal(stub_netd_held(w->netd, B), 1);

	w->runtime->hangs[STUB_DESCRIBE] = true;
	stub_runtime_revive(w->runtime);
	WORLD_WAIT(w, w->runtime->n_held > 1);
	assert_string_equal(w->runtime->log, log);

	w->runtime->hangs[STUB_DESCRIBE] = false;
	stub_runtime_release(w->runtime);
	w->runtime->fail[STUB_DESCRIBE] = 2;
	w->runtime->fail[STUB_WATCH] = 2;
	WORLD_WAIT(w, w->runtime->fail[STUB_WATCH] == 0);
	WAIT_STATUS(w, B, "none");
	WAIT_STATUS(w, A, "RUNNING");
	assert_true(world_domain_is(w, A, DOMAIN(RUNNING)));
	strcat(log, "remove 000b;");
	assert_string_equal(w->runtime->log, log);

	/* A list that fails while the stream stands is no empty list either. */
	w->runtime->fail[STUB_LIST] = 1;
	w->runtime->hangs[STUB_WATCH] = true;
	WAIT_STATUS(w, A, "UNKNOWN/RuntimeUnreachable");
	world_settle(w);
	assert_string_equal(w->runtime->log, log);
	w->runtime->hangs[STUB_WATCH] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(w->runtime->log, log);
}

/* The stream may be behind the answers to calls: what it says of a time before them is history. */
static void a_late_event_is_history(void **state)
{
	struct world *w = *state;
	struct stub_domain stale;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	stale = *stub_runtime_domain(w->runtime, A);
	stale.state = DOMAIN(STOPPED);
	stale.since_usec--;
	stub_runtime_tell(w->runtime, &stale);
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING"));
	stale = *stub_runtime_domain(w->runtime, A);
	w->runtime->is_mute = true; /* what it would tell of the removal is still on its way */
	APPLY(w, { .id = B });
	WAIT_STATUS(w, A, "none");
	w->runtime->is_mute = false;
	stub_runtime_tell(w->runtime, &stale);
	world_settle(w);
	assert_true(world_is(w, A, "none"));
	/* The stream may be behind a full look as well. */
	unsigned n_listed = w->runtime->n_calls[STUB_LIST];
	WORLD_WAIT(w, w->runtime->n_calls[STUB_LIST] >= n_listed + 3);
	stub_runtime_tell(w->runtime, &stale);
	world_settle(w);
	assert_true(world_is(w, A, "none"));
	WAIT_STATUS(w, B, "RUNNING");
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;remove 000a;ensure 000b;run 000b;");
	/* But it may come back to life. */
	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, A, "RUNNING");
}

/* No full look but the first: what happens is heard, and heard again after who tells it was away. */
static void what_happens_is_heard(void **state)
{
	struct world *w = *state;

	w->resync_usec = 3600 * USEC_PER_SEC;
	world_restart(w);
	for (uint32_t round = 1; round <= 2; round++) {
		APPLY(w, { .id = A, .n_bridge_nics = 1 });
		WAIT_STATUS(w, A, "RUNNING");
		WORLD_WAIT(w, w->runtime->n_watchers == 1 && w->netd->n_watchers == 1);
		world_settle(w);
		stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, A), DOMAIN(CRASHED));
		WORLD_WAIT(w, converger_instance(w->converger, A)->facts.restarts == round);
		WAIT_STATUS(w, A, "RUNNING");
		stub_runtime_add(w->runtime, round == 1 ? "web" : "mail", "", false, DOMAIN(RUNNING));
		stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, round == 1 ? "web" : "mail"));
		WORLD_WAIT(w, id_map_count(w->converger->foreigns) == round);
		stub_netd_lose(w->netd, A, 0);
		WAIT_STATUS(w, A, "RUNNING/InterfaceLost");
		APPLY(w, { .id = A, .n_bridge_nics = 1, .state = STATE(STOPPED) });
		WAIT_STATUS(w, A, "STOPPED");
		stub_runtime_kill(w->runtime);
		stub_netd_kill(w->netd);
		WAIT_STATUS(w, A, "UNKNOWN/RuntimeUnreachable");
		stub_runtime_revive(w->runtime);
		stub_netd_revive(w->netd);
		WAIT_STATUS(w, A, "STOPPED");
	}
}

/* Events that were never sent are found by the full look. */
static void a_mute_runtime_is_found_out(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	w->runtime->is_mute = true;
	stub_runtime_domain(w->runtime, A)->since_usec++;
	stub_runtime_domain(w->runtime, A)->state = DOMAIN(CRASHED);
	WORLD_WAIT(w, world_domain_is(w, A, DOMAIN(RUNNING)));
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(converger_instance(w->converger, A)->facts.restarts, 1);
	stub_runtime_add(w->runtime, B, "stray", true, DOMAIN(STOPPED));
	WORLD_WAIT(w, !stub_runtime_domain(w->runtime, B));
}

/* However often an instance changes while its runtime hangs in a call, there is never a second one. */
static void a_call_in_flight_is_the_only_one(void **state)
{
	struct world *w = *state;

	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	for (unsigned i = 1; i <= 5; i++) {
		unsigned n_listed = w->runtime->n_calls[STUB_LIST];

		APPLY(w, { .id = A, .n_bridge_nics = 1, .memory_mib = 64 + i });
		WORLD_WAIT(w, w->runtime->n_calls[STUB_LIST] > n_listed); /* a resync as well */
	}
	w->runtime->hangs[STUB_ENSURE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	assert_int_equal(w->runtime->n_in_flight_max, 1);
	assert_int_equal(w->runtime->n_domains, 1);
	assert_int_equal(stub_runtime_domain(w->runtime, A)->memory_bytes, 69 << 20);
	assert_int_equal(stub_netd_held(w->netd, A), 1);
}

/* netd that says it built something else is not believed to have built what was asked for. */
static void a_netd_that_lies_is_refused(void **state)
{
	struct world *w = *state;

	w->netd->lies_about_filter = true;
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "FAILED/NetworkFailed");
	assert_non_null(strstr(world_words(w, A), "without its filter"));
	assert_null(stub_runtime_domain(w->runtime, A));
	WORLD_WAIT(w, stub_netd_held(w->netd, A) == 0);
	w->netd->lies_about_filter = false;
	w->netd->lies_about_queues = true;
	WORLD_WAIT(w, strstr(world_words(w, A), "queue pairs"));
	w->netd->lies_about_queues = false;
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .n_bridge_nics = 1 },
	        { .id = B, .n_bridge_nics = 1, .host_port = 2222, .vhost = BC__V1__NIC__VHOST__ON });
	WAIT_STATUS(w, B, "RUNNING");
	w->netd->lies_about_vhost = true;
	APPLY(w, { .id = A, .n_bridge_nics = 1, .allocation = "a2", .vhost = BC__V1__NIC__VHOST__OFF },
	        { .id = B,
	                .n_bridge_nics = 1,
	                .allocation = "a2",
	                .host_port = 2222,
	                .vhost = BC__V1__NIC__VHOST__ON });
	WAIT_STATUS(w, A, "FAILED/NetworkFailed");
	WAIT_STATUS(w, B, "FAILED/NetworkFailed");
	assert_non_null(strstr(world_words(w, A), "with vhost, which is off"));
	assert_non_null(strstr(world_words(w, B), "without vhost, which is asked for"));
	w->netd->lies_about_vhost = false;
	w->netd->lies_about_ports = true;
	WAIT_STATUS(w, A, "RUNNING");
	WORLD_WAIT(w, strstr(world_words(w, B), "did not publish tcp *:2222"));
	w->netd->lies_about_ports = false;
	WAIT_STATUS(w, B, "RUNNING");
}

static void a_new_allocation_is_a_new_incarnation(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .allocation = "a2", .n_bridge_nics = 1 });
	WORLD_WAIT(w,
	        world_domain_is(w, A, DOMAIN(RUNNING)) &&
	                strcmp(stub_runtime_domain(w->runtime, A)->allocation_id, "a2") == 0);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;remove 000a;ensure 000a;run 000a;");
	/* That the earlier one went is no crash of this one. */
	assert_int_equal(converger_instance(w->converger, A)->crashes, 0);
	assert_int_equal(converger_instance(w->converger, A)->facts.restarts, 0);

	/* Dropped and made anew while its runtime is away. */
	stub_runtime_kill(w->runtime);
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	APPLY(w, { .id = A, .allocation = "a3" });
	world_restart(w);
	w->runtime->log[0] = 0;
	stub_runtime_revive(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(stub_runtime_domain(w->runtime, A)->allocation_id, "a3");
	assert_string_equal(w->runtime->log, "remove 000a;ensure 000a;run 000a;");
	assert_int_equal(stub_netd_held(w->netd, A), 0);
}

/* What the runtime shows of another allocation, although no record speaks of it, is an earlier incarnation too. */
static void a_stale_domain_goes_first(void **state)
{
	struct world *w = *state;

	stub_runtime_add(w->runtime, A, "ancient", true, DOMAIN(RUNNING));
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	WORLD_WAIT(w, world_has_heard(w, A));
	APPLY(w, { .id = A });
	WORLD_WAIT(w,
	        world_domain_is(w, A, DOMAIN(RUNNING)) &&
	                strcmp(stub_runtime_domain(w->runtime, A)->allocation_id, "a1") == 0);
	assert_string_equal(w->runtime->log, "remove 000a;ensure 000a;run 000a;");
}

static void a_removal_survives_restarts(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	w->netd->fail_remove = UINT32_MAX;
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WAIT_STATUS(w, A, "REMOVING/ReleaseFailed");
	world_restart(w);
	WAIT_STATUS(w, A, "REMOVING/ReleaseFailed");
	stub_netd_kill(w->netd);
	WAIT_STATUS(w, A, "REMOVING/WaitingForNetd");
	world_restart(w);
	w->netd->fail_remove = 0;
	stub_netd_revive(w->netd);
	WAIT_STATUS(w, A, "none");
	assert_int_equal(w->netd->n_nics, 0);
	world_restart(w);
	world_settle(w);
	assert_true(world_is(w, A, "none"));
}

/* Nothing of an instance stays, and nothing that is not its own goes. */
static void a_removal_takes_the_directory_and_no_volume(void **state)
{
	struct world *w = *state;
	char instances[96], own[160], file[192];
	struct volume_info info;

	(void)snprintf(instances, sizeof(instances), "%s/instances", w->dir);
	(void)snprintf(own, sizeof(own), "%s/%s", instances, A);
	(void)snprintf(file, sizeof(file), "%s/somebodys", own);
	world_volume(w, "data", 1);
	APPLY(w, { .id = A, .volume = "data" });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(volume_store_get(w->converger->volumes, "data", &info), 0);
	assert_int_equal(mkdir(instances, 0755), 0);
	assert_int_equal(mkdir(own, 0755), 0);
	(void)fclose(fopen(file, "we"));
	/* The directory is its runtime's: what that left in it is nobody's we know. */
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WAIT_STATUS(w, A, "REMOVING/RemoveFailed");
	assert_non_null(strstr(converger_instance(w->converger, A)->trouble->message, own));
	world_restart(w);
	WAIT_STATUS(w, A, "REMOVING/RemoveFailed");
	/* Whatever it waits for: a domain that comes back meanwhile goes again. */
	stub_runtime_add(w->runtime, A, "old", true, DOMAIN(STOPPED));
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	WORLD_WAIT(w, !stub_runtime_domain(w->runtime, A));
	WAIT_STATUS(w, A, "REMOVING/RemoveFailed");
	assert_int_equal(access(file, F_OK), 0);
	assert_int_equal(unlink(file), 0);
	WAIT_STATUS(w, A, "none");
	assert_int_equal(access(own, F_OK), -1);
	/* Nor does the volume go when no spec names it any more. */
	world_volume(w, "", 0);
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	world_settle(w);
	assert_int_equal(access(info.path, F_OK), 0);
	assert_false(volume_store_has_claim(w->converger->volumes, A));
}

static void a_stop_needs_no_netd(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	stub_netd_kill(w->netd);
	APPLY(w, { .id = A, .n_bridge_nics = 1, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	assert_true(world_domain_is(w, A, DOMAIN(STOPPED)));
	assert_int_equal(w->netd->n_nics, 1);
	/* Released when it is back. */
	stub_netd_revive(w->netd);
	WORLD_WAIT(w, w->netd->n_nics == 0);
	/* And a start waits for it, with its reason. */
	stub_netd_kill(w->netd);
	APPLY(w, { .id = A, .n_bridge_nics = 1 }, { .id = B });
	WAIT_STATUS(w, A, "PENDING/WaitingForNetd");
	WAIT_STATUS(w, B, "RUNNING");
	stub_netd_revive(w->netd);
	WAIT_STATUS(w, A, "RUNNING");
}

/* A socket file, as a killed runtime leaves it: nobody is behind it. */
static void make_dead_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void a_silent_socket_may_be_any_runtime(void **state)
{
	struct world *w = *state;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/runtime-late.sock", w->run_dir);
	make_dead_socket(path);
	APPLY(w, { .id = A, .runtime = "late" }, { .id = B });
	WAIT_STATUS(w, A, "PENDING/WaitingForRuntime");
	WORLD_WAIT(w, strstr(world_words(w, A), path));
	WAIT_STATUS(w, B, "RUNNING");
	/* It was a leftover. State and words change together, when that was looked at. */
	assert_int_equal(unlink(path), 0);
	assert_true(world_is(w, A, "PENDING/WaitingForRuntime"));
	WAIT_STATUS(w, A, "FAILED/RuntimeNotInstalled");
	assert_string_equal(world_words(w, A), "runtime late is not installed on this host");
	/* It was being started. */
	make_dead_socket(path);
	WAIT_STATUS(w, A, "PENDING/WaitingForRuntime");
	assert_int_equal(unlink(path), 0);
	(void)world_runtime(w, "late", "late");
	WAIT_STATUS(w, A, "RUNNING");
}

static void a_runtime_that_is_not_here_is_named(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .runtime = "other" }, { .id = B });
	WAIT_STATUS(w, A, "FAILED/RuntimeNotInstalled");
	assert_string_equal(world_words(w, A), "runtime other is not installed on this host");
	WAIT_STATUS(w, B, "RUNNING");
	/* Never begun: it can go although its runtime never came. */
	APPLY(w, { .id = B });
	WAIT_STATUS(w, A, "none");
	/* One that comes later is found by its socket. */
	APPLY(w, { .id = A, .runtime = "late" }, { .id = B });
	WAIT_STATUS(w, A, "FAILED/RuntimeNotInstalled");
	struct stub_runtime *late = world_runtime(w, "late", "late");
	WAIT_STATUS(w, A, "RUNNING");
	/* A move to another runtime is a new incarnation. */
	APPLY(w, { .id = A }, { .id = B });
	WORLD_WAIT(w, world_domain_is(w, A, DOMAIN(RUNNING)));
	assert_int_equal(late->n_domains, 0);
}

/* A service that is not built yet hides nobody's name, and is used once it is built. */
static void a_socket_without_a_runtime_is_not_waited_for(void **state)
{
	struct world *w = *state;
	struct stub_runtime *late = world_runtime(w, "late", "late");

	late->code = GRPC_STATUS_UNIMPLEMENTED;
	late->fail[STUB_DESCRIBE] = UINT_MAX;
	APPLY(w, { .id = A, .runtime = "other" }, { .id = B, .runtime = "late" });
	WAIT_STATUS(w, A, "FAILED/RuntimeNotInstalled");
	assert_string_equal(world_words(w, A), "runtime other is not installed on this host");
	WAIT_STATUS(w, B, "FAILED/RuntimeNotInstalled");
	late->fail[STUB_DESCRIBE] = 0;
	WAIT_STATUS(w, B, "RUNNING");
	/* Alone it makes no host of instances. */
	world_stop(w);
	stub_runtime_kill(w->runtime);
	late->fail[STUB_DESCRIBE] = UINT_MAX;
	world_start(w);
	WAIT_STATUS(w, A, "FAILED/NoInstanceRuntime");
	/* What was begun under it is not given up over that. */
	WAIT_STATUS(w, B, "UNKNOWN/RuntimeUnreachable");
	late->fail[STUB_DESCRIBE] = 0;
	WAIT_STATUS(w, B, "RUNNING");
	stub_runtime_revive(w->runtime);
	WAIT_STATUS(w, A, "FAILED/RuntimeNotInstalled");
}

static void a_host_without_runtimes_says_so(void **state)
{
	struct world *w = *state;

	world_stop(w);
	stub_runtime_kill(w->runtime);
	world_start(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "FAILED/NoInstanceRuntime");
	assert_string_equal(world_words(w, A), "this host runs no instance runtime");
	stub_runtime_revive(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
}

/* Two of one name: the first keeps it. */
static void a_name_belongs_to_one_runtime(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	struct stub_runtime *twin = world_runtime(w, "twin", "stub");
	WORLD_WAIT(w, twin->n_calls[STUB_DESCRIBE] > 2);
	assert_int_equal(twin->n_calls[STUB_WATCH], 0);
	assert_true(world_is(w, A, "RUNNING"));
	/* When the first goes, the second may take over; what it shows is the truth then. */
	stub_runtime_kill(w->runtime);
	WORLD_WAIT(w, twin->n_calls[STUB_WATCH] > 0);
	WORLD_WAIT(w, stub_runtime_domain(twin, A) && stub_runtime_domain(twin, A)->state == DOMAIN(RUNNING));
}

/* One operation per instance, and one stuck instance delays no other. */
static void a_stuck_instance_is_alone(void **state)
{
	struct world *w = *state;

	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	WAIT_STATUS(w, A, "STARTING");
	w->runtime->hangs[STUB_ENSURE] = false;
	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	assert_int_equal(w->runtime->n_held, 1);
	assert_int_equal(w->runtime->n_calls[STUB_ENSURE], 2);
	/* The wish changes mid-flight: the start is given up, and what there is of it removed. */
	APPLY(w, { .id = B });
	WAIT_STATUS(w, A, "none");
	stub_runtime_release(w->runtime);
	world_settle(w);
	assert_null(stub_runtime_domain(w->runtime, A));
}

static void a_server_that_goes_down_is_started_again(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	for (unsigned round = 1; round <= 3; round++) {
		struct stub_domain *domain = stub_runtime_domain(w->runtime, A);

		strcpy(domain->reason, round == 1 ? "GuestShutdown" : "GuestPanicked");
		stub_runtime_change(w->runtime, domain, round == 1 ? DOMAIN(STOPPED) : DOMAIN(CRASHED));
		WORLD_WAIT(w, converger_instance(w->converger, A)->facts.restarts == round);
		WAIT_STATUS(w, A, "RUNNING");
	}
	assert_int_equal(converger_instance(w->converger, A)->crashes, 3);
	/* Restarts are remembered. */
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(converger_instance(w->converger, A)->facts.restarts, 3);
}

/* A start with fewer NICs than the last one had leaves none of those behind. */
static void a_nic_that_is_not_wished_any_more_goes(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 3 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING/RestartNeeded");
	assert_int_equal(stub_netd_held(w->netd, A), 3);
	stub_runtime_domain(w->runtime, A)->state = DOMAIN(CRASHED);
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(stub_netd_held(w->netd, A), 1);
}

/* What a start had prepared when it was hindered is given back, until it can go on. */
static void a_hindered_start_keeps_no_nics(void **state)
{
	struct world *w = *state;

	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	assert_int_equal(stub_netd_held(w->netd, A), 2);
	w->runtime->hangs[STUB_ENSURE] = false;
	APPLY(w, { .id = A, .n_bridge_nics = 2, .volume = "not-there" });
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "PENDING/WaitingForVolume");
	WORLD_WAIT(w, stub_netd_held(w->netd, A) == 0);
	world_settle(w);
	assert_true(world_is(w, A, "PENDING/WaitingForVolume"));
	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(stub_netd_held(w->netd, A), 2);
}

/* Somebody's domain took the place of one that was about to start: the volumes are others' once it is down. */
static void a_foreign_domain_that_is_down_holds_no_volume(void **state)
{
	struct world *w = *state;

	world_volume(w, "v", 1);
	w->runtime->hangs[STUB_ENSURE] = true;
	APPLY(w, { .id = A, .volume = "v" });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	stub_runtime_add(w->runtime, A, "", false, DOMAIN(RUNNING));
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	WORLD_WAIT(w, world_has_heard(w, A));
	w->runtime->hangs[STUB_ENSURE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "FAILED/ForeignDomain");
	world_settle(w);
	assert_true(volume_store_has_claim(w->converger->volumes, A));
	stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, A), DOMAIN(STOPPED));
	WORLD_WAIT(w, !volume_store_has_claim(w->converger->volumes, A));
	world_settle(w);
	assert_true(world_is(w, A, "FAILED/ForeignDomain"));
}

static void a_hindered_start_keeps_no_volume(void **state)
{
	struct world *w = *state;

	world_volume(w, "v", 1);
	w->runtime->raises[STUB_ENSURE] = &w->converger->is_draining;
	APPLY(w, { .id = A, .volume = "v" });
	WAIT_STATUS(w, A, "STOPPED/Draining");
	assert_int_equal(w->runtime->n_calls[STUB_ENSURE], 1);
	w->runtime->raises[STUB_ENSURE] = NULL;
	world_settle(w);
	assert_false(volume_store_has_claim(w->converger->volumes, A));
	assert_null(converger_instance(w->converger, A)->attempt);
	w->converger->is_draining = false;
	reconciler_mark_all(w->converger);
	WAIT_STATUS(w, A, "RUNNING");
	assert_true(volume_store_has_claim(w->converger->volumes, A));
}

/* A converger that dies between a start and its answer still knows with what it was. */
static void a_lost_answer_leaves_the_spec_of_the_start_known(void **state)
{
	struct world *w = *state;

	w->runtime->hangs[STUB_SET_STATE] = true;
	APPLY(w, { .id = A });
	WORLD_WAIT(w, w->runtime->n_held == 1);
	w->runtime->hangs[STUB_SET_STATE] = false;
	world_restart(w);
	stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, A), DOMAIN(RUNNING));
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .kernel = "/boot/other" });
	WAIT_STATUS(w, A, "RUNNING/RestartNeeded");
}

/* A start that is told to have failed and did not: nothing is taken from under it. */
static void a_start_that_failed_may_be_one(void **state)
{
	struct world *w = *state;

	w->runtime->fails_after = true;
	w->runtime->fail[STUB_SET_STATE] = 1;
	w->runtime->code = GRPC_STATUS_INTERNAL;
	world_volume(w, "v", 1);
	APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "v" },
	        { .id = B, .volume = "v", .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(stub_netd_held(w->netd, A), 1);
	assert_true(volume_store_has_claim(w->converger->volumes, A));
	APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "v" }, { .id = B, .volume = "v" });
	WAIT_STATUS(w, B, "PENDING/VolumeInUse");
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;");
}

/* What the spec adds comes with the next start; what is there has its policy now. */
static void a_nic_that_is_not_there_yet_needs_no_policy(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .n_bridge_nics = 2, .policy = BC__V1__NIC__POLICY__NONE });
	WORLD_WAIT(w, w->netd->nics[0].policy == BC__V1__NIC__POLICY__NONE);
	WAIT_STATUS(w, A, "RUNNING/RestartNeeded");
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING/RestartNeeded"));
	assert_null(converger_instance(w->converger, A)->trouble);
}

static void an_interface_that_is_lost_is_told(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	w->netd->n_nics = 0;
	WAIT_STATUS(w, A, "RUNNING/InterfaceLost");
	APPLY(w, { .id = A, .n_bridge_nics = 1, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	APPLY(w, { .id = A, .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
}

static void a_job_runs_once(void **state)
{
	struct world *w = *state;
	struct stub_domain *domain;

	APPLY(w, { .id = A, .is_job = true, .n_bridge_nics = 1 }, { .id = B, .is_job = true });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	domain = stub_runtime_domain(w->runtime, A);
	domain->is_completed = true;
	stub_runtime_change(w->runtime, domain, DOMAIN(STOPPED));
	stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, B), DOMAIN(STOPPED));
	WAIT_STATUS(w, A, "COMPLETED");
	WAIT_STATUS(w, B, "FAILED/JobFailed");
	WORLD_WAIT(w, stub_netd_held(w->netd, A) == 0);
	world_restart(w);
	WAIT_STATUS(w, A, "COMPLETED");
	WAIT_STATUS(w, B, "FAILED/JobFailed");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_SET_STATE], 2);
	/* A person may ask for another run. */
	reconciler_retry(w->converger, converger_instance(w->converger, B));
	WAIT_STATUS(w, B, "RUNNING");
	/* A new allocation is another job, whatever became of the one before. */
	APPLY(w, { .id = A, .is_job = true }, { .id = B, .is_job = true, .allocation = "a2" });
	WORLD_WAIT(w,
	        world_domain_is(w, B, DOMAIN(RUNNING)) &&
	                strcmp(stub_runtime_domain(w->runtime, B)->allocation_id, "a2") == 0);
	WAIT_STATUS(w, B, "RUNNING");
	world_settle(w);
	WAIT_STATUS(w, B, "RUNNING");
	/* Ends while nobody looks. */
	world_stop(w);
	stub_runtime_domain(w->runtime, B)->state = DOMAIN(STOPPED);
	world_start(w);
	WAIT_STATUS(w, B, "FAILED/JobFailed");
}

static void a_new_boot_starts_everything_anew(void **state)
{
	struct world *w = *state;
	FILE *f;

	APPLY(w, { .id = A }, { .id = B, .is_job = true });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	world_stop(w);
	stub_runtime_kill(w->runtime);
	for (size_t i = 0; i < w->runtime->n_domains; i++) {
		w->runtime->domains[i].state = DOMAIN(STOPPED);
		w->runtime->domains[i].was_started = false;
	}
	f = fopen(w->boot_id_path, "we");
	(void)fprintf(f, "22222222-2222-4222-8222-222222222222\n");
	(void)fclose(f);
	stub_runtime_revive(w->runtime);
	world_start(w);
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "FAILED/JobFailed");
}

static void a_volume_has_one_writer(void **state)
{
	struct world *w = *state;

	world_volume(w, "vol", 4);
	APPLY(w, { .id = A, .volume = "vol" }, { .id = B, .volume = "vol" });
	WORLD_WAIT(w, w->runtime->n_domains == 1 && w->runtime->domains[0].state == DOMAIN(RUNNING));
	world_settle(w);
	const char *first = stub_runtime_domain(w->runtime, A) ? A : B, *second = first == A ? B : A;
	assert_true(world_is(w, second, "PENDING/VolumeInUse"));
	assert_null(stub_runtime_domain(w->runtime, second));
	/* Unknown is not free: with the runtime away after a restart the claim stands. */
	stub_runtime_kill(w->runtime);
	world_restart(w);
	world_settle(w);
	stub_runtime_revive(w->runtime);
	WAIT_STATUS(w, first, "RUNNING");
	world_settle(w);
	assert_true(world_is(w, second, "PENDING/VolumeInUse"));
	/* It goes to the other once the first one is down. */
	APPLY(w, { .id = first, .volume = "vol", .state = STATE(STOPPED) },
	        { .id = second, .volume = "vol" });
	WAIT_STATUS(w, second, "RUNNING");
	APPLY(w, { .id = second, .volume = "vol" });
	WAIT_STATUS(w, first, "none");
}

static void a_draining_node_starts_nothing(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	w->converger->is_draining = true;
	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, B, "STOPPED/Draining");
	assert_true(world_is(w, A, "RUNNING"));
	w->converger->drain_stops = true;
	reconciler_mark_all(w->converger);
	WAIT_STATUS(w, A, "STOPPED/Draining");
	/* One that is not wished up is not down for that. */
	APPLY(w, { .id = A }, { .id = B, .state = STATE(STOPPED) });
	WAIT_STATUS(w, B, "STOPPED");
	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, B, "STOPPED/Draining");
	w->converger->is_draining = w->converger->drain_stops = false;
	reconciler_mark_all(w->converger);
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
}

static void a_policy_reaches_a_running_instance(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	APPLY(w, { .id = A, .n_bridge_nics = 2, .policy = BC__V1__NIC__POLICY__NONE });
	WORLD_WAIT(w, w->netd->n_policies == 2);
	world_settle(w);
	assert_int_equal(w->netd->nics[0].policy, BC__V1__NIC__POLICY__NONE);
	assert_true(world_is(w, A, "RUNNING"));
	assert_int_equal(w->netd->n_policies, 2);
	/* What needs a start says so. */
	APPLY(w,
	        { .id = A,
	                .n_bridge_nics = 2,
	                .policy = BC__V1__NIC__POLICY__NONE,
	                .kernel = "/boot/other" });
	WAIT_STATUS(w, A, "RUNNING/RestartNeeded");
}

/* What netd could not set is not taken for set: it is told, remembered, and tried again until every NIC has it. */
static void a_policy_that_was_not_set_is_set_again(void **state)
{
	struct world *w = *state;

	APPLY(w, { .id = A, .n_bridge_nics = 2 });
	WAIT_STATUS(w, A, "RUNNING");
	w->netd->fail_policy = UINT32_MAX;
	APPLY(w, { .id = A, .n_bridge_nics = 2, .policy = BC__V1__NIC__POLICY__NONE });
	for (int restart = 0; restart < 2; restart++) {
		WORLD_WAIT(w, instance_failures(w, A) > 2);
		WAIT_STATUS(w, A, "RUNNING/PolicyFailed");
		assert_int_equal(w->netd->nics[0].policy, BC__V1__NIC__POLICY__NONE);
		assert_int_not_equal(w->netd->nics[1].policy, BC__V1__NIC__POLICY__NONE);
		world_restart(w);
	}
	w->netd->fail_policy = 0;
	WORLD_WAIT(w, w->netd->nics[1].policy == BC__V1__NIC__POLICY__NONE);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;");
}

/* Its interface was prepared for the spec before, when it waits for a slot. */
static void a_policy_reaches_a_start_that_waits_its_turn(void **state)
{
	struct world *w = *state;
	struct wish wishes[3] = { { .id = A, .n_bridge_nics = 1 }, { .id = B, .n_bridge_nics = 1 } };

	w->n_parallel = 1;
	world_restart(w);
	w->runtime->hangs[STUB_SET_STATE] = true;
	assert_int_equal(world_apply(w, wishes), 0);
	WORLD_WAIT(w, w->runtime->n_held == 1 && w->runtime->n_domains == 2);
	struct wish *waiting = &wishes[strcmp(w->runtime->held_ids[0], A) == 0 ? 1 : 0];
	waiting->policy = BC__V1__NIC__POLICY__NONE;
	assert_int_equal(world_apply(w, wishes), 0);
	w->runtime->hangs[STUB_SET_STATE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	world_settle(w);
	for (size_t i = 0; i < w->netd->n_nics; i++)
		assert_int_equal(w->netd->nics[i].policy == BC__V1__NIC__POLICY__NONE,
		        strcmp(w->netd->nics[i].instance_id, waiting->id) == 0);
}

static bool ask_never(const struct secret_request *request, void *userdata)
{
	strcpy(userdata, request->request_id);
	return true;
}

static void user_data_is_waited_for(void **state)
{
	struct world *w = *state;
	char request[SECRET_REQUEST_MAX] = "";

	APPLY(w, { .id = A, .user_data_ref = "ref", .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "PENDING/WaitingForUserData");
	world_settle(w);
	assert_int_equal(w->netd->n_prepared, 0);
	world_ask(w, ask_never, request);
	assert_int_not_equal(request[0], 0);
	assert_int_equal(secrets_answer(w->converger->secrets, request, "#!hush", 6, ""), SECRET_TAKEN);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(stub_runtime_domain(w->runtime, A)->user_data, "#!hush");
	assert_int_equal(secrets_open(w->converger->secrets), 0);
	/* It is not asked for again for a domain that has its seed. */
	request[0] = 0;
	APPLY(w, { .id = A, .user_data_ref = "ref", .n_bridge_nics = 1, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	APPLY(w, { .id = A, .user_data_ref = "ref", .n_bridge_nics = 1 });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(request[0], 0);
}

/* What gives back is asked for before what takes. */
static void stops_and_removals_go_first(void **state)
{
	struct world *w = *state;
	static const char C[] = "00000000-0000-4000-8000-00000000000c";
	static const char D[] = "00000000-0000-4000-8000-00000000000d";
	const char *run;

	APPLY(w, { .id = A, .state = STATE(STOPPED) }, { .id = B }, { .id = C });
	WAIT_STATUS(w, A, "STOPPED");
	WAIT_STATUS(w, B, "RUNNING");
	WAIT_STATUS(w, C, "RUNNING");
	world_settle(w);
	w->runtime->log[0] = 0;
	APPLY(w, { .id = D }, { .id = A }, { .id = B, .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, D, "RUNNING");
	WAIT_STATUS(w, B, "STOPPED");
	WAIT_STATUS(w, C, "none");
	run = strstr(w->runtime->log, "ensure");
	assert_non_null(run);
	assert_true(strstr(w->runtime->log, "stop 000b") < run);
	assert_true(strstr(w->runtime->log, "remove 000c") < run);
}

static void so_many_are_worked_on_at_once(void **state)
{
	struct world *w = *state;
	struct wish wishes[6] = { 0 };
	char ids[5][40];

	w->n_parallel = 2;
	world_restart(w);
	for (size_t i = 0; i < 5; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "00000000-0000-4000-8000-%012zx", i);
		wishes[i].id = ids[i];
	}
	w->runtime->hangs[STUB_SET_STATE] = true;
	assert_int_equal(world_apply(w, wishes), 0);
	WORLD_WAIT(w, w->runtime->n_held == 2);
	unsigned n_listed = w->runtime->n_calls[STUB_LIST];
	WORLD_WAIT(w, w->runtime->n_calls[STUB_LIST] > n_listed + 1);
	assert_int_equal(w->runtime->n_held, 2);
	assert_int_equal(w->converger->n_operations, 2);
	w->runtime->hangs[STUB_SET_STATE] = false;
	stub_runtime_release(w->runtime);
	for (size_t i = 0; i < 5; i++)
		WAIT_STATUS(w, ids[i], "RUNNING");
	assert_int_equal(w->runtime->n_in_flight_max, 1);
}

/* The answer for an allocation that is gone comes when the next one waits for its own. */
static void secrets_of_an_earlier_allocation_are_never_used(void **state)
{
	struct world *w = *state;
	char request[SECRET_REQUEST_MAX] = "", earlier[SECRET_REQUEST_MAX];
	world_ask(w, ask_never, request);

	APPLY(w, { .id = A, .user_data_ref = "ref" });
	WORLD_WAIT(w, request[0]);
	strcpy(earlier, request);
	APPLY(w, { .id = A, .allocation = "a2", .user_data_ref = "ref" });
	WORLD_WAIT(w, strcmp(request, earlier) != 0);
	assert_int_equal(secrets_answer(w->converger->secrets, earlier, "old", 3, ""), SECRET_E_UNKNOWN);
	world_settle(w);
	assert_true(world_is(w, A, "PENDING/WaitingForUserData"));
	assert_int_equal(secrets_answer(w->converger->secrets, request, "new", 3, ""), SECRET_TAKEN);
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(stub_runtime_domain(w->runtime, A)->user_data, "new");
}

/* A snapshot keeps everything else from its instance: it is not begun in the middle of a start. */
static void a_start_under_way_is_not_held_up_by_a_snapshot(void **state)
{
	struct world *w = *state;
	struct wish wishes[] = { { .id = A }, { .id = B }, { 0 } };
	Bc__V1__SnapshotCommand command = BC__V1__SNAPSHOT_COMMAND__INIT;
	struct rpc_status status = { 0 };

	w->n_parallel = 1;
	w->runtime->features[w->runtime->n_features++] = "snapshot";
	world_restart(w);
	w->runtime->hangs[STUB_SET_STATE] = true;
	assert_int_equal(world_apply(w, wishes), 0);
	WORLD_WAIT(w, w->runtime->n_held == 1 && w->runtime->n_domains == 2);
	command.id = (char *)"c1";
	command.instance_id = (char *)(strcmp(w->runtime->held_ids[0], A) == 0 ? B : A);
	command.upload_url = (char *)"file:///x";
	WAIT_STATUS(w, command.instance_id, "STARTING");
	assert_true(snapshot_tasks_begin(w->converger->snapshot_tasks, &command, &status) < 0);
	assert_int_equal(status.code, GRPC_STATUS_UNAVAILABLE);
	w->runtime->hangs[STUB_SET_STATE] = false;
	stub_runtime_release(w->runtime);
	WAIT_STATUS(w, command.instance_id, "RUNNING");
	assert_int_equal(w->runtime->n_calls[STUB_SNAPSHOT], 0);
}

TEST_SUITE(reconciler_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_instance_lives_its_life),
		TEST(a_settled_world_asks_for_nothing),
		TEST(a_spec_is_refused_as_a_whole),
		TEST(no_instances_section_changes_nothing),
		TEST(what_no_spec_names_goes_however_late_the_rest_is_told),
		TEST(a_foreign_domain_is_never_touched),
		TEST(unreachable_is_not_gone),
		TEST(a_late_event_is_history),
		TEST(what_happens_is_heard),
		TEST(a_mute_runtime_is_found_out),
		TEST(a_call_in_flight_is_the_only_one),
		TEST(a_netd_that_lies_is_refused),
		TEST(a_new_allocation_is_a_new_incarnation),
		TEST(a_stale_domain_goes_first),
		TEST(a_removal_survives_restarts),
		TEST(a_removal_takes_the_directory_and_no_volume),
		TEST(a_stop_needs_no_netd),
		TEST(a_runtime_that_is_not_here_is_named),
		TEST(a_silent_socket_may_be_any_runtime),
		TEST(a_socket_without_a_runtime_is_not_waited_for),
		TEST(a_host_without_runtimes_says_so),
		TEST(a_name_belongs_to_one_runtime),
		TEST(a_stuck_instance_is_alone),
		TEST(a_server_that_goes_down_is_started_again),
		TEST(a_nic_that_is_not_wished_any_more_goes),
		TEST(a_hindered_start_keeps_no_nics),
		TEST(a_foreign_domain_that_is_down_holds_no_volume),
		TEST(a_hindered_start_keeps_no_volume),
		TEST(a_lost_answer_leaves_the_spec_of_the_start_known),
		TEST(a_start_that_failed_may_be_one),
		TEST(a_nic_that_is_not_there_yet_needs_no_policy),
		TEST(an_interface_that_is_lost_is_told),
		TEST(a_job_runs_once),
		TEST(a_new_boot_starts_everything_anew),
		TEST(a_volume_has_one_writer),
		TEST(a_draining_node_starts_nothing),
		TEST(a_policy_reaches_a_running_instance),
		TEST(a_policy_that_was_not_set_is_set_again),
		TEST(a_policy_reaches_a_start_that_waits_its_turn),
		TEST(user_data_is_waited_for),
		TEST(stops_and_removals_go_first),
		TEST(so_many_are_worked_on_at_once),
		TEST(secrets_of_an_earlier_allocation_are_never_used),
		TEST(a_start_under_way_is_not_held_up_by_a_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
