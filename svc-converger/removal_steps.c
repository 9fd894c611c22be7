/* A removal, from its mark to the end: MARK_REMOVAL, REMOVE_DOMAIN, REMOVE_FILES and FORGET_REMOVAL. */
#include "svc-converger/operation_steps.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void on_marked(int r, const struct err *err, void *userdata)
{
	struct operation *op = userdata;

	if (r < 0) {
		operation_fail_err(op, r, err);
		return;
	}
	if (!op->instance->removal)
		op->instance->removal = TAKE_PTR(op->removal);
	converger_event(op->c, EVENT_WARNING, op->instance->id, "EarlierIncarnation",
	        "runtime %s has a domain of allocation %s: it is removed first",
	        op->instance->removal->runtime, op->instance->removal->allocation_id);
	operation_succeed(op);
}

void operation_mark_removal(struct operation *op, const struct instance_view *view)
{
	struct store_batch *batch = store_batch_new();
	struct removal *removal = op->removal = calloc(1, sizeof(*removal));

	if (!batch || !removal) {
		store_batch_free(batch);
		operation_fail_err(op, -ENOMEM, NULL);
		return;
	}
	(void)snprintf(removal->runtime, sizeof(removal->runtime), "%s", runtime_link_id(view->runtime));
	(void)snprintf(
	        removal->allocation_id, sizeof(removal->allocation_id), "%s", view->domain->allocation_id);
	removal->uses_netd = op->instance->facts.used_netd || netd_link_held(op->c->netd, op->instance->id);
	removal->nics_gone = !removal->uses_netd;
	store_batch_put_removal(batch,
	        &(struct store_removal){ .id = op->instance->id,
	                .runtime = removal->runtime,
	                .allocation_id = removal->allocation_id,
	                .uses_netd = removal->uses_netd });
	operation_commit(op, batch, on_marked);
}

static void on_removed(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	(void)reply;
	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	runtime_link_learn(op->runtime, op->instance->id, NULL);
	volume_store_release(op->c->volumes, op->instance->id);
	if (op->instance->removal)
		op->instance->removal->domain_gone = true;
	reconciler_freed(op->c, FREED_MEMORY);
	operation_succeed(op);
}

void operation_remove_domain(struct operation *op)
{
	Bc__V1__RuntimeRemoveRequest request = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;
	char key[80];

	(void)snprintf(key, sizeof(key), "instance:%s:remove", op->instance->id);
	request.id = op->instance->id;
	request.idempotency_key = key;
	operation_call_runtime(
	        op, RUNTIME(remove), &request.base, op->c->options.change_timeout_usec, on_removed);
}

/* Runtimes delete what they made; an empty directory may be left. What is in one that is not empty is nobody's we
 * know: it stays, and so does the mark. */
static void on_files_run(struct job *job)
{
	struct operation *op = CONTAINER_OF(job, struct operation, job);

	op->job_result = rmdir(op->path) < 0 && errno != ENOENT ? -errno : 0;
}

static void on_files_done(struct job *job)
{
	struct operation *op = CONTAINER_OF(job, struct operation, job);

	if (op->job_result < 0) {
		struct err err = { 0 };

		err_set(&err, op->job_result, "cannot remove the directory %s: %s", op->path,
		        strerror(-op->job_result));
		operation_fail_err(op, op->job_result, &err);
		return;
	}
	if (op->instance->removal)
		op->instance->removal->files_gone = true;
	operation_succeed(op);
}

void operation_remove_files(struct operation *op)
{
	int r;

	(void)snprintf(op->path, sizeof(op->path), "%s/%s", op->c->options.instances_dir, op->instance->id);
	op->job = (struct job){ .run = on_files_run, .done = on_files_done };
	r = job_submit(op->c->pool, &op->job);
	if (r < 0)
		operation_fail_err(op, r, NULL);
}

static void on_forgotten(int r, const struct err *err, void *userdata)
{
	struct operation *op = userdata;

	if (r < 0) {
		operation_fail_err(op, r, err);
		return;
	}
	converger_event(op->c, EVENT_INFO, op->instance->id, "Removed",
	        "allocation %s is gone from runtime %s", op->instance->removal->allocation_id,
	        op->instance->removal->runtime);
	free(op->instance->removal);
	op->instance->removal = NULL;
	/* The earlier incarnation was seen up until it went; the one that comes has not been yet. */
	op->instance->was_up = op->instance->was_stopped = false;
	operation_succeed(op);
}

void operation_forget_removal(struct operation *op)
{
	struct store_batch *batch = store_batch_new();

	if (batch)
		store_batch_drop_removal(batch, op->instance->id);
	operation_commit(op, batch, on_forgotten);
}
