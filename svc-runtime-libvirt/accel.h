/* Whether guests of this host run under KVM. The device node alone does not tell: a nested one can be there, and open,
 * on a machine whose CPUs have no virtualisation for it, and a guest hangs in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum accel_wish { ACCEL_AUTO, ACCEL_KVM, ACCEL_TCG };

/* What this host has, as far as can be seen without libvirt. cpuinfo is the text of /proc/cpuinfo. Returns whether KVM
 * may be used; reason gets why not, for a person, or "". */
bool accel_host_has_kvm(const char *kvm_path, const char *cpuinfo, char *reason, size_t n_reason);
