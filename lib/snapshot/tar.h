/* A snapshot's tar: meta.json first, then the files of the runtime that made it, sparse ones with their holes (pax,
 * GNU sparse 1.0: any tar reads it). Written as a stream that is hashed on its way, read back with every name,
 * type and size checked. The only files that know libarchive. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/sha256.h"
#include "lib/image/new_file.h"
#include "lib/image/sparse_copy.h"
#include "lib/snapshot/meta.h"

#include <stddef.h>
#include <stdint.h>

enum { SNAPSHOT_MEMBERS_MAX = 16, SNAPSHOT_NAME_MAX = 64 };

/* --- writing --- */

struct snapshot_writer;

/* Begins a tar at path, which must not exist (-EEXIST) in a directory that must (-EBUSY), with its meta.json. It appears
 * there when finished. */
int snapshot_writer_new(const char *path, struct file_perm perm, const struct snapshot_meta *meta,
        struct snapshot_writer **ret, struct err *err);
/* Adds a regular file from its start; nobody may write to it meanwhile. Progress counts its data, holes apart. */
int snapshot_writer_add_file(struct snapshot_writer *writer, const char *name, int fd, progress_fn progress,
        void *userdata, struct err *err);
int snapshot_writer_add_bytes(
        struct snapshot_writer *writer, const char *name, const void *data, size_t n_data, struct err *err);
/* Ends the tar and makes it durable. */
int snapshot_writer_finish(struct snapshot_writer *writer, char ret_digest[static SHA256_DIGEST_MAX],
        uint64_t *ret_bytes, struct err *err);
/* Without a finish before it nothing is left. Accepts NULL. */
struct snapshot_writer *snapshot_writer_free(struct snapshot_writer *writer);
CLEANUP_DEFINE(snapshot_writer, snapshot_writer_free)

/* --- reading --- */

/* The meta.json alone; the rest is not looked at. */
int snapshot_read_meta(const char *path, struct snapshot_meta *ret, struct err *err);

/* A file that a tar may hold, and where it goes. */
struct snapshot_member {
	const char *name;   /* exact; all weak */
	const char *path;   /* NULL: it is skipped */
	uint64_t bytes_max; /* of its apparent size; more is refused */
	bool required;
	struct file_perm perm;
	bool found;     /* out */
	uint64_t bytes; /* out: apparent size */
};

/* Extracts all of them or none: the files appear after the whole tar was good, over what is at their paths. A name
 * that is not listed (meta.json apart), a doubled one, one with a directory, anything but a plain file, and a tar that
 * ends early are -EINVAL. */
int snapshot_extract(const char *path, struct snapshot_member *members, size_t n_members,
        progress_fn progress, void *userdata, struct err *err);
