/* Hosts made up in a directory. */
#include "cli/doctor_host.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/tree.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void put(void **state, const char *name, const char *text, mode_t mode)
{
	char path[300], parent[300];

	(void)snprintf(path, sizeof(path), "%s%s", (const char *)*state, name);
	(void)snprintf(parent, sizeof(parent), "%s", path);
	assert_int_equal(mkdir_p(dirname(parent), 0755), 0);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), mode), 0);
}

static void look(void **state, bool libvirt, bool ch, struct findings *ret)
{
	const struct doctor_host host = { .root = *state,
		.path = "/bin:/usr/bin",
		.data_dir = "/data",
		.run_dir = "/run/bc",
		.runs_libvirt = libvirt,
		.runs_ch = ch };

	findings_done(ret);
	doctor_host_check(&host, ret);
}

static const struct finding *find(const struct findings *findings, const char *what)
{
	for (size_t i = 0; i < findings->n; i++)
		if (strcmp(findings->items[i].what, what) == 0)
			return &findings->items[i];
	return NULL;
}

static void check(const struct findings *findings, const char *what, enum finding_level level)
{
	const struct finding *finding = find(findings, what);

	if (!finding)
		fail_msg("nothing is said of %s", what);
	if (finding->level != level)
		fail_msg("%s: %s %s", what, finding_level_text(finding->level), finding->detail);
	/* Whoever is told that something is missing is told how to mend it. */
	assert_int_equal(finding->mend[0] != '\0', level != FINDING_OK);
}

static void an_empty_host_lacks_everything(void **state)
{
	struct findings findings = { 0 };

	look(state, false, false, &findings);
	check(&findings, "KVM", FINDING_WARN);
	check(&findings, "QEMU", FINDING_WARN);
	check(&findings, "vhost-net", FINDING_WARN);
	check(&findings, "TAP", FINDING_FAIL);
	check(&findings, "bridges", FINDING_WARN);
	check(&findings, "forwarding", FINDING_WARN);
	check(&findings, "memory", FINDING_WARN);
	check(&findings, "cgroups", FINDING_WARN);
	check(&findings, "pressure", FINDING_WARN);
	check(&findings, "BTF", FINDING_WARN);
	check(&findings, "IOMMU", FINDING_OK);
	check(&findings, "systemd", FINDING_WARN);
	check(&findings, "users", FINDING_WARN);
	check(&findings, "data", FINDING_WARN);
	assert_null(find(&findings, "cloud-hypervisor"));
	assert_int_equal(findings_worst(&findings), FINDING_FAIL);
	findings_done(&findings);
}

static void what_a_runtime_here_needs_weighs_more(void **state)
{
	struct findings findings = { 0 };

	look(state, true, true, &findings);
	check(&findings, "QEMU", FINDING_FAIL);
	check(&findings, "cloud-hypervisor", FINDING_WARN);
	check(&findings, "systemd", FINDING_FAIL);
	findings_done(&findings);
}

static void a_full_host_lacks_nothing(void **state)
{
	struct findings findings = { 0 };

	put(state, "/proc/cpuinfo", "flags\t\t: fpu vmx sse\n", 0444);
	put(state, "/dev/kvm", "", 0666);
	put(state, "/dev/vhost-net", "", 0666);
	put(state, "/dev/net/tun", "", 0666);
	put(state, "/usr/bin/qemu-system-x86_64", "", 0755);
	put(state, "/usr/bin/cloud-hypervisor", "", 0755);
	put(state, "/sys/class/net/br0/bridge/bridge_id", "", 0444);
	put(state, "/sys/class/net/eth0/address", "", 0444);
	put(state, "/proc/sys/net/ipv4/ip_forward", "1\n", 0644);
	put(state, "/proc/meminfo", "MemTotal: 1 kB\nMemAvailable: 1 kB\n", 0444);
	put(state, "/sys/fs/cgroup/cgroup.controllers", "", 0444);
	put(state, "/proc/pressure/memory", "", 0444);
	put(state, "/sys/kernel/btf/vmlinux", "", 0444);
	put(state, "/sys/kernel/iommu_groups/0/type", "", 0444);
	put(state, "/sys/bus/pci/drivers/vfio-pci/new_id", "", 0200);
	put(state, "/run/systemd/system/x", "", 0444);
	put(state, "/etc/passwd", "root:x:0:0::/:/bin/sh\nbc:x:900:900::/:/bin/false\n", 0644);
	put(state, "/data/x", "", 0644);
	look(state, true, true, &findings);
	for (size_t i = 0; i < findings.n; i++)
		if (strcmp(findings.items[i].what, "data") != 0) /* which is on this machine's disk */
			check(&findings, findings.items[i].what, FINDING_OK);
	assert_string_equal(find(&findings, "bridges")->detail, "br0");
	findings_done(&findings);
}

static void a_device_without_the_flag_is_no_kvm(void **state)
{
	struct findings findings = { 0 };

	put(state, "/proc/cpuinfo", "flags\t\t: fpu sse\n", 0444);
	put(state, "/dev/kvm", "", 0666);
	look(state, false, false, &findings);
	check(&findings, "KVM", FINDING_WARN);
	assert_non_null(strstr(find(&findings, "KVM")->detail, "neither vmx nor svm"));
	findings_done(&findings);
}

static void a_manifest_without_a_socket_is_told(void **state)
{
	struct findings findings = { 0 };

	put(state, "/etc/bc/plugins/serves.conf", "[plugin]\n", 0644);
	put(state, "/etc/bc/plugins/sleeps.conf", "[plugin]\n", 0644);
	put(state, "/etc/bc/plugins/README", "", 0644);
	put(state, "/run/bc/runtime-serves.sock", "", 0660);
	look(state, false, false, &findings);
	check(&findings, "plugin", FINDING_WARN);
	assert_string_equal(
	        find(&findings, "plugin")->mend, "systemctl enable --now bc-runtime-plugin@sleeps.socket");
	for (size_t i = 0; i < findings.n; i++)
		assert_null(strstr(findings.items[i].detail, "serves"));
	findings_done(&findings);
}

static void an_iommu_without_vfio_is_told(void **state)
{
	struct findings findings = { 0 };

	put(state, "/sys/kernel/iommu_groups/0/type", "", 0444);
	look(state, false, false, &findings);
	check(&findings, "IOMMU", FINDING_WARN);
	findings_done(&findings);
}

TEST_SUITE(doctor_host_test)
{
#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)
	const struct CMUnitTest tests[] = {
		SANDBOXED(an_empty_host_lacks_everything),
		SANDBOXED(what_a_runtime_here_needs_weighs_more),
		SANDBOXED(a_full_host_lacks_nothing),
		SANDBOXED(a_device_without_the_flag_is_no_kvm),
		SANDBOXED(a_manifest_without_a_socket_is_told),
		SANDBOXED(an_iommu_without_vfio_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
