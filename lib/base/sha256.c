#include "lib/base/sha256.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

struct sha256_stream {
	EVP_MD_CTX *ctx; /* owned */
};

int sha256(const void *data, size_t n_data, uint8_t ret[static SHA256_SIZE])
{
	uint8_t sum[EVP_MAX_MD_SIZE];

	if (EVP_Digest(data, n_data, sum, NULL, EVP_sha256(), NULL) != 1)
		return -ENOMEM;
	memcpy(ret, sum, SHA256_SIZE);
	return 0;
}

void sha256_to_hex(const uint8_t sum[static SHA256_SIZE], char ret[static SHA256_HEX_MAX])
{
	for (size_t i = 0; i < SHA256_SIZE; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

int sha256_stream_new(struct sha256_stream **ret)
{
	CLEANUP(sha256_stream) struct sha256_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->ctx = EVP_MD_CTX_new();
	if (!stream->ctx || EVP_DigestInit_ex(stream->ctx, EVP_sha256(), NULL) != 1)
		return -ENOMEM;
	*ret = TAKE_PTR(stream);
	return 0;
}

int sha256_stream_add(struct sha256_stream *stream, const void *data, size_t n_data)
{
	return EVP_DigestUpdate(stream->ctx, data, n_data) == 1 ? 0 : -ENOMEM;
}

int sha256_stream_digest(struct sha256_stream *stream, char ret[static SHA256_DIGEST_MAX])
{
	static const char PREFIX[] = "sha256:";
	uint8_t sum[EVP_MAX_MD_SIZE];

	if (EVP_DigestFinal_ex(stream->ctx, sum, NULL) != 1)
		return -ENOMEM;
	memcpy(ret, PREFIX, sizeof(PREFIX) - 1);
	sha256_to_hex(sum, ret + sizeof(PREFIX) - 1);
	return 0;
}

struct sha256_stream *sha256_stream_free(struct sha256_stream *stream)
{
	if (!stream)
		return NULL;
	EVP_MD_CTX_free(stream->ctx);
	free(stream);
	return NULL;
}
