#include "svc-converger/id_map.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct thing {
	int number;
	char id[16];
};

static void map_agrees_with_an_array(void **state)
{
	enum { N = 700 };
	CLEANUP(id_map) struct id_map *map = id_map_new(offsetof(struct thing, id));
	static struct thing things[N];
	static int is_in[N];
	size_t n_in = 0;
	uint64_t random = 42;

	(void)state;
	assert_non_null(map);
	for (int i = 0; i < N; i++)
		(void)snprintf(things[i].id, sizeof(things[i].id), "thing-%d", i);
	for (int step = 0; step < 40000; step++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		int i = (int)(random >> 33) % N;

		if (random >> 62 & 1) {
			int r = id_map_put(map, &things[i]);
			assert_int_equal(r, is_in[i] ? -EEXIST : 0);
			n_in += !is_in[i];
			is_in[i] = 1;
		} else {
			void *thing = id_map_remove(map, things[i].id);
			assert_ptr_equal(thing, is_in[i] ? &things[i] : NULL);
			n_in -= (size_t)is_in[i];
			is_in[i] = 0;
		}
		assert_int_equal(id_map_count(map), n_in);
		if (step % 1000)
			continue;
		size_t n_seen = 0, cursor = 0;
		for (int k = 0; k < N; k++)
			assert_ptr_equal(id_map_get(map, things[k].id), is_in[k] ? &things[k] : NULL);
		for (struct thing *t; (t = id_map_next(map, &cursor)); n_seen++)
			assert_true(is_in[t - things]);
		assert_int_equal(n_seen, n_in);
	}
}

static void map_refuses_a_second_thing_of_an_id(void **state)
{
	CLEANUP(id_map) struct id_map *map = id_map_new(offsetof(struct thing, id));
	struct thing a = { .id = "same" }, b = { .id = "same" };

	(void)state;
	assert_int_equal(id_map_put(map, &a), 0);
	assert_int_equal(id_map_put(map, &b), -EEXIST);
	assert_ptr_equal(id_map_get(map, "same"), &a);
	assert_null(id_map_get(map, ""));
	assert_null(id_map_remove(map, "other"));
}

TEST_SUITE(id_map_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_agrees_with_an_array),
		cmocka_unit_test(map_refuses_a_second_thing_of_an_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
