#include "lib/domain/state.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Every state there is, so that a new one is decided upon here. */
static void who_may_have_a_vmm(void **state)
{
	static const struct {
		Bc__V1__Domain__State state;
		bool is_up;
	} cases[] = {
		{ BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED, false },
		{ BC__V1__DOMAIN__STATE__STOPPED, false },
		{ BC__V1__DOMAIN__STATE__RUNNING, true },
		{ BC__V1__DOMAIN__STATE__PAUSED, true },
		{ BC__V1__DOMAIN__STATE__STOPPING, true },
		{ BC__V1__DOMAIN__STATE__CRASHED, false },
	};

	(void)state;
	assert_int_equal(bc__v1__domain__state__descriptor.n_values, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(domain_state_is_up(cases[i].state), cases[i].is_up);
}

TEST_SUITE(state_test)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(who_may_have_a_vmm) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
