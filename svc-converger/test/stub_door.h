/* The socket of a service that a test plays itself: opened and closed as often as the service is to die and come
 * back. */
#pragma once

#include "lib/rpc/server.h"

/* Serves service at path; fails the program when it cannot. */
struct rpc_server *stub_door_open(struct loop *loop, const char *path, ProtobufCService *service);
/* Cancels what is in flight and leaves nothing at path; runs the loop. Returns NULL. */
struct rpc_server *stub_door_close(struct loop *loop, const char *path, struct rpc_server *server);
