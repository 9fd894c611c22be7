/* The file an upload sends: hashed as it is read, and its last bytes are only given out once the whole is known to be
 * what was agreed. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source {
	int fd; /* weak */
	uint64_t size_bytes;
	const char *digest; /* weak */
	uint64_t done_bytes;
	struct sha256_stream *stream;                             /* owned */
	void (*on_progress)(uint64_t done_bytes, void *userdata); /* may be NULL */
	void *userdata;
};

/* -EBADMSG when the file has another size. */
int source_open(int fd, uint64_t size_bytes, const char *digest, struct source *ret, struct err *err);
void source_done(struct source *source);
/* Bytes read, 0 at the end. -EBADMSG instead of the last bytes of a file with another digest. */
ssize_t source_read(struct source *source, void *buf, size_t size, struct err *err);
/* For a receiver that wants it all again. */
int source_rewind(struct source *source);
