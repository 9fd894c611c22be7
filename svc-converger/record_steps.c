/* RECORD: that something may exist is written down before anything is made, and volumes are claimed. */
#include "svc-converger/operation_steps.h"

#include <string.h>

static void on_claimed(int r, void *userdata)
{
	struct operation *op = userdata;

	if (r < 0) {
		operation_fail_err(op, r, NULL);
		return;
	}
	if (op->instance->attempt)
		op->instance->attempt->is_claimed = true;
	operation_succeed(op);
}

static void operation_claim(struct operation *op)
{
	struct volume_use uses[USES_MAX];
	struct err err = { 0 };
	int r = operation_make_attempt(op);

	if (r == 0 && op->spec->n_volumes) {
		r = volume_store_claim(op->c->volumes, op->instance->id, uses,
		        instance_volume_uses(op->spec, uses, USES_MAX), on_claimed, op, &err);
		if (r == 0)
			return;
	}
	if (r < 0)
		operation_fail_err(op, r, &err);
	else
		operation_succeed(op);
}

static void on_recorded(int r, const struct err *err, void *userdata)
{
	struct operation *op = userdata;

	if (r < 0) {
		operation_fail_err(op, r, err);
		return;
	}
	/* Another incarnation has come meanwhile: what was written is not about it. */
	if (!op->instance->spec || strcmp(op->instance->spec->allocation_id, op->spec->allocation_id) != 0 ||
	        strcmp(op->instance->spec->runtime, op->spec->runtime) != 0) {
		operation_end(op);
		return;
	}
	op->instance->facts = op->facts;
	operation_claim(op);
}

void operation_record(struct operation *op)
{
	struct store_facts *facts = &op->facts;
	struct store_batch *batch;
	/* Charged before it is written: the next of this pass must see what is left. */
	int r = operation_make_attempt(op);

	if (r < 0) {
		operation_fail_err(op, r, NULL);
		return;
	}
	*facts = op->instance->facts;
	facts->recorded = true;
	facts->used_netd = facts->used_netd || op->uses_netd;
	if (op->is_job)
		facts->job = STORE_JOB_STARTED;
	/* Before the start: who finds it up after a crash of ours has to know what it was started with. */
	facts->started_hash = op->started_hash;
	if (facts->recorded == op->instance->facts.recorded &&
	        facts->started_hash == op->instance->facts.started_hash &&
	        facts->used_netd == op->instance->facts.used_netd && facts->job == op->instance->facts.job) {
		operation_claim(op);
		return;
	}
	batch = store_batch_new();
	if (batch)
		store_batch_set_facts(batch, op->instance->id, facts);
	operation_commit(op, batch, on_recorded);
}
