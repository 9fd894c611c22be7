/* Snapshots of an instance, taken while it runs or is off, in calls that block: for pool threads.
 *
 * Of a running one libvirt saves the memory and, in the same moment, puts a layer over the root disk. From then on the
 * guest runs on the layer and the disk below stands still: it goes into the tar at leisure. Then the layer is committed
 * and gone. A crash anywhere leaves a domain on its layer: domain_op_settle() ends what was begun. */
#pragma once

#include "lib/base/sha256.h"
#include "lib/image/sparse_copy.h"
#include "svc-runtime-libvirt/instance_files.h"

#include <libvirt/libvirt.h>

#define SNAPSHOT_DISK_NAME "disk.qcow2" /* in the tar, as the next */
#define SNAPSHOT_SEED_NAME "seed.iso"
#define SNAPSHOT_NVRAM_NAME "nvram.fd"
#define SNAPSHOT_MEMORY_NAME "memory" /* libvirt's save image */

struct snapshot_take {
	bool with_memory;
	const char *path;      /* of the tar; must not exist; weak, as the next */
	const char *runtime;   /* this runtime's id */
	const char *cpu_model; /* that guests run on */
	const char *hypervisor_version;
	progress_fn
	        progress; /* of what is read into the tar; a negative return ends the snapshot; may be NULL */
	void *userdata;
	/* out */
	char digest[SHA256_DIGEST_MAX];
	uint64_t bytes;
};

/* -EBUSY with the reason for what cannot be taken now (lib/snapshot/meta.h has the rules); -ENOENT, -EACCES. Whatever
 * comes, the guest goes on as it was and no file is left but a finished tar. */
int domain_op_snapshot(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        struct snapshot_take *take, struct err *err);

/* Commits the layer that a snapshot left behind, of a domain that runs or is off, and removes its files. Nothing to do
 * is 0 too; -EAGAIN when the service ends meanwhile. Must come before a start, and after this service was killed. */
int domain_op_settle(
        virConnectPtr conn, const char *id, const struct instance_files_conf *files, struct err *err);
/* A definition whose root disk is such a layer. */
bool domain_is_unsettled(const struct domain_def *def);
