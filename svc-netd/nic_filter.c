#include "svc-netd/nic_filter.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

struct ip ip_link_local(const struct mac *mac)
{
	const uint8_t *m = mac->bytes;

	return (struct ip){
		.family = AF_INET6,
		.n_bits = 128,
		.bytes = { 0xfe, 0x80, [8] = m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5] },
	};
}

/* Network number n of those that prefix is cut into, each n_bits long. */
static struct ip subnet(const struct ip *prefix, unsigned n_bits, unsigned n)
{
	struct ip ip = *prefix;

	ip.n_bits = (uint8_t)n_bits;
	for (unsigned bit = n_bits; bit > prefix->n_bits; bit--, n >>= 1) {
		if (n & 1)
			ip.bytes[(bit - 1) / 8] |= (uint8_t)(0x80 >> (bit - 1) % 8);
	}
	return ip;
}

static int peer_add(
        const char *ifname, const struct ip *ip, size_t *n_peers, struct elements *elements, struct err *err)
{
	bool ip4 = ip->family == AF_INET;
	unsigned step = ip4 ? PEERS4_STEP : PEERS6_STEP;
	unsigned level = (ip->n_bits + step - 1) / step, n = 1U << (level * step - ip->n_bits);
	struct ip network = ip_network(ip);

	*n_peers += n;
	if (*n_peers > NIC_PEER_ELEMENTS_MAX)
		return err_set(err, -E2BIG,
		        "the private prefixes need more than %d elements: use lengths that are multiples of %d "
		        "(IPv4) and %d (IPv6), or fewer of them",
		        NIC_PEER_ELEMENTS_MAX, PEERS4_STEP, PEERS6_STEP);
	for (unsigned i = 0; i < n; i++) {
		struct ip part = subnet(&network, level * step, i);
		struct element e = element_nic_ip((ip4 ? SET_PEERS4 : SET_PEERS6) + level, ifname, &part);

		elements_add(elements, &e);
	}
	return 0;
}

static int peers_add(const char *ifname, const struct ip *ips, size_t n, size_t *n_peers,
        struct elements *elements, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = peer_add(ifname, &ips[i], n_peers, elements, err);
	return r;
}

static void name_add(enum set_id set, const char *ifname, struct elements *elements)
{
	struct element e = element_nic(set, ifname);

	elements_add(elements, &e);
}

static void address_add(const char *ifname, const struct ip *ip, struct elements *elements)
{
	struct element e =
	        element_nic_ip(ip->family == AF_INET ? SET_ADDRESSES4 : SET_ADDRESSES6, ifname, ip);

	elements_add(elements, &e);
}

int nic_filter_elements(const char *ifname, const struct mac *mac, const struct nic_filter *filter,
        struct elements *elements, struct err *err)
{
	struct ip link_local = ip_link_local(mac);
	struct element e = element_nic_mac(SET_MACS, ifname, mac);
	size_t n_peers = 0;
	int r = 0;

	name_add(SET_NICS, ifname, elements);
	if (!filter) {
		name_add(SET_UNFILTERED, ifname, elements);
		return 0;
	}
	elements_add(elements, &e);
	address_add(ifname, &link_local, elements);
	for (size_t i = 0; i < filter->n_addresses; i++)
		address_add(ifname, &filter->addresses[i], elements);
	if (filter->ssh_from_host_only)
		name_add(SET_SSH_FROM_HOST, ifname, elements);
	switch (filter->policy) {
	case NIC_POLICY_PUBLIC:
		break;
	case NIC_POLICY_PRIVATE:
		name_add(SET_RESTRICTED, ifname, elements);
		r = peers_add(ifname, filter->gateways, filter->n_gateways, &n_peers, elements, err);
		if (r == 0)
			r = peers_add(
			        ifname, filter->nameservers, filter->n_nameservers, &n_peers, elements, err);
		if (r == 0)
			r = peers_add(ifname, filter->prefixes, filter->n_prefixes, &n_peers, elements, err);
		break;
	case NIC_POLICY_NONE:
		name_add(SET_RESTRICTED, ifname, elements);
		name_add(SET_ISOLATED, ifname, elements);
		break;
	}
	return r;
}

bool elements_filtered(const struct elements *elements)
{
	return elements_count(elements, SET_NICS) > 0 && elements_count(elements, SET_UNFILTERED) == 0;
}

enum nic_policy elements_policy(const struct elements *elements)
{
	if (elements_count(elements, SET_ISOLATED))
		return NIC_POLICY_NONE;
	return elements_count(elements, SET_RESTRICTED) ? NIC_POLICY_PRIVATE : NIC_POLICY_PUBLIC;
}
