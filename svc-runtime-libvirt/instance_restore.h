/* The files of a new instance, out of a snapshot: its disk on our base image, its seed and variable store as they were,
 * and the memory, which waits for the first start (domain_restore.h). For pool threads. */
#pragma once

#include "lib/snapshot/meta.h"
#include "svc-runtime-libvirt/instance_files.h"

/* All weak. */
struct instance_restore {
	const char *path; /* of a verified tar */
	bool with_memory;
	const char *runtime;   /* this runtime's id */
	const char *cpu_model; /* that guests here run on */
};

/* Checks and extracts. Is what def was restored from already, then nothing is done; a call that a crash ended is begun
 * anew. -EBUSY for a snapshot that cannot become this instance, -EINVAL for a tar that is none of ours. What was
 * extracted when it fails is gone again. */
int instance_restore(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct instance_restore *restore, struct err *err);
/* Its files came from a snapshot: the seed in it is kept. */
bool instance_is_restored(const struct instance_files_conf *conf, const char *id);
