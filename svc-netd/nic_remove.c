#include "svc-netd/nics_private.h"

#include "svc-netd/tap.h"

#include "lib/base/quote.h"
#include "lib/base/tap_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int removal_name(struct nic_removal *removal, const struct link *link)
{
	struct nic_removed *list =
	        reallocarray(removal->interfaces, removal->n_interfaces + 1, sizeof(*removal->interfaces));
	struct nic_removed removed = { 0 };
	struct owner owner;

	if (!list)
		return -ENOMEM;
	removal->interfaces = list;
	(void)snprintf(removed.ifname, sizeof(removed.ifname), "%s", link->name);
	if (!owner_disbelief(link->name, link->alias, &owner))
		(void)snprintf(removed.instance_id, sizeof(removed.instance_id), "%s", owner.instance_id);
	list[removal->n_interfaces++] = removed;
	return 0;
}

static void removal_count(struct nic_removal *removal, const struct elements *elements)
{
	size_t n_ports = 0;

	for (enum set_id set = SET_PUBLISHED4; set <= SET_PUBLISHED6_ANY; set++)
		n_ports += elements_count(elements, set);
	removal->n_ports += (uint32_t)n_ports;
	removal->n_rules += (uint32_t)elements->n;
}

/* The interface first: from then on it passes nothing, and rules without an interface are found again by
 * their name. */
static int link_remove(struct nics *nics, struct netlink *nl, const struct link *link,
        struct nic_removal *removal, struct err *err)
{
	int r = nics_step(nics, "doom", link->name, err);

	if (r == 0)
		r = reaper_doom(nics->reaper, nl, link);
	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return err_set(
		        err, r, "cannot remove '%s': %s%s", link->name, strerror(-r), netlink_words(nl));
	return removal_name(removal, link);
}

static int rules_remove(
        struct nics *nics, const char *ifname, struct nic *nic, struct nic_removal *removal, struct err *err)
{
	static const struct elements none;
	int r = nics_step(nics, "unrule", ifname, err);

	if (r == 0)
		r = rules_change(nics->rules, ifname, &nic->elements, &none, err);
	if (r == 0)
		removal_count(removal, &nic->elements);
	return r;
}

/* link is NULL when there is none. */
static int name_remove(struct nics *nics, struct netlink *nl, const char *ifname, const struct link *link,
        struct nic_removal *removal, struct err *err)
{
	CLEANUP(nic) struct nic *nic = NULL;
	struct nic *ignored = NULL;
	int r = 0;

	/* Out of the table before it goes: its going is then no loss to anybody. */
	nic = nic_table_take(nics->table, ifname);
	if (link)
		r = link_remove(nics, nl, link, removal, err);
	if (r == 0 && nic && nic->elements.n)
		r = rules_remove(nics, ifname, nic, removal, err);
	if (r == 0) {
		nics_forget(nics, ifname);
		return 0;
	}
	if (nic) {
		(void)nic_table_adopt(nics->table, TAKE_PTR(nic), &ignored);
		nic_free(ignored);
	}
	return r;
}

static int named_remove(struct nics *nics, struct netlink *nl, const char *ifname, const char *instance_id,
        unsigned index, struct nic_removal *removal, struct err *err)
{
	struct owner owner;
	struct link link;
	const char *foreign;
	int r = link_get(nl, ifname, &link);

	if (r == -ENODEV)
		return name_remove(nics, nl, ifname, NULL, removal, err);
	if (r < 0)
		return err_set(err, r, "cannot look at interface '%s': %s", ifname, strerror(-r));
	foreign = link_foreign(&link, instance_id, index, &owner);
	if (!foreign)
		return name_remove(nics, nl, ifname, &link, removal, err);
	return err_set(err, -EBUSY,
	        "interface '%s' was left alone, for it was not made by netd for NIC %u of instance %s: %s; if it "
	        "has to go, remove it by its name",
	        ifname, index, instance_id, foreign);
}

static int name_derive(const char *instance_id, unsigned index, char ret[static IFNAME_MAX], struct err *err)
{
	if (tap_name(instance_id, index, ret) == 0)
		return 0;
	return err_set(err, -EINVAL, "instance '%s', NIC %u: no interface can have that name",
	        QUOTED(instance_id), index);
}

int nic_remove(
        struct nics *nics, const char *instance_id, unsigned index, struct nic_removal *ret, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	struct nic_removal removal = { 0 };
	char ifname[IFNAME_MAX];
	int r = name_derive(instance_id, index, ifname, err);

	if (r == 0)
		r = nics_netlink(nics, &nl, err);
	if (r == 0)
		r = named_remove(nics, nl, ifname, instance_id, index, &removal, err);
	*ret = removal;
	return r;
}

/* Nearly all of an instance's hundred names are nobody's: each is asked for by the cheapest question there
 * is, and only their common part, the hash, is derived. */
static int sweep(struct nics *nics, struct netlink *nl, const char *instance_id, struct nic_removal *removal,
        struct err *err)
{
	char first[IFNAME_MAX], hash[TAP_HASH_MAX];
	int result = name_derive(instance_id, 0, first, err);

	if (result < 0 || !tap_name_parse(first, hash, NULL))
		return result;
	for (unsigned index = 0; index <= TAP_INDEX_MAX; index++) {
		char ifname[IFNAME_MAX];
		int ifindex, r;

		(void)snprintf(ifname, sizeof(ifname), "bc%sn%u", hash, index);
		if (tap_ifindex(netlink_fd(nl), ifname, &ifindex) == -ENODEV)
			r = name_remove(nics, nl, ifname, NULL, removal, err);
		else
			r = named_remove(nics, nl, ifname, instance_id, index, removal, err);
		result = result ?: r;
	}
	return result;
}

int nic_remove_instance(struct nics *nics, const char *instance_id, struct nic_removal *ret, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	struct nic_removal removal = { 0 };
	int r = nics_netlink(nics, &nl, err);

	if (r == 0)
		r = sweep(nics, nl, instance_id, &removal, err);
	if (r < 0 && removal.n_interfaces)
		(void)err_wrap(err, "%zu %s removed, but not all", removal.n_interfaces,
		        removal.n_interfaces == 1 ? "interface was" : "interfaces were");
	*ret = removal;
	return r;
}

int nic_remove_interface(struct nics *nics, const char *ifname, struct nic_removal *ret, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	struct nic_removal removal = { 0 };
	struct link link;
	int r;

	*ret = removal;
	if (!tap_name_parse(ifname, NULL, NULL))
		return err_set(err, -EINVAL,
		        "'%s' is no name that netd gives: \"bc\", 10 hex digits, \"n\" and a number up to %d",
		        QUOTED(ifname), TAP_INDEX_MAX);
	r = nics_netlink(nics, &nl, err);
	if (r < 0)
		return r;
	r = link_get(nl, ifname, &link);
	if (r < 0 && r != -ENODEV)
		return err_set(err, r, "cannot look at interface '%s': %s", ifname, strerror(-r));
	if (r == 0 && !link_is_tap(&link) && !link_is_macvtap(&link))
		return err_set(err, -EBUSY,
		        "interface '%s' is of kind '%s', which netd does not make; it was left alone", ifname,
		        link.kind[0] ? link.kind : "hardware");
	r = name_remove(nics, nl, ifname, r == 0 ? &link : NULL, &removal, err);
	*ret = removal;
	return r;
}
