/* Consoles: each domain that runs has one that says "console: " and what it was sent. One client at a
 * time, which another may end; the last 64 KiB are kept for who comes later. */
#pragma once

#include "svc-runtime-fake/record.h"

#include "lib/rpc/server.h"

struct fake;
struct consoles;

enum { CONSOLE_BACKLOG_MAX = 64 * 1024, CONSOLE_INPUT_MAX = 64 * 1024 }; /* bytes */

int consoles_new(struct fake *fake, struct consoles **ret);
/* A call of bc.v1.Runtime/Console; the first message says whose console it is. */
void consoles_serve(struct consoles *consoles, struct rpc_call *call);
/* r is NULL for a domain that is gone. A console ends with its domain's run. */
void consoles_domain_changed(struct consoles *consoles, const char *id, const record *r);
/* Ends every session; no more begins. */
void consoles_drain(struct consoles *consoles);
struct consoles *consoles_free(struct consoles *consoles);
