/* An instance's own disk: a qcow2 overlay on a base image, or a raw file. Made whole or not at all.
 *
 * Overlays are laid out here, not by qemu-img: an empty one is four small tables, writing them takes under a
 * millisecond where the tool takes nine, and no program opens or guesses at the base. The base is opened read-only
 * to be judged, and never written. No call here may run while a VM has the disk open, but disk_usage(). */
#pragma once

#include "lib/base/err.h"
#include "lib/image/image.h"
#include "lib/image/new_file.h"
#include "lib/image/sparse_copy.h"

#include <stdint.h>

struct disk_base {
	const char *path; /* absolute, at most 1,023 bytes; weak */
	enum image_format format;
};

/* An overlay of bytes (0: the base's own size; else a multiple of 512) over base, recorded with the base's stated
 * format. -EEXIST when path exists (it is left alone); -EBUSY when bytes is below the base's size: a disk never
 * shrinks; -EINVAL when the base may not be one (image_check_base()). Grows later up to 4 TiB or twice bytes. */
int disk_create_overlay(const char *path, const struct disk_base *base, uint64_t bytes, struct file_perm perm,
        struct err *err);
/* A raw disk with the base's contents; only a raw base can be copied (-EINVAL). Otherwise as above. */
int disk_create_copy(const char *path, const struct disk_base *base, uint64_t bytes, struct file_perm perm,
        progress_fn progress, void *userdata, struct err *err);
/* An overlay of exactly bytes on a disk of our own (a qcow2 overlay that a VM has open, say): lower is not looked at. */
int disk_create_layer(
        const char *path, const char *lower, uint64_t bytes, struct file_perm perm, struct err *err);
/* Writes what such a layer holds to the disk below it, itself an overlay on base, by qemu-img. A VMM had both open and
 * may have written anything into them: -EINVAL, and nothing is read or written by what they say, unless their headers
 * name just these files. -ETIMEDOUT ends it, and -ECANCELED once cancel_fd (may be NULL) is readable: the next call
 * writes it all again. */
int disk_commit_layer(const char *path, const char *lower, const struct disk_base *base,
        uint64_t timeout_usec, const int *cancel_fd, struct err *err);
/* A raw disk with what a qcow2 base holds, by qemu-img, which is given the stated formats and a base that was judged
 * first. -ETIMEDOUT ends it. Otherwise as above; a raw base is -EINVAL: disk_create_copy() is for it. */
int disk_create_converted(const char *path, const struct disk_base *base, uint64_t bytes,
        struct file_perm perm, uint64_t timeout_usec, struct err *err);
/* An empty sparse raw disk. */
int disk_create_empty(const char *path, uint64_t bytes, struct file_perm perm, struct err *err);

/* Grows to bytes. Equal: nothing is done. Smaller: -EBUSY, and the file is as it was; no multiple of 512: -EINVAL.
 * An overlay that cannot grow so far is -EFBIG. */
int disk_grow(const char *path, enum image_format format, uint64_t bytes, struct err *err);

/* The size a guest sees of a disk, and the space it takes here. Takes no lock and minds none: right for a disk that
 * a running VMM holds. */
struct disk_usage {
	uint64_t virtual_bytes;
	uint64_t apparent_bytes;  /* of the file */
	uint64_t allocated_bytes; /* on the file system */
};
int disk_usage(const char *path, enum image_format format, struct disk_usage *ret, struct err *err);

/* For a disk that came from elsewhere (a snapshot): it must be an overlay whose only reference is a backing file of
 * base's format; that reference is then made to say base. -EINVAL for anything else a header can hold. */
int disk_adopt_overlay(const char *path, const struct disk_base *base, struct err *err);
