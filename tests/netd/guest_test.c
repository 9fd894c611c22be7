/* A real guest on NICs made by netd, one with a single queue, one with several: it speaks with the world in both
 * directions, and its lies end at the filter. A third NIC without one shows that they were really told. */
#include "tests/netd/lan.h"

#include "svc-netd/link.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <arpa/inet.h>
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
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	NICS = 3, /* of the guest: one queue, several, one without a filter */
	MULTI = 1,
	UNFILTERED = 2,
	QUEUES = 2,
	STREAMS = 4,
	STREAM_BYTES = 500000,
};

#define NOBODY "52:54:00:00:00:99" /* whose frames the bridge takes everywhere */

struct guest {
	int in, out; /* owned: its serial port */
	pid_t pid;
	int pidfd; /* owned; -EBADF when it does not run */
	char said[65536];
	size_t n_said;
	unsigned n_commands;
};

struct net {
	struct lan lan;
	struct nic *nics[NICS]; /* owned */
	struct guest guest;
};

/* --- the guest --- */

static void guest_start(struct net *net)
{
	static char line[4096];
	const char *argv[] = { "sh", "-c", line, NULL };
	const char *dir = getenv("BC_GUEST_DIR");
	int in[2], out[2];

	assert_non_null(dir);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	(void)snprintf(line, sizeof(line),
	        "exec setpriv --pdeathsig KILL qemu-system-x86_64 -machine q35 -accel tcg -cpu max -m 256 -smp 2 -nodefaults "
	        "-no-user-config -display none -no-reboot -serial stdio -kernel %s/vmlinux -initrd %s/initramfs -append "
	        "'console=ttyS0 quiet no_timer_check sysctl.net.ipv4.conf.all.arp_ignore=1 bc.hostname=one bc.ip=10.0.0.10/24 "
	        "bc.ip1=10.0.1.10/24 bc.ip2=10.0.2.10/24 bc.peer=10.0.0.1,10.0.1.1,10.0.2.1' "
	        "-netdev tap,id=n0,ifname=%s,script=no,downscript=no,vhost=off "
	        "-device virtio-net-pci,netdev=n0,mac=52:54:00:aa:00:00 "
	        "-netdev tap,id=n1,ifname=%s,script=no,downscript=no,vhost=off,queues=%d "
	        "-device virtio-net-pci,netdev=n1,mac=52:54:00:aa:00:01,mq=on,vectors=%d "
	        "-netdev tap,id=n2,ifname=%s,script=no,downscript=no,vhost=off "
	        "-device virtio-net-pci,netdev=n2,mac=52:54:00:aa:00:02",
	        dir, dir, net->nics[0]->ifname, net->nics[1]->ifname, QUEUES, 2 * QUEUES + 2,
	        net->nics[2]->ifname);
	{
		struct process_fd fds[] = { { in[0], 0 }, { out[1], 1 }, { 2, 2 } };
		struct process_options options = { .argv = argv, .fds = fds, .n_fds = ARRAY_SIZE(fds) };

		assert_int_equal(process_spawn(&options, &net->guest.pid, &net->guest.pidfd), 0);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	net->guest.in = in[1];
	net->guest.out = out[0];
}

/* Reads on until the guest has said so. */
static void guest_await(struct guest *guest, const char *what)
{
	guest->said[guest->n_said] = 0;
	while (!strstr(guest->said, what)) {
		struct pollfd wait = { .fd = guest->out, .events = POLLIN };
		ssize_t n = poll(&wait, 1, test_timeout_msec(TEST_GUEST_SEC)) == 1
		        ? read(guest->out, guest->said + guest->n_said,
		                  sizeof(guest->said) - 1 - guest->n_said)
		        : 0;

		if (n <= 0)
			fail_msg("the guest did not say '%s' but: %s", what, guest->said);
		guest->n_said += (size_t)n;
		guest->said[guest->n_said] = 0;
	}
}

/* Types it into the guest's shell. */
static void guest_begin(struct guest *guest, const char *commands)
{
	char line[2048];
	int n;

	guest->n_said = 0;
	/* A terminal echoes what is typed: what is waited for must not be in it. */
	n = snprintf(line, sizeof(line), "%s; echo DONE-$((%u + 0)).$?\n", commands, ++guest->n_commands);
	assert_true(n < (int)sizeof(line));
	assert_int_equal(write(guest->in, line, (size_t)n), n);
}

static void guest_end(struct guest *guest)
{
	char done[32];

	(void)snprintf(done, sizeof(done), "DONE-%u.", guest->n_commands);
	guest_await(guest, done);
}

static void guest_run(struct guest *guest, const char *commands)
{
	guest_begin(guest, commands);
	guest_end(guest);
}

/* As ping takes it. */
static unsigned guest_sec(void)
{
	return (unsigned)(test_timeout_usec(TEST_GUEST_SEC) / USEC_PER_SEC);
}

/* --- the network --- */

static struct nic *prepare(struct net *net, unsigned i, uint32_t queues)
{
	struct nic_request request = lan_request(1, i, "52:54:00:aa:00:00");
	struct err err = { 0 };
	struct nic *nic = NULL;
	char address[32];

	request.owner.mac.bytes[5] = (uint8_t)i;
	request.owner.queues = queues;
	request.filtered = i != UNFILTERED;
	(void)snprintf(address, sizeof(address), "10.0.%u.10", i);
	lan_address(&request, address);
	if (nic_prepare_bridge(net->lan.nics, &request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	return nic;
}

static int setup(void **state)
{
	static struct net net;

	*state = &net;
	(void)signal(SIGPIPE, SIG_IGN);
	net.guest.pidfd = -EBADF;
	if (!lan_enter_namespace())
		return -1;
	lan_open(&net.lan, NULL);
	lan_run("ip addr add 10.0.1.1/24 dev " LAN_BRIDGE "; ip addr add 10.0.2.1/24 dev " LAN_BRIDGE);
	for (unsigned i = 0; i < NICS; i++)
		net.nics[i] = prepare(&net, i, i == MULTI ? QUEUES : 1);
	guest_start(&net);
	for (unsigned i = 0; i < NICS; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "PING-OK 10.0.%u.1", i);
		guest_await(&net.guest, text);
	}
	return 0;
}

static int teardown(void **state)
{
	struct net *net = *state;
	int status;

	if (net->guest.pidfd >= 0) {
		(void)kill(net->guest.pid, SIGKILL);
		(void)process_wait(net->guest.pidfd, test_timeout_usec(TEST_GUEST_SEC), &status);
		(void)close(net->guest.pidfd);
	}
	(void)close(net->guest.in);
	(void)close(net->guest.out);
	for (unsigned i = 0; i < NICS; i++)
		nic_free(net->nics[i]);
	lan_close(&net->lan);
	return 0;
}

/* --- the tests, on one guest --- */

static void it_has_every_queue_open(void **state)
{
	struct net *net = *state;

	for (unsigned i = 0; i < NICS; i++) {
		struct link link = lan_link(net->nics[i]->ifname);
		struct nic *checked;

		assert_true(link_in_use(&link));
		assert_int_equal(link.tun.multi_queue, i == MULTI);
		assert_int_equal(link.tun.queues, i == MULTI ? QUEUES : 0);
		assert_int_equal(nic_check(net->lan.nics, lan_instance(1), i, &checked, NULL), 0);
		nic_free(checked);
	}
	guest_run(&net->guest,
	        "echo QUEUES-$(ls -d /sys/class/net/eth0/queues/tx-* | wc -l)-$(ls -d "
	        "/sys/class/net/eth1/queues/tx-* | wc -l)");
	assert_non_null(strstr(net->guest.said, "QUEUES-1-2"));
}

static int listen_at(const char *address, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, STREAMS), 0);
	return fd;
}

/* What the guest neither sends nor takes in its time is an error of read() or write(). */
static int stream_accept(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct timeval limit = { .tv_sec = guest_sec() };

	assert_int_equal(poll(&wait, 1, test_timeout_msec(TEST_GUEST_SEC)), 1);
	int stream = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(stream >= 0);
	assert_int_equal(setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(setsockopt(stream, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	return stream;
}

static size_t read_all(int fd)
{
	char buffer[65536];
	size_t size = 0;
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		size += (size_t)n;
	return size;
}

/* Streams of several connections at once, each way: large segments with checksums left to the other side. */
static void streams_flow_both_ways(void **state)
{
	static char bytes[STREAM_BYTES];
	struct net *net = *state;

	for (unsigned i = 0; i < NICS; i++) {
		char host[32], commands[512];
		int fd;

		(void)snprintf(host, sizeof(host), "10.0.%u.1", i);
		fd = listen_at(host, 9000);
		(void)snprintf(commands, sizeof(commands),
		        "for i in 1 2 3 4; do head -c %d /dev/zero | nc %s 9000 & done; wait", STREAM_BYTES,
		        host);
		guest_begin(&net->guest, commands);
		for (int n = 0; n < STREAMS; n++) {
			CLEANUP_CLOSE int stream = stream_accept(fd);

			assert_int_equal(read_all(stream), STREAM_BYTES);
		}
		guest_end(&net->guest);
		(void)snprintf(
		        commands, sizeof(commands), "echo GOT-$(nc %s 9000 </dev/null | wc -c)-", host);
		guest_begin(&net->guest, commands);
		{
			CLEANUP_CLOSE int stream = stream_accept(fd);

			for (size_t sent = 0; sent < sizeof(bytes);) {
				ssize_t n = write(stream, bytes + sent, sizeof(bytes) - sent);

				assert_true(n > 0);
				sent += (size_t)n;
			}
		}
		guest_end(&net->guest);
		assert_non_null(strstr(net->guest.said, "GOT-500000-"));
		(void)close(fd);
		/* Begun by the host. */
		lan_run("busybox ping -c 1 -W %u 10.0.%u.10 >/dev/null", guest_sec(), i);
	}
}

/* What a frame on the wire says that its sender may not say. */
struct lies {
	bool mac, arp, ip4, ip6, truth;
};

static void lies_take(const struct frame *f, struct lies lies[NICS])
{
	static const uint8_t wrong_mac[] = { 0x52, 0x54, 0x00, 0xbb, 0x00 };
	unsigned type = f->size >= 42 ? (unsigned)(f->data[12] << 8 | f->data[13]) : 0, i;

	if (f->size >= 42 && memcmp(f->data + 6, wrong_mac, sizeof(wrong_mac)) == 0 && f->data[11] < NICS)
		lies[f->data[11]].mac = true;
	i = f->data[6 + 5];
	if (f->size < 42 || i >= NICS || f->data[6 + 3] != 0xaa)
		return;
	if (type == 0x0806 && f->data[28] == 10 && f->data[31] == 66)
		lies[i].arp = true;
	if (type == 0x0806 && f->data[28] == 10 && f->data[31] == 10 && f->data[41] == 99)
		lies[i].truth = true;
	if (type == 0x0800 && f->data[26] == 10 && f->data[29] == 66)
		lies[i].ip4 = true;
	if (type == 0x86dd && f->data[22] == 0xfd && f->data[37] == 0x66)
		lies[i].ip6 = true;
}

/* Each NIC of the guest tells every lie, then the truth. */
static void its_lies_end_at_the_filter(void **state)
{
	static const char lie[] =
	        "lie() { arp -i eth$1 -s 10.0.$1.55 " NOBODY "; ip addr add 10.0.$1.66/24 dev eth$1; "
	        "ip addr add fd00:$1::66/64 dev eth$1; ping -c 1 -W 1 -I 10.0.$1.66 10.0.$1.55; "
	        "ping -c 1 -W 1 -I 10.0.$1.66 10.0.$1.77; ping6 -c 1 -W 1 -I fd00:$1::66 ff02::1%eth$1; "
	        "ip addr del 10.0.$1.66/24 dev eth$1; ip addr del fd00:$1::66/64 dev eth$1; "
	        "ip link set eth$1 address 52:54:00:bb:00:0$1; ping -c 1 -W 1 10.0.$1.88; "
	        "ip link set eth$1 address 52:54:00:aa:00:0$1; ping -c 1 -W 1 10.0.$1.99; } >/dev/null 2>&1";
	struct net *net = *state;
	struct lies lies[NICS] = { 0 };
	struct frame f;

	guest_run(&net->guest, "for i in 0 1 2; do echo 0 >/proc/sys/net/ipv6/conf/eth$i/accept_dad; done");
	guest_run(&net->guest, lie);
	guest_run(&net->guest, "for i in 0 1 2; do lie $i & done; wait");
	/* The truth comes last from each, and comes to everybody. */
	while (!lies[0].truth || !lies[1].truth || !lies[2].truth) {
		assert_true(lan_receive(net->lan.outside, &f));
		lies_take(&f, lies);
	}
	for (unsigned i = 0; i < NICS; i++) {
		bool told = i == UNFILTERED;

		print_message("NIC %u: MAC %d, ARP %d, IPv4 %d, IPv6 %d\n", i, lies[i].mac, lies[i].arp,
		        lies[i].ip4, lies[i].ip6);
		assert_int_equal(lies[i].mac, told);
		assert_int_equal(lies[i].arp, told);
		assert_int_equal(lies[i].ip4, told);
		assert_int_equal(lies[i].ip6, told);
	}
}

/* Under a running guest. */
static void a_policy_changes_at_once(void **state)
{
	static const enum nic_policy policies[] = { NIC_POLICY_NONE, NIC_POLICY_PUBLIC };
	struct net *net = *state;

	for (unsigned i = 0; i < UNFILTERED; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(policies); j++) {
			struct nic_filter filter = { .policy = policies[j], .n_addresses = 1 };
			char commands[128], text[32];
			struct nic *nic;

			(void)snprintf(text, sizeof(text), "10.0.%u.10", i);
			filter.addresses[0] = ip_of(text);
			assert_int_equal(
			        nic_set_filter(net->lan.nics, lan_instance(1), i, &filter, &nic, NULL), 0);
			nic_free(nic);
			(void)snprintf(commands, sizeof(commands),
			        "ping -c 1 -W %u 10.0.%u.1 >/dev/null; echo PINGED-$?-",
			        j == 0 ? 1 /* runs out */ : guest_sec(), i);
			guest_run(&net->guest, commands);
			assert_non_null(strstr(net->guest.said, j == 0 ? "PINGED-1-" : "PINGED-0-"));
		}
	}
}

static void its_taps_outlive_it(void **state)
{
	struct net *net = *state;
	int status;

	assert_true(write(net->guest.in, "poweroff -f\n", 12) == 12);
	assert_int_equal(process_wait(net->guest.pidfd, test_timeout_usec(TEST_GUEST_SEC), &status), 0);
	(void)close(net->guest.pidfd);
	net->guest.pidfd = -EBADF;
	for (unsigned i = 0; i < NICS; i++) {
		struct link link = lan_link(net->nics[i]->ifname);

		assert_int_equal(link.ifindex, net->nics[i]->ifindex);
		assert_false(link_in_use(&link));
	}
	/* Another count of queues is another TAP. */
	nic_free(net->nics[MULTI]);
	net->nics[MULTI] = prepare(net, MULTI, 1);
	assert_false(lan_link(net->nics[MULTI]->ifname).tun.multi_queue);
}

TEST_SUITE(guest_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_every_queue_open),
		cmocka_unit_test(streams_flow_both_ways),
		cmocka_unit_test(its_lies_end_at_the_filter),
		cmocka_unit_test(a_policy_changes_at_once),
		cmocka_unit_test(its_taps_outlive_it),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
