#include "tests/netd/frame.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct mac mac_of(const char *text)
{
	struct mac mac = { { 0 } };
	unsigned b[MAC_SIZE];

	/* Not mac_parse(): a liar sends from addresses that no NIC can have. */
	if (sscanf(text, "%x:%x:%x:%x:%x:%x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != MAC_SIZE)
		abort();
	for (int i = 0; i < MAC_SIZE; i++)
		mac.bytes[i] = (uint8_t)b[i];
	return mac;
}

struct ip ip_of(const char *text)
{
	struct ip ip;

	if (ip_parse("test", text, &ip, NULL) < 0)
		abort();
	return ip;
}

void frame_bytes(struct frame *f, const void *data, size_t n)
{
	if (f->size + n > FRAME_MAX)
		abort();
	memcpy(f->data + f->size, data, n);
	f->size += n;
}

static void put8(struct frame *f, uint8_t x)
{
	frame_bytes(f, &x, 1);
}

static void put16(struct frame *f, uint16_t x)
{
	x = htons(x);
	frame_bytes(f, &x, sizeof(x));
}

static void put32(struct frame *f, uint32_t x)
{
	x = htonl(x);
	frame_bytes(f, &x, sizeof(x));
}

static void put_mac(struct frame *f, const char *text)
{
	struct mac mac = mac_of(text);

	frame_bytes(f, mac.bytes, MAC_SIZE);
}

static void put_ip(struct frame *f, const char *text)
{
	struct ip ip = ip_of(text);

	frame_bytes(f, ip.bytes, ip.family == AF_INET ? 4 : 16);
}

void frame_ether(struct frame *f, const char *to, const char *from, uint16_t type)
{
	memset(f, 0, sizeof(*f));
	put_mac(f, to);
	put_mac(f, from);
	put16(f, type);
}

void frame_tag(struct frame *f, uint16_t tpid, uint16_t tci, uint16_t inner_type)
{
	f->size -= 2;
	put16(f, tpid);
	put16(f, tci);
	put16(f, inner_type);
}

void frame_arp(struct frame *f, uint16_t operation, const char *sender_mac, const char *sender_ip,
        const char *target_ip)
{
	put16(f, 1);
	put16(f, 0x0800);
	put8(f, 6);
	put8(f, 4);
	put16(f, operation);
	put_mac(f, sender_mac);
	put_ip(f, sender_ip);
	put_mac(f, "0:0:0:0:0:0");
	put_ip(f, target_ip);
}

void frame_ip4(struct frame *f, const struct ip4_options *options)
{
	put8(f, (uint8_t)(0x45 + options->n_option_words));
	put8(f, 0);
	put16(f, 0);
	put16(f, 0x1234);
	put16(f, options->fragment);
	put8(f, 64);
	put8(f, options->protocol);
	put16(f, 0);
	put_ip(f, options->from);
	put_ip(f, options->to);
	for (unsigned i = 0; i < options->n_option_words; i++)
		put32(f, 0x01010101); /* no operation */
}

void frame_ip6(struct frame *f, const char *from, const char *to, uint8_t next)
{
	put32(f, 0x60000000);
	put16(f, 0);
	put8(f, next);
	put8(f, 255);
	put_ip(f, from);
	put_ip(f, to);
}

void frame_ip6_option(struct frame *f, uint8_t next)
{
	put8(f, next);
	put8(f, 0);
	put16(f, 0x0104); /* padding */
	put32(f, 0);
}

void frame_ip6_fragment(struct frame *f, uint8_t next, uint16_t offset_and_flags)
{
	put8(f, next);
	put8(f, 0);
	put16(f, offset_and_flags);
	put32(f, 0x12345678);
}

void frame_udp(struct frame *f, uint16_t from, uint16_t to)
{
	put16(f, from);
	put16(f, to);
	put16(f, 8 + 8);
	put16(f, 0);
	frame_bytes(f, "payload", 8);
}

void frame_tcp(struct frame *f, uint16_t from, uint16_t to, uint8_t flags)
{
	put16(f, from);
	put16(f, to);
	put32(f, 1);
	put32(f, flags & TCP_FLAG_ACK ? 1 : 0);
	put8(f, 0x50);
	put8(f, flags);
	put16(f, 1024);
	put16(f, 0);
	put16(f, 0);
}

void frame_icmp6(struct frame *f, uint8_t type)
{
	put8(f, type);
	put8(f, 0);
	put16(f, 0);
	put32(f, 0);
	frame_bytes(f, "payload of a message", 20);
}

void frame_nd(struct frame *f, uint8_t type, const char *target, const char *option_mac)
{
	put8(f, type);
	put8(f, 0);
	put16(f, 0);
	put32(f, type == 136 ? 0x20000000 : 0);
	put_ip(f, target);
	if (!option_mac)
		return;
	put8(f, type == 136 ? 2 : 1);
	put8(f, 1);
	put_mac(f, option_mac);
}

static uint32_t sum(const uint8_t *data, size_t n, uint32_t start)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		start += (uint32_t)(data[i] << 8 | data[i + 1]);
	return n % 2 ? start + (uint32_t)(data[n - 1] << 8) : start;
}

static uint16_t fold(uint32_t sum32)
{
	while (sum32 >> 16)
		sum32 = (sum32 & 0xffff) + (sum32 >> 16);
	return (uint16_t)~sum32;
}

static void set16(uint8_t *at, uint16_t x)
{
	at[0] = (uint8_t)(x >> 8);
	at[1] = (uint8_t)x;
}

/* Of a whole datagram; that of a fragment cannot be known. */
static void transport_finish(
        uint8_t *data, size_t n, uint8_t protocol, const uint8_t *addresses, size_t n_addresses)
{
	size_t at = protocol == IPPROTO_TCP  ? 16
	        : protocol == IPPROTO_UDP    ? 6
	        : protocol == IPPROTO_ICMPV6 ? 2
	                                     : 0;

	if (at == 0 || n < at + 2)
		return;
	set16(data + at, 0);
	set16(data + at, fold(sum(data, n, sum(addresses, n_addresses, protocol + (uint32_t)n))));
}

void frame_finish(struct frame *f)
{
	size_t at = 12;
	uint8_t *ip, next;
	uint16_t type;

	do {
		type = (uint16_t)(f->data[at] << 8 | f->data[at + 1]);
		at += type == 0x8100 || type == 0x88a8 ? 4 : 2;
	} while (type == 0x8100 || type == 0x88a8);
	ip = f->data + at;
	if (type == 0x0800 && f->size >= at + 20) {
		size_t head = (ip[0] & 15U) * 4;

		set16(ip + 2, (uint16_t)(f->size - at));
		set16(ip + 10, 0);
		set16(ip + 10, fold(sum(ip, head, 0)));
		if (((ip[6] << 8 | ip[7]) & 0x3fff) == 0 && f->size > at + head)
			transport_finish(ip + head, f->size - at - head, ip[9], ip + 12, 8);
	} else if (type == 0x86dd && f->size >= at + 40) {
		size_t body = 40;

		set16(ip + 4, (uint16_t)(f->size - at - 40));
		for (next = ip[6]; (next == 0 || next == 60) && at + body + 8 < f->size; body += 8)
			next = ip[body];
		if (next != 44 && at + body < f->size)
			transport_finish(ip + body, f->size - at - body, next, ip + 8, 32);
	}
}
