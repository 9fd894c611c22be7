#include "svc-runtime-libvirt/accel.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* A word of the first CPU's "flags" line. */
static bool has_flag(const char *cpuinfo, const char *flag)
{
	const char *line = strstr(cpuinfo, "\nflags");
	size_t n_flag = strlen(flag);

	if (!line)
		return false;
	const char *end = strchr(line + 1, '\n');
	for (const char *at = line; (at = strstr(at, flag)) && (!end || at < end); at += n_flag)
		if (at[-1] == ' ' && (at[n_flag] == ' ' || at[n_flag] == '\n' || at[n_flag] == '\0'))
			return true;
	return false;
}

bool accel_host_has_kvm(const char *kvm_path, const char *cpuinfo, char *reason, size_t n_reason)
{
	CLEANUP_CLOSE int fd = open(kvm_path, O_RDWR | O_CLOEXEC);
	int error = errno;

	reason[0] = '\0';
	/* libvirtd and QEMU may use what this user may not */
	if (fd < 0 && error != EACCES) {
		(void)snprintf(reason, n_reason, "%s: %s", kvm_path, strerror(error));
		return false;
	}
	if (!has_flag(cpuinfo, "vmx") && !has_flag(cpuinfo, "svm")) {
		(void)snprintf(reason, n_reason, "the CPUs show neither vmx nor svm");
		return false;
	}
	return true;
}
