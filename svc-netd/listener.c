#include "svc-netd/listener.h"

#include "svc-netd/netlink.h"

#include "lib/base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

enum { QUERY_ATTEMPTS = 8 };

CLEANUP_DEFINE(netlink, netlink_free)

static bool is_any(const struct ip *ip)
{
	static const uint8_t zeroes[16];

	return memcmp(ip->bytes, zeroes, sizeof(zeroes)) == 0;
}

/* An IPv4 address as IPv6 writes it is that IPv4 address. */
static void unmap(struct ip *ip)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	if (ip->family != AF_INET6 || memcmp(ip->bytes, prefix, sizeof(prefix)) != 0)
		return;
	ip->family = AF_INET;
	ip->n_bits = 32;
	memmove(ip->bytes, ip->bytes + sizeof(prefix), 4);
	memset(ip->bytes + 4, 0, sizeof(prefix));
}

int listener_parse(const struct nlmsghdr *message, uint8_t protocol, struct listener *ret)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	struct listener listener = { .protocol = protocol };
	const struct nlattr *attr;

	/* the kernel pads every attribute; libmnl would read up to the padding that a cut message lacks */
	if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY || message->nlmsg_len % NLMSG_ALIGNTO != 0 ||
	        mnl_nlmsg_get_payload_len(message) < sizeof(*socket) ||
	        (socket->idiag_family != AF_INET && socket->idiag_family != AF_INET6))
		return -EBADMSG;
	listener.at.family = socket->idiag_family;
	listener.at.n_bits = socket->idiag_family == AF_INET ? 32 : 128;
	memcpy(listener.at.bytes, socket->id.idiag_src, listener.at.n_bits / 8);
	listener.port = ntohs(socket->id.idiag_sport);
	listener.uid = socket->idiag_uid;
	listener.both = socket->idiag_family == AF_INET6 && is_any(&listener.at);
	mnl_attr_for_each(attr, message, sizeof(*socket))
	{
		if (mnl_attr_get_type(attr) == INET_DIAG_SKV6ONLY && mnl_attr_get_payload_len(attr) == 1 &&
		        mnl_attr_get_u8(attr))
			listener.both = false;
	}
	unmap(&listener.at);
	*ret = listener;
	return 0;
}

bool listener_hinders(const struct listener *listener, const struct publication *p)
{
	bool any = is_any(&listener->at);

	if (listener->protocol != p->protocol || listener->port != p->host_port)
		return false;
	/* A publication leads to a guest of its own family. */
	if (listener->at.family != p->guest.family)
		return listener->both && any;
	return any || (p->any ? !ip_is_loopback(&listener->at) : ip_equal(&listener->at, &p->host));
}

void listener_text(const struct listener *listener, char ret[static LISTENER_TEXT_MAX])
{
	bool ip6 = listener->at.family == AF_INET6;
	char address[IP_TEXT_MAX];

	ip_format(&listener->at, address);
	(void)snprintf(
	        ret, LISTENER_TEXT_MAX, "%s%s%s:%u", ip6 ? "[" : "", address, ip6 ? "]" : "", listener->port);
}

struct search {
	const struct publication *ports;
	size_t n;
	uint8_t protocol;
	bool found;
	size_t port;
	struct listener listener;
};

static int on_socket(const struct nlmsghdr *message, void *userdata)
{
	struct search *search = userdata;
	struct listener listener;
	int r = listener_parse(message, search->protocol, &listener);

	for (size_t i = 0; r == 0 && !search->found && i < search->n; i++) {
		if (!listener_hinders(&listener, &search->ports[i]))
			continue;
		search->found = true;
		search->port = i;
		search->listener = listener;
	}
	return r;
}

static int search_family(struct netlink *nl, struct search *search, uint8_t family)
{
	/* A UDP socket that waits for anybody is in the state of a closed TCP one. */
	uint32_t state = search->protocol == IPPROTO_TCP ? TCP_LISTEN : TCP_CLOSE;
	int r = -EINTR;

	for (int i = 0; r == -EINTR && i < QUERY_ATTEMPTS; i++) {
		char buffer[256];
		struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
		struct inet_diag_req_v2 *head;

		h->nlmsg_type = SOCK_DIAG_BY_FAMILY;
		h->nlmsg_flags = NLM_F_DUMP;
		head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
		head->sdiag_family = family;
		head->sdiag_protocol = search->protocol;
		head->idiag_states = 1U << state;
		search->found = false;
		r = netlink_query(nl, h, on_socket, search);
	}
	return r;
}

int listener_find(const struct publication *ports, size_t n, size_t *ret_port, struct listener *ret)
{
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP }, families[] = { AF_INET, AF_INET6 };
	CLEANUP(netlink) struct netlink *nl = NULL;
	int r = netlink_open(NETLINK_SOCK_DIAG, &nl);

	if (r == -EPROTONOSUPPORT)
		return -ENOENT;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(protocols) * ARRAY_SIZE(families); i++) {
		struct search search = { .ports = ports, .n = n, .protocol = protocols[i / 2] };

		r = search_family(nl, &search, families[i % 2]);
		if (r == 0 && search.found) {
			*ret_port = search.port;
			*ret = search.listener;
			return 1;
		}
	}
	return r;
}
