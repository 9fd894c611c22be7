/* Ethernet frames for tests, put together header by header from the outside in. Everything that is not said
 * is what an honest sender would say; what a test says instead is a lie on purpose. */
#pragma once

#include "lib/base/ip.h"
#include "lib/base/mac.h"

#include <stddef.h>
#include <stdint.h>

enum { FRAME_MAX = 1514 };

struct frame {
	uint8_t data[FRAME_MAX];
	size_t size;
};

struct mac mac_of(const char *text);
struct ip ip_of(const char *text);

void frame_ether(struct frame *f, const char *to, const char *from, uint16_t type);
void frame_tag(
        struct frame *f, uint16_t tpid, uint16_t tci, uint16_t inner_type); /* right after frame_ether() */
void frame_bytes(struct frame *f, const void *data, size_t n);

void frame_arp(struct frame *f, uint16_t operation, const char *sender_mac, const char *sender_ip,
        const char *target_ip);

struct ip4_options {
	const char *from, *to;
	uint8_t protocol;
	uint16_t fragment; /* flags and offset as they are on the wire */
	unsigned n_option_words;
};
void frame_ip4(struct frame *f, const struct ip4_options *options);
void frame_ip6(struct frame *f, const char *from, const char *to, uint8_t next);
/* An extension header of 8 bytes: hop-by-hop (0), destination options (60). */
void frame_ip6_option(struct frame *f, uint8_t next);
void frame_ip6_fragment(struct frame *f, uint8_t next, uint16_t offset_and_flags);
void frame_udp(struct frame *f, uint16_t from, uint16_t to);
void frame_tcp(struct frame *f, uint16_t from, uint16_t to, uint8_t flags);
void frame_icmp6(struct frame *f, uint8_t type);
/* A solicitation (135) or an advertisement (136); option_mac NULL: no link-layer option. */
void frame_nd(struct frame *f, uint8_t type, const char *target, const char *option_mac);
/* Sets lengths and checksums of IP, UDP, TCP and ICMPv6 by what is there. Last. */
void frame_finish(struct frame *f);

enum { TCP_FLAG_SYN = 0x02, TCP_FLAG_ACK = 0x10 };
