#include "svc-runtime-libvirt/guest.h"

#include "svc-runtime-libvirt/domain_devices.h"
#include "svc-runtime-libvirt/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- memory --- */

struct memory_op {
	struct op op;
	guest_memory_fn fn;
	void *userdata;
	bool set;
	uint64_t target_bytes;
	struct domain_memory memory; /* out */
};

static void memory_work(struct op *op)
{
	struct memory_op *m = CONTAINER_OF(op, struct memory_op, op);

	if (m->set)
		op->r = domain_op_set_memory(op->conn, op->id, m->target_bytes, &m->memory, &op->err);
	else
		op->r = domain_op_get_memory(op->conn, op->id, &m->memory, &op->err);
}

static void memory_end(struct op *op, struct domain_entry *entry)
{
	struct memory_op *m = CONTAINER_OF(op, struct memory_op, op);

	(void)entry;
	m->fn(op->r, &op->err, &m->memory, m->userdata);
	free(m);
}

static void memory_begin(struct runtime *runtime, const char *id, bool set, uint64_t target_bytes,
        guest_memory_fn fn, void *userdata)
{
	struct memory_op *m = calloc(1, sizeof(*m));

	if (!m) {
		fn(-ENOMEM, &(struct err){ 0 }, NULL, userdata);
		return;
	}
	op_init(&m->op, runtime, id, memory_work, memory_end);
	m->fn = fn;
	m->userdata = userdata;
	m->set = set;
	m->target_bytes = target_bytes;
	(void)op_submit(&m->op, runtime->ops);
}

void guest_get_memory(struct runtime *runtime, const char *id, guest_memory_fn fn, void *userdata)
{
	memory_begin(runtime, id, false, 0, fn, userdata);
}

void guest_set_memory(
        struct runtime *runtime, const char *id, uint64_t target_bytes, guest_memory_fn fn, void *userdata)
{
	memory_begin(runtime, id, true, target_bytes, fn, userdata);
}

/* --- volumes --- */

struct grow_op {
	struct op op;
	guest_bytes_fn fn;
	void *userdata;
	char volume_id[VOLUME_ID_MAX];
	uint64_t bytes; /* in and out */
};

static void grow_work(struct op *op)
{
	struct grow_op *g = CONTAINER_OF(op, struct grow_op, op);

	op->r = domain_op_grow_volume(op->conn, op->id, g->volume_id, g->bytes, &g->bytes, &op->err);
}

static void grow_end(struct op *op, struct domain_entry *entry)
{
	struct grow_op *g = CONTAINER_OF(op, struct grow_op, op);

	(void)entry;
	g->fn(op->r, &op->err, g->bytes, g->userdata);
	free(g);
}

void guest_grow_volume(struct runtime *runtime, const char *id, const char *volume_id, uint64_t bytes,
        guest_bytes_fn fn, void *userdata)
{
	struct grow_op *g = calloc(1, sizeof(*g));

	if (!g) {
		fn(-ENOMEM, &(struct err){ 0 }, 0, userdata);
		return;
	}
	op_init(&g->op, runtime, id, grow_work, grow_end);
	g->fn = fn;
	g->userdata = userdata;
	(void)snprintf(g->volume_id, sizeof(g->volume_id), "%s", volume_id);
	g->bytes = bytes;
	(void)op_submit(&g->op, runtime->ops);
}

/* --- identity --- */

struct rebind {
	struct slow slow;
	struct domain_rebind rebind;
};

static void rebind_work(struct op *op)
{
	struct rebind *r = CONTAINER_OF(op, struct rebind, slow.op);
	struct instance_files_conf files = runtime_files_conf(op->runtime);

	op->r = domain_op_rebind(op->conn, op->id, &files, &r->rebind, &op->err);
}

struct slow *guest_rebind(struct runtime *runtime, const char *id, const char *ref, struct secret *payload,
        uint64_t timeout_usec, lifecycle_fn fn, void *userdata)
{
	struct rebind *r = calloc(1, sizeof(*r));

	if (!r || slow_init(&r->slow, runtime, id, "a rebind", rebind_work, fn, userdata) < 0) {
		free(r);
		return NULL;
	}
	r->rebind = (struct domain_rebind){
		.ref = ref, .payload = payload, .timeout_usec = timeout_usec, .cancel_fd = r->slow.cancel_fd
	};
	slow_begin(&r->slow);
	return &r->slow;
}
