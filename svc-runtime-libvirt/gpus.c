#include "svc-runtime-libvirt/gpus.h"

#include "lib/vfio/gpu.h"
#include "lib/vfio/vfio.h"

#include <errno.h>
#include <string.h>

/* "Not there" and "not now" are both a state of the host that may change. */
static int as_busy(int r, struct err *err)
{
	if (r != -ENODEV)
		return r;
	if (err)
		err->code = -EBUSY;
	return -EBUSY;
}

bool gpus_unresolved(const struct domain_def *def)
{
	for (size_t i = 0; i < def->n_gpus; i++)
		if (!def->gpus[i].address.text[0])
			return true;
	return false;
}

int gpus_resolve(struct domain_def *def, const struct gpu_paths *paths, struct err *err)
{
	CLEANUP(gpu_memory) struct gpu_memory *memory = NULL;
	int r = gpu_memory_open(paths->memory, &memory, err);

	for (size_t i = 0; r == 0 && i < def->n_gpus; i++)
		if (!def->gpus[i].address.text[0])
			r = gpu_find(def->gpus[i].uuid, NULL, paths->sysfs, paths->driver_tree, memory,
			        &def->gpus[i].address, err);
	return as_busy(r, err);
}

/* A process that cannot be looked into is no reason to refuse: then the unbind tells. */
static int check_holders(const struct domain_gpu *gpu, const struct gpu_paths *paths, struct err *err)
{
	struct gpu_holder holders[GPU_HOLDERS_MAX];
	bool complete;
	size_t n;

	int r = gpu_holders(paths->proc, paths->driver_tree, &gpu->address, holders, &n, &complete);
	return r < 0 ? 0 : gpu_holders_check(gpu->uuid, holders, n, err);
}

int gpus_check(const struct domain_def *def, const struct gpu_paths *paths, struct err *err)
{
	const struct vfio_host host = { .sysfs = paths->sysfs };
	struct pci_address addresses[DOMAIN_GPUS_MAX];

	if (def->n_gpus == 0)
		return 0;
	for (size_t i = 0; i < def->n_gpus; i++)
		addresses[i] = def->gpus[i].address;
	int r = vfio_check(&host, addresses, def->n_gpus, NULL, err);
	for (size_t i = 0; r == 0 && i < def->n_gpus; i++)
		r = check_holders(&def->gpus[i], paths, err);
	return as_busy(r, err);
}
