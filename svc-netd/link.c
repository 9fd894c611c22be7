#include "svc-netd/link.h"

#include "svc-netd/netlink.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { LIST_ATTEMPTS = 8 };

/* --- reading --- */

static bool text_take(const struct nlattr *attr, char *ret, size_t size)
{
	size_t n = strnlen(mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));

	if (n >= size)
		return false;
	memcpy(ret, mnl_attr_get_payload(attr), n);
	memset(ret + n, 0, size - n);
	return true;
}

static bool number_take(const struct nlattr *attr, uint32_t *ret)
{
	if (mnl_attr_validate(attr, MNL_TYPE_U32) < 0)
		return false;
	*ret = mnl_attr_get_u32(attr);
	return true;
}

static bool flag_take(const struct nlattr *attr, bool *ret)
{
	if (mnl_attr_validate(attr, MNL_TYPE_U8) < 0)
		return false;
	*ret = mnl_attr_get_u8(attr) != 0;
	return true;
}

static bool tun_take(const struct nlattr *data, struct link *link)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, data)
	{
		bool ok = true;

		switch (mnl_attr_get_type(attr)) {
		case IFLA_TUN_TYPE:
			ok = mnl_attr_validate(attr, MNL_TYPE_U8) >= 0;
			link->tun.tap = ok && mnl_attr_get_u8(attr) == IFF_TAP;
			break;
		case IFLA_TUN_PERSIST:
			ok = flag_take(attr, &link->tun.persist);
			break;
		case IFLA_TUN_MULTI_QUEUE:
			ok = flag_take(attr, &link->tun.multi_queue);
			break;
		case IFLA_TUN_VNET_HDR:
			ok = flag_take(attr, &link->tun.vnet_hdr);
			break;
		case IFLA_TUN_NUM_QUEUES:
			ok = number_take(attr, &link->tun.queues);
			break;
		case IFLA_TUN_NUM_DISABLED_QUEUES:
			ok = number_take(attr, &link->tun.disabled_queues);
			break;
		case IFLA_TUN_OWNER:
			link->tun.has_owner = ok = number_take(attr, &link->tun.owner);
			break;
		case IFLA_TUN_GROUP:
			link->tun.has_group = ok = number_take(attr, &link->tun.group);
			break;
		default:
			break;
		}
		if (!ok)
			return false;
	}
	return true;
}

static bool macvtap_take(const struct nlattr *data, struct link *link)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, data)
	{
		if (mnl_attr_get_type(attr) == IFLA_MACVLAN_MODE && !number_take(attr, &link->macvlan_mode))
			return false;
	}
	return true;
}

static bool port_take(const struct nlattr *data, struct link *link)
{
	bool learning = true, guard = false;
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, data)
	{
		if ((mnl_attr_get_type(attr) == IFLA_BRPORT_LEARNING && !flag_take(attr, &learning)) ||
		        (mnl_attr_get_type(attr) == IFLA_BRPORT_GUARD && !flag_take(attr, &guard)))
			return false;
	}
	link->guarded = guard && !learning;
	return true;
}

static bool info_take(const struct nlattr *info, struct link *link)
{
	const struct nlattr *attr, *data = NULL, *port = NULL;

	mnl_attr_for_each_nested(attr, info)
	{
		switch (mnl_attr_get_type(attr)) {
		case IFLA_INFO_KIND:
			if (!text_take(attr, link->kind, sizeof(link->kind)))
				link->kind[0] = '?'; /* a longer word than any of ours */
			break;
		case IFLA_INFO_SLAVE_KIND:
			if (!text_take(attr, link->slave_kind, sizeof(link->slave_kind)))
				link->slave_kind[0] = '?';
			break;
		case IFLA_INFO_DATA:
			data = attr;
			break;
		case IFLA_INFO_SLAVE_DATA:
			port = attr;
			break;
		default:
			break;
		}
	}
	if (port && strcmp(link->slave_kind, "bridge") == 0 && !port_take(port, link))
		return false;
	if (data && strcmp(link->kind, "tun") == 0)
		return tun_take(data, link);
	if (data && strcmp(link->kind, "macvtap") == 0)
		return macvtap_take(data, link);
	return true;
}

int link_parse(const struct nlmsghdr *message, struct link *ret)
{
	const struct ifinfomsg *head = mnl_nlmsg_get_payload(message);
	struct link link = { 0 };
	const struct nlattr *attr;
	bool named = false;

	/* the kernel pads every attribute; libmnl would read up to the padding that a cut message lacks */
	if ((message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) ||
	        message->nlmsg_len % NLMSG_ALIGNTO != 0 || mnl_nlmsg_get_payload_len(message) < sizeof(*head))
		return -EBADMSG;
	link.ifindex = head->ifi_index;
	link.flags = head->ifi_flags;
	mnl_attr_for_each(attr, message, sizeof(*head))
	{
		uint32_t number = 0;
		bool ok = true;

		switch (mnl_attr_get_type(attr)) {
		case IFLA_IFNAME:
			named = ok = text_take(attr, link.name, sizeof(link.name)) && link.name[0];
			break;
		case IFLA_IFALIAS:
			ok = text_take(attr, link.alias, sizeof(link.alias));
			break;
		case IFLA_MASTER:
			ok = number_take(attr, &number);
			link.master = (int)number;
			break;
		case IFLA_LINK:
			ok = number_take(attr, &number);
			link.parent = (int)number;
			break;
		case IFLA_GROUP:
			ok = number_take(attr, &link.group);
			break;
		case IFLA_MTU:
			ok = number_take(attr, &link.mtu_bytes);
			break;
		case IFLA_CARRIER:
			ok = flag_take(attr, &link.carrier);
			break;
		case IFLA_ADDRESS:
			if (mnl_attr_get_payload_len(attr) == MAC_SIZE)
				memcpy(link.mac.bytes, mnl_attr_get_payload(attr), MAC_SIZE);
			break;
		case IFLA_LINKINFO:
			ok = info_take(attr, &link);
			break;
		default:
			break;
		}
		if (!ok)
			return -EBADMSG;
	}
	if (!named || link.ifindex <= 0)
		return -EBADMSG;
	*ret = link;
	return 0;
}

bool link_is_tap(const struct link *link)
{
	return strcmp(link->kind, "tun") == 0 && link->tun.tap;
}

bool link_is_macvtap(const struct link *link)
{
	return strcmp(link->kind, "macvtap") == 0;
}

bool link_in_use(const struct link *link)
{
	/* A TAP has a carrier exactly while a descriptor is attached; the queues are only told of
	 * multi-queue ones. */
	return link_is_tap(link) && (link->carrier || link->tun.queues || link->tun.disabled_queues);
}

static int on_link(const struct nlmsghdr *message, void *userdata)
{
	return link_parse(message, userdata);
}

static struct nlmsghdr *link_message(char *buffer, uint16_t type, int family, int ifindex)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct ifinfomsg *head;

	h->nlmsg_type = type;
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->ifi_family = (unsigned char)family;
	head->ifi_index = ifindex;
	return h;
}

int link_get(struct netlink *nl, const char *name, struct link *ret)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_GETLINK, AF_UNSPEC, 0);

	mnl_attr_put_strz(h, IFLA_IFNAME, name);
	return netlink_query(nl, h, on_link, ret);
}

int link_get_index(struct netlink *nl, int ifindex, struct link *ret)
{
	char buffer[256];

	return netlink_query(nl, link_message(buffer, RTM_GETLINK, AF_UNSPEC, ifindex), on_link, ret);
}

struct list_job {
	link_fn fn;
	void *userdata;
};

static int on_list_link(const struct nlmsghdr *message, void *userdata)
{
	const struct list_job *job = userdata;
	struct link link;
	int r = link_parse(message, &link);

	return r < 0 ? r : job->fn(&link, job->userdata);
}

int link_list(struct netlink *nl, link_fn fn, void (*on_restart)(void *userdata), void *userdata)
{
	struct list_job job = { .fn = fn, .userdata = userdata };
	int r = -EINTR;

	for (int i = 0; r == -EINTR && i < LIST_ATTEMPTS; i++) {
		char buffer[256];
		struct nlmsghdr *h = link_message(buffer, RTM_GETLINK, AF_UNSPEC, 0);

		if (i > 0)
			on_restart(userdata);
		h->nlmsg_flags |= NLM_F_DUMP;
		r = netlink_query(nl, h, on_list_link, &job);
	}
	return r == -EINTR ? -EAGAIN : r;
}

/* --- changing --- */

static void identity_put(struct nlmsghdr *h, const struct link_identity *identity)
{
	mnl_attr_put_u32(h, IFLA_GROUP, identity->group);
	if (identity->mtu_bytes)
		mnl_attr_put_u32(h, IFLA_MTU, identity->mtu_bytes);
	if (identity->mac)
		mnl_attr_put(h, IFLA_ADDRESS, MAC_SIZE, identity->mac->bytes);
}

/* The generation mode is all that can be said over rtnetlink of IPv6 on one interface, and it is enough:
 * without an address of its own there is nothing of the host to talk to. */
static void no_ipv6_address_put(struct nlmsghdr *h)
{
	struct nlattr *families = mnl_attr_nest_start(h, IFLA_AF_SPEC);
	struct nlattr *inet6 = mnl_attr_nest_start(h, AF_INET6);

	mnl_attr_put_u8(h, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(h, inet6);
	mnl_attr_nest_end(h, families);
}

int link_identify(struct netlink *nl, int ifindex, const struct link_identity *identity)
{
	char buffer[1024];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);

	/* The kernel's own answer to a longer one differs by version. */
	if (strlen(identity->alias) >= LINK_ALIAS_MAX)
		return -ERANGE;
	mnl_attr_put(h, IFLA_IFALIAS, strlen(identity->alias), identity->alias);
	identity_put(h, identity);
	no_ipv6_address_put(h);
	return netlink_request(nl, h);
}

int link_set_noqueue(struct netlink *nl, int ifindex)
{
	char buffer[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct tcmsg *head;

	h->nlmsg_type = RTM_NEWQDISC;
	h->nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->tcm_ifindex = ifindex;
	head->tcm_parent = TC_H_ROOT;
	mnl_attr_put_strz(h, TCA_KIND, "noqueue");
	return netlink_request(nl, h);
}

int link_set_master(struct netlink *nl, int ifindex, int master)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);

	mnl_attr_put_u32(h, IFLA_MASTER, (uint32_t)master);
	return netlink_request(nl, h);
}

int link_guard_port(struct netlink *nl, int ifindex)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_SETLINK, AF_BRIDGE, ifindex);
	struct nlattr *port = mnl_attr_nest_start(h, IFLA_PROTINFO);

	/* Frames to 01:80:c2:00:00:0e, and to …:00 with spanning tree on, are learnt from before any rule
	 * sees them. */
	mnl_attr_put_u8(h, IFLA_BRPORT_LEARNING, 0);
	mnl_attr_put_u8(h, IFLA_BRPORT_GUARD, 1);
	mnl_attr_nest_end(h, port);
	return netlink_request(nl, h);
}

int link_add_station(struct netlink *nl, int ifindex, const struct mac *mac)
{
	char buffer[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct ndmsg *head;

	h->nlmsg_type = RTM_NEWNEIGH;
	h->nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->ndm_family = AF_BRIDGE;
	head->ndm_ifindex = ifindex;
	head->ndm_state = NUD_NOARP;
	head->ndm_flags = NTF_MASTER;
	mnl_attr_put(h, NDA_LLADDR, MAC_SIZE, mac->bytes);
	return netlink_request(nl, h);
}

static int link_set_flags(struct netlink *nl, int ifindex, uint32_t flags, uint32_t change)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);
	struct ifinfomsg *head = mnl_nlmsg_get_payload(h);

	head->ifi_flags = flags;
	head->ifi_change = change;
	return netlink_request(nl, h);
}

int link_set_up(struct netlink *nl, int ifindex)
{
	return link_set_flags(nl, ifindex, IFF_UP | IFF_NOARP, IFF_UP | IFF_NOARP);
}

int link_set_down(struct netlink *nl, int ifindex)
{
	return link_set_flags(nl, ifindex, 0, IFF_UP);
}

int link_set_mac(struct netlink *nl, int ifindex, const struct mac *mac)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);

	mnl_attr_put(h, IFLA_ADDRESS, MAC_SIZE, mac->bytes);
	return netlink_request(nl, h);
}

int link_add_macvtap(
        struct netlink *nl, const char *name, int parent, uint32_t mode, const struct link_identity *identity)
{
	char buffer[1024];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, 0);
	struct nlattr *info, *data;

	h->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	mnl_attr_put_strz(h, IFLA_IFNAME, name);
	mnl_attr_put_u32(h, IFLA_LINK, (uint32_t)parent);
	identity_put(h, identity);
	info = mnl_attr_nest_start(h, IFLA_LINKINFO);
	mnl_attr_put_strz(h, IFLA_INFO_KIND, "macvtap");
	data = mnl_attr_nest_start(h, IFLA_INFO_DATA);
	mnl_attr_put_u32(h, IFLA_MACVLAN_MODE, mode);
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, info);
	return netlink_request(nl, h);
}

/* --- deleting --- */

void link_doomed_name(int ifindex, char ret[static IFNAME_MAX])
{
	(void)snprintf(ret, IFNAME_MAX, "bcx%08x", (unsigned)ifindex);
}

bool link_is_doomed(const struct link *link)
{
	char name[IFNAME_MAX];

	link_doomed_name(link->ifindex, name);
	return strcmp(name, link->name) == 0 && (link_is_tap(link) || link_is_macvtap(link)) &&
	        link->group >= LINK_GROUP_DOOMED && link->group < LINK_GROUP_DOOMED + LINK_GROUP_DOOMED_COUNT;
}

static int link_doom_once(struct netlink *nl, int ifindex, uint32_t group)
{
	char buffer[256], name[IFNAME_MAX];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);

	link_doomed_name(ifindex, name);
	mnl_attr_put_strz(h, IFLA_IFNAME, name);
	mnl_attr_put_u32(h, IFLA_GROUP, group);
	return netlink_request(nl, h);
}

int link_doom(struct netlink *nl, const struct link *link, uint32_t group)
{
	int r = link_doom_once(nl, link->ifindex, group);

	/* Before Linux 6.2 an interface that is up keeps its name. */
	if (r == -EBUSY) {
		r = link_set_down(nl, link->ifindex);
		if (r == 0)
			r = link_doom_once(nl, link->ifindex, group);
	}
	/* A guest's address is in use on the parent until it is down. */
	if (r == 0 && link_is_macvtap(link))
		r = link_set_down(nl, link->ifindex);
	return r;
}

int link_set_group(struct netlink *nl, int ifindex, uint32_t group)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_NEWLINK, AF_UNSPEC, ifindex);

	mnl_attr_put_u32(h, IFLA_GROUP, group);
	return netlink_request(nl, h);
}

int link_delete_group(struct netlink *nl, uint32_t group)
{
	char buffer[256];
	struct nlmsghdr *h = link_message(buffer, RTM_DELLINK, AF_UNSPEC, 0);

	mnl_attr_put_u32(h, IFLA_GROUP, group);
	return netlink_request(nl, h);
}

int link_delete(struct netlink *nl, int ifindex)
{
	char buffer[256];

	return netlink_request(nl, link_message(buffer, RTM_DELLINK, AF_UNSPEC, ifindex));
}
