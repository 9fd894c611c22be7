#include "svc-netd/request.h"

#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define INSTANCE "00000000-0000-4000-8000-000000000001"

/* A request that is right, for tests to change. */
struct fixture {
	Bc__V1__PrepareBridgeRequest bridge;
	Bc__V1__PrepareMacvtapRequest macvtap;
	Bc__V1__NicIdentity nic;
	Bc__V1__NicFilter filter;
	Bc__V1__PortMapping mapping, *mappings[300];
	char *addresses[2], *allowed[2];
	struct request_policy policy;
};

static void fixture_init(struct fixture *f)
{
	bc__v1__prepare_bridge_request__init(&f->bridge);
	bc__v1__prepare_macvtap_request__init(&f->macvtap);
	bc__v1__nic_identity__init(&f->nic);
	bc__v1__nic_filter__init(&f->filter);
	bc__v1__port_mapping__init(&f->mapping);
	f->nic.instance_id = (char *)INSTANCE;
	f->nic.node_id = (char *)"node-1";
	f->nic.mac = (char *)"52:54:00:00:00:0a";
	f->addresses[0] = (char *)"10.0.0.10/24";
	f->addresses[1] = (char *)"fd00::a/64";
	f->filter.addresses = f->addresses;
	f->filter.n_addresses = 2;
	f->bridge.nic = &f->nic;
	f->bridge.filter = &f->filter;
	f->bridge.bridge = (char *)"br0";
	f->mapping.host_port = 8080;
	f->mapping.guest_port = 80;
	for (size_t i = 0; i < ARRAY_SIZE(f->mappings); i++)
		f->mappings[i] = &f->mapping;
	f->bridge.port_mappings = f->mappings;
	f->macvtap.nic = &f->nic;
	f->macvtap.parent = (char *)"eth0";
	f->allowed[0] = (char *)"br0";
	f->allowed[1] = (char *)"eth0";
	f->policy = (struct request_policy){ .bridges = f->allowed, .n_bridges = 2, .queues_max = 16 };
}

static void refused(struct fixture *f, int code, const char *words)
{
	struct nic_request request;
	struct err err = { 0 };

	assert_int_equal(request_bridge(&f->bridge, &f->policy, &request, &err), code);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
}

/* Queue pairs: what is asked for; else with vhost one for each CPU, up to the node's limit and 16; else one. */
static void queues_and_vhost(void **state)
{
	enum { UNSET, ON, OFF };
	static const struct {
		uint32_t asked, vcpus, queues_max;
		int vhost;
		bool by_default, possible;
		uint32_t queues; /* 0: refused */
		bool with_vhost;
	} cases[] = {
		{ 0, 8, 16, UNSET, false, true, 1, false },
		{ 0, 8, 16, UNSET, true, true, 8, true },
		{ 0, 8, 16, ON, false, true, 8, true },
		{ 0, 8, 16, OFF, true, true, 1, false },
		{ 0, 8, 4, ON, false, true, 4, true },
		{ 0, 32, 16, ON, false, true, 16, true },
		{ 0, 32, 64, ON, false, true, 16, true }, /* never more than 16 unasked */
		{ 0, 0, 16, ON, false, true, 1, true },
		{ 0, 1, 16, ON, false, true, 1, true },
		{ 0, 8, 16, UNSET, true, false, 1, false }, /* said to be off rather than failing later */
		{ 0, 8, 16, ON, false, false, 0, false },   /* insisted on */
		{ 3, 8, 2, UNSET, false, true, 3, false },  /* an explicit count is kept, without vhost too */
		{ 3, 1, 16, ON, false, true, 3, true },
		{ 64, 1, 16, UNSET, false, true, 64, false },
		{ 65, 1, 16, UNSET, false, true, 0, false },
		{ UINT32_MAX, 1, 16, UNSET, false, true, 0, false },
	};
	static const Bc__V1__Nic__Vhost vhosts[] = { BC__V1__NIC__VHOST__VHOST_UNSPECIFIED,
		BC__V1__NIC__VHOST__ON, BC__V1__NIC__VHOST__OFF };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nic_request request;
		struct err err = { 0 };
		struct fixture f;
		int r;

		fixture_init(&f);
		f.nic.queues = cases[i].asked;
		f.nic.vcpus = cases[i].vcpus;
		f.nic.vhost = vhosts[cases[i].vhost];
		f.policy.queues_max = cases[i].queues_max;
		f.policy.default_vhost = cases[i].by_default;
		f.policy.vhost_possible = cases[i].possible;
		r = request_bridge(&f.bridge, &f.policy, &request, &err);
		if ((r == 0) != (cases[i].queues > 0))
			fail_msg("case %zu: %d %s", i, r, err.text);
		if (r < 0)
			continue;
		assert_int_equal(request.owner.queues, cases[i].queues);
		assert_int_equal(request.owner.vhost, cases[i].with_vhost);
		nic_request_done(&request);
	}
}

static void what_is_asked_for(void **state)
{
	struct nic_request request;
	struct mac derived;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.nic.owner_uid = 64055;
	f.nic.owner_gid = 64056;
	f.nic.index = 99;
	f.nic.mac = (char *)"";
	f.bridge.n_port_mappings = 1;
	assert_int_equal(request_bridge(&f.bridge, &f.policy, &request, NULL), 0);
	assert_string_equal(request.owner.instance_id, INSTANCE);
	assert_string_equal(request.owner.master, "br0");
	assert_int_equal(request.owner.index, 99);
	assert_int_equal(request.uid, 64055);
	assert_int_equal(request.gid, 64056);
	assert_true(request.filtered && request.owner.filtered);
	assert_int_equal(request.filter.policy, NIC_POLICY_PUBLIC);
	/* A MAC that nobody chose is the one that everybody derives. */
	assert_int_equal(tap_mac(INSTANCE, 99, &derived), 0);
	assert_true(mac_equal(&request.owner.mac, &derived));
	/* Every address of the host: one publication for each family that the NIC has. */
	assert_int_equal(request.n_ports, 2);
	assert_true(request.ports[0].any && request.ports[1].any);
	assert_int_equal(request.ports[0].guest.family, AF_INET);
	assert_int_equal(request.ports[1].guest.family, AF_INET6);
	nic_request_done(&request);
	f.mapping.host_address = (char *)"2001:db8::1";
	assert_int_equal(request_bridge(&f.bridge, &f.policy, &request, NULL), 0);
	assert_int_equal(request.n_ports, 1);
	assert_int_equal(request.ports[0].guest.family, AF_INET6);
	nic_request_done(&request);
}

static void ports_that_lead_nowhere(void **state)
{
	static const char *const addresses[] = { "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0",
		"::", "224.0.0.1", "ff02::1", "255.255.255.255", "10.0.0.1/24", "host", "10.0.0.01" };
	static const uint32_t ports[] = { 0, 65536, UINT32_MAX };
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		fixture_init(&f);
		f.bridge.n_port_mappings = 1;
		f.mapping.host_address = (char *)(uintptr_t)addresses[i];
		refused(&f, -EINVAL, "port_mappings[0].host_address");
		refused(&f, -EINVAL, addresses[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		fixture_init(&f);
		f.bridge.n_port_mappings = 1;
		f.mapping.host_port = ports[i];
		refused(&f, -EINVAL, "ports are 1 to 65535");
		f.mapping.host_port = 1;
		f.mapping.guest_port = ports[i];
		refused(&f, -EINVAL, "ports are 1 to 65535");
	}
	fixture_init(&f);
	f.bridge.n_port_mappings = 257;
	refused(&f, -EINVAL, "257 entries");
	f.bridge.n_port_mappings = 1;
	f.filter.n_addresses = 0;
	refused(&f, -EINVAL, "no address of that family");
}

static void who_and_where(void **state)
{
	struct fixture f;
	char node[66];

	(void)state;
	fixture_init(&f);
	f.nic.instance_id = (char *)"00000000-0000-4000-8000-00000000000A";
	refused(&f, -EINVAL, "no canonical lower-case UUID");
	f.nic.instance_id = (char *)"a b=c";
	refused(&f, -EINVAL, "a b=c");
	fixture_init(&f);
	f.nic.index = 100;
	refused(&f, -EINVAL, "0 to 99");
	fixture_init(&f);
	f.nic.node_id = (char *)"node 1";
	refused(&f, -EINVAL, "nic.node_id");
	memset(node, 'n', sizeof(node) - 1);
	node[sizeof(node) - 1] = '\0';
	f.nic.node_id = node;
	refused(&f, -EINVAL, "nic.node_id");
	node[64] = '\0';
	{
		struct nic_request request;

		assert_int_equal(request_bridge(&f.bridge, &f.policy, &request, NULL), 0);
		nic_request_done(&request);
	}
	fixture_init(&f);
	f.bridge.bridge = (char *)"br0/../x";
	refused(&f, -EINVAL, "br0/../x");
	f.bridge.bridge = (char *)"sixteen-bytes-br";
	refused(&f, -EINVAL, "no interface name");
	f.bridge.bridge = (char *)"br%d";
	refused(&f, -EINVAL, "no interface name");
	f.bridge.bridge = (char *)"br1";
	refused(&f, -EACCES, "allowed_bridges");
	fixture_init(&f);
	f.policy.n_bridges = 0;
	refused(&f, -EACCES, "allowed_bridges");
	f.nic.mac = (char *)"ff:ff:ff:ff:ff:ff";
	refused(&f, -EINVAL, "nic.mac");
	f.nic.mac = (char *)"00:00:00:00:00:00";
	refused(&f, -EINVAL, "nic.mac");
}

/* As many of each as the messages say, and no more. */
static void lists_are_bounded(void **state)
{
	static char *many[2000];
	static const struct {
		const char *field, *text;
		size_t n_max;
	} cases[] = {
		{ "addresses", "10.0.0.10/24", NIC_ADDRESSES_MAX },
		{ "gateways", "10.0.0.1", NIC_GATEWAYS_MAX },
		{ "nameservers", "10.0.0.2", NIC_NAMESERVERS_MAX },
		{ "private_prefixes", "10.0.0.0/8", NIC_PREFIXES_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Bc__V1__NicFilter message = BC__V1__NIC_FILTER__INIT;
		const struct {
			char ***items;
			size_t *n;
		} fields[] = {
			{ &message.addresses, &message.n_addresses },
			{ &message.gateways, &message.n_gateways },
			{ &message.nameservers, &message.n_nameservers },
			{ &message.private_prefixes, &message.n_private_prefixes },
		};
		struct nic_filter filter;
		struct err err = { 0 };
		char words[64];

		for (size_t j = 0; j < ARRAY_SIZE(many); j++)
			many[j] = (char *)(uintptr_t)cases[i].text;
		*fields[i].items = many;
		*fields[i].n = cases[i].n_max;
		assert_int_equal(request_filter(&message, &filter, &err), 0);
		*fields[i].n = cases[i].n_max + 1;
		assert_int_equal(request_filter(&message, &filter, &err), -EINVAL);
		(void)snprintf(words, sizeof(words), "filter.%s: %zu entries, at most %zu", cases[i].field,
		        cases[i].n_max + 1, cases[i].n_max);
		assert_non_null(strstr(err.text, words));
		/* The one that is wrong is named. */
		*fields[i].n = cases[i].n_max;
		many[cases[i].n_max - 1] = (char *)"10.0.0.300/33";
		err = (struct err){ 0 };
		assert_int_equal(request_filter(&message, &filter, &err), -EINVAL);
		(void)snprintf(words, sizeof(words), "filter.%s[%zu]", cases[i].field, cases[i].n_max - 1);
		assert_non_null(strstr(err.text, words));
	}
}

static void macvtaps(void **state)
{
	static const uint32_t modes[] = { MACVLAN_MODE_BRIDGE, MACVLAN_MODE_BRIDGE, MACVLAN_MODE_VEPA,
		MACVLAN_MODE_PRIVATE, MACVLAN_MODE_PASSTHRU };
	static const int wrong[] = { 5, -1, INT32_MAX };
	struct nic_request request;
	struct err err = { 0 };
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		f.macvtap.mode = (Bc__V1__MacvtapAttachment__Mode)i;
		assert_int_equal(request_macvtap(&f.macvtap, &f.policy, &request, &err), 0);
		assert_false(request.filtered);
		assert_int_equal(request.macvtap_mode, modes[i]);
		nic_request_done(&request);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		f.macvtap.mode = (Bc__V1__MacvtapAttachment__Mode)wrong[i];
		assert_int_equal(request_macvtap(&f.macvtap, &f.policy, &request, &err), -EINVAL);
	}
	fixture_init(&f);
	f.macvtap.parent = (char *)"eth9";
	assert_int_equal(request_macvtap(&f.macvtap, &f.policy, &request, &err), -EACCES);
	f.macvtap.nic = NULL;
	assert_int_equal(request_macvtap(&f.macvtap, &f.policy, &request, &err), -EINVAL);
}

TEST_SUITE(request_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queues_and_vhost),
		cmocka_unit_test(what_is_asked_for),
		cmocka_unit_test(ports_that_lead_nowhere),
		cmocka_unit_test(who_and_where),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(macvtaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
