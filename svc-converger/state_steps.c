/* A domain is started, stopped, paused and resumed: what the machine calls START, STOP, PAUSE and RESUME. */
#include "svc-converger/operation_steps.h"

#include "lib/base/clock.h"
#include "lib/domain/state.h"

#include <stdio.h>

static void instance_started(struct operation *op)
{
	struct instance *instance = op->instance;
	bool is_restart = instance->crashes || instance->observed == OBSERVED_CRASHED;

	instance->facts.started_hash = op->started_hash;
	instance->facts.nics_hash = op->nics_hash;
	if (is_restart)
		instance->facts.restarts++;
	reconciler_save_facts(op->c, instance);
	reconciler_end_attempt(op->c, instance);
	converger_event(op->c, EVENT_INFO, instance->id, is_restart ? "Restarted" : "Started",
	        "started by %s", runtime_link_id(op->runtime));
}

static void on_looked(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;
	const Bc__V1__Domain *domain = (const Bc__V1__Domain *)reply;
	struct rpc_status failure = { .code = op->failure };

	if (status->code == GRPC_STATUS_OK)
		runtime_link_learn(op->runtime, op->instance->id, domain);
	else if (status->code == GRPC_STATUS_NOT_FOUND)
		runtime_link_learn(op->runtime, op->instance->id, NULL);
	if (status->code == GRPC_STATUS_OK && domain->managed && domain_state_is_up(domain->state)) {
		instance_started(op);
		operation_succeed(op);
		return;
	}
	(void)snprintf(failure.message, sizeof(failure.message), "%s", op->message);
	operation_fail_outcome(
	        op, &failure, status->code == GRPC_STATUS_OK || status->code == GRPC_STATUS_NOT_FOUND);
}

/* A start that is told to have failed, or of which nothing is told, may be one all the same. Until that is known its
 * volumes are not another's to open, and its interfaces stay. */
static void operation_look(struct operation *op, const struct rpc_status *status)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

	op->failure = status->code;
	(void)snprintf(op->message, sizeof(op->message), "%s", status->message);
	request.id = op->instance->id;
	runtime_link_doubt(op->runtime, op->instance->id);
	operation_call_runtime(op, RUNTIME(get), &request.base, op->c->options.call_timeout_usec, on_looked);
}

/* A guest may be over before its start is answered: of a JOB that is its end. */
static bool is_started(const struct operation *op, const Bc__V1__Domain *domain)
{
	if (domain_state_is_up(domain->state))
		return true;
	return op->is_job &&
	        (domain->completed || domain->state == BC__V1__DOMAIN__STATE__CRASHED ||
	                (domain->boot && domain->boot->vmm_started_ns));
}

static void say_done(const struct operation *op)
{
	bool is_stop = op->action == ACTION_STOP;

	converger_event(op->c, EVENT_INFO, op->instance->id,
	        is_stop ? "Stopped" : (op->action == ACTION_PAUSE ? "Paused" : "Resumed"), "%s",
	        is_stop && instance_is_drained(op->c, op->instance) ? "for the node is drained"
	                                                            : "by wish of the spec");
}

static void on_state_set(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;
	const Bc__V1__Domain *domain = (const Bc__V1__Domain *)reply;

	if (status->code != GRPC_STATUS_OK && op->action == ACTION_START) {
		operation_look(op, status);
		return;
	}
	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	runtime_link_learn(op->runtime, op->instance->id, domain);
	if (op->action == ACTION_START && !is_started(op, domain)) {
		operation_fail(op, TROUBLE_RETRIED, "StartFailed",
		        *domain->message ? domain->message : "the domain went down as it was started", true);
		return;
	}
	if (op->action == ACTION_START)
		instance_started(op);
	else
		say_done(op);
	operation_succeed(op);
}

void operation_set_state(struct operation *op, Bc__V1__InstanceSpec__DesiredState state)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;
	uint64_t timeout_usec = op->c->options.change_timeout_usec;
	char key[80];

	(void)snprintf(
	        key, sizeof(key), "instance:%s:apply:%s", op->instance->id, operation_state_word(state));
	request.id = op->instance->id;
	request.state = state;
	request.idempotency_key = key;
	if (state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED) {
		request.grace_ns = op->c->options.stop_grace_usec * NSEC_PER_USEC;
		timeout_usec += op->c->options.stop_grace_usec;
		op->instance->was_stopped = true;
	}
	operation_call_runtime(op, RUNTIME(set_state), &request.base, timeout_usec, on_state_set);
}
