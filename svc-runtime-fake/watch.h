/* Watch streams: first every domain, then SYNCED, then what changes. A slow reader sees the newest state
 * of each domain and never makes the fake grow. */
#pragma once

#include "lib/rpc/server.h"

struct fake;
struct watchers;

enum { WATCHERS_MAX = 64 };

int watchers_new(struct fake *fake, struct watchers **ret);
void watchers_add(struct watchers *watchers, struct rpc_call *call);
/* Sends what is new, as far as there is room. */
void watchers_pump(struct watchers *watchers);
/* Ends every stream: callers call again. */
void watchers_drop(struct watchers *watchers, const char *why);
struct watchers *watchers_free(struct watchers *watchers);
