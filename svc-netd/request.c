#include "svc-netd/request.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/tap_name.h"

#include <errno.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_BYTES = 64, PORTS_MAX = 256, QUEUES_DEFAULT_MAX = 16, PORT_MAX = 65535 };

int request_instance(const char *instance_id, struct err *err)
{
	if (uuid_is_valid(instance_id))
		return 0;
	return err_set(err, -EINVAL, "instance_id '%s' is no canonical lower-case UUID", QUOTED(instance_id));
}

int request_index(uint32_t index, struct err *err)
{
	return index <= TAP_INDEX_MAX
	        ? 0
	        : err_set(err, -EINVAL, "NIC index %u: 0 to %d are possible", index, TAP_INDEX_MAX);
}

typedef int (*ip_parse_fn)(const char *what, const char *s, struct ip *ret, struct err *err);

static int addresses_take(const char *field, char *const *texts, size_t n, size_t n_max, ip_parse_fn parse,
        struct ip *ret, size_t *ret_n, struct err *err)
{
	if (n > n_max)
		return err_set(
		        err, -EINVAL, "filter.%s: %zu entries, at most %zu are taken", field, n, n_max);
	for (size_t i = 0; i < n; i++) {
		char what[PATH_MAX_BYTES];
		int r;

		(void)snprintf(what, sizeof(what), "filter.%s[%zu]", field, i);
		r = parse(what, texts[i], &ret[i], err);
		if (r < 0)
			return r;
		if (parse == ip_parse_cidr && !ip_is_host(&ret[i]))
			return err_set(err, -EINVAL, "%s: '%s' is no address that a NIC can have", what,
			        QUOTED(texts[i]));
	}
	*ret_n = n;
	return 0;
}

static int policy_take(Bc__V1__Nic__Policy policy, enum nic_policy *ret, struct err *err)
{
	switch (policy) {
	case BC__V1__NIC__POLICY__POLICY_UNSPECIFIED:
	case BC__V1__NIC__POLICY__PUBLIC:
		*ret = NIC_POLICY_PUBLIC;
		return 0;
	case BC__V1__NIC__POLICY__PRIVATE:
		*ret = NIC_POLICY_PRIVATE;
		return 0;
	case BC__V1__NIC__POLICY__NONE:
		*ret = NIC_POLICY_NONE;
		return 0;
	default:
		return err_set(err, -EINVAL, "filter.policy %d: PUBLIC, PRIVATE or NONE", (int)policy);
	}
}

int request_filter(const Bc__V1__NicFilter *message, struct nic_filter *ret, struct err *err)
{
	struct nic_filter f = { 0 };
	int r;

	if (!message)
		return err_set(err, -EINVAL,
		        "filter: missing; an empty one lets a NIC ask for an address and no more");
	f.ssh_from_host_only = message->ssh_from_host_only;
	r = addresses_take("addresses", message->addresses, message->n_addresses, NIC_ADDRESSES_MAX,
	        ip_parse_cidr, f.addresses, &f.n_addresses, err);

	if (r == 0)
		r = addresses_take("gateways", message->gateways, message->n_gateways, NIC_GATEWAYS_MAX,
		        ip_parse, f.gateways, &f.n_gateways, err);
	if (r == 0)
		r = addresses_take("nameservers", message->nameservers, message->n_nameservers,
		        NIC_NAMESERVERS_MAX, ip_parse, f.nameservers, &f.n_nameservers, err);
	if (r == 0)
		r = addresses_take("private_prefixes", message->private_prefixes, message->n_private_prefixes,
		        NIC_PREFIXES_MAX, ip_parse_prefix, f.prefixes, &f.n_prefixes, err);
	if (r == 0)
		r = policy_take(message->policy, &f.policy, err);
	if (r == 0)
		*ret = f;
	return r;
}

static int queues_take(const Bc__V1__NicIdentity *nic, const struct request_policy *policy,
        struct owner *owner, struct err *err)
{
	uint32_t most = policy->queues_max < QUEUES_DEFAULT_MAX ? policy->queues_max : QUEUES_DEFAULT_MAX;
	bool wanted = nic->vhost == BC__V1__NIC__VHOST__ON;

	if (wanted && !policy->vhost_possible)
		return err_set(err, -EOPNOTSUPP,
		        "vhost is asked for, but /dev/vhost-net is not there: load the module vhost_net or ask for OFF");
	owner->vhost = policy->vhost_possible &&
	        (wanted || (nic->vhost == BC__V1__NIC__VHOST__VHOST_UNSPECIFIED && policy->default_vhost));
	if (nic->queues > QUEUES_MAX)
		return err_set(
		        err, -EINVAL, "%u queue pairs: at most %d are possible", nic->queues, QUEUES_MAX);
	owner->queues = nic->queues;
	if (owner->queues == 0)
		owner->queues = !owner->vhost || nic->vcpus == 0 ? 1 : nic->vcpus < most ? nic->vcpus : most;
	return 0;
}

static int identity_take(const Bc__V1__NicIdentity *nic, const char *master,
        const struct request_policy *policy, struct nic_request *ret, struct err *err)
{
	struct owner *owner = &ret->owner;
	int r;

	if (!nic)
		return err_set(err, -EINVAL, "nic: missing; it says whose interface this is");
	r = request_instance(nic->instance_id, err);
	if (r == 0)
		r = request_index(nic->index, err);
	if (r < 0)
		return r;
	if (!node_id_is_valid(nic->node_id))
		return err_set(err, -EINVAL, "nic.node_id '%s': at most 64 bytes of [A-Za-z0-9._:-]",
		        QUOTED(nic->node_id));
	if (!ifname_is_valid(master))
		return err_set(err, -EINVAL, "'%s' is no interface name", QUOTED(master));
	(void)snprintf(owner->node_id, sizeof(owner->node_id), "%s", nic->node_id);
	(void)snprintf(owner->instance_id, sizeof(owner->instance_id), "%s", nic->instance_id);
	(void)snprintf(owner->master, sizeof(owner->master), "%s", master);
	owner->index = nic->index;
	r = nic->mac[0] ? mac_parse("nic.mac", nic->mac, &owner->mac, err)
	                : tap_mac(nic->instance_id, nic->index, &owner->mac);
	if (r == 0)
		r = queues_take(nic, policy, owner, err);
	if (r == 0 && (nic->owner_uid == UINT32_MAX || nic->owner_gid == UINT32_MAX))
		r = err_set(
		        err, -EINVAL, "nic.owner_uid, nic.owner_gid: %u is no user and no group", UINT32_MAX);
	ret->uid = nic->owner_uid;
	ret->gid = nic->owner_gid;
	return r;
}

static int master_allow(const char *name, const struct request_policy *policy, struct err *err)
{
	for (size_t i = 0; i < policy->n_bridges; i++)
		if (strcmp(policy->bridges[i], name) == 0)
			return 0;
	return err_set(err, -EACCES,
	        "'%s' is not among netd's allowed_bridges: whoever runs this host puts it there, in netd.conf",
	        QUOTED(name));
}

/* The first address of the NIC in that family is where the port leads to. */
static const struct ip *guest_address(const struct nic_filter *filter, int family)
{
	for (size_t i = 0; i < filter->n_addresses; i++)
		if (filter->addresses[i].family == family)
			return &filter->addresses[i];
	return NULL;
}

static void port_add(struct nic_request *request, struct publication p, const struct ip *guest)
{
	p.guest = *guest;
	p.guest.n_bits = guest->family == AF_INET ? 32 : 128;
	request->ports[request->n_ports++] = p;
}

/* A mapping of every host address becomes one publication per family that the NIC has. */
static int mapping_take(const Bc__V1__PortMapping *m, size_t i, struct nic_request *request, struct err *err)
{
	struct publication p = { .protocol = m->protocol == BC__V1__PORT_MAPPING__PROTOCOL__UDP ? IPPROTO_UDP
		                                                                                : IPPROTO_TCP,
		.any = !m->host_address[0],
		.host_port = (uint16_t)m->host_port,
		.guest_port = (uint16_t)m->guest_port };
	const struct ip *v4 = guest_address(&request->filter, AF_INET);
	const struct ip *v6 = guest_address(&request->filter, AF_INET6);
	char what[PATH_MAX_BYTES];

	(void)snprintf(what, sizeof(what), "port_mappings[%zu].host_address", i);
	if (m->host_port == 0 || m->host_port > PORT_MAX || m->guest_port == 0 || m->guest_port > PORT_MAX)
		return err_set(err, -EINVAL, "port_mappings[%zu]: ports are 1 to %d, not %u and %u", i,
		        PORT_MAX, m->host_port, m->guest_port);
	if (!p.any) {
		int r = ip_parse(what, m->host_address, &p.host, err);
		if (r < 0)
			return r;
		if (!ip_is_host(&p.host))
			return err_set(err, -EINVAL,
			        "%s: '%s' leads to no NIC on a bridge: leave it out for every address of the host, or "
			        "write one that others can reach",
			        what, QUOTED(m->host_address));
		v4 = p.host.family == AF_INET ? v4 : NULL;
		v6 = p.host.family == AF_INET6 ? v6 : NULL;
	}
	if (!v4 && !v6)
		return err_set(err, -EINVAL,
		        "port_mappings[%zu]: the NIC has no address of that family to lead host port %u to",
		        i, m->host_port);
	if (v4)
		port_add(request, p, v4);
	if (v6)
		port_add(request, p, v6);
	return 0;
}

static int mappings_take(
        const Bc__V1__PrepareBridgeRequest *message, struct nic_request *request, struct err *err)
{
	int r = 0;

	if (message->n_port_mappings > PORTS_MAX)
		return err_set(err, -EINVAL, "port_mappings: %zu entries, at most %d are taken",
		        message->n_port_mappings, PORTS_MAX);
	if (message->n_port_mappings == 0)
		return 0;
	request->ports = calloc(2 * message->n_port_mappings, sizeof(*request->ports));
	if (!request->ports)
		return -ENOMEM;
	for (size_t i = 0; i < message->n_port_mappings && r == 0; i++)
		r = mapping_take(message->port_mappings[i], i, request, err);
	return r;
}

int request_bridge(const Bc__V1__PrepareBridgeRequest *message, const struct request_policy *policy,
        struct nic_request *ret, struct err *err)
{
	struct nic_request request = { .filtered = true };
	int r = identity_take(message->nic, message->bridge, policy, &request, err);

	if (r == 0)
		r = master_allow(message->bridge, policy, err);
	if (r == 0 && !message->filter)
		r = err_set(err, -EINVAL, "filter: missing; an empty one lets nothing but the MAC pass");
	if (r == 0)
		r = request_filter(message->filter, &request.filter, err);
	if (r == 0)
		r = mappings_take(message, &request, err);
	if (r < 0) {
		nic_request_done(&request);
		return r;
	}
	request.owner.filtered = true;
	*ret = request;
	return 0;
}

int request_macvtap(const Bc__V1__PrepareMacvtapRequest *message, const struct request_policy *policy,
        struct nic_request *ret, struct err *err)
{
	static const uint32_t modes[] = {
		[BC__V1__MACVTAP_ATTACHMENT__MODE__MODE_UNSPECIFIED] = MACVLAN_MODE_BRIDGE,
		[BC__V1__MACVTAP_ATTACHMENT__MODE__BRIDGE] = MACVLAN_MODE_BRIDGE,
		[BC__V1__MACVTAP_ATTACHMENT__MODE__VEPA] = MACVLAN_MODE_VEPA,
		[BC__V1__MACVTAP_ATTACHMENT__MODE__PRIVATE] = MACVLAN_MODE_PRIVATE,
		[BC__V1__MACVTAP_ATTACHMENT__MODE__PASSTHRU] = MACVLAN_MODE_PASSTHRU,
	};
	struct nic_request request = { 0 };
	int r = identity_take(message->nic, message->parent, policy, &request, err);

	if (r == 0)
		r = master_allow(message->parent, policy, err);
	if (r == 0 && (size_t)message->mode >= ARRAY_SIZE(modes))
		r = err_set(err, -EINVAL, "mode %d is no macvtap mode", (int)message->mode);
	if (r < 0)
		return r;
	request.macvtap_mode = modes[message->mode];
	*ret = request;
	return 0;
}
