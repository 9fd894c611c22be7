/* What a running guest is told: GROW_VOLUMES and REBIND. */
#include "svc-converger/operation_steps.h"

#include "svc-converger/text_hash.h"

static void operation_grow_next(struct operation *op);

static void on_grown(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	op->grown_bytes += ((const Bc__V1__GrowVolumeReply *)reply)->size_bytes;
	op->at++;
	operation_grow_next(op);
}

static void operation_grow_end(struct operation *op)
{
	op->instance->grown_bytes = op->grown_bytes;
	converger_event(
	        op->c, EVENT_INFO, op->instance->id, "VolumesGrown", "the guest knows their new sizes");
	operation_succeed(op);
}

/* Each volume that the domain was started with is told at its size; one that the guest knows so is no work for its
 * runtime. */
static void operation_grow_next(struct operation *op)
{
	Bc__V1__GrowVolumeRequest request = BC__V1__GROW_VOLUME_REQUEST__INIT;
	const struct domain *known = runtime_link_domain(op->runtime, op->instance->id);
	Bc__V1__Domain *domain = known ? domain_unpack(known) : NULL;
	struct volume_info info;

	while (domain && op->at < domain->n_volumes &&
	        (volume_store_get(op->c->volumes, domain->volumes[op->at]->volume_id, &info) < 0 ||
	                !info.exists))
		op->at++;
	if (!domain || op->at == domain->n_volumes) {
		operation_grow_end(op);
	} else {
		request.id = op->instance->id;
		request.volume_id = domain->volumes[op->at]->volume_id;
		request.size_bytes = info.size_bytes;
		operation_call_runtime(op, RUNTIME(grow_volume), &request.base,
		        op->c->options.change_timeout_usec, on_grown);
	}
	if (domain)
		bc__v1__domain__free_unpacked(domain, NULL);
}

void operation_grow_volumes(struct operation *op)
{
	operation_grow_next(op);
}

static void on_rebound(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;
	const Bc__V1__RebindReply *rebound = (const Bc__V1__RebindReply *)reply;

	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	op->instance->rebound_hash = text_hash(rebound->identity_rebound_ref);
	converger_event(op->c, EVENT_INFO, op->instance->id, "IdentityRebound", "the guest took on %.128s",
	        rebound->identity_rebound_ref);
	operation_succeed(op);
}

void operation_rebind(struct operation *op)
{
	Bc__V1__RebindRequest request = BC__V1__REBIND_REQUEST__INIT;
	struct secret *secret = secrets_take(
	        op->c->secrets, op->instance->id, op->spec->allocation_id, op->spec->identity_rebind_ref);

	if (!secret) {
		operation_fail(op, TROUBLE_RETRIED, "RebindFailed", "its payload is not here any more", true);
		return;
	}
	request.id = op->instance->id;
	request.ref = op->spec->identity_rebind_ref;
	request.payload =
	        (ProtobufCBinaryData){ .len = secret_size(secret), .data = (uint8_t *)secret_data(secret) };
	operation_call_runtime(
	        op, RUNTIME(rebind), &request.base, op->c->options.change_timeout_usec, on_rebound);
	secret_free(secret);
}
