/* An operation that takes its time: it waits for a guest, or moves a disk. One at a time per instance, in a pool of its
 * own so that it holds up nothing else; meanwhile the instance is neither started nor defined anew (slow_check()), and a
 * stop or a removal ends it first (slow_cancel()). Loop thread, but for slow_is_cancelled(). */
#pragma once

#include "svc-runtime-libvirt/lifecycle.h"
#include "svc-runtime-libvirt/op.h"

/* The first member of what carries its parameters and results, and freed as that, by free(), when fn has run. */
struct slow {
	struct op op;
	const char *what;           /* static; "a rebind" */
	int cancel_fd;              /* owned; readable once cancelled */
	struct domain_entry *entry; /* weak; kept by its slow field; NULL when there was none */
	lifecycle_fn fn;
	void *userdata;
};

/* Fills a zeroed one. */
int slow_init(struct slow *slow, struct runtime *runtime, const char *id, const char *what,
        void (*work)(struct op *op), lifecycle_fn fn, void *userdata);
/* fn is called exactly once from now on, never from inside this call. */
void slow_begin(struct slow *slow);
/* 0, or -EAGAIN with what is under way. entry may be NULL. */
int slow_check(const struct domain_entry *entry, struct err *err);
/* Asks it to end soon; its fn says -ECANCELED then, or -EAGAIN when it is this service that ends. For stops, removals,
 * and callers that vanish. */
void slow_cancel(struct slow *slow);
/* Any thread. */
bool slow_is_cancelled(const struct slow *slow);
