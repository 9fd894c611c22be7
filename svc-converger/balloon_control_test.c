#include "svc-converger/balloon_control.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define SEC UINT64_C(1000000)

static const struct balloon_host CALM_HOST = { .total_bytes = 100 * GIB, .available_bytes = 40 * GIB };

static struct balloon_guest guest(
        uint64_t memory_mib, uint64_t min_mib, uint64_t current_mib, uint64_t unused_mib)
{
	return (struct balloon_guest){ .memory_bytes = memory_mib * MIB,
		.min_bytes = min_mib * MIB,
		.current_bytes = current_mib * MIB,
		.unused_bytes = unused_mib * MIB,
		.usage_known = true };
}

/* --- when --- */

static void pressure_begins_at_the_low_line_and_ends_above_the_high_one(void **state)
{
	static const struct {
		double available_gib, psi;
		uint64_t sec; /* of the clock */
		enum balloon_phase want;
	} TRACE[] = {
		{ 40, 0, 0, BALLOON_CALM },
		{ 8.001, 0, 5, BALLOON_CALM },
		{ 7.99, 0, 10, BALLOON_PRESSURE },
		{ 9, 0, 15, BALLOON_PRESSURE },    /* above low is not enough */
		{ 15.1, 0, 20, BALLOON_PRESSURE }, /* above high, but not for long */
		{ 15.1, 0, 79, BALLOON_PRESSURE }, /* 59 s */
		{ 14.9, 0, 80, BALLOON_PRESSURE }, /* begins anew */
		{ 16, 0, 85, BALLOON_PRESSURE },
		{ 16, 1.5, 140, BALLOON_PRESSURE }, /* stalls begin it anew too */
		{ 16, 0, 150, BALLOON_PRESSURE },
		{ 16, 0.9, 210, BALLOON_CALM }, /* 60 s */
		{ 16, 9.9, 215, BALLOON_CALM },
		{ 16, 10.1, 220, BALLOON_PRESSURE },
		{ 16, 0, 225, BALLOON_PRESSURE },
		{ 50, 0, 400, BALLOON_CALM },
	};
	struct balloon_config config = balloon_config_default();
	struct balloon_control control = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(TRACE) / sizeof(TRACE[0]); i++) {
		struct balloon_host host = { .total_bytes = 100 * GIB,
			.available_bytes = (uint64_t)(TRACE[i].available_gib * (double)GIB),
			.psi_some_avg10 = TRACE[i].psi };

		assert_false(balloon_decide(&control, &config, &host, (1000 + TRACE[i].sec) * SEC, NULL, 0));
		if (control.phase != TRACE[i].want)
			fail_msg("step %zu: phase %d, not %d", i, control.phase, TRACE[i].want);
	}
}

/* --- how much --- */

static void what_is_missing_is_taken_in_proportion_to_what_is_not_used(void **state)
{
	struct balloon_config config = balloon_config_default();
	struct balloon_control control = { 0 };
	/* 15 - 5 = 10 GiB are missing. Spare are 8, 4, 0, 0, 2 GiB. */
	struct balloon_host host = { .total_bytes = 100 * GIB, .available_bytes = 5 * GIB };
	struct balloon_guest guests[] = {
		guest(16384, 4096, 16384, 8192 + 64), guest(8192, 1024, 8192, 4096 + 64),
		guest(8192, 1024, 8192, 64),   /* uses all but the reserve */
		guest(8192, 8192, 8192, 8000), /* its balloon is off */
		guest(8192, 6144, 8192, 8000), /* bounded by its minimum */
		guest(8192, 1024, 8192, 8000), /* but nobody knows */
	};

	(void)state;
	guests[5].usage_known = false;
	assert_true(balloon_decide(&control, &config, &host, SEC, guests, 6));
	assert_int_equal(guests[0].target_bytes / MIB, 16384 - 5851); /* 10 × 8/14 GiB */
	assert_int_equal(guests[1].target_bytes / MIB, 8192 - 2925);
	assert_int_equal(guests[2].target_bytes, guests[2].current_bytes);
	assert_int_equal(guests[3].target_bytes, guests[3].current_bytes);
	assert_int_equal(guests[4].target_bytes / MIB, 8192 - 1462);
	assert_int_equal(guests[5].target_bytes, guests[5].current_bytes);

	/* more is missing than there is: everybody to the end, nobody below its minimum */
	host.available_bytes = 0;
	assert_true(balloon_decide(&control, &config, &host, SEC, guests, 6));
	assert_int_equal(guests[0].target_bytes / MIB, 8192);
	assert_int_equal(guests[4].target_bytes, guests[4].min_bytes);
}

static void a_guest_is_never_taken_below_its_minimum(void **state)
{
	struct balloon_config config = balloon_config_default();
	uint32_t x = 1;

	(void)state;
	for (int round = 0; round < 10000; round++) {
		struct balloon_control control = { .phase = BALLOON_PRESSURE };
		struct balloon_host host = { .total_bytes = 100 * GIB };
		struct balloon_guest guests[4];

		for (size_t i = 0; i < 4; i++) {
			uint64_t numbers[4];

			for (size_t j = 0; j < 4; j++) {
				x = x * 1664525 + 1013904223;
				numbers[j] = (uint64_t)(x >> 8) * 4096;
			}
			guests[i] = (struct balloon_guest){ .memory_bytes = numbers[0] + numbers[1],
				.min_bytes = numbers[0],
				.current_bytes = numbers[2], /* even one below its minimum already */
				.unused_bytes = numbers[3],  /* even a lie */
				.usage_known = x & 1 };
		}
		host.available_bytes = (uint64_t)(x >> 4) << 8;
		(void)balloon_decide(&control, &config, &host, 1, guests, 4);
		for (size_t i = 0; i < 4; i++) {
			uint64_t floor = guests[i].min_bytes < guests[i].current_bytes
			        ? guests[i].min_bytes
			        : guests[i].current_bytes;

			assert_true(guests[i].target_bytes >= floor);
			if (control.phase == BALLOON_PRESSURE)
				assert_true(guests[i].target_bytes <= guests[i].current_bytes);
		}
	}
}

static void small_changes_are_not_made(void **state)
{
	struct balloon_config config = balloon_config_default();
	struct balloon_control control = { .phase = BALLOON_PRESSURE };
	struct balloon_host host = { .total_bytes = 100 * GIB, .available_bytes = 15 * GIB - 10 * MIB };
	struct balloon_guest one = guest(8192, 1024, 8192, 4096);

	(void)state;
	assert_false(balloon_decide(&control, &config, &host, SEC, &one, 1));
	host.available_bytes = 15 * GIB - 16 * MIB;
	assert_true(balloon_decide(&control, &config, &host, SEC, &one, 1));
	assert_int_equal(one.target_bytes / MIB, 8192 - 16);
}

static void stalls_take_something_even_with_memory_to_spare(void **state)
{
	struct balloon_config config = balloon_config_default();
	struct balloon_control control = { 0 };
	struct balloon_host host = {
		.total_bytes = 100 * GIB, .available_bytes = 40 * GIB, .psi_some_avg10 = 30
	};
	struct balloon_guest one = guest(8192, 1024, 8192, 4096);

	(void)state;
	assert_true(balloon_decide(&control, &config, &host, SEC, &one, 1));
	assert_int_equal(one.target_bytes / MIB, 8192 - 2048);
}

static void memory_comes_back_when_pressure_is_gone(void **state)
{
	struct balloon_config config = balloon_config_default();
	struct balloon_control control = { 0 };
	/* (40 - 15) / 2 = 12.5 GiB may be given; 20 GiB are lacking */
	struct balloon_guest guests[] = { guest(16384, 1024, 1024, 100), guest(8192, 1024, 3072, 100),
		guest(8192, 1024, 8192, 100) };

	(void)state;
	guests[0].usage_known = false; /* to be given back to, that need not be known */
	assert_true(balloon_decide(&control, &config, &CALM_HOST, SEC, guests, 3));
	assert_int_equal(guests[0].target_bytes / MIB, 1024 + 9600); /* 12.5 × 15/20 GiB */
	assert_int_equal(guests[1].target_bytes / MIB, 3072 + 3200);
	assert_int_equal(guests[2].target_bytes, guests[2].current_bytes);

	/* a rest that is less than a step is given all the same */
	guests[0] = guest(16384, 1024, 16380, 100);
	assert_true(balloon_decide(&control, &config, &CALM_HOST, SEC, guests, 1));
	assert_int_equal(guests[0].target_bytes, guests[0].memory_bytes);
	guests[0].current_bytes = guests[0].memory_bytes;
	assert_false(balloon_decide(&control, &config, &CALM_HOST, SEC, guests, 1));
}

/* --- traces, with guests that answer --- */

enum { N_GUESTS = 3 };

/* A host of 64 GiB whose guests follow their balloons with some delay. */
struct world {
	struct balloon_config config;
	struct balloon_control control;
	struct balloon_guest guests[N_GUESTS];
	uint64_t used_bytes[N_GUESTS]; /* by what runs in the guest */
	uint64_t targets[N_GUESTS];
	uint64_t now_usec;
	unsigned n_phases; /* changes of phase */
	unsigned n_turns;  /* a guest that was shrinking was given to, or the reverse */
	int direction[N_GUESTS];
};

static void world_init(struct world *world)
{
	*world = (struct world){ .config = balloon_config_default(), .now_usec = SEC };
	for (size_t i = 0; i < N_GUESTS; i++) {
		world->guests[i] = guest(16384, 4096, 16384, 0);
		world->used_bytes[i] = (3 + i) * GIB;
		world->targets[i] = world->guests[i].current_bytes;
	}
}

/* Five seconds in which others_gib of the host are used by something else; psi is the recorded one. */
static void world_step(struct world *world, double others_gib, double psi)
{
	struct balloon_host host = { .total_bytes = 64 * GIB, .psi_some_avg10 = psi };
	enum balloon_phase before = world->control.phase;
	double available = 64 - others_gib;

	world->now_usec += 5 * SEC;
	for (size_t i = 0; i < N_GUESTS; i++) {
		struct balloon_guest *g = &world->guests[i];
		uint64_t step = 2 * GIB;

		/* at most 2 GiB in five seconds */
		if (g->current_bytes > world->targets[i])
			g->current_bytes -= g->current_bytes - world->targets[i] < step
			        ? g->current_bytes - world->targets[i]
			        : step;
		else
			g->current_bytes += world->targets[i] - g->current_bytes < step
			        ? world->targets[i] - g->current_bytes
			        : step;
		g->unused_bytes =
		        g->current_bytes > world->used_bytes[i] ? g->current_bytes - world->used_bytes[i] : 0;
		available -= (double)g->current_bytes / (double)GIB; /* all that a guest has is touched */
	}
	host.available_bytes = available > 0 ? (uint64_t)(available * (double)GIB) : 0;
	(void)balloon_decide(
	        &world->control, &world->config, &host, world->now_usec, world->guests, N_GUESTS);
	world->n_phases += world->control.phase != before;
	for (size_t i = 0; i < N_GUESTS; i++) {
		const struct balloon_guest *g = &world->guests[i];
		int direction = (g->target_bytes > g->current_bytes) - (g->target_bytes < g->current_bytes);

		world->n_turns += direction && world->direction[i] && direction != world->direction[i];
		world->direction[i] = direction ? direction : world->direction[i];
		world->targets[i] = g->target_bytes;
		assert_true(g->target_bytes >= g->min_bytes);
		assert_true(g->target_bytes <= g->memory_bytes);
	}
}

/* A backup that fills memory for some minutes: GiB used by it and PSI, every five seconds. */
static void a_burst_shrinks_guests_once_and_gives_all_back(void **state)
{
	static const struct {
		double gib, psi;
	} TRACE[] = {
		{ 1, 0 },
		{ 2, 0 },
		{ 4, 0 },
		{ 6, 0.2 },
		{ 9, 0.9 },
		{ 12, 4.1 },
		{ 14, 13.7 },
		{ 15, 22.4 },
		{ 16, 19.8 },
		{ 16.4, 14.2 },
		{ 16.1, 8.8 },
		{ 16.3, 5.1 },
		{ 16.2, 2.7 },
		{ 16.5, 1.3 },
		{ 16.2, 0.6 },
		{ 16.4, 0.3 },
		{ 16.1, 0.2 },
		{ 12, 0.1 },
		{ 8, 0 },
		{ 4, 0 },
		{ 1, 0 },
	};
	struct world world;

	(void)state;
	world_init(&world);
	for (size_t i = 0; i < sizeof(TRACE) / sizeof(TRACE[0]); i++)
		world_step(&world, TRACE[i].gib, TRACE[i].psi);
	assert_true(world.guests[0].current_bytes < 16 * GIB); /* they did give */
	for (int i = 0; i < 60; i++)
		world_step(&world, 1, 0);
	for (size_t i = 0; i < N_GUESTS; i++)
		assert_int_equal(world.guests[i].current_bytes, 16 * GIB); /* and have it all again */
	assert_int_equal(world.n_phases, 2);
	assert_int_equal(world.n_turns, N_GUESTS); /* each was turned round once */
}

/* A load that swings around the low line: without hysteresis every swing would move every guest. */
static void a_swinging_load_does_not_swing_the_guests(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	for (int i = 0; i < 400; i++)
		world_step(&world, i % 2 ? 9.5 : 11.5, i % 2 ? 0.4 : 2.0);
	assert_int_equal(world.n_phases, 1);
	assert_int_equal(world.n_turns, 0);
}

/* Guests that need what they have keep it, however hard the host is pressed. */
static void guests_in_need_are_left_alone(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	for (size_t i = 0; i < N_GUESTS; i++)
		world.used_bytes[i] = 16 * GIB;
	for (int i = 0; i < 50; i++)
		world_step(&world, 16, 60);
	for (size_t i = 0; i < N_GUESTS; i++)
		assert_int_equal(world.guests[i].current_bytes, 16 * GIB);
}

/* --- reading --- */

static void the_host_is_read(void **state)
{
	struct balloon_host host = { 0 };
	static const char MEMINFO[] = "MemTotal:       1024 kB\nMemFree: 5 kB\nMemAvailable:    512 kB\n";
	static const char PSI[] =
	        "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00\n";

	assert_int_equal(balloon_host_read(*state, &host), -ENOENT);
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "meminfo"), MEMINFO,
	                         sizeof(MEMINFO) - 1, 0444),
	        0);
	assert_int_equal(balloon_host_read(*state, &host), 0);
	assert_int_equal(host.total_bytes, MIB);
	assert_int_equal(host.available_bytes, MIB / 2);
	assert_true(host.psi_some_avg10 == 0);
	assert_int_equal(mkdir(SANDBOX_PATH(state, "pressure"), 0755), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "pressure/memory"), PSI,
	                         sizeof(PSI) - 1, 0444),
	        0);
	assert_int_equal(balloon_host_read(*state, &host), 0);
	assert_true(host.psi_some_avg10 > 12.33 && host.psi_some_avg10 < 12.35);
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, "meminfo"), "x", 1, 0444), 0);
	assert_int_equal(balloon_host_read(*state, &host), -EINVAL);
	assert_int_equal(balloon_host_read("/proc", &host), 0);
	assert_true(host.total_bytes > host.available_bytes);
}

TEST_SUITE(balloon_control_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pressure_begins_at_the_low_line_and_ends_above_the_high_one),
		cmocka_unit_test(what_is_missing_is_taken_in_proportion_to_what_is_not_used),
		cmocka_unit_test(a_guest_is_never_taken_below_its_minimum),
		cmocka_unit_test(small_changes_are_not_made),
		cmocka_unit_test(stalls_take_something_even_with_memory_to_spare),
		cmocka_unit_test(memory_comes_back_when_pressure_is_gone),
		cmocka_unit_test(a_burst_shrinks_guests_once_and_gives_all_back),
		cmocka_unit_test(a_swinging_load_does_not_swing_the_guests),
		cmocka_unit_test(guests_in_need_are_left_alone),
		cmocka_unit_test_setup_teardown(the_host_is_read, sandbox_setup, sandbox_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
