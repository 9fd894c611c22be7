/* What is done to a guest beside its coming and going: its memory, its volumes' size, its identity. Loop thread; each
 * fn is called exactly once, and never from inside the call but for want of memory. */
#pragma once

#include "lib/base/secret.h"
#include "svc-runtime-libvirt/domain_balloon.h"
#include "svc-runtime-libvirt/slow.h"

typedef void (*guest_memory_fn)(
        int r, const struct err *err, const struct domain_memory *memory, void *userdata);
void guest_get_memory(struct runtime *runtime, const char *id, guest_memory_fn fn, void *userdata);
void guest_set_memory(
        struct runtime *runtime, const char *id, uint64_t target_bytes, guest_memory_fn fn, void *userdata);

typedef void (*guest_bytes_fn)(int r, const struct err *err, uint64_t bytes, void *userdata);
void guest_grow_volume(struct runtime *runtime, const char *id, const char *volume_id, uint64_t bytes,
        guest_bytes_fn fn, void *userdata);

/* ref and payload stay until fn has run. Returns it, weak: valid until fn; NULL for want of memory: fn is not called. */
struct slow *guest_rebind(struct runtime *runtime, const char *id, const char *ref, struct secret *payload,
        uint64_t timeout_usec, lifecycle_fn fn, void *userdata);
