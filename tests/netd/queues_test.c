/* A multi-queue TAP is several queues in truth: frames of many flows are spread over all that are open, and none is
 * lost, in either direction. */
#include "tests/netd/lan.h"

#include "svc-netd/link.h"
#include "svc-netd/netlink.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_GUEST "52:54:00:00:00:0a"
#define MAC_WORLD "52:54:00:00:00:99"
#define IP_GUEST "10.0.0.10"
#define IP_WORLD "10.0.0.99"

enum {
	QUEUES = 4,
	FLOWS = 10000,
	BURST = 200, /* frames sent before all of them are awaited: a queue holds 1,000 */
	PORT_FIRST = 2000,
	FLOW_PORTS = 14 + 20, /* where a frame has its ports */
};

struct net {
	struct lan lan;
	struct nic *nic; /* owned */
	struct port queues[QUEUES];
};

static int setup(void **state)
{
	struct net *net = calloc(1, sizeof(*net));
	struct nic_request request = lan_request(1, 0, MAC_GUEST);
	struct err err = { 0 };

	*state = net;
	if (!net || !lan_enter_namespace())
		return -1;
	lan_open(&net->lan, NULL);
	lan_address(&request, IP_GUEST);
	request.owner.queues = QUEUES;
	if (nic_prepare_bridge(net->lan.nics, &request, &net->nic, &err) < 0)
		fail_msg("%s", err.text);
	for (int i = 0; i < QUEUES; i++)
		net->queues[i] = lan_attach(net->nic->ifname, true);
	return 0;
}

static int teardown(void **state)
{
	struct net *net = *state;

	for (int i = 0; i < QUEUES; i++)
		(void)close(net->queues[i].fd);
	nic_free(net->nic);
	lan_close(&net->lan);
	free(net);
	return 0;
}

static struct frame frame_of(unsigned flow, bool to_guest)
{
	uint16_t port = (uint16_t)(PORT_FIRST + flow);
	struct frame f;

	frame_ether(&f, to_guest ? MAC_GUEST : MAC_WORLD, to_guest ? MAC_WORLD : MAC_GUEST, 0x0800);
	frame_ip4(&f,
	        &(struct ip4_options){ .from = to_guest ? IP_WORLD : IP_GUEST,
	                .to = to_guest ? IP_GUEST : IP_WORLD,
	                .protocol = IPPROTO_UDP });
	frame_udp(&f, to_guest ? port : 53, to_guest ? 53 : port);
	frame_finish(&f);
	return f;
}

/* The flow of a frame that is one of ours; -1: something else. */
static int flow_of(const struct frame *f, bool to_guest)
{
	size_t at = FLOW_PORTS + (to_guest ? 0 : 2);
	int port;

	if (f->size < FLOW_PORTS + 4 || f->data[12] != 0x08 || f->data[13] != 0 ||
	        f->data[14 + 9] != IPPROTO_UDP)
		return -1;
	port = f->data[at] << 8 | f->data[at + 1];
	return port >= PORT_FIRST && port < PORT_FIRST + FLOWS ? port - PORT_FIRST : -1;
}

/* The next frame of a flow at any queue; which queue it was. */
static int receive_any(struct net *net, int *ret_flow)
{
	for (;;) {
		struct pollfd wait[QUEUES];

		for (int i = 0; i < QUEUES; i++)
			wait[i] = (struct pollfd){ .fd = net->queues[i].fd, .events = POLLIN };
		if (poll(wait, QUEUES, test_timeout_msec(TEST_SERVICE_SEC)) <= 0)
			fail_msg("a frame was lost");
		for (int i = 0; i < QUEUES; i++) {
			struct frame f;

			if (!(wait[i].revents & POLLIN))
				continue;
			assert_true(lan_receive(net->queues[i], &f));
			*ret_flow = flow_of(&f, true);
			if (*ret_flow >= 0)
				return i;
		}
	}
}

static void flows_are_spread_and_none_is_lost(void **state)
{
	static uint8_t seen[FLOWS];
	struct net *net = *state;
	unsigned n_at[QUEUES] = { 0 };

	memset(seen, 0, sizeof(seen));
	for (unsigned sent = 0; sent < FLOWS; sent += BURST) {
		for (unsigned i = 0; i < BURST; i++) {
			struct frame f = frame_of(sent + i, true);

			lan_send(net->lan.outside, &f);
		}
		for (unsigned i = 0; i < BURST; i++) {
			int flow, queue = receive_any(net, &flow);

			n_at[queue]++;
			seen[flow]++;
		}
	}
	for (unsigned i = 0; i < FLOWS; i++)
		assert_int_equal(seen[i], 1);
	for (int i = 0; i < QUEUES; i++) {
		print_message("queue %d: %u flows\n", i, n_at[i]);
		/* By a hash: near a quarter each. */
		assert_in_range(n_at[i], FLOWS / QUEUES / 2, FLOWS / QUEUES * 2);
	}
}

static void every_queue_is_heard(void **state)
{
	struct net *net = *state;

	for (unsigned flow = 0; flow < FLOWS; flow += QUEUES) {
		for (unsigned i = 0; i < QUEUES; i++) {
			struct frame f = frame_of(flow + i, false), seen;
			int r;

			lan_send(net->queues[i], &f);
			do {
				assert_true(lan_receive(net->lan.outside, &seen));
				r = flow_of(&seen, false);
			} while (r < 0);
			assert_int_equal(r, flow + i);
		}
	}
}

/* Where the guest sends a flow from, there its answers come: its own CPUs and queues stay together. */
static void an_answer_comes_to_the_queue_that_asked(void **state)
{
	struct net *net = *state;

	for (unsigned flow = 0; flow < 64; flow++) {
		int queue = (int)(flow % QUEUES), answered;
		struct frame out = frame_of(flow, false), in = frame_of(flow, true);

		lan_send(net->queues[queue], &out);
		lan_send(net->lan.outside, &in);
		assert_int_equal(receive_any(net, &answered), queue);
		assert_int_equal(answered, flow);
	}
}

/* A VMM that has fewer queues than there could be gets everything at those. */
static void fewer_queues_than_asked_for(void **state)
{
	struct net *net = *state;

	for (int i = 1; i < QUEUES; i++) {
		(void)close(net->queues[i].fd);
		net->queues[i].fd = -1; /* which poll() passes over, as close() does */
	}
	for (unsigned flow = 0; flow < BURST; flow++) {
		struct frame f = frame_of(flow, true);
		int seen;

		lan_send(net->lan.outside, &f);
		assert_int_equal(receive_any(net, &seen), 0);
		assert_int_equal(seen, flow);
	}
}

/* Between two VMMs nobody holds a queue, for what is steered to one that nobody reads is lost. */
static void nobody_holds_a_queue_between_vmms(void **state)
{
	struct net *net = *state;

	for (int round = 0; round < 3; round++) {
		struct netlink *nl;
		struct link link;

		for (int i = 0; i < QUEUES; i++)
			(void)close(net->queues[i].fd);
		assert_int_equal(netlink_open(NETLINK_ROUTE, &nl), 0);
		assert_int_equal(link_get(nl, net->nic->ifname, &link), 0);
		netlink_free(nl);
		assert_int_equal(link.tun.queues, 0);
		assert_int_equal(link.tun.disabled_queues, 0);
		for (int i = 0; i < QUEUES; i++)
			net->queues[i] = lan_attach(net->nic->ifname, true);
		flows_are_spread_and_none_is_lost(state);
	}
}

TEST_SUITE(queues_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(flows_are_spread_and_none_is_lost),
		TEST(every_queue_is_heard),
		TEST(an_answer_comes_to_the_queue_that_asked),
		TEST(fewer_queues_than_asked_for),
		TEST(nobody_holds_a_queue_between_vmms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
