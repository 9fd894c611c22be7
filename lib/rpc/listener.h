/* The accepting side of a service's Unix socket: who may connect, and who did.
 *
 * gRPC's own listener unlinks whatever lies at a path and knows no peer. So the socket is bound here, under a lock
 * file that outlives no process: a second copy of a service is refused and says who holds the path, and after a
 * crash exactly one of two starters gets it. */
#pragma once

#include "lib/base/err.h"
#include "lib/rpc/server.h"

#include <systemd/sd-event.h>

struct listener;

/* fd is consumed: non-blocking, close-on-exec, its peer allowed and already known to listener_peer(). */
typedef void (*listener_accept_fn)(int fd, void *userdata);

/* Takes options->listen_fd or binds options->path. -EADDRINUSE: somebody serves there. */
int listener_new(
        sd_event *event, const struct rpc_server_options *options, struct listener **ret, struct err *err);
int listener_start(struct listener *l, listener_accept_fn fn, void *userdata);
/* Accepts no more; the path goes, if it was bound here. */
void listener_stop(struct listener *l);
struct listener *listener_free(struct listener *l);
/* The peer of an accepted descriptor that a call came over, while its connection lives; NULL for any other. */
const struct rpc_peer *listener_peer(struct listener *l, int fd);
