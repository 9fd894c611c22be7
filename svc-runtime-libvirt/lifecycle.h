/* What is done to an instance: defined, started, paused, stopped, removed. Each is a job on the instance's own lane,
 * and ends with a look, so that the answer tells what is. Loop thread; one answer per request, never from inside the call.
 *
 * A graceful stop holds no lane and no thread while the guest takes its time: the button is pressed, then the guest's
 * own event or a timer goes on. */
#pragma once

#include "lib/base/secret.h"
#include "lib/seed/seed.h"
#include "svc-runtime-libvirt/runtime.h"

/* r is 0 or -errno with words in err; entry is NULL when the domain is not there. */
typedef void (*lifecycle_fn)(int r, const struct err *err, const struct domain_entry *entry, void *userdata);

/* What the definition of an instance also needs. Everything weak but valid until fn has run. */
struct lifecycle_ensure {
	struct domain_def *def;   /* consumed */
	const struct seed *seed;  /* NULL: keeps the seed that is there, or makes one without user data */
	const char *restore_path; /* of a snapshot; NULL: none */
	bool restore_memory;
};

void lifecycle_ensure(
        struct runtime *runtime, const struct lifecycle_ensure *ensure, lifecycle_fn fn, void *userdata);
/* STOPPED to RUNNING or PAUSED, and between those two. */
void lifecycle_run(struct runtime *runtime, const char *id, bool paused, lifecycle_fn fn, void *userdata);
/* grace_usec 0: the configured one. */
void lifecycle_stop(
        struct runtime *runtime, const char *id, uint64_t grace_usec, lifecycle_fn fn, void *userdata);
/* fn's r is 1 when there was nothing. */
void lifecycle_remove(struct runtime *runtime, const char *id, lifecycle_fn fn, void *userdata);

/* For the table's handlers. */
void lifecycle_on_changed(struct runtime *runtime, struct domain_entry *entry);
void lifecycle_on_gone(struct runtime *runtime, struct domain_entry *entry);
/* Everything that runs on the layer of a snapshot that was broken off gets its disk back. */
void lifecycle_settle(struct runtime *runtime);
/* The loop ends: who waits for a guest, or has a console open, is told so. */
void lifecycle_shut_down(struct runtime *runtime);
