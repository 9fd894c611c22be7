/* The GPUs of an instance, on this host. These read sysfs and /proc, which can hang with a driver: for pool threads. */
#pragma once

#include "svc-runtime-libvirt/domain_def.h"

/* All weak. */
struct gpu_paths {
	const char *sysfs;       /* "/sys", or a tree of a test, as the next two */
	const char *proc;        /* "/proc" */
	const char *driver_tree; /* "/proc/driver/nvidia/gpus" */
	const char *memory;      /* file of addresses found earlier */
};

/* Is there one whose address nobody has stated? */
bool gpus_unresolved(const struct domain_def *def);
/* Finds those addresses. -EBUSY with the reason when there is none. One at a time: it may write the memory. */
int gpus_resolve(struct domain_def *def, const struct gpu_paths *paths, struct err *err);
/* Can they be given to the guest now? -EBUSY names all that is in the way: no IOMMU, devices of the host in the same
 * group, processes that hold a GPU open. Nothing is changed: libvirt binds and unbinds them. */
int gpus_check(const struct domain_def *def, const struct gpu_paths *paths, struct err *err);
