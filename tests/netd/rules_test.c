/* The tables as others see and treat them: as they are printed, flushed, taken over, changed by another
 * hand. */
#include "tests/netd/flood.h"
#include "tests/netd/lan.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"
#define IP_A "10.0.0.10"

struct net {
	struct lan lan;
	struct nic *a; /* owned */
	struct port tap;
	struct frame lie, truth;
};

static int setup(void **state)
{
	struct net *net = calloc(1, sizeof(*net));

	*state = net;
	if (net)
		net->tap.fd = -EBADF;
	if (!net || !lan_enter_namespace())
		return -1;
	lan_open(&net->lan, NULL);
	frame_ether(&net->lie, "52:54:00:00:00:99", MAC_A, 0x0800);
	frame_ip4(&net->lie,
	        &(struct ip4_options){ .from = "10.0.0.66", .to = "10.0.0.99", .protocol = IPPROTO_UDP });
	frame_udp(&net->lie, 5000, 53);
	frame_finish(&net->lie);
	frame_ether(&net->truth, "ff:ff:ff:ff:ff:ff", MAC_A, 0x0806);
	frame_arp(&net->truth, 1, MAC_A, IP_A, "10.0.0.1");
	return 0;
}

static int teardown(void **state)
{
	struct net *net = *state;

	nic_free(net->a);
	(void)close(net->tap.fd);
	lan_close(&net->lan);
	free(net);
	return 0;
}

static struct nic_request request_a(void)
{
	struct nic_request request = lan_request(1, 0, MAC_A);

	lan_address(&request, IP_A);
	return request;
}

static void reopen(struct net *net, enum rules_keep keep)
{
	struct nics_options options = { .rules = { .stored_fd = -EBADF, .keep = keep } };
	struct err err = { 0 };

	net->lan.nics = nics_free(net->lan.nics);
	if (nics_open(&options, &net->lan.nics, &err) < 0)
		fail_msg("%s", err.text);
}

static void prepare(struct net *net)
{
	struct nic_request request = request_a();
	struct err err = { 0 };

	net->a = nic_free(net->a);
	if (net->tap.fd >= 0)
		(void)close(net->tap.fd);
	if (nic_prepare_bridge(net->lan.nics, &request, &net->a, &err) < 0)
		fail_msg("%s", err.text);
	net->tap = lan_attach(net->a->ifname, false);
	assert_true(net->tap.fd >= 0);
}

static void expect_filtered(struct net *net)
{
	struct elements held = { 0 };

	assert_true(rules_intact(nics_rules(net->lan.nics)));
	assert_int_equal(rules_get(nics_rules(net->lan.nics), net->a->ifname, &held), 0);
	assert_true(elements_equal(&held, &net->a->elements));
	elements_done(&held);
	assert_false(lan_passes(net->tap, net->lan.outside, &net->lie, net->tap, &net->truth));
}

static void as_nft_prints_them(void **state)
{
	(void)state;
	/* The name of the owner's program is the only thing that differs. */
	lan_run("nft list ruleset | sed 's/ # progname .*//' | diff -u '" NETD_RULES "' -");
}

/* `nft flush ruleset` by anybody, over and over: not one lie is heard, for nothing is flushed. */
static void flushing_does_nothing_to_an_owned_table(void **state)
{
	struct net *net = *state;
	struct flood *flood;
	uint64_t sent;

	if (rules_kept(nics_rules(net->lan.nics)) != RULES_KEEP_PERSIST)
		fail_msg("this kernel should keep the tables");
	prepare(net);
	lan_run("nft add table inet theirs");
	flood = flood_start(net->tap, net->lan.outside, &net->lie);
	for (int i = 0; i < 20; i++) {
		lan_run("nft flush ruleset");
		flood_wait(flood, 100);
	}
	assert_int_equal(flood_stop(flood, &sent), 0);
	assert_true(sent >= 2000);
	expect_filtered(net);
	assert_false(lan_try("nft list table inet theirs 2>/dev/null"));
	/* Nor can it be changed by another hand. */
	assert_false(lan_try("nft flush chain bridge bc prerouting 2>/dev/null"));
	assert_false(lan_try("nft delete table bridge bc 2>/dev/null"));
	assert_false(lan_try("nft delete table inet bc 2>/dev/null"));
}

/* Where the kernel keeps nothing for us, what was flushed is put back, and until then nothing is thought to
 * be there. */
static void what_was_flushed_is_put_back(void **state)
{
	struct net *net = *state;
	struct err err = { 0 };

	reopen(net, RULES_KEEP_NOTHING);
	prepare(net);
	expect_filtered(net);
	lan_run("nft add table inet theirs; nft flush ruleset; nft add table inet theirs");
	assert_false(rules_intact(nics_rules(net->lan.nics)));
	assert_int_equal(nics_restore_rules(net->lan.nics, &err), 0);
	expect_filtered(net);
	lan_run("nft list table inet theirs >/dev/null");
	/* Only a part of it. */
	lan_run("nft flush chain bridge bc from_ip4");
	assert_false(rules_intact(nics_rules(net->lan.nics)));
	assert_int_equal(nics_restore_rules(net->lan.nics, &err), 0);
	expect_filtered(net);
	lan_run("nft delete table inet bc");
	assert_false(rules_intact(nics_rules(net->lan.nics)));
	assert_int_equal(nics_restore_rules(net->lan.nics, &err), 0);
	expect_filtered(net);
}

/* netd ends, is killed, starts: the rules do not notice. */
static void a_restart_opens_no_gap(void **state)
{
	struct net *net = *state;
	struct flood *flood;
	uint64_t sent;

	prepare(net);
	flood = flood_start(net->tap, net->lan.outside, &net->lie);
	for (int i = 0; i < 20; i++) {
		reopen(net, RULES_KEEP_AUTO);
		flood_wait(flood, 100);
	}
	assert_int_equal(flood_stop(flood, &sent), 0);
	assert_true(sent >= 2000);
	expect_filtered(net);
	assert_true(lan_passes(net->tap, net->lan.outside, &net->truth, net->tap, &net->truth));
}

/* The chains of an older netd, with other rules, sets and hooks, and our NIC in them. */
static void other_chains_are_swapped_at_once(void **state)
{
	struct net *net = *state;
	struct flood *flood;

	prepare(net);
	flood = flood_start(net->tap, net->lan.outside, &net->lie);
	for (int i = 0; i < 10; i++) {
		struct elements held = { 0 };

		/* A transaction of nft's as well: the new one replaces ours, now nobody's. */
		net->lan.nics = nics_free(net->lan.nics);
		lan_run("nft -f - <<'END'\n"
		        "delete table bridge bc\n"
		        "table bridge bc {\n"
		        "	set nics { type ifname; elements = { \"%s\" } }\n"
		        "	set macs { type ifname . ether_addr; elements = { \"%s\" . " MAC_A " } }\n"
		        "	set addresses4 { type ifname . ipv4_addr; elements = { \"%s\" . " IP_A
		        " } }\n"
		        "	set strange { type mark; }\n"
		        "	chain old { type filter hook prerouting priority -210; policy accept;\n"
		        "		iifname @nics ether type ip iifname . ip saddr != @addresses4 drop\n"
		        "	}\n"
		        "}\nEND",
		        net->a->ifname, net->a->ifname, net->a->ifname);
		flood_wait(flood, 50);
		reopen(net, RULES_KEEP_AUTO);
		assert_true(rules_intact(nics_rules(net->lan.nics)));
		assert_false(lan_try("nft list ruleset | grep -q strange"));
		assert_int_equal(rules_get(nics_rules(net->lan.nics), net->a->ifname, &held), 0);
		assert_int_equal(held.n, 3);
		elements_done(&held);
		flood_wait(flood, 50);
		assert_int_equal(rules_change(nics_rules(net->lan.nics), net->a->ifname, &held,
		                         &net->a->elements, NULL),
		        0);
	}
	assert_int_equal(flood_stop(flood, NULL), 0);
	expect_filtered(net);
	/* And it is owned again, which nothing that was made without can be. */
	lan_run("nft flush ruleset");
	expect_filtered(net);
}

/* A change that rests on what the kernel has no more, or has already. */
static void a_change_finds_what_is_really_there(void **state)
{
	struct net *net = *state;
	struct rules *rules = nics_rules(net->lan.nics);
	static const struct elements none;
	struct elements held = { 0 };

	prepare(net);
	assert_int_equal(rules_change(rules, net->a->ifname, &net->a->elements, &none, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rules_change(rules, net->a->ifname, &net->a->elements, &none, NULL), 0);
		assert_int_equal(rules_get(rules, net->a->ifname, &held), 0);
		assert_int_equal(held.n, 0);
		elements_done(&held);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(rules_change(rules, net->a->ifname, &none, &net->a->elements, NULL), 0);
	expect_filtered(net);
}

static void a_second_netd_is_refused(void **state)
{
	struct net *net = *state;
	struct rules_options options = { .stored_fd = -EBADF };
	struct err err = { 0 };
	struct rules *rules;

	prepare(net);
	assert_int_equal(rules_open(&options, &rules, &err), -EBUSY);
	assert_non_null(strstr(err.text, "is a second netd running"));
	expect_filtered(net);
}

/* As systemd's store keeps it: the tables stay owned while netd is down, also where no kernel persists
 * them. */
static void a_socket_that_outlives_us(void **state)
{
	static const enum rules_keep keeps[] = { RULES_KEEP_OWNER, RULES_KEEP_PERSIST };
	struct net *net = *state;

	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++) {
		struct nics_options options = { .rules = { .keep = keeps[i], .socket_kept = true } };
		struct err err = { 0 };
		struct flood *flood;
		int stored;

		reopen(net, keeps[i]);
		prepare(net);
		flood = flood_start(net->tap, net->lan.outside, &net->lie);
		stored = fcntl(rules_fd(nics_rules(net->lan.nics)), F_DUPFD_CLOEXEC, 0);
		net->lan.nics = nics_free(net->lan.nics);
		lan_run("nft flush ruleset; nft list ruleset | grep -q '@nics'");
		flood_wait(flood, 200);
		options.rules.stored_fd = stored;
		if (nics_open(&options, &net->lan.nics, &err) < 0)
			fail_msg("%s", err.text);
		flood_wait(flood, 200);
		assert_int_equal(flood_stop(flood, NULL), 0);
		expect_filtered(net);
	}
}

/* Nobody's socket: the table is gone with it, which is why it is not chosen without a store. */
static void without_a_store_no_table_is_owned_in_vain(void **state)
{
	struct net *net = *state;

	reopen(net, RULES_KEEP_OWNER);
	net->lan.nics = nics_free(net->lan.nics);
	lan_run("test -z \"$(nft list ruleset)\"");
	reopen(net, RULES_KEEP_AUTO);
	assert_int_equal(rules_kept(nics_rules(net->lan.nics)), RULES_KEEP_PERSIST);
}

/* Flushed while netd was down: the kernel cannot tell what the NICs were allowed. Records can. */
static void records_tell_what_the_kernel_forgot(void **state)
{
	struct net *net = *state;
	char dir[] = "/tmp/bc-test-XXXXXX", *path = mkdtemp(dir);
	struct nics_options options = { .rules = { .stored_fd = -EBADF }, .record_dir = path };
	struct err err = { 0 };

	for (int with = 0; with < 2; with++) {
		net->lan.nics = nics_free(net->lan.nics);
		options.record_dir = with ? path : NULL;
		assert_int_equal(nics_open(&options, &net->lan.nics, &err), 0);
		prepare(net);
		net->lan.nics = nics_free(net->lan.nics);
		lan_run("nft flush ruleset");
		assert_int_equal(nics_open(&options, &net->lan.nics, &err), 0);
		if (with) {
			expect_filtered(net);
			assert_true(
			        lan_passes(net->tap, net->lan.outside, &net->truth, net->tap, &net->truth));
		} else {
			struct nic *checked;
			struct frame sentinel;

			/* It passes nothing, and says so. */
			frame_ether(&sentinel, "ff:ff:ff:ff:ff:ff", "52:54:00:00:00:fe", 0x0806);
			frame_arp(&sentinel, 1, "52:54:00:00:00:fe", LAN_HOST_IP4, "10.0.0.2");
			assert_false(
			        lan_passes(net->tap, net->lan.outside, &net->lie, net->lan.host, &sentinel));
			assert_false(lan_passes(
			        net->tap, net->lan.outside, &net->truth, net->lan.host, &sentinel));
			err = (struct err){ 0 };
			assert_int_equal(
			        nic_check(net->lan.nics, lan_instance(1), 0, &checked, &err), -EBUSY);
			assert_non_null(strstr(err.text, "prepare it again"));
		}
	}
	lan_run("rm -r %s", path);
}

/* One table alone is no less lost than both. */
static void records_tell_what_one_table_forgot(void **state)
{
	static const char *const LOSSES[] = { "nft delete table bridge bc", "nft delete table inet bc",
		"nft flush table inet bc", "nft flush ruleset" };
	struct net *net = *state;
	char dir[] = "/tmp/bc-test-XXXXXX", *path = mkdtemp(dir);
	struct nics_options options = { .rules = { .stored_fd = -EBADF }, .record_dir = path };
	struct publication port = { .protocol = IPPROTO_TCP,
		.any = true,
		.host_port = 8080,
		.guest = { .family = AF_INET, .bytes = { 10, 0, 0, 1 }, .n_bits = 32 },
		.guest_port = 80 };
	struct nic_request request = request_a();
	struct elements before = { 0 };
	struct err err = { 0 };
	struct nic *nic;

	request.ports = &port;
	request.n_ports = 1;
	net->lan.nics = nics_free(net->lan.nics);
	assert_int_equal(nics_open(&options, &net->lan.nics, &err), 0);
	if (nic_prepare_bridge(net->lan.nics, &request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(rules_get(nics_rules(net->lan.nics), nic->ifname, &before), 0);
	for (size_t i = 0; i < ARRAY_SIZE(LOSSES); i++) {
		struct elements after = { 0 };

		net->lan.nics = nics_free(net->lan.nics);
		lan_run("%s", LOSSES[i]);
		assert_int_equal(nics_open(&options, &net->lan.nics, &err), 0);
		assert_int_equal(rules_get(nics_rules(net->lan.nics), nic->ifname, &after), 0);
		assert_true(elements_equal(&before, &after));
		elements_done(&after);
	}
	elements_done(&before);
	nic_free(nic);
	lan_run("rm -r %s", path);
}

/* A rule holds for a name, not for an interface: ten of them, one after another, none of ours. */
static void rules_hold_for_the_name(void **state)
{
	struct net *net = *state;

	prepare(net);
	for (int i = 0; i < 10; i++) {
		(void)close(net->tap.fd);
		lan_run("ip link del %s; ip tuntap add %s mode tap vnet_hdr; ip link set %s master " LAN_BRIDGE
		        " up",
		        net->a->ifname, net->a->ifname, net->a->ifname);
		net->tap = lan_attach(net->a->ifname, false);
		assert_false(lan_passes(net->tap, net->lan.outside, &net->lie, net->tap, &net->truth));
		assert_true(lan_passes(net->tap, net->lan.outside, &net->truth, net->tap, &net->truth));
	}
}

static int count_elements(const char *ifname, const struct elements *elements, void *userdata)
{
	size_t *counts = userdata; /* of NICs, of elements */

	(void)ifname;
	counts[0]++;
	counts[1] += elements->n;
	return 0;
}

/* A thousand NICs' rules come back in one piece, whatever they are; those of interfaces that are not there go then. */
static void many_nics_are_carried_over(void **state)
{
	enum { N = 1000 };
	const struct rules_options options = { .stored_fd = -EBADF };
	struct rules *rules;
	size_t counts[2] = { 0 };
	struct net *net = *state;
	static const struct elements none;
	struct nic_filter filter = { .policy = NIC_POLICY_PRIVATE };
	struct elements held = { 0 };
	size_t n_elements = 0;

	for (int i = 0; i < 26; i++)
		filter.prefixes[filter.n_prefixes++] =
		        (struct ip){ .family = AF_INET, .bytes = { 10, (uint8_t)i }, .n_bits = 18 };
	for (int i = 0; i < N; i++) {
		struct mac mac = { { 0x52, 0x54, 0, 1, (uint8_t)(i >> 8), (uint8_t)i } };
		struct elements elements = { 0 };
		char name[IFNAME_MAX];

		(void)snprintf(name, sizeof(name), "bc%010xn0", i);
		assert_int_equal(nic_filter_elements(name, &mac, &filter, &elements, NULL), 0);
		assert_int_equal(elements_finish(&elements), 0);
		assert_int_equal(rules_change(nics_rules(net->lan.nics), name, &none, &elements, NULL), 0);
		n_elements += elements.n;
		elements_done(&elements);
	}
	assert_true(n_elements > (size_t)N * 100);
	net->lan.nics = nics_free(net->lan.nics);
	assert_int_equal(rules_open(&options, &rules, NULL), 0);
	assert_int_equal(rules_list(rules, count_elements, counts), 0);
	assert_int_equal(counts[0], N);
	assert_int_equal(counts[1], n_elements);
	assert_int_equal(rules_get(rules, "bc00000003e7n0", &held), 0);
	assert_int_equal(held.n, n_elements / N);
	elements_done(&held);
	rules_free(rules);
	reopen(net, RULES_KEEP_AUTO);
	assert_int_equal(nic_table_count(nics_table(net->lan.nics)), 0);
	counts[0] = 0;
	assert_int_equal(rules_list(nics_rules(net->lan.nics), count_elements, counts), 0);
	assert_int_equal(counts[0], 0);
}

TEST_SUITE(rules_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(as_nft_prints_them),
		TEST(flushing_does_nothing_to_an_owned_table),
		TEST(what_was_flushed_is_put_back),
		TEST(a_restart_opens_no_gap),
		TEST(other_chains_are_swapped_at_once),
		TEST(a_change_finds_what_is_really_there),
		TEST(a_second_netd_is_refused),
		TEST(a_socket_that_outlives_us),
		TEST(without_a_store_no_table_is_owned_in_vain),
		TEST(records_tell_what_the_kernel_forgot),
		TEST(records_tell_what_one_table_forgot),
		TEST(rules_hold_for_the_name),
		TEST(many_nics_are_carried_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
