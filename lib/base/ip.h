/* IPv4 and IPv6 addresses and prefixes, in the one spelling inet_pton takes: no ports, zones, brackets or
 * octal. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { IP_TEXT_MAX = 50 }; /* an address with its prefix length, with the NUL */

struct ip {
	int family;        /* AF_INET or AF_INET6 */
	uint8_t bytes[16]; /* network order; an IPv4 address has the first 4, the rest are 0 */
	uint8_t n_bits;    /* prefix length; 32 or 128 for a bare address */
};

/* Each returns 0 or -EINVAL with words; what is the field's path. */
int ip_parse(
        const char *what, const char *s, struct ip *ret, struct err *err); /* "192.0.2.7", "2001:db8::7" */
/* An address on its network, "192.0.2.7/24": the prefix length is required, host bits are kept. */
int ip_parse_cidr(const char *what, const char *s, struct ip *ret, struct err *err);
/* A network, "192.0.2.0/24": a set host bit is refused, naming the network that was meant. */
int ip_parse_prefix(const char *what, const char *s, struct ip *ret, struct err *err);

/* An address that one NIC can have: not unspecified, multicast, loopback or the IPv4 broadcast. */
bool ip_is_host(const struct ip *ip);
bool ip_is_loopback(const struct ip *ip);                               /* 127.0.0.0/8 or ::1 */
void ip_format(const struct ip *ip, char ret[static IP_TEXT_MAX]);      /* without the prefix length */
void ip_format_cidr(const struct ip *ip, char ret[static IP_TEXT_MAX]); /* with it */
/* The network ip is on: host bits cleared. */
struct ip ip_network(const struct ip *ip);
bool ip_contains(const struct ip *network, const struct ip *ip);
bool ip_equal(const struct ip *a, const struct ip *b); /* family, bytes and prefix length */
