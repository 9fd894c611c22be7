/* NICs made, checked, changed and removed on the real kernel: what is left when a step fails, when the
 * process dies between two, and when somebody else gets in the way. */
#include "tests/netd/lan.h"

#include "svc-netd/link.h"
#include "svc-netd/netlink.h"
#include "svc-netd/reaper.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"
#define MAC_B "52:54:00:00:00:0b"

static int setup(void **state)
{
	struct lan *lan = calloc(1, sizeof(*lan));

	*state = lan;
	if (!lan || !lan_enter_namespace())
		return -1;
	lan_open(lan, NULL);
	return 0;
}

static int teardown(void **state)
{
	lan_close(*state);
	free(*state);
	return 0;
}

static struct nic_request request_a(void)
{
	struct nic_request request = lan_request(1, 0, MAC_A);

	lan_address(&request, "10.0.0.10");
	lan_address(&request, "fd00::a");
	request.uid = 64055;
	request.gid = 64056;
	return request;
}

/* Another NIC of the same instance, with a MAC of its own. */
static void to_index(struct nic_request *request, unsigned index)
{
	request->owner.index = index;
	request->owner.mac.bytes[MAC_SIZE - 2] = (uint8_t)index;
}

static struct nic *prepare(struct lan *lan, const struct nic_request *request)
{
	struct err err = { 0 };
	struct nic *nic = NULL;

	if (nic_prepare_bridge(lan->nics, request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	return nic;
}

static void expect_refusal(struct lan *lan, const struct nic_request *request, int code, const char *words)
{
	struct err err = { 0 };
	struct nic *nic = NULL;

	assert_int_equal(nic_prepare_bridge(lan->nics, request, &nic, &err), code);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
}

static bool exists(const char *ifname)
{
	return lan_try("ip link show %s >/dev/null 2>&1", ifname);
}

static void name_of(unsigned instance, unsigned index, char ret[static IFNAME_MAX])
{
	assert_int_equal(tap_name(lan_instance(instance), index, ret), 0);
}

static size_t rules_of(struct lan *lan, const char *ifname)
{
	struct elements elements = { 0 };
	size_t n;

	assert_int_equal(rules_get(nics_rules(lan->nics), ifname, &elements), 0);
	n = elements.n;
	elements_done(&elements);
	return n;
}

/* Neither an interface of our form or waiting, nor an element, nor an entry. */
static void expect_nothing_left(struct lan *lan)
{
	struct netlink *nl;
	struct nic_view *views;
	size_t n;

	assert_int_equal(nics_list(lan->nics, &views, &n, NULL), 0);
	assert_int_equal(n, 0);
	nic_views_free(views, n);
	assert_int_equal(nic_table_count(nics_table(lan->nics)), 0);
	assert_int_equal(netlink_open(NETLINK_ROUTE, &nl), 0);
	assert_true(reaper_run(nics_reaper(lan->nics), nl) >= 0);
	netlink_free(nl);
	assert_false(lan_try("ip -o link show | grep -q ' bc[0-9a-fx]'"));
}

/* --- what is built --- */

static void what_was_asked_for_is_built(void **state)
{
	static const uint32_t queues[] = { 1, 2, 64 };
	struct lan *lan = *state;

	lan_run("ip link set outside mtu 1400; ip link set " LAN_BRIDGE " mtu 1400");
	for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
		struct nic_request request = request_a();
		struct port first, second;
		struct nic *nic;
		struct link link;

		request.owner.queues = queues[i];
		request.owner.vhost = i == 2;
		nic = prepare(lan, &request);
		assert_int_equal(nic->state, NIC_READY);
		link = lan_link(nic->ifname);
		assert_int_equal(nic->ifindex, link.ifindex);
		assert_true(link_is_tap(&link) && link.tun.persist && link.tun.vnet_hdr);
		assert_int_equal(link.tun.multi_queue, queues[i] > 1);
		assert_int_equal(link.tun.owner, 64055);
		assert_int_equal(link.tun.group, 64056);
		assert_int_equal(link.mtu_bytes, 1400);
		assert_int_equal(nic->mtu_bytes, 1400);
		assert_int_equal(link.group, LINK_GROUP_OURS);
		assert_int_equal(link.master, lan_link(LAN_BRIDGE).ifindex);
		assert_true(link.flags & IFF_UP);
		assert_int_equal(link.mac.bytes[0], 0xfe);
		assert_false(mac_equal(&link.mac, &request.owner.mac));
		/* Whoever attaches has to say the same about queues; and nobody holds one. */
		assert_int_equal(link.tun.queues, 0);
		assert_int_equal(link.tun.disabled_queues, 0);
		assert_false(link_in_use(&link));
		assert_int_equal(lan_attach(nic->ifname, queues[i] == 1).fd, -EINVAL);
		first = lan_attach(nic->ifname, queues[i] > 1);
		assert_true(first.fd >= 0);
		second = lan_attach(nic->ifname, queues[i] > 1);
		assert_int_equal(second.fd >= 0, queues[i] > 1);
		(void)close(first.fd);
		(void)close(second.fd);
		/* The host has no address on its side, and gets none. */
		assert_false(lan_try("ip -6 addr show dev %s | grep -q inet6", nic->ifname));
		assert_int_equal(rules_of(lan, nic->ifname), nic->elements.n);
		nic_free(nic);
	}
}

static void the_record_is_on_the_interface(void **state)
{
	struct nic_request request = request_a();
	struct nic *nic = prepare(*state, &request);
	struct link link = lan_link(nic->ifname);
	struct owner owner;

	assert_null(owner_disbelief(link.name, link.alias, &owner));
	assert_memory_equal(&owner, &nic->owner, sizeof(owner));
	assert_string_equal(owner.instance_id, lan_instance(1));
	assert_string_equal(owner.master, LAN_BRIDGE);
	assert_true(owner.filtered);
	nic_free(nic);
}

static void a_leftover_is_replaced(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic = prepare(lan, &request);
	int ifindex = nic->ifindex;
	struct port port;

	/* The same again: a fresh one, nobody having it open. */
	nic_free(nic);
	nic = prepare(lan, &request);
	assert_int_not_equal(nic->ifindex, ifindex);
	/* In use, but other than asked for: replaced. */
	port = lan_attach(nic->ifname, false);
	ifindex = nic->ifindex;
	request.owner.queues = 4;
	nic_free(nic);
	nic = prepare(lan, &request);
	assert_int_not_equal(nic->ifindex, ifindex);
	assert_true(lan_link(nic->ifname).tun.multi_queue);
	(void)close(port.fd);
	nic_free(nic);
}

static void one_in_use_is_kept(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic = prepare(lan, &request), *again;
	struct port port = lan_attach(nic->ifname, false);
	struct frame f, sentinel;

	/* A retry, a caller that forgot: the guest does not notice, and its rules are what was asked for
	 * last. */
	lan_address(&request, "10.0.0.11");
	again = prepare(lan, &request);
	assert_int_equal(again->ifindex, nic->ifindex);
	assert_int_equal(again->elements.n, nic->elements.n + 1);
	frame_ether(&sentinel, "ff:ff:ff:ff:ff:ff", MAC_A, 0x0806);
	frame_arp(&sentinel, 1, MAC_A, "10.0.0.10", "10.0.0.1");
	frame_ether(&f, "ff:ff:ff:ff:ff:ff", MAC_A, 0x0806);
	frame_arp(&f, 1, MAC_A, "10.0.0.11", "10.0.0.1");
	assert_true(lan_passes(port, lan->outside, &f, port, &sentinel));
	(void)close(port.fd);
	nic_free(nic);
	nic_free(again);
}

/* --- what is refused --- */

static void foreign_interfaces_are_left_alone(void **state)
{
	static const struct {
		const char *make, *words;
	} cases[] = {
		{ "ip tuntap add $T mode tap", "it has no owner record" },
		{ "ip tuntap add $T mode tap; ip link set $T alias mine", "its alias is no owner record" },
		{ "ip link add $T type veth peer name other", "it is no TAP or macvtap" },
		{ "ip tuntap add $T mode tun", "it is no TAP or macvtap" },
		{ "ip tuntap add $T mode tap; ip link set $T alias 'bc1 node=n "
		  "instance=00000000-0000-4000-8000-000000000002 nic=0 queues=1 vhost=0 filter=1 "
		  "mac=52:54:00:00:00:01 on=br0'",
		        "its owner record gives another name" },
	};
	struct lan *lan = *state;
	struct nic_request request = request_a();
	char name[IFNAME_MAX];

	name_of(1, 0, name);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nic_removal removal;
		struct link before, after;
		struct err err = { 0 };

		lan_run("T=%s; %s", name, cases[i].make);
		before = lan_link(name);
		expect_refusal(lan, &request, -EEXIST, cases[i].words);
		assert_int_equal(nic_remove(lan->nics, lan_instance(1), 0, &removal, &err), -EBUSY);
		assert_non_null(strstr(err.text, cases[i].words));
		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), -EBUSY);
		after = lan_link(name);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_int_equal(rules_of(lan, name), 0);
		assert_int_equal(nic_table_count(nics_table(lan->nics)), 0);
		lan_run("ip link del %s", name);
	}
}

static void bad_requests_change_nothing(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();

	memcpy(request.owner.master, "br9", 4);
	expect_refusal(lan, &request, -ENOENT, "bridge 'br9' does not exist");
	memcpy(request.owner.master, "lo", 3);
	expect_refusal(lan, &request, -EINVAL, "'lo' is no bridge");
	memcpy(request.owner.master, "outside", 8);
	expect_refusal(lan, &request, -EINVAL, "'outside' is no bridge but of kind tun");
	request = request_a();
	request.owner.index = 100;
	expect_refusal(lan, &request, -EINVAL, "NIC 100");
	request = request_a();
	memcpy(request.owner.instance_id, "../../etc/passwd", 17);
	expect_refusal(lan, &request, -EINVAL, "../../etc/passwd");
	expect_nothing_left(lan);
}

static void a_bridge_that_is_full_says_so(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic;

	/* The world's port is one. */
	lan_run("for i in $(seq 1 %d); do echo \"tuntap add p$i mode tap\"; echo \"link set p$i master " LAN_BRIDGE
	        "\"; done | ip -batch -",
	        BRIDGE_PORTS_MAX - 2);
	nic_free(prepare(lan, &request));
	/* Its own leftover's port can be had again. */
	nic = prepare(lan, &request);
	to_index(&request, 1);
	expect_refusal(lan, &request, -ENOSPC, "1023 ports");
	assert_int_equal(nic_table_count(nics_table(lan->nics)), 1);
	assert_int_equal(lan_link(nic->ifname).master, nic->master);
	nic_free(nic);
}

/* --- failure at each step --- */

struct fault {
	const char *step; /* at which to fail, or NULL to count */
	int number;       /* … or the number of the step, from 0 */
	bool kill;
	int n;
};

static int on_step(const char *step, const char *ifname, void *userdata)
{
	struct fault *fault = userdata;
	int number = fault->n++;

	(void)ifname;
	(void)step;
	if (number != fault->number)
		return 0;
	if (fault->kill)
		(void)kill(getpid(), SIGKILL);
	return -EIO;
}

static void open_with_fault(struct lan *lan, struct fault *fault)
{
	struct nics_options options = {
		.rules = { .stored_fd = -EBADF }, .before_step = on_step, .userdata = fault
	};
	struct err err = { 0 };

	nics_free(lan->nics);
	if (nics_open(&options, &lan->nics, &err) < 0)
		fail_msg("%s", err.text);
}

static struct publication port_of(uint16_t port)
{
	return (struct publication){ .protocol = IPPROTO_TCP,
		.any = true,
		.host_port = port,
		.guest = ip_of("10.0.0.10"),
		.guest_port = 80 };
}

static void every_failing_step_is_rolled_back(void **state)
{
	struct lan *lan = *state;
	struct fault fault = { .number = -1 };
	struct nic_request request = request_a();
	struct publication port = port_of(8080);
	struct nic *nic;
	int n_steps;

	request.ports = &port;
	request.n_ports = 1;
	request.owner.queues = 2;
	open_with_fault(lan, &fault);
	nic = prepare(lan, &request);
	nic_free(nic);
	n_steps = fault.n;
	assert_true(n_steps >= 12);
	for (int i = 0; i < n_steps; i++) {
		struct nic_removal removal;
		struct err err = { 0 };

		/* With nothing there before. */
		fault = (struct fault){ .number = -1 };
		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
		nic_removal_done(&removal);
		expect_nothing_left(lan);
		fault = (struct fault){ .number = i };
		assert_int_equal(nic_prepare_bridge(lan->nics, &request, &nic, &err), -EIO);
		assert_non_null(strstr(err.text, "failed"));
		expect_nothing_left(lan);
		/* The port is free again, for another. */
		fault = (struct fault){ .number = -1 };
		request.owner.index = 1;
		nic_free(prepare(lan, &request));
		request.owner.index = 0;
		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
		nic_removal_done(&removal);
	}
	expect_nothing_left(lan);
}

static void a_failing_replacement_keeps_what_it_did_not_reach(void **state)
{
	struct lan *lan = *state;
	struct fault fault = { .number = -1 };
	struct nic_request request = request_a(), other = request_a();
	struct nic *nic;
	int n_steps, n_kept = 0;

	other.filter.policy = NIC_POLICY_NONE;
	other.owner.queues = 2;
	open_with_fault(lan, &fault);
	nic_free(prepare(lan, &request));
	n_steps = fault.n;
	for (int i = 0; i < n_steps; i++) {
		struct elements held = { 0 };
		struct nic *built, *entry;

		fault = (struct fault){ .number = -1 };
		built = prepare(lan, &request);
		fault = (struct fault){ .number = i };
		assert_int_equal(nic_prepare_bridge(lan->nics, &other, &nic, NULL), -EIO);
		assert_int_equal(rules_get(nics_rules(lan->nics), built->ifname, &held), 0);
		entry = nic_table_get(nics_table(lan->nics), built->ifname);
		if (exists(built->ifname)) {
			/* It is the old one, with the old rules, and known. */
			assert_int_equal(lan_link(built->ifname).ifindex, built->ifindex);
			assert_true(elements_equal(&held, &built->elements));
			assert_int_equal(entry->state, NIC_READY);
			n_kept++;
		} else {
			assert_int_equal(held.n, 0);
			assert_null(entry);
		}
		elements_done(&held);
		nic_free(entry);
		nic_free(built);
	}
	assert_true(n_kept > 0 && n_kept < n_steps);
}

/* --- death between two steps --- */

/* Runs it in a process that is killed at step number; false when it ended by itself. */
static bool killed_at(struct lan *lan, int number, const struct nic_request *request, bool removal)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct fault fault = { .number = number, .kill = true };
		struct nic_removal removed;
		struct nic *nic;

		/* The tables are the parent's: give them up, take them over, as a service that was started
		 * again. */
		open_with_fault(lan, &fault);
		if (removal)
			_exit(nic_remove_instance(lan->nics, request->owner.instance_id, &removed, NULL) < 0);
		_exit(nic_prepare_bridge(lan->nics, request, &nic, NULL) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void reopen(struct lan *lan)
{
	struct nics_options options = { .rules = { .stored_fd = -EBADF } };
	struct err err = { 0 };

	if (nics_open(&options, &lan->nics, &err) < 0)
		fail_msg("%s", err.text);
}

/* Everything that is there is owned: an interface has a record that is believed, or is on its way out. */
static void expect_all_owned(struct lan *lan)
{
	struct nic_view *views;
	size_t n;

	assert_int_equal(nics_list(lan->nics, &views, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		assert_true(!views[i].exists || !views[i].disbelief);
	nic_views_free(views, n);
}

static void killed_between_any_two_steps(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct publication port = port_of(8080);
	int n_prepare = 0, n_remove = 0;

	request.ports = &port;
	request.n_ports = 1;
	/* The process that dies takes the tables over; we must not own them then. */
	for (int over_leftover = 0; over_leftover < 2; over_leftover++) {
		for (int i = 0;; i++) {
			struct nic_removal removal;
			bool killed;

			if (over_leftover)
				nic_free(prepare(lan, &request));
			lan->nics = nics_free(lan->nics);
			killed = killed_at(lan, i, &request, false);
			reopen(lan);
			expect_all_owned(lan);
			/* No database, no record: the name says it all. */
			assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
			nic_removal_done(&removal);
			expect_nothing_left(lan);
			if (!killed)
				break;
			n_prepare++;
		}
	}
	for (int i = 0;; i++) {
		struct nic_removal removal;
		bool killed;

		nic_free(prepare(lan, &request));
		lan->nics = nics_free(lan->nics);
		killed = killed_at(lan, i, &request, true);
		reopen(lan);
		expect_all_owned(lan);
		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
		nic_removal_done(&removal);
		expect_nothing_left(lan);
		if (!killed)
			break;
		n_remove++;
	}
	assert_true(n_prepare > 24);
	assert_true(n_remove >= 2);
}

/* --- removal --- */

static void removal_says_what_it_removed(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct publication port = port_of(8080);
	struct nic_removal removal;
	char name[IFNAME_MAX];
	size_t n_rules = 0;

	for (unsigned i = 0; i < 3; i++) {
		struct nic *nic;

		request.owner.index = i * 49;
		request.owner.mac.bytes[5] = (uint8_t)i;
		request.ports = &port;
		request.n_ports = i == 0;
		nic = prepare(lan, &request);
		n_rules += nic->elements.n;
		nic_free(nic);
	}
	assert_int_equal(nic_remove(lan->nics, lan_instance(1), 49, &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 1);
	name_of(1, 49, name);
	assert_string_equal(removal.interfaces[0].ifname, name);
	assert_int_equal(removal.n_ports, 0);
	n_rules -= removal.n_rules;
	nic_removal_done(&removal);
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 2);
	assert_int_equal(removal.n_ports, 1);
	assert_int_equal(removal.n_rules, n_rules);
	nic_removal_done(&removal);
	expect_nothing_left(lan);
	/* Twice is no failure. */
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 0);
	nic_removal_done(&removal);
	assert_int_equal(nic_remove(lan->nics, lan_instance(1), 0, &removal, NULL), 0);
	nic_removal_done(&removal);
}

static void an_operators_last_word(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic_removal removal;
	struct err err = { 0 };
	struct nic *nic = prepare(lan, &request);

	assert_int_equal(nic_remove_interface(lan->nics, LAN_BRIDGE, &removal, &err), -EINVAL);
	err = (struct err){ 0 };
	assert_int_equal(nic_remove_interface(lan->nics, "bc0123456789n100", &removal, &err), -EINVAL);
	lan_run("ip link add bc0123456789n1 type veth peer name other");
	err = (struct err){ 0 };
	assert_int_equal(nic_remove_interface(lan->nics, "bc0123456789n1", &removal, &err), -EBUSY);
	assert_non_null(strstr(err.text, "kind 'veth'"));
	/* One that nothing can be proven of. */
	lan_run("ip tuntap add bc0123456789n2 mode tap");
	assert_int_equal(nic_remove_interface(lan->nics, "bc0123456789n2", &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 1);
	nic_removal_done(&removal);
	assert_false(exists("bc0123456789n2"));
	assert_int_equal(nic_remove_interface(lan->nics, nic->ifname, &removal, NULL), 0);
	assert_int_equal(removal.n_rules, nic->elements.n);
	nic_removal_done(&removal);
	lan_run("ip link del bc0123456789n1");
	expect_nothing_left(lan);
	nic_free(nic);
}

/* A NIC that was dropped from the spec, netd being down; and one whose interface somebody deleted meanwhile: what it
 * held is free, its host port for others too. */
static void what_no_record_mentions(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct publication port = port_of(8080);
	struct nic_removal removal;
	struct nic_view *views;
	struct nic *nic;
	size_t n, n_rules;

	nic_free(prepare(lan, &request));
	to_index(&request, 7);
	request.ports = &port;
	request.n_ports = 1;
	nic = prepare(lan, &request);
	lan->nics = nics_free(lan->nics);
	lan_run("ip link del %s", nic->ifname);
	reopen(lan);
	assert_int_equal(rules_of(lan, nic->ifname), 0);
	assert_int_equal(nics_list(lan->nics, &views, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_true(views[0].exists);
	n_rules = views[0].elements.n;
	nic_views_free(views, n);
	request.owner = request_a().owner;
	to_index(&request, 8);
	nic_free(prepare(lan, &request));
	assert_int_equal(nic_remove(lan->nics, lan_instance(1), 8, &removal, NULL), 0);
	assert_int_equal(removal.n_ports, 1);
	nic_removal_done(&removal);
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
	assert_int_equal(removal.n_interfaces, 1);
	assert_int_equal(removal.n_rules, n_rules);
	nic_removal_done(&removal);
	expect_nothing_left(lan);
	nic_free(nic);
}

/* An interface that is not ours in the middle of an instance's names, and a step that fails. */
static void a_sweep_goes_on_past_what_it_may_not_touch(void **state)
{
	struct lan *lan = *state;
	struct fault fault = { .number = -1 };
	struct nic_request request = request_a();
	struct nic_removal removal;
	struct err err = { 0 };
	char name[IFNAME_MAX];

	open_with_fault(lan, &fault);
	for (request.owner.index = 0; request.owner.index < 4; request.owner.index++) {
		to_index(&request, request.owner.index);
		if (request.owner.index != 1)
			nic_free(prepare(lan, &request));
	}
	name_of(1, 1, name);
	lan_run("ip tuntap add %s mode tap", name);
	fault = (struct fault){ .number = 0 };
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, &err), -EIO);
	assert_non_null(strstr(err.text, "2 interfaces were removed, but not all: step"));
	assert_int_equal(removal.n_interfaces, 2);
	nic_removal_done(&removal);
	/* What failed is there still, and known; what is foreign is there; the rest is gone. */
	assert_true(exists(name));
	name_of(1, 0, name);
	assert_true(exists(name));
	assert_true(rules_of(lan, name) > 0);
	for (unsigned i = 2; i < 4; i++) {
		name_of(1, i, name);
		assert_false(exists(name));
		assert_int_equal(rules_of(lan, name), 0);
	}
	fault = (struct fault){ .number = -1 };
	assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), -EBUSY);
	nic_removal_done(&removal);
	name_of(1, 0, name);
	assert_false(exists(name));
	name_of(1, 1, name);
	assert_int_equal(nic_remove_interface(lan->nics, name, &removal, NULL), 0);
	nic_removal_done(&removal);
	expect_nothing_left(lan);
}

/* "Nothing" and "I cannot tell" are not the same answer. */
static void a_list_that_cannot_be_made_is_an_error(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic = prepare(lan, &request), *checked;
	int fd = rules_fd(nics_rules(lan->nics)), kept = dup(fd),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct nic_view *views = NULL;
	struct err err = { 0 };
	size_t n = 99;

	/* The kernel cannot be asked for rules any more. */
	assert_int_equal(dup2(null, fd), fd);
	assert_true(nics_list(lan->nics, &views, &n, &err) < 0);
	assert_null(views);
	assert_int_equal(n, 99);
	assert_non_null(strstr(err.text, "cannot list interfaces and rules"));
	err = (struct err){ 0 };
	assert_true(nic_check(lan->nics, lan_instance(1), 0, &checked, &err) < 0);
	assert_non_null(strstr(err.text, "cannot read the rules"));
	assert_int_equal(dup2(kept, fd), fd);
	assert_int_equal(nics_list(lan->nics, &views, &n, NULL), 0);
	assert_int_equal(n, 1);
	nic_views_free(views, n);
	(void)close(kept);
	(void)close(null);
	nic_free(nic);
}

/* --- checking --- */

static void check_says_what_is_wrong(void **state)
{
	static const struct {
		const char *harm, *words;
	} cases[] = {
		{ "ip link set $T nomaster", "not on its bridge" },
		{ "ip link set $T nomaster; ip link set $T master " LAN_BRIDGE, "port is not guarded" },
		{ "ip link set $T group 0", "link group" },
		{ "ip link set $T down", "is down" },
		{ "ip link set $T alias mine", "no owner record" },
		{ "ip link del $T; ip tuntap add $T mode tap", "no owner record" },
		{ "ip link del $T", "does not exist, its rules do" },
	};
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct err err = { 0 };
	struct nic *nic, *checked;

	assert_int_equal(nic_check(lan->nics, lan_instance(1), 0, &checked, &err), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nic_removal removal;

		nic = prepare(lan, &request);
		assert_int_equal(nic_check(lan->nics, lan_instance(1), 0, &checked, NULL), 0);
		assert_int_equal(checked->ifindex, nic->ifindex);
		nic_free(checked);
		err = (struct err){ 0 };
		lan_run("T=%s; %s", nic->ifname, cases[i].harm);
		assert_int_equal(nic_check(lan->nics, lan_instance(1), 0, &checked, &err), -EBUSY);
		if (!strstr(err.text, cases[i].words))
			fail_msg("'%s' is not in: %s", cases[i].words, err.text);
		if (exists(nic->ifname)) {
			assert_int_equal(nic_remove_interface(lan->nics, nic->ifname, &removal, NULL), 0);
			nic_removal_done(&removal);
		}
		nic_free(nic);
	}
	nic = prepare(lan, &request);
	err = (struct err){ 0 };
	assert_int_equal(rules_change(nics_rules(lan->nics), nic->ifname, &nic->elements,
	                         &(struct elements){ 0 }, NULL),
	        0);
	assert_int_equal(nic_check(lan->nics, lan_instance(1), 0, &checked, &err), -EBUSY);
	assert_non_null(strstr(err.text, "misses an element of set 'nics'"));
	nic_free(nic);
}

/* --- records --- */

/* An older one, which may allow more, is not left behind by one that cannot be written. */
static void a_record_that_cannot_be_written(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	char dir[] = "/tmp/bc-netd-records-XXXXXX", path[128], half[128];
	struct nics_options options = { .rules = { .stored_fd = -EBADF }, .record_dir = dir };
	struct nic *nic, *changed;

	assert_non_null(mkdtemp(dir));
	nics_free(lan->nics);
	assert_int_equal(nics_open(&options, &lan->nics, NULL), 0);
	nic = prepare(lan, &request);
	assert_int_equal(nics_record_error(lan->nics), 0);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, nic->ifname);
	(void)snprintf(half, sizeof(half), "%s/.%s.tmp", dir, nic->ifname);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(mkdir(half, 0700), 0);
	request.filter.policy = NIC_POLICY_NONE;
	assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &request.filter, &changed, NULL), 0);
	nic_free(changed);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(nics_record_error(lan->nics), -EISDIR);
	assert_int_equal(rmdir(half), 0);
	assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &request.filter, &changed, NULL), 0);
	nic_free(changed);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(nics_record_error(lan->nics), 0);
	nic_free(nic);
	lan_run("rm -r %s", dir);
}

/* --- policies --- */

static void a_policy_changes_whole_or_not_at_all(void **state)
{
	struct lan *lan = *state;
	struct fault fault = { .number = -1 };
	struct nic_request request = request_a();
	struct nic_filter filter = request.filter;
	struct elements held = { 0 };
	struct nic *nic, *changed;

	open_with_fault(lan, &fault);
	assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &filter, &changed, NULL), -ENOENT);
	nic = prepare(lan, &request);
	/* Invalid: nothing is sent. */
	filter.policy = NIC_POLICY_PRIVATE;
	for (int i = 0; i < NIC_PREFIXES_MAX; i++)
		filter.prefixes[filter.n_prefixes++] =
		        (struct ip){ .family = AF_INET6, .bytes = { 0xfd, (uint8_t)i }, .n_bits = 57 };
	assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &filter, &changed, NULL), -E2BIG);
	/* Refused by the kernel: a transaction with one element it does not take. */
	fault = (struct fault){ .number = 0 };
	filter.n_prefixes = 1;
	assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &filter, &changed, NULL), -EIO);
	assert_int_equal(rules_get(nics_rules(lan->nics), nic->ifname, &held), 0);
	assert_true(elements_equal(&held, &nic->elements));
	elements_done(&held);
	fault = (struct fault){ .number = -1 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nic_set_filter(lan->nics, lan_instance(1), 0, &filter, &changed, NULL), 0);
		assert_int_equal(elements_policy(&changed->elements), NIC_POLICY_PRIVATE);
		assert_int_equal(rules_get(nics_rules(lan->nics), nic->ifname, &held), 0);
		assert_true(elements_equal(&held, &changed->elements));
		elements_done(&held);
		nic_free(changed);
	}
	nic_free(nic);
}

/* The kernel's own refusal in the middle of a transaction. */
static void a_refused_transaction_leaves_the_old_rules(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic = prepare(lan, &request);
	struct elements to = { 0 }, held = { 0 };
	struct element bad = { .set = SET_PUBLISHED4_ANY };
	struct publication p = port_of(80), q = port_of(80);
	struct err err = { 0 };

	assert_int_equal(elements_copy(&nic->elements, &to), 0);
	/* One key, two values. */
	q.guest_port = 81;
	bad = element_publication(&p);
	elements_add(&to, &bad);
	bad = element_publication(&q);
	elements_add(&to, &bad);
	to.items[0] = element_nic(SET_RESTRICTED, nic->ifname);
	assert_int_equal(elements_finish(&to), 0);
	assert_true(rules_change(nics_rules(lan->nics), nic->ifname, &nic->elements, &to, &err) < 0);
	assert_non_null(strstr(err.text, "published4_any"));
	assert_int_equal(rules_get(nics_rules(lan->nics), nic->ifname, &held), 0);
	assert_true(elements_equal(&held, &nic->elements));
	elements_done(&held);
	elements_done(&to);
	nic_free(nic);
}

/* --- the bridge --- */

static void the_bridge_keeps_its_address(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = lan_request(1, 0, "02:00:00:00:00:01");
	struct mac before;

	/* No port, no address of its own making. */
	lan_run("ip link add br1 type bridge; ip link set br1 up");
	before = lan_link("br1").mac;
	memcpy(request.owner.master, "br1", 4);
	for (int i = 0; i < 100; i++) {
		struct nic_removal removal;
		struct nic *nic;
		struct mac during;

		to_index(&request, (unsigned)i);
		nic = prepare(lan, &request);
		during = lan_link("br1").mac;
		assert_true(mac_equal(&before, &during));
		during = lan_link(nic->ifname).mac;
		assert_int_equal(during.bytes[0], 0xfe);
		nic_free(nic);
		if (i % 3 == 0) {
			assert_int_equal(
			        nic_remove(lan->nics, lan_instance(1), (unsigned)i, &removal, NULL), 0);
			nic_removal_done(&removal);
		}
	}
	{
		struct nic_removal removal;
		struct mac after;

		assert_int_equal(nic_remove_instance(lan->nics, lan_instance(1), &removal, NULL), 0);
		nic_removal_done(&removal);
		expect_nothing_left(lan);
		after = lan_link("br1").mac;
		assert_true(mac_equal(&before, &after));
	}
}

static void a_guest_whose_address_begins_with_fe(void **state)
{
	struct nic_request request = lan_request(1, 0, MAC_A);
	struct nic *nic;
	struct link link;
	char name[IFNAME_MAX];

	/* The very address that the host's side would have. */
	name_of(1, 0, name);
	nic = prepare(*state, &request);
	request.owner.mac = lan_link(name).mac;
	nic_free(nic);
	nic = prepare(*state, &request);
	link = lan_link(name);
	assert_int_equal(link.mac.bytes[0], 0xfe);
	assert_false(mac_equal(&link.mac, &request.owner.mac));
	nic_free(nic);
}

/* --- mending --- */

static void a_lost_bridge_is_found_again(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct nic *nic = prepare(lan, &request), *mended = NULL;
	struct err err = { 0 };
	struct link link;

	assert_int_equal(nic_mend(lan->nics, nic->ifname, &mended, &err), NIC_WHOLE);
	nic_free(mended);
	lan_run("ip link set %s nomaster", nic->ifname);
	assert_int_equal(nic_mend(lan->nics, nic->ifname, &mended, &err), NIC_MENDED);
	nic_free(mended);
	link = lan_link(nic->ifname);
	assert_int_equal(link.master, nic->master);
	lan_run("bridge -d link show dev %s | grep -q 'guard on' && bridge -d link show dev %s | grep -q 'learning off' "
	        "&& bridge fdb show br " LAN_BRIDGE " | grep -q '" MAC_A " dev %s .*static'",
	        nic->ifname, nic->ifname, nic->ifname);
	lan_run("ip link del " LAN_BRIDGE);
	err = (struct err){ 0 };
	assert_int_equal(nic_mend(lan->nics, nic->ifname, &mended, &err), NIC_NOT_MENDED);
	assert_non_null(strstr(err.text, "cannot be put back"));
	nic_free(mended);
	nic_free(nic);
}

static void a_deleted_tap_leaks_nothing(void **state)
{
	struct lan *lan = *state;
	struct nic_request request = request_a();
	struct publication port = port_of(8080);
	struct nic *nic, *lost = NULL;
	struct err err = { 0 };

	request.ports = &port;
	request.n_ports = 1;
	nic = prepare(lan, &request);
	lan_run("ip link del %s", nic->ifname);
	assert_int_equal(nic_mend(lan->nics, nic->ifname, &lost, &err), NIC_LOST);
	assert_non_null(strstr(err.text, "deleted by somebody else"));
	expect_nothing_left(lan);
	assert_int_equal(nic_mend(lan->nics, nic->ifname, &lost, &err), NIC_UNKNOWN);
	nic_free(lost);
	nic_free(nic);
}

TEST_SUITE(nic_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_was_asked_for_is_built),
		TEST(the_record_is_on_the_interface),
		TEST(a_leftover_is_replaced),
		TEST(one_in_use_is_kept),
		TEST(foreign_interfaces_are_left_alone),
		TEST(bad_requests_change_nothing),
		TEST(a_bridge_that_is_full_says_so),
		TEST(every_failing_step_is_rolled_back),
		TEST(a_failing_replacement_keeps_what_it_did_not_reach),
		TEST(killed_between_any_two_steps),
		TEST(removal_says_what_it_removed),
		TEST(an_operators_last_word),
		TEST(what_no_record_mentions),
		TEST(a_sweep_goes_on_past_what_it_may_not_touch),
		TEST(a_list_that_cannot_be_made_is_an_error),
		TEST(check_says_what_is_wrong),
		TEST(a_record_that_cannot_be_written),
		TEST(a_policy_changes_whole_or_not_at_all),
		TEST(a_refused_transaction_leaves_the_old_rules),
		TEST(the_bridge_keeps_its_address),
		TEST(a_guest_whose_address_begins_with_fe),
		TEST(a_lost_bridge_is_found_again),
		TEST(a_deleted_tap_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
