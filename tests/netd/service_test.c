/* bc-netd as its callers and its host see it: over its socket, under its user, killed, watched, and with
 * others at work on the same interfaces and rules. */
#include "tests/netd/daemon.h"
#include "tests/netd/flood.h"

#include "svc-netd/link.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"
#define OK GRPC_STATUS_OK
#define EVENT(name) BC__V1__NETD_EVENT__TYPE__##name

struct test {
	struct port outside;
	struct daemon d;
};

static int setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	*state = t;
	if (!t || !lan_enter_namespace())
		return -1;
	lan_make_bridge();
	t->outside = lan_plain("outside");
	daemon_init(&t->d, "");
	return 0;
}

static int teardown(void **state)
{
	struct test *t = *state;

	daemon_done(&t->d);
	(void)close(t->outside.fd);
	free(t);
	return 0;
}

/* Other keys than setup's. */
static void configure(struct test *t, const char *extra)
{
	daemon_done(&t->d);
	daemon_init(&t->d, extra);
}

static bool exists(const char *ifname)
{
	return lan_try("ip link show %s >/dev/null 2>&1", ifname);
}

static struct frame lie(void)
{
	struct frame f;

	frame_ether(&f, "52:54:00:00:00:99", MAC_A, 0x0800);
	frame_ip4(
	        &f, &(struct ip4_options){ .from = "10.0.0.66", .to = "10.0.0.99", .protocol = IPPROTO_UDP });
	frame_udp(&f, 5000, 53);
	frame_finish(&f);
	return f;
}

static struct frame truth(void)
{
	struct frame f;

	frame_ether(&f, "ff:ff:ff:ff:ff:ff", MAC_A, 0x0806);
	frame_arp(&f, 1, MAC_A, "10.0.0.10", "10.0.0.1");
	return f;
}

static Bc__V1__NicRef ref_of(struct daemon_nic *n)
{
	Bc__V1__NicRef ref = BC__V1__NIC_REF__INIT;

	ref.instance_id = n->instance_id;
	ref.index = n->nic.index;
	return ref;
}

/* --- the whole life of a NIC --- */

static void prepared_checked_listed_changed_removed(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	Bc__V1__SetPolicyRequest set = BC__V1__SET_POLICY_REQUEST__INIT;
	struct daemon_nic n;
	Bc__V1__NicRef ref;
	const struct daemon_event *event;
	Bc__V1__PreparedNic *nic;
	Bc__V1__NetdListReply *listed;
	Bc__V1__RemoveReply *removed;
	ProtobufCMessage *reply;
	uint64_t sequence;

	daemon_start(d);
	daemon_watch(d);
	daemon_nic(&n, 1, 3);
	n.nic.queues = 4;
	n.nic.owner_uid = 64055;
	n.mapping.host_port = 8080;
	n.mapping.guest_port = 80;
	n.request.n_port_mappings = 1;
	assert_int_equal(daemon_call(d, NETD(prepare_bridge), &n.request, &reply, NULL), OK);
	nic = (Bc__V1__PreparedNic *)reply;
	assert_true(exists(nic->interface));
	assert_int_equal(nic->queues, 4);
	assert_false(nic->vhost);
	assert_true(nic->filtered);
	assert_string_equal(nic->mac, n.mac);
	assert_string_equal(nic->master, LAN_BRIDGE);
	assert_int_equal(nic->mtu_bytes, 1500);
	assert_int_equal(nic->n_published, 1);
	assert_int_equal(nic->published[0]->host_port, 8080);
	event = daemon_event(d, EVENT(PREPARED));
	assert_string_equal(event->interface, nic->interface);
	assert_string_equal(event->instance_id, n.instance_id);
	assert_int_equal(event->index, 3);
	sequence = event->sequence;
	ref = ref_of(&n);
	daemon_expect(d, NETD(check), &ref, OK, "");

	set.nic = &ref;
	set.filter = &n.filter;
	n.filter.policy = BC__V1__NIC__POLICY__NONE;
	daemon_expect(d, NETD(set_policy), &set, OK, "");
	event = daemon_event(d, EVENT(POLICY_CHANGED));
	assert_true(event->sequence > sequence);
	assert_int_equal(daemon_call(d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
	assert_int_equal(listed->n_interfaces, 1);
	assert_int_equal(listed->n_orphan_rules, 0);
	assert_string_equal(listed->interfaces[0]->name, nic->interface);
	assert_string_equal(listed->interfaces[0]->instance_id, n.instance_id);
	assert_string_equal(listed->interfaces[0]->node_id, "node-1");
	assert_string_equal(listed->interfaces[0]->master, LAN_BRIDGE);
	assert_string_equal(listed->interfaces[0]->disbelief, "");
	assert_int_equal(listed->interfaces[0]->index, 3);
	assert_int_equal(listed->interfaces[0]->queues, 4);
	assert_int_equal(listed->interfaces[0]->policy, BC__V1__NIC__POLICY__NONE);
	assert_int_equal(listed->interfaces[0]->n_ports, 1);
	assert_true(listed->interfaces[0]->up && listed->interfaces[0]->filtered &&
	        !listed->interfaces[0]->in_use);
	protobuf_c_message_free_unpacked(&listed->base, NULL);

	for (int i = 0; i < 2; i++) {
		assert_int_equal(daemon_call(d, NETD(remove), &ref, (ProtobufCMessage **)&removed, NULL), OK);
		assert_int_equal(removed->n_interfaces, i == 0);
		assert_int_equal(removed->ports, i == 0);
		protobuf_c_message_free_unpacked(&removed->base, NULL);
	}
	event = daemon_event(d, EVENT(REMOVED));
	assert_string_equal(event->interface, nic->interface);
	assert_false(exists(nic->interface));
	daemon_expect(d, NETD(check), &ref, GRPC_STATUS_NOT_FOUND, "is not prepared");
	protobuf_c_message_free_unpacked(&nic->base, NULL);
}

static void capabilities_are_told(void **state)
{
	struct test *t = *state;
	Bc__V1__NetdHelloRequest request = BC__V1__NETD_HELLO_REQUEST__INIT;
	Bc__V1__NetdHelloReply *hello;
	bool filter = false, publish = false, persist = false, forward = false, listeners = false;

	configure(t, "max_queues = 8\ndefault_vhost = yes");
	daemon_start(&t->d);
	assert_int_equal(daemon_call(&t->d, NETD(hello), &request, (ProtobufCMessage **)&hello, NULL), OK);
	for (size_t i = 0; i < hello->n_features; i++) {
		filter = filter || strcmp(hello->features[i], "filter") == 0;
		publish = publish || strcmp(hello->features[i], "publish") == 0;
		listeners = listeners || strcmp(hello->features[i], "publish.listeners") == 0;
		persist = persist || strcmp(hello->features[i], "filter.persist") == 0;
	}
	for (size_t i = 0; i < hello->n_missing; i++)
		forward = forward || strstr(hello->missing[i], "ip_forward");
	assert_true(filter && publish && persist && forward && listeners);
	assert_int_equal(hello->max_queues, 8);
	assert_true(hello->default_vhost);
	assert_int_equal(hello->n_allowed_bridges, 1);
	assert_int_equal(hello->bridge_ports_max, BRIDGE_PORTS_MAX);
	protobuf_c_message_free_unpacked(&hello->base, NULL);
}

/* Each with whose it was, whichever call removed it, and although another was left alone. */
static void every_removal_is_told(void **state)
{
	static const unsigned indexes[] = { 2, 5, 11 };
	struct test *t = *state;
	struct daemon *d = &t->d;
	Bc__V1__RemoveInstanceRequest all = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	Bc__V1__RemoveInterfaceRequest by_name = BC__V1__REMOVE_INTERFACE_REQUEST__INIT;
	char name[IFNAME_MAX], foreign[IFNAME_MAX];
	struct daemon_nic n;

	daemon_start(d);
	for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
		daemon_nic(&n, 1, indexes[i]);
		daemon_prepare(d, &n, name);
	}
	assert_int_equal(tap_name(n.instance_id, 3, foreign), 0);
	lan_run("ip tuntap add %s mode tap", foreign);
	daemon_watch(d);
	by_name.interface = name;
	daemon_expect(d, NETD(remove_interface), &by_name, OK, "");
	all.instance_id = n.instance_id;
	daemon_expect(d, NETD(remove_instance), &all, GRPC_STATUS_FAILED_PRECONDITION,
	        "2 interfaces were removed, but not all: interface");
	for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
		const struct daemon_event *event = daemon_event(d, EVENT(REMOVED));

		assert_string_equal(event->instance_id, n.instance_id);
		assert_int_equal(event->index, indexes[i == 0 ? 2 : i - 1]);
	}
	assert_true(exists(foreign));
}

/* --- what is refused --- */

static void bad_requests(void **state)
{
	static const struct {
		const char *what, *words;
		grpc_status_code code;
	} cases[] = {
		{ "index", "NIC index 100", GRPC_STATUS_INVALID_ARGUMENT },
		{ "bridge", "'br9' is not among netd's allowed_bridges", GRPC_STATUS_PERMISSION_DENIED },
		{ "no bridge", "'gone' does not exist", GRPC_STATUS_NOT_FOUND },
		{ "not a bridge", "'outside' is no bridge", GRPC_STATUS_INVALID_ARGUMENT },
		{ "multicast mac", "nic.mac", GRPC_STATUS_INVALID_ARGUMENT },
		{ "mac", "nic.mac", GRPC_STATUS_INVALID_ARGUMENT },
		{ "node", "nic.node_id", GRPC_STATUS_INVALID_ARGUMENT },
		{ "queues", "65 queue pairs", GRPC_STATUS_INVALID_ARGUMENT },
		{ "user", "4294967295 is no user", GRPC_STATUS_INVALID_ARGUMENT },
		{ "instance", "a/b", GRPC_STATUS_INVALID_ARGUMENT },
		{ "address", "filter.addresses[0]", GRPC_STATUS_INVALID_ARGUMENT },
		{ "address without length", "filter.addresses[0]", GRPC_STATUS_INVALID_ARGUMENT },
		{ "prefixes", "1000 entries", GRPC_STATUS_INVALID_ARGUMENT },
		{ "host bits", "filter.private_prefixes[0]", GRPC_STATUS_INVALID_ARGUMENT },
		{ "port", "port_mappings[0]", GRPC_STATUS_INVALID_ARGUMENT },
		{ "port family", "no address of that family", GRPC_STATUS_INVALID_ARGUMENT },
		{ "loopback", "port_mappings[0].host_address: '127.0.0.1' leads to no NIC",
		        GRPC_STATUS_INVALID_ARGUMENT },
		{ "unspecified", "port_mappings[0].host_address: '::'", GRPC_STATUS_INVALID_ARGUMENT },
		{ "vhost", "/dev/vhost-net", GRPC_STATUS_UNIMPLEMENTED },
		{ "policy", "filter.policy: 9", GRPC_STATUS_INVALID_ARGUMENT },
		{ "no nic", "nic: missing", GRPC_STATUS_INVALID_ARGUMENT },
		{ "no filter", "filter: missing", GRPC_STATUS_INVALID_ARGUMENT },
	};
	struct test *t = *state;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	Bc__V1__RemoveInterfaceRequest by_name = BC__V1__REMOVE_INTERFACE_REQUEST__INIT;
	Bc__V1__NetdListReply *listed;
	char *prefixes[1000];

	configure(t, "allowed_bridges = outside gone");
	daemon_start(&t->d);
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		prefixes[i] = (char *)"10.0.0.0/8";
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *what = cases[i].what;
		struct daemon_nic n;

		daemon_nic(&n, 1, 0);
		if (strcmp(what, "index") == 0)
			n.nic.index = 100;
		else if (strcmp(what, "bridge") == 0)
			n.request.bridge = (char *)"br9";
		else if (strcmp(what, "no bridge") == 0)
			n.request.bridge = (char *)"gone";
		else if (strcmp(what, "not a bridge") == 0)
			n.request.bridge = (char *)"outside";
		else if (strcmp(what, "multicast mac") == 0)
			n.nic.mac = (char *)"01:00:5e:00:00:01";
		else if (strcmp(what, "mac") == 0)
			n.nic.mac = (char *)"52:54:00";
		else if (strcmp(what, "node") == 0)
			n.nic.node_id =
			        (char *)"a node of whose name an owner record would be longer than 255 bytes, or so";
		else if (strcmp(what, "queues") == 0)
			n.nic.queues = 65;
		else if (strcmp(what, "user") == 0)
			n.nic.owner_uid = UINT32_MAX;
		else if (strcmp(what, "instance") == 0)
			n.nic.instance_id = (char *)"a/b";
		else if (strcmp(what, "address") == 0)
			n.addresses[0] = (char *)"10.0.0.300/24";
		else if (strcmp(what, "address without length") == 0)
			n.addresses[0] = (char *)"10.0.0.10";
		else if (strcmp(what, "prefixes") == 0)
			n.filter.private_prefixes = prefixes,
			n.filter.n_private_prefixes = ARRAY_SIZE(prefixes);
		else if (strcmp(what, "host bits") == 0)
			n.filter.private_prefixes = (char *[]){ (char *)"10.0.0.1/8" },
			n.filter.n_private_prefixes = 1;
		else if (strcmp(what, "port") == 0)
			n.request.n_port_mappings = 1, n.mapping.host_port = 70000, n.mapping.guest_port = 1;
		else if (strcmp(what, "port family") == 0)
			n.request.n_port_mappings = 1, n.mapping.host_port = n.mapping.guest_port = 1,
			n.mapping.host_address = (char *)"2001:db8::1";
		else if (strcmp(what, "loopback") == 0)
			n.request.n_port_mappings = 1, n.mapping.host_port = n.mapping.guest_port = 1,
			n.mapping.host_address = (char *)"127.0.0.1";
		else if (strcmp(what, "unspecified") == 0)
			n.request.n_port_mappings = 1, n.mapping.host_port = n.mapping.guest_port = 1,
			n.mapping.host_address = (char *)"::";
		else if (strcmp(what, "vhost") == 0)
			n.nic.vhost = BC__V1__NIC__VHOST__ON;
		else if (strcmp(what, "policy") == 0)
			n.filter.policy = 9;
		else if (strcmp(what, "no nic") == 0)
			n.request.nic = NULL;
		else if (strcmp(what, "no filter") == 0)
			n.request.filter = NULL;
		if (strcmp(what, "vhost") == 0 && access("/dev/vhost-net", F_OK) == 0)
			continue;
		daemon_expect(&t->d, NETD(prepare_bridge), &n.request, cases[i].code, cases[i].words);
	}
	by_name.interface = (char *)LAN_BRIDGE;
	daemon_expect(&t->d, NETD(remove_interface), &by_name, GRPC_STATUS_INVALID_ARGUMENT,
	        "is no name that netd gives");
	by_name.interface = (char *)"../x";
	daemon_expect(&t->d, NETD(remove_interface), &by_name, GRPC_STATUS_INVALID_ARGUMENT, "../x");
	assert_int_equal(daemon_call(&t->d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
	assert_int_equal(listed->n_interfaces + listed->n_orphan_rules, 0);
	protobuf_c_message_free_unpacked(&listed->base, NULL);
	assert_true(exists(LAN_BRIDGE) && exists("outside"));
}

/* Whoever has it is named, and keeps it. */
static void what_is_taken(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(8081) };
	struct daemon_nic a, b;
	char name[IFNAME_MAX], other[IFNAME_MAX];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	daemon_start(d);
	daemon_nic(&a, 1, 0);
	a.mapping.host_port = 8080;
	a.mapping.guest_port = 80;
	a.request.n_port_mappings = 1;
	daemon_prepare(d, &a, name);
	daemon_nic(&b, 2, 0);
	b.nic.mac = a.mac;
	daemon_expect(d, NETD(prepare_bridge), &b.request, GRPC_STATUS_ALREADY_EXISTS,
	        "MAC " MAC_A " is held on '" LAN_BRIDGE
	        "' by NIC 0 of instance 00000000-0000-4000-8000-000000000001");
	b.nic.mac = b.mac;
	b.mapping = a.mapping;
	b.request.n_port_mappings = 1;
	daemon_expect(d, NETD(prepare_bridge), &b.request, GRPC_STATUS_ALREADY_EXISTS,
	        "port tcp *:8080 is held by NIC 0 of instance 00000000-0000-4000-8000-000000000001");
	/* The other protocol's is another port. */
	b.mapping.protocol = BC__V1__PORT_MAPPING__PROTOCOL__UDP;
	daemon_prepare(d, &b, other);
	b.mapping.protocol = BC__V1__PORT_MAPPING__PROTOCOL__TCP;
	b.mapping.host_port = 8081;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	daemon_expect(d, NETD(prepare_bridge), &b.request, GRPC_STATUS_ALREADY_EXISTS,
	        "port tcp *:8081 is held by a process of this host");
	(void)close(fd);
	daemon_prepare(d, &b, other);
	/* A name that somebody else's interface has. */
	assert_int_equal(tap_name(lan_instance(3), 0, name), 0);
	lan_run("ip tuntap add %s mode tap", name);
	daemon_nic(&b, 3, 0);
	daemon_expect(
	        d, NETD(prepare_bridge), &b.request, GRPC_STATUS_ALREADY_EXISTS, "it has no owner record");
	assert_true(exists(name));
}

static void a_bridge_that_is_full(void **state)
{
	struct test *t = *state;
	struct daemon_nic n;

	daemon_start(&t->d);
	/* The world's port is one. */
	lan_run("for i in $(seq 1 %d); do echo \"tuntap add p$i mode tap\"; echo \"link set p$i master " LAN_BRIDGE
	        "\"; done | ip -batch -",
	        BRIDGE_PORTS_MAX - 1);
	daemon_nic(&n, 1, 0);
	daemon_expect(&t->d, NETD(prepare_bridge), &n.request, GRPC_STATUS_RESOURCE_EXHAUSTED, "1023 ports");
}

/* The socket's mode lets them all come; netd does not. */
static void who_may_come_in(void **state)
{
	static const struct {
		const char *user;
		bool answered;
	} cases[] = { { "0", true }, { "64998", true }, { "64997", false }, { "65534", false } };
	struct test *t = *state;

	configure(t, "[service]\nallowed_uids = 64998\nsocket_mode = 666");
	daemon_start(&t->d);
	lan_run("chmod 711 %s; cp %s %s/bcctl; chmod 755 %s/bcctl", t->d.dir, BCCTL_PROGRAM, t->d.dir,
	        t->d.dir);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
		        lan_try("setpriv --reuid %s --regid %s --clear-groups env -C / HOME=/ %s/bcctl --run-dir "
		                "%s netd list >/dev/null 2>&1",
		                cases[i].user, cases[i].user, t->d.dir, t->d.dir),
		        cases[i].answered);
}

/* A NIC without a bridge, over the socket. */
static void a_macvtap(void **state)
{
	struct test *t = *state;
	Bc__V1__PrepareMacvtapRequest request = BC__V1__PREPARE_MACVTAP_REQUEST__INIT;
	Bc__V1__PreparedNic *nic;
	struct daemon_nic n;
	Bc__V1__NicRef ref;

	lan_run("ip link add parent type veth peer name wire; ip link set parent up; ip link set wire up");
	configure(t, "allowed_bridges = parent");
	daemon_start(&t->d);
	daemon_nic(&n, 1, 2);
	n.nic.queues = 2;
	n.nic.owner_uid = 64055;
	request.nic = &n.nic;
	request.parent = (char *)"elsewhere";
	daemon_expect(
	        &t->d, NETD(prepare_macvtap), &request, GRPC_STATUS_PERMISSION_DENIED, "allowed_bridges");
	request.parent = (char *)"parent";
	assert_int_equal(
	        daemon_call(&t->d, NETD(prepare_macvtap), &request, (ProtobufCMessage **)&nic, NULL), OK);
	assert_false(nic->filtered);
	assert_int_equal(nic->queues, 2);
	assert_string_equal(nic->master, "parent");
	assert_string_equal(nic->mac, n.mac);
	lan_run("test \"$(stat -c %%u /dev/tap$(cat /sys/class/net/%s/ifindex))\" = 64055", nic->interface);
	ref = ref_of(&n);
	daemon_expect(&t->d, NETD(check), &ref, OK, "");
	daemon_expect(&t->d, NETD(remove), &ref, OK, "");
	assert_false(exists(nic->interface));
	protobuf_c_message_free_unpacked(&nic->base, NULL);
}

/* --- others at work --- */

static void a_deleted_tap_is_told_and_released(void **state)
{
	struct test *t = *state;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	Bc__V1__NetdListReply *listed;
	const struct daemon_event *event;
	struct daemon_nic n;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	lan_run("ip link del %s", name);
	event = daemon_event(&t->d, EVENT(LOST));
	assert_string_equal(event->interface, name);
	assert_string_equal(event->instance_id, n.instance_id);
	assert_non_null(strstr(event->message, "deleted by somebody else"));
	assert_int_equal(daemon_call(&t->d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
	assert_int_equal(listed->n_interfaces + listed->n_orphan_rules, 0);
	protobuf_c_message_free_unpacked(&listed->base, NULL);
	/* Its own doings are no losses. */
	daemon_prepare(&t->d, &n, name);
	daemon_prepare(&t->d, &n, name);
	t->d.n_waited_for = 0;
	(void)daemon_event(&t->d, EVENT(PREPARED));
	(void)daemon_event(&t->d, EVENT(PREPARED));
	(void)daemon_event(&t->d, EVENT(PREPARED));
	for (size_t i = 0, n_lost = 0; i < t->d.n_events; i++) {
		n_lost += t->d.events[i].type == EVENT(LOST) || t->d.events[i].type == EVENT(MASTER_LOST);
		assert_true(n_lost <= 1);
	}
}

static void a_lost_bridge_is_rejoined(void **state)
{
	struct test *t = *state;
	struct frame f = lie(), sentinel = truth();
	const struct daemon_event *event;
	struct daemon_nic n;
	struct port tap;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	lan_run("ip link set %s nomaster", name);
	event = daemon_event(&t->d, EVENT(MASTER_LOST));
	assert_string_equal(event->interface, name);
	assert_non_null(strstr(event->message, "it is back"));
	tap = lan_attach(name, false);
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	/* The bridge itself goes, and comes back as another. */
	lan_run("ip link del " LAN_BRIDGE);
	event = daemon_event(&t->d, EVENT(MASTER_LOST));
	assert_non_null(strstr(event->message, "cannot be put back"));
	lan_make_bridge();
	lan_run("ip link set outside master " LAN_BRIDGE);
	do
		event = daemon_event(&t->d, EVENT(MASTER_LOST));
	while (!strstr(event->message, "it is back"));
	(void)close(tap.fd);
	tap = lan_attach(name, false);
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	(void)close(tap.fd);
}

/* What happened while no netd ran is seen by the next one, before it answers anybody about that instance. */
static void a_bridge_lost_while_netd_is_away_is_rejoined(void **state)
{
	struct test *t = *state;
	Bc__V1__NicRef ref = BC__V1__NIC_REF__INIT;
	struct daemon_nic n;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	daemon_kill(&t->d, SIGKILL);
	lan_run("ip link set %s nomaster", name);
	daemon_start(&t->d);
	ref.instance_id = n.instance_id;
	daemon_expect(&t->d, NETD(check), &ref, GRPC_STATUS_OK, "");
	lan_run("ip link show master " LAN_BRIDGE " | grep -q %s", name);
}

/* Whoever leaves a bridge loses what guards it, however soon he is back. */
static void a_bridge_that_is_left_for_a_moment(void **state)
{
	struct test *t = *state;
	const struct daemon_event *event;
	struct daemon_nic n;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	lan_run("printf 'link set %s nomaster\nlink set %s master " LAN_BRIDGE "\n' | ip -b -", name, name);
	event = daemon_event(&t->d, EVENT(MASTER_LOST));
	assert_non_null(strstr(event->message, "it is back"));
	lan_run("bridge -d link show dev %s | grep -q 'guard on.*learning off'", name);
	lan_run("bridge fdb show dev %s | grep -q '^" MAC_A " .*static'", name);
}

static void a_bridge_of_another_name(void **state)
{
	struct test *t = *state;
	const struct daemon_event *event;
	struct daemon_nic n;
	Bc__V1__NicRef ref;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	ref = ref_of(&n);
	daemon_prepare(&t->d, &n, name);
	lan_run("ip link set " LAN_BRIDGE " down; ip link set " LAN_BRIDGE " name other");
	event = daemon_event(&t->d, EVENT(MASTER_LOST));
	assert_non_null(strstr(event->message, "there is none of that name"));
	daemon_expect(&t->d, NETD(check), &ref, GRPC_STATUS_FAILED_PRECONDITION, "not on its bridge");
	/* A netd that never knew the bridge by its name finds it again as well. */
	daemon_kill(&t->d, SIGKILL);
	rpc_cancel(t->d.watch);
	daemon_start(&t->d);
	daemon_watch(&t->d);
	lan_run("ip link set other name " LAN_BRIDGE "; ip link set " LAN_BRIDGE " up");
	event = daemon_event(&t->d, EVENT(MASTER_LOST));
	assert_non_null(strstr(event->message, "again"));
	daemon_expect(&t->d, NETD(check), &ref, OK, "");
}

static void flushed_rules_come_back(void **state)
{
	struct test *t = *state;
	struct frame f = lie(), sentinel = truth();
	const struct daemon_event *event;
	struct daemon_nic n;
	struct port tap;
	char name[IFNAME_MAX];

	configure(t, "keep_rules = nothing");
	daemon_start(&t->d);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	tap = lan_attach(name, false);
	for (int i = 0; i < 5; i++) {
		uint64_t sequence;

		lan_run("nft add table inet theirs; nft flush ruleset");
		event = daemon_event(&t->d, EVENT(RULES_LOST));
		sequence = event->sequence;
		event = daemon_event(&t->d, EVENT(RULES_RESTORED));
		assert_true(event->sequence > sequence);
		assert_true(event->gap_ns > 0);
		assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	}
	/* A part of it, and by another way. */
	lan_run("nft delete element bridge bc macs '{ \"%s\" . " MAC_A " }'", name);
	(void)daemon_event(&t->d, EVENT(RULES_RESTORED));
	lan_run("nft flush chain bridge bc from_nic");
	(void)daemon_event(&t->d, EVENT(RULES_RESTORED));
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	/* What is others' is no concern of ours. */
	lan_run("nft add table bridge other; nft add chain bridge other c; nft delete table bridge other");
	daemon_nic(&n, 2, 0);
	n.nic.mac = (char *)"52:54:00:00:00:0b";
	daemon_prepare(&t->d, &n, name);
	(void)daemon_event(&t->d, EVENT(PREPARED));
	assert_int_equal(t->d.events[t->d.n_events - 1].type, EVENT(PREPARED));
	(void)close(tap.fd);
}

/* What firewalls do when they are started again, each in one transaction: nftables.service flushes everything and loads
 * its own, firewalld replaces its own tables, and one of old flushes those of others by name. */
static void firewalls_that_start_again(void **state)
{
	static const char *const keeps[] = { "keep_rules = auto", "keep_rules = nothing" };
	static const char *const restarts[] = {
		"flush ruleset; table inet filter { chain input { type filter hook input priority 0; policy accept; }; }; "
		"table bridge filter { chain forward { type filter hook forward priority 0; policy accept; }; }",
		"table inet firewalld { }; delete table inet firewalld; table inet firewalld { chain p { type filter hook "
		"prerouting priority -140; policy accept; }; chain o { type nat hook output priority -90; policy accept; }; }",
		"flush table bridge bc; flush table inet bc",
		"delete table bridge bc; delete table inet bc",
	};
	struct test *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++) {
		struct frame f = lie(), sentinel = truth();
		struct daemon_nic n;
		struct port tap;
		char name[IFNAME_MAX];

		configure(t, keeps[i]);
		daemon_start(&t->d);
		daemon_watch(&t->d);
		daemon_nic(&n, 1, 0);
		daemon_prepare(&t->d, &n, name);
		tap = lan_attach(name, false);
		for (size_t j = 0; j < ARRAY_SIZE(restarts); j++) {
			bool done = lan_try("nft '%s' 2>/dev/null", restarts[j]);
			Bc__V1__NicRef ref = ref_of(&n);

			/* With an owner the kernel refuses who names our tables; without, they come back. */
			assert_int_equal(done, i == 1 || j < 2);
			if (i == 1 && j != 1)
				(void)daemon_event(&t->d, EVENT(RULES_RESTORED));
			assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
			daemon_expect(&t->d, NETD(check), &ref, OK, "");
		}
		/* Theirs are as they left them. */
		lan_run("nft list table inet firewalld | grep -q 'priority -90'; nft list table inet filter >/dev/null");
		(void)close(tap.fd);
		daemon_kill(&t->d, SIGTERM);
		lan_run("ip link del %s; nft flush ruleset", name);
	}
}

/* A whole life of netd and its NICs beside others' tables, sets and chains of the same names. */
static void what_is_others_stays_theirs(void **state)
{
	struct test *t = *state;
	struct daemon_nic n;
	Bc__V1__NicRef ref;
	char name[IFNAME_MAX];

	lan_run("nft 'table bridge other { set nics { type ifname; elements = { \"bc0123456789n0\" }; }; chain prerouting { "
	        "type filter hook prerouting priority -251; policy accept; counter; }; }; table inet other { map published4 { "
	        "type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }; }; table ip bc { chain prerouting "
	        "{ type nat hook prerouting priority -100; }; }'; for x in 'bridge other' 'inet other' 'ip bc'; do nft -s "
	        "list table $x; done >%s/theirs",
	        t->d.dir);
	for (int life = 0; life < 2; life++) {
		daemon_start(&t->d);
		daemon_nic(&n, 1, 0);
		n.mapping.host_port = n.mapping.guest_port = 80;
		n.request.n_port_mappings = 1;
		daemon_prepare(&t->d, &n, name);
		daemon_kill(&t->d, SIGKILL);
		daemon_start(&t->d);
		ref = ref_of(&n);
		daemon_expect(&t->d, NETD(remove), &ref, OK, "");
		daemon_kill(&t->d, SIGTERM);
	}
	lan_run("for x in 'bridge other' 'inet other' 'ip bc'; do nft -s list table $x; done | cmp - %s/theirs",
	        t->d.dir);
}

/* A policy of which one element is wrong changes nothing. */
static void a_wrong_policy_changes_nothing(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	Bc__V1__SetPolicyRequest set = BC__V1__SET_POLICY_REQUEST__INIT;
	char *prefixes[] = { (char *)"10.1.0.0/16", (char *)"10.2.0.1/16" };
	struct frame f = lie(), sentinel = truth();
	struct daemon_nic n;
	struct port tap;
	Bc__V1__NicRef ref;
	char name[IFNAME_MAX];

	daemon_start(d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(d, &n, name);
	tap = lan_attach(name, false);
	lan_run("nft list table bridge bc >%s/before", d->dir);
	ref = ref_of(&n);
	set.nic = &ref;
	set.filter = &n.filter;
	n.filter.policy = BC__V1__NIC__POLICY__PRIVATE;
	n.filter.private_prefixes = prefixes;
	n.filter.n_private_prefixes = 2;
	daemon_expect(d, NETD(set_policy), &set, GRPC_STATUS_INVALID_ARGUMENT, "filter.private_prefixes[1]");
	set.filter = NULL;
	daemon_expect(d, NETD(set_policy), &set, GRPC_STATUS_INVALID_ARGUMENT, "filter: missing");
	lan_run("nft list table bridge bc | cmp - %s/before", d->dir);
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	(void)close(tap.fd);
}

static void many_flushes_in_a_row(void **state)
{
	struct test *t = *state;
	struct frame f = lie(), sentinel = truth();
	struct daemon_nic n;
	struct flood *flood;
	struct port tap;
	char name[IFNAME_MAX];

	daemon_start(&t->d);
	daemon_nic(&n, 1, 0);
	daemon_prepare(&t->d, &n, name);
	tap = lan_attach(name, false);
	flood = flood_start(tap, t->outside, &f);
	for (int i = 0; i < 30; i++) {
		lan_run("nft flush ruleset");
		if (i % 10 == 5) {
			daemon_kill(&t->d, SIGKILL);
			flood_wait(flood, 100);
			daemon_start(&t->d);
		}
		if (i % 10 == 9) {
			daemon_kill(&t->d, SIGTERM);
			flood_wait(flood, 100);
			daemon_start(&t->d);
		}
		flood_wait(flood, 50);
	}
	assert_int_equal(flood_stop(flood, NULL), 0);
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	(void)close(tap.fd);
}

/* --- one that is stuck --- */

static void on_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	int *n = userdata;

	(void)reply;
	assert_int_equal(status->code, OK);
	++*n;
}

struct storm {
	struct loop *loop;
	int n_answered;
	bool waits;
};

/* With whatever code: the service may have been killed meanwhile. */
static void on_any_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct storm *storm = userdata;

	(void)status;
	(void)reply;
	storm->n_answered++;
	if (storm->waits)
		loop_exit(storm->loop, 0);
}

/* Operations of strangers while one hangs. */
enum { STRANGERS = 40 };

/* A netd that hangs in a step of one interface, until its FIFO was opened for writing and closed. */
struct held {
	char fifo[128], hold[64], until[160];
	const char *env[3];
};

static void held_start(struct daemon *d, struct held *held, const char *step, const char *ifname)
{
	(void)snprintf(held->fifo, sizeof(held->fifo), "%s/fifo", d->dir);
	(void)snprintf(held->hold, sizeof(held->hold), "NETD_HOLD=%s/%s", step, ifname);
	(void)snprintf(held->until, sizeof(held->until), "NETD_HOLD_UNTIL=%s", held->fifo);
	held->env[0] = held->hold;
	held->env[1] = held->until;
	held->env[2] = NULL;
	assert_int_equal(mkfifo(held->fifo, 0600), 0);
	d->program = HELD_NETD_PROGRAM;
	d->env = held->env;
	daemon_start(d);
}

static void answers_await(struct daemon *d, const int *n_answered, int n)
{
	Bc__V1__NetdHelloRequest hello = BC__V1__NETD_HELLO_REQUEST__INIT;
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	while (*n_answered < n) {
		assert_true(clock_monotonic_usec() < until_usec);
		daemon_expect(d, NETD(hello), &hello, OK, "");
	}
}

/* Until netd is in the middle of the step, where it has the other side of the FIFO open; closing this one lets it go. */
static int held_await(const struct held *held)
{
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);
	int fd;

	while ((fd = open(held->fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
		assert_int_equal(errno, ENXIO);
		assert_true(clock_monotonic_usec() < until_usec);
	}
	return fd;
}

static void nobody_waits_behind_a_stranger(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	Bc__V1__NetdHelloRequest hello = BC__V1__NETD_HELLO_REQUEST__INIT;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	Bc__V1__RemoveInstanceRequest remove = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	char name[IFNAME_MAX], other[IFNAME_MAX];
	struct held held;
	struct daemon_nic n;
	int n_answered = 0, fd;

	assert_int_equal(tap_name(lan_instance(1), 0, name), 0);
	held_start(d, &held, "master", name);
	daemon_nic(&n, 1, 0);
	rpc_unary(d->channel, NETD(prepare_bridge), &n.request.base, UINT64_MAX, on_reply, &n_answered);
	daemon_expect(d, NETD(hello), &hello, OK, "");
	fd = held_await(&held);
	/* The same instance's next operation waits its turn; nobody else does. */
	remove.instance_id = n.instance_id;
	rpc_unary(d->channel, NETD(remove_instance), &remove.base, UINT64_MAX, on_reply, &n_answered);
	for (unsigned i = 0; i < STRANGERS; i++) {
		struct daemon_nic m;

		daemon_nic(&m, i + 2, 0);
		daemon_prepare(d, &m, other);
		daemon_expect(d, NETD(hello), &hello, OK, "");
		daemon_expect(d, NETD(list), &list, OK, "");
		remove.instance_id = m.instance_id;
		daemon_expect(d, NETD(remove_instance), &remove, OK, "");
	}
	assert_int_equal(n_answered, 0);
	(void)close(fd);
	answers_await(d, &n_answered, 2);
	assert_false(exists(name));
}

/* One that is named goes when whoever makes it is ready. */
static void a_name_waits_for_its_instance(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	Bc__V1__NetdHelloRequest hello = BC__V1__NETD_HELLO_REQUEST__INIT;
	Bc__V1__RemoveInterfaceRequest remove = BC__V1__REMOVE_INTERFACE_REQUEST__INIT;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	Bc__V1__NetdListReply *listed;
	char name[IFNAME_MAX];
	struct held held;
	struct daemon_nic n;
	int n_answered = 0, fd;

	assert_int_equal(tap_name(lan_instance(1), 0, name), 0);
	held_start(d, &held, "persist", name);
	daemon_nic(&n, 1, 0);
	rpc_unary(d->channel, NETD(prepare_bridge), &n.request.base, UINT64_MAX, on_reply, &n_answered);
	daemon_expect(d, NETD(hello), &hello, OK, "");
	fd = held_await(&held);
	remove.interface = name;
	rpc_unary(d->channel, NETD(remove_interface), &remove.base, UINT64_MAX, on_reply, &n_answered);
	for (int i = 0; i < 50; i++)
		daemon_expect(d, NETD(list), &list, OK, "");
	assert_int_equal(n_answered, 0);
	(void)close(fd);
	answers_await(d, &n_answered, 2);
	assert_int_equal(daemon_call(d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
	assert_int_equal(listed->n_interfaces + listed->n_orphan_rules, 0);
	protobuf_c_message_free_unpacked(&listed->base, NULL);
	assert_false(exists(name));
}

/* --- kept in store --- */

static int stored_fd(struct daemon *d)
{
	char text[4096], control[CMSG_SPACE(sizeof(int))];

	for (;;) {
		struct iovec iov = { text, sizeof(text) - 1 };
		struct msghdr m = { .msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control) };
		struct pollfd wait = { .fd = d->notify_fd, .events = POLLIN };
		assert_int_equal(poll(&wait, 1, test_timeout_msec(TEST_SERVICE_SEC)), 1);
		ssize_t n = recvmsg(d->notify_fd, &m, MSG_CMSG_CLOEXEC);
		struct cmsghdr *c;

		assert_true(n > 0);
		text[n] = 0;
		c = CMSG_FIRSTHDR(&m);
		if (!c)
			continue;
		assert_non_null(strstr(text, "FDSTORE=1"));
		assert_non_null(strstr(text, "FDNAME=rules"));
		return *(int *)(void *)CMSG_DATA(c);
	}
}

static void the_socket_is_kept_by_systemd(void **state)
{
	static const char *const keeps[] = { "keep_rules = owner", "keep_rules = auto" };
	struct test *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++) {
		struct frame f = lie(), sentinel = truth();
		struct daemon_nic n;
		struct flood *flood;
		struct port tap;
		char name[IFNAME_MAX];

		configure(t, keeps[i]);
		t->d.notify = true;
		daemon_start(&t->d);
		t->d.store_fd = stored_fd(&t->d);
		daemon_nic(&n, 1, 0);
		daemon_prepare(&t->d, &n, name);
		tap = lan_attach(name, false);
		flood = flood_start(tap, t->outside, &f);
		for (int j = 0; j < 3; j++) {
			daemon_kill(&t->d, SIGKILL);
			lan_run("nft flush ruleset");
			flood_wait(flood, 100);
			daemon_start(&t->d);
			lan_run("nft flush ruleset");
			flood_wait(flood, 100);
		}
		assert_int_equal(flood_stop(flood, NULL), 0);
		assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
		/* An end that is meant takes the store with it: the rules stay all the same. */
		daemon_kill(&t->d, SIGTERM);
		(void)close(t->d.store_fd);
		t->d.store_fd = -EBADF;
		assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
		(void)close(tap.fd);
		lan_run("ip link del %s; nft flush ruleset", name);
	}
}

/* --- on other kernels --- */

static bool has_line(char *const *lines, size_t n, const char *words)
{
	bool found = false;

	for (size_t i = 0; i < n; i++)
		found = found || strstr(lines[i], words);
	return found;
}

/* It stays up, does what can be done, and says by name what cannot. */
static void a_kernel_that_lacks_something(void **state)
{
	static const struct {
		const char *lacks, *missing, *words;
		bool filters, publishes;
	} cases[] = {
		{ "NETD_LACKS=masq", "publish: ", "refused masq in ", true, false },
		{ "NETD_LACKS=fib", "publish: ", "refused fib in ", true, false },
		{ "NETD_LACKS=exthdr", "filter: ", "refused exthdr in ", false, true },
	};
	struct test *t = *state;
	struct daemon *d = &t->d;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Bc__V1__NetdHelloRequest request = BC__V1__NETD_HELLO_REQUEST__INIT;
		const char *env[] = { cases[i].lacks, NULL };
		Bc__V1__NetdHelloReply *hello;
		struct daemon_nic n;

		configure(t, "");
		d->program = HELD_NETD_PROGRAM;
		d->env = env;
		daemon_start(d);
		assert_int_equal(
		        daemon_call(d, NETD(hello), &request, (ProtobufCMessage **)&hello, NULL), OK);
		assert_int_equal(has_line(hello->missing, hello->n_missing, "filter: "), !cases[i].filters);
		assert_int_equal(
		        has_line(hello->missing, hello->n_missing, "publish: "), !cases[i].publishes);
		assert_true(has_line(hello->missing, hello->n_missing, cases[i].words));
		protobuf_c_message_free_unpacked(&hello->base, NULL);
		/* A person is told as well. */
		lan_run("%s --run-dir %s doctor 2>&1 | grep -F '%s' | grep -qF '%s'", BCCTL_PROGRAM, d->dir,
		        cases[i].missing, cases[i].words);
		daemon_nic(&n, 1, 0);
		daemon_expect(d, NETD(prepare_bridge), &n.request,
		        cases[i].filters ? OK : GRPC_STATUS_UNIMPLEMENTED,
		        cases[i].filters ? "" : cases[i].words);
		n.mapping.host_port = n.mapping.guest_port = 80;
		n.request.n_port_mappings = 1;
		daemon_expect(d, NETD(prepare_bridge), &n.request, GRPC_STATUS_UNIMPLEMENTED, cases[i].words);
		daemon_kill(d, SIGTERM);
		lan_run("ip -o link show | sed -n 's/^[0-9]*: \\(bc[0-9a-f]*n[0-9]*\\):.*/\\1/p' | xargs -rn 1 ip link del; "
		        "nft flush ruleset");
	}
}

/* --- by hand --- */

/* What an operator types, and what it prints. */
static void by_the_operators_tool(void **state)
{
	struct test *t = *state;
	struct daemon *d = &t->d;
	struct daemon_nic n;
	char name[IFNAME_MAX], foreign[IFNAME_MAX];

#define BCCTL(rest) "%s --run-dir %s netd " rest, BCCTL_PROGRAM, d->dir
	daemon_start(d);
	lan_run(BCCTL("list | grep -q INTERFACE"));
	daemon_nic(&n, 1, 0);
	n.nic.queues = 2;
	n.mapping.host_port = 8080;
	n.mapping.guest_port = 80;
	n.request.n_port_mappings = 1;
	daemon_prepare(d, &n, name);
	lan_run(BCCTL("list | grep -q '%s.*TAP.*%s.*" LAN_BRIDGE ".*2.*PUBLIC.*up.*tcp \\*:8080>80'"), name,
	        n.instance_id);
	lan_run(BCCTL("list -o json | grep -q '\"name\": *\"%s\"'"), name);
	lan_run(BCCTL("check %s | grep -q 'NIC 0  whole .*%s on " LAN_BRIDGE
	              ", 2 queues, filtered, 1 published'"),
	        n.instance_id, name);
	lan_run(BCCTL("check %s 0 | grep -q whole"), n.instance_id);
	lan_run("ip link set %s down", name);
	lan_run(BCCTL("check %s >%s/out; test $? != 0 && grep -q 'broken.*it is down' %s/out"), n.instance_id,
	        d->dir, d->dir);
	/* One under a name of the instance's is looked at by its own number. */
	assert_int_equal(tap_name(n.instance_id, 7, foreign), 0);
	lan_run("ip tuntap add %s mode tap", foreign);
	lan_run(BCCTL("check %s >%s/out; test $? != 0 && grep -q 'NIC 7 .*broken.*no owner record' %s/out"),
	        n.instance_id, d->dir, d->dir);
	lan_run("ip link del %s", foreign);
	/* An interface that netd did not make is shown with the reason, and goes only by its name. */
	lan_run("ip tuntap add bc0123456789n1 mode tap");
	lan_run(BCCTL("list | grep -q 'bc0123456789n1.*it has no owner record'"));
	lan_run(BCCTL("remove-interface " LAN_BRIDGE " 2>&1 | grep -q 'is no name that netd gives'"));
	lan_run(BCCTL("remove-interface bc0123456789n1 | grep -q 'removed bc0123456789n1'"));
	assert_false(exists("bc0123456789n1"));
	lan_run(BCCTL("remove-instance %s | grep -q '1 interface, [1-9][0-9]* rule elements and 1 published port removed'"),
	        n.instance_id);
	assert_false(exists(name));
	lan_run(BCCTL("check %s 0 2>&1 | grep -q 'is not prepared'"), n.instance_id);
	lan_run(BCCTL("check not-an-id 0 >/dev/null 2>&1; test $? != 0"));
#undef BCCTL
}

/* --- under its own user --- */

static void as_its_own_user_with_one_capability(void **state)
{
	struct test *t = *state;
	Bc__V1__RemoveInstanceRequest remove = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	struct frame f = lie(), sentinel = truth();
	struct daemon_nic n;
	struct port tap;
	char name[IFNAME_MAX];

	lan_run("chown -R 64999:64999 %s && mknod %s/tun c 10 200 && chmod 666 %s/tun && mount --bind %s/tun /dev/net/tun",
	        t->d.dir, t->d.dir, t->d.dir, t->d.dir);
	t->d.launcher =
	        "setpriv --pdeathsig KILL --reuid=64999 --regid=64999 --clear-groups --inh-caps=-all,+net_admin "
	        "--ambient-caps=-all,+net_admin --bounding-set=-all,+net_admin --no-new-privs";
	daemon_start(&t->d);
	lan_run("grep -q '^CapEff:.*0000000000001000$' /proc/%d/status", t->d.pid);
	daemon_watch(&t->d);
	daemon_nic(&n, 1, 0);
	n.nic.queues = 2;
	n.mapping.host_port = 8080;
	n.mapping.guest_port = 80;
	n.request.n_port_mappings = 1;
	daemon_prepare(&t->d, &n, name);
	tap = lan_attach(name, true);
	assert_true(tap.fd >= 0);
	assert_false(lan_passes(tap, t->outside, &f, tap, &sentinel));
	(void)close(tap.fd);
	lan_run("ip link set %s nomaster", name);
	(void)daemon_event(&t->d, EVENT(MASTER_LOST));
	daemon_kill(&t->d, SIGTERM);
	rpc_cancel(t->d.watch);
	daemon_start(&t->d);
	remove.instance_id = n.instance_id;
	daemon_expect(&t->d, NETD(remove_instance), &remove, OK, "");
	assert_false(exists(name));
	daemon_kill(&t->d, SIGTERM);
	lan_run("umount /dev/net/tun");
}

/* Nothing is run: not one program, not one process beside its own threads. */
static void no_fork_and_no_exec(void **state)
{
	struct test *t = *state;
	Bc__V1__RemoveInstanceRequest remove = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	char launcher[256], name[IFNAME_MAX];
	struct daemon_nic n;

	(void)snprintf(launcher, sizeof(launcher),
	        "setpriv --pdeathsig KILL strace -D -f -E ASAN_OPTIONS=detect_leaks=0 -o %s/trace -e trace=execve,execveat,fork,vfork,clone,clone3",
	        t->d.dir);
	t->d.launcher = launcher;
	daemon_start(&t->d);
	for (unsigned i = 0; i < 3; i++) {
		daemon_nic(&n, i, 0);
		n.nic.queues = i + 1;
		daemon_prepare(&t->d, &n, name);
		lan_run("ip link set %s nomaster", name);
		remove.instance_id = n.instance_id;
		daemon_expect(&t->d, NETD(list), &list, OK, "");
		daemon_expect(&t->d, NETD(remove_instance), &remove, OK, "");
	}
	daemon_kill(&t->d, SIGTERM);
	/* Leaks cannot be looked for under a tracer. The one exec is strace's own of the daemon; every clone is of a thread. */
	lan_run("test $(grep -c 'execve(' %s/trace) = 1 && ! grep -qE ' v?fork\\(|execveat' %s/trace && "
	        "! grep -E 'clone3?\\(' %s/trace | grep -qv CLONE_THREAD",
	        t->d.dir, t->d.dir, t->d.dir);
}

/* As long as it lives, however it ends, somebody owns everything that is there. */
static void killed_in_a_storm(void **state)
{
	struct test *t = *state;
	Bc__V1__NetdListRequest list = BC__V1__NETD_LIST_REQUEST__INIT;
	unsigned seed = (unsigned)getpid();

	print_message("seed %u\n", seed);
	for (int round = 0; round < 8; round++) {
		Bc__V1__NetdListReply *listed;
		struct storm storm = { .loop = t->d.loop };
		struct daemon_nic nics[12];

		daemon_start(&t->d);
		for (unsigned i = 0; i < ARRAY_SIZE(nics); i++) {
			daemon_nic(&nics[i], i % 4, i / 4);
			nics[i].nic.queues = 1 + i % 2;
			rpc_unary(t->d.channel, NETD(prepare_bridge), &nics[i].request.base,
			        test_timeout_usec(TEST_SERVICE_SEC), on_any_reply, &storm);
		}
		while (storm.n_answered < (int)(rand_r(&seed) % ARRAY_SIZE(nics)))
			daemon_expect(&t->d, NETD(list), &list, OK, "");
		daemon_kill(&t->d, SIGKILL);
		storm.waits = true;
		while (storm.n_answered < (int)ARRAY_SIZE(nics))
			(void)loop_run(t->d.loop);
		daemon_start(&t->d);
		assert_int_equal(
		        daemon_call(&t->d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
		for (size_t i = 0; i < listed->n_interfaces; i++)
			assert_string_equal(listed->interfaces[i]->disbelief, "");
		protobuf_c_message_free_unpacked(&listed->base, NULL);
		for (unsigned i = 0; i < 4; i++) {
			Bc__V1__RemoveInstanceRequest remove = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;

			remove.instance_id = nics[i].instance_id;
			daemon_expect(&t->d, NETD(remove_instance), &remove, OK, "");
		}
		assert_int_equal(
		        daemon_call(&t->d, NETD(list), &list, (ProtobufCMessage **)&listed, NULL), OK);
		assert_int_equal(listed->n_interfaces + listed->n_orphan_rules, 0);
		protobuf_c_message_free_unpacked(&listed->base, NULL);
		daemon_kill(&t->d, SIGTERM);
		assert_false(lan_try("nft list ruleset | grep -q 'elements = { \"bc'"));
	}
}

TEST_SUITE(service_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(prepared_checked_listed_changed_removed),
		TEST(every_removal_is_told),
		TEST(capabilities_are_told),
		TEST(bad_requests),
		TEST(what_is_taken),
		TEST(a_bridge_that_is_full),
		TEST(who_may_come_in),
		TEST(a_macvtap),
		TEST(a_deleted_tap_is_told_and_released),
		TEST(a_lost_bridge_is_rejoined),
		TEST(a_bridge_lost_while_netd_is_away_is_rejoined),
		TEST(a_bridge_that_is_left_for_a_moment),
		TEST(a_bridge_of_another_name),
		TEST(flushed_rules_come_back),
		TEST(firewalls_that_start_again),
		TEST(what_is_others_stays_theirs),
		TEST(a_wrong_policy_changes_nothing),
		TEST(many_flushes_in_a_row),
		TEST(nobody_waits_behind_a_stranger),
		TEST(a_name_waits_for_its_instance),
		TEST(the_socket_is_kept_by_systemd),
		TEST(a_kernel_that_lacks_something),
		TEST(by_the_operators_tool),
		TEST(as_its_own_user_with_one_capability),
		TEST(no_fork_and_no_exec),
		TEST(killed_in_a_storm),
	};
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)sigaddset(&blocked, SIGINT);
	(void)sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
