#include "tests/netd/lan.h"

#include "svc-netd/link.h"
#include "svc-netd/netlink.h"
#include "tests/harness/timeout.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VNET_HEADER = 10 };

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	abort();
}

bool lan_enter_namespace(void)
{
	/* With the sysfs of that namespace, which mounts of others would not show. */
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	(void)umount2("/sys", MNT_DETACH);
	return mount("sysfs", "/sys", "sysfs", 0, NULL) == 0;
}

static int on_event(const struct nlmsghdr *message, void *userdata)
{
	(void)message;
	(void)userdata;
	return 0;
}

__attribute__((format(printf, 1, 0))) static int run(const char *fmt, va_list ap)
{
	char line[1024];

	(void)vsnprintf(line, sizeof(line), fmt, ap);
	return system(line); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): a test's own words */
}

void lan_run(const char *fmt, ...)
{
	va_list ap;
	int status;

	va_start(ap, fmt);
	status = run(fmt, ap);
	va_end(ap);
	if (status != 0) {
		fprintf(stderr, "failed: %s\n", fmt);
		abort();
	}
}

bool lan_try(const char *fmt, ...)
{
	va_list ap;
	int status;

	va_start(ap, fmt);
	status = run(fmt, ap);
	va_end(ap);
	return status == 0;
}

struct link lan_link(const char *ifname)
{
	struct netlink *nl;
	struct link link;

	if (netlink_open(NETLINK_ROUTE, &nl) < 0 || link_get(nl, ifname, &link) < 0)
		die("an interface is not there");
	netlink_free(nl);
	return link;
}

/* A port of a bridge takes frames some time after its carrier came: when the kernel's work queue says so. */
static void wait_forwarding(const char *ifname)
{
	struct netlink *monitor;
	struct pollfd wait = { .events = POLLIN };

	if (netlink_open(NETLINK_ROUTE, &monitor) < 0 || netlink_join(monitor, RTNLGRP_LINK) < 0)
		die("cannot watch interfaces");
	wait.fd = netlink_fd(monitor);
	while (!lan_try("bridge link show dev %s | grep -q 'state forwarding'", ifname)) {
		if (poll(&wait, 1, test_timeout_msec(TEST_SERVICE_SEC)) != 1)
			die("a port never came up");
		while (netlink_receive(monitor, on_event, NULL) != -EAGAIN)
			;
	}
	netlink_free(monitor);
}

static bool on_bridge(const char *ifname)
{
	struct netlink *nl;
	struct link link = { 0 };

	if (netlink_open(NETLINK_ROUTE, &nl) < 0)
		die("cannot look at interfaces");
	(void)link_get(nl, ifname, &link);
	netlink_free(nl);
	return link.master && (link.flags & IFF_UP);
}

struct port lan_attach(const char *ifname, bool multi_queue)
{
	struct ifreq req = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR |
		                     (multi_queue ? IFF_MULTI_QUEUE : 0)) };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK), r;

	if (fd < 0)
		return (struct port){ .fd = -errno };
	memcpy(req.ifr_name, ifname, strnlen(ifname, IFNAMSIZ - 1));
	if (ioctl(fd, TUNSETIFF, &req) < 0) {
		r = -errno;
		(void)close(fd);
		return (struct port){ .fd = r };
	}
	if (on_bridge(ifname))
		wait_forwarding(ifname);
	return (struct port){ .fd = fd };
}

struct port lan_tap(const char *ifname)
{
	struct port port = lan_attach(ifname, false);

	if (port.fd < 0)
		die("cannot make a TAP");
	lan_run("ip link set %s addrgenmode none", ifname);
	return port;
}

struct port lan_plain(const char *ifname)
{
	struct port port = lan_tap(ifname);

	lan_run("ip link set %s master " LAN_BRIDGE " up", ifname);
	wait_forwarding(ifname);
	return port;
}

struct port lan_packet(const char *ifname)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(0x0003) };
	struct ifreq req = { 0 };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(req.ifr_name, ifname, strlen(ifname));
	if (fd < 0 || ioctl(fd, SIOCGIFINDEX, &req) < 0)
		die("cannot listen on an interface");
	at.sll_ifindex = req.ifr_ifindex;
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("cannot listen on an interface");
	return (struct port){ .fd = fd, .packet = true };
}

void lan_make_bridge(void)
{
	lan_run("cd /proc/sys/net/bridge || exit 0; for f in iptables ip6tables arptables; do "
	        "echo 0 >bridge-nf-call-$f; done");
	lan_run("ip link set lo up; ip link add " LAN_BRIDGE " type bridge mcast_snooping 0 forward_delay 0 "
	        "&& ip addr add " LAN_HOST_IP4 "/24 dev " LAN_BRIDGE " && ip addr add " LAN_HOST_IP6
	        "/64 dev " LAN_BRIDGE " nodad && ip link set " LAN_BRIDGE " address 52:54:00:00:00:fe up");
}

void lan_open(struct lan *lan, const struct nics_options *options)
{
	static const struct nics_options plain = { .rules = { .stored_fd = -EBADF } };
	struct err err = { 0 };

	memset(lan, 0, sizeof(*lan));
	lan_make_bridge();
	(void)snprintf(lan->bridge_mac_text, sizeof(lan->bridge_mac_text), "52:54:00:00:00:fe");
	lan->bridge_mac = mac_of(lan->bridge_mac_text);
	lan->outside = lan_plain("outside");
	lan->host = lan_packet(LAN_BRIDGE);
	if (nics_open(options ?: &plain, &lan->nics, &err) < 0) {
		fprintf(stderr, "netd: %s\n", err_text(&err, 0));
		abort();
	}
}

void lan_close(struct lan *lan)
{
	nics_free(lan->nics);
	(void)close(lan->outside.fd);
	(void)close(lan->host.fd);
}

void lan_send(struct port port, const struct frame *frame)
{
	uint8_t buffer[VNET_HEADER + FRAME_MAX] = { 0 };
	size_t head = port.packet ? 0 : VNET_HEADER;

	memcpy(buffer + head, frame->data, frame->size);
	if (write(port.fd, buffer, head + frame->size) != (ssize_t)(head + frame->size))
		die("cannot send a frame");
}

bool lan_receive(struct port port, struct frame *ret)
{
	uint8_t buffer[VNET_HEADER + 65536];
	size_t head = port.packet ? 0 : VNET_HEADER;

	for (;;) {
		struct sockaddr_ll from = { 0 };
		socklen_t size = sizeof(from);
		struct pollfd wait = { .fd = port.fd, .events = POLLIN };
		ssize_t n = port.packet
		        ? recvfrom(port.fd, buffer, sizeof(buffer), 0, (struct sockaddr *)&from, &size)
		        : read(port.fd, buffer, sizeof(buffer));

		if (n < 0 && errno == EAGAIN && poll(&wait, 1, test_timeout_msec(TEST_SERVICE_SEC)) == 1)
			continue;
		if (n < (ssize_t)head)
			return false;
		/* What the host itself sent is not what it got. */
		if (port.packet && from.sll_pkttype == PACKET_OUTGOING)
			continue;
		if ((size_t)n - head > FRAME_MAX)
			continue;
		memcpy(ret->data, buffer + head, (size_t)n - head);
		ret->size = (size_t)n - head;
		return true;
	}
}

/* Also when the outer tag was taken off on the way: a packet socket is given tags beside the frame. */
static bool frames_equal(const struct frame *seen, const struct frame *sent)
{
	uint16_t type = (uint16_t)(sent->data[12] << 8 | sent->data[13]);

	if (seen->size >= sent->size && memcmp(seen->data, sent->data, sent->size) == 0)
		return true;
	return (type == 0x8100 || type == 0x88a8) && seen->size >= sent->size - 4 &&
	        memcmp(seen->data, sent->data, 12) == 0 &&
	        memcmp(seen->data + 12, sent->data + 16, sent->size - 16) == 0;
}

bool lan_saw(struct port to, const struct frame *frame, struct port witness, const struct frame *sentinel)
{
	static _Atomic uint16_t n;
	struct frame last = *sentinel, seen;
	bool passed = false;

	/* Not the one of an earlier question, which the other side may not have read: it asks for another
	 * address. */
	last.data[last.size - 2] = (uint8_t)(++n >> 8);
	last.data[last.size - 1] = (uint8_t)n;
	lan_send(witness, &last);
	while (lan_receive(to, &seen)) {
		if (frames_equal(&seen, &last))
			return passed;
		passed = passed || frames_equal(&seen, frame);
	}
	fprintf(stderr, "the frame that everybody gets did not arrive\n");
	abort();
}

bool lan_passes(struct port from, struct port to, const struct frame *frame, struct port witness,
        const struct frame *sentinel)
{
	lan_send(from, frame);
	return lan_saw(to, frame, witness, sentinel);
}

const char *lan_instance(unsigned n)
{
	static _Thread_local char text[4][UUID_TEXT_MAX];
	char *id = text[n % 4];

	(void)snprintf(id, UUID_TEXT_MAX, "00000000-0000-4000-8000-%012x", n);
	return id;
}

struct nic_request lan_request(unsigned instance, unsigned index, const char *mac)
{
	struct nic_request request = {
		.owner = { .node_id = "node-1",
		        .index = index,
		        .queues = 1,
		        .mac = mac_of(mac),
		        .master = LAN_BRIDGE },
		.filtered = true,
	};

	(void)snprintf(request.owner.instance_id, UUID_TEXT_MAX, "%s", lan_instance(instance));
	return request;
}

void lan_address(struct nic_request *request, const char *address)
{
	request->filter.addresses[request->filter.n_addresses++] = ip_of(address);
}
