/* Copies a file's bytes and keeps its holes: a shared clone where the file system can (btrfs, XFS), else by
 * copy_file_range() over the data alone. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Long work says how far it is, every 64 MiB or sooner, and ends when told: a negative return (-errno, e.g.
 * -ECANCELED at a deadline) stops the work with that error. Called on the working thread. */
typedef int (*progress_fn)(uint64_t done_bytes, uint64_t total_bytes, void *userdata);

/* Copies [0, bytes) of src to dst, which is empty; dst's size is bytes afterwards. Where src is shorter the rest
 * reads as zeros. Offsets of src are not moved. progress may be NULL. */
int sparse_copy(
        int src_fd, int dst_fd, uint64_t bytes, progress_fn progress, void *userdata, struct err *err);

/* The next run of data at or after offset, below end: -ENXIO when only a hole is left. A file system that cannot
 * tell calls all of it data. */
int sparse_next(int fd, uint64_t offset, uint64_t end, uint64_t *ret_start, uint64_t *ret_end);
