/* The file a download fills: hashed as it grows, never larger than agreed, with holes where the source has blocks of
 * zeros. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sink {
	int fd; /* weak; read-write */
	uint64_t max_bytes;
	uint64_t done_bytes;                                      /* of the file that are there and hashed */
	struct sha256_stream *stream;                             /* owned */
	void (*on_progress)(uint64_t done_bytes, void *userdata); /* may be NULL */
	void *userdata;
};

/* Takes over the first offset bytes of the file, hashing them, and cuts off the rest. */
int sink_open(int fd, uint64_t offset, uint64_t max_bytes, struct sink *ret, struct err *err);
void sink_done(struct sink *sink);
/* -EFBIG when it would get larger than max_bytes; -ENOSPC and others of the disk. */
int sink_add(struct sink *sink, const void *data, size_t n_data, struct err *err);
/* Everything came: makes it durable and compares. size_bytes 0: unknown. -EBADMSG when it is not what was asked for;
 * the file is emptied then, so that no later attempt builds on it. */
int sink_finish(struct sink *sink, uint64_t size_bytes, const char *digest, struct err *err);
