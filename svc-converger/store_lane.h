/* The store's one lane off the loop: an fsync may take seconds on a busy disk, and nothing else shall wait for it.
 * Batches are committed in order; those that wait while one is written go together in the next transaction. */
#pragma once

#include "lib/loop/loop.h"
#include "svc-converger/store.h"

struct store_lane;

/* Takes the store over, on success only. */
int store_lane_new(struct loop *loop, struct store *store_consume, struct store_lane **ret);
/* Every commit has been answered. Closes the store. Accepts NULL. */
struct store_lane *store_lane_free(struct store_lane *lane);

/* r is 0 once the batch is on disk. On failure nothing of it is. */
typedef void (*store_lane_fn)(int r, const struct err *err, void *userdata);
/* The batch is consumed even on failure. fn may be NULL; it runs exactly once, later, on the loop. Returns 0, or
 * -ENOMEM, and fn does not run then. */
int store_lane_commit(
        struct store_lane *lane, struct store_batch *batch_consume, store_lane_fn fn, void *userdata);
size_t store_lane_pending(const struct store_lane *lane);
