/* The Watch streams of bc.v1.Netd. A reader that is too slow is told to list anew (RESYNC), and costs no
 * memory. */
#pragma once

#include "lib/rpc/server.h"

#include <bc/v1/netd.pb-c.h>

struct watch;

struct watch *watch_new(void);                 /* NULL: out of memory */
struct watch *watch_free(struct watch *watch); /* no stream may be open */
void watch_add(struct watch *watch, struct rpc_call *call);
/* Sends an event to everybody; its sequence is set here. */
void watch_tell(struct watch *watch, Bc__V1__NetdEvent *event);
/* Ends every stream: the service goes. */
void watch_end(struct watch *watch);
