#include "svc-netd/element.h"
#include "tests/harness/suite.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NIC "bc0123456789n0"

static struct ip ip_of(const char *text)
{
	struct ip ip;

	assert_int_equal(ip_parse("", text, &ip, NULL), 0);
	return ip;
}

static void every_set_is_described(void **state)
{
	(void)state;
	for (enum set_id id = 0; id < SET_COUNT; id++) {
		const struct set_info *info = set_info(id);

		assert_true(info->name[0]);
		assert_true(info->key_size > 0 && info->key_size <= ELEMENT_KEY_MAX);
		assert_true(info->data_size <= ELEMENT_DATA_MAX);
		assert_true(info->key_type);
		assert_int_equal(info->data_size != 0, info->data_type != 0);
		assert_int_equal(set_find(info->bridge, info->name), id);
	}
	assert_int_equal(set_find(true, "published4"), SET_COUNT);
	assert_int_equal(set_find(false, "nics"), SET_COUNT);
}

static void keys_are_as_the_kernel_compares_them(void **state)
{
	struct ip ip4 = ip_of("10.1.2.3"), ip6 = ip_of("fd00::5");
	struct mac mac = { { 0x52, 0x54, 0, 1, 2, 3 } };
	struct element e = element_nic_mac(SET_MACS, NIC, &mac);

	(void)state;
	assert_memory_equal(e.key, "bc0123456789n0\0\0\x52\x54\0\1\2\3\0\0", 24);
	assert_string_equal(element_ifname(&e), NIC);
	e = element_nic_ip(SET_ADDRESSES4, NIC, &ip4);
	assert_memory_equal(e.key, "bc0123456789n0\0\0\x0a\1\2\3", 20);
	e = element_nic_ip(SET_ADDRESSES6, NIC, &ip6);
	assert_memory_equal(e.key + 16, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5", 16);
	element_ip(&e, &ip6);
	assert_true(ip_equal(
	        &ip6, &(struct ip){ .family = AF_INET6, .bytes = { 0xfd, [15] = 5 }, .n_bits = 128 }));
}

static void publications_come_back(void **state)
{
	struct publication all[] = {
		{ IPPROTO_TCP, true, { 0 }, 8080, ip_of("10.0.0.5"), 80 },
		{ IPPROTO_UDP, false, ip_of("192.0.2.7"), 53, ip_of("10.0.0.5"), 5353 },
		{ IPPROTO_TCP, true, { 0 }, 65535, ip_of("fd00::5"), 1 },
		{ IPPROTO_TCP, false, ip_of("2001:db8::1"), 443, ip_of("fd00::5"), 8443 },
	};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct element e = element_publication(&all[i]);
		struct publication back;

		element_to_publication(&e, &back);
		assert_int_equal(back.protocol, all[i].protocol);
		assert_int_equal(back.any, all[i].any);
		assert_true(back.any || ip_equal(&back.host, &all[i].host));
		assert_int_equal(back.host_port, all[i].host_port);
		assert_true(ip_equal(&back.guest, &all[i].guest));
		assert_int_equal(back.guest_port, all[i].guest_port);
	}
}

static void add_ip(struct elements *elements, enum set_id set, const char *text)
{
	struct ip ip = ip_of(text);
	struct element e = element_nic_ip(set, NIC, &ip);

	elements_add(elements, &e);
}

static void difference_is_what_changes(void **state)
{
	struct elements from = { 0 }, to = { 0 }, gone, new;

	(void)state;
	add_ip(&from, SET_ADDRESSES4, "10.0.0.3");
	add_ip(&from, SET_ADDRESSES4, "10.0.0.1");
	add_ip(&from, SET_ADDRESSES4, "10.0.0.1");
	add_ip(&to, SET_ADDRESSES4, "10.0.0.2");
	add_ip(&to, SET_ADDRESSES4, "10.0.0.3");
	add_ip(&to, SET_ADDRESSES6, "fd00::1");
	assert_int_equal(elements_finish(&from), 0);
	assert_int_equal(elements_finish(&to), 0);
	assert_int_equal(from.n, 2);
	assert_int_equal(elements_diff(&from, &to, &gone, &new), 0);
	assert_int_equal(gone.n, 1);
	assert_int_equal(gone.items[0].key[19], 1);
	assert_int_equal(new.n, 2);
	assert_int_equal(elements_count(&new, SET_ADDRESSES6), 1);
	assert_false(elements_equal(&from, &to));
	elements_done(&gone);
	elements_done(&new);
	assert_int_equal(elements_diff(&to, &to, &gone, &new), 0);
	assert_int_equal(gone.n + new.n, 0);
	elements_done(&from);
	elements_done(&to);
}

static void a_changed_map_entry_goes_and_comes(void **state)
{
	struct publication p = { IPPROTO_TCP, true, { 0 }, 8080, ip_of("10.0.0.5"), 80 };
	struct element e = element_publication(&p);
	struct elements from = { 0 }, to = { 0 }, gone, new;

	(void)state;
	elements_add(&from, &e);
	p.guest_port = 81;
	e = element_publication(&p);
	elements_add(&to, &e);
	assert_int_equal(elements_diff(&from, &to, &gone, &new), 0);
	assert_int_equal(gone.n, 1);
	assert_int_equal(new.n, 1);
	elements_done(&gone);
	elements_done(&new);
	elements_done(&from);
	elements_done(&to);
}

TEST_SUITE(element_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_set_is_described),
		cmocka_unit_test(keys_are_as_the_kernel_compares_them),
		cmocka_unit_test(publications_come_back),
		cmocka_unit_test(difference_is_what_changes),
		cmocka_unit_test(a_changed_map_entry_goes_and_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
