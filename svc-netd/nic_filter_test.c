#include "svc-netd/nic_filter.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define NIC "bc0123456789n0"

static const struct mac mac = { { 0x52, 0x54, 0, 0, 0, 0x0a } };

static void prefix_add(struct nic_filter *filter, const char *text)
{
	assert_int_equal(ip_parse_prefix("", text, &filter->prefixes[filter->n_prefixes++], NULL), 0);
}

static struct elements elements_of(const struct nic_filter *filter)
{
	struct elements elements = { 0 };

	assert_int_equal(nic_filter_elements(NIC, &mac, filter, &elements, NULL), 0);
	assert_int_equal(elements_finish(&elements), 0);
	return elements;
}

static void a_public_nic_is_a_few_elements(void **state)
{
	struct nic_filter filter = { .n_addresses = 2 };
	struct elements elements;

	(void)state;
	assert_int_equal(ip_parse_cidr("", "10.0.0.5/24", &filter.addresses[0], NULL), 0);
	assert_int_equal(ip_parse_cidr("", "fd00::5/64", &filter.addresses[1], NULL), 0);
	elements = elements_of(&filter);
	/* name, MAC, one address, another and the link-local one */
	assert_int_equal(elements.n, 5);
	assert_int_equal(elements_count(&elements, SET_ADDRESSES6), 2);
	assert_int_equal(elements_policy(&elements), NIC_POLICY_PUBLIC);
	assert_true(elements_filtered(&elements));
	elements_done(&elements);
}

static void policies_are_told_apart(void **state)
{
	struct nic_filter filter = { 0 };

	(void)state;
	for (enum nic_policy policy = NIC_POLICY_PUBLIC; policy <= NIC_POLICY_NONE; policy++) {
		struct elements elements;

		filter.policy = policy;
		elements = elements_of(&filter);
		assert_int_equal(elements_policy(&elements), policy);
		elements_done(&elements);
	}
}

static void without_a_filter(void **state)
{
	struct elements elements = elements_of(NULL);

	(void)state;
	assert_int_equal(elements.n, 2);
	assert_false(elements_filtered(&elements));
	elements_done(&elements);
}

static void link_local_address_of_a_mac(void **state)
{
	struct ip ip = ip_link_local(&mac), expected;

	(void)state;
	assert_int_equal(ip_parse("", "fe80::5054:ff:fe00:a", &expected, NULL), 0);
	assert_true(ip_equal(&ip, &expected));
}

/* The networks that prefix becomes, as text, in order. */
static void expect_peers(const char *prefix, const char *const *expected, size_t n_expected)
{
	struct nic_filter filter = { .policy = NIC_POLICY_PRIVATE };
	struct elements elements;
	size_t n = 0;

	prefix_add(&filter, prefix);
	elements = elements_of(&filter);
	for (size_t i = 0; i < elements.n; i++) {
		char text[IP_TEXT_MAX];
		struct ip ip;

		if (elements.items[i].set < SET_PEERS4 || elements.items[i].set > SET_PEERS6_LAST)
			continue;
		element_ip(&elements.items[i], &ip);
		ip_format_cidr(&ip, text);
		assert_true(n < n_expected);
		assert_string_equal(text, expected[n]);
		n++;
	}
	assert_int_equal(n, n_expected);
	elements_done(&elements);
}

static void prefixes_are_cut_to_lengths_with_a_set(void **state)
{
	(void)state;
	expect_peers("10.0.0.0/8", (const char *[]){ "10.0.0.0/8" }, 1);
	expect_peers("0.0.0.0/0", (const char *[]){ "0.0.0.0/0" }, 1);
	expect_peers("192.0.2.1/32", (const char *[]){ "192.0.2.1/32" }, 1);
	expect_peers("172.16.0.0/14",
	        (const char *[]){ "172.16.0.0/16", "172.17.0.0/16", "172.18.0.0/16", "172.19.0.0/16" }, 4);
	expect_peers("192.0.2.254/31", (const char *[]){ "192.0.2.254/32", "192.0.2.255/32" }, 2);
	expect_peers("::/0", (const char *[]){ "::/0" }, 1);
	expect_peers("fc00::/7", (const char *[]){ "fc00::/8", "fd00::/8" }, 2);
	expect_peers("2001:db8::1/128", (const char *[]){ "2001:db8::1/128" }, 1);
	expect_peers("2001:db8:fffc::/46",
	        (const char *[]){ "2001:db8:fffc::/48", "2001:db8:fffd::/48", "2001:db8:fffe::/48",
	                "2001:db8:ffff::/48" },
	        4);
}

static void a_prefix_is_its_parts_and_no_more(void **state)
{
	(void)state;
	for (unsigned n_bits = 0; n_bits <= 32; n_bits++) {
		struct nic_filter filter = { .policy = NIC_POLICY_PRIVATE, .n_prefixes = 1 };
		struct ip ip = {
			.family = AF_INET, .bytes = { 0xaa, 0xaa, 0xaa, 0xaa }, .n_bits = (uint8_t)n_bits
		};
		struct elements elements;
		double size = 0;

		filter.prefixes[0] = ip_network(&ip);
		elements = elements_of(&filter);
		for (size_t i = 0; i < elements.n; i++) {
			struct ip part;

			if (elements.items[i].set < SET_PEERS4 || elements.items[i].set > SET_PEERS4_LAST)
				continue;
			element_ip(&elements.items[i], &part);
			assert_true(ip_contains(&filter.prefixes[0], &part));
			size += 1.0 / (double)(UINT64_C(1) << part.n_bits);
		}
		/* Powers of two, so exact. */
		assert_true(size == 1.0 / (double)(UINT64_C(1) << n_bits));
		elements_done(&elements);
	}
}

static void too_much_is_refused(void **state)
{
	struct nic_filter filter = { .policy = NIC_POLICY_PRIVATE };
	struct elements elements = { 0 };
	struct err err = { 0 };

	(void)state;
	for (int i = 0; i < NIC_PREFIXES_MAX; i++) {
		struct ip *ip = &filter.prefixes[filter.n_prefixes++];

		*ip = (struct ip){ .family = AF_INET6, .n_bits = 57 };
		ip->bytes[0] = 0xfd;
		ip->bytes[1] = (uint8_t)i;
	}
	assert_int_equal(nic_filter_elements(NIC, &mac, &filter, &elements, &err), -E2BIG);
	assert_non_null(strstr(err.text, "more than 8192"));
	elements_done(&elements);
}

TEST_SUITE(nic_filter_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_public_nic_is_a_few_elements),
		cmocka_unit_test(policies_are_told_apart),
		cmocka_unit_test(without_a_filter),
		cmocka_unit_test(link_local_address_of_a_mac),
		cmocka_unit_test(prefixes_are_cut_to_lengths_with_a_set),
		cmocka_unit_test(a_prefix_is_its_parts_and_no_more),
		cmocka_unit_test(too_much_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
