/* A disk image's format, and whether a fetched file may be a base image in the format that was stated for it. A
 * format is always stated, never found out by looking: looking only refuses what is plainly something else. */
#pragma once

#include "lib/base/err.h"

#include <stdint.h>

enum image_format { IMAGE_RAW, IMAGE_QCOW2 };

const char *image_format_to_string(enum image_format format); /* "raw", "qcow2": also QEMU's names */
int image_format_from_string(const char *text, enum image_format *ret); /* -EINVAL */

/* Judges the file behind fd before any other program sees it, and gives the size of the disk it stands for (of a
 * raw one rounded up to 512). A raw image that begins like a qcow2, VMDK, VHDX or compressed file is refused: a
 * guest could not boot from it, and its owner stated the wrong format. This is for images as fetched; what a guest
 * writes at the start of its own disk is the guest's business. */
int image_check_base(int fd, enum image_format format, uint64_t *ret_virtual_bytes, struct err *err);
