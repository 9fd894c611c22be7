#include "lib/conf/value.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct number_case {
	const char *text;
	bool valid;
	uint64_t value;
};

static void check_numbers(const struct conf_key *key, const struct number_case *c)
{
	for (; c->text; c++) {
		struct err err = { 0 };
		uint64_t value = 77;
		int r = conf_value_parse(key, c->text, &value, &err);

		if (r != (c->valid ? 0 : -EINVAL) || value != (c->valid ? c->value : 77))
			fail_msg("'%s': %d %llu", c->text, r, (unsigned long long)value);
		assert_true(c->valid || strncmp(err.text, "write ", 6) == 0);
	}
}

static void numbers(void **state)
{
	const struct conf_key key = { .type = CONF_UINT, .min = 1, .max = 64 };
	const struct conf_key any = { .type = CONF_UINT };
	char buf[256];

	(void)state;
	check_numbers(&key,
	        (const struct number_case[]){ { "1", true, 1 }, { "64", true, 64 }, { "064", true, 64 },
	                { "0", false, 0 }, { "65", false, 0 }, { "-1", false, 0 }, { "+1", false, 0 },
	                { "1 ", false, 0 }, { "0x10", false, 0 }, { "1.5", false, 0 }, { "", false, 0 },
	                { "many", false, 0 }, { 0 } });
	check_numbers(&any,
	        (const struct number_case[]){ { "18446744073709551615", true, UINT64_MAX },
	                { "18446744073709551616", false, 0 }, { 0 } });
	assert_string_equal(conf_value_accepted(&key, buf, sizeof(buf)), "a whole number from 1 to 64");
	assert_string_equal(conf_value_accepted(&any, buf, sizeof(buf)), "a whole number");
}

static void sizes(void **state)
{
	const struct conf_key key = { .type = CONF_SIZE, .min = 1024, .max = UINT64_C(8) << 40 };
	char buf[256];

	(void)state;
	check_numbers(&key,
	        (const struct number_case[]){ { "1024", true, 1024 }, { "1K", true, 1024 },
	                { "512M", true, UINT64_C(512) << 20 }, { "2 GiB", true, UINT64_C(2) << 30 },
	                { "8T", true, UINT64_C(8) << 40 }, { "9T", false, 0 }, { "1023B", false, 0 },
	                { "1m", false, 0 }, { "1.5G", false, 0 }, { "1GB", false, 0 }, { "1G 1M", false, 0 },
	                { "99999999999999999T", false, 0 }, { "G", false, 0 }, { 0 } });
	assert_string_equal(
	        conf_value_accepted(&key, buf, sizeof(buf)), "a size such as 512M or 2G from 1K to 8T");
}

static void durations(void **state)
{
	const struct conf_key key = { .type = CONF_DURATION, .min = USEC_PER_SEC };
	char buf[256];

	(void)state;
	check_numbers(&key,
	        (const struct number_case[]){ { "5", true, 5 * USEC_PER_SEC },
	                { "5s", true, 5 * USEC_PER_SEC }, { "2min 30s", true, 150 * USEC_PER_SEC },
	                { "2min30s", true, 150 * USEC_PER_SEC },
	                { "1h 1 m 1 sec 500ms", true, UINT64_C(3661500000) },
	                { "1d", true, UINT64_C(86400) * USEC_PER_SEC }, { "1000000us", true, USEC_PER_SEC },
	                { "500ms", false, 0 }, { "5 5", false, 0 }, { "5s 5", false, 0 },
	                { "5 5s", false, 0 }, { "5 parsecs", false, 0 }, { "infinity", false, 0 },
	                { "-5s", false, 0 }, { "300000000d", false, 0 }, { "", false, 0 }, { 0 } });
	assert_string_equal(conf_value_accepted(&key, buf, sizeof(buf)),
	        "a duration such as 5s, 2min or 500ms, at least 1s");
}

static void booleans(void **state)
{
	const struct conf_key key = { .type = CONF_BOOL };
	bool value = false;

	(void)state;
	assert_int_equal(conf_value_parse(&key, "Yes", &value, NULL), 0);
	assert_true(value);
	assert_int_equal(conf_value_parse(&key, "off", &value, NULL), 0);
	assert_false(value);
	assert_int_equal(conf_value_parse(&key, "maybe", &value, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "10", &value, NULL), -EINVAL);
}

static void choices(void **state)
{
	const struct conf_choice modes[] = { { "auto", 3 }, { "kvm", 4 }, { 0 } };
	const struct conf_key key = { .type = CONF_ENUM, .choices = modes };
	struct err err = { 0 };
	int value = 0;

	(void)state;
	assert_int_equal(conf_value_parse(&key, "kvm", &value, NULL), 0);
	assert_int_equal(value, 4);
	assert_int_equal(conf_value_parse(&key, "KVM", &value, &err), -EINVAL);
	assert_string_equal(err.text, "write one of: auto, kvm");
}

static void texts(void **state)
{
	const struct conf_key key = { .type = CONF_STRING, .max = 20 }, path = { .type = CONF_PATH };
	static const struct {
		const char *text, *value;
	} CASES[] = { { "plain", "plain" }, { "two words", "two words" }, { "\"quoted # x\"", "quoted # x" },
		{ "'say \"hi\"'", "say \"hi\"" }, { "\"\"", "" }, { "a#b", "a#b" },
		{ "value # comment", NULL }, { "\"open", NULL }, { "\"a\" b", NULL }, { "\"a\"b\"", NULL },
		{ "\"", NULL }, { "123456789012345678901", NULL }, { "a\x01", NULL }, { "\xff", NULL } };
	char *value = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		char *before = value;
		int r = conf_value_parse(&key, CASES[i].text, &value, NULL);

		if (r != (CASES[i].value ? 0 : -EINVAL))
			fail_msg("'%s': %d", CASES[i].text, r);
		if (CASES[i].value)
			assert_string_equal(value, CASES[i].value);
		else
			assert_ptr_equal(value, before);
	}
	assert_int_equal(conf_value_parse(&path, "/run/bc/x.sock", &value, NULL), 0);
	assert_int_equal(conf_value_parse(&path, "run/bc", &value, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&path, "/run/bc # x", &value, NULL), -EINVAL);
	assert_string_equal(value, "/run/bc/x.sock");
	conf_value_clear(&key, &value);
	assert_null(value);
}

static void lists(void **state)
{
	const struct conf_key key = { .type = CONF_LIST, .max = 5 };
	struct conf_list list = { 0 };

	(void)state;
	assert_int_equal(conf_value_parse(&key, "br0, br1\t\"a b\"", &list, NULL), 0);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.items[2], "a b");
	/* More than fits leaves what was there. */
	assert_int_equal(conf_value_parse(&key, "x y z", &list, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "x # y", &list, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "x \"y", &list, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "\"x\"y", &list, NULL), -EINVAL);
	assert_int_equal(list.n, 3);
	assert_int_equal(conf_value_parse(&key, ",x ,", &list, NULL), 0);
	assert_int_equal(list.n, 4);
	assert_int_equal(conf_value_parse(&key, "", &list, NULL), 0);
	assert_int_equal(list.n, 0);
	assert_null(list.items);
}

static void users(void **state)
{
	const struct conf_key key = { .type = CONF_UIDS };
	struct conf_uids uids = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(conf_value_parse(&key, "root 1000,4294967294", &uids, NULL), 0);
	assert_int_equal(uids.n, 3);
	assert_int_equal(uids.items[0], 0);
	assert_int_equal(uids.items[1], 1000);
	assert_int_equal(conf_value_parse(&key, "no-such-user-here", &uids, &err), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "4294967295", &uids, NULL), -EINVAL);
	assert_int_equal(conf_value_parse(&key, "-1", &uids, NULL), -EINVAL);
	assert_int_equal(uids.n, 3);
	conf_value_clear(&key, &uids);
}

/* What is printed is read back as the same. */
static void printed_values_read_back(void **state)
{
	static const struct conf_choice MODES[] = { { "auto", 3 }, { 0 } };
	static const struct {
		struct conf_key key;
		const char *text;
	} CASES[] = { { { .type = CONF_STRING }, "plain" }, { { .type = CONF_STRING }, "\"a # b\"" },
		{ { .type = CONF_STRING }, "'say \"hi\"'" }, { { .type = CONF_PATH }, "/a/b" },
		{ { .type = CONF_BOOL }, "yes" }, { { .type = CONF_UINT }, "12" },
		{ { .type = CONF_SIZE }, "512M" }, { { .type = CONF_SIZE }, "1025" },
		{ { .type = CONF_DURATION }, "90s" }, { { .type = CONF_DURATION }, "2h" },
		{ { .type = CONF_DURATION }, "0s" }, { { .type = CONF_ENUM, .choices = MODES }, "auto" },
		{ { .type = CONF_LIST }, "a \"b c\" d" }, { { .type = CONF_UIDS }, "0 1000" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const struct conf_key *key = &CASES[i].key;
		union {
			char *text;
			uint64_t number;
			struct conf_list list;
		} slot = { .list = { 0 } };
		CLEANUP_FREE char *printed = NULL;
		size_t n;
		FILE *f = open_memstream(&printed, &n);

		assert_int_equal(conf_value_parse(key, CASES[i].text, &slot, NULL), 0);
		conf_value_print(key, &slot, f);
		assert_int_equal(fclose(f), 0);
		assert_string_equal(printed, CASES[i].text);
		conf_value_clear(key, &slot);
	}
}

TEST_SUITE(value_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(booleans),
		cmocka_unit_test(choices),
		cmocka_unit_test(texts),
		cmocka_unit_test(lists),
		cmocka_unit_test(users),
		cmocka_unit_test(printed_values_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
