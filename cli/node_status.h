/* Asking the converger for what the node holds. */
#pragma once

#include "cli/door.h"

#include "bc/v1/converger.pb-c.h"

/* instance_id "": all. Owned by the caller; EXIT_OK or the exit code of what was said. An id that the node does
 * not hold is EXIT_NOT_FOUND, said too. */
int node_status_get(struct door *door, const char *instance_id, Bc__V1__NodeStatus **ret);
int node_get(struct door *door, bool with_spec, Bc__V1__GetNodeReply **ret);

/* The instance that id names: its whole id, or the beginning of just one. NULL, having said why, otherwise; *ret_code
 * is the exit code then. */
const Bc__V1__InstanceStatus *node_status_find(
        struct cli *cli, const Bc__V1__NodeStatus *status, const char *id, int *ret_code);
/* The same for verbs that need only the id: asks the converger when id is not a whole UUID. An exit code. */
int instance_id_resolve(struct door *door, const char *id, char *ret, size_t size);
