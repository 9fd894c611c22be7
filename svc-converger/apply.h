/* Accepting a NodeSpec: checked, compared with what is accepted, written down, and only then true. One at a time;
 * some may wait. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/spec_intake.h"

#include "bc/v1/converger.pb-c.h"

enum { APPLIES_WAITING_MAX = 16 };

struct apply_queue;

struct apply_queue *apply_queue_new(void);                       /* NULL: no memory */
struct apply_queue *apply_queue_free(struct apply_queue *queue); /* none waits any more */

/* r 0: accepted and on disk, reply (weak) says the plan. Otherwise message (weak) says why not, and nothing has
 * changed. Runs exactly once, perhaps from inside apply_submit(). */
typedef void (*apply_fn)(int r, const char *message, const Bc__V1__ApplyReply *reply, void *userdata);

/* What the bytes point to stays valid until fn runs. */
void apply_submit(struct converger *converger, const struct spec_bytes *bytes, apply_fn fn, void *userdata);

/* At the start: what the stores must know of the spec that was loaded. */
int apply_node(struct converger *converger, const Bc__V1__NodeSpec *node);
