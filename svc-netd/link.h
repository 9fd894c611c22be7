/* Interfaces over rtnetlink: what one is, and the changes that make a NIC of it. Each change is one message
 * and returns 0 or the kernel's -errno; netlink_words() has what it said beside that. */
#pragma once

#include "lib/base/ids.h"
#include "lib/base/mac.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct netlink;

enum {
	LINK_ALIAS_MAX = 256, /* bytes with the NUL */
	LINK_KIND_MAX = 16,
	BRIDGE_PORTS_MAX = 1023,
};

/* Link groups. Static rules drop what such an interface sends or is sent and no element allows, so that an
 * interface of ours passes nothing from the moment it is marked until its rules name it, and again once
 * they do not. LINK_GROUP_DOOMED + n are interfaces waiting to be deleted together. */
enum {
	LINK_GROUP_OURS = 0x62630000, /* "bc", and 16 bits of which group */
	LINK_GROUP_DOOMED = 0x62630001,
	LINK_GROUP_DOOMED_COUNT = 0xfffe,
};

struct link {
	int ifindex;
	char name[IFNAME_MAX];
	char kind[LINK_KIND_MAX]; /* "tun", "macvtap", "bridge", …; "" for hardware */
	char alias[LINK_ALIAS_MAX];
	int master; /* ifindex; 0 for none */
	int parent; /* ifindex of what a macvtap is on; 0 for none */
	uint32_t group;
	uint32_t mtu_bytes;
	uint32_t flags; /* IFF_* */
	struct mac mac;
	bool carrier; /* of a TAP: somebody has it open */
	struct {
		bool tap, persist, multi_queue, vnet_hdr;
		bool has_owner, has_group;
		uint32_t queues, disabled_queues; /* open now; 0 unless multi_queue */
		uid_t owner;
		gid_t group;
	} tun;                 /* kind "tun" only */
	uint32_t macvlan_mode; /* MACVLAN_MODE_*; kind "macvtap" only */
	char slave_kind[LINK_KIND_MAX];
	bool guarded; /* a bridge's port as link_guard_port() leaves it */
};

/* An RTM_NEWLINK or RTM_DELLINK message. -EBADMSG when it is not a whole one. */
int link_parse(const struct nlmsghdr *message, struct link *ret);

/* True for the kinds netd makes: a TAP or a macvtap. */
bool link_is_tap(const struct link *link);
bool link_is_macvtap(const struct link *link);
bool link_in_use(const struct link *link); /* somebody has the TAP open */

int link_get(struct netlink *nl, const char *name, struct link *ret); /* -ENODEV */
int link_get_index(struct netlink *nl, int ifindex, struct link *ret);
/* Each link goes to fn. Asks again when the list was disturbed: on_restart tells fn's owner to forget. */
typedef int (*link_fn)(const struct link *link, void *userdata);
int link_list(struct netlink *nl, link_fn fn, void (*on_restart)(void *userdata), void *userdata);

struct link_identity {
	const char *alias; /* weak; -ERANGE above 255 bytes */
	uint32_t group;
	uint32_t mtu_bytes;    /* 0: leave it */
	const struct mac *mac; /* weak; NULL: leave it */
};
/* Alias, group, MTU and address of a TAP that was just made, and no IPv6 address by itself, ever. */
int link_identify(struct netlink *nl, int ifindex, const struct link_identity *identity);
/* One qdisc that queues nothing, in place of one for each of 256 queues. Before `up`. */
int link_set_noqueue(struct netlink *nl, int ifindex);
int link_set_master(
        struct netlink *nl, int ifindex, int master); /* -EXFULL: the bridge has BRIDGE_PORTS_MAX ports */
/* What a guest may do to its bridge: nothing. It teaches it no addresses and takes no part in its spanning
 * tree. */
int link_guard_port(struct netlink *nl, int ifindex);
/* The bridge's only entry for that address leads to the port. */
int link_add_station(struct netlink *nl, int ifindex, const struct mac *mac);
int link_set_up(struct netlink *nl, int ifindex); /* and without ARP: the host has no business there */
int link_set_down(struct netlink *nl, int ifindex);
int link_set_mac(struct netlink *nl, int ifindex, const struct mac *mac);
int link_add_macvtap(struct netlink *nl, const char *name, int parent, uint32_t mode,
        const struct link_identity *identity);

/* Takes the interface out of everybody's way at once: another name, another group. */
int link_doom(struct netlink *nl, const struct link *link, uint32_t group);
/* The name an interface waiting for deletion has. True when link has it, and a group to match. */
void link_doomed_name(int ifindex, char ret[static IFNAME_MAX]);
bool link_is_doomed(const struct link *link);
int link_set_group(struct netlink *nl, int ifindex, uint32_t group);
/* Deletes every interface of the group, waiting once for all of them. */
int link_delete_group(struct netlink *nl, uint32_t group);
int link_delete(struct netlink *nl, int ifindex);
