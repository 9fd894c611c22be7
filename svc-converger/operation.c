#include "svc-converger/operation_steps.h"

#include "lib/base/quote.h"

#include <stdio.h>
#include <string.h>

void operation_end(struct operation *op)
{
	struct converger *c = op->c;
	struct instance *instance = op->instance;
	unsigned lane = op->lane;

	if (op->spec)
		bc__v1__instance_spec__free_unpacked(op->spec, NULL);
	free(op->removal);
	free(op);
	reconciler_operation_ended(c, instance, lane);
}

static bool is_start(enum machine_action action)
{
	return machine_action_class(action) == CLASS_STARTING;
}

/* A step of a start that goes well is no start yet: the tries that failed go on counting. */
void operation_succeed(struct operation *op)
{
	if (!is_start(op->action) || op->action == ACTION_START)
		instance_forgive(op->instance);
	operation_end(op);
}

static void on_gave_back(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	(void)reply;
	if (status->code == GRPC_STATUS_OK)
		netd_link_learn_removed(op->c->netd, op->instance->id);
	instance_fail(op->c, op->instance, op->kind, 0, op->reason, op->message);
	operation_end(op);
}

/* Interfaces go with a start that failed, unless its VMM may be there all the same. */
static bool operation_give_back(struct operation *op, bool outcome_is_known)
{
	Bc__V1__RemoveInstanceRequest request = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;

	if (!is_start(op->action) || !outcome_is_known || !netd_link_is_known(op->c->netd) ||
	        !netd_link_held(op->c->netd, op->instance->id))
		return false;
	request.instance_id = op->instance->id;
	return call_unary(&op->call, netd_link_channel(op->c->netd), NETD(remove_instance), &request.base,
	               op->c->options.change_timeout_usec, on_gave_back, op) == 0;
}

void operation_fail(struct operation *op, enum trouble_kind kind, const char *reason, const char *message,
        bool outcome_is_known)
{
	if (is_start(op->action)) {
		reconciler_end_attempt(op->c, op->instance);
		secrets_forget(op->c->secrets, op->instance->id);
	}
	op->kind = kind;
	op->reason = reason;
	quote_text(message, op->message, sizeof(op->message));
	if (operation_give_back(op, outcome_is_known))
		return;
	instance_fail(op->c, op->instance, kind, 0, reason, message);
	operation_end(op);
}

static const char *reason_of_action(enum machine_action action)
{
	switch (action) {
	case ACTION_REMOVE_DOMAIN:
	case ACTION_REMOVE_FILES:
		return "RemoveFailed";
	case ACTION_RELEASE_NICS:
		return "ReleaseFailed";
	case ACTION_STOP:
		return "StopFailed";
	case ACTION_PAUSE:
		return "PauseFailed";
	case ACTION_RESUME:
		return "ResumeFailed";
	case ACTION_PREPARE_NICS:
		return "NetworkFailed";
	case ACTION_DEFINE:
		return "DefineFailed";
	case ACTION_START:
		return "StartFailed";
	case ACTION_SET_POLICY:
		return "PolicyFailed";
	case ACTION_GROW_VOLUMES:
		return "GrowFailed";
	case ACTION_REBIND:
		return "RebindFailed";
	default:
		return "StateNotSaved";
	}
}

void operation_fail_outcome(struct operation *op, const struct rpc_status *status, bool outcome_is_known)
{
	enum trouble_kind kind = TROUBLE_RETRIED;
	const char *reason = reason_of_action(op->action);
	char message[512];

	switch (status->code) {
	case GRPC_STATUS_RESOURCE_EXHAUSTED:
		if (is_start(op->action)) {
			kind = TROUBLE_CAPACITY;
			reason = "ResourcesExhausted";
		}
		break;
	case GRPC_STATUS_INVALID_ARGUMENT:
	case GRPC_STATUS_UNIMPLEMENTED:
	case GRPC_STATUS_OUT_OF_RANGE:
		/* The same request will be answered the same; a removal or a stop goes on trying all the same. */
		if (is_start(op->action))
			kind = TROUBLE_TERMINAL;
		break;
	case GRPC_STATUS_DEADLINE_EXCEEDED:
		reason = "TimedOut";
		break;
	default:
		break;
	}
	quote_text(*status->message ? status->message : rpc_code_to_string(status->code), message,
	        sizeof(message));
	operation_fail(op, kind, reason, message, outcome_is_known);
}

void operation_fail_status(struct operation *op, const struct rpc_status *status)
{
	operation_fail_outcome(op, status,
	        status->code != GRPC_STATUS_DEADLINE_EXCEEDED && status->code != GRPC_STATUS_UNAVAILABLE &&
	                status->code != GRPC_STATUS_CANCELLED);
}

void operation_fail_err(struct operation *op, int r, const struct err *err)
{
	operation_fail(op, r == -ENOSPC || r == -ENOMEM ? TROUBLE_CAPACITY : TROUBLE_RETRIED,
	        reason_of_action(op->action), err_text(err, r), true);
}

void operation_call_runtime(struct operation *op, struct rpc_method method, const ProtobufCMessage *message,
        uint64_t timeout_usec, call_reply_fn fn)
{
	int r = call_unary(
	        &op->call, runtime_link_channel(op->runtime), method, message, timeout_usec, fn, op);

	if (r < 0)
		operation_fail_err(op, r, NULL);
}

void operation_commit(struct operation *op, struct store_batch *batch, store_lane_fn fn)
{
	int r = store_lane_commit(op->c->lane, batch, fn, op);

	if (r < 0)
		operation_fail_err(op, r, NULL);
}

int operation_make_attempt(struct operation *op)
{
	struct instance *instance = op->instance;
	struct attempt *attempt = instance->attempt;

	if (!attempt) {
		attempt = instance->attempt = calloc(1, sizeof(*attempt));
		if (!attempt)
			return -ENOMEM;
	}
	if (!attempt->is_charged) {
		instance_charge(op->runtime, op->spec, &attempt->charge);
		admission_add(&op->c->admission, &attempt->charge);
		attempt->is_charged = true;
	}
	if (!attempt->nics) {
		attempt->nics = calloc(op->spec->n_nics + 1, sizeof(Bc__V1__PreparedNic *));
		if (!attempt->nics)
			return -ENOMEM;
		attempt->n_nics = op->spec->n_nics;
	}
	return 0;
}

const char *operation_state_word(Bc__V1__InstanceSpec__DesiredState state)
{
	switch (state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return "RUNNING";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return "PAUSED";
	default:
		return "STOPPED";
	}
}

/* --- beginning --- */

static bool needs_spec(enum machine_action action)
{
	switch (action) {
	case ACTION_RECORD:
	case ACTION_PREPARE_NICS:
	case ACTION_DEFINE:
	case ACTION_SET_POLICY:
	case ACTION_GROW_VOLUMES:
	case ACTION_REBIND:
		return true;
	default:
		return false;
	}
}

static void operation_run(struct operation *op, const struct instance_view *view)
{
	switch (op->action) {
	case ACTION_MARK_REMOVAL:
		operation_mark_removal(op, view);
		return;
	case ACTION_REMOVE_DOMAIN:
		operation_remove_domain(op);
		return;
	case ACTION_RELEASE_NICS:
		operation_release_nics(op);
		return;
	case ACTION_REMOVE_FILES:
		operation_remove_files(op);
		return;
	case ACTION_FORGET_REMOVAL:
		operation_forget_removal(op);
		return;
	case ACTION_STOP:
		operation_set_state(op, BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED);
		return;
	case ACTION_PAUSE:
		operation_set_state(op, BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED);
		return;
	case ACTION_RESUME:
	case ACTION_START:
		operation_set_state(op, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING);
		return;
	case ACTION_RECORD:
		operation_record(op);
		return;
	case ACTION_PREPARE_NICS:
		operation_prepare_nics(op);
		return;
	case ACTION_DEFINE:
		operation_define(op, !instance_has_domain(view));
		return;
	case ACTION_SET_POLICY:
		operation_set_policies(op);
		return;
	case ACTION_GROW_VOLUMES:
		operation_grow_volumes(op);
		return;
	case ACTION_REBIND:
		operation_rebind(op);
		return;
	default:
		operation_end(op); /* not an operation */
		return;
	}
}

void operation_begin(struct converger *c, struct instance *instance, enum machine_action action,
        const struct instance_view *view)
{
	struct operation *op = calloc(1, sizeof(*op));

	if (!op) {
		instance_fail(c, instance, TROUBLE_CAPACITY, 0, "ResourcesExhausted",
		        "bc-converger itself is out of memory");
		return;
	}
	op->c = c;
	op->instance = instance;
	op->action = action;
	op->runtime = view->runtime;
	op->lane = view->runtime ? runtime_link_index(view->runtime) + 1 : 0;
	if (instance->spec) {
		op->nics_hash = instance->spec->nics_hash;
		op->started_hash = instance->spec->started_hash;
		op->uses_netd = instance->spec->uses_netd;
		op->is_job = instance->spec->is_job;
	}
	instance->operation = op;
	c->lanes[op->lane].n_operations++;
	c->n_operations++;
	if (needs_spec(action)) {
		op->spec = instance->spec ? instance_spec_unpack(instance->spec) : NULL;
		if (!op->spec) {
			operation_fail_err(op, -ENOMEM, NULL);
			return;
		}
	}
	operation_run(op, view);
}

enum machine_action operation_action(const struct operation *op)
{
	return op->action;
}

void operation_give_up(struct operation *op)
{
	if (is_start(op->action))
		call_cancel(op->call);
}

void operation_abort(struct operation *op)
{
	call_cancel(op->call);
}
