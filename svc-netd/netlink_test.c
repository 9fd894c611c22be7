#include "svc-netd/netlink.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cmocka.h>

static int on_answer(const struct nlmsghdr *message, void *userdata)
{
	(void)message;
	++*(int *)userdata;
	return 0;
}

static int ask_links(struct netlink *nl, int *ret_n)
{
	char buffer[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);

	*ret_n = 0;
	h->nlmsg_type = RTM_GETLINK;
	h->nlmsg_flags = NLM_F_DUMP;
	(void)mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
	return netlink_query(nl, h, on_answer, ret_n);
}

static void a_socket_is_used_again(void **state)
{
	struct netlink_pool *pool = netlink_pool_new(NETLINK_ROUTE);
	struct netlink *first, *second;
	uint32_t portid;
	int n;

	(void)state;
	assert_non_null(pool);
	assert_int_equal(netlink_pool_take(pool, &first), 0);
	assert_int_equal(netlink_pool_take(pool, &second), 0);
	assert_int_not_equal(netlink_portid(first), netlink_portid(second));
	portid = netlink_portid(first);
	assert_int_equal(ask_links(first, &n), 0);
	assert_true(n > 0);
	netlink_free(first);
	assert_int_equal(netlink_pool_take(pool, &first), 0);
	assert_int_equal(netlink_portid(first), portid);
	assert_int_equal(ask_links(first, &n), 0);
	netlink_free(first);
	netlink_free(second);
	netlink_pool_free(pool);
}

/* An answer that comes late must not be taken for another's. */
static void one_that_waits_for_an_answer_is_not(void **state)
{
	struct netlink_pool *pool = netlink_pool_new(NETLINK_ROUTE);
	struct timeval limit = { .tv_usec = 1000 }; /* runs out */
	char buffer[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct netlink *nl;
	int n;

	(void)state;
	assert_int_equal(netlink_pool_take(pool, &nl), 0);
	assert_int_equal(setsockopt(netlink_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	/* The kernel does not answer that. */
	h->nlmsg_type = NLMSG_NOOP;
	assert_int_equal(netlink_query(nl, h, on_answer, &n), -ETIMEDOUT);
	netlink_free(nl);
	/* A new one has the usual patience. */
	assert_int_equal(netlink_pool_take(pool, &nl), 0);
	{
		socklen_t size = sizeof(limit);

		assert_int_equal(getsockopt(netlink_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &limit, &size), 0);
		assert_true(limit.tv_sec > 0);
	}
	assert_int_equal(ask_links(nl, &n), 0);
	netlink_free(nl);
	netlink_pool_free(pool);
}

TEST_SUITE(netlink_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_is_used_again),
		cmocka_unit_test(one_that_waits_for_an_answer_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
