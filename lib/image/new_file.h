/* A large file that appears whole or not at all: written under a temporary name beside its target, fsynced,
 * renamed, and the directory fsynced. What a kill leaves behind is one temporary (atomic_file_is_temporary()),
 * which the next attempt at the same target replaces. Small files: lib/base/atomic_file.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who may do what with a new file. */
struct file_perm {
	mode_t mode; /* exact: the umask has no say */
	uid_t uid;   /* (uid_t)-1: as it comes */
	gid_t gid;   /* (gid_t)-1: as it comes */
};
#define FILE_PERM(m) ((struct file_perm){ .mode = (m), .uid = (uid_t)-1, .gid = (gid_t)-1 })

struct new_file {
	int fd;     /* owned; read-write, at offset 0 */
	int dir_fd; /* owned */
	char *name; /* owned; the target's last component */
	char *tmp;  /* owned; the temporary's */
};
#define NEW_FILE_EMPTY ((struct new_file){ .fd = -EBADF, .dir_fd = -EBADF })

/* The directory of path must exist. -errno; *ret is set on success only and needs new_file_done(). Two writers
 * of one target must not run at once: the second takes over the first one's temporary. */
int new_file_open(const char *path, struct file_perm perm, struct new_file *ret);
/* Makes it durable under its name. Without replace an existing target is -EEXIST and stays as it is. */
int new_file_commit(struct new_file *file, bool replace);
/* Closes, and unlinks the temporary unless it was committed. Safe on NEW_FILE_EMPTY and twice. */
void new_file_done(struct new_file *file);

#define CLEANUP_NEW_FILE __attribute__((cleanup(new_file_done)))
