#include "svc-netd/nft_batch.h"
#include "svc-netd/nft_rule.h"
#include "svc-netd/tables.h"

#include "lib/base/cleanup.h"

#include <netinet/in.h> /* before the kernel's, which then leaves out what is here */

#include "svc-netd/nft_words.h"

#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/rtnetlink.h>

/* How a port is published.
 *
 * A mapping is one entry of a map: host address (or every one), protocol and port, to the guest's address
 * and port. New connections are looked up where they arrive and where the host itself makes them. A guest's
 * neighbour that comes by way of the host is given the host's address, for the guest would answer it
 * directly otherwise.
 *
 * Loopback addresses are left to the host's own processes. To lead them to a guest takes route_localnet, by which the
 * bridge's neighbours reach what listens at 127.0.0.1 as well (CVE-2020-8558), and IPv6 has no such thing. */

enum {
	PRIORITY_GUARD = -400, /* before conntrack and everybody's raw tables */
	PRIORITY_DNAT = -100,
	PRIORITY_SNAT = 100,
};

/* One rule a line, as nft prints them. */
/* clang-format off */

#define TO_THE_HOST NUMBER_IS(FIB_DADDR_TYPE, RTN_LOCAL)
#define NOT_LOOPBACK4 MASKED_IS_NOT(IP4_DADDR, { 0xff }, { 127 })
#define NOT_LOOPBACK6 IS_NOT(IP6_DADDR, { [15] = 1 })

static const struct nft_chain publish_chains[] = {
	{ .name = "prerouting", .type = "nat", .hook = NF_INET_PRE_ROUTING, .priority = PRIORITY_DNAT },
	{ .name = "output", .type = "nat", .hook = NF_INET_LOCAL_OUT, .priority = PRIORITY_DNAT },
	{ .name = "postrouting", .type = "nat", .hook = NF_INET_POST_ROUTING, .priority = PRIORITY_SNAT },
};

#define PUBLISH(at) \
	{ at, { FAMILY(NFPROTO_IPV4), DNAT(NFPROTO_IPV4, SET_PUBLISHED4, IP4_DADDR, L4PROTO, DEST_PORT) } }, \
	{ at, { FAMILY(NFPROTO_IPV6), DNAT(NFPROTO_IPV6, SET_PUBLISHED6, IP6_DADDR, L4PROTO, DEST_PORT) } }, \
	{ at, { TO_THE_HOST, FAMILY(NFPROTO_IPV4), NOT_LOOPBACK4, \
		DNAT(NFPROTO_IPV4, SET_PUBLISHED4_ANY, L4PROTO, DEST_PORT) } }, \
	{ at, { TO_THE_HOST, FAMILY(NFPROTO_IPV6), NOT_LOOPBACK6, \
		DNAT(NFPROTO_IPV6, SET_PUBLISHED6_ANY, L4PROTO, DEST_PORT) } }

#define HAIRPIN(ip, id, daddr) \
	{ "postrouting", { HAS_BIT(CT_STATUS, IPS_DST_NAT), FAMILY(ip), \
		IN(id, IIFNAME, daddr, L4PROTO, DEST_PORT), MASQUERADE } }

static const struct nft_rule publish_rules[] = {
	PUBLISH("prerouting"),
	PUBLISH("output"),
	HAIRPIN(NFPROTO_IPV4, SET_HAIRPIN4, IP4_DADDR),
	HAIRPIN(NFPROTO_IPV6, SET_HAIRPIN6, IP6_DADDR),
};

/* Frames to 01:80:c2:00:00:0e, and to …:00 where spanning tree is on, are handed to the host as if the TAP
 * were no port of a bridge, past every hook of the bridge. Nothing else of a NIC comes up to IP under the
 * TAP's own name. */
static const struct nft_chain guard_chain = {
	.name = "guard",
	.type = "filter",
	.hook = NF_INET_PRE_ROUTING,
	.priority = PRIORITY_GUARD,
};
static const struct nft_rule guard_rule = { "guard", { IN_GROUP(NFT_META_IIFGROUP), DROP } };

/* clang-format on */

void tables_add_inet(struct nft_batch *batch, uint32_t flags, bool publish)
{
	uint32_t n_anonymous = 0;

	nft_batch_add_table(batch, NFPROTO_INET, flags);
	nft_batch_add_chain(batch, NFPROTO_INET, &guard_chain);
	nft_batch_add_rule(batch, NFPROTO_INET, &guard_rule, &n_anonymous);
	if (!publish)
		return;
	for (enum set_id set = 0; set < SET_COUNT; set++) {
		if (!set_info(set)->bridge)
			nft_batch_add_set(batch, set);
	}
	for (size_t i = 0; i < ARRAY_SIZE(publish_chains); i++)
		nft_batch_add_chain(batch, NFPROTO_INET, &publish_chains[i]);
	for (size_t i = 0; i < ARRAY_SIZE(publish_rules); i++)
		nft_batch_add_rule(batch, NFPROTO_INET, &publish_rules[i], &n_anonymous);
}

size_t tables_inet_count(bool publish)
{
	return 1 + (publish ? ARRAY_SIZE(publish_rules) : 0);
}
