#include "lib/base/ip.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

typedef int (*parse_fn)(const char *what, const char *s, struct ip *ret, struct err *err);

static void refused(parse_fn parse, const char *const *texts)
{
	for (; *texts; texts++) {
		struct err err = { 0 };
		struct ip ip;

		if (parse("addresses[0]", *texts, &ip, &err) != -EINVAL)
			fail_msg("'%s' should be refused", *texts);
		assert_memory_equal(err.text, "addresses[0]: '", 15);
	}
}

static void ip_takes_one_spelling(void **state)
{
	char text[IP_TEXT_MAX];
	struct ip ip;

	(void)state;
	assert_int_equal(ip_parse("a", "192.0.2.7", &ip, NULL), 0);
	assert_int_equal(ip.family, AF_INET);
	assert_int_equal(ip.n_bits, 32);
	assert_int_equal(ip_parse("a", "2001:DB8:0::7", &ip, NULL), 0);
	assert_int_equal(ip.family, AF_INET6);
	ip_format(&ip, text);
	assert_string_equal(text, "2001:db8::7");
	ip_format_cidr(&ip, text);
	assert_string_equal(text, "2001:db8::7/128");
	refused(ip_parse,
	        (const char *const[]){ "", "192.0.2", "192.0.2.07", "0x7f.1", "192.0.2.7/24", "192.0.2.7:80",
	                "[2001:db8::7]", "fe80::1%eth0", "192.0.2.7 ", " 192.0.2.7", "host.example",
	                "192.0.2.256", "1:2:3:4:5:6:7:8:9", NULL });
}

static void cidr_needs_a_prefix_length_in_range(void **state)
{
	char text[IP_TEXT_MAX];
	struct ip ip;

	(void)state;
	assert_int_equal(ip_parse_cidr("a", "192.0.2.7/24", &ip, NULL), 0);
	ip_format_cidr(&ip, text);
	assert_string_equal(text, "192.0.2.7/24");
	assert_int_equal(ip_parse_cidr("a", "0.0.0.0/0", &ip, NULL), 0);
	assert_int_equal(ip_parse_cidr("a", "2001:db8::7/128", &ip, NULL), 0);
	refused(ip_parse_cidr,
	        (const char *const[]){ "192.0.2.7", "192.0.2.7/", "192.0.2.7/33", "192.0.2.7/024",
	                "192.0.2.7/-1", "192.0.2.7/+1", "192.0.2.7/ 1", "192.0.2.7/24x", "192.0.2.7/24/24",
	                "2001:db8::/129", "2001:db8::/0128", "/24", "192.0.2.7/255.255.255.0",
	                "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111/64", NULL });
}

static void prefix_refuses_host_bits_and_says_the_network(void **state)
{
	struct err err = { 0 };
	struct ip ip;

	(void)state;
	assert_int_equal(ip_parse_prefix("p", "10.0.0.0/8", &ip, NULL), 0);
	assert_int_equal(ip_parse_prefix("p", "10.0.0.1/32", &ip, NULL), 0);
	assert_int_equal(ip_parse_prefix("p", "2001:db8:8000::/33", &ip, NULL), 0);
	assert_int_equal(ip_parse_prefix("p", "10.1.2.3/12", &ip, &err), -EINVAL);
	assert_string_equal(err.text, "p: '10.1.2.3/12' has host bits set; the network is 10.0.0.0/12");
	assert_int_equal(ip_parse_prefix("p", "2001:db8:c000::/33", &ip, NULL), -EINVAL);
}

static struct ip cidr(const char *text)
{
	struct ip ip;

	assert_int_equal(ip_parse_cidr("t", text, &ip, NULL), 0);
	return ip;
}

static bool contains(const char *network, const char *other)
{
	struct ip a = cidr(network), b = cidr(other);

	return ip_contains(&a, &b);
}

static void containment(void **state)
{
	(void)state;
	assert_true(contains("10.0.0.0/8", "10.255.0.1/32"));
	assert_true(contains("10.0.0.7/8", "10.0.0.0/8"));
	assert_true(contains("0.0.0.0/0", "192.0.2.1/32"));
	assert_false(contains("10.0.0.0/8", "11.0.0.0/32"));
	assert_false(contains("10.0.0.0/8", "0.0.0.0/0"));
	assert_false(contains("::/0", "10.0.0.0/8"));
	assert_true(contains("2001:db8::/47", "2001:db8:1::1/128"));
	assert_false(contains("2001:db8::/47", "2001:db8:2::1/128"));
}

static bool is_loopback(const char *text)
{
	struct ip ip;

	assert_int_equal(ip_parse("test", text, &ip, NULL), 0);
	return ip_is_loopback(&ip);
}

static bool is_host(const char *text)
{
	struct ip ip;

	assert_int_equal(ip_parse("t", text, &ip, NULL), 0);
	return ip_is_host(&ip);
}

static void host_addresses(void **state)
{
	(void)state;
	assert_true(is_loopback("127.0.0.1"));
	assert_true(is_loopback("127.255.255.254"));
	assert_true(is_loopback("::1"));
	assert_false(is_loopback("128.0.0.1"));
	assert_false(is_loopback("::"));
	assert_false(is_loopback("::ffff:127.0.0.1"));
	assert_true(is_host("192.0.2.1"));
	assert_true(is_host("169.254.0.1"));
	assert_true(is_host("fe80::1"));
	assert_false(is_host("0.0.0.0"));
	assert_false(is_host("0.1.2.3"));
	assert_false(is_host("127.0.0.1"));
	assert_false(is_host("224.0.0.1"));
	assert_false(is_host("255.255.255.255"));
	assert_false(is_host("::"));
	assert_false(is_host("::1"));
	assert_false(is_host("ff02::1"));
}

TEST_SUITE(ip_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ip_takes_one_spelling),
		cmocka_unit_test(cidr_needs_a_prefix_length_in_range),
		cmocka_unit_test(prefix_refuses_host_bits_and_says_the_network),
		cmocka_unit_test(containment),
		cmocka_unit_test(host_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
