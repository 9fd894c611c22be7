#include "lib/net/port_map.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* An instance with NICs of the kinds written in text: b bridge, m macvtap, u user, - none. */
struct fixture {
	Bc__V1__InstanceSpec spec;
	Bc__V1__Nic nics[8];
	Bc__V1__Nic *pointers[8];
};

static void fixture_init(struct fixture *f, const char *kinds)
{
	bc__v1__instance_spec__init(&f->spec);
	f->spec.nics = f->pointers;
	for (size_t i = 0; kinds[i]; i++) {
		bc__v1__nic__init(&f->nics[i]);
		f->nics[i].attachment_case = kinds[i] == 'b' ? BC__V1__NIC__ATTACHMENT_BRIDGE
		        : kinds[i] == 'm'                    ? BC__V1__NIC__ATTACHMENT_MACVTAP
		        : kinds[i] == 'u'                    ? BC__V1__NIC__ATTACHMENT_USER
		                                             : BC__V1__NIC__ATTACHMENT__NOT_SET;
		f->pointers[i] = &f->nics[i];
		f->spec.n_nics++;
	}
}

static void a_mapping_takes_the_first_nic_that_can(void **state)
{
	static const struct {
		const char *kinds;
		int pin;  /* -1: unset */
		int want; /* -1: refused */
	} TABLE[] = {
		{ "", -1, -1 },
		{ "m", -1, -1 },
		{ "b", -1, 0 },
		{ "u", -1, 0 },
		{ "bu", -1, 1 },
		{ "mbbu", -1, 3 },
		{ "mbb", -1, 1 },
		{ "uu", -1, 0 },
		{ "bu", 0, 0 }, /* unset and 0 are not the same */
		{ "bu", 1, 1 },
		{ "bm", 1, -1 },
		{ "b", 1, -1 },
		{ "", 0, -1 },
		{ "b-", 1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct fixture f;
		Bc__V1__PortMapping mapping = BC__V1__PORT_MAPPING__INIT;
		struct err err = { 0 };
		uint32_t nic = 99;

		fixture_init(&f, TABLE[i].kinds);
		if (TABLE[i].pin >= 0) {
			mapping.nic_case = BC__V1__PORT_MAPPING__NIC_NIC_INDEX;
			mapping.nic_index = (uint32_t)TABLE[i].pin;
		}
		int r = port_map_resolve(&f.spec, &mapping, &nic, &err);

		if (TABLE[i].want < 0) {
			assert_int_equal(r, -EINVAL);
			assert_true(err.text[0]);
			assert_int_equal(nic, 99);
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(nic, TABLE[i].want);
		}
	}
}

static void ports_overlap_when_one_socket_could_not_have_both(void **state)
{
	enum {
		U = BC__V1__PORT_MAPPING__PROTOCOL__PROTOCOL_UNSPECIFIED,
		T = BC__V1__PORT_MAPPING__PROTOCOL__TCP,
		D = BC__V1__PORT_MAPPING__PROTOCOL__UDP
	};
	static const struct {
		int a_protocol;
		const char *a;
		uint32_t a_port;
		int b_protocol;
		const char *b;
		uint32_t b_port;
		bool want;
	} TABLE[] = {
		{ T, "", 80, T, "", 80, true },
		{ U, "", 80, T, "", 80, true },
		{ T, "", 80, D, "", 80, false },
		{ T, "", 80, T, "", 81, false },
		{ T, "", 80, T, "192.0.2.1", 80, true },
		{ T, "192.0.2.1", 80, T, "192.0.2.1", 80, true },
		{ T, "192.0.2.1", 80, T, "192.0.2.2", 80, false },
		{ T, "2001:db8::1", 80, T, "2001:db8:0::0:1", 80, true },
		{ T, "2001:db8::1", 80, T, "192.0.2.1", 80, false },
		{ D, "2001:db8::1", 80, D, "", 80, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		Bc__V1__PortMapping a = BC__V1__PORT_MAPPING__INIT, b = BC__V1__PORT_MAPPING__INIT;

		a.protocol = (Bc__V1__PortMapping__Protocol)TABLE[i].a_protocol;
		a.host_address = (char *)TABLE[i].a;
		a.host_port = TABLE[i].a_port;
		b.protocol = (Bc__V1__PortMapping__Protocol)TABLE[i].b_protocol;
		b.host_address = (char *)TABLE[i].b;
		b.host_port = TABLE[i].b_port;
		assert_int_equal(port_map_overlaps(&a, &b), TABLE[i].want);
		assert_int_equal(port_map_overlaps(&b, &a), TABLE[i].want);
	}
}

static void two_are_equal_that_publish_the_same(void **state)
{
	static const struct {
		const char *address;
		uint32_t host_port, guest_port;
		Bc__V1__PortMapping__Protocol protocol;
		bool is_equal;
	} TABLE[] = {
		{ "2001:db8::1", 80, 8080, BC__V1__PORT_MAPPING__PROTOCOL__TCP, true },
		{ "2001:DB8:0::1", 80, 8080, 0, true },
		{ "2001:db8::2", 80, 8080, 0, false },
		{ "", 80, 8080, 0, false },
		{ "2001:db8::1", 81, 8080, 0, false },
		{ "2001:db8::1", 80, 8081, 0, false },
		{ "2001:db8::1", 80, 8080, BC__V1__PORT_MAPPING__PROTOCOL__UDP, false },
	};
	Bc__V1__PortMapping one = BC__V1__PORT_MAPPING__INIT;

	(void)state;
	one.host_address = (char *)"2001:db8::1";
	one.host_port = 80;
	one.guest_port = 8080;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		Bc__V1__PortMapping other = BC__V1__PORT_MAPPING__INIT;

		other.host_address = (char *)(uintptr_t)TABLE[i].address;
		other.host_port = TABLE[i].host_port;
		other.guest_port = TABLE[i].guest_port;
		other.protocol = TABLE[i].protocol;
		assert_int_equal(port_map_equal(&one, &other), TABLE[i].is_equal);
		assert_int_equal(port_map_equal(&other, &one), TABLE[i].is_equal);
	}
	one.host_address = (char *)"";
	assert_true(port_map_equal(&one, &one));
}

static void the_text_says_protocol_address_and_port(void **state)
{
	char buf[PORT_MAP_TEXT_MAX];
	Bc__V1__PortMapping m = BC__V1__PORT_MAPPING__INIT;

	(void)state;
	m.host_port = 53;
	assert_string_equal(port_map_text(&m, buf, sizeof(buf)), "tcp *:53");
	m.protocol = BC__V1__PORT_MAPPING__PROTOCOL__UDP;
	m.host_address = (char *)"192.0.2.1";
	assert_string_equal(port_map_text(&m, buf, sizeof(buf)), "udp 192.0.2.1:53");
	m.host_address = (char *)"2001:db8::1";
	assert_string_equal(port_map_text(&m, buf, sizeof(buf)), "udp [2001:db8::1]:53");
}

static void loopback_leads_to_user_mode_nics_only(void **state)
{
	static const char *const ADDRESSES[] = { "127.0.0.1", "127.8.8.8", "::1" };

	(void)state;
	for (size_t i = 0; i < sizeof(ADDRESSES) / sizeof(ADDRESSES[0]); i++) {
		struct fixture f;
		Bc__V1__PortMapping mapping = BC__V1__PORT_MAPPING__INIT;
		struct err err = { 0 };
		uint32_t nic = 99;

		mapping.host_address = (char *)(uintptr_t)ADDRESSES[i];
		fixture_init(&f, "b");
		assert_int_equal(port_map_resolve(&f.spec, &mapping, &nic, &err), -EINVAL);
		assert_non_null(strstr(err.text, ADDRESSES[i]));
		assert_int_equal(nic, 99);
		fixture_init(&f, "bu");
		assert_int_equal(port_map_resolve(&f.spec, &mapping, &nic, &err), 0);
		assert_int_equal(nic, 1);
		mapping.nic_case = BC__V1__PORT_MAPPING__NIC_NIC_INDEX;
		mapping.nic_index = 0;
		assert_int_equal(port_map_resolve(&f.spec, &mapping, &nic, &err), -EINVAL);
		mapping.host_address = (char *)"192.0.2.7";
		assert_int_equal(port_map_resolve(&f.spec, &mapping, &nic, &err), 0);
		assert_int_equal(nic, 0);
	}
}

TEST_SUITE(port_map_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_takes_the_first_nic_that_can),
		cmocka_unit_test(loopback_leads_to_user_mode_nics_only),
		cmocka_unit_test(ports_overlap_when_one_socket_could_not_have_both),
		cmocka_unit_test(two_are_equal_that_publish_the_same),
		cmocka_unit_test(the_text_says_protocol_address_and_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
