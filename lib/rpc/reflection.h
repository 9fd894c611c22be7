/* grpc.reflection.v1 and v1alpha, from the descriptor pool. Private to lib/rpc. */
#pragma once

#include "lib/rpc/descriptor_pool.h"
#include "lib/rpc/server.h"

enum { REFLECTION_SERVICES = 2 };

struct reflection;

/* names is the server's NULL-terminated list; pool and names are weak. */
int reflection_new(const struct descriptor_pool *pool, const char *const *names, struct reflection **ret);
struct reflection *reflection_free(struct reflection *reflection);
ProtobufCService *reflection_service(struct reflection *reflection, size_t i); /* weak */
