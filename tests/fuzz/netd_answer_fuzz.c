/* What the kernel answers netd, cut and bent: links, sockets, and elements of every set. The first byte chooses. */
#include "svc-netd/link.h"
#include "svc-netd/listener.h"
#include "svc-netd/nft_query.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKETS = 0xff }; /* links are what else is above the sets */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_element(const struct element *element, const char *ifname, void *userdata)
{
	(void)userdata;
	if (element->set >= SET_COUNT || strlen(ifname) >= IFNAME_MAX)
		abort();
}

static void take(uint8_t choice, const struct nlmsghdr *h)
{
	struct listener listener;
	struct link link;

	if (choice == SOCKETS) {
		if (listener_parse(h, IPPROTO_TCP, &listener) == 0 && listener.at.family != AF_INET &&
		        listener.at.family != AF_INET6)
			abort();
	} else if (choice >= SET_COUNT) {
		if (link_parse(h, &link) == 0 &&
		        (!link.name[0] || strlen(link.name) >= sizeof(link.name) ||
		                strlen(link.alias) >= sizeof(link.alias)))
			abort();
	} else {
		(void)nft_parse_elements(h, (enum set_id)choice, on_element, NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length = sizeof(struct nlmsghdr) + size - (size ? 1 : 0);
	struct nlmsghdr *h;

	/* Each message in memory of just its size. */
	if (size < 2 || size > 1 << 15)
		return 0;
	h = calloc(1, length);
	if (!h)
		return 0;
	memcpy(h + 1, data + 1, size - 1);
	h->nlmsg_len = (uint32_t)length;
	h->nlmsg_type = data[0] < SET_COUNT ? (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM)
	        : data[0] == SOCKETS        ? SOCK_DIAG_BY_FAMILY
	                                    : RTM_NEWLINK;
	take(data[0], h);
	free(h);
	return 0;
}
