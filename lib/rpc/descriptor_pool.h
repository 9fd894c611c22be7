/* A serialized FileDescriptorSet, looked into on demand: which methods stream, and what reflection serves. Nothing
 * of it is kept unpacked, so that a service pays no memory for it. */
#pragma once

#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct descriptor_pool;

struct descriptor_file {
	const uint8_t *data; /* weak; a serialized FileDescriptorProto */
	size_t n;
};

/* data is weak and must outlive the pool. -EBADMSG if it is no FileDescriptorSet. */
int descriptor_pool_new(const void *data, size_t n, struct descriptor_pool **ret);
struct descriptor_pool *descriptor_pool_free(struct descriptor_pool *pool);

/* -ENOENT when there is none. A symbol is a message, enum, service or method, with its package. */
int descriptor_pool_find_file(
        const struct descriptor_pool *pool, const char *name, struct descriptor_file *ret);
int descriptor_pool_find_symbol(
        const struct descriptor_pool *pool, const char *symbol, struct descriptor_file *ret);

struct method_streams {
	bool client, server;
};

/* One per method of the service, in descriptor order. -ENOENT when the set does not hold the service or lists its
 * methods otherwise. */
int descriptor_pool_streams(const struct descriptor_pool *pool, const ProtobufCServiceDescriptor *service,
        const char *service_name, struct method_streams *ret, size_t n_ret);
