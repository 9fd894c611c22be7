/* What libvirt is asked to do to a domain, in calls that block: for pool threads. Only managed domains are touched: a
 * foreign one is -EACCES, one whose name or UUID stands in the way of ours is -EEXIST, named. */
#pragma once

#include "svc-runtime-libvirt/domain_xml.h"
#include "svc-runtime-libvirt/gpus.h"
#include "svc-runtime-libvirt/instance_restore.h"
#include "svc-runtime-libvirt/serial_tap.h"

#include <libvirt/libvirt.h>

/* Files first, then the definition; on failure what this call made is gone again. What is there already and the same
 * is left as it is; restore NULL, or used when there is no such domain yet. -EBUSY for what only a removal can change
 * (the allocation, the image). def is given what the guest took on since. */
int domain_op_ensure(virConnectPtr conn, struct domain_def *def, const struct domain_host *host,
        const struct instance_files_conf *files, const struct seed *seed,
        const struct instance_restore *restore, struct err *err);

struct domain_start {
	const struct instance_files_conf *files; /* weak, as the next */
	const struct gpu_paths *gpus;
	bool paused;       /* wanted in the end */
	struct loop *loop; /* weak */
	/* out */
	struct serial_tap *tap; /* owned; NULL when nothing was started, or the port cannot be had */
	uint64_t prepared_usec; /* monotonic, as the next: its files were ready */
	uint64_t started_usec;  /* 0: it ran already */
};
/* Starts it, or resumes or pauses what runs. The guest's first instruction comes after the tap is there. */
int domain_op_run(virConnectPtr conn, const char *id, struct domain_start *start, struct err *err);
/* Presses the power button. -ENOENT, or -EBUSY when the guest can hear no button (it is paused). */
int domain_op_press(virConnectPtr conn, const char *id, struct err *err);
/* Ends QEMU; an instance that is off already is 0. */
int domain_op_destroy(virConnectPtr conn, const char *id, struct err *err);
/* Ends and undefines it and removes its files. *ret_existed: there was any of that. */
int domain_op_remove(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        bool *ret_existed, struct err *err);
/* Opens the serial port of a running one. */
int domain_op_attach(
        virConnectPtr conn, const char *id, struct loop *loop, struct serial_tap **ret, struct err *err);
