#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ID "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11"
#define OTHER "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b12"

/* printf %s 6f1c… | sha256sum */
#define ID_HASH "eae9ff2fa7"

static void every_index_gives_a_name_of_the_form(void **state)
{
	char name[IFNAME_MAX], hash[TAP_HASH_MAX];
	unsigned index = 0;

	(void)state;
	assert_int_equal(tap_name(ID, 0, name), 0);
	assert_string_equal(name, "bc" ID_HASH "n0");
	assert_int_equal(tap_name(ID, 99, name), 0);
	assert_string_equal(name, "bc" ID_HASH "n99");
	assert_int_equal(strlen(name), 15);
	for (unsigned i = 0; i < TAP_INDEX_COUNT; i++) {
		assert_int_equal(tap_name(ID, i, name), 0);
		assert_true(ifname_is_valid(name));
		assert_true(tap_name_parse(name, hash, &index));
		assert_string_equal(hash, ID_HASH);
		assert_int_equal(index, i);
		assert_true(tap_name_matches(name, ID, i));
		assert_false(tap_name_matches(name, ID, i + 1));
		assert_false(tap_name_matches(name, OTHER, i));
	}
}

static void a_larger_index_or_another_id_is_refused(void **state)
{
	char name[IFNAME_MAX] = "untouched";
	struct mac mac;

	(void)state;
	assert_int_equal(tap_name(ID, 100, name), -ERANGE);
	assert_int_equal(tap_mac(ID, 100, &mac), -ERANGE);
	assert_int_equal(tap_name("not-a-uuid", 0, name), -EINVAL);
	assert_int_equal(tap_mac(NULL, 0, &mac), -EINVAL);
	assert_string_equal(name, "untouched");
}

static void other_names_are_not_of_the_form(void **state)
{
	static const char *const OTHERS[] = { "", "bc", "br0", "bc0123456789n", "bc0123456789n100",
		"bc0123456789n00", "bc0123456789n07", "bc0123456789n1x", "bc012345678n1", "bc01234567890n1",
		"bc012345678An1", "BC0123456789n1", "bc0123456789m1", "xbc012345678n1", "bc0123456789n-1",
		"bc0123456789n 1" };

	(void)state;
	for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
		assert_false(tap_name_parse(OTHERS[i], NULL, NULL));
	assert_false(tap_name_parse(NULL, NULL, NULL));
	assert_true(tap_name_parse("bc0123456789n10", NULL, NULL));
}

static void derived_addresses_are_local_unicast_and_differ(void **state)
{
	struct mac seen[TAP_INDEX_COUNT], again;
	char text[MAC_TEXT_MAX];

	(void)state;
	for (unsigned i = 0; i < TAP_INDEX_COUNT; i++) {
		assert_int_equal(tap_mac(ID, i, &seen[i]), 0);
		assert_int_equal(seen[i].bytes[0] & 0x83, 0x02);
		mac_format(&seen[i], text);
		assert_int_equal(mac_parse("mac", text, &again, NULL), 0);
		for (unsigned j = 0; j < i; j++)
			assert_false(mac_equal(&seen[i], &seen[j]));
	}
	assert_int_equal(tap_mac(ID, 5, &again), 0);
	assert_true(mac_equal(&again, &seen[5]));
	assert_int_equal(tap_mac(OTHER, 5, &again), 0);
	assert_false(mac_equal(&again, &seen[5]));
}

TEST_SUITE(tap_name_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_index_gives_a_name_of_the_form),
		cmocka_unit_test(a_larger_index_or_another_id_is_refused),
		cmocka_unit_test(other_names_are_not_of_the_form),
		cmocka_unit_test(derived_addresses_are_local_unicast_and_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
