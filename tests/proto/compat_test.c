/* No peer built from an older protos/bc/v1 may be broken: every line of protos/baseline.txt still holds. */
#include "lib/base/cleanup.h"
#include "protos/descriptor_set.h"
#include "tests/harness/suite.h"
#include "tests/proto/surface.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static char *baseline_read(void)
{
	CLEANUP_FCLOSE FILE *f = fopen(BC_BASELINE, "re");
	assert_non_null(f);
	char *text = calloc(1, 1 << 20);
	assert_non_null(text);
	size_t n = fread(text, 1, (1 << 20) - 1, f);
	assert_true(n > 0 && n < (1 << 20) - 1);
	return text;
}

static void baseline_still_holds(void **state)
{
	struct surface base;
	struct surface now;
	char reason[SURFACE_LINE_MAX];
	CLEANUP_FREE char *text = baseline_read();
	(void)state;

	assert_int_equal(surface_from_text(text, &base), 0);
	assert_true(base.n_lines > 100);
	assert_int_equal(
	        surface_from_descriptor_set(bc_descriptor_set, bc_descriptor_set_size, "bc.v1", &now), 0);
	const char *broken = surface_broken(&base, &now, reason);
	if (broken)
		fail_msg("'%s' %s: peers built before this change would misread it", broken, reason);
	surface_done(&base);
	surface_done(&now);
}

struct change {
	const char *base, *now;
	const char *reason; /* NULL: compatible */
};

static void change_is_judged(void **state)
{
	static const struct change changes[] = {
		{ "field a.M/1\tx uint32 singular", "field a.M/1\tx uint32 singular", NULL },
		{ "field a.M/1\tx uint32 singular",
		        "field a.M/1\tx uint32 singular\nfield a.M/2\ty bool singular", NULL },
		{ "field a.M/1\tx uint32 singular", "field a.M/1\tx uint64 singular", "uint64" },
		{ "field a.M/1\tx uint32 singular", "field a.M/1\tx uint32 repeated", "repeated" },
		{ "field a.M/1\tx uint32 singular", "field a.M/1\tx uint32 singular oneof o", "oneof" },
		{ "field a.M/1\tx uint32 singular", "field a.M/2\tx uint32 singular", "not reserved" },
		{ "field a.M/1\tx uint32 singular", "field a.M/11\tx uint32 singular", "not reserved" },
		{ "field a.M/1\tx uint32 singular", "reserved a.M/1\t", NULL },
		{ "field a.M/1\tx uint32 singular", "reserved a.N/1\t", "not reserved" },
		{ "value a.E/1\tON", "value a.E/1\tOFF", "OFF" },
		{ "value a.E/1\tON", "reserved a.E/1\t", NULL },
		{ "rpc a.S/Get\ta.Q -> a.R", "rpc a.S/Get\ta.Q -> stream a.R", "stream" },
		{ "rpc a.S/Get\ta.Q -> a.R", "rpc a.S/Put\ta.Q -> a.R", "not reserved" },
		{ "reserved a.M/3\t", "field a.M/3\tx bool singular", "not reserved" },
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct surface base;
		struct surface now;
		char reason[SURFACE_LINE_MAX];
		assert_int_equal(surface_from_text(changes[i].base, &base), 0);
		assert_int_equal(surface_from_text(changes[i].now, &now), 0);
		const char *broken = surface_broken(&base, &now, reason);
		if (!changes[i].reason)
			assert_null(broken);
		else if (!broken || !strstr(reason, changes[i].reason))
			fail_msg("row %zu: expected a break that names '%s'", i, changes[i].reason);
		surface_done(&base);
		surface_done(&now);
	}
}

TEST_SUITE(compat_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(baseline_still_holds),
		cmocka_unit_test(change_is_judged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
