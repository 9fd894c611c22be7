/* A TAP on a bridge, behind a filter. */
#include "svc-netd/nic_prepare.h"

#include "svc-netd/bridge_pin.h"
#include "svc-netd/listener.h"
#include "svc-netd/tap.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

static int bridge_find(struct prepare *p, struct err *err)
{
	return prepare_find_master(p, true, err);
}

static bool was_held(const struct prepare *p, const struct publication *port)
{
	struct element element = element_publication(port);

	for (size_t i = 0; p->old && i < p->old->elements.n; i++) {
		if (element_compare(&element, &p->old->elements.items[i]) == 0)
			return true;
	}
	return false;
}

/* Ports that this NIC did not have already are taken from nobody. Where the kernel never tells who listens, Hello says
 * so; where it does not tell now, nobody knows, and nothing is published. */
static int ports_check(struct prepare *p, struct err *err)
{
	CLEANUP_FREE struct publication *fresh = NULL;
	char port[PORT_TEXT_MAX], at[LISTENER_TEXT_MAX];
	struct listener listener;
	size_t n = 0, i;
	int r;

	if (p->request->n_ports == 0)
		return 0;
	fresh = calloc(p->request->n_ports, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	for (i = 0; i < p->request->n_ports; i++) {
		if (!was_held(p, &p->request->ports[i]))
			fresh[n++] = p->request->ports[i];
	}
	r = n ? listener_find(fresh, n, &i, &listener) : 0;
	if (r == 0 || r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(err, r,
		        "cannot tell whether a process of this host listens at a port to publish: %s",
		        strerror(-r));
	publication_text(&fresh[i], port);
	listener_text(&listener, at);
	return err_set(err, -EEXIST,
	        "port %s is held by a process of this host, of uid %u, that listens at %s and would hear of nobody "
	        "any more: stop it, or publish another port",
	        port, listener.uid, at);
}

static int rules_enter(struct prepare *p, struct err *err)
{
	static const struct elements none;

	return rules_change(
	        p->nics->rules, p->ifname, p->old ? &p->old->elements : &none, &p->nic->elements, err);
}

static void rules_withdraw(struct prepare *p)
{
	static const struct elements none;
	bool back = p->old && !p->leftover_gone;

	(void)rules_change(
	        p->nics->rules, p->ifname, &p->nic->elements, back ? &p->old->elements : &none, NULL);
}

static int record_enter(struct prepare *p, struct err *err)
{
	(void)err;
	nics_record(p->nics, p->nic);
	return 0;
}

static void record_leave(struct prepare *p)
{
	nics_forget(p->nics, p->ifname);
	if (p->old && !p->leftover_gone)
		nics_record(p->nics, p->old);
}

static int tap_make(struct prepare *p, struct err *err)
{
	int r = tap_create(p->nics->options.tun_path, p->ifname, p->request->owner.queues > 1, &p->fd, err);

	if (r == 0)
		r = tap_ifindex(netlink_fd(p->nl), p->ifname, &p->ifindex);
	return r;
}

static void tap_unmake(struct prepare *p)
{
	if (p->fd >= 0)
		(void)close(p->fd);
	p->fd = -EBADF;
}

static int tap_own(struct prepare *p, struct err *err)
{
	int r = tap_set_owner(p->fd, p->request->uid, p->request->gid);

	return r < 0 ? prepare_failed(p, r, "give it to the VMM's user", err) : 0;
}

static int tap_identify(struct prepare *p, struct err *err)
{
	struct link_identity identity = {
		.alias = p->alias,
		.group = LINK_GROUP_OURS,
		.mtu_bytes = p->master.mtu_bytes,
		.mac = &p->mac,
	};
	int r = link_identify(p->nl, p->ifindex, &identity);

	return r < 0 ? prepare_failed(p, r, "write its owner record", err) : 0;
}

static int tap_unqueue(struct prepare *p, struct err *err)
{
	int r = p->request->owner.queues > 1 ? link_set_noqueue(p->nl, p->ifindex) : 0;

	return r < 0 ? prepare_failed(p, r, "set its queueing", err) : 0;
}

static int bridge_keep_address(struct prepare *p, struct err *err)
{
	return bridge_pin(p->nics, p->nl, &p->master, err);
}

static int bridge_join(struct prepare *p, struct err *err)
{
	int r = link_set_master(p->nl, p->ifindex, p->master.ifindex);

	/* What waits for its deletion still has a port. */
	if (r == -EXFULL && reaper_run(p->nics->reaper, p->nl) > 0)
		r = link_set_master(p->nl, p->ifindex, p->master.ifindex);
	if (r == -EXFULL)
		return err_set(err, -ENOSPC, "bridge '%s' has %d ports, which is all a Linux bridge can have",
		        p->master.name, BRIDGE_PORTS_MAX);
	return r < 0 ? prepare_failed(p, r, "put it on its bridge", err) : 0;
}

static int port_guard(struct prepare *p, struct err *err)
{
	int r = link_guard_port(p->nl, p->ifindex);

	return r < 0 ? prepare_failed(p, r, "guard the bridge from it", err) : 0;
}

static int station_add(struct prepare *p, struct err *err)
{
	int r = link_add_station(p->nl, p->ifindex, &p->request->owner.mac);

	return r < 0 ? prepare_failed(p, r, "make the guest's address known behind it", err) : 0;
}

/* What the kernel made of it, not what was asked. */
static int tap_read_back(struct prepare *p, struct err *err)
{
	struct link link;
	const char *wrong = NULL;
	int r = link_get_index(p->nl, p->ifindex, &link);

	if (r < 0)
		return prepare_failed(p, r, "look at it", err);
	if (strcmp(link.name, p->ifname) != 0)
		wrong = "name";
	else if (strcmp(link.alias, p->alias) != 0)
		wrong = "owner record";
	else if (!link_is_tap(&link) || link.tun.multi_queue != (p->request->owner.queues > 1))
		wrong = "kind";
	else if (link.tun.owner != p->request->uid || link.tun.group != p->request->gid)
		wrong = "owner";
	else if (link.master != p->master.ifindex)
		wrong = "bridge";
	else if (!(link.flags & IFF_UP))
		wrong = "state";
	if (wrong)
		return err_set(err, -EIO, "interface '%s' did not come out with the %s it was given",
		        p->ifname, wrong);
	p->nic->mtu_bytes = link.mtu_bytes;
	return 0;
}

static int tap_keep(struct prepare *p, struct err *err)
{
	int r = tap_persist(p->fd);

	if (r < 0)
		return prepare_failed(p, r, "keep it", err);
	/* A queue that stays open is one the kernel gives frames to, and nobody reads. */
	tap_unmake(p);
	return 0;
}

/* Rules before the interface they are for; the interface lasting only when it is whole. */
static const struct step bridge_steps[] = {
	{ "find-bridge", bridge_find, NULL, false },
	{ "check-name", prepare_check_name, NULL, false },
	{ "hold", prepare_hold, prepare_release, false },
	{ "ports", ports_check, NULL, false },
	{ "rules", rules_enter, rules_withdraw, false },
	{ "record", record_enter, record_leave, false },
	{ "leftover", prepare_put_leftover_aside, NULL, true },
	{ "create", tap_make, tap_unmake, true },
	{ "owner", tap_own, NULL, true },
	{ "identity", tap_identify, NULL, true },
	{ "queueing", tap_unqueue, NULL, true },
	{ "pin-bridge", bridge_keep_address, NULL, true },
	{ "master", bridge_join, NULL, true },
	{ "guard", port_guard, NULL, true },
	{ "station", station_add, NULL, true },
	{ "up", prepare_raise, NULL, true },
	{ "read-back", tap_read_back, NULL, false },
	{ "persist", tap_keep, NULL, true },
};

int nic_prepare_bridge(
        struct nics *nics, const struct nic_request *request, struct nic **ret, struct err *err)
{
	return prepare_run(nics, request, NIC_TAP, bridge_steps, ARRAY_SIZE(bridge_steps), ret, err);
}
