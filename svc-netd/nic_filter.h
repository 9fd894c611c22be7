/* What may pass a NIC, and the elements that say so to the kernel. */
#pragma once

#include "svc-netd/element.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum nic_policy {
	NIC_POLICY_PUBLIC,  /* anything but spoofing */
	NIC_POLICY_PRIVATE, /* peers only */
	NIC_POLICY_NONE,    /* only what is needed to hold the address */
};

enum {
	NIC_ADDRESSES_MAX = 16,
	NIC_GATEWAYS_MAX = 2,
	NIC_NAMESERVERS_MAX = 8,
	NIC_PREFIXES_MAX = 256,
	NIC_PEER_ELEMENTS_MAX = 8192, /* after prefixes were cut to lengths that have a set */
};

struct nic_filter {
	struct ip addresses[NIC_ADDRESSES_MAX]; /* with the length of their network, which is not used */
	size_t n_addresses;
	struct ip gateways[NIC_GATEWAYS_MAX];
	size_t n_gateways;
	struct ip nameservers[NIC_NAMESERVERS_MAX];
	size_t n_nameservers;
	struct ip prefixes[NIC_PREFIXES_MAX];
	size_t n_prefixes;
	enum nic_policy policy;
	bool ssh_from_host_only;
};

/* Adds what filter means for the NIC ifname whose guest has mac; NULL: nothing is filtered. -E2BIG, with
 * words, when the prefixes need more than NIC_PEER_ELEMENTS_MAX elements. */
int nic_filter_elements(const char *ifname, const struct mac *mac, const struct nic_filter *filter,
        struct elements *elements, struct err *err);

/* The inverse, as far as the kernel can tell. */
bool elements_filtered(const struct elements *elements);
enum nic_policy elements_policy(const struct elements *elements);

/* fe80::/64 and the MAC, as a guest that does not hide it makes its link-local address. */
struct ip ip_link_local(const struct mac *mac);
