#include "lib/rpc/message.h"

#include "bc/v1/runtime.pb-c.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_copy_is_the_same_until_it_is_changed(void **state)
{
	Bc__V1__Domain *domain = (Bc__V1__Domain *)message_new(&bc__v1__domain__descriptor);

	(void)state;
	assert_non_null(domain);
	assert_string_equal(domain->name, "");
	assert_int_equal(message_text_set(&domain->name, "first"), 0);
	assert_int_equal(message_text_set(&domain->name, "second"), 0);
	domain->vcpus = 3;
	Bc__V1__Domain *copy = (Bc__V1__Domain *)message_copy(&domain->base);
	assert_non_null(copy);
	assert_ptr_not_equal(copy->name, domain->name);
	assert_string_equal(copy->name, "second");
	assert_true(message_is_same(&domain->base, &copy->base));
	assert_int_equal(message_text_set(&copy->name, "secund"), 0);
	assert_false(message_is_same(&domain->base, &copy->base));
	assert_int_equal(message_text_set(&copy->name, "longer text"), 0);
	assert_false(message_is_same(&domain->base, &copy->base));
	bc__v1__domain__free_unpacked(domain, NULL);
	bc__v1__domain__free_unpacked(copy, NULL);
}

static void two_types_are_never_the_same(void **state)
{
	Bc__V1__RuntimeGetRequest get = BC__V1__RUNTIME_GET_REQUEST__INIT;
	Bc__V1__BalloonRequest balloon = BC__V1__BALLOON_REQUEST__INIT;

	(void)state;
	get.id = balloon.id = (char[]){ "x" };
	assert_false(message_is_same(&get.base, &balloon.base));
	assert_true(message_is_same(&get.base, &get.base));
}

TEST_SUITE(message_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_the_same_until_it_is_changed),
		cmocka_unit_test(two_types_are_never_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
