/* What a store holds, for tests to compare. */
#pragma once

#include "svc-converger/store.h"

enum { STORE_PRINT_MAX = 512 };

/* "id=spec@revision,recorded,job,restarts,started_hash,nics_hash;" for each instance, an n behind recorded where it
 * used netd, and "-id:runtime:allocation:uses_netd;" for each removal. Fails the test when it cannot be read. */
void store_print(struct store *store, char ret[static STORE_PRINT_MAX]);
