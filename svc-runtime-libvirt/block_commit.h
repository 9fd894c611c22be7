/* Writes the layer that a running guest's disk is on into the file below it, and puts the guest back on that one. */
#pragma once

#include "lib/base/err.h"
#include "svc-runtime-libvirt/ending.h"

#include <libvirt/libvirt.h>
#include <stdint.h>

/* target is the disk's name in the guest ("vda"), below the path of the file below the layer: nothing deeper is ever
 * written. One that a call before this began is gone on with. -ETIMEDOUT, and -EAGAIN once ending (may be NULL) has begun,
 * leave the job running: call again; -EPIPE when the guest ended meanwhile. Blocks; libvirt's events must run on another
 * thread. */
int block_commit_active(virConnectPtr conn, virDomainPtr domain, const char *target, const char *below,
        uint64_t timeout_usec, const struct ending *ending, struct err *err);
