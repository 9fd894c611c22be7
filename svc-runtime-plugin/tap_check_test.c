#include "svc-runtime-plugin/tap_check.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Interfaces whose name ends in 'u' are in use, in 'i' idle. */
static enum tap_use use_by_name(const char *name)
{
	char last = name[strlen(name) - 1];

	return last == 'u' ? TAP_USED : last == 'i' ? TAP_IDLE : TAP_ABSENT;
}

enum { NICS_MAX = 3 };

struct request {
	Bc__V1__EnsureRequest ensure;
	Bc__V1__InstanceSpec spec;
	Bc__V1__Nic nics[NICS_MAX], *nic_pointers[NICS_MAX];
	Bc__V1__PreparedNic prepared[NICS_MAX], *prepared_pointers[NICS_MAX];
};

static void request_init(struct request *r, size_t n, char *const taps[])
{
	bc__v1__ensure_request__init(&r->ensure);
	bc__v1__instance_spec__init(&r->spec);
	r->ensure.spec = &r->spec;
	r->ensure.n_nics = r->spec.n_nics = n;
	r->ensure.nics = r->prepared_pointers;
	r->spec.nics = r->nic_pointers;
	for (size_t i = 0; i < n; i++) {
		bc__v1__nic__init(&r->nics[i]);
		bc__v1__prepared_nic__init(&r->prepared[i]);
		r->nics[i].attachment_case =
		        taps[i][0] ? BC__V1__NIC__ATTACHMENT_BRIDGE : BC__V1__NIC__ATTACHMENT_USER;
		r->nic_pointers[i] = &r->nics[i];
		r->prepared[i].interface = taps[i];
		r->prepared_pointers[i] = &r->prepared[i];
	}
}

struct check {
	char *prepared[NICS_MAX];
	char *told[NICS_MAX];
	Bc__V1__Nic__Policy policy;
	bool ssh_from_host_only;
	const char *reason, *words; /* NULL: it is well */
};

static void interfaces_are_judged(void **state)
{
	static const struct check CHECKS[] = {
		{ .prepared = { 0 } },
		{ .prepared = { (char *)"t0" } },
		{ .prepared = { (char *)"t0" }, .told = { (char *)"t0" } },
		{ .prepared = { (char *)"t0" },
		        .told = { (char *)"t0", (char *)"eth0" },
		        .reason = "TapNotPrepared",
		        .words = "uses interface eth0" },
		{ .told = { (char *)"eth0" }, .reason = "TapNotPrepared", .words = "uses interface eth0" },
		/* an empty name is no interface */
		{ .prepared = { (char *)"" },
		        .told = { (char *)"t1" },
		        .reason = "TapNotPrepared",
		        .words = "t1" },
		{ .prepared = { (char *)"t0u" }, .policy = BC__V1__NIC__POLICY__PRIVATE },
		{ .prepared = { (char *)"t0i", (char *)"t1u" }, .policy = BC__V1__NIC__POLICY__NONE },
		{ .prepared = { (char *)"t0i", (char *)"t1" },
		        .policy = BC__V1__NIC__POLICY__NONE,
		        .reason = "TapMissing",
		        .words = "did not use taps t0i, t1: its network rules cannot apply" },
		{ .prepared = { (char *)"t0" },
		        .policy = BC__V1__NIC__POLICY__PRIVATE,
		        .reason = "TapMissing",
		        .words = "did not create taps t0: its network rules cannot apply" },
		{ .prepared = { (char *)"t0" },
		        .ssh_from_host_only = true,
		        .reason = "TapMissing",
		        .words = "did not create taps t0" },
		/* what is prepared is used, and more: the rules hold for a part only */
		{ .prepared = { (char *)"t0u" },
		        .told = { (char *)"t0u", (char *)"eth0" },
		        .policy = BC__V1__NIC__POLICY__PRIVATE,
		        .reason = "TapNotPrepared",
		        .words = "eth0" },
		/* nothing filters user mode */
		{ .prepared = { (char *)"" }, .ssh_from_host_only = true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CHECKS) / sizeof(CHECKS[0]); i++) {
		Bc__V1__PluginDomain domain = BC__V1__PLUGIN_DOMAIN__INIT;
		struct check check = CHECKS[i];
		struct request r = { 0 };
		const char *reason = NULL;
		struct err err = { 0 };
		size_t n = 0;

		while (n < NICS_MAX && check.prepared[n])
			n++;
		request_init(&r, n, check.prepared);
		r.spec.ssh_from_host_only = check.ssh_from_host_only;
		for (size_t k = 0; k < n; k++)
			r.nics[k].policy = check.policy;
		domain.taps = check.told;
		while (domain.n_taps < NICS_MAX && check.told[domain.n_taps])
			domain.n_taps++;
		int got = tap_check("x", &r.ensure, &domain, use_by_name, &reason, &err);
		if ((got == 0) != !check.reason)
			fail_msg("check %zu: %d %s", i, got, err.text);
		if (check.reason && (strcmp(reason, check.reason) != 0 || !strstr(err.text, check.words)))
			fail_msg("check %zu: %s: %s", i, reason, err.text);
	}
}

static void without_a_record_every_interface_is_one_too_many(void **state)
{
	Bc__V1__PluginDomain domain = BC__V1__PLUGIN_DOMAIN__INIT;
	char *told[] = { (char *)"t0" };
	const char *reason = NULL;

	(void)state;
	assert_int_equal(tap_check("x", NULL, &domain, use_by_name, &reason, NULL), 0);
	domain.n_taps = 1;
	domain.taps = told;
	assert_int_equal(tap_check("x", NULL, &domain, use_by_name, &reason, NULL), -EPERM);
	assert_string_equal(reason, "TapNotPrepared");
}

static void the_kernel_is_asked(void **state)
{
	(void)state;
	assert_int_equal(tap_use("no-such-if"), TAP_ABSENT);
	assert_int_not_equal(tap_use("lo"), TAP_ABSENT);
}

TEST_SUITE(tap_check_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces_are_judged),
		cmocka_unit_test(without_a_record_every_interface_is_one_too_many),
		cmocka_unit_test(the_kernel_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
