/* SHA-256, through OpenSSL. Failures are those of its memory: -ENOMEM. */
#pragma once

#include "lib/base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

enum {
	SHA256_SIZE = 32,
	SHA256_HEX_MAX = 65,    /* lower-case hex with the NUL */
	SHA256_DIGEST_MAX = 72, /* "sha256:" and the hex, with the NUL */
};

int sha256(const void *data, size_t n_data, uint8_t ret[static SHA256_SIZE]);
void sha256_to_hex(const uint8_t sum[static SHA256_SIZE], char ret[static SHA256_HEX_MAX]);

/* Hashing of what comes in pieces. */
struct sha256_stream;
int sha256_stream_new(struct sha256_stream **ret);
int sha256_stream_add(struct sha256_stream *stream, const void *data, size_t n_data);
/* Ends the stream: writes "sha256:<hex>". Nothing can be added afterwards. */
int sha256_stream_digest(struct sha256_stream *stream, char ret[static SHA256_DIGEST_MAX]);
struct sha256_stream *sha256_stream_free(struct sha256_stream *stream);
CLEANUP_DEFINE(sha256_stream, sha256_stream_free)
