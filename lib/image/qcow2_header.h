/* What a qcow2 image says of itself, read by bounded code of our own before QEMU sees the file. Nothing that the
 * header names is ever opened.
 *
 * Two questions are kept apart: qcow2_header_parse() refuses what is nonsense by the format's own rules or larger
 * than any honest image, qcow2_header_check_base() refuses what a base image may not have. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	QCOW2_READ_MAX = 64 * 1024, /* bytes of a file that are looked at */
	QCOW2_NAME_MAX = 1023,      /* bytes of a backing file's name, by the format */
	QCOW2_FORMAT_MAX = 15,      /* bytes of a backing format's name */
};
#define QCOW2_MAGIC 0x514649fbU
#define QCOW2_VIRTUAL_BYTES_MAX (UINT64_C(64) << 40)

enum qcow2_incompatible {
	QCOW2_DIRTY = 1 << 0,
	QCOW2_CORRUPT = 1 << 1,
	QCOW2_DATA_FILE = 1 << 2,
	QCOW2_COMPRESSION_TYPE = 1 << 3,
	QCOW2_EXTENDED_L2 = 1 << 4,
};

struct qcow2_header {
	uint32_t version; /* 2 or 3 */
	uint32_t header_bytes;
	uint64_t virtual_bytes; /* a multiple of 512, never 0 */
	uint32_t cluster_bits;  /* 9..21 */
	uint32_t refcount_order;
	uint32_t encryption; /* 0: none */
	uint32_t n_snapshots;
	uint64_t incompatible; /* enum qcow2_incompatible and nothing else */
	uint64_t l1_offset;    /* bytes */
	uint32_t l1_entries;
	bool has_data_file; /* by the bit, or by a header extension that names one */
	bool has_backing;
	char backing_name[QCOW2_NAME_MAX + 1];     /* "" without one; foreign text */
	char backing_format[QCOW2_FORMAT_MAX + 1]; /* "" when not stated; foreign text */
};

/* data is the file's first n_data bytes (at least min(file_bytes, QCOW2_READ_MAX)), file_bytes its whole length.
 * -EINVAL with the reason. */
int qcow2_header_parse(
        const uint8_t *data, size_t n_data, uint64_t file_bytes, struct qcow2_header *ret, struct err *err);
/* Reads at most QCOW2_READ_MAX bytes at offset 0 of a regular file; takes no lock and moves no offset. */
int qcow2_header_read(int fd, struct qcow2_header *ret, struct err *err);

/* A base image stands alone: no backing file, no external data file, no encryption, no internal snapshots, closed
 * cleanly. -EINVAL says which of these it breaks and how to mend it. */
int qcow2_header_check_base(const struct qcow2_header *header, struct err *err);
