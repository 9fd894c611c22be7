/* grpc.health.v1.Health: Check and Watch. Private to lib/rpc. */
#pragma once

#include "lib/rpc/server.h"

struct health;

int health_new(struct health **ret);
struct health *health_free(struct health *h);
ProtobufCService *health_service(struct health *h); /* weak */
/* Every name of the NULL-terminated list, and "", is SERVING from now on. The names are weak. */
void health_start(struct health *h, const char *const *names);
void health_set(struct health *h, const char *name, bool serving);
/* Everything NOT_SERVING, and watchers are told so and let go, so that a drain need not wait for them. */
void health_shutdown(struct health *h);
