/* A small ISO 9660 image with Joliet and Rock Ridge names, made in process. The only file that knows libisofs.
 *
 * A member without data is left as zeros of its size, for the caller to fill at its offset: a secret never passes
 * through the library's buffers, which it does not clear. */
#pragma once

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct iso_member {
	const char *name; /* in the root directory; ASCII, at most 64 bytes */
	const void *data; /* weak; copied. NULL: zeros */
	size_t n_data;
	mode_t mode;     /* permission bits as a guest sees them; owner root */
	uint64_t offset; /* out: bytes from the image's start; 0 for an empty member */
};

/* Writes to fd, an empty file, from offset 0. label is kept as it is, at most 16 bytes (Joliet's limit). Any thread. */
int iso_write(int fd, const char *label, struct iso_member *members, size_t n_members, struct err *err);

/* Finds a file of the root directory by its Joliet name in an image made by iso_write(). -ENOENT; -EINVAL for what is
 * no such image. */
int iso_find(int fd, const char *name, uint64_t *ret_offset, uint64_t *ret_bytes);
