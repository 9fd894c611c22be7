/* Devices of a running guest that change while it runs: volumes that grow, and the rebind disk. For pool threads. */
#pragma once

#include "lib/base/secret.h"
#include "svc-runtime-libvirt/instance_files.h"

#include <libvirt/libvirt.h>

/* Makes the volume bytes large, file and guest, and *ret_bytes what it is then. As large already: nothing is done.
 * -EINVAL for no multiple of 512; -EBUSY, the file untouched, for less than it has; -ENOENT when the instance does not
 * have the volume. An instance that is off sees what the file has when it starts: -EBUSY when that is less. */
int domain_op_grow_volume(virConnectPtr conn, const char *id, const char *volume_id, uint64_t bytes,
        uint64_t *ret_bytes, struct err *err);

struct domain_rebind {
	const char *ref; /* weak, as all */
	struct secret *payload;
	uint64_t timeout_usec; /* for the guest to answer */
	int cancel_fd;         /* readable: give up; -EBADF: none */
};
/* Hot-adds the rebind disk, waits for the guest's word, takes the disk away again and records the identity. Whatever
 * comes, no disk of ours is left in the guest, unless it does not let go of it: then its payload is overwritten, and the
 * next call removes it first. */
int domain_op_rebind(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        const struct domain_rebind *rebind, struct err *err);
