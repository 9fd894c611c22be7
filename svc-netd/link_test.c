/* In a network namespace of its own. */
#include "svc-netd/link.h"

#include "svc-netd/netlink.h"
#include "svc-netd/reaper.h"
#include "svc-netd/tap.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NAME "bc0123456789n0"

static int setup(void **state)
{
	return unshare(CLONE_NEWNET) == 0 && netlink_open(NETLINK_ROUTE, (struct netlink **)state) == 0 ? 0
	                                                                                                : -1;
}

static int teardown(void **state)
{
	netlink_free(*state);
	return 0;
}

static int tap_new(struct netlink *nl, const char *name, bool multi_queue, int *ret_ifindex)
{
	struct err err = { 0 };
	int fd = -1;

	if (tap_create(TUN_PATH, name, multi_queue, &fd, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(tap_ifindex(netlink_fd(nl), name, ret_ifindex), 0);
	return fd;
}

static void a_tap_goes_with_its_descriptor_until_it_is_kept(void **state)
{
	struct link link;
	int ifindex, fd = tap_new(*state, NAME, false, &ifindex);

	assert_int_equal(tap_set_owner(fd, 64055, 64056), 0);
	assert_int_equal(link_get(*state, NAME, &link), 0);
	assert_int_equal(link.ifindex, ifindex);
	assert_true(link_is_tap(&link) && link_in_use(&link) && link.tun.vnet_hdr);
	assert_false(link.tun.persist || link.tun.multi_queue);
	assert_int_equal(link.tun.owner, 64055);
	assert_int_equal(link.tun.group, 64056);
	(void)close(fd);
	assert_int_equal(link_get(*state, NAME, &link), -ENODEV);
	fd = tap_new(*state, NAME, true, &ifindex);
	assert_int_equal(tap_persist(fd), 0);
	(void)close(fd);
	assert_int_equal(link_get(*state, NAME, &link), 0);
	assert_true(link.tun.persist && link.tun.multi_queue);
	assert_false(link_in_use(&link));
}

static void names_are_refused_not_changed(void **state)
{
	static const char *const names[] = { "bc0123456789n%d", "sixteen-letters-", "", "a/b", "a b" };
	struct link link;
	int fd;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		/* Not even tried: the path does not exist. */
		assert_int_equal(tap_create("/nonexistent", names[i], false, &fd, NULL), -EINVAL);
	}
	assert_int_equal(link_get(*state, "bc0123456789n0", &link), -ENODEV);
	assert_int_equal(tap_create("/nonexistent", NAME, false, &fd, NULL), -ENOENT);
}

static void one_that_is_there_is_not_attached_to(void **state)
{
	int ifindex, fd = tap_new(*state, NAME, false, &ifindex), other;

	(void)state;
	assert_int_equal(tap_create(TUN_PATH, NAME, false, &other, NULL), -EEXIST);
	assert_int_equal(tap_create(TUN_PATH, NAME, true, &other, NULL), -EEXIST);
	assert_int_equal(tap_create(TUN_PATH, "lo", false, &other, NULL), -EEXIST);
	(void)close(fd);
}

static void an_alias_is_whole_or_refused(void **state)
{
	struct mac mac = { { 0xfe, 1, 2, 3, 4, 5 } };
	char alias[300];
	struct link_identity identity = {
		.alias = alias, .group = LINK_GROUP_OURS, .mtu_bytes = 1400, .mac = &mac
	};
	struct link link;
	int ifindex, fd = tap_new(*state, NAME, false, &ifindex);

	memset(alias, 'a', sizeof(alias));
	alias[256] = 0;
	assert_int_equal(link_identify(*state, ifindex, &identity), -ERANGE);
	assert_int_equal(link_get(*state, NAME, &link), 0);
	assert_string_equal(link.alias, "");
	alias[255] = 0;
	assert_int_equal(link_identify(*state, ifindex, &identity), 0);
	assert_int_equal(link_get(*state, NAME, &link), 0);
	assert_string_equal(link.alias, alias);
	(void)close(fd);
}

static void identity(void **state)
{
	struct mac mac = { { 0xfe, 1, 2, 3, 4, 5 } };
	struct link_identity identity = {
		.alias = "whose", .group = LINK_GROUP_OURS, .mtu_bytes = 1400, .mac = &mac
	};
	struct link link;
	int ifindex, fd = tap_new(*state, NAME, true, &ifindex);

	assert_int_equal(link_identify(*state, ifindex, &identity), 0);
	assert_int_equal(link_set_noqueue(*state, ifindex), 0);
	assert_int_equal(link_set_up(*state, ifindex), 0);
	assert_int_equal(link_get_index(*state, ifindex, &link), 0);
	assert_string_equal(link.alias, "whose");
	assert_int_equal(link.group, LINK_GROUP_OURS);
	assert_int_equal(link.mtu_bytes, 1400);
	assert_true(mac_equal(&link.mac, &mac));
	assert_int_equal(link.flags & (IFF_UP | IFF_NOARP), IFF_UP | IFF_NOARP);
	assert_int_equal(system("ip -6 addr show dev " NAME " | grep -q inet6"), 256);
	assert_int_equal(system("ip link show " NAME " | grep -q 'qdisc noqueue'"), 0);
	(void)close(fd);
}

static int count_links(const struct link *link, void *userdata)
{
	(void)link;
	++*(int *)userdata;
	return 0;
}

static void count_again(void *userdata)
{
	*(int *)userdata = 0;
}

static void doomed_ones_are_out_of_the_way_at_once(void **state)
{
	struct reaper *reaper = reaper_new();
	struct link link;
	int ifindex, n = 0;

	for (int i = 0; i < 70; i++) {
		int fd = tap_new(*state, NAME, i % 2, &ifindex);

		assert_int_equal(tap_persist(fd), 0);
		assert_int_equal(link_set_up(*state, ifindex), 0);
		/* One of them is in use by a VMM that has not ended. */
		if (i != 5)
			(void)close(fd);
		assert_int_equal(link_get(*state, NAME, &link), 0);
		assert_false(link_is_doomed(&link));
		assert_int_equal(reaper_doom(reaper, *state, &link), 0);
		assert_int_equal(link_get(*state, NAME, &link), -ENODEV);
		assert_int_equal(link_get_index(*state, ifindex, &link), 0);
		assert_true(link_is_doomed(&link));
	}
	assert_int_equal(reaper_pending(reaper), 70);
	/* One that somebody took for his own meanwhile is left alone. */
	assert_int_equal(
	        system("ip link set group default name mine dev $(ip -o link show | tail -1 | cut -d: -f2)"),
	        0);
	assert_int_equal(reaper_run(reaper, *state), 69);
	assert_int_equal(reaper_pending(reaper), 0);
	assert_int_equal(link_list(*state, count_links, count_again, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(link_get(*state, "mine", &link), 0);
	reaper_free(reaper);
}

static int keep_message(const struct nlmsghdr *message, void *userdata)
{
	memcpy(userdata, message, message->nlmsg_len);
	return 0;
}

static void a_message_cut_anywhere_does_no_harm(void **state)
{
	_Alignas(struct nlmsghdr) char whole[16384];
	struct nlmsghdr *h = (void *)whole;
	struct ifinfomsg *head;
	struct link link;
	int ifindex, fd = tap_new(*state, NAME, true, &ifindex);
	char request[256];

	h = mnl_nlmsg_put_header(request);
	h->nlmsg_type = RTM_GETLINK;
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->ifi_index = ifindex;
	assert_int_equal(netlink_query(*state, h, keep_message, whole), 0);
	h = (void *)whole;
	assert_int_equal(link_parse(h, &link), 0);
	for (uint32_t n = h->nlmsg_len; n-- > sizeof(*h);) {
		struct nlmsghdr *cut = malloc(n);

		memcpy(cut, whole, n);
		cut->nlmsg_len = n;
		(void)link_parse(cut, &link);
		free(cut);
	}
	h->nlmsg_len = sizeof(*h) + sizeof(*head);
	assert_int_equal(link_parse(h, &link), -EBADMSG);
	(void)close(fd);
}

static void refusals_have_the_kernels_words(void **state)
{
	int ifindex, fd = tap_new(*state, NAME, false, &ifindex);

	assert_int_equal(link_set_master(*state, ifindex, ifindex), -EOPNOTSUPP);
	assert_int_equal(link_set_master(*state, ifindex, 4000), -EINVAL);
	assert_int_equal(link_set_up(*state, 4000), -ENODEV);
	assert_int_equal(link_set_up(*state, ifindex), 0);
	assert_string_equal(netlink_words(*state), "");
	(void)close(fd);
}

TEST_SUITE(link_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        a_tap_goes_with_its_descriptor_until_it_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(names_are_refused_not_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_is_there_is_not_attached_to, setup, teardown),
		cmocka_unit_test_setup_teardown(an_alias_is_whole_or_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(identity, setup, teardown),
		cmocka_unit_test_setup_teardown(doomed_ones_are_out_of_the_way_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_message_cut_anywhere_does_no_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(refusals_have_the_kernels_words, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
