#include "lib/base/mac.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void mac_round_trips_in_lower_case(void **state)
{
	char text[MAC_TEXT_MAX];
	struct mac mac;

	(void)state;
	assert_int_equal(mac_parse("mac", "02:AB:cd:00:ff:01", &mac, NULL), 0);
	mac_format(&mac, text);
	assert_string_equal(text, "02:ab:cd:00:ff:01");
}

static void mac_refuses_what_no_nic_has(void **state)
{
	static const char *const BAD[] = { "", "01:00:5e:00:00:01", "33:33:00:00:00:01", "ff:ff:ff:ff:ff:ff",
		"00:00:00:00:00:00", "02:ab:cd:00:ff", "02:ab:cd:00:ff:01:02", "02-ab-cd-00-ff-01",
		"2:ab:cd:00:ff:01", "02:ab:cd:00:ff:0g", "02:ab:cd:00:ff:01\n", " 2:ab:cd:00:ff:01",
		"+2:ab:cd:00:ff:01", NULL };
	struct mac mac = { { 7 } };

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		struct err err = { 0 };

		assert_int_equal(mac_parse("nics[0].mac", BAD[i], &mac, &err), -EINVAL);
		assert_memory_equal(err.text, "nics[0].mac: ", 13);
	}
	assert_int_equal(mac.bytes[0], 7); /* untouched */
}

TEST_SUITE(mac_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mac_round_trips_in_lower_case),
		cmocka_unit_test(mac_refuses_what_no_nic_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
