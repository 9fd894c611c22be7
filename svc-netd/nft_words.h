/* The vocabulary that static rules are written in: each word is an operand or a term of nft_rule.h. */
#pragma once

#include "svc-netd/link.h"
#include "svc-netd/nft_rule.h"

#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

/* clang-format off */

/* --- operands --- */

#define META(key, n) { .kind = OPERAND_META, .what = (key), .size = (n) }
#define PAYLOAD(base, at, n) { .kind = OPERAND_PAYLOAD, .what = (base), .offset = (at), .size = (n) }
#define LINK(at, n) PAYLOAD(NFT_PAYLOAD_LL_HEADER, at, n)
#define NET(at, n) PAYLOAD(NFT_PAYLOAD_NETWORK_HEADER, at, n)
#define TRANSPORT(at, n) PAYLOAD(NFT_PAYLOAD_TRANSPORT_HEADER, at, n)

#define IIFNAME META(NFT_META_IIFNAME, IFNAME_MAX)
#define OIFNAME META(NFT_META_OIFNAME, IFNAME_MAX)
#define L4PROTO META(NFT_META_L4PROTO, 1)
#define ETHER_DADDR LINK(0, MAC_SIZE)
#define ETHER_SADDR LINK(6, MAC_SIZE)
#define ARP_OPERATION NET(6, 2)
#define ARP_SENDER_MAC NET(8, MAC_SIZE)
#define ARP_SENDER_IP NET(14, 4)
#define IP4_SADDR NET(12, 4)
#define IP4_DADDR NET(16, 4)
#define IP6_SADDR NET(8, 16)
#define IP6_DADDR NET(24, 16)
#define SOURCE_PORT TRANSPORT(0, 2)
#define DEST_PORT TRANSPORT(2, 2)
#define TCP_FLAGS TRANSPORT(13, 1)
#define TYPE TRANSPORT(0, 1) /* of ICMPv6 and IGMP */
#define ND_TARGET TRANSPORT(8, 16)
#define ND_OPTION_TYPE TRANSPORT(24, 1) /* the first option of a solicitation or an advertisement */
#define ND_OPTION_MAC TRANSPORT(26, MAC_SIZE)
#define IP6_FRAGMENT_OFFSET { .kind = OPERAND_IP6_FRAGMENT, .offset = 2, .size = 2 }
#define IP6_IS_FRAGMENT { .kind = OPERAND_IP6_IS_FRAGMENT, .size = 1 }
#define FIB_DADDR_TYPE { .kind = OPERAND_FIB_DADDR_TYPE, .size = 4 }
#define CT_STATUS { .kind = OPERAND_CT_STATUS, .size = 4 }

/* --- values, in network order --- */

#define BYTES1(x) { (x) & 0xff }
#define BYTES2(x) { (x) >> 8 & 0xff, (x) & 0xff }
#define ZERO { 0 }

/* --- terms; a packet too short for what one looks at matches neither it nor its opposite --- */

#define IS(operand, ...) { .kind = TERM_IS, .of = { operand }, .value = __VA_ARGS__ }
#define IS_NOT(operand, ...) { .kind = TERM_IS, .not = true, .of = { operand }, .value = __VA_ARGS__ }
#define MASKED_IS(operand, bits, ...) \
	{ .kind = TERM_IS, .of = { operand }, .mask = bits, .value = __VA_ARGS__ }
#define MASKED_IS_NOT(operand, bits, ...) \
	{ .kind = TERM_IS, .not = true, .of = { operand }, .mask = bits, .value = __VA_ARGS__ }
#define NUMBER_IS(operand, x) { .kind = TERM_NUMBER, .of = { operand }, .number = (x) }
#define NUMBER_IS_NOT(operand, x) { .kind = TERM_NUMBER, .not = true, .of = { operand }, .number = (x) }
#define HAS_BIT(operand, bit) { .kind = TERM_NUMBER, .not = true, .of = { operand }, .number_mask = (bit) }
#define IN(id, ...) { .kind = TERM_IN, .set = (id), .of = { __VA_ARGS__ } }
#define NOT_IN(id, ...) { .kind = TERM_IN, .not = true, .set = (id), .of = { __VA_ARGS__ } }
#define ONE_OF(type, operand, ...) \
	{ .kind = TERM_ONE_OF, .values_type = (type), .of = { operand }, .values = { __VA_ARGS__ } }
/* An interface of ours, whatever its name and whatever it is doing. */
#define IN_GROUP(key) \
	{ .kind = TERM_NUMBER, .of = { META(key, 4) }, .number = LINK_GROUP_OURS, .number_mask = 0xffff0000U }

/* What the frame says on the wire: one with a VLAN tag is of that type, though the tag was taken off
 * already. */
#define ETHER_TYPE(x) IS(LINK(12, 2), BYTES2(x))
#define IP4 IS(META(NFT_META_PROTOCOL, 2), BYTES2(ETH_P_IP))
#define IP6 IS(META(NFT_META_PROTOCOL, 2), BYTES2(ETH_P_IPV6))
#define ARP IS(META(NFT_META_PROTOCOL, 2), BYTES2(ETH_P_ARP))
#define FAMILY(x) IS(META(NFT_META_NFPROTO, 1), BYTES1(x))
#define PROTO(x) IS(L4PROTO, BYTES1(x))
#define PROTO_NOT(x) IS_NOT(L4PROTO, BYTES1(x))
#define FROM_PORT(x) IS(SOURCE_PORT, BYTES2(x))
#define TO_PORT(x) IS(DEST_PORT, BYTES2(x))
#define TO_PORT_NOT(x) IS_NOT(DEST_PORT, BYTES2(x))

/* --- what follows --- */

#define DROP { .kind = TERM_DO, .verdict = NF_DROP }
#define ACCEPT { .kind = TERM_DO, .verdict = NF_ACCEPT }
#define RETURN { .kind = TERM_DO, .verdict = NFT_RETURN }
#define GOTO(to) { .kind = TERM_DO, .verdict = NFT_GOTO, .chain = (to) }
#define JUMP(to) { .kind = TERM_DO, .verdict = NFT_JUMP, .chain = (to) }
#define DNAT(ip, id, ...) { .kind = TERM_DNAT, .family = (ip), .set = (id), .of = { __VA_ARGS__ } }
#define MASQUERADE { .kind = TERM_MASQUERADE }

/* clang-format on */
