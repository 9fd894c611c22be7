/* One look at a domain: what libvirt says of it now. Taken on a pool thread, handed to the loop as a whole. */
#pragma once

#include "svc-runtime-libvirt/domain_xml.h"

#include <libvirt/libvirt.h>

/* Where QEMU's pid is found, and what we noted of an instance. All weak. */
struct look_paths {
	const char *instances_dir; /* NULL: nothing is noted */
	const char *pid_dir;       /* libvirt's, with <name>.pid */
	const char *proc_dir;      /* "/proc", or a test's */
};

struct domain_look {
	char uuid[UUID_TEXT_MAX];
	uint64_t begun_usec, ended_usec; /* monotonic; it is true of a moment between */
	bool present;                    /* false: there is no such domain, and nothing below is set */
	int state, reason;               /* virDomainState and its reason */
	struct domain_record record;     /* of the running definition, or of the stored one */
	int64_t pid;                     /* of QEMU; 0: none, or unknown */
	uint64_t since_usec;             /* when that process began, since the epoch; 0: unknown */
	bool stop_noted;                 /* off, and we had told it to stop */
	char *cgroup;                    /* owned; below the cgroup root; NULL when unknown */
};

void domain_look_done(struct domain_look *look);

int domain_look_at(
        virDomainPtr domain, const struct look_paths *paths, struct domain_look *ret, struct err *err);
/* A domain that is not there is 0 with present false. */
int domain_look_up(virConnectPtr conn, const char *uuid, const struct look_paths *paths,
        struct domain_look *ret, struct err *err);
/* Every domain. *ret is owned by the caller, each look and the array. */
int domain_look_all(virConnectPtr conn, const struct look_paths *paths, struct domain_look **ret,
        size_t *ret_n, struct err *err);
