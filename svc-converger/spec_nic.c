#include "svc-converger/spec_instance.h"

#include "lib/base/ids.h"
#include "lib/base/ip.h"
#include "lib/base/mac.h"
#include "lib/base/quote.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	ADDRESSES_MAX = 16,
	GATEWAYS_MAX = 2,
	NAMESERVERS_MAX = 8,
	PREFIXES_MAX = 256,
	QUEUES_MAX = 64,
	FIELD_MAX = 40
};

typedef int (*ip_parse_fn)(const char *what, const char *s, struct ip *ret, struct err *err);

/* Parses one item of a list of addresses; false, with a fault, when it is none. */
static bool ip_item(struct spec_walk *walk, const char *list, size_t i, const char *value, ip_parse_fn parse,
        struct ip *ret)
{
	char field[FIELD_MAX];
	struct err err;

	if (parse("", value, ret, NULL) == 0)
		return true;
	err = (struct err){ 0 };
	(void)snprintf(field, sizeof(field), "%s[%zu]", list, i);
	(void)parse(field, value, ret, &err); /* once more, for its words */
	spec_fault_text(walk, err.text);
	return false;
}

static void host_address(
        struct spec_walk *walk, const char *list, size_t i, const char *value, const struct ip *ip)
{
	char field[FIELD_MAX];

	if (ip_is_host(ip))
		return;
	(void)snprintf(field, sizeof(field), "%s[%zu]", list, i);
	spec_fault(walk, field, "'%s' is no address one host can have", QUOTED(value));
}

static void addresses_check(struct spec_walk *walk, const Bc__V1__Nic *nic)
{
	struct ip ip;

	spec_check_count(walk, "addresses", nic->n_addresses, ADDRESSES_MAX);
	for (size_t i = 0; i < nic->n_addresses; i++)
		if (ip_item(walk, "addresses", i, nic->addresses[i], ip_parse_cidr, &ip))
			host_address(walk, "addresses", i, nic->addresses[i], &ip);

	spec_check_count(walk, "nameservers", nic->n_nameservers, NAMESERVERS_MAX);
	for (size_t i = 0; i < nic->n_nameservers; i++)
		if (ip_item(walk, "nameservers", i, nic->nameservers[i], ip_parse, &ip))
			host_address(walk, "nameservers", i, nic->nameservers[i], &ip);

	spec_check_count(walk, "private_prefixes", nic->n_private_prefixes, PREFIXES_MAX);
	for (size_t i = 0; i < nic->n_private_prefixes; i++)
		(void)ip_item(walk, "private_prefixes", i, nic->private_prefixes[i], ip_parse_prefix, &ip);
}

static void gateways_check(struct spec_walk *walk, const Bc__V1__Nic *nic)
{
	size_t n_ipv4 = 0, n_ipv6 = 0;
	struct ip ip;

	spec_check_count(walk, "gateways", nic->n_gateways, GATEWAYS_MAX);
	for (size_t i = 0; i < nic->n_gateways; i++) {
		if (!ip_item(walk, "gateways", i, nic->gateways[i], ip_parse, &ip))
			continue;
		host_address(walk, "gateways", i, nic->gateways[i], &ip);
		if ((ip.family == AF_INET ? n_ipv4++ : n_ipv6++) == 1)
			spec_fault(walk, "gateways",
			        "has two of one family; write one IPv4 and one IPv6 at most");
	}
}

/* Where netd has no hand on the packets a rule would be a promise nobody keeps. */
static void filter_check(struct spec_walk *walk, const Bc__V1__Nic *nic, const char *kind)
{
	if (nic->policy == BC__V1__NIC__POLICY__PRIVATE || nic->policy == BC__V1__NIC__POLICY__NONE)
		spec_fault(walk, "policy",
		        "cannot be kept on a %s NIC, which no filter sees; use a bridge NIC", kind);
}

static void attachment_check(struct spec_walk *walk, const Bc__V1__Nic *nic, bool ssh_from_host_only)
{
	switch (nic->attachment_case) {
	case BC__V1__NIC__ATTACHMENT_BRIDGE:
		spec_check_with(walk, "bridge.name", nic->bridge->name, ifname_check);
		return;
	case BC__V1__NIC__ATTACHMENT_MACVTAP:
		spec_check_with(walk, "macvtap.parent", nic->macvtap->parent, ifname_check);
		spec_check_enum(walk, "macvtap.mode", &bc__v1__macvtap_attachment__mode__descriptor,
		        (int)nic->macvtap->mode, true);
		filter_check(walk, nic, "macvtap");
		if (ssh_from_host_only)
			spec_fault(walk, "macvtap",
			        "sshFromHostOnly cannot be kept on a macvtap NIC; use a bridge NIC");
		return;
	case BC__V1__NIC__ATTACHMENT_USER:
		filter_check(walk, nic, "user-mode");
		if (nic->queues > 1)
			spec_fault(walk, "queues", "%u, but a user-mode NIC has one queue", nic->queues);
		return;
	case BC__V1__NIC__ATTACHMENT__NOT_SET:
	default:
		spec_fault(walk, "", "has no attachment; write one of bridge, macvtap and user");
		return;
	}
}

static int mac_check(const char *what, const char *value, struct err *err)
{
	struct mac mac;

	return mac_parse(what, value, &mac, err);
}

void spec_check_nic(struct spec_walk *walk, const Bc__V1__Nic *nic, bool ssh_from_host_only)
{
	if (nic->mac[0])
		spec_check_with(walk, "mac", nic->mac, mac_check);
	attachment_check(walk, nic, ssh_from_host_only);
	addresses_check(walk, nic);
	gateways_check(walk, nic);
	spec_check_enum(walk, "policy", &bc__v1__nic__policy__descriptor, (int)nic->policy, true);
	spec_check_enum(walk, "vhost", &bc__v1__nic__vhost__descriptor, (int)nic->vhost, true);
	spec_check_range(walk, "queues", nic->queues, 0, QUEUES_MAX);
}
