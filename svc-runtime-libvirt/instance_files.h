/* The directory of an instance and the files in it but what QEMU and the console write. For pool threads.
 *
 *   allocation     whose files these are: written first, so that a directory without it is not ours, and one of another
 *                  allocation is known for a left-over
 *   disk.qcow2     the root disk; seed.iso, nvram.fd
 *   completed      a mark, and so is stopping: what was said of a run outlives this process
 *
 * Every file appears whole or not at all, so a call that is repeated after a crash goes on where it ended. */
#pragma once

#include "lib/seed/seed.h"
#include "svc-runtime-libvirt/domain_def.h"
#include "svc-runtime-libvirt/instance_path.h"

#include <sys/types.h>

struct ending;
struct instance_restore;

struct instance_files_conf {
	const char *instances_dir; /* weak, as the next */
	const char *firmware_vars; /* template of a UEFI variable store; NULL: none */
	gid_t vmm_gid;             /* (gid_t)-1: as it comes */
	/* As root: the data directory, below which QEMU, a user we are not, is let through to its files. NULL: groups do
	 * that. */
	const char *open_below;
	const struct ending *ending; /* weak; what takes long is broken off then, with -EAGAIN; NULL: never */
	/* Where libvirt writes a log per domain that nobody rotates or removes; NULL: a libvirtd sees to its own. */
	const char *vmm_log_dir;
};

/* What a call made, so that its caller can take it back. */
struct instance_files_made {
	bool dir, disk, seed, nvram;
	bool renewed;    /* the seed was written over */
	int old_seed_fd; /* owned, once renewed: the one before */
};

/* Makes what def names and what is not there. A seed that is there is made to say what seed says, and keeps its user data
 * when seed has none (NULL); with seed NULL, or out of a snapshot, it stays as it is. restore NULL: nothing comes out of a snapshot. Files of another allocation, which no domain uses any more
 * (known says that one does), are removed first. On failure nothing of this call is left. */
int instance_files_make(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct seed *seed, const struct instance_restore *restore, bool known,
        struct instance_files_made *ret, struct err *err);
/* Consumes what made owns, as the next. */
void instance_files_undo(const struct instance_files_conf *conf, const struct domain_def *def,
        struct instance_files_made *made);
void instance_files_made_done(struct instance_files_made *made);
/* Lets QEMU search its way to every file that def names below the data directory, see open_below. */
int instance_files_open_way(
        const struct instance_files_conf *conf, const struct domain_def *def, struct err *err);
/* Forgets what a run before said of itself. */
void instance_files_begin_run(const struct instance_files_conf *conf, const char *id);
/* It was told to stop: whoever finds QEMU ended, perhaps another process than this, knows that it is no crash. */
void instance_files_mark_stop(const struct instance_files_conf *conf, const char *id);
void instance_files_forget_stop(const struct instance_files_conf *conf, const char *id);
/* The root disk has the size that def wishes, or gets it. Only while no VM has it open. */
int instance_files_grow(
        const struct instance_files_conf *conf, const struct domain_def *def, struct err *err);
/* Everything, QEMU's log too, but only of a directory that is ours. *ret_existed tells whether there was one. */
int instance_files_remove(
        const struct instance_files_conf *conf, const char *id, bool *ret_existed, struct err *err);
