#include "svc-netd/nft_batch.h"
#include "svc-netd/nft_rule.h"
#include "svc-netd/tables.h"

#include "lib/base/cleanup.h"

#include <netinet/in.h> /* before the kernel's, which then leaves out what is here */

#include "svc-netd/nft_words.h"

#include <linux/netfilter_bridge.h>
#include <stddef.h>

/* How a frame is judged.
 *
 * A frame from a NIC is judged at prerouting, as its sender's: who it says it is from, then whom it goes
 * to. A frame to a NIC is judged at forward and output, as its receiver's. The two never meet in one chain,
 * so no NIC's leave ends another NIC's check. Every chain of the sender accepts only what a rule names and
 * ends in a drop: an address or a port that cannot be read matches no rule, and is dropped.
 *
 * A frame that its elements do not allow, but that comes from or goes to an interface in a group of ours,
 * is dropped: an interface whose rules are gone, or that waits for its deletion, passes nothing. */

/* Below br_netfilter, which takes IPv4 out of the bridge's prerouting at 0. */
enum { PRIORITY = -250 };

enum {
	NFT_TYPE_PROTO = 12,
	NFT_TYPE_ICMP6 = 29,
	PORT_SSH = 22,
	PORT_DHCP_SERVER = 67,
	PORT_DHCP_CLIENT = 68,
	PORT_DHCP6_CLIENT = 546,
	PORT_DHCP6_SERVER = 547,
	TCP_SYN = 0x02,
	REQUEST = 1,
	IGMP_QUERY = 0x11,
	MLD_QUERY = 130,
	MLD_REPORT = 131,
	MLD_DONE = 132,
	ND_ROUTER_SOLICIT = 133,
	ND_ROUTER_ADVERT = 134,
	ND_SOLICIT = 135,
	ND_ADVERT = 136,
	ND_REDIRECT = 137,
	ROUTER_RENUMBERING = 138,
	MLD2_REPORT = 143,
	MULTICAST_ROUTER_ADVERT = 151,
	ND_SOURCE_LINK_ADDRESS = 1,
	ND_TARGET_LINK_ADDRESS = 2,
	IP4_FRAGMENT_BITS = 0x3fff, /* more to come, or not the first */
	IP4_OFFSET_BITS = 0x1fff,
	IP6_OFFSET_BITS = 0xfff8,
};

/* One rule a line, as nft prints them. */
/* clang-format off */

#define ICMP6(x) IS(TYPE, BYTES1(x))
#define ICMP6_NOT(x) IS_NOT(TYPE, BYTES1(x))
#define ICMP6_ONE_OF(...) ONE_OF(NFT_TYPE_ICMP6, TYPE, __VA_ARGS__)
#define IP4_LATER_FRAGMENT MASKED_IS_NOT(NET(6, 2), BYTES2(IP4_OFFSET_BITS), ZERO)
#define IP4_WHOLE MASKED_IS(NET(6, 2), BYTES2(IP4_FRAGMENT_BITS), ZERO)
#define IP6_LATER_FRAGMENT MASKED_IS_NOT(IP6_FRAGMENT_OFFSET, BYTES2(IP6_OFFSET_BITS), ZERO)
#define IP6_FRAGMENT IS(IP6_IS_FRAGMENT, { 1 })
#define LINK_LOCAL_BITS { 0xff, 0xff, 0xff, 0xff, 0xff, 0xf0 }
#define TO_LINK_LOCAL MASKED_IS(ETHER_DADDR, LINK_LOCAL_BITS, { 0x01, 0x80, 0xc2 })
#define JOINS_OR_LOOKS_FOR_ROUTERS ICMP6_ONE_OF(MLD_REPORT, MLD_DONE, ND_ROUTER_SOLICIT, MLD2_REPORT)
#define FOR_ROUTERS_TO_SAY \
	ICMP6_ONE_OF(MLD_QUERY, ND_ROUTER_ADVERT, ND_REDIRECT, ROUTER_RENUMBERING, MULTICAST_ROUTER_ADVERT)
#define OWN_TARGET IN(SET_ADDRESSES6, IIFNAME, ND_TARGET)
#define NOT_OWN_MAC NOT_IN(SET_MACS, IIFNAME, ND_OPTION_MAC)
#define UDP(from, to) PROTO(IPPROTO_UDP), FROM_PORT(from), TO_PORT(to)
#define ICMP PROTO(IPPROTO_ICMPV6)
#define NOT_BRIDGED NUMBER_IS(META(NFT_META_IIF, 4), 0)
/* Made by a socket of this host: what it forwards for others has none. */
#define HAS_SOCKET NUMBER_IS_NOT(META(NFT_META_SKUID, 4), UINT32_MAX)

#define CHAIN(label) { .name = (label) }
#define HOOK(label, at) { .name = (label), .type = "filter", .hook = (at), .priority = PRIORITY }

static const struct nft_chain chains[] = {
	CHAIN("from_nic"), CHAIN("from_unproven"), CHAIN("from_arp"), CHAIN("from_arp_sender"),
	CHAIN("from_ip4"), CHAIN("from_own_ip4"), CHAIN("from_udp4"), CHAIN("from_igmp"),
	CHAIN("from_proven4"), CHAIN("from_ip6"), CHAIN("from_unspecified6"), CHAIN("from_own_ip6"),
	CHAIN("from_udp6"), CHAIN("from_icmp6"), CHAIN("from_solicit"), CHAIN("from_advert"),
	CHAIN("from_proven6"), CHAIN("to_nic"), CHAIN("to_ip4"), CHAIN("to_peer4"), CHAIN("to_ip6"),
	CHAIN("to_peer6"), CHAIN("ssh4"), CHAIN("ssh6"), CHAIN("ssh6_fragment"), CHAIN("ssh_from_host"),
	HOOK("prerouting", NF_BR_PRE_ROUTING), HOOK("input", NF_BR_LOCAL_IN),
	HOOK("forward", NF_BR_FORWARD), HOOK("output", NF_BR_LOCAL_OUT),
};

/* From a NIC. */
static const struct nft_rule from_rules[] = {
	{ "prerouting", { IN(SET_MACS, IIFNAME, ETHER_SADDR), GOTO("from_nic") } },
	{ "prerouting", { IN(SET_NICS, IIFNAME), GOTO("from_unproven") } },
	{ "prerouting", { IN_GROUP(NFT_META_IIFGROUP), DROP } },

	/* Frames to 01:80:c2:00:00:0x come here without passing prerouting. */
	{ "input", { TO_LINK_LOCAL, IN(SET_NICS, IIFNAME), DROP } },
	{ "input", { TO_LINK_LOCAL, IN_GROUP(NFT_META_IIFGROUP), DROP } },

	{ "from_unproven", { IN(SET_UNFILTERED, IIFNAME), ACCEPT } },
	{ "from_unproven", { DROP } },

	{ "from_nic", { ETHER_TYPE(ETH_P_IP), GOTO("from_ip4") } },
	{ "from_nic", { ETHER_TYPE(ETH_P_IPV6), GOTO("from_ip6") } },
	{ "from_nic", { ETHER_TYPE(ETH_P_ARP), GOTO("from_arp") } },
	{ "from_nic", { DROP } },

	/* Ethernet and IPv4, of 6 and 4 bytes: else what follows is somewhere else. */
	{ "from_arp", { IS_NOT(NET(0, 6), { 0, 1, 8, 0, 6, 4 }), DROP } },
	{ "from_arp", { ARP, IN(SET_MACS, IIFNAME, ARP_SENDER_MAC), GOTO("from_arp_sender") } },
	{ "from_arp", { DROP } },
	{ "from_arp_sender", { ARP, IN(SET_ADDRESSES4, IIFNAME, ARP_SENDER_IP), ACCEPT } },
	/* "Is this address taken?" */
	{ "from_arp_sender", { ARP, IS(ARP_OPERATION, BYTES2(REQUEST)), IS(ARP_SENDER_IP, ZERO), ACCEPT } },
	{ "from_arp_sender", { DROP } },

	{ "from_ip4", { IP4, IN(SET_ADDRESSES4, IIFNAME, IP4_SADDR), GOTO("from_own_ip4") } },
	{ "from_ip4", { IP4, IS(IP4_SADDR, ZERO), UDP(PORT_DHCP_CLIENT, PORT_DHCP_SERVER), ACCEPT } },
	{ "from_ip4", { DROP } },
	{ "from_own_ip4", { PROTO(IPPROTO_UDP), GOTO("from_udp4") } },
	{ "from_own_ip4", { PROTO(IPPROTO_IGMP), GOTO("from_igmp") } },
	{ "from_own_ip4", { PROTO_NOT(IPPROTO_UDP), GOTO("from_proven4") } },
	{ "from_own_ip4", { DROP } },
	/* The ports were in the first fragment, which was judged. */
	{ "from_udp4", { IP4, IP4_LATER_FRAGMENT, GOTO("from_proven4") } },
	{ "from_udp4", { UDP(PORT_DHCP_CLIENT, PORT_DHCP_SERVER), ACCEPT } },
	{ "from_udp4", { PROTO(IPPROTO_UDP), FROM_PORT(PORT_DHCP_SERVER), DROP } },
	{ "from_udp4", { PROTO(IPPROTO_UDP), TO_PORT_NOT(PORT_DHCP_CLIENT), GOTO("from_proven4") } },
	{ "from_udp4", { DROP } },
	/* To where a querier is, a snooping bridge sends all multicast. */
	{ "from_igmp", { IP4, IP4_LATER_FRAGMENT, GOTO("from_proven4") } },
	{ "from_igmp", { PROTO(IPPROTO_IGMP), IS_NOT(TYPE, BYTES1(IGMP_QUERY)), GOTO("from_proven4") } },
	{ "from_igmp", { DROP } },

	{ "from_ip6", { IP6, IN(SET_ADDRESSES6, IIFNAME, IP6_SADDR), GOTO("from_own_ip6") } },
	{ "from_ip6", { IP6, IS(IP6_SADDR, ZERO), ICMP, GOTO("from_unspecified6") } },
	{ "from_ip6", { DROP } },
	/* Before it has an address a guest asks whether its own is taken, looks for routers, joins groups. */
	{ "from_unspecified6", { ICMP, ICMP6(ND_SOLICIT), OWN_TARGET, ACCEPT } },
	{ "from_unspecified6", { ICMP, JOINS_OR_LOOKS_FOR_ROUTERS, ACCEPT } },
	{ "from_unspecified6", { DROP } },
	{ "from_own_ip6", { PROTO(IPPROTO_ICMPV6), GOTO("from_icmp6") } },
	{ "from_own_ip6", { PROTO(IPPROTO_UDP), GOTO("from_udp6") } },
	{ "from_own_ip6", { PROTO_NOT(IPPROTO_UDP), GOTO("from_proven6") } },
	{ "from_own_ip6", { DROP } },
	{ "from_udp6", { IP6, IP6_LATER_FRAGMENT, GOTO("from_proven6") } },
	{ "from_udp6", { UDP(PORT_DHCP6_CLIENT, PORT_DHCP6_SERVER), ACCEPT } },
	{ "from_udp6", { PROTO(IPPROTO_UDP), FROM_PORT(PORT_DHCP6_SERVER), DROP } },
	{ "from_udp6", { PROTO(IPPROTO_UDP), TO_PORT_NOT(PORT_DHCP6_CLIENT), GOTO("from_proven6") } },
	{ "from_udp6", { DROP } },
	{ "from_icmp6", { IP6, IP6_LATER_FRAGMENT, GOTO("from_proven6") } },
	{ "from_icmp6", { ICMP, ICMP6(ND_SOLICIT), GOTO("from_solicit") } },
	{ "from_icmp6", { ICMP, ICMP6(ND_ADVERT), OWN_TARGET, GOTO("from_advert") } },
	{ "from_icmp6", { ICMP, JOINS_OR_LOOKS_FOR_ROUTERS, ACCEPT } },
	/* What only routers say; an advertisement that is still here is of what is not its own. */
	{ "from_icmp6", { ICMP, FOR_ROUTERS_TO_SAY, DROP } },
	{ "from_icmp6", { ICMP, ICMP6_NOT(ND_ADVERT), GOTO("from_proven6") } },
	{ "from_icmp6", { DROP } },
	{ "from_solicit", { ICMP, IS(ND_OPTION_TYPE, BYTES1(ND_SOURCE_LINK_ADDRESS)), NOT_OWN_MAC, DROP } },
	{ "from_solicit", { ACCEPT } },
	{ "from_advert", { ICMP, IS(ND_OPTION_TYPE, BYTES1(ND_TARGET_LINK_ADDRESS)), NOT_OWN_MAC, DROP } },
	{ "from_advert", { ACCEPT } },

	/* Whose it is is known; may it go there? A rule for each length of a peer's network follows. */
	{ "from_proven4", { NOT_IN(SET_RESTRICTED, IIFNAME), ACCEPT } },
	{ "from_proven4", { IN(SET_ISOLATED, IIFNAME), DROP } },
	{ "from_proven6", { NOT_IN(SET_RESTRICTED, IIFNAME), ACCEPT } },
	{ "from_proven6", { IN(SET_ISOLATED, IIFNAME), DROP } },
};

/* To a NIC. */
static const struct nft_rule to_rules[] = {
	{ "forward", { IN(SET_NICS, OIFNAME), GOTO("to_nic") } },
	{ "forward", { IN_GROUP(NFT_META_OIFGROUP), DROP } },
	{ "output", { IN(SET_NICS, OIFNAME), GOTO("to_nic") } },
	{ "output", { IN_GROUP(NFT_META_OIFGROUP), DROP } },

	{ "to_nic", { ETHER_TYPE(ETH_P_IP), GOTO("to_ip4") } },
	{ "to_nic", { ETHER_TYPE(ETH_P_IPV6), GOTO("to_ip6") } },
	{ "to_nic", { ETHER_TYPE(ETH_P_ARP), ACCEPT } },
	{ "to_nic", { IN(SET_UNFILTERED, OIFNAME), ACCEPT } },
	{ "to_nic", { DROP } },

	{ "to_ip4", { IN(SET_SSH_FROM_HOST, OIFNAME), JUMP("ssh4") } },
	{ "to_ip4", { NOT_IN(SET_RESTRICTED, OIFNAME), ACCEPT } },
	{ "to_ip4", { UDP(PORT_DHCP_SERVER, PORT_DHCP_CLIENT), ACCEPT } },
	{ "to_ip4", { NOT_IN(SET_ISOLATED, OIFNAME), GOTO("to_peer4") } },
	{ "to_ip4", { DROP } },

	{ "to_ip6", { IN(SET_SSH_FROM_HOST, OIFNAME), JUMP("ssh6") } },
	{ "to_ip6", { NOT_IN(SET_RESTRICTED, OIFNAME), ACCEPT } },
	{ "to_ip6", { ICMP, ICMP6_ONE_OF(MLD_QUERY, ND_ROUTER_ADVERT, ND_SOLICIT, ND_ADVERT), ACCEPT } },
	{ "to_ip6", { UDP(PORT_DHCP6_SERVER, PORT_DHCP6_CLIENT), ACCEPT } },
	{ "to_ip6", { NOT_IN(SET_ISOLATED, OIFNAME), GOTO("to_peer6") } },
	{ "to_ip6", { DROP } },

	/* These only stop, they let nothing pass; TCP whose port cannot be read at once is stopped too. */
	{ "ssh4", { PROTO_NOT(IPPROTO_TCP), RETURN } },
	{ "ssh4", { IP4, IP4_WHOLE, PROTO(IPPROTO_TCP), TO_PORT_NOT(PORT_SSH), RETURN } },
	{ "ssh4", { IP4, IP4_WHOLE, PROTO(IPPROTO_TCP), NOT_BRIDGED, GOTO("ssh_from_host") } },
	{ "ssh4", { DROP } },
	{ "ssh6", { IP6_FRAGMENT, GOTO("ssh6_fragment") } },
	{ "ssh6", { PROTO_NOT(IPPROTO_TCP), RETURN } },
	{ "ssh6", { PROTO(IPPROTO_TCP), TO_PORT_NOT(PORT_SSH), RETURN } },
	{ "ssh6", { PROTO(IPPROTO_TCP), NOT_BRIDGED, GOTO("ssh_from_host") } },
	{ "ssh6", { DROP } },
	/* A fragment can hide what it is behind one more extension header. */
	{ "ssh6_fragment", { ONE_OF(NFT_TYPE_PROTO, L4PROTO, IPPROTO_UDP, IPPROTO_ICMPV6), RETURN } },
	{ "ssh6_fragment", { DROP } },
	/* What the host forwards leaves by its output too. A connection needs a SYN; one of the host's has
	 * a socket. */
	{ "ssh_from_host", { PROTO(IPPROTO_TCP), MASKED_IS(TCP_FLAGS, BYTES1(TCP_SYN), ZERO), RETURN } },
	{ "ssh_from_host", { HAS_SOCKET, RETURN } },
	{ "ssh_from_host", { DROP } },
};

/* clang-format on */

/* Accepts what is exchanged with a peer, and drops the rest. */
static void peers_add(struct nft_batch *batch, const char *chain, struct nft_operand name,
        struct nft_operand ip, uint32_t *n_anonymous)
{
	bool ip4 = ip.size == 4;
	unsigned levels = ip4 ? PEERS4_LEVELS : PEERS6_LEVELS, step = ip4 ? PEERS4_STEP : PEERS6_STEP;
	struct nft_rule drop = { .chain = chain, .terms = { DROP } };

	/* Single addresses first: a gateway or a nameserver is the most frequent peer. */
	for (unsigned n = levels; n-- > 0;) {
		struct nft_rule rule = { .chain = chain };

		ip.masked = n * step < ip.size * 8U;
		ip.n_bits = (uint8_t)(n * step);
		rule.terms[0] = ip4 ? (struct nft_term)IP4 : (struct nft_term)IP6;
		rule.terms[1] = (struct nft_term){
			.kind = TERM_IN, .set = (ip4 ? SET_PEERS4 : SET_PEERS6) + n, .of = { name, ip }
		};
		rule.terms[2] = (struct nft_term)ACCEPT;
		nft_batch_add_rule(batch, NFPROTO_BRIDGE, &rule, n_anonymous);
	}
	nft_batch_add_rule(batch, NFPROTO_BRIDGE, &drop, n_anonymous);
}

void tables_add_filter(struct nft_batch *batch, uint32_t flags)
{
	static const struct nft_operand iifname = IIFNAME, oifname = OIFNAME, saddr4 = IP4_SADDR,
	                                daddr4 = IP4_DADDR, saddr6 = IP6_SADDR, daddr6 = IP6_DADDR;
	uint32_t n_anonymous = 0;

	nft_batch_add_table(batch, NFPROTO_BRIDGE, flags);
	for (enum set_id set = 0; set < SET_COUNT; set++) {
		if (set_info(set)->bridge)
			nft_batch_add_set(batch, set);
	}
	for (size_t i = 0; i < ARRAY_SIZE(chains); i++)
		nft_batch_add_chain(batch, NFPROTO_BRIDGE, &chains[i]);
	for (size_t i = 0; i < ARRAY_SIZE(from_rules); i++)
		nft_batch_add_rule(batch, NFPROTO_BRIDGE, &from_rules[i], &n_anonymous);
	for (size_t i = 0; i < ARRAY_SIZE(to_rules); i++)
		nft_batch_add_rule(batch, NFPROTO_BRIDGE, &to_rules[i], &n_anonymous);
	peers_add(batch, "from_proven4", iifname, daddr4, &n_anonymous);
	peers_add(batch, "from_proven6", iifname, daddr6, &n_anonymous);
	peers_add(batch, "to_peer4", oifname, saddr4, &n_anonymous);
	peers_add(batch, "to_peer6", oifname, saddr6, &n_anonymous);
}

size_t tables_filter_count(void)
{
	/* In each direction and family, a rule for each length of a peer's network, and the drop behind
	 * them. */
	return ARRAY_SIZE(from_rules) + ARRAY_SIZE(to_rules) + 2 * (PEERS4_LEVELS + 1) +
	        2 * (PEERS6_LEVELS + 1);
}
