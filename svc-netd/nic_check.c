#include "svc-netd/nics_private.h"

#include "svc-netd/macvtap.h"

#include "lib/base/quote.h"
#include "lib/base/tap_name.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where it is, and whether that is the bridge of its name. */
static bool is_on_bridge(struct netlink *nl, const struct nic *nic, const struct link *link)
{
	struct link master;

	return link->master && link_get_index(nl, link->master, &master) == 0 &&
	        strcmp(master.name, nic->owner.master) == 0;
}

/* What is wrong with the interface of a NIC that is in the table; NULL when nothing is. */
static const char *link_fault(struct netlink *nl, const struct nic *nic, const struct link *link)
{
	if (nic->kind == NIC_TAP ? !link_is_tap(link) : !link_is_macvtap(link))
		return "it is of another kind";
	if (nic->kind == NIC_TAP && link->tun.multi_queue != (nic->owner.queues > 1))
		return "it has another number of queues";
	if (link->group != LINK_GROUP_OURS)
		return "it is not in netd's link group any more: without rules it would pass everything";
	if (nic->kind == NIC_TAP && !is_on_bridge(nl, nic, link))
		return "it is not on its bridge";
	if (nic->kind == NIC_TAP && !link->guarded)
		return "its port is not guarded: it teaches the bridge addresses, or takes part in spanning tree";
	if (!(link->flags & IFF_UP))
		return "it is down";
	return NULL;
}

static int rules_check(struct nics *nics, const struct nic *nic, struct err *err)
{
	struct element missing;
	bool held;
	int r;

	if (nic->kind == NIC_TAP && nic->elements.n == 0)
		return err_set(err, -EBUSY, "'%s' has no rules, so it passes nothing: prepare it again",
		        nic->ifname);
	r = rules_hold(nics->rules, &nic->elements, &held, &missing);
	if (r < 0)
		return err_set(err, r, "cannot read the rules of '%s': %s", nic->ifname, strerror(-r));
	if (!held)
		return err_set(err, -EBUSY, "'%s' misses an element of set '%s'", nic->ifname,
		        set_info(missing.set)->name);
	return 0;
}

int nic_check(struct nics *nics, const char *instance_id, unsigned index, struct nic **ret, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	CLEANUP(nic) struct nic *nic = NULL;
	char ifname[IFNAME_MAX];
	const char *fault;
	struct owner owner;
	struct link link;
	int r = tap_name(instance_id, index, ifname);

	if (r < 0)
		return err_set(err, -EINVAL, "instance '%s', NIC %u: no interface can have that name",
		        QUOTED(instance_id), index);
	r = nics_netlink(nics, &nl, err);
	if (r < 0)
		return r;
	nic = nic_table_get(nics->table, ifname);
	r = link_get(nl, ifname, &link);
	if (r == -ENODEV && nic)
		return err_set(err, -EBUSY, "interface '%s' does not exist, its rules do", ifname);
	if (r == -ENODEV)
		return err_set(err, -ENOENT, "NIC %u of instance %s is not prepared", index, instance_id);
	if (r < 0)
		return err_set(err, r, "cannot look at interface '%s': %s", ifname, strerror(-r));
	fault = link_foreign(&link, instance_id, index, &owner);
	if (!fault && !nic)
		fault = "netd holds nothing for it";
	if (!fault)
		fault = link_fault(nl, nic, &link);
	if (fault)
		return err_set(err, -EBUSY, "interface '%s': %s", ifname, fault);
	r = rules_check(nics, nic, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(nic);
	return 0;
}

/* A port that led to an address which the NIC has no more would lead to another's guest one day. It goes on to the
 * first of its family; without any it is released. */
static void port_keep(const struct nic *nic, const struct nic_filter *filter, const struct element *element,
        struct elements *elements)
{
	const struct ip *first = NULL;
	struct publication p;
	bool kept = false;

	element_to_publication(element, &p);
	for (size_t i = 0; i < filter->n_addresses; i++) {
		const struct ip *ip = &filter->addresses[i];

		if (ip->family != p.guest.family)
			continue;
		first = first ?: ip;
		kept = kept || memcmp(ip->bytes, p.guest.bytes, sizeof(ip->bytes)) == 0;
	}
	if (!first)
		return;
	if (!kept)
		memcpy(p.guest.bytes, first->bytes, sizeof(p.guest.bytes));
	struct element port = element_publication(&p);
	struct element hairpin = element_hairpin(&p, nic->owner.master);

	elements_add(elements, &port);
	elements_add(elements, &hairpin);
}

/* The new filter, and the ports. */
static int elements_plan(
        const struct nic *nic, const struct nic_filter *filter, struct elements *ret, struct err *err)
{
	struct elements elements = { 0 };
	int r = nic_filter_elements(nic->ifname, &nic->owner.mac, filter, &elements, err);

	for (size_t i = 0; r == 0 && i < nic->elements.n; i++) {
		const struct element *e = &nic->elements.items[i];

		if (e->set >= SET_PUBLISHED4 && e->set <= SET_PUBLISHED6_ANY)
			port_keep(nic, filter, e, &elements);
	}
	if (r == 0)
		r = elements_finish(&elements);
	if (r < 0) {
		elements_done(&elements);
		return r;
	}
	*ret = elements;
	return 0;
}

int nic_set_filter(struct nics *nics, const char *instance_id, unsigned index,
        const struct nic_filter *filter, struct nic **ret, struct err *err)
{
	CLEANUP(nic) struct nic *nic = NULL;
	struct nic *entry = NULL, *old = NULL;
	struct elements elements;
	char ifname[IFNAME_MAX];
	int r = tap_name(instance_id, index, ifname);

	if (r < 0)
		return err_set(err, -EINVAL, "instance '%s', NIC %u: no interface can have that name",
		        QUOTED(instance_id), index);
	nic = nic_table_get(nics->table, ifname);
	if (!nic || nic->state != NIC_READY)
		return err_set(err, -ENOENT, "NIC %u of instance %s is not prepared", index, instance_id);
	if (nic->kind != NIC_TAP || !nic->owner.filtered)
		return err_set(
		        err, -EBUSY, "'%s' was prepared without a filter: prepare it again with one", ifname);
	r = elements_plan(nic, filter, &elements, err);
	if (r < 0)
		return r;
	r = nics_step(nics, "rules", ifname, err);
	if (r == 0)
		r = rules_change(nics->rules, ifname, &nic->elements, &elements, err);
	if (r < 0) {
		elements_done(&elements);
		return r;
	}
	elements_done(&nic->elements);
	nic->elements = elements;
	r = nic_copy(nic, &entry);
	if (r == 0)
		r = nic_table_put(nics->table, entry, &old, err);
	nic_free(old);
	if (r < 0)
		return r;
	nics_record(nics, nic);
	*ret = TAKE_PTR(nic);
	return 0;
}

/* --- for people --- */

struct listing {
	struct nics *nics;
	struct nic_view *items; /* owned */
	size_t n, capacity, n_links;
};

static struct nic_view *listing_add(struct listing *listing, const char *ifname)
{
	struct nic_view *view;

	if (listing->n == listing->capacity) {
		size_t capacity = listing->capacity ? listing->capacity * 2 : 16;
		struct nic_view *items = reallocarray(listing->items, capacity, sizeof(*items));

		if (!items)
			return NULL;
		listing->items = items;
		listing->capacity = capacity;
	}
	view = &listing->items[listing->n++];
	*view = (struct nic_view){ 0 };
	(void)snprintf(view->ifname, sizeof(view->ifname), "%s", ifname);
	return view;
}

static int list_link(const struct link *link, void *userdata)
{
	struct listing *listing = userdata;
	struct nic_view *view;

	if (!tap_name_parse(link->name, NULL, NULL) || (!link_is_tap(link) && !link_is_macvtap(link)))
		return 0;
	view = listing_add(listing, link->name);
	if (!view)
		return -ENOMEM;
	view->exists = true;
	view->kind = link_is_tap(link) ? NIC_TAP : NIC_MACVTAP;
	view->disbelief = owner_disbelief(link->name, link->alias, &view->owner);
	view->multi_queue = link->tun.multi_queue;
	view->up = link->flags & IFF_UP;
	view->in_use = link_in_use(link);
	view->ifindex = link->ifindex;
	view->on = link->master ? link->master : link->parent;
	listing->n_links = listing->n;
	return 0;
}

static void list_restart(void *userdata)
{
	((struct listing *)userdata)->n = 0;
}

/* Most are on one bridge: it is asked for once. */
static void masters_name(struct netlink *nl, struct listing *listing)
{
	struct link link = { 0 };

	for (size_t i = 0; i < listing->n; i++) {
		int on = listing->items[i].on;

		if (on && on != link.ifindex && link_get_index(nl, on, &link) < 0)
			link = (struct link){ 0 };
		if (on && on == link.ifindex)
			memcpy(listing->items[i].master, link.name, sizeof(link.name));
	}
}

static int view_compare(const void *a, const void *b)
{
	return strcmp(((const struct nic_view *)a)->ifname, ((const struct nic_view *)b)->ifname);
}

static int list_elements(const char *ifname, const struct elements *elements, void *userdata)
{
	struct listing *listing = userdata;
	struct nic_view key = { 0 }, *view;

	(void)snprintf(key.ifname, sizeof(key.ifname), "%s", ifname);
	/* Only what links added is sorted; names of elements come once each. */
	view = listing->n_links
	        ? bsearch(&key, listing->items, listing->n_links, sizeof(*listing->items), view_compare)
	        : NULL;
	if (!view)
		view = listing_add(listing, ifname);
	return view ? elements_copy(elements, &view->elements) : -ENOMEM;
}

int nics_list(struct nics *nics, struct nic_view **ret, size_t *ret_n, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	struct listing listing = { .nics = nics };
	int r = nics_netlink(nics, &nl, err);

	if (r < 0)
		return r;
	r = link_list(nl, list_link, list_restart, &listing);
	if (r == 0)
		masters_name(nl, &listing);
	if (r == 0 && listing.n)
		qsort(listing.items, listing.n, sizeof(*listing.items), view_compare);
	if (r == 0)
		r = rules_list(nics->rules, list_elements, &listing);
	if (r < 0) {
		nic_views_free(listing.items, listing.n);
		return err_set(err, r, "cannot list interfaces and rules: %s", strerror(-r));
	}
	*ret = listing.items;
	*ret_n = listing.n;
	return 0;
}

void nic_views_free(struct nic_view *views, size_t n)
{
	for (size_t i = 0; i < n; i++)
		elements_done(&views[i].elements);
	free(views);
}

/* --- for the guard --- */

static enum nic_mend nic_lose(struct nics *nics, struct nic *nic, struct err *err)
{
	static const struct elements none;
	struct nic *entry = nic_table_take(nics->table, nic->ifname);

	nic_free(entry);
	err_set(err, -ENODEV,
	        "interface '%s' was deleted by somebody else; its rules and ports were released",
	        nic->ifname);
	if (rules_change(nics->rules, nic->ifname, &nic->elements, &none, NULL) == 0)
		nics_forget(nics, nic->ifname);
	return NIC_LOST;
}

/* Out of memory the next event asks again. */
static void nic_note_master(struct nics *nics, struct nic *nic, int master)
{
	struct nic *entry = NULL, *old = NULL;

	nic->master = master;
	if (nic_copy(nic, &entry) == 0)
		(void)nic_table_adopt(nics->table, entry, &old);
	nic_free(old);
}

/* Back on the bridge of its name, which may be another one than it was made on. That it is not possible is told
 * once. */
static enum nic_mend nic_rejoin(struct nics *nics, struct netlink *nl, struct nic *nic, struct err *err)
{
	bool was_told = nic->master == 0;
	struct link bridge = { 0 };
	const char *why;
	int r = link_get(nl, nic->owner.master, &bridge);

	if (r < 0 || strcmp(bridge.kind, "bridge") != 0) {
		nic_note_master(nics, nic, 0);
		r = r < 0 ? r : -EINVAL;
		why = r == -ENODEV ? "there is none of that name" : "what has that name is none";
	} else {
		/* Should somebody disturb this, it is not where it was last seen, and his event is looked into. */
		r = link_join_bridge(nl, nic->ifindex, bridge.ifindex, &nic->owner.mac);
		why = strerror(-r);
	}
	if (r < 0) {
		err_set(err, r, "'%s' is off bridge '%s' and cannot be put back: %s", nic->ifname,
		        nic->owner.master, why);
		return was_told ? NIC_UNKNOWN : NIC_NOT_MENDED;
	}
	nic_note_master(nics, nic, bridge.ifindex);
	err_set(err, -EBUSY, "'%s' was taken off bridge '%s' by somebody else; it is back", nic->ifname,
	        nic->owner.master);
	return NIC_MENDED;
}

/* On the bridge of its name. Whoever leaves a bridge and comes back has lost what guards it and its station. */
static enum nic_mend nic_settle(
        struct nics *nics, struct netlink *nl, struct nic *nic, const struct link *link, struct err *err)
{
	bool moved = nic->master != link->master;

	if (!link->guarded)
		return nic_rejoin(nics, nl, nic, err);
	if (!moved)
		return NIC_WHOLE;
	nic_note_master(nics, nic, link->master);
	err_set(err, -EBUSY, "'%s' is on bridge '%s' again", nic->ifname, nic->owner.master);
	return NIC_MENDED;
}

enum nic_mend nic_mend(struct nics *nics, const char *ifname, struct nic **ret, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	CLEANUP(nic) struct nic *nic = nic_table_get(nics->table, ifname);
	enum nic_mend result = NIC_WHOLE;
	struct link link;
	int r;

	if (!nic || nic->state != NIC_READY || nics_netlink(nics, &nl, NULL) < 0)
		return NIC_UNKNOWN;
	r = link_get_index(nl, nic->ifindex, &link);
	if (r == -ENODEV) {
		result = nic_lose(nics, nic, err);
	} else if (r == 0 && strcmp(link.name, ifname) != 0) {
		err_set(err, -EBUSY,
		        "interface '%s' was renamed to '%s' by somebody else: it passes nothing now", ifname,
		        link.name);
		result = NIC_NOT_MENDED;
	} else if (r == 0 && nic->kind == NIC_TAP) {
		result = is_on_bridge(nl, nic, &link) ? nic_settle(nics, nl, nic, &link, err)
		                                      : nic_rejoin(nics, nl, nic, err);
	}
	*ret = TAKE_PTR(nic);
	return result;
}
