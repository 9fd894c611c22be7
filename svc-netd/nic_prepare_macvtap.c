/* A macvtap on a parent, with the node that its VMM opens. Nothing filters it. */
#include "svc-netd/nic_prepare.h"

#include "svc-netd/macvtap.h"
#include "svc-netd/tap.h"

#include <errno.h>
#include <string.h>

static int parent_find(struct prepare *p, struct err *err)
{
	return prepare_find_master(p, false, err);
}

static int macvtap_make(struct prepare *p, struct err *err)
{
	struct link_identity identity = { .group = LINK_GROUP_OURS, .mac = &p->request->owner.mac };
	uint32_t mode = p->request->macvtap_mode;
	int r = link_add_macvtap(p->nl, p->ifname, p->master.ifindex, mode, &identity);

	/* In mode PASSTHRU a parent has room for one, and what waits for its deletion is one. */
	if (r < 0 && p->leftover_gone && reaper_run(p->nics->reaper, p->nl) > 0)
		r = link_add_macvtap(p->nl, p->ifname, p->master.ifindex, mode, &identity);
	if (r == 0)
		r = tap_ifindex(netlink_fd(p->nl), p->ifname, &p->ifindex);
	return r < 0 ? prepare_failed(p, r, "create it as a macvtap", err) : 0;
}

static void macvtap_unmake(struct prepare *p)
{
	(void)link_delete(p->nl, p->ifindex);
}

static int macvtap_identify(struct prepare *p, struct err *err)
{
	/* The address once more: in mode PASSTHRU it was born with its parent's. */
	struct link_identity identity = {
		.alias = p->alias,
		.group = LINK_GROUP_OURS,
		.mac = &p->request->owner.mac,
	};
	int r = link_identify(p->nl, p->ifindex, &identity);

	return r < 0 ? prepare_failed(p, r, "write its owner record", err) : 0;
}

static int macvtap_own(struct prepare *p, struct err *err)
{
	return macvtap_node_give(p->nics->options.sys_dir, p->nics->options.dev_dir, p->ifname, p->ifindex,
	        p->request->uid, p->request->gid, err);
}

static int macvtap_read_back(struct prepare *p, struct err *err)
{
	struct link link;
	int r = link_get_index(p->nl, p->ifindex, &link);

	if (r < 0)
		return prepare_failed(p, r, "look at it", err);
	if (strcmp(link.name, p->ifname) != 0 || strcmp(link.alias, p->alias) != 0 ||
	        !link_is_macvtap(&link) || link.parent != p->master.ifindex ||
	        !mac_equal(&link.mac, &p->request->owner.mac))
		return err_set(err, -EIO, "macvtap '%s' did not come out as it was asked for", p->ifname);
	p->nic->mtu_bytes = link.mtu_bytes;
	return 0;
}

static const struct step macvtap_steps[] = {
	{ "find-parent", parent_find, NULL, false },
	{ "check-name", prepare_check_name, NULL, false },
	{ "hold", prepare_hold, prepare_release, false },
	{ "leftover", prepare_put_leftover_aside, NULL, false },
	{ "create", macvtap_make, macvtap_unmake, false },
	{ "identity", macvtap_identify, NULL, false },
	{ "node", macvtap_own, NULL, false },
	{ "up", prepare_raise, NULL, false },
	{ "read-back", macvtap_read_back, NULL, false },
};

int nic_prepare_macvtap(
        struct nics *nics, const struct nic_request *request, struct nic **ret, struct err *err)
{
	return prepare_run(nics, request, NIC_MACVTAP, macvtap_steps, ARRAY_SIZE(macvtap_steps), ret, err);
}
