/* Whole files: written so that a crash leaves the old or the new content and never a mixture, read with a
 * bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes a temporary file beside path, fsyncs it, renames it over path and fsyncs the directory. dir_fd is
 * the directory path is relative to, or AT_FDCWD. mode is exact: the umask has no say. Returns 0 or
 * -errno; on failure path is what it was and no temporary file is left. */
int atomic_file_write(int dir_fd, const char *path, const void *data, size_t n_data, mode_t mode);

/* True for the name of a temporary file that a crash may have left: ".<name>.<16 hex>.tmp". A service sweeps
 * those from its own directories when it starts. */
bool atomic_file_is_temporary(const char *name);

/* Reads a regular file, /proc or /sys file of at most max bytes. *ret_data is owned by the caller and has
 * a NUL behind its *ret_size bytes; ret_size may be NULL. -EFBIG when there is more, -ELOOP for a symlink. */
int file_read(int dir_fd, const char *path, size_t max, char **ret_data, size_t *ret_size);

/* fsync of the directory that holds path: makes creation, renaming and removal in it last. */
int dir_sync_parent(int dir_fd, const char *path);
