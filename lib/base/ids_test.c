#include "lib/base/ids.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define UUID "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct id_case {
	const char *text;
	bool valid;
};

static void check(bool (*is_valid)(const char *), const struct id_case *cases)
{
	assert_false(is_valid(NULL));
	assert_false(is_valid(""));
	for (; cases->text; cases++)
		if (is_valid(cases->text) != cases->valid)
			fail_msg("'%s' should be %s", cases->text, cases->valid ? "valid" : "invalid");
}

static void uuids(void **state)
{
	(void)state;
	check(uuid_is_valid,
	        (const struct id_case[]){
	                { UUID, true },
	                { "00000000-0000-0000-0000-000000000000", true },
	                { "6F1C0D8E-3A52-4A57-9D3B-0C2F7F1F5B11", false },
	                { "6f1c0d8e3a524a579d3b0c2f7f1f5b11", false },
	                { "{" UUID "}", false },
	                { UUID "\n", false },
	                { UUID "0", false },
	                { "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b1", false },
	                { "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b1g", false },
	                { "6f1c0d8e-3a52-4a57-9d3b/0c2f7f1f5b11", false },
	                { "../../../../../../../../etc/passwd/x", false },
	                { 0 },
	        });
}

static void digests(void **state)
{
	(void)state;
	check(digest_is_valid,
	        (const struct id_case[]){
	                { "sha256:" HEX64, true },
	                { HEX64, false },
	                { "sha512:" HEX64, false },
	                { "sha256:" HEX64 "0", false },
	                { "SHA256:" HEX64, false },
	                { "sha256:0123456789ABCDEF" HEX64, false },
	                { "sha256:", false },
	                { 0 },
	        });
}

static void volume_ids(void **state)
{
	(void)state;
	check(volume_id_is_valid,
	        (const struct id_case[]){
	                { "data-1", true },
	                { HEX64, true },
	                { HEX64 "0", false },
	                { "Data", false },
	                { "a/b", false },
	                { "..", false },
	                { "a b", false },
	                { "a.raw", false },
	                { 0 },
	        });
}

static void serials(void **state)
{
	(void)state;
	check(serial_is_valid,
	        (const struct id_case[]){
	                { "Az09._-", true },
	                { "12345678901234567890", true },
	                { "123456789012345678901", false },
	                { "a,b", false },
	                { "a=b", false },
	                { "ä", false },
	                { 0 },
	        });
}

static void interface_names(void **state)
{
	(void)state;
	check(ifname_is_valid,
	        (const struct id_case[]){
	                { "br0", true },
	                { "enp3s0.100", true },
	                { "123456789012345", true },
	                { "1234567890123456", false },
	                { "tap%d", false },
	                { "a/b", false },
	                { "eth0:1", false },
	                { ".", false },
	                { "..", false },
	                { "a b", false },
	                { "a\n", false },
	                { "\xc3\xa4", false },
	                { 0 },
	        });
}

static void refusals_name_the_field_the_value_and_what_is_right(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(uuid_check("instances[3].id", "a\nb", &err), -EINVAL);
	assert_non_null(strstr(err.text, "instances[3].id: 'a?b' is not a UUID; write"));
	assert_int_equal(uuid_check("id", UUID, NULL), 0);
	assert_int_equal(digest_check("d", NULL, NULL), -EINVAL);
	assert_int_equal(volume_id_check("v", "X", NULL), -EINVAL);
	assert_int_equal(serial_check("s", "", NULL), -EINVAL);
	assert_int_equal(ifname_check("i", "a/b", NULL), -EINVAL);
	assert_int_equal(ifname_check("i", "br0", NULL), 0);
}

TEST_SUITE(ids_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uuids),
		cmocka_unit_test(digests),
		cmocka_unit_test(volume_ids),
		cmocka_unit_test(serials),
		cmocka_unit_test(interface_names),
		cmocka_unit_test(refusals_name_the_field_the_value_and_what_is_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
