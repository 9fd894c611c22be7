/* One thing done to one domain: work on a pool thread with a connection of its own, a look at the domain right after it,
 * and the end on the loop, where the table knows what was seen. Embedded in what carries its parameters and results. */
#pragma once

#include "svc-runtime-libvirt/runtime.h"

struct op {
	struct job job;
	struct loop_tag late;    /* of an op that could not be submitted */
	struct runtime *runtime; /* weak; on the pool thread only for what never changes */
	char id[UUID_TEXT_MAX];  /* of the domain; its lane */
	/* Pool thread. Sets r, and err with words. */
	void (*work)(struct op *op);
	/* Loop thread, exactly once, never from inside op_submit(); frees. entry is NULL when there is no such domain. */
	void (*end)(struct op *op, struct domain_entry *entry);
	virConnectPtr conn; /* owned; for work */
	int r;
	struct err err;
	/* private */
	struct domain_look look;
	int look_r;
};

/* Fills a zeroed op. */
void op_init(struct op *op, struct runtime *runtime, const char *id, void (*work)(struct op *op),
        void (*end)(struct op *op, struct domain_entry *entry));
/* Starts it in the pool. When that cannot be (no connection, too many wait) it ends with the reason: returns that
 * too, for a caller that would have to take something back. One that has not begun when the service ends is -EAGAIN
 * without work. */
int op_submit(struct op *op, struct job_pool *pool);
/* Ends it with r without any work; err may have words already. */
void op_fail(struct op *op, int r);
