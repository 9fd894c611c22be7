/* bc.v1.Converger on the socket: turns calls into the converger's own words and back. */
#pragma once

#include "lib/rpc/server.h"
#include "svc-converger/converger.h"

struct edge;

/* Adds the service to the server, which must not be started yet. */
int edge_new(struct converger *converger, struct rpc_server *server, struct edge **ret);
/* The end begins: streams that would go on for ever are ended, so that their readers look for the next one. */
void edge_drain(struct edge *edge);
/* After the server has drained: no call of it is live. Accepts NULL. */
struct edge *edge_free(struct edge *edge);
