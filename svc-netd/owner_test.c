#include "svc-netd/owner.h"

#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define INSTANCE "6f1d0a52-7c1e-4c3f-9a57-3f1f0f5b8f11"

static struct owner sample(void)
{
	return (struct owner){
		.node_id = "node-7.rack:2",
		.instance_id = INSTANCE,
		.index = 42,
		.queues = 8,
		.vhost = true,
		.filtered = true,
		.mac = { { 0x52, 0x54, 0, 1, 2, 3 } },
		.master = "br-public",
	};
}

static void what_is_written_is_read(void **state)
{
	struct owner owner = sample(), back;
	char text[OWNER_TEXT_MAX];

	(void)state;
	owner_format(&owner, text);
	assert_string_equal(text,
	        "bc1 node=node-7.rack:2 instance=" INSTANCE " nic=42 queues=8 vhost=1 filter=1 "
	        "mac=52:54:00:01:02:03 on=br-public");
	memset(&back, 0xff, sizeof(back));
	assert_int_equal(owner_parse(text, &back), 0);
	assert_memory_equal(&back, &owner, sizeof(owner));
	owner.node_id[0] = 0;
	memset(owner.node_id, 0, sizeof(owner.node_id));
	owner_format(&owner, text);
	assert_int_equal(owner_parse(text, &back), 0);
	assert_string_equal(back.node_id, "");
}

static void the_longest_fits_an_alias(void **state)
{
	struct owner owner = sample(), back;
	char text[OWNER_TEXT_MAX];

	(void)state;
	memset(owner.node_id, 'n', NODE_ID_MAX - 1);
	owner.index = 99;
	owner.queues = 64;
	memcpy(owner.master, "fifteen-letters", 16);
	owner_format(&owner, text);
	assert_true(strlen(text) < OWNER_TEXT_MAX - 1);
	assert_int_equal(owner_parse(text, &back), 0);
	assert_memory_equal(&back, &owner, sizeof(owner));
}

static void only_what_is_written_is_read(void **state)
{
	static const char *const others[] = {
		"",
		"bc1",
		"uplink to rack 2",
		"bc2 node=a instance=" INSTANCE
		" nic=0 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=00 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=100 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=-1 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic= queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=0 queues=65 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=0 queues=1 vhost=2 filter=1 mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE
		" nic=0 queues=1 vhost=0 filter=1 mac=01:54:00:00:00:01 on=br0",
		"bc1 node=a instance=" INSTANCE " nic=0 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=",
		"bc1 node=a instance=" INSTANCE
		" nic=0 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0 ",
		"bc1 node=a instance=" INSTANCE " nic=0 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01",
		"bc1 node=a instance=6F1D0A52-7c1e-4c3f-9a57-3f1f0f5b8f11 nic=0 queues=1 vhost=0 filter=1 "
		"mac=52:54:00:00:00:01 on=br0",
		"bc1 node=a/b instance=" INSTANCE
		" nic=0 queues=1 vhost=0 filter=1 mac=52:54:00:00:00:01 on=br0",
	};
	struct owner back;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(owner_parse(others[i], &back), -EINVAL);
}

static void believed_only_on_its_own_name(void **state)
{
	struct owner owner = sample(), back;
	char text[OWNER_TEXT_MAX], name[IFNAME_MAX];

	(void)state;
	owner_format(&owner, text);
	assert_int_equal(tap_name(INSTANCE, 42, name), 0);
	assert_null(owner_disbelief(name, text, &back));
	assert_int_equal(tap_name(INSTANCE, 41, name), 0);
	assert_string_equal(owner_disbelief(name, text, &back), "its owner record gives another name");
	assert_string_equal(owner_disbelief(name, "", &back), "it has no owner record");
	assert_string_equal(owner_disbelief(name, "mine", &back), "its alias is no owner record");
}

TEST_SUITE(owner_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(the_longest_fits_an_alias),
		cmocka_unit_test(only_what_is_written_is_read),
		cmocka_unit_test(believed_only_on_its_own_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
