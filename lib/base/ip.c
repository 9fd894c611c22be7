#include "lib/base/ip.h"

#include "lib/base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static unsigned ip_bits_max(int family)
{
	return family == AF_INET ? 32 : 128;
}

static bool ip_scan(const char *s, struct ip *ret)
{
	struct ip ip = { .family = AF_INET, .n_bits = 32 };

	if (!s)
		return false;
	if (inet_pton(AF_INET, s, ip.bytes) != 1) {
		ip.family = AF_INET6;
		ip.n_bits = 128;
		if (inet_pton(AF_INET6, s, ip.bytes) != 1)
			return false;
	}
	*ret = ip;
	return true;
}

int ip_parse(const char *what, const char *s, struct ip *ret, struct err *err)
{
	struct ip ip;

	if (!ip_scan(s, &ip))
		return err_set(err, -EINVAL,
		        "%s: '%s' is not an IP address; write one such as 192.0.2.7 or 2001:db8::7", what,
		        QUOTED(s));
	*ret = ip;
	return 0;
}

/* A prefix length: decimal digits without sign, space or leading zero. */
static bool bits_scan(const char *s, unsigned max, uint8_t *ret)
{
	size_t n = strspn(s, "0123456789");
	unsigned bits = 0;

	if (n == 0 || n > 3 || s[n] != '\0' || (s[0] == '0' && n > 1))
		return false;
	for (; *s; s++)
		bits = bits * 10 + (unsigned)(*s - '0');
	if (bits > max)
		return false;
	*ret = (uint8_t)bits;
	return true;
}

int ip_parse_cidr(const char *what, const char *s, struct ip *ret, struct err *err)
{
	char text[IP_TEXT_MAX];
	struct ip ip;
	const char *slash = s ? strchr(s, '/') : NULL;

	if (!slash || (size_t)(slash - s) >= sizeof(text))
		goto refuse;
	memcpy(text, s, (size_t)(slash - s));
	text[slash - s] = '\0';
	if (!ip_scan(text, &ip) || !bits_scan(slash + 1, ip_bits_max(ip.family), &ip.n_bits))
		goto refuse;
	*ret = ip;
	return 0;
refuse:
	return err_set(err, -EINVAL,
	        "%s: '%s' is not an address with a prefix length; write one such as 192.0.2.7/24 or "
	        "2001:db8::7/64",
	        what, QUOTED(s));
}

int ip_parse_prefix(const char *what, const char *s, struct ip *ret, struct err *err)
{
	struct ip ip;
	int r = ip_parse_cidr(what, s, &ip, err);

	if (r < 0)
		return r;
	struct ip network = ip_network(&ip);
	if (!ip_equal(&ip, &network)) {
		char text[IP_TEXT_MAX];

		ip_format_cidr(&network, text);
		return err_set(err, -EINVAL, "%s: '%s' has host bits set; the network is %s", what, s, text);
	}
	*ret = ip;
	return 0;
}

bool ip_is_loopback(const struct ip *ip)
{
	static const uint8_t LOOPBACK6[16] = { [15] = 1 };

	return ip->family == AF_INET ? ip->bytes[0] == 127 : memcmp(ip->bytes, LOOPBACK6, 16) == 0;
}

bool ip_is_host(const struct ip *ip)
{
	static const uint8_t ZERO[16], BROADCAST[4] = { 255, 255, 255, 255 };

	if (memcmp(ip->bytes, ZERO, 16) == 0 || ip_is_loopback(ip))
		return false;
	if (ip->family == AF_INET)
		return ip->bytes[0] != 0 && (ip->bytes[0] & 0xf0) != 0xe0 &&
		        memcmp(ip->bytes, BROADCAST, 4) != 0;
	return ip->bytes[0] != 0xff;
}

void ip_format(const struct ip *ip, char ret[static IP_TEXT_MAX])
{
	if (!inet_ntop(ip->family, ip->bytes, ret, IP_TEXT_MAX))
		ret[0] = '\0';
}

void ip_format_cidr(const struct ip *ip, char ret[static IP_TEXT_MAX])
{
	ip_format(ip, ret);
	size_t n = strlen(ret);
	(void)snprintf(ret + n, IP_TEXT_MAX - n, "/%u", ip->n_bits);
}

struct ip ip_network(const struct ip *ip)
{
	struct ip network = *ip;

	for (unsigned i = 0; i < sizeof(network.bytes); i++) {
		unsigned n_kept = ip->n_bits > i * 8 ? ip->n_bits - i * 8 : 0;

		if (n_kept < 8)
			network.bytes[i] &= (uint8_t)(0xff00 >> n_kept);
	}
	return network;
}

bool ip_contains(const struct ip *network, const struct ip *ip)
{
	struct ip other = *ip;

	if (network->family != ip->family || network->n_bits > ip->n_bits)
		return false;
	other.n_bits = network->n_bits;
	struct ip a = ip_network(network), b = ip_network(&other);
	return ip_equal(&a, &b);
}

bool ip_equal(const struct ip *a, const struct ip *b)
{
	return a->family == b->family && a->n_bits == b->n_bits && memcmp(a->bytes, b->bytes, 16) == 0;
}
