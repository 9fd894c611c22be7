/* What netd does for an instance: PREPARE_NICS, SET_POLICY and RELEASE_NICS. */
#include "svc-converger/operation_steps.h"

#include "lib/base/tap_name.h"
#include "lib/net/port_map.h"
#include "lib/rpc/message.h"

#include <string.h>

static void fill_filter(Bc__V1__NicFilter *filter, const Bc__V1__InstanceSpec *spec, const Bc__V1__Nic *nic)
{
	bc__v1__nic_filter__init(filter);
	filter->n_addresses = nic->n_addresses;
	filter->addresses = nic->addresses;
	filter->n_gateways = nic->n_gateways;
	filter->gateways = nic->gateways;
	filter->n_nameservers = nic->n_nameservers;
	filter->nameservers = nic->nameservers;
	filter->policy = nic->policy;
	filter->n_private_prefixes = nic->n_private_prefixes;
	filter->private_prefixes = nic->private_prefixes;
	filter->ssh_from_host_only = spec->ssh_from_host_only;
}

static void fill_identity(Bc__V1__NicIdentity *identity, struct operation *op, const Bc__V1__Nic *nic)
{
	const Bc__V1__DescribeReply *runtime = runtime_link_description(op->runtime);

	bc__v1__nic_identity__init(identity);
	identity->instance_id = op->instance->id;
	identity->index = (uint32_t)op->at;
	identity->mac = nic->mac;
	identity->owner_uid = runtime->vmm_uid;
	identity->owner_gid = runtime->vmm_gid;
	identity->vcpus = op->spec->vcpus;
	identity->queues = nic->queues;
	identity->vhost = nic->vhost;
	identity->node_id = (char *)op->c->options.node_id;
}

static void operation_prepare_next(struct operation *op);

static int judge_vhost(
        const Bc__V1__Nic *nic, size_t index, const Bc__V1__PreparedNic *built, struct err *err)
{
	if (nic->vhost == BC__V1__NIC__VHOST__ON && !built->vhost)
		return err_set(err, -EPROTO, "netd built NIC %zu without vhost, which is asked for", index);
	if (nic->vhost == BC__V1__NIC__VHOST__OFF && built->vhost)
		return err_set(err, -EPROTO, "netd built NIC %zu with vhost, which is off for it", index);
	return 0;
}

static bool is_published(const Bc__V1__PreparedNic *built, const Bc__V1__PortMapping *port)
{
	for (size_t i = 0; i < built->n_published; i++)
		if (port_map_equal(built->published[i], port))
			return true;
	return false;
}

static int judge_ports(const Bc__V1__PreparedNic *built, size_t index, Bc__V1__PortMapping *const *ports,
        size_t n_ports, struct err *err)
{
	char text[PORT_MAP_TEXT_MAX];

	if (built->n_published != n_ports)
		return err_set(err, -EPROTO, "netd published %zu of %zu ports of NIC %zu", built->n_published,
		        n_ports, index);
	for (size_t i = 0; i < n_ports; i++)
		if (!is_published(built, ports[i]))
			return err_set(err, -EPROTO, "netd did not publish %s of NIC %zu",
			        port_map_text(ports[i], text, sizeof(text)), index);
	return 0;
}

/* netd says what it built; anything else than what was asked for is refused. */
static int judge_prepared(const struct operation *op, const Bc__V1__PreparedNic *built,
        Bc__V1__PortMapping *const *ports, size_t n_ports, struct err *err)
{
	const Bc__V1__Nic *nic = op->spec->nics[op->at];
	char name[IFNAME_MAX];
	int r = tap_name(op->instance->id, (unsigned)op->at, name);

	if (r < 0)
		return r;
	if (strcmp(built->interface, name) != 0)
		return err_set(err, -EPROTO, "netd built '%s' for NIC %zu, not '%s'", built->interface,
		        op->at, name);
	if (built->queues == 0 || (nic->queues && built->queues != nic->queues))
		return err_set(err, -EPROTO, "netd built %u queue pairs for NIC %zu, not %u", built->queues,
		        op->at, nic->queues);
	r = judge_vhost(nic, op->at, built, err);
	if (r < 0 || nic->attachment_case != BC__V1__NIC__ATTACHMENT_BRIDGE)
		return r;
	if (!built->filtered)
		return err_set(err, -EPROTO, "netd built NIC %zu without its filter", op->at);
	return judge_ports(built, op->at, ports, n_ports, err);
}

static size_t ports_of_nic(
        const Bc__V1__InstanceSpec *spec, size_t nic, Bc__V1__PortMapping **ret, size_t n_max)
{
	size_t n = 0;

	for (size_t i = 0; i < spec->n_port_mappings && n < n_max; i++) {
		uint32_t resolved;

		if (port_map_resolve(spec, spec->port_mappings[i], &resolved, NULL) == 0 && resolved == nic)
			ret[n++] = spec->port_mappings[i];
	}
	return n;
}

static void on_prepared(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;
	struct attempt *attempt = op->instance->attempt;
	Bc__V1__PortMapping *ports[256];
	struct err err = { 0 };
	size_t n_ports;
	int r;

	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	netd_link_learn(op->c->netd, op->instance->id, (unsigned)op->at, (const Bc__V1__PreparedNic *)reply);
	n_ports = ports_of_nic(op->spec, op->at, ports, ARRAY_SIZE(ports));
	r = judge_prepared(op, (const Bc__V1__PreparedNic *)reply, ports, n_ports, &err);
	if (r == 0 && attempt) {
		attempt->nics[op->at] = (Bc__V1__PreparedNic *)message_copy(reply);
		r = attempt->nics[op->at] ? 0 : -ENOMEM;
	}
	if (r < 0) {
		operation_fail_err(op, r, &err);
		return;
	}
	op->at++;
	operation_prepare_next(op);
}

static int operation_prepare_bridge(struct operation *op, const Bc__V1__Nic *nic)
{
	Bc__V1__PrepareBridgeRequest request = BC__V1__PREPARE_BRIDGE_REQUEST__INIT;
	Bc__V1__NicIdentity identity;
	Bc__V1__NicFilter filter;
	Bc__V1__PortMapping *ports[256];

	fill_identity(&identity, op, nic);
	fill_filter(&filter, op->spec, nic);
	request.nic = &identity;
	request.filter = &filter;
	request.bridge = nic->bridge->name;
	request.n_port_mappings = ports_of_nic(op->spec, op->at, ports, ARRAY_SIZE(ports));
	request.port_mappings = ports;
	return call_unary(&op->call, netd_link_channel(op->c->netd), NETD(prepare_bridge), &request.base,
	        op->c->options.change_timeout_usec, on_prepared, op);
}

static int operation_prepare_macvtap(struct operation *op, const Bc__V1__Nic *nic)
{
	Bc__V1__PrepareMacvtapRequest request = BC__V1__PREPARE_MACVTAP_REQUEST__INIT;
	Bc__V1__NicIdentity identity;

	fill_identity(&identity, op, nic);
	request.nic = &identity;
	request.parent = nic->macvtap->parent;
	request.mode = nic->macvtap->mode;
	return call_unary(&op->call, netd_link_channel(op->c->netd), NETD(prepare_macvtap), &request.base,
	        op->c->options.change_timeout_usec, on_prepared, op);
}

static void operation_prepare_next(struct operation *op)
{
	struct attempt *attempt = op->instance->attempt;
	int r = 0;

	for (; attempt && op->at < op->spec->n_nics; op->at++) {
		const Bc__V1__Nic *nic = op->spec->nics[op->at];

		if (nic->attachment_case == BC__V1__NIC__ATTACHMENT_BRIDGE)
			r = operation_prepare_bridge(op, nic);
		else if (nic->attachment_case == BC__V1__NIC__ATTACHMENT_MACVTAP)
			r = operation_prepare_macvtap(op, nic);
		else {
			attempt->nics[op->at] = calloc(1, sizeof(Bc__V1__PreparedNic));
			if (attempt->nics[op->at]) {
				bc__v1__prepared_nic__init(attempt->nics[op->at]);
				continue;
			}
			r = -ENOMEM;
		}
		if (r < 0)
			operation_fail_err(op, r, NULL);
		return;
	}
	if (attempt)
		attempt->nics_ready = true;
	operation_succeed(op);
}

static void operation_release_surplus(struct operation *op);

static void on_surplus_released(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	(void)reply;
	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	netd_link_learn_released(op->c->netd, op->instance->id, (unsigned)op->at);
	op->at++;
	operation_release_surplus(op);
}

static bool spec_wants_interface(const Bc__V1__InstanceSpec *spec, size_t nic)
{
	return nic < spec->n_nics && spec->nics[nic]->attachment_case != BC__V1__NIC__ATTACHMENT_USER;
}

/* What an earlier spec had built and this one does not name: it goes first, with the ports it holds. */
static void operation_release_surplus(struct operation *op)
{
	Bc__V1__NicRef ref = BC__V1__NIC_REF__INIT;
	int r;

	while (op->at < TAP_INDEX_COUNT &&
	        (spec_wants_interface(op->spec, op->at) ||
	                !netd_link_holds(op->c->netd, op->instance->id, (unsigned)op->at)))
		op->at++;
	if (op->at == TAP_INDEX_COUNT) {
		op->at = 0;
		operation_prepare_next(op);
		return;
	}
	ref.instance_id = op->instance->id;
	ref.index = (uint32_t)op->at;
	r = call_unary(&op->call, netd_link_channel(op->c->netd), NETD(remove), &ref.base,
	        op->c->options.change_timeout_usec, on_surplus_released, op);
	if (r < 0)
		operation_fail_err(op, r, NULL);
}

void operation_prepare_nics(struct operation *op)
{
	int r = operation_make_attempt(op);

	if (r < 0)
		operation_fail_err(op, r, NULL);
	else
		operation_release_surplus(op);
}

static void operation_set_next_policy(struct operation *op);

static void on_policy_set(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	/* Without an address to lead it to a port is published no more. */
	netd_link_learn(op->c->netd, op->instance->id, (unsigned)op->at, (const Bc__V1__PreparedNic *)reply);
	op->at++;
	operation_set_next_policy(op);
}

static void operation_set_next_policy(struct operation *op)
{
	Bc__V1__SetPolicyRequest request = BC__V1__SET_POLICY_REQUEST__INIT;
	Bc__V1__NicRef ref = BC__V1__NIC_REF__INIT;
	Bc__V1__NicFilter filter;
	int r;

	/* A NIC that this spec adds has no interface before the next start. */
	while (op->at < op->spec->n_nics &&
	        (op->spec->nics[op->at]->attachment_case != BC__V1__NIC__ATTACHMENT_BRIDGE ||
	                !netd_link_holds(op->c->netd, op->instance->id, (unsigned)op->at)))
		op->at++;
	if (op->at == op->spec->n_nics) {
		op->instance->facts.nics_hash = op->nics_hash;
		reconciler_save_facts(op->c, op->instance);
		operation_succeed(op);
		return;
	}
	ref.instance_id = op->instance->id;
	ref.index = (uint32_t)op->at;
	fill_filter(&filter, op->spec, op->spec->nics[op->at]);
	request.nic = &ref;
	request.filter = &filter;
	r = call_unary(&op->call, netd_link_channel(op->c->netd), NETD(set_policy), &request.base,
	        op->c->options.change_timeout_usec, on_policy_set, op);
	if (r < 0)
		operation_fail_err(op, r, NULL);
}

void operation_set_policies(struct operation *op)
{
	operation_set_next_policy(op);
}

static void on_released(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;

	(void)reply;
	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	netd_link_learn_removed(op->c->netd, op->instance->id);
	if (op->instance->removal)
		op->instance->removal->nics_gone = true;
	reconciler_end_attempt(op->c, op->instance);
	/* A start that is useless is no better for it. */
	if (op->instance->trouble && op->instance->trouble->kind == TROUBLE_TERMINAL)
		operation_end(op);
	else
		operation_succeed(op);
}

void operation_release_nics(struct operation *op)
{
	Bc__V1__RemoveInstanceRequest request = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	int r;

	request.instance_id = op->instance->id;
	r = call_unary(&op->call, netd_link_channel(op->c->netd), NETD(remove_instance), &request.base,
	        op->c->options.change_timeout_usec, on_released, op);
	if (r < 0)
		operation_fail_err(op, r, NULL);
}
