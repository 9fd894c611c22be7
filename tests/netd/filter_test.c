/* What passes a filtered NIC and what does not: each frame of a table, for each policy, to another guest,
 * to the world outside and to the host itself, and the other way. */
#include "tests/netd/lan.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MAC_A "52:54:00:00:00:0a"
#define IP_A "10.0.0.10"
#define IP6_A "fd00::a"
#define LL_A "fe80::5054:ff:fe00:a"
#define MAC_B "52:54:00:00:00:0b"
#define IP_B "10.0.0.11"
#define IP6_B "fd00::b"
#define LL_B "fe80::5054:ff:fe00:b"
#define MAC_OUT "52:54:00:00:00:99"
#define IP_OUT "203.0.113.9" /* nobody's peer */
#define IP6_OUT "2001:db8::9"
#define IP_PEER "10.1.2.3" /* in A's private prefixes */
#define IP6_PEER "fd01:2:3::4"

enum { SYN = TCP_FLAG_SYN, ACK = TCP_FLAG_ACK, MF = 0x2000 };

/* to is the address of whoever is meant to get it. */
typedef void (*build_fn)(struct frame *f, const char *to);

/* clang-format off */

/* --- frames from A --- */

#define IP4(f, source, dest, proto, ...)                                                                     \
	frame_ip4(f,                                                                                         \
	        &(struct ip4_options){ .from = (source), .to = (dest), .protocol = (proto), __VA_ARGS__ })
#define FRAME(name) static void name(struct frame *f, const char *to)

FRAME(arp_request) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 1, MAC_A, IP_A, "10.0.0.77"); }
FRAME(arp_reply) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 2, MAC_A, IP_A, "10.0.0.77"); }
FRAME(arp_probe) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 1, MAC_A, "0.0.0.0", IP_A); }
FRAME(arp_probe_reply) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 2, MAC_A, "0.0.0.0", IP_A); }
FRAME(arp_other_ip) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 2, MAC_A, IP_B, "10.0.0.77"); }
FRAME(arp_gateway_ip) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 2, MAC_A, LAN_HOST_IP4, "10.0.0.77"); }
FRAME(arp_other_mac_inside) { frame_ether(f, to, MAC_A, 0x0806); frame_arp(f, 2, MAC_B, IP_A, "10.0.0.77"); }
FRAME(arp_other_mac_outside) { frame_ether(f, to, MAC_B, 0x0806); frame_arp(f, 2, MAC_A, IP_A, "10.0.0.77"); }
FRAME(arp_all_other) { frame_ether(f, to, MAC_B, 0x0806); frame_arp(f, 2, MAC_B, IP_B, "10.0.0.77"); }
/* Hardware addresses of 4 bytes: the sender's IP is elsewhere than where a rule looks. */
FRAME(arp_short_addresses)
{
	static const uint8_t arp[] = { 0, 1, 8, 0, 4, 4, 0, 2, 0x52, 0x54, 0, 0, 10, 0, 0, 11, 10, 0, 0, 10,
		1, 2, 3, 4, 5, 6 };

	frame_ether(f, to, MAC_A, 0x0806);
	frame_bytes(f, arp, sizeof(arp));
}
/* All in its place, but for the address it is about. */
FRAME(arp_odd_type)
{
	static const uint8_t arp[] = { 0, 6, 8, 0, 6, 4, 0, 2, 0x52, 0x54, 0, 0, 0, 0x0a, 10, 0, 0, 10, 0, 0, 0, 0, 0, 0, 10, 0, 0, 77 };

	frame_ether(f, to, MAC_A, 0x0806);
	frame_bytes(f, arp, sizeof(arp));
}
FRAME(arp_cut)
{
	static const uint8_t arp[] = { 0, 1, 8, 0, 6, 4, 0, 2, 0x52, 0x54 };

	frame_ether(f, to, MAC_A, 0x0806);
	frame_bytes(f, arp, sizeof(arp));
}

FRAME(ip4_to_peer) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_to_gateway) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, LAN_HOST_IP4, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_to_nameserver) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, "9.9.9.9", IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_to_odd_prefix) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, "172.18.7.7", IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_past_odd_prefix) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, "172.20.0.1", IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_to_world) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_OUT, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
FRAME(ip4_with_options) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_OUT, IPPROTO_TCP, .n_option_words = 3); frame_tcp(f, 5000, 443, SYN); }
FRAME(ip4_other_source) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_B, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_other_mac) { frame_ether(f, to, MAC_B, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_all_other) { frame_ether(f, to, MAC_B, 0x0800); IP4(f, IP_B, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_gateway_source) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, LAN_HOST_IP4, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_no_source) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, "0.0.0.0", IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip4_icmp) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_ICMP); frame_bytes(f, "\x08\0\0\0\0\0\0\0", 8); }
FRAME(ip4_group_report) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, "224.0.0.22", IPPROTO_IGMP); frame_bytes(f, "\x22\0\0\0\0\0\0\0", 8); }
FRAME(ip4_group_query) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, "224.0.0.1", IPPROTO_IGMP); frame_bytes(f, "\x11\0\0\0\0\0\0\0", 8); }
FRAME(ip4_first_fragment) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP, .fragment = MF); frame_udp(f, 5000, 53); }
FRAME(ip4_later_fragment) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP, .fragment = 2); frame_bytes(f, "0043004400000000", 16); }
FRAME(ip4_later_fragment_like_dhcp) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP, .fragment = 2); frame_bytes(f, "\0\x43\0\x44\0\0\0\0", 8); }
FRAME(ip4_later_fragment_like_query) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_IGMP, .fragment = 2); frame_bytes(f, "\x11\0\0\0\0\0\0\0", 8); }
FRAME(ip4_version_5) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); f->data[14] = 0x55; }
FRAME(ip4_fragment_other_source) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_B, IP_PEER, IPPROTO_UDP, .fragment = 2); frame_bytes(f, "later", 5); }
FRAME(ip4_cut) { frame_ether(f, to, MAC_A, 0x0800); frame_bytes(f, "\x45\0\0\x14\0\0\0\0\x40\x11\0\0\x0a\0", 14); }
FRAME(ip4_says_ip6) { frame_ether(f, to, MAC_A, 0x0800); frame_ip6(f, IP6_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_says_ip4) { frame_ether(f, to, MAC_A, 0x86dd); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); frame_bytes(f, f->data, 40); }
FRAME(dhcp_discover) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, "0.0.0.0", "255.255.255.255", IPPROTO_UDP); frame_udp(f, 68, 67); }
FRAME(dhcp_renew) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_OUT, IPPROTO_UDP); frame_udp(f, 68, 67); }
FRAME(dhcp_offer) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 67, 68); }
FRAME(dhcp_server_any_port) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 67, 5000); }
FRAME(dhcp_offer_odd_port) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 6767, 68); }
FRAME(dhcp_offer_fragment) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP, .fragment = MF); frame_udp(f, 67, 68); }
FRAME(dhcp_offer_options) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP, .n_option_words = 5); frame_udp(f, 67, 68); }
FRAME(dhcp_offer_cut) { frame_ether(f, to, MAC_A, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_bytes(f, "\0\x43", 2); }

FRAME(ip6_to_peer) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_to_gateway) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, LAN_HOST_IP6, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_to_odd_prefix) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "2001:db8:ffff:1::1", IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_to_world) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_OUT, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
FRAME(ip6_link_local) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_other_source) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_B, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_other_link_local) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_B, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_other_mac) { frame_ether(f, to, MAC_B, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_no_source) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", IP6_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(ip6_no_source_icmp) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", IP6_PEER, IPPROTO_ICMPV6); frame_icmp6(f, 128); }
FRAME(ip6_cut) { frame_ether(f, to, MAC_A, 0x86dd); frame_bytes(f, "\x60\0\0\0\0\0\x11\xff\xfd\0", 10); }
FRAME(ip6_echo) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, IPPROTO_ICMPV6); frame_icmp6(f, 128); }
FRAME(ip6_echo_with_options) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 60); frame_ip6_option(f, IPPROTO_ICMPV6); frame_icmp6(f, 128); }
FRAME(ip6_first_fragment) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_UDP, 1); frame_udp(f, 5000, 53); }
FRAME(ip6_later_fragment) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_UDP, 16 << 3); frame_bytes(f, "later later later", 16); }
FRAME(ip6_later_fragment_like_dhcp) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_UDP, 16 << 3); frame_bytes(f, "\x02\x23\x02\x22\0\0\0\0", 8); }
FRAME(ip6_later_fragment_like_advert) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_ICMPV6, 16 << 3); frame_bytes(f, "\x86\0\0\0\0\0\0\0", 8); }
FRAME(ip6_fragment_other_source) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_B, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_UDP, 16 << 3); frame_bytes(f, "later", 5); }
/* The header that says what it is comes with the next fragment. */
FRAME(ip6_fragment_cut_chain) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, 60, 1); frame_ip6_option(f, IPPROTO_ICMPV6); }
FRAME(ip6_fragment_cut_chain_udp) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 44); frame_ip6_fragment(f, 60, 1); frame_ip6_option(f, IPPROTO_UDP); }
FRAME(dhcp6_solicit) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1:2", IPPROTO_UDP); frame_udp(f, 546, 547); }
FRAME(dhcp6_reply) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 547, 546); }
FRAME(dhcp6_server_any_port) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 547, 5000); }
FRAME(ip6_cut_options) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, IP6_PEER, 60); frame_bytes(f, "\x11\x04\x01\x04", 4); }
FRAME(dhcp6_reply_odd_port) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, IPPROTO_UDP); frame_udp(f, 6547, 546); }
FRAME(dhcp6_reply_options) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, 0); frame_ip6_option(f, 60); frame_ip6_option(f, IPPROTO_UDP); frame_udp(f, 547, 546); }
FRAME(dhcp6_reply_fragment) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, 44); frame_ip6_fragment(f, IPPROTO_UDP, 1); frame_udp(f, 547, 546); }

FRAME(nd_solicit) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1:ff00:1", IPPROTO_ICMPV6); frame_nd(f, 135, LAN_HOST_IP6, MAC_A); }
FRAME(nd_solicit_link_local) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1:ff00:1", IPPROTO_ICMPV6); frame_nd(f, 135, LAN_HOST_IP6, MAC_A); }
FRAME(nd_solicit_no_option) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1:ff00:1", IPPROTO_ICMPV6); frame_nd(f, 135, LAN_HOST_IP6, NULL); }
FRAME(nd_solicit_other_source) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_B, "ff02::1:ff00:1", IPPROTO_ICMPV6); frame_nd(f, 135, LAN_HOST_IP6, MAC_A); }
FRAME(nd_solicit_other_option) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1:ff00:1", IPPROTO_ICMPV6); frame_nd(f, 135, LAN_HOST_IP6, MAC_B); }
FRAME(nd_is_it_taken) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", "ff02::1:ff00:a", IPPROTO_ICMPV6); frame_nd(f, 135, IP6_A, NULL); }
FRAME(nd_is_link_local_taken) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", "ff02::1:ff00:a", IPPROTO_ICMPV6); frame_nd(f, 135, LL_A, NULL); }
FRAME(nd_is_other_taken) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", "ff02::1:ff00:b", IPPROTO_ICMPV6); frame_nd(f, 135, IP6_B, NULL); }
FRAME(nd_advert) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", IPPROTO_ICMPV6); frame_nd(f, 136, IP6_A, MAC_A); }
FRAME(nd_advert_other_target) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", IPPROTO_ICMPV6); frame_nd(f, 136, IP6_B, MAC_A); }
FRAME(nd_advert_gateway) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", IPPROTO_ICMPV6); frame_nd(f, 136, LAN_HOST_IP6, MAC_A); }
FRAME(nd_advert_other_option) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", IPPROTO_ICMPV6); frame_nd(f, 136, IP6_A, MAC_B); }
FRAME(nd_advert_behind_options) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", 0); frame_ip6_option(f, IPPROTO_ICMPV6); frame_nd(f, 136, IP6_B, MAC_A); }
FRAME(nd_advert_in_fragment) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", 44); frame_ip6_fragment(f, IPPROTO_ICMPV6, 0); frame_nd(f, 136, IP6_B, MAC_A); }
FRAME(nd_cut) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, IP6_A, "ff02::1", IPPROTO_ICMPV6); frame_bytes(f, "\x88\0\0\0\0\0\0\0\xfd", 9); }
FRAME(router_solicit) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::2", IPPROTO_ICMPV6); frame_icmp6(f, 133); }
FRAME(router_advert) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1", IPPROTO_ICMPV6); frame_icmp6(f, 134); }
FRAME(router_advert_options) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1", 0); frame_ip6_option(f, 60); frame_ip6_option(f, IPPROTO_ICMPV6); frame_icmp6(f, 134); }
FRAME(router_advert_fragment) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1", 44); frame_ip6_fragment(f, IPPROTO_ICMPV6, 1); frame_icmp6(f, 134); }
FRAME(redirect) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, IP6_PEER, IPPROTO_ICMPV6); frame_icmp6(f, 137); }
FRAME(mld_report) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::16", 0); frame_ip6_option(f, IPPROTO_ICMPV6); frame_icmp6(f, 143); }
FRAME(mld_report_no_source) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, "::", "ff02::16", 0); frame_ip6_option(f, IPPROTO_ICMPV6); frame_icmp6(f, 143); }
FRAME(mld_query) { frame_ether(f, to, MAC_A, 0x86dd); frame_ip6(f, LL_A, "ff02::1", 0); frame_ip6_option(f, IPPROTO_ICMPV6); frame_icmp6(f, 130); }

FRAME(rarp) { frame_ether(f, to, MAC_A, 0x8035); frame_arp(f, 3, MAC_A, IP_A, IP_A); }
FRAME(lldp) { frame_ether(f, to, MAC_A, 0x88cc); frame_bytes(f, "\x02\x07\x04\x52\x54\0\0\0\x0a", 9); }
FRAME(bpdu) { frame_ether(f, to, MAC_A, 38); frame_bytes(f, "\x42\x42\x03\0\0\0\0\0\0\0\0", 11); }
FRAME(unknown_type) { frame_ether(f, to, MAC_A, 0x9999); frame_bytes(f, "anything", 8); }
FRAME(vlan) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x8100, 7, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(vlan_zero) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x8100, 0, 0x0800); IP4(f, IP_B, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(vlan_arp) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x8100, 0, 0x0806); frame_arp(f, 2, MAC_A, IP_A, "10.0.0.77"); }
FRAME(vlan_ip6) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x8100, 0, 0x86dd); frame_ip6(f, LL_A, "ff02::1", IPPROTO_ICMPV6); frame_icmp6(f, 134); }
FRAME(service_vlan) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x88a8, 7, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(double_vlan) { frame_ether(f, to, MAC_A, 0); frame_tag(f, 0x88a8, 7, 0x8100); frame_tag(f, 0x8100, 0, 0x0800); IP4(f, IP_A, IP_PEER, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(multicast_source) { frame_ether(f, to, "53:54:00:00:00:0a", 0x0806); frame_arp(f, 1, MAC_A, IP_A, "10.0.0.77"); }

#define CASE(name, public, private, none) { #name, name, { public, private, none } }

static const struct {
	const char *name;
	build_fn build;
	bool passes[3]; /* by policy */
} from_a[] = {
	CASE(arp_request, 1, 1, 1), CASE(arp_reply, 1, 1, 1), CASE(arp_probe, 1, 1, 1),
	CASE(arp_probe_reply, 0, 0, 0), CASE(arp_other_ip, 0, 0, 0), CASE(arp_gateway_ip, 0, 0, 0),
	CASE(arp_other_mac_inside, 0, 0, 0), CASE(arp_other_mac_outside, 0, 0, 0),
	CASE(arp_all_other, 0, 0, 0), CASE(arp_short_addresses, 0, 0, 0), CASE(arp_cut, 0, 0, 0), CASE(arp_odd_type, 0, 0, 0),

	CASE(ip4_to_peer, 1, 1, 0), CASE(ip4_to_gateway, 1, 1, 0), CASE(ip4_to_nameserver, 1, 1, 0),
	CASE(ip4_to_odd_prefix, 1, 1, 0), CASE(ip4_past_odd_prefix, 1, 0, 0), CASE(ip4_to_world, 1, 0, 0),
	CASE(ip4_with_options, 1, 0, 0), CASE(ip4_other_source, 0, 0, 0), CASE(ip4_other_mac, 0, 0, 0),
	CASE(ip4_all_other, 0, 0, 0), CASE(ip4_gateway_source, 0, 0, 0), CASE(ip4_no_source, 0, 0, 0),
	CASE(ip4_icmp, 1, 1, 0), CASE(ip4_group_report, 1, 0, 0), CASE(ip4_group_query, 0, 0, 0),
	CASE(ip4_first_fragment, 1, 1, 0), CASE(ip4_later_fragment, 1, 1, 0), CASE(ip4_later_fragment_like_dhcp, 1, 1, 0), CASE(ip4_version_5, 0, 0, 0), CASE(ip4_later_fragment_like_query, 1, 1, 0),
	CASE(ip4_fragment_other_source, 0, 0, 0), CASE(ip4_cut, 0, 0, 0), CASE(ip4_says_ip6, 0, 0, 0),
	CASE(ip6_says_ip4, 0, 0, 0), CASE(dhcp_discover, 1, 1, 1), CASE(dhcp_renew, 1, 1, 1),
	CASE(dhcp_offer, 0, 0, 0), CASE(dhcp_offer_odd_port, 0, 0, 0), CASE(dhcp_server_any_port, 0, 0, 0), CASE(dhcp_offer_fragment, 0, 0, 0),
	CASE(dhcp_offer_options, 0, 0, 0), CASE(dhcp_offer_cut, 0, 0, 0),

	CASE(ip6_to_peer, 1, 1, 0), CASE(ip6_to_gateway, 1, 1, 0), CASE(ip6_to_odd_prefix, 1, 1, 0),
	CASE(ip6_to_world, 1, 0, 0), CASE(ip6_link_local, 1, 1, 0), CASE(ip6_other_source, 0, 0, 0),
	CASE(ip6_other_link_local, 0, 0, 0), CASE(ip6_other_mac, 0, 0, 0), CASE(ip6_no_source, 0, 0, 0),
	CASE(ip6_no_source_icmp, 0, 0, 0), CASE(ip6_cut, 0, 0, 0), CASE(ip6_echo, 1, 1, 0),
	CASE(ip6_echo_with_options, 1, 1, 0), CASE(ip6_first_fragment, 1, 1, 0),
	CASE(ip6_later_fragment, 1, 1, 0), CASE(ip6_later_fragment_like_dhcp, 1, 1, 0), CASE(ip6_later_fragment_like_advert, 1, 1, 0), CASE(ip6_fragment_other_source, 0, 0, 0),
	CASE(ip6_fragment_cut_chain, 0, 0, 0), CASE(ip6_fragment_cut_chain_udp, 0, 0, 0),
	CASE(dhcp6_solicit, 1, 1, 1), CASE(dhcp6_reply, 0, 0, 0), CASE(dhcp6_reply_odd_port, 0, 0, 0), CASE(dhcp6_server_any_port, 0, 0, 0), CASE(ip6_cut_options, 0, 0, 0),
	CASE(dhcp6_reply_options, 0, 0, 0), CASE(dhcp6_reply_fragment, 0, 0, 0),

	CASE(nd_solicit, 1, 1, 1), CASE(nd_solicit_link_local, 1, 1, 1),
	CASE(nd_solicit_no_option, 1, 1, 1), CASE(nd_solicit_other_source, 0, 0, 0),
	CASE(nd_solicit_other_option, 0, 0, 0), CASE(nd_is_it_taken, 1, 1, 1),
	CASE(nd_is_link_local_taken, 1, 1, 1), CASE(nd_is_other_taken, 0, 0, 0), CASE(nd_advert, 1, 1, 1),
	CASE(nd_advert_other_target, 0, 0, 0), CASE(nd_advert_gateway, 0, 0, 0),
	CASE(nd_advert_other_option, 0, 0, 0), CASE(nd_advert_behind_options, 0, 0, 0),
	CASE(nd_advert_in_fragment, 0, 0, 0), CASE(nd_cut, 0, 0, 0), CASE(router_solicit, 1, 1, 1),
	CASE(router_advert, 0, 0, 0), CASE(router_advert_options, 0, 0, 0),
	CASE(router_advert_fragment, 0, 0, 0), CASE(redirect, 0, 0, 0), CASE(mld_report, 1, 1, 1),
	CASE(mld_report_no_source, 1, 1, 1), CASE(mld_query, 0, 0, 0),

	CASE(rarp, 0, 0, 0), CASE(lldp, 0, 0, 0), CASE(bpdu, 0, 0, 0), CASE(unknown_type, 0, 0, 0),
	CASE(vlan, 0, 0, 0), CASE(vlan_zero, 0, 0, 0), CASE(vlan_arp, 0, 0, 0), CASE(vlan_ip6, 0, 0, 0),
	CASE(service_vlan, 0, 0, 0), CASE(double_vlan, 0, 0, 0), CASE(multicast_source, 0, 0, 0),
};

/* --- frames to A, from outside or from the host --- */

#define TO(name) static void name(struct frame *f, const char *from)

TO(in_arp) { frame_ether(f, MAC_A, from, 0x0806); frame_arp(f, 1, from, "10.0.0.99", IP_A); }
TO(in_peer) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, IP_PEER, IP_A, IPPROTO_UDP); frame_udp(f, 53, 5000); }
TO(in_gateway) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, LAN_HOST_IP4, IP_A, IPPROTO_UDP); frame_udp(f, 53, 5000); }
TO(in_world) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, IP_OUT, IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
TO(in_odd_prefix) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "172.16.0.1", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
TO(in_past_odd_prefix) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "172.20.0.1", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
TO(in_dhcp) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, IP_OUT, IP_A, IPPROTO_UDP); frame_udp(f, 67, 68); }
TO(in_fragment_peer) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, IP_PEER, IP_A, IPPROTO_UDP, .fragment = 2); frame_bytes(f, "later", 5); }
TO(in_fragment_world) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, IP_OUT, IP_A, IPPROTO_UDP, .fragment = 2); frame_bytes(f, "later", 5); }
TO(in_ip6_peer) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, IP6_PEER, IP6_A, IPPROTO_UDP); frame_udp(f, 53, 5000); }
TO(in_ip6_world) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, IP6_OUT, IP6_A, IPPROTO_UDP); frame_udp(f, 53, 5000); }
TO(in_dhcp6) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", LL_A, IPPROTO_UDP); frame_udp(f, 547, 546); }
TO(in_solicit) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", "ff02::1:ff00:a", IPPROTO_ICMPV6); frame_nd(f, 135, IP6_A, from); }
TO(in_advert) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", LL_A, IPPROTO_ICMPV6); frame_nd(f, 136, "fe80::99", from); }
TO(in_router_advert) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", "ff02::1", IPPROTO_ICMPV6); frame_icmp6(f, 134); }
TO(in_redirect) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", LL_A, IPPROTO_ICMPV6); frame_icmp6(f, 137); }
TO(in_echo_world) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, IP6_OUT, IP6_A, IPPROTO_ICMPV6); frame_icmp6(f, 128); }
TO(in_unknown_type) { frame_ether(f, MAC_A, from, 0x9999); frame_bytes(f, "anything", 8); }
TO(in_vlan_zero) { frame_ether(f, MAC_A, from, 0); frame_tag(f, 0x8100, 0, 0x0800); IP4(f, IP_OUT, IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }

static const struct {
	const char *name;
	build_fn build;
	bool passes[3];
} to_a[] = {
	CASE(in_arp, 1, 1, 1), CASE(in_peer, 1, 1, 0), CASE(in_gateway, 1, 1, 0), CASE(in_world, 1, 0, 0),
	CASE(in_odd_prefix, 1, 1, 0), CASE(in_past_odd_prefix, 1, 0, 0), CASE(in_dhcp, 1, 1, 1),
	CASE(in_fragment_peer, 1, 1, 0), CASE(in_fragment_world, 1, 0, 0), CASE(in_ip6_peer, 1, 1, 0),
	CASE(in_ip6_world, 1, 0, 0), CASE(in_dhcp6, 1, 1, 1), CASE(in_solicit, 1, 1, 1),
	CASE(in_advert, 1, 1, 1), CASE(in_router_advert, 1, 1, 1), CASE(in_redirect, 1, 0, 0),
	CASE(in_echo_world, 1, 0, 0), CASE(in_unknown_type, 0, 0, 0), CASE(in_vlan_zero, 0, 0, 0),
};

/* clang-format on */

/* --- the network --- */

struct net {
	struct lan lan;
	struct nic *a, *b; /* owned */
	struct port tap_a, tap_b;
};

static struct nic_request request_a(enum nic_policy policy)
{
	struct nic_request request = lan_request(1, 0, MAC_A);

	lan_address(&request, IP_A);
	lan_address(&request, IP6_A);
	request.filter.policy = policy;
	request.filter.gateways[request.filter.n_gateways++] = ip_of(LAN_HOST_IP4);
	request.filter.gateways[request.filter.n_gateways++] = ip_of(LAN_HOST_IP6);
	request.filter.nameservers[request.filter.n_nameservers++] = ip_of("9.9.9.9");
	assert_int_equal(ip_parse_prefix("", "10.1.0.0/16",
	                         &request.filter.prefixes[request.filter.n_prefixes++], NULL),
	        0);
	/* A length that has no set of its own. */
	assert_int_equal(ip_parse_prefix("", "172.16.0.0/14",
	                         &request.filter.prefixes[request.filter.n_prefixes++], NULL),
	        0);
	assert_int_equal(
	        ip_parse_prefix("", "fd01::/16", &request.filter.prefixes[request.filter.n_prefixes++], NULL),
	        0);
	assert_int_equal(ip_parse_prefix("", "2001:db8:fffe::/47",
	                         &request.filter.prefixes[request.filter.n_prefixes++], NULL),
	        0);
	return request;
}

static struct nic_request request_b(void)
{
	struct nic_request request = lan_request(2, 0, MAC_B);

	lan_address(&request, IP_B);
	lan_address(&request, IP6_B);
	return request;
}

static struct nic *prepare(struct lan *lan, const struct nic_request *request)
{
	struct err err = { 0 };
	struct nic *nic = NULL;

	if (nic_prepare_bridge(lan->nics, request, &nic, &err) < 0)
		fail_msg("%s", err.text);
	return nic;
}

static void net_open(struct net *net, const struct nic_request *a)
{
	struct nic_request b = request_b();

	assert_true(lan_enter_namespace());
	lan_open(&net->lan, NULL);
	net->a = prepare(&net->lan, a);
	net->b = prepare(&net->lan, &b);
	net->tap_a = lan_attach(net->a->ifname, false);
	net->tap_b = lan_attach(net->b->ifname, false);
	assert_true(net->tap_a.fd >= 0 && net->tap_b.fd >= 0);
}

static void net_close(struct net *net)
{
	(void)close(net->tap_a.fd);
	(void)close(net->tap_b.fd);
	nic_free(net->a);
	nic_free(net->b);
	lan_close(&net->lan);
}

static struct frame sentinel_from(const char *mac, const char *ip)
{
	struct frame f;

	frame_ether(&f, "ff:ff:ff:ff:ff:ff", mac, 0x0806);
	frame_arp(&f, 1, mac, ip, "10.0.0.254");
	return f;
}

static void expect(bool passes, bool expected, const char *name, const char *policy, const char *where)
{
	if (passes != expected)
		fail_msg("%s, policy %s, %s: %s", name, policy, where, passes ? "passed" : "was dropped");
}

static const char *const policy_names[] = { "PUBLIC", "PRIVATE", "NONE" };

static void from_a_guest(void **state)
{
	(void)state;
	for (enum nic_policy policy = NIC_POLICY_PUBLIC; policy <= NIC_POLICY_NONE; policy++) {
		struct nic_request a = request_a(policy);
		struct frame sentinel = sentinel_from(MAC_A, IP_A);
		struct net net = { 0 };

		net_open(&net, &a);
		for (size_t i = 0; i < ARRAY_SIZE(from_a); i++) {
			const struct {
				const char *name, *mac;
				struct port port;
			} where[] = {
				{ "to the world", MAC_OUT, net.lan.outside },
				{ "to another guest", MAC_B, net.tap_b },
				{ "to the host", net.lan.bridge_mac_text, net.lan.host },
			};

			for (size_t j = 0; j < ARRAY_SIZE(where); j++) {
				struct frame f;

				from_a[i].build(&f, where[j].mac);
				frame_finish(&f);
				expect(lan_passes(net.tap_a, where[j].port, &f, net.tap_a, &sentinel),
				        from_a[i].passes[policy], from_a[i].name, policy_names[policy],
				        where[j].name);
			}
		}
		net_close(&net);
	}
}

static void to_a_guest(void **state)
{
	(void)state;
	for (enum nic_policy policy = NIC_POLICY_PUBLIC; policy <= NIC_POLICY_NONE; policy++) {
		struct nic_request a = request_a(policy);
		struct net net = { 0 };

		net_open(&net, &a);
		for (size_t i = 0; i < ARRAY_SIZE(to_a); i++) {
			struct frame from_outside = sentinel_from(MAC_OUT, "10.0.0.99");
			struct frame from_host = sentinel_from(net.lan.bridge_mac_text, LAN_HOST_IP4);
			struct frame f;

			to_a[i].build(&f, MAC_OUT);
			frame_finish(&f);
			expect(lan_passes(net.lan.outside, net.tap_a, &f, net.lan.outside, &from_outside),
			        to_a[i].passes[policy], to_a[i].name, policy_names[policy], "from the world");
			to_a[i].build(&f, net.lan.bridge_mac_text);
			frame_finish(&f);
			expect(lan_passes(net.lan.host, net.tap_a, &f, net.lan.host, &from_host),
			        to_a[i].passes[policy], to_a[i].name, policy_names[policy], "from the host");
		}
		net_close(&net);
	}
}

/* --- tcp/22 from the host itself only --- */

/* clang-format off */

TO(in_ssh) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }
TO(in_ssh_data) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, ACK); }
TO(in_ssh_options) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP, .n_option_words = 4); frame_tcp(f, 5000, 22, SYN); }
TO(in_ssh_cut) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP); frame_bytes(f, "\x10\x10", 2); }
TO(in_ssh_fragment) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP, .fragment = MF); frame_bytes(f, "\x10\x10\0\x16\0\0\0\1", 8); }
TO(in_https) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
TO(in_https_fragment) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP, .fragment = MF); frame_tcp(f, 5000, 443, SYN); }
TO(in_tcp_later_fragment) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP, .fragment = 1); frame_bytes(f, "\0\0\0\1\x50\2", 6); }
TO(in_udp_22) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_UDP); frame_udp(f, 5000, 22); }
TO(in_udp_later_fragment) { frame_ether(f, MAC_A, from, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_UDP, .fragment = 8); frame_bytes(f, "later", 5); }
TO(in_ssh6) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }
TO(in_ssh6_link_local) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fe80::99", LL_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }
TO(in_ssh6_options) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 0); frame_ip6_option(f, 60); frame_ip6_option(f, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }
TO(in_ssh6_fragment) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 44); frame_ip6_fragment(f, IPPROTO_TCP, 0); frame_tcp(f, 5000, 22, SYN); }
TO(in_https6_fragment) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 44); frame_ip6_fragment(f, IPPROTO_TCP, 0); frame_tcp(f, 5000, 443, SYN); }
TO(in_ssh6_hidden) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 44); frame_ip6_fragment(f, 60, 1); frame_ip6_option(f, IPPROTO_TCP); }
TO(in_ssh6_hidden_later) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 44); frame_ip6_fragment(f, 60, 1 << 3); frame_tcp(f, 5000, 22, SYN); }
TO(in_https6) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, IPPROTO_TCP); frame_tcp(f, 5000, 443, SYN); }
TO(in_udp6) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, IPPROTO_UDP); frame_udp(f, 5000, 53); }
TO(in_udp6_fragment) { frame_ether(f, MAC_A, from, 0x86dd); frame_ip6(f, "fd00::99", IP6_A, 44); frame_ip6_fragment(f, IPPROTO_UDP, 1); frame_udp(f, 5000, 53); }
TO(in_vlan_ssh) { frame_ether(f, MAC_A, from, 0); frame_tag(f, 0x8100, 0, 0x0800); IP4(f, "10.0.0.99", IP_A, IPPROTO_TCP); frame_tcp(f, 5000, 22, SYN); }

static const struct {
	const char *name;
	build_fn build;
	bool passes;
} ssh_cases[] = {
	{ "ssh", in_ssh, false },
	{ "ssh data", in_ssh_data, false },
	{ "ssh with IP options", in_ssh_options, false },
	{ "ssh cut short", in_ssh_cut, false },
	{ "ssh in a fragment", in_ssh_fragment, false },
	{ "https", in_https, true },
	{ "https in a fragment", in_https_fragment, false },
	{ "later TCP fragment", in_tcp_later_fragment, false },
	{ "UDP port 22", in_udp_22, true },
	{ "later UDP fragment", in_udp_later_fragment, true },
	{ "ssh6", in_ssh6, false },
	{ "ssh6 link-local", in_ssh6_link_local, false },
	{ "ssh6 behind options", in_ssh6_options, false },
	{ "ssh6 in an atomic fragment", in_ssh6_fragment, false },
	{ "https6 in an atomic fragment", in_https6_fragment, false },
	{ "ssh6 hidden by a fragment", in_ssh6_hidden, false },
	{ "… its second part", in_ssh6_hidden_later, false },
	{ "https6", in_https6, true },
	{ "UDP6", in_udp6, true }, { "UDP in a fragment", in_udp6_fragment, true },
	{ "ssh in VLAN 0", in_vlan_ssh, false },
};

/* clang-format on */

static void ssh_from_outside(void **state)
{
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	struct frame from_outside = sentinel_from(MAC_OUT, "10.0.0.99");
	struct net net = { 0 };

	(void)state;
	a.filter.ssh_from_host_only = true;
	net_open(&net, &a);
	for (size_t i = 0; i < ARRAY_SIZE(ssh_cases); i++) {
		struct frame f;

		ssh_cases[i].build(&f, MAC_OUT);
		frame_finish(&f);
		expect(lan_passes(net.lan.outside, net.tap_a, &f, net.lan.outside, &from_outside),
		        ssh_cases[i].passes, ssh_cases[i].name, "ssh_from_host_only", "from the world");
	}
	net_close(&net);
}

/* True when the guest got a SYN for that port before the host's next broadcast. */
static bool host_connects(struct net *net, const char *ip, uint16_t port)
{
	struct frame seen, sentinel = sentinel_from(net->lan.bridge_mac_text, LAN_HOST_IP4);
	struct ip to = ip_of(ip);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool ip4 = to.family == AF_INET, connected = false;
	int fd = socket(to.family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	memcpy(&in.sin_addr, to.bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, to.bytes, sizeof(in6.sin6_addr));
	assert_int_equal(connect(fd, ip4 ? (void *)&in : (void *)&in6, ip4 ? sizeof(in) : sizeof(in6)), -1);
	lan_send(net->lan.host, &sentinel);
	do {
		size_t at = ip4 ? 14 + 20 : 14 + 40;

		assert_true(lan_receive(net->tap_a, &seen));
		if (seen.size > at + 13 && seen.data[12] == (ip4 ? 0x08 : 0x86) && seen.data[at + 13] == SYN)
			connected = connected || (seen.data[at + 2] << 8 | seen.data[at + 3]) == port;
	} while (memcmp(seen.data, sentinel.data, sentinel.size) != 0);
	(void)close(fd);
	return connected;
}

static void ssh_from_host(void **state)
{
	(void)state;
	for (enum nic_policy policy = NIC_POLICY_PUBLIC; policy <= NIC_POLICY_NONE; policy++) {
		struct nic_request a = request_a(policy);
		struct net net = { 0 };

		a.filter.ssh_from_host_only = true;
		net_open(&net, &a);
		lan_run("ip neigh add " IP_A " lladdr " MAC_A " dev " LAN_BRIDGE " && ip neigh add " IP6_A
		        " lladdr " MAC_A " dev " LAN_BRIDGE);
		/* The host is A's gateway, and so a peer. */
		expect(host_connects(&net, IP_A, 22), policy != NIC_POLICY_NONE, "ssh", policy_names[policy],
		        "from the host");
		expect(host_connects(&net, IP6_A, 22), policy != NIC_POLICY_NONE, "ssh6",
		        policy_names[policy], "from the host");
		expect(host_connects(&net, IP_A, 443), policy != NIC_POLICY_NONE, "https",
		        policy_names[policy], "from the host");
		net_close(&net);
	}
}

/* What the host forwards leaves by the bridge's output like what it sends itself. */
static void ssh_through_the_host(void **state)
{
	static const struct {
		const char *name, *from, *to;
		uint16_t port;
		uint8_t flags;
		bool passes;
	} cases[] = {
		{ "ssh", "192.0.2.9", IP_A, 22, SYN, false },
		{ "ssh, all flags", "192.0.2.9", IP_A, 22, 0x3f, false },
		/* It opens nothing: and the last segments of a connection of the host's own look like it. */
		{ "ssh data", "192.0.2.9", IP_A, 22, ACK, true },
		{ "https", "192.0.2.9", IP_A, 443, SYN, true },
		{ "ssh6", "2001:db8:2::9", IP6_A, 22, SYN, false },
		{ "https6", "2001:db8:2::9", IP6_A, 443, SYN, true },
	};
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	struct frame sentinel;
	struct net net = { 0 };
	struct port uplink;

	(void)state;
	a.filter.ssh_from_host_only = true;
	net_open(&net, &a);
	uplink = lan_tap("uplink");
	lan_run("ip link set uplink address 52:54:00:00:00:77 up; ip addr add 192.0.2.1/24 dev uplink; "
	        "ip addr add 2001:db8:2::1/64 dev uplink nodad; echo 1 >/proc/sys/net/ipv4/ip_forward; "
	        "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; ip neigh add " IP_A " lladdr " MAC_A
	        " dev " LAN_BRIDGE "; ip neigh add " IP6_A " lladdr " MAC_A " dev " LAN_BRIDGE);
	sentinel = sentinel_from(net.lan.bridge_mac_text, LAN_HOST_IP4);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool ip4 = ip_of(cases[i].to).family == AF_INET;
		struct frame in, out;

		/* The frame that goes in, and as it comes out: other addresses, one hop less. */
		frame_ether(&in, "52:54:00:00:00:77", MAC_OUT, ip4 ? 0x0800 : 0x86dd);
		if (ip4)
			IP4(&in, cases[i].from, cases[i].to, IPPROTO_TCP);
		else
			frame_ip6(&in, cases[i].from, cases[i].to, IPPROTO_TCP);
		frame_tcp(&in, 5000, cases[i].port, cases[i].flags);
		out = in;
		memcpy(out.data, mac_of(MAC_A).bytes, MAC_SIZE);
		memcpy(out.data + MAC_SIZE, net.lan.bridge_mac.bytes, MAC_SIZE);
		out.data[14 + (ip4 ? 8 : 7)]--;
		frame_finish(&in);
		frame_finish(&out);
		lan_send(uplink, &in);
		expect(lan_saw(net.tap_a, &out, net.lan.host, &sentinel), cases[i].passes, cases[i].name,
		        "ssh_from_host_only", "through the host");
	}
	(void)close(uplink.fd);
	net_close(&net);
}

/* --- between guests --- */

/* clang-format off */

FRAME(b_ip4) { frame_ether(f, to, MAC_B, 0x0800); IP4(f, IP_B, IP_A, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(b_ip6) { frame_ether(f, to, MAC_B, 0x86dd); frame_ip6(f, IP6_B, IP6_A, IPPROTO_UDP); frame_udp(f, 5000, 53); }
FRAME(b_arp_other_ip) { frame_ether(f, to, MAC_B, 0x0806); frame_arp(f, 2, MAC_B, IP_A, "10.0.0.77"); }
FRAME(b_nd_advert_other_target) { frame_ether(f, to, MAC_B, 0x86dd); frame_ip6(f, IP6_B, "ff02::1", IPPROTO_ICMPV6); frame_nd(f, 136, IP6_A, MAC_B); }
FRAME(b_router_advert) { frame_ether(f, to, MAC_B, 0x86dd); frame_ip6(f, LL_B, "ff02::1", IPPROTO_ICMPV6); frame_icmp6(f, 134); }
FRAME(b_dhcp_offer) { frame_ether(f, to, MAC_B, 0x0800); IP4(f, IP_B, IP_PEER, IPPROTO_UDP); frame_udp(f, 67, 68); }

/* clang-format on */

static const build_fn truths_of_a[] = { ip4_to_peer, ip6_to_peer, arp_reply };
static const build_fn lies_of_a[] = { arp_other_ip, arp_other_mac_outside, arp_all_other, ip4_other_source,
	ip4_other_mac, ip4_all_other, ip6_other_source, ip6_other_mac, nd_advert_other_target, router_advert,
	dhcp_offer };
static const build_fn truths_of_b[] = { b_ip4, b_ip6, arp_all_other };
/* What A may say of itself is among what B may not. */
static const build_fn lies_of_b[] = { arp_reply, ip4_to_peer, ip6_to_peer, nd_advert, arp_other_mac_outside,
	ip4_other_mac, ip6_other_mac, b_arp_other_ip, b_nd_advert_other_target, b_router_advert,
	b_dhcp_offer };

static void expect_heard(struct port from, struct port to, const char *to_mac, const build_fn *what, size_t n,
        const struct frame *sentinel, bool heard)
{
	for (size_t i = 0; i < n; i++) {
		struct frame f;

		what[i](&f, to_mac);
		frame_finish(&f);
		if (lan_passes(from, to, &f, from, sentinel) != heard)
			fail_msg("frame %zu to %s was%s heard", i, to_mac, heard ? " not" : "");
	}
}

/* Whatever the receiver may be sent, and whoever was there first, the sender is checked. That a lie would be heard is
 * shown by a liar that has no filter. */
static void neighbours_in_any_order(void **state)
{
	struct frame sentinel_a = sentinel_from(MAC_A, IP_A), sentinel_b = sentinel_from(MAC_B, IP_B);

	(void)state;
	for (int round = 0; round < 8; round++) {
		bool b_first = round & 1, a_checked = !(round & 2), b_checked = !(round & 4);
		struct nic_request a = request_a(NIC_POLICY_PUBLIC), b = request_b();
		struct nic *first, *second;
		struct port port_a, port_b;
		struct lan lan;

		a.filtered = a_checked;
		b.filtered = b_checked;
		assert_true(lan_enter_namespace());
		lan_open(&lan, NULL);
		first = prepare(&lan, b_first ? &b : &a);
		second = prepare(&lan, b_first ? &a : &b);
		port_a = lan_attach((b_first ? second : first)->ifname, false);
		port_b = lan_attach((b_first ? first : second)->ifname, false);
		expect_heard(port_a, port_b, MAC_B, truths_of_a, ARRAY_SIZE(truths_of_a), &sentinel_a, true);
		expect_heard(port_b, port_a, MAC_A, truths_of_b, ARRAY_SIZE(truths_of_b), &sentinel_b, true);
		expect_heard(
		        port_a, port_b, MAC_B, lies_of_a, ARRAY_SIZE(lies_of_a), &sentinel_a, !a_checked);
		expect_heard(
		        port_b, port_a, MAC_A, lies_of_b, ARRAY_SIZE(lies_of_b), &sentinel_b, !b_checked);
		(void)close(port_a.fd);
		(void)close(port_b.fd);
		nic_free(first);
		nic_free(second);
		lan_close(&lan);
	}
}

/* --- frames that a bridge treats on its own --- */

/* What a daemon of the host gets that listens for LLDP on a port: the frames that the bridge left to the port. */
static struct port listen_for_lldp(const char *ifname)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(0x88cc) };
	struct port port = { .fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
		.packet = true };

	at.sll_ifindex = lan_link(ifname).ifindex;
	assert_int_equal(bind(port.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return port;
}

static bool has_heard(struct port port)
{
	struct frame f;
	bool heard = false;

	for (ssize_t n; (n = recv(port.fd, f.data, sizeof(f.data), 0)) >= 0;)
		heard = true;
	return heard;
}

/* To 01:80:c2:00:00:0x: past prerouting, to the host, and with spanning tree on even past every hook of the
 * bridge. */
static void link_local_frames(void **state)
{
	static const char *const macs[] = { "01:80:c2:00:00:00", "01:80:c2:00:00:02", "01:80:c2:00:00:03",
		"01:80:c2:00:00:0e", "01:80:c2:00:00:21" };
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	struct frame sentinel = sentinel_from(MAC_A, IP_A);

	(void)state;
	for (int spanning_tree = 0; spanning_tree < 2; spanning_tree++) {
		struct net net = { 0 };

		net_open(&net, &a);
		struct port daemon = listen_for_lldp(net.a->ifname), elsewhere = listen_for_lldp("outside");
		/* Its rules are for its name, whatever group somebody moved it to. */
		lan_run("ip link set %s group 0", net.a->ifname);
		if (spanning_tree)
			lan_run("ip link set " LAN_BRIDGE " type bridge stp_state 1");
		for (size_t i = 0; i < ARRAY_SIZE(macs); i++) {
			struct frame f;

			for (int lie = 0; lie < 2; lie++) {
				(lie ? lldp : ip4_other_source)(&f, macs[i]);
				frame_finish(&f);
				assert_false(
				        lan_passes(net.tap_a, net.lan.outside, &f, net.tap_a, &sentinel));
				assert_false(lan_passes(net.tap_a, net.tap_b, &f, net.tap_a, &sentinel));
				assert_false(lan_passes(net.tap_a, net.lan.host, &f, net.tap_a, &sentinel));
				/* Of two no hook of the bridge is asked. */
				if (i != 3 && (i != 0 || !spanning_tree))
					assert_false(has_heard(daemon));
				(void)has_heard(daemon);
			}
			lldp(&f, macs[i]);
			frame_finish(&f);
			(void)lan_passes(net.lan.outside, net.lan.host, &f, net.tap_a, &sentinel);
			assert_int_equal(has_heard(elsewhere), i < 4 && (i != 0 || spanning_tree));
			/* Nor has anybody learnt that B is where A is. */
			arp_all_other(&f, macs[i]);
			assert_false(lan_passes(net.tap_a, net.lan.host, &f, net.tap_a, &sentinel));
			assert_true(lan_try("bridge fdb show br " LAN_BRIDGE " | grep -qx '" MAC_B
			                    " dev %s master " LAN_BRIDGE " static'",
			        net.b->ifname));
			assert_false(
			        lan_try("bridge fdb show br " LAN_BRIDGE " dev %s | grep -q '^" MAC_B "'",
			                net.a->ifname));
		}
		(void)close(daemon.fd);
		(void)close(elsewhere.fd);
		net_close(&net);
	}
}

/* The same frames with IP in them come up to the host under the TAP's own name. */
static void link_local_ip_to_host(void **state)
{
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	struct frame sentinel = sentinel_from(MAC_A, IP_A);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(5353) };
	struct net net = { 0 };
	struct frame f;
	char buffer[64];
	int fd = -1;

	(void)state;
	net_open(&net, &a);
	lan_run("echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter; "
	        "echo 0 >/proc/sys/net/ipv4/conf/%s/rp_filter",
	        net.a->ifname);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	/* An honest datagram arrives, so the socket hears. */
	frame_ether(&f, net.lan.bridge_mac_text, MAC_A, 0x0800);
	IP4(&f, IP_A, LAN_HOST_IP4, IPPROTO_UDP);
	frame_udp(&f, 5000, 5353);
	frame_finish(&f);
	assert_true(lan_passes(net.tap_a, net.lan.host, &f, net.tap_a, &sentinel));
	assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
	for (int honest = 0; honest < 2; honest++) {
		frame_ether(&f, "01:80:c2:00:00:0e", MAC_A, 0x0800);
		IP4(&f, honest ? IP_A : IP_OUT, LAN_HOST_IP4, IPPROTO_UDP);
		frame_udp(&f, 5000, 5353);
		frame_finish(&f);
		assert_false(lan_passes(net.tap_a, net.lan.host, &f, net.tap_a, &sentinel));
		assert_int_equal(recv(fd, buffer, sizeof(buffer), 0), -1);
	}
	(void)close(fd);
	net_close(&net);
}

/* A whole one, that every host takes: a router for half an hour, and a network to have an address in. */
static void advertise_router(struct frame *f, const char *to, const char *from, const char *from_ip)
{
	static const uint8_t rest[] = { 134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64,
		0xc0, 0, 0, 0x07, 0x08, 0, 0, 0x07, 0x08, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0x66, 0x66, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0 };

	frame_ether(f, to, from, 0x86dd);
	frame_ip6(f, from_ip, "ff02::1", IPPROTO_ICMPV6);
	frame_bytes(f, rest, sizeof(rest));
	frame_finish(f);
}

/* A route or an address of the host that came of one. */
static bool host_has_a_router(void)
{
	return lan_try("ip -6 route show proto ra | grep -q . || ip -6 addr | grep -q 2001:db8:6666:");
}

/* Neither by the bridge, nor past it under the TAP's own name. That the host would listen is shown by a guest without a
 * filter, and by a port that is nobody's NIC. */
static void a_guest_is_no_router_of_the_host(void **state)
{
	static const char *const macs[] = { "33:33:00:00:00:01", "01:80:c2:00:00:0e", "52:54:00:00:00:fe" };
	struct frame sentinel = sentinel_from(MAC_A, IP_A), f;

	(void)state;
	for (int filtered = 0; filtered < 2; filtered++) {
		struct nic_request a = request_a(NIC_POLICY_PUBLIC);
		struct net net = { 0 };

		a.filtered = filtered;
		net_open(&net, &a);
		lan_run("for i in " LAN_BRIDGE
		        " outside %s; do echo 2 >/proc/sys/net/ipv6/conf/$i/accept_ra; done",
		        net.a->ifname);
		for (size_t i = 0; i < ARRAY_SIZE(macs); i++) {
			advertise_router(&f, macs[i], MAC_A, LL_A);
			assert_int_equal(lan_passes(net.tap_a, net.lan.host, &f, net.tap_a, &sentinel),
			        !filtered && i != 1);
			assert_false(filtered && host_has_a_router());
		}
		assert_int_equal(host_has_a_router(), !filtered);
		assert_false(lan_try("ip -6 route show proto ra dev %s | grep -q .", net.a->ifname));
		advertise_router(&f, "01:80:c2:00:00:0e", MAC_OUT, "fe80::99");
		(void)lan_passes(net.lan.outside, net.tap_b, &f, net.tap_a, &sentinel);
		assert_true(lan_try("ip -6 route show proto ra dev outside | grep -q ."));
		assert_false(lan_try("ip -6 addr show dev %s | grep -q inet6", net.a->ifname));
		net_close(&net);
	}
}

/* One that was prepared without a filter may lie. */
static void without_a_filter(void **state)
{
	static const build_fn lies[] = { arp_all_other, ip4_all_other, ip6_other_mac, router_advert, lldp,
		vlan };
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	struct frame sentinel = sentinel_from(MAC_A, IP_A), f;
	struct net net = { 0 };

	(void)state;
	a.filtered = false;
	net_open(&net, &a);
	assert_false(net.a->owner.filtered);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		lies[i](&f, MAC_OUT);
		frame_finish(&f);
		assert_true(lan_passes(net.tap_a, net.lan.outside, &f, net.tap_a, &sentinel));
	}
	for (size_t i = 0; i < ARRAY_SIZE(to_a); i++) {
		struct frame from_outside = sentinel_from(MAC_OUT, "10.0.0.99");

		to_a[i].build(&f, MAC_OUT);
		frame_finish(&f);
		assert_true(lan_passes(net.lan.outside, net.tap_a, &f, net.lan.outside, &from_outside));
	}
	net_close(&net);
}

/* An interface of ours that no element names passes nothing in any direction, by whatever way. */
static void without_rules(void **state)
{
	static const build_fn honest[] = { arp_request, ip4_to_world, ip6_to_world, dhcp_discover };
	struct nic_request a = request_a(NIC_POLICY_PUBLIC);
	static const struct elements none;
	struct frame sentinel_b = sentinel_from(MAC_B, IP_B),
	             sentinel_out = sentinel_from(MAC_OUT, "10.0.0.99"), f;
	struct net net = { 0 };

	(void)state;
	net_open(&net, &a);
	struct port daemon = listen_for_lldp(net.a->ifname);
	assert_int_equal(
	        rules_change(nics_rules(net.lan.nics), net.a->ifname, &net.a->elements, &none, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(honest); i++) {
		honest[i](&f, MAC_OUT);
		frame_finish(&f);
		assert_false(lan_passes(net.tap_a, net.lan.outside, &f, net.tap_b, &sentinel_b));
		honest[i](&f, net.lan.bridge_mac_text);
		frame_finish(&f);
		assert_false(lan_passes(net.tap_a, net.lan.host, &f, net.tap_b, &sentinel_b));
	}
	lldp(&f, "01:80:c2:00:00:03");
	frame_finish(&f);
	assert_false(lan_passes(net.tap_a, net.lan.host, &f, net.tap_b, &sentinel_b));
	assert_false(has_heard(daemon));
	(void)close(daemon.fd);
	/* Nor does anything come in: what A finds there, when it has its rules again, was sent after that. */
	for (int from_host = 0; from_host < 2; from_host++) {
		in_arp(&f, from_host ? net.lan.bridge_mac_text : MAC_OUT);
		lan_send(from_host ? net.lan.host : net.lan.outside, &f);
		assert_int_equal(
		        rules_change(nics_rules(net.lan.nics), net.a->ifname, &none, &net.a->elements, NULL),
		        0);
		assert_false(lan_saw(net.tap_a, &f, net.lan.outside, &sentinel_out));
		lan_send(from_host ? net.lan.host : net.lan.outside, &f);
		assert_true(lan_saw(net.tap_a, &f, net.lan.outside, &sentinel_out));
		assert_int_equal(
		        rules_change(nics_rules(net.lan.nics), net.a->ifname, &net.a->elements, &none, NULL),
		        0);
	}
	net_close(&net);
}

/* br_netfilter takes IPv4 out of the bridge's prerouting; the filter is before it. */
static void with_br_netfilter(void **state)
{
	static const build_fn lies[] = { ip4_other_source, ip4_other_mac, dhcp_offer, ip4_no_source,
		ip6_other_source };
	struct nic_request a = request_a(NIC_POLICY_PRIVATE);
	struct frame sentinel = sentinel_from(MAC_A, IP_A), f;
	struct net net = { 0 };

	(void)state;
	net_open(&net, &a);
	if (!lan_try("cd /proc/sys/net/bridge && for f in iptables ip6tables arptables; do echo 1 "
	             ">bridge-nf-call-$f || exit 1; done 2>/dev/null"))
		goto end; /* a kernel without it */
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		lies[i](&f, MAC_OUT);
		frame_finish(&f);
		assert_false(lan_passes(net.tap_a, net.lan.outside, &f, net.tap_a, &sentinel));
	}
	ip4_to_peer(&f, MAC_OUT);
	frame_finish(&f);
	assert_true(lan_passes(net.tap_a, net.lan.outside, &f, net.tap_a, &sentinel));
	ip4_to_world(&f, MAC_OUT);
	frame_finish(&f);
	assert_false(lan_passes(net.tap_a, net.lan.outside, &f, net.tap_a, &sentinel));
end:
	net_close(&net);
}

TEST_SUITE(filter_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_a_guest),
		cmocka_unit_test(to_a_guest),
		cmocka_unit_test(ssh_from_outside),
		cmocka_unit_test(ssh_from_host),
		cmocka_unit_test(ssh_through_the_host),
		cmocka_unit_test(neighbours_in_any_order),
		cmocka_unit_test(link_local_frames),
		cmocka_unit_test(link_local_ip_to_host),
		cmocka_unit_test(a_guest_is_no_router_of_the_host),
		cmocka_unit_test(without_a_filter),
		cmocka_unit_test(without_rules),
		cmocka_unit_test(with_br_netfilter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
