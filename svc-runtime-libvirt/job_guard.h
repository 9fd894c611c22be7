/* Watches over a long libvirt call that another thread is in: reports how far it is, and ends it in earnest at its
 * deadline or when nobody wants it any more. */
#pragma once

#include "lib/image/sparse_copy.h"

#include <libvirt/libvirt.h>
#include <stdint.h>

struct job_guard;

/* From now until job_guard_end() progress is called twice a second on a thread of the guard, with the bytes that the
 * domain's job has done and at most total_bytes; a negative return, or timeout_usec, aborts the job. domain is weak. */
int job_guard_new(virDomainPtr domain, uint64_t total_bytes, uint64_t timeout_usec, progress_fn progress,
        void *userdata, struct job_guard **ret);
/* Ends and frees it; no call of progress runs after this. Returns the reason for which it aborted (-ETIMEDOUT, or what
 * progress said), or 0. */
int job_guard_end(struct job_guard *guard);
