#include "svc-netd/nic_table.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	*state = nic_table_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	nic_table_free(*state);
	return 0;
}

static struct ip ip_of(const char *text)
{
	struct ip ip;

	assert_int_equal(ip_parse("", text, &ip, NULL), 0);
	return ip;
}

/* host "" for every address */
static struct nic *nic_new(
        const char *ifname, const char *host, uint8_t protocol, uint16_t port, const char *guest)
{
	struct nic *nic = calloc(1, sizeof(*nic));
	struct publication p = { .protocol = protocol,
		.any = !*host,
		.host_port = port,
		.guest = ip_of(guest),
		.guest_port = 80 };
	struct element e;

	assert_non_null(nic);
	(void)snprintf(nic->ifname, sizeof(nic->ifname), "%s", ifname);
	(void)snprintf(nic->owner.instance_id, sizeof(nic->owner.instance_id), "instance of %s", ifname);
	memcpy(nic->owner.mac.bytes, nic->ifname, sizeof(nic->owner.mac.bytes));
	if (*host)
		p.host = ip_of(host);
	e = element_nic(SET_NICS, ifname);
	elements_add(&nic->elements, &e);
	e = element_publication(&p);
	if (port)
		elements_add(&nic->elements, &e);
	assert_int_equal(elements_finish(&nic->elements), 0);
	return nic;
}

static int put(struct nic_table *table, struct nic *nic, struct err *err)
{
	struct nic *old = NULL;
	int r = nic_table_put(table, nic, &old, err);

	nic_free(old);
	return r;
}

static void one_entry_a_name(void **state)
{
	struct nic_table *table = *state;
	struct nic **list, *nic, *old = NULL;
	size_t n;

	for (int i = 99; i >= 0; i--) {
		char name[IFNAME_MAX];

		(void)snprintf(name, sizeof(name), "nic%02d", i);
		assert_int_equal(put(table, nic_new(name, "", IPPROTO_TCP, 0, "10.0.0.1"), NULL), 0);
	}
	nic = nic_new("nic50", "", IPPROTO_TCP, 0, "10.0.0.1");
	nic->ifindex = 7;
	assert_int_equal(nic_table_put(table, nic, &old, NULL), 0);
	assert_non_null(old);
	nic_free(old);
	assert_int_equal(nic_table_count(table), 100);
	nic = nic_table_get(table, "nic50");
	assert_int_equal(nic->ifindex, 7);
	nic_free(nic);
	nic = nic_table_get_index(table, 7);
	assert_string_equal(nic->ifname, "nic50");
	nic_free(nic);
	assert_null(nic_table_get(table, "nic5"));
	assert_int_equal(nic_table_list(table, &list, &n), 0);
	assert_int_equal(n, 100);
	for (size_t i = 1; i < n; i++)
		assert_true(strcmp(list[i - 1]->ifname, list[i]->ifname) < 0);
	nic_list_free(list, n);
	for (int i = 0; i < 2; i++) {
		nic = nic_table_take(table, "nic50");
		assert_int_equal(nic != NULL, i == 0);
		nic_free(nic);
	}
	assert_int_equal(nic_table_count(table), 99);
}

static void a_port_has_one_holder(void **state)
{
	static const struct {
		const char *host;
		uint8_t protocol;
		uint16_t port;
		const char *guest;
		bool free;
	} others[] = {
		{ "", IPPROTO_TCP, 8080, "10.0.0.9", false },
		{ "192.0.2.1", IPPROTO_TCP, 8080, "10.0.0.9", false },
		{ "", IPPROTO_UDP, 8080, "10.0.0.9", true },
		{ "", IPPROTO_TCP, 8081, "10.0.0.9", true },
		{ "", IPPROTO_TCP, 8080, "fd00::9", true }, /* IPv6 has ports of its own */
		{ "", IPPROTO_TCP, 9090, "10.0.0.9", false },
		{ "192.0.2.1", IPPROTO_TCP, 9090, "10.0.0.9", false },
		{ "192.0.2.2", IPPROTO_TCP, 9090, "10.0.0.9", true },
	};
	struct nic_table *table = *state;

	assert_int_equal(put(table, nic_new("a", "", IPPROTO_TCP, 8080, "10.0.0.5"), NULL), 0);
	assert_int_equal(put(table, nic_new("b", "192.0.2.1", IPPROTO_TCP, 9090, "10.0.0.6"), NULL), 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct err err = { 0 };
		int r = put(table,
		        nic_new("c", others[i].host, others[i].protocol, others[i].port, others[i].guest),
		        &err);

		assert_int_equal(r, others[i].free ? 0 : -EEXIST);
		if (r < 0) {
			assert_non_null(
			        strstr(err.text, others[i].port == 8080 ? "instance of a" : "instance of b"));
			assert_null(nic_table_get(table, "c"));
		} else {
			nic_free(nic_table_take(table, "c"));
		}
	}
	/* One's own is no conflict, and what is released is free. */
	assert_int_equal(put(table, nic_new("a", "192.0.2.1", IPPROTO_TCP, 8080, "10.0.0.5"), NULL), 0);
	nic_free(nic_table_take(table, "a"));
	assert_int_equal(put(table, nic_new("c", "", IPPROTO_TCP, 8080, "10.0.0.9"), NULL), 0);
}

static void a_mac_has_one_holder_on_a_bridge(void **state)
{
	static const struct {
		const char *ifname, *master;
		uint8_t last; /* byte of the MAC */
		enum nic_state holder;
		bool free;
	} cases[] = {
		{ "b", "br0", 1, NIC_READY, false }, { "b", "br0", 1, NIC_PREPARING, false },
		{ "b", "br0", 1, NIC_ORPHAN, true }, /* rules alone: on no bridge */
		{ "b", "br0", 2, NIC_READY, true }, { "b", "br1", 1, NIC_READY, true },
		{ "a", "br0", 1, NIC_READY, true }, /* itself, anew */
	};
	struct nic_table *table = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nic *holder = nic_new("a", "", IPPROTO_TCP, 0, "10.0.0.1");
		struct nic *nic = nic_new(cases[i].ifname, "", IPPROTO_TCP, 0, "10.0.0.2");
		struct err err = { 0 };
		int r;

		holder->state = cases[i].holder;
		holder->owner.index = 3;
		holder->owner.mac = (struct mac){ { 2, 0, 0, 0, 0, 1 } };
		(void)strcpy(holder->owner.master, "br0");
		nic->owner.mac = (struct mac){ { 2, 0, 0, 0, 0, cases[i].last } };
		(void)strcpy(nic->owner.master, cases[i].master);
		assert_int_equal(put(table, holder, NULL), 0);
		r = put(table, nic, &err);
		assert_int_equal(r, cases[i].free ? 0 : -EEXIST);
		if (r < 0)
			assert_string_equal(err.text,
			        "MAC 02:00:00:00:00:01 is held on 'br0' by NIC 3 of instance instance of a (a)");
		nic_free(nic_table_take(table, "a"));
		nic = nic_table_take(table, "b");
		assert_int_equal(nic != NULL, cases[i].free && cases[i].ifname[0] == 'b');
		nic_free(nic);
	}
}

static void ports_in_words(void **state)
{
	struct publication p = {
		.protocol = IPPROTO_TCP, .any = true, .host_port = 80, .guest = ip_of("10.0.0.1")
	};
	char text[PORT_TEXT_MAX];

	(void)state;
	publication_text(&p, text);
	assert_string_equal(text, "tcp *:80");
	p.any = false;
	p.host = ip_of("192.0.2.1");
	publication_text(&p, text);
	assert_string_equal(text, "tcp 192.0.2.1:80");
	p.protocol = IPPROTO_UDP;
	p.host = ip_of("2001:db8::1");
	publication_text(&p, text);
	assert_string_equal(text, "udp [2001:db8::1]:80");
}

TEST_SUITE(nic_table_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_entry_a_name, setup, teardown),
		cmocka_unit_test_setup_teardown(a_port_has_one_holder, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mac_has_one_holder_on_a_bridge, setup, teardown),
		cmocka_unit_test(ports_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
