#include "svc-converger/balloons.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "svc-converger/test/world.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

/* The guests of the stub: what their balloons are, and whether they answer. */
static struct {
	uint64_t current_bytes[2], unused_bytes;
	unsigned n_asked, n_told;
	bool fails;
} guests;

static uint64_t *current_of(const char *id)
{
	return &guests.current_bytes[strcmp(id, B) == 0];
}

static void get_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__BalloonRequest *request,
        Bc__V1__BalloonReply_Closure closure, void *closure_data)
{
	Bc__V1__BalloonReply reply = BC__V1__BALLOON_REPLY__INIT;

	(void)service;
	guests.n_asked++;
	if (guests.fails) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_FAILED_PRECONDITION,
		        "the guest has no driver");
		return;
	}
	reply.current_bytes = *current_of(request->id);
	reply.unused_bytes = guests.unused_bytes;
	reply.usage_known = true;
	closure(&reply, closure_data);
}

static void set_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__SetBalloonRequest *request,
        Bc__V1__BalloonReply_Closure closure, void *closure_data)
{
	Bc__V1__BalloonReply reply = BC__V1__BALLOON_REPLY__INIT;

	(void)service;
	guests.n_told++;
	*current_of(request->id) = request->target_bytes;
	reply.current_bytes = request->target_bytes;
	closure(&reply, closure_data);
}

static void host_is(struct world *w, uint64_t available_mib)
{
	char path[128], text[128];

	(void)snprintf(path, sizeof(path), "%s/proc/meminfo", w->dir);
	(void)snprintf(text, sizeof(text), "MemTotal: %llu kB\nMemAvailable: %llu kB\n", 16384ULL << 10,
	        (unsigned long long)available_mib << 10);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

/* Two running guests of 1 GiB, one with a balloon down to 256 MiB. */
static void two_guests(struct world *w)
{
	host_is(w, 8192);
	memset(&guests, 0, sizeof(guests));
	guests.current_bytes[0] = guests.current_bytes[1] = 1024 * MIB;
	guests.unused_bytes = 900 * MIB;
	w->runtime->service.get_balloon = get_balloon;
	w->runtime->service.set_balloon = set_balloon;
	w->runtime->features[w->runtime->n_features++] = "balloon";
	stub_runtime_kill(w->runtime);
	stub_runtime_revive(w->runtime);
	assert_int_equal(world_apply(w,
	                         (struct wish[]){ { .id = A, .memory_mib = 1024, .balloon_min_mib = 256 },
	                                 { .id = B, .memory_mib = 1024 }, { 0 } }),
	        0);
	WORLD_WAIT(w, world_is(w, A, "RUNNING") && world_is(w, B, "RUNNING"));
	world_settle(w);
}

static void look(struct world *w)
{
	balloons_look(w->converger->balloons);
	world_settle(w);
}

static void a_guest_gives_and_gets_back(void **state)
{
	struct world *w = *state;

	two_guests(w);
	look(w); /* what it has is asked once */
	assert_int_equal(guests.n_asked, 1);
	assert_int_equal(balloons_current_bytes(w->converger->balloons, A), 1024 * MIB);
	assert_int_equal(balloons_current_bytes(w->converger->balloons, B), 0);
	look(w); /* and no more while all is well */
	assert_int_equal(guests.n_asked, 1);

	host_is(w, 1000); /* 6 % of 16 GiB; 1,458 MiB are missing up to 15 % */
	look(w);
	assert_int_equal(guests.current_bytes[0], 256 * MIB); /* down to its minimum */
	assert_int_equal(guests.current_bytes[1], 1024 * MIB);
	assert_int_equal(guests.n_told, 1);
	assert_int_equal(balloons_current_bytes(w->converger->balloons, A), 256 * MIB);

	host_is(w, 8192);
	look(w);
	assert_int_equal(guests.current_bytes[0], 256 * MIB); /* calm, but not for long enough */
}

/* What a converger before took is given back by the one after it. */
static void a_converger_that_comes_back_gives_back(void **state)
{
	struct world *w = *state;

	two_guests(w);
	guests.current_bytes[0] = 300 * MIB;
	world_restart(w);
	host_is(w, 8192);
	WORLD_WAIT(w, world_is(w, A, "RUNNING"));
	look(w);
	assert_int_equal(guests.current_bytes[0], 1024 * MIB);
}

static void a_guest_that_cannot_answer_is_left_in_peace(void **state)
{
	struct world *w = *state;

	two_guests(w);
	guests.fails = true;
	for (int i = 0; i < 5; i++)
		look(w);
	assert_int_equal(guests.n_asked, 1);
	assert_int_equal(guests.n_told, 0);
}

static void a_guest_that_is_gone_is_forgotten(void **state)
{
	struct world *w = *state;

	two_guests(w);
	look(w);
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WORLD_WAIT(w, world_is(w, A, "none"));
	host_is(w, 1000);
	look(w);
	assert_int_equal(balloons_current_bytes(w->converger->balloons, A), 0);
	assert_int_equal(guests.n_asked, 1);
}

TEST_SUITE(balloons_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_guest_gives_and_gets_back),
		TEST(a_converger_that_comes_back_gives_back),
		TEST(a_guest_that_cannot_answer_is_left_in_peace),
		TEST(a_guest_that_is_gone_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
