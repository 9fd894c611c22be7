/* Taking a snapshot of an instance, as a slow operation: told about and answered on the loop thread. */
#pragma once

#include "svc-runtime-libvirt/domain_snapshot.h"
#include "svc-runtime-libvirt/slow.h"

struct snapshot_handlers {
	/* Now and then; never after on_end. May be NULL. */
	void (*on_progress)(uint64_t done_bytes, uint64_t total_bytes, void *userdata);
	/* Exactly once, never from inside snapshot_begin(): r is 0 or -errno with words in err. */
	void (*on_end)(int r, const struct err *err, const char *digest, uint64_t bytes, void *userdata);
};

/* Writes a snapshot of instance id to path, which must not exist. Returns it, weak: valid until on_end, to be cancelled.
 * NULL for want of memory: on_end is not called then. */
struct slow *snapshot_begin(struct runtime *runtime, const char *id, bool with_memory, const char *path,
        const struct snapshot_handlers *handlers, void *userdata);
/* Ends it soon, and no file is left by it, as nobody will hear of that. Its on_end comes. */
void snapshot_abandon(struct slow *snapshot);
