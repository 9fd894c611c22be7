#include "svc-netd/listener.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
	(void)state;
	return unshare(CLONE_NEWNET) == 0 &&
	                system("ip link set lo up; ip addr add 192.0.2.1/32 dev lo; ip addr add 2001:db8::1/128 dev lo nodad") ==
	                        0
	        ? 0
	        : -1;
}

static struct publication publish(uint8_t protocol, const char *host, const char *guest)
{
	struct publication p = { .protocol = protocol, .any = !host, .host_port = 8080, .guest_port = 80 };

	assert_int_equal(ip_parse("test", guest, &p.guest, NULL), 0);
	if (host)
		assert_int_equal(ip_parse("test", host, &p.host, NULL), 0);
	return p;
}

/* A socket of the kind, at address; it waits for others. */
static int listen_at(uint8_t protocol, const char *address, uint16_t port, bool v6_only)
{
	bool ip6 = strchr(address, ':');
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(ip6 ? AF_INET6 : AF_INET, protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0);
	int only = v6_only;

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(ip6 ? AF_INET6 : AF_INET, address,
	                         ip6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr),
	        1);
	if (ip6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
	assert_int_equal(bind(fd, ip6 ? (void *)&in6 : (void *)&in, ip6 ? sizeof(in6) : sizeof(in)), 0);
	if (protocol == IPPROTO_TCP)
		assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void whoever_would_hear_of_nobody_is_found(void **state)
{
	static const struct {
		const char *at;
		uint16_t port;
		bool v6_only;
		const char *host, *guest; /* what is published; NULL: at every address */
		bool found;
	} cases[] = {
		{ "0.0.0.0", 8080, false, NULL, "10.0.0.10", true },
		{ "0.0.0.0", 8080, false, "192.0.2.1", "10.0.0.10", true },
		{ "0.0.0.0", 8081, false, NULL, "10.0.0.10", false },
		{ "192.0.2.1", 8080, false, NULL, "10.0.0.10", true },
		{ "192.0.2.1", 8080, false, "192.0.2.1", "10.0.0.10", true },
		{ "192.0.2.1", 8080, false, "192.0.2.2", "10.0.0.10", false },
		{ "127.0.0.1", 8080, false, NULL, "10.0.0.10", false }, /* loopback is not published */
		{ "0.0.0.0", 8080, false, NULL, "fd00::10", false },
		{ "::", 8080, false, NULL, "10.0.0.10", true },
		{ "::", 8080, true, NULL, "10.0.0.10", false },
		{ "::", 8080, true, NULL, "fd00::10", true },
		{ "::", 8080, false, "2001:db8::1", "fd00::10", true },
		{ "2001:db8::1", 8080, false, NULL, "fd00::10", true },
		{ "2001:db8::1", 8080, false, NULL, "10.0.0.10", false },
		{ "::1", 8080, false, NULL, "fd00::10", false },
		{ "::ffff:192.0.2.1", 8080, false, NULL, "10.0.0.10", true },
		{ "::ffff:192.0.2.1", 8080, false, "192.0.2.1", "10.0.0.10", true },
	};
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases) * ARRAY_SIZE(protocols); i++) {
		size_t c = i / 2, which = 99;
		uint8_t protocol = protocols[i % 2], other = protocols[(i + 1) % 2];
		int fd = listen_at(protocol, cases[c].at, cases[c].port, cases[c].v6_only), r;
		/* Beside one of the other protocol, which is nobody's. */
		struct publication ports[] = { publish(other, cases[c].host, cases[c].guest),
			publish(protocol, cases[c].host, cases[c].guest) };
		struct listener listener = { 0 };

		r = listener_find(ports, ARRAY_SIZE(ports), &which, &listener);
		if (r != cases[c].found)
			fail_msg("%s:%u and %s to %s: %d", cases[c].at, cases[c].port,
			        cases[c].host ?: "every address", cases[c].guest, r);
		if (r == 1) {
			assert_int_equal(which, 1);
			assert_int_equal(listener.uid, getuid());
			assert_int_equal(listener.port, 8080);
		}
		(void)close(fd);
		assert_int_equal(listener_find(ports, ARRAY_SIZE(ports), &which, &listener), 0);
	}
}

/* Who only speaks with one other, and waits for nobody, has no port to lose. */
static void a_conversation_is_no_listener(void **state)
{
	struct publication port = publish(IPPROTO_UDP, NULL, "10.0.0.10");
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(53) };
	int fd = listen_at(IPPROTO_UDP, "192.0.2.1", 8080, false);
	struct listener listener;
	size_t which;

	(void)state;
	assert_int_equal(listener_find(&port, 1, &which, &listener), 1);
	assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &to.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listener_find(&port, 1, &which, &listener), 0);
	(void)close(fd);
}

static void in_words(void **state)
{
	char text[LISTENER_TEXT_MAX];
	struct listener listener = { .port = 80 };

	(void)state;
	assert_int_equal(ip_parse("test", "::", &listener.at, NULL), 0);
	listener_text(&listener, text);
	assert_string_equal(text, "[::]:80");
	assert_int_equal(ip_parse("test", "192.0.2.1", &listener.at, NULL), 0);
	listener_text(&listener, text);
	assert_string_equal(text, "192.0.2.1:80");
}

static void an_answer_cut_anywhere_does_no_harm(void **state)
{
	char buffer[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct inet_diag_msg *socket;
	struct listener listener;

	(void)state;
	h->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	socket = mnl_nlmsg_put_extra_header(h, sizeof(*socket));
	socket->idiag_family = AF_INET6;
	socket->id.idiag_sport = htons(8080);
	mnl_attr_put_u8(h, INET_DIAG_SKV6ONLY, 1);
	assert_int_equal(listener_parse(h, IPPROTO_TCP, &listener), 0);
	assert_false(listener.both);
	assert_int_equal(listener.port, 8080);
	for (uint32_t n = sizeof(*h); n < h->nlmsg_len; n++) {
		struct nlmsghdr *cut = malloc(n);

		memcpy(cut, h, n);
		cut->nlmsg_len = n;
		if (n < h->nlmsg_len - 4)
			assert_int_equal(listener_parse(cut, IPPROTO_TCP, &listener) == 0,
			        n % NLMSG_ALIGNTO == 0 && n >= sizeof(*h) + sizeof(*socket));
		free(cut);
	}
	socket->idiag_family = AF_UNIX;
	assert_int_equal(listener_parse(h, IPPROTO_TCP, &listener), -EBADMSG);
}

TEST_SUITE(listener_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_would_hear_of_nobody_is_found),
		cmocka_unit_test(a_conversation_is_no_listener),
		cmocka_unit_test(in_words),
		cmocka_unit_test(an_answer_cut_anywhere_does_no_harm),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
