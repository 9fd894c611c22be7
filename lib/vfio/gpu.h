/* From a GPU's UUID to its PCI address, and who on this host still holds it.
 *
 * While the vendor's driver has the GPU, the driver's own tree tells its address (proc_gpus is
 * "/proc/driver/nvidia/gpus"). Once it is on vfio-pci that tree no longer knows it, so each address found is
 * remembered in a small JSON file, and believed as long as a display device on vfio-pci is there. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/vfio/pci.h"

#include <stddef.h>
#include <sys/types.h>

enum {
	GPU_UUID_MAX = 64,    /* bytes with the NUL: "GPU-" and a UUID */
	GPU_MEMORY_MAX = 256, /* GPUs remembered */
	GPU_HOLDERS_MAX = 8,
};
#define GPU_PROC_GPUS "/proc/driver/nvidia/gpus"

struct gpu_memory;

/* Reads the file; a missing one is empty. -EINVAL for one that is not ours: it is not overwritten. */
int gpu_memory_open(const char *path, struct gpu_memory **ret, struct err *err);
struct gpu_memory *gpu_memory_free(struct gpu_memory *memory);
CLEANUP_DEFINE(gpu_memory, gpu_memory_free)
/* NULL when it is not known. Weak. */
const struct pci_address *gpu_memory_get(const struct gpu_memory *memory, const char *uuid);
/* Remembers and writes the file, atomically; a former GPU of the same address is forgotten. */
int gpu_memory_put(
        struct gpu_memory *memory, const char *uuid, const struct pci_address *address, struct err *err);

/* stated is the address that the node's spec gives, or "". In this order: stated, the driver's tree, memory. What
 * the tree says is remembered. -ENODEV with the reason when the GPU has no address; an instance of it fails. */
int gpu_find(const char *uuid, const char *stated, const char *sysfs, const char *proc_gpus,
        struct gpu_memory *memory, struct pci_address *ret, struct err *err);

struct gpu_holder {
	pid_t pid;
	char name[17]; /* comm */
};

/* Processes that hold the driver's device node of the GPU open, at most GPU_HOLDERS_MAX of them. proc is "/proc".
 * *ret_complete is false when some process could not be looked into: then none found does not mean none. */
int gpu_holders(const char *proc, const char *proc_gpus, const struct pci_address *address,
        struct gpu_holder ret[static GPU_HOLDERS_MAX], size_t *ret_n, bool *ret_complete);
/* -EBUSY naming them; with nvidia-persistenced among them, how to make it let go. n may be 0: fine. */
int gpu_holders_check(const char *uuid, const struct gpu_holder *holders, size_t n, struct err *err);
