#include "cli/doctor_host.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { FILE_MAX = 1 << 20 };

static const char *below(const struct doctor_host *host, const char *path, char buf[static PATH_MAX])
{
	(void)snprintf(buf, PATH_MAX, "%s%s", host->root, path);
	return buf;
}

static bool exists(const struct doctor_host *host, const char *path)
{
	char buf[PATH_MAX];

	return access(below(host, path, buf), F_OK) == 0;
}

/* The file's text, owned by the caller; NULL when it cannot be read. */
static char *text_read(const struct doctor_host *host, const char *path)
{
	char buf[PATH_MAX], *text = NULL;

	return file_read(AT_FDCWD, below(host, path, buf), FILE_MAX, &text, NULL) < 0 ? NULL : text;
}

static bool program_exists(const struct doctor_host *host, const char *name)
{
	char path[PATH_MAX], buf[PATH_MAX];

	for (const char *dir = host->path; dir && *dir; dir += strcspn(dir, ":"), dir += *dir == ':') {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(dir, ":"), dir, name);
		if (access(below(host, path, buf), X_OK) == 0)
			return true;
	}
	return false;
}

/* A directory with at least one entry. */
static bool has_entries(const struct doctor_host *host, const char *path)
{
	char buf[PATH_MAX];
	CLEANUP_CLOSEDIR DIR *dir = opendir(below(host, path, buf));
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			return true;
	return false;
}

static void kvm_check(const struct doctor_host *host, struct findings *findings)
{
	static const char MEND[] =
	        "enable VT-x or AMD-V in the firmware (or nested virtualisation), then modprobe "
	        "kvm_intel or kvm_amd";
	CLEANUP_FREE char *cpuinfo = text_read(host, "/proc/cpuinfo");
	bool flag = cpuinfo && (strstr(cpuinfo, " vmx") || strstr(cpuinfo, " svm"));
	bool device = exists(host, "/dev/kvm");

	if (flag && device)
		findings_add(findings, FINDING_OK, "KVM", NULL, "/dev/kvm, and the CPU has vmx or svm");
	else
		findings_add(findings, FINDING_WARN, "KVM", MEND,
		        "%s: guests run under TCG, many times slower",
		        !device ? "there is no /dev/kvm" : "the CPU shows neither vmx nor svm");
}

static void qemu_check(const struct doctor_host *host, struct findings *findings)
{
	enum finding_level level = host->runs_libvirt ? FINDING_FAIL : FINDING_WARN;

	if (program_exists(host, "qemu-system-x86_64"))
		findings_add(findings, FINDING_OK, "QEMU", NULL, "qemu-system-x86_64 is there");
	else
		findings_add(findings, level, "QEMU", "apt-get install qemu-system-x86",
		        "no qemu-system-x86_64 on PATH: libvirt-kvm can run nothing");
}

static void cloud_hypervisor_check(const struct doctor_host *host, struct findings *findings)
{
	if (program_exists(host, "cloud-hypervisor"))
		findings_add(findings, FINDING_OK, "cloud-hypervisor", NULL, "cloud-hypervisor is there");
	else if (host->runs_ch)
		findings_add(findings, FINDING_WARN, "cloud-hypervisor",
		        "put a release of cloud-hypervisor on the PATH of bc-runtime-ch",
		        "no cloud-hypervisor on PATH: the runtime of that name can run nothing");
}

static void vhost_check(const struct doctor_host *host, struct findings *findings)
{
	if (exists(host, "/dev/vhost-net"))
		findings_add(findings, FINDING_OK, "vhost-net", NULL, "/dev/vhost-net is there");
	else
		findings_add(findings, FINDING_WARN, "vhost-net", "modprobe vhost_net",
		        "no /dev/vhost-net: NICs with vhost: ON are refused");
	if (exists(host, "/dev/net/tun"))
		findings_add(findings, FINDING_OK, "TAP", NULL, "/dev/net/tun is there");
	else
		findings_add(findings, FINDING_FAIL, "TAP", "modprobe tun",
		        "no /dev/net/tun: no VM gets a NIC on a bridge");
}

static void bridges_check(const struct doctor_host *host, struct findings *findings)
{
	char buf[PATH_MAX], path[PATH_MAX], names[128] = "";
	CLEANUP_CLOSEDIR DIR *dir = opendir(below(host, "/sys/class/net", buf));
	const struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir)) && n < sizeof(names)) {
		(void)snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", entry->d_name);
		if (entry->d_name[0] == '.' || !exists(host, path))
			continue;
		int more = snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "", entry->d_name);

		n += more > 0 ? (size_t)more : 0;
	}
	if (n)
		findings_add(findings, FINDING_OK, "bridges", NULL, "%s", names);
	else
		findings_add(findings, FINDING_WARN, "bridges",
		        "make one (systemd-networkd, or 'ip link add br0 type bridge') and list it in netd.conf",
		        "this host has no bridge: NICs can only be macvtap or user-mode");
}

static void forwarding_check(const struct doctor_host *host, struct findings *findings)
{
	CLEANUP_FREE char *text = text_read(host, "/proc/sys/net/ipv4/ip_forward");

	if (text && text[0] == '1')
		findings_add(findings, FINDING_OK, "forwarding", NULL, "IPv4 is forwarded");
	else
		findings_add(findings, FINDING_WARN, "forwarding", "sysctl -w net.ipv4.ip_forward=1",
		        "IPv4 is not forwarded: ports published on bridge NICs are reached from this host only");
}

static void kernel_check(const struct doctor_host *host, struct findings *findings)
{
	if (exists(host, "/sys/fs/cgroup/cgroup.controllers"))
		findings_add(findings, FINDING_OK, "cgroups", NULL, "the unified tree is mounted");
	else
		findings_add(findings, FINDING_WARN, "cgroups",
		        "boot with systemd.unified_cgroup_hierarchy=1",
		        "no unified cgroup tree: telemetry lacks what it counts");
	if (exists(host, "/proc/pressure/memory"))
		findings_add(findings, FINDING_OK, "pressure", NULL, "the kernel tells memory stalls (PSI)");
	else
		findings_add(findings, FINDING_WARN, "pressure", "boot with psi=1",
		        "no /proc/pressure: balloons go by free memory alone");
	if (exists(host, "/sys/kernel/btf/vmlinux"))
		findings_add(findings, FINDING_OK, "BTF", NULL, "the kernel describes its types");
	else
		findings_add(findings, FINDING_WARN, "BTF", "use a kernel with CONFIG_DEBUG_INFO_BTF",
		        "no /sys/kernel/btf/vmlinux: bc-intelligence has no BPF telemetry");
}

static void memory_check(const struct doctor_host *host, struct findings *findings)
{
	CLEANUP_FREE char *text = text_read(host, "/proc/meminfo");

	if (text && strstr(text, "MemTotal:") && strstr(text, "MemAvailable:"))
		findings_add(findings, FINDING_OK, "memory", NULL, "/proc/meminfo can be read");
	else
		findings_add(findings, FINDING_WARN, "memory", "mount /proc",
		        "/proc/meminfo cannot be read: starts are admitted without a check");
}

static void iommu_check(const struct doctor_host *host, struct findings *findings)
{
	bool active = has_entries(host, "/sys/kernel/iommu_groups");

	if (!active)
		findings_add(findings, FINDING_OK, "IOMMU", NULL, "not active: no GPU is passed through");
	else if (exists(host, "/sys/bus/pci/drivers/vfio-pci"))
		findings_add(findings, FINDING_OK, "IOMMU", NULL, "active, and vfio-pci is loaded");
	else
		findings_add(findings, FINDING_WARN, "IOMMU", "modprobe vfio-pci",
		        "active, but vfio-pci is not loaded: no GPU can be passed through");
}

static void systemd_check(const struct doctor_host *host, struct findings *findings)
{
	if (exists(host, "/run/systemd/system"))
		findings_add(findings, FINDING_OK, "systemd", NULL, "it is the init of this host");
	else
		findings_add(findings, host->runs_ch ? FINDING_FAIL : FINDING_WARN, "systemd",
		        "run the services under systemd 247 or later",
		        "it is not the init of this host: cloud-hypervisor VMs need transient units");
}

static void users_check(const struct doctor_host *host, struct findings *findings)
{
	CLEANUP_FREE char *text = text_read(host, "/etc/passwd");
	bool known = text && (strncmp(text, "bc:", 3) == 0 || strstr(text, "\nbc:"));

	if (known)
		findings_add(findings, FINDING_OK, "users", NULL, "the user bc exists");
	else
		findings_add(findings, FINDING_WARN, "users", "systemd-sysusers /usr/lib/sysusers.d/bc.conf",
		        "there is no user bc: the units of this project cannot start");
}

static void disk_check(const struct doctor_host *host, struct findings *findings)
{
	char buf[PATH_MAX];
	struct statvfs fs;

	if (statvfs(below(host, host->data_dir, buf), &fs) < 0) {
		findings_add(findings, errno == ENOENT ? FINDING_WARN : FINDING_FAIL, "data",
		        "systemd-tmpfiles --create, or give --data-dir", "%s: %s", host->data_dir,
		        strerror(errno));
		return;
	}
	uint64_t percent = fs.f_blocks ? (uint64_t)fs.f_bavail * 100 / fs.f_blocks : 0;

	findings_add(findings,
	        percent < 1            ? FINDING_FAIL
	                : percent < 10 ? FINDING_WARN
	                               : FINDING_OK,
	        "data", "free space there, or grow the file system: images, disks and snapshots need it",
	        "%s is on a disk with %" PRIu64 "%% free", host->data_dir, percent);
}

/* A manifest is installed, and nobody serves its runtime. */
static void plugins_check(const struct doctor_host *host, struct findings *findings)
{
	static const char SUFFIX[] = ".conf";
	char buf[PATH_MAX], path[PATH_MAX], mend[128];
	CLEANUP_CLOSEDIR DIR *dir = opendir(below(host, "/etc/bc/plugins", buf));
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int n = (int)strlen(entry->d_name) - (int)strlen(SUFFIX);

		if (n <= 0 || n > 32 || strcmp(entry->d_name + n, SUFFIX) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/runtime-%.*s.sock", host->run_dir, n, entry->d_name);
		if (exists(host, path))
			continue;
		(void)snprintf(mend, sizeof(mend), "systemctl enable --now bc-runtime-plugin@%.*s.socket", n,
		        entry->d_name);
		findings_add(findings, FINDING_WARN, "plugin", mend,
		        "%.*s has a manifest in /etc/bc/plugins and no socket: no instance can name it", n,
		        entry->d_name);
	}
}

void doctor_host_check(const struct doctor_host *host, struct findings *findings)
{
	kvm_check(host, findings);
	qemu_check(host, findings);
	cloud_hypervisor_check(host, findings);
	vhost_check(host, findings);
	bridges_check(host, findings);
	forwarding_check(host, findings);
	memory_check(host, findings);
	kernel_check(host, findings);
	iommu_check(host, findings);
	systemd_check(host, findings);
	plugins_check(host, findings);
	users_check(host, findings);
	disk_check(host, findings);
}
