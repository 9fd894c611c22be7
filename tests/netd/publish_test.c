/* Ports of the host that lead to guests: from the world, from the host itself, from a neighbour; and whose
 * they are. */
#include "tests/netd/lan.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"
#define MAC_B "52:54:00:00:00:0b"
#define MAC_UPLINK "52:54:00:00:00:77"
#define MAC_WORLD "52:54:00:00:00:99"
#define HOST4 "192.0.2.1"
#define HOST6 "2001:db8:2::1"
#define WORLD4 "192.0.2.9"
#define WORLD6 "2001:db8:2::9"
#define A4 "10.0.0.10"
#define A6 "fd00::a"
#define B4 "10.0.0.11"

struct net {
	struct lan lan;
	struct port uplink, tap_a, tap_b;
	struct nic *a, *b; /* owned */
};

/* What of a datagram translation changes. */
struct flow {
	const char *from, *to;
	uint8_t protocol;
	uint16_t from_port, to_port;
};

static struct frame frame_of(const char *to_mac, const char *from_mac, const struct flow *flow, uint8_t flags)
{
	bool ip4 = ip_of(flow->from).family == AF_INET;
	struct frame f;

	frame_ether(&f, to_mac, from_mac, ip4 ? 0x0800 : 0x86dd);
	if (ip4)
		frame_ip4(&f,
		        &(struct ip4_options){
		                .from = flow->from, .to = flow->to, .protocol = flow->protocol });
	else
		frame_ip6(&f, flow->from, flow->to, flow->protocol);
	if (flow->protocol == IPPROTO_TCP)
		frame_tcp(&f, flow->from_port, flow->to_port, flags);
	else
		frame_udp(&f, flow->from_port, flow->to_port);
	frame_finish(&f);
	return f;
}

static bool is_of(const struct frame *f, const struct flow *flow)
{
	struct ip from = ip_of(flow->from), to = ip_of(flow->to);
	bool ip4 = from.family == AF_INET;
	size_t n = ip4 ? 4 : 16, at = ip4 ? 14 + 12 : 14 + 8, ports = ip4 ? 14 + 20 : 14 + 40;

	return f->size >= ports + 4 && f->data[12] == (ip4 ? 0x08 : 0x86) &&
	        f->data[13] == (ip4 ? 0x00 : 0xdd) && f->data[ip4 ? 14 + 9 : 14 + 6] == flow->protocol &&
	        memcmp(f->data + at, from.bytes, n) == 0 && memcmp(f->data + at + n, to.bytes, n) == 0 &&
	        (f->data[ports] << 8 | f->data[ports + 1]) == flow->from_port &&
	        (f->data[ports + 2] << 8 | f->data[ports + 3]) == flow->to_port;
}

/* Has a datagram of that flow come to the guest, or to the world, by now? from_port 0: any, which flow is
 * told. */
static bool arrived(struct net *net, struct port at, struct flow *flow)
{
	bool to_world = at.fd == net->uplink.fd, found = false;
	size_t ports = ip_of(flow->from).family == AF_INET ? 14 + 20 : 14 + 40;
	static uint8_t n;
	struct frame last, seen;
	struct port uplink;

	/* An ARP request of the host's own stack, by way of a packet socket on the interface. */
	frame_ether(&last, "ff:ff:ff:ff:ff:ff", to_world ? MAC_UPLINK : net->lan.bridge_mac_text, 0x0806);
	frame_arp(&last, 1, to_world ? MAC_UPLINK : net->lan.bridge_mac_text, to_world ? HOST4 : LAN_HOST_IP4,
	        "10.0.0.250");
	last.data[last.size - 1] = ++n;
	if (to_world) {
		uplink = lan_packet("uplink");
		lan_send(uplink, &last);
		(void)close(uplink.fd);
	} else {
		lan_send(net->lan.host, &last);
	}
	do {
		struct flow one = *flow;

		assert_true(lan_receive(at, &seen));
		if (!one.from_port && seen.size > ports + 4)
			one.from_port = (uint16_t)(seen.data[ports] << 8 | seen.data[ports + 1]);
		if (is_of(&seen, &one)) {
			found = true;
			flow->from_port = one.from_port;
		}
	} while (seen.size < last.size || memcmp(seen.data, last.data, last.size) != 0);
	return found;
}

static struct publication publish(
        uint8_t protocol, const char *host, uint16_t host_port, const char *guest, uint16_t port)
{
	struct publication p = { .protocol = protocol,
		.any = !host,
		.host_port = host_port,
		.guest = ip_of(guest),
		.guest_port = port };

	if (host)
		p.host = ip_of(host);
	return p;
}

static struct nic_request request_of(
        unsigned instance, const char *mac, const char *ip4, struct publication *ports, size_t n_ports)
{
	struct nic_request request = lan_request(instance, 0, mac);

	lan_address(&request, ip4);
	if (instance == 1)
		lan_address(&request, A6);
	request.ports = ports;
	request.n_ports = n_ports;
	return request;
}

static struct nic *prepare(struct net *net, const struct nic_request *request)
{
	struct err err = { 0 };
	struct nic *nic = NULL;

	if (nic_prepare_bridge(net->lan.nics, request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	return nic;
}

static int setup(void **state)
{
	struct publication ports[] = {
		publish(IPPROTO_TCP, NULL, 8080, A4, 80),
		publish(IPPROTO_TCP, NULL, 8080, A6, 80),
		publish(IPPROTO_UDP, NULL, 5300, A4, 53),
		publish(IPPROTO_UDP, NULL, 5300, A6, 53),
		publish(IPPROTO_TCP, HOST4, 2222, A4, 22),
		publish(IPPROTO_TCP, HOST6, 2222, A6, 22),
	};
	struct net *net = calloc(1, sizeof(*net));
	struct nic_request a = request_of(1, MAC_A, A4, ports, ARRAY_SIZE(ports)),
	                   b = request_of(2, MAC_B, B4, NULL, 0);

	*state = net;
	if (!net || !lan_enter_namespace())
		return -1;
	lan_open(&net->lan, NULL);
	net->uplink = lan_tap("uplink");
	lan_run("ip link set uplink address " MAC_UPLINK " up; ip addr add " HOST4
	        "/24 dev uplink; ip addr add " HOST6
	        "/64 dev uplink nodad; ip addr add 192.0.2.2/24 dev uplink; echo 1 >/proc/sys/net/ipv4/ip_forward; "
	        "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; for n in '" A4 " lladdr " MAC_A "' '" A6
	        " lladdr " MAC_A "' '" B4 " lladdr " MAC_B "'; do ip neigh add $n dev " LAN_BRIDGE
	        "; done; for n in " WORLD4 " " WORLD6 "; do ip neigh add $n lladdr " MAC_WORLD
	        " dev uplink; done");
	net->a = prepare(net, &a);
	net->b = prepare(net, &b);
	net->tap_a = lan_attach(net->a->ifname, false);
	net->tap_b = lan_attach(net->b->ifname, false);
	return 0;
}

static int teardown(void **state)
{
	struct net *net = *state;

	nic_free(net->a);
	nic_free(net->b);
	(void)close(net->tap_a.fd);
	(void)close(net->tap_b.fd);
	(void)close(net->uplink.fd);
	lan_close(&net->lan);
	free(net);
	return 0;
}

static const struct {
	const char *host, *world, *guest;
	uint8_t protocol;
	uint16_t host_port, guest_port;
} published[] = {
	{ HOST4, WORLD4, A4, IPPROTO_TCP, 8080, 80 },
	{ HOST6, WORLD6, A6, IPPROTO_TCP, 8080, 80 },
	{ HOST4, WORLD4, A4, IPPROTO_UDP, 5300, 53 },
	{ HOST6, WORLD6, A6, IPPROTO_UDP, 5300, 53 },
	{ "192.0.2.2", WORLD4, A4, IPPROTO_TCP, 8080, 80 },
	{ HOST4, WORLD4, A4, IPPROTO_TCP, 2222, 22 },
	{ HOST6, WORLD6, A6, IPPROTO_TCP, 2222, 22 },
};

/* Every published port, there and back. */
static void expect_published(struct net *net, bool expected)
{
	static uint16_t from_port = 5000;

	for (size_t i = 0; i < ARRAY_SIZE(published); i++, from_port++) {
		struct flow in = { published[i].world, published[i].host, published[i].protocol, from_port,
			published[i].host_port };
		struct flow at_guest = { published[i].world, published[i].guest, published[i].protocol,
			from_port, published[i].guest_port };
		struct flow back = { published[i].guest, published[i].world, published[i].protocol,
			published[i].guest_port, from_port };
		struct flow at_world = { published[i].host, published[i].world, published[i].protocol,
			published[i].host_port, from_port };
		struct frame f = frame_of(MAC_UPLINK, MAC_WORLD, &in, TCP_FLAG_SYN);

		lan_send(net->uplink, &f);
		assert_int_equal(arrived(net, net->tap_a, &at_guest), expected);
		if (!expected)
			continue;
		f = frame_of(net->lan.bridge_mac_text, MAC_A, &back, TCP_FLAG_SYN | TCP_FLAG_ACK);
		lan_send(net->tap_a, &f);
		assert_true(arrived(net, net->uplink, &at_world));
	}
}

static void from_the_world(void **state)
{
	struct net *net = *state;
	struct flow other = { WORLD4, "192.0.2.2", IPPROTO_TCP, 4999, 2222 };
	struct flow at_guest = { WORLD4, A4, IPPROTO_TCP, 4999, 22 };
	struct frame f = frame_of(MAC_UPLINK, MAC_WORLD, &other, TCP_FLAG_SYN);

	expect_published(net, true);
	/* Published at one address, and not at another. */
	lan_send(net->uplink, &f);
	assert_false(arrived(net, net->tap_a, &at_guest));
	/* Only what is for the host: the same port of somebody behind it is his. */
	other.to = B4;
	other.to_port = 8080;
	f = frame_of(MAC_UPLINK, MAC_WORLD, &other, TCP_FLAG_SYN);
	lan_send(net->uplink, &f);
	assert_true(arrived(net, net->tap_b, &other));
}

static void host_sends(const char *to, uint8_t protocol, uint16_t port)
{
	struct ip ip = ip_of(to);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool ip4 = ip.family == AF_INET;
	int fd = socket(ip.family, (protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0);

	memcpy(&in.sin_addr, ip.bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, ip.bytes, sizeof(in6.sin6_addr));
	(void)connect(fd, ip4 ? (void *)&in : (void *)&in6, ip4 ? sizeof(in) : sizeof(in6));
	if (protocol == IPPROTO_UDP)
		assert_int_equal(send(fd, "hello", 5, 0), 5);
	(void)close(fd);
}

static void from_the_host_itself(void **state)
{
	struct net *net = *state;

	for (size_t i = 0; i < ARRAY_SIZE(published); i++) {
		/* It speaks from its first address, also to its second. */
		struct flow at_guest = { published[i].guest[0] == '1' ? HOST4 : HOST6, published[i].guest,
			published[i].protocol, 0, published[i].guest_port };

		host_sends(published[i].host, published[i].protocol, published[i].host_port);
		if (!arrived(net, net->tap_a, &at_guest))
			fail_msg("%s port %u", published[i].host, published[i].host_port);
	}
}

/* By way of the host and back by way of the host: the guest would answer its neighbour directly. */
static void from_a_neighbour(void **state)
{
	struct net *net = *state;
	struct flow in = { B4, LAN_HOST_IP4, IPPROTO_TCP, 5000, 8080 };
	struct flow at_guest = { LAN_HOST_IP4, A4, IPPROTO_TCP, 0, 80 };
	struct flow at_neighbour = { LAN_HOST_IP4, B4, IPPROTO_TCP, 8080, 5000 };
	struct frame f = frame_of(net->lan.bridge_mac_text, MAC_B, &in, TCP_FLAG_SYN);

	lan_send(net->tap_b, &f);
	assert_true(arrived(net, net->tap_a, &at_guest));
	f = frame_of(net->lan.bridge_mac_text, MAC_A,
	        &(struct flow){ A4, LAN_HOST_IP4, IPPROTO_TCP, 80, at_guest.from_port },
	        TCP_FLAG_SYN | TCP_FLAG_ACK);
	lan_send(net->tap_a, &f);
	assert_true(arrived(net, net->tap_b, &at_neighbour));
}

static void a_port_is_held_until_its_nic_goes(void **state)
{
	struct net *net = *state;
	struct publication wanted[] = { publish(IPPROTO_TCP, NULL, 8080, B4, 80) };
	struct nic_request b = request_of(2, MAC_B, B4, wanted, 1);
	struct nic_removal removal;
	struct err err = { 0 };
	struct nic *nic;

	assert_int_equal(nic_prepare_bridge(net->lan.nics, &b, &nic, &err), -EEXIST);
	assert_non_null(strstr(err.text,
	        "port tcp *:8080 is held by NIC 0 of instance 00000000-0000-4000-8000-000000000001"));
	/* B is as it was. */
	assert_int_equal(nic_check(net->lan.nics, lan_instance(2), 0, &nic, NULL), 0);
	nic_free(nic);
	assert_int_equal(nic_remove(net->lan.nics, lan_instance(1), 0, &removal, NULL), 0);
	assert_int_equal(removal.n_ports, 6);
	nic_removal_done(&removal);
	nic_free(prepare(net, &b));
}

static void removed_with_its_nic(void **state)
{
	struct net *net = *state;
	struct nic_removal removal;

	expect_published(net, true);
	assert_int_equal(nic_remove_instance(net->lan.nics, lan_instance(1), &removal, NULL), 0);
	nic_removal_done(&removal);
	lan_run("! nft list table inet bc | grep -q elements");
}

static void rebuilt_from_the_kernel(void **state)
{
	struct net *net = *state;
	struct nics_options options = { .rules = { .stored_fd = -EBADF } };
	struct publication wanted[] = { publish(IPPROTO_TCP, HOST4, 8080, B4, 80) };
	struct nic_request b = request_of(2, MAC_B, B4, wanted, 1);
	struct err err = { 0 };
	struct nic *nic;

	nics_free(net->lan.nics);
	assert_int_equal(nics_open(&options, &net->lan.nics, &err), 0);
	expect_published(net, true);
	nic = nic_table_get(nics_table(net->lan.nics), net->a->ifname);
	assert_true(elements_equal(&nic->elements, &net->a->elements));
	assert_int_equal(nic->state, NIC_READY);
	nic_free(nic);
	assert_int_equal(nic_prepare_bridge(net->lan.nics, &b, &nic, &err), -EEXIST);
	assert_non_null(
	        strstr(err.text, "is held by NIC 0 of instance 00000000-0000-4000-8000-000000000001"));
}

/* A policy that changes leaves the ports alone. */
static void a_new_policy_keeps_ports(void **state)
{
	struct net *net = *state;
	struct nic_filter filter = { .policy = NIC_POLICY_PUBLIC };
	struct nic *nic;

	filter.addresses[filter.n_addresses++] = ip_of(A4);
	filter.addresses[filter.n_addresses++] = ip_of(A6);
	assert_int_equal(nic_set_filter(net->lan.nics, lan_instance(1), 0, &filter, &nic, NULL), 0);
	nic_free(nic);
	expect_published(net, true);
	/* With a policy that lets nobody in, they lead nowhere. */
	filter.policy = NIC_POLICY_NONE;
	assert_int_equal(nic_set_filter(net->lan.nics, lan_instance(1), 0, &filter, &nic, NULL), 0);
	nic_free(nic);
	expect_published(net, false);
}

/* A port follows its NIC to another address, and is given up with the last. */
static void a_new_address_takes_ports_along(void **state)
{
	struct net *net = *state;
	struct nic_filter filter = { .policy = NIC_POLICY_PUBLIC };
	struct publication p;
	struct nic *nic;
	size_t n = 0;

	filter.addresses[filter.n_addresses++] = ip_of("10.0.0.77");
	assert_int_equal(nic_set_filter(net->lan.nics, lan_instance(1), 0, &filter, &nic, NULL), 0);
	for (size_t i = 0; i < nic->elements.n; i++) {
		if (nic->elements.items[i].set < SET_PUBLISHED4 ||
		        nic->elements.items[i].set > SET_PUBLISHED6_ANY)
			continue;
		element_to_publication(&nic->elements.items[i], &p);
		assert_true(ip_equal(&p.guest, &filter.addresses[0]));
		n++;
	}
	assert_true(n > 0);
	assert_true(lan_try("nft list map inet bc published4 | grep -q 10.0.0.77"));
	assert_false(lan_try("nft list map inet bc published6 | grep -q elements"));
	nic_free(nic);
	filter.n_addresses = 0;
	assert_int_equal(nic_set_filter(net->lan.nics, lan_instance(1), 0, &filter, &nic, NULL), 0);
	nic_free(nic);
	assert_false(lan_try("nft list table inet bc | grep -q elements"));
}

/* --- the host's own processes --- */

/* A socket that waits for others; -1 where the address has it already. */
static int listen_at(const char *address, uint8_t protocol, uint16_t port)
{
	struct ip ip = ip_of(address);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool ip4 = ip.family == AF_INET;
	int fd = socket(ip.family, protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0), on = 1;

	memcpy(&in.sin_addr, ip.bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, ip.bytes, sizeof(in6.sin6_addr));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, ip4 ? (void *)&in : (void *)&in6, ip4 ? sizeof(in) : sizeof(in6)), 0);
	if (protocol == IPPROTO_TCP)
		assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static bool connects(const char *address, uint16_t port)
{
	struct ip ip = ip_of(address);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool ip4 = ip.family == AF_INET;
	int fd = socket(ip.family, SOCK_STREAM, 0), r;

	memcpy(&in.sin_addr, ip.bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, ip.bytes, sizeof(in6.sin6_addr));
	r = connect(fd, ip4 ? (void *)&in : (void *)&in6, ip4 ? sizeof(in) : sizeof(in6));
	(void)close(fd);
	return r == 0;
}

/* Whatever is published: what the host's processes say to each other there is theirs, and answered at once. */
static void loopback_is_the_hosts_own(void **state)
{
	struct net *net = *state;
	struct flow at_guest = { "127.0.0.1", A4, IPPROTO_TCP, 0, 80 };
	int fd4, fd6;

	/* Nobody listens: refused by the host itself, and nothing comes to the guest. */
	assert_false(connects("127.0.0.1", 8080));
	assert_int_equal(errno, ECONNREFUSED);
	assert_false(connects("::1", 8080));
	assert_int_equal(errno, ECONNREFUSED);
	assert_false(arrived(net, net->tap_a, &at_guest));
	at_guest.from = HOST4;
	assert_false(arrived(net, net->tap_a, &at_guest));
	fd4 = listen_at("127.0.0.1", IPPROTO_TCP, 8080);
	fd6 = listen_at("::1", IPPROTO_TCP, 8080);
	assert_true(connects("127.0.0.1", 8080));
	assert_true(connects("127.8.8.8", 8080) || errno == ECONNREFUSED);
	assert_true(connects("::1", 8080));
	(void)close(fd4);
	(void)close(fd6);
	expect_published(net, true);
}

/* A guest cannot reach what listens on the host's loopback by the bridge, publishing or not: CVE-2020-8558. */
static void loopback_is_out_of_a_guests_reach(void **state)
{
	struct net *net = *state;
	int fd = listen_at("127.0.0.1", IPPROTO_UDP, 9999);
	struct flow in = { B4, "127.0.0.1", IPPROTO_UDP, 5000, 9999 };
	struct frame f = frame_of(net->lan.bridge_mac_text, MAC_B, &in, 0);
	struct flow witness = { B4, LAN_HOST_IP4, IPPROTO_UDP, 5000, 9998 };
	int honest = listen_at(LAN_HOST_IP4, IPPROTO_UDP, 9998);
	char byte;

	lan_run("! grep -q 1 /proc/sys/net/ipv4/conf/*/route_localnet");
	lan_send(net->tap_b, &f);
	f = frame_of(net->lan.bridge_mac_text, MAC_B, &witness, 0);
	lan_send(net->tap_b, &f);
	/* The later one has come. */
	assert_true(recv(honest, &byte, 1, 0) >= 0);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	(void)close(fd);
	(void)close(honest);
}

/* Without a descriptor the kernel cannot be asked: that is not the answer that nobody listens. */
static void a_port_that_cannot_be_looked_at_is_not_published(void **state)
{
	struct net *net = *state;
	struct publication wanted[] = { publish(IPPROTO_TCP, NULL, 7000, B4, 80) };
	struct nic_request b = request_of(2, MAC_B, B4, wanted, ARRAY_SIZE(wanted));
	struct rlimit before, none;
	struct err err = { 0 };
	struct nic *nic, *known;
	int next = dup(STDIN_FILENO), r;

	assert_true(next >= 0);
	(void)close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = nic_prepare_bridge(net->lan.nics, &b, &nic, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r, -EMFILE);
	assert_non_null(strstr(err.text, "cannot tell whether a process of this host listens"));
	known = nic_table_get(nics_table(net->lan.nics), net->b->ifname);
	assert_true(elements_equal(&known->elements, &net->b->elements));
	nic_free(known);
	nic_free(prepare(net, &b));
}

static void a_process_that_listens_keeps_its_port(void **state)
{
	static const struct {
		const char *at, *words;
		uint8_t protocol;
		uint16_t port;
	} cases[] = {
		{ "0.0.0.0",
		        "port tcp *:7000 is held by a process of this host, of uid 0, that listens at 0.0.0.0:7000",
		        IPPROTO_TCP, 7000 },
		{ "::", "listens at [::]:7000", IPPROTO_TCP, 7000 },
		{ HOST4, "listens at " HOST4 ":7000", IPPROTO_TCP, 7000 },
		{ LAN_HOST_IP4, "port udp *:7001 is held", IPPROTO_UDP, 7001 },
	};
	struct net *net = *state;
	struct publication wanted[] = { publish(IPPROTO_TCP, NULL, 7000, B4, 80),
		publish(IPPROTO_UDP, NULL, 7001, B4, 80) };
	struct nic_request b = request_of(2, MAC_B, B4, wanted, ARRAY_SIZE(wanted));
	struct nic *nic, *known;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };

		fd = listen_at(cases[i].at, cases[i].protocol, cases[i].port);
		assert_int_equal(nic_prepare_bridge(net->lan.nics, &b, &nic, &err), -EEXIST);
		if (!strstr(err.text, cases[i].words))
			fail_msg("'%s' is not in: %s", cases[i].words, err.text);
		/* B is as it was, and so is the process. */
		known = nic_table_get(nics_table(net->lan.nics), net->b->ifname);
		assert_true(elements_equal(&known->elements, &net->b->elements));
		nic_free(known);
		if (cases[i].protocol == IPPROTO_TCP)
			assert_true(
			        connects(cases[i].at[0] == '0' || cases[i].at[0] == ':' ? HOST4 : cases[i].at,
			                cases[i].port));
		(void)close(fd);
	}
	/* One at another address than the one that is published is in nobody's way. */
	fd = listen_at("192.0.2.2", IPPROTO_TCP, 7000);
	wanted[0].any = false;
	wanted[0].host = ip_of(HOST4);
	nic_free(prepare(net, &b));
	(void)close(fd);
	/* What is a NIC's already is not taken from it by one who came later. */
	fd = listen_at("0.0.0.0", IPPROTO_TCP, 7000);
	nic_free(prepare(net, &b));
	(void)close(fd);
}

TEST_SUITE(publish_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(from_the_world),
		TEST(from_the_host_itself),
		TEST(from_a_neighbour),
		TEST(a_port_is_held_until_its_nic_goes),
		TEST(removed_with_its_nic),
		TEST(rebuilt_from_the_kernel),
		TEST(a_new_policy_keeps_ports),
		TEST(a_new_address_takes_ports_along),
		TEST(loopback_is_the_hosts_own),
		TEST(loopback_is_out_of_a_guests_reach),
		TEST(a_port_that_cannot_be_looked_at_is_not_published),
		TEST(a_process_that_listens_keeps_its_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
