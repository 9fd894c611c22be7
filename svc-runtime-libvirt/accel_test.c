#include "svc-runtime-libvirt/accel.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CPU(flags)                                                                                           \
	"processor\t: 0\nvendor_id\t: x\nflags\t\t: fpu vme " flags "\nbugs\t\t: vmx\n\nprocessor\t: 1\n"

static void kvm_needs_its_device_and_a_cpu_for_it(void **state)
{
	static const struct {
		const char *device, *cpuinfo;
		bool has;
		const char *why;
	} cases[] = {
		{ "/dev/null", CPU("vmx sse"), true, "" },
		{ "/dev/null", CPU("sse svm"), true, "" },
		/* a nested one opens, and a guest hangs in it */
		{ "/dev/null", CPU("sse"), false, "neither vmx nor svm" },
		/* words that only contain it, and other lines that do */
		{ "/dev/null", CPU("avmx vmxx svm_lock sse"), false, "neither vmx nor svm" },
		{ "/dev/null", "model name\t: vmx svm\n", false, "neither vmx nor svm" },
		{ "/dev/null", "", false, "neither vmx nor svm" },
		{ "/dev/null", "\nflags\t\t: vmx", true, "" },
		{ "/nowhere/kvm", CPU("vmx"), false, "/nowhere/kvm: No such file" },
	};
	char reason[160];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("case %zu\n", i);
		assert_int_equal(
		        accel_host_has_kvm(cases[i].device, cases[i].cpuinfo, reason, sizeof(reason)),
		        cases[i].has);
		assert_non_null(strstr(reason, cases[i].why));
		assert_int_equal(reason[0] == '\0', cases[i].has);
	}
}

TEST_SUITE(accel_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kvm_needs_its_device_and_a_cpu_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
