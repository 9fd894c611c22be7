#include "svc-runtime-libvirt/op.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void op_run(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	if (ending_begun(&op->runtime->ending)) {
		/* it has waited its turn for longer than there was time: a lane or a pool may be stuck */
		op->r = ending_refuse(&op->err, op->id);
		op->look_r = op->r;
	} else {
		op->work(op);
		op->look_r = domain_look_up(op->conn, op->id, &op->runtime->look_paths, &op->look, NULL);
	}
	(void)virConnectClose(op->conn);
	op->conn = NULL;
}

static void finish(struct op *op)
{
	struct domain_entry *entry = domains_find(op->runtime->domains, op->id);

	op->end(op, entry);
}

static void op_done(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	if (op->look_r == 0) {
		domains_apply(op->runtime->domains, &op->look);
		domain_look_done(&op->look);
	}
	if (op->r == -ENOTCONN || op->look_r == -ENOTCONN) {
		struct err err = { 0 };
		(void)err_set(&err, -ENOTCONN, "%s: a call was cut off", op->runtime->conf->uri);
		virt_suspect(op->runtime->virt, op->r == -ENOTCONN ? &op->err : &err);
	}
	finish(op);
}

static void on_late(struct loop_tag *tag, bool ok)
{
	struct op *op = CONTAINER_OF(tag, struct op, late);
	struct runtime *runtime = op->runtime;

	(void)ok;
	runtime->n_late--;
	finish(op);
	runtime_check_idle(runtime);
}

void op_init(struct op *op, struct runtime *runtime, const char *id, void (*work)(struct op *op),
        void (*end)(struct op *op, struct domain_entry *entry))
{
	op->runtime = runtime;
	op->work = work;
	op->end = end;
	(void)snprintf(op->id, sizeof(op->id), "%s", id);
	op->job = (struct job){ .run = op_run, .done = op_done };
	(void)strcpy(op->job.key, op->id);
	op->late.on_done = on_late;
}

void op_fail(struct op *op, int r)
{
	op->r = r;
	op->runtime->n_late++;
	loop_post(op->runtime->loop, &op->late);
}

int op_submit(struct op *op, struct job_pool *pool)
{
	struct runtime *runtime = op->runtime;
	int r = 0;

	op->conn = virt_ref(runtime->virt);
	if (runtime->stopping)
		r = ending_refuse(&op->err, op->id);
	else if (!op->conn || !domains_synced(runtime->domains) || !runtime->host_known)
		r = err_set(&op->err, -ENOTCONN, "libvirt is not at hand: %s", virt_trouble(runtime->virt));
	if (r == 0) {
		r = job_submit(pool, &op->job);
		if (r < 0)
			(void)err_set(&op->err, r, "too many operations wait already: try again");
	}
	if (r == 0)
		return 0;
	if (op->conn)
		(void)virConnectClose(op->conn);
	op->conn = NULL;
	op_fail(op, r);
	return r;
}
