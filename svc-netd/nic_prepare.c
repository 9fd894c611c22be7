#include "svc-netd/nic_prepare.h"

#include "lib/base/quote.h"
#include "lib/base/tap_name.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

int prepare_failed(struct prepare *p, int r, const char *what, struct err *err)
{
	return err_set(err, r, "interface '%s': cannot %s: %s%s", p->ifname, what, strerror(-r),
	        netlink_words(p->nl));
}

/* --- steps --- */

int prepare_find_master(struct prepare *p, bool bridge, struct err *err)
{
	const char *name = p->request->owner.master;
	int r = link_get(p->nl, name, &p->master);

	if (r == -ENODEV)
		return err_set(err, -ENOENT, "%s '%s' does not exist on this host",
		        bridge ? "bridge" : "interface", name);
	if (r < 0)
		return err_set(err, r, "cannot look at interface '%s': %s", name, strerror(-r));
	if (bridge && strcmp(p->master.kind, "bridge") != 0)
		return err_set(err, -EINVAL, "interface '%s' is no bridge but %s%s", name,
		        p->master.kind[0] ? "of kind " : "hardware", p->master.kind);
	return 0;
}

/* One that a VMM has open and that is what is asked for is no leftover: to ask twice must not cut a running guest
 * off. */
int prepare_check_name(struct prepare *p, struct err *err)
{
	const struct owner *owner = &p->request->owner;
	struct owner believed;
	const char *foreign;
	int r = link_get(p->nl, p->ifname, &p->leftover);

	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return err_set(err, r, "cannot look at interface '%s': %s", p->ifname, strerror(-r));
	foreign = link_foreign(&p->leftover, owner->instance_id, owner->index, &believed);
	if (foreign)
		return err_set(err, -EEXIST,
		        "interface '%s' exists and was not made by netd for NIC %u of instance %s: %s; it was left "
		        "alone",
		        p->ifname, owner->index, owner->instance_id, foreign);
	p->has_leftover = true;
	p->keep = link_in_use(&p->leftover) && strcmp(p->leftover.alias, p->alias) == 0 &&
	        p->leftover.master == p->master.ifindex && p->leftover.tun.owner == p->request->uid &&
	        p->leftover.tun.group == p->request->gid && (p->leftover.flags & IFF_UP);
	if (p->keep)
		p->ifindex = p->leftover.ifindex;
	return 0;
}

int prepare_hold(struct prepare *p, struct err *err)
{
	struct nic *entry;
	int r = nic_copy(p->nic, &entry);

	return r < 0 ? r : nic_table_put(p->nics->table, entry, &p->old, err);
}

void prepare_release(struct prepare *p)
{
	nic_free(nic_table_take(p->nics->table, p->ifname));
	if (p->old && !p->leftover_gone) {
		struct nic *ignored = NULL;

		(void)nic_table_adopt(p->nics->table, TAKE_PTR(p->old), &ignored);
		nic_free(ignored);
	}
}

int prepare_put_leftover_aside(struct prepare *p, struct err *err)
{
	int r;

	if (!p->has_leftover)
		return 0;
	r = reaper_doom(p->nics->reaper, p->nl, &p->leftover);
	if (r < 0 && r != -ENODEV)
		return prepare_failed(p, r, "put aside what was left of it", err);
	p->leftover_gone = true;
	return 0;
}

int prepare_raise(struct prepare *p, struct err *err)
{
	int r = link_set_up(p->nl, p->ifindex);

	return r < 0 ? prepare_failed(p, r, "bring it up", err) : 0;
}

/* --- all of them --- */

static void prepare_done(struct prepare *p)
{
	netlink_free(p->nl);
	nic_free(p->nic);
	nic_free(p->old);
	if (p->fd >= 0)
		(void)close(p->fd);
}

static int steps_run(struct prepare *p, const struct step *steps, size_t n, struct err *err)
{
	size_t done = 0;
	int r = 0;

	for (; done < n && r == 0; done += r == 0) {
		if (p->keep && steps[done].makes)
			continue;
		r = nics_step(p->nics, steps[done].name, p->ifname, err);
		if (r == 0)
			r = steps[done].run(p, err);
	}
	while (r < 0 && done-- > 0) {
		if (steps[done].undo && !(p->keep && steps[done].makes))
			steps[done].undo(p);
	}
	return r;
}

/* "fe:" and the bytes that the name is made of: above every vendor's, so that no bridge takes it for its
 * own. */
static void host_mac(const char *ifname, const struct mac *guest, struct mac *ret)
{
	unsigned index = 0;
	char hash[TAP_HASH_MAX];
	uint64_t bytes;

	(void)tap_name_parse(ifname, hash, &index);
	bytes = strtoull(hash, NULL, 16) ^ index;
	ret->bytes[0] = 0xfe;
	for (int i = 1; i < MAC_SIZE; i++)
		ret->bytes[i] = (uint8_t)(bytes >> 8 * (MAC_SIZE - 1 - i));
	if (mac_equal(ret, guest))
		ret->bytes[1] ^= 0x80;
}

static int nic_plan(struct prepare *p, enum nic_kind kind, struct err *err)
{
	const struct nic_request *request = p->request;
	struct nic *nic = calloc(1, sizeof(*nic));
	int r;

	if (!nic)
		return -ENOMEM;
	p->nic = nic;
	r = tap_name(request->owner.instance_id, request->owner.index, p->ifname);
	if (r < 0)
		return err_set(err, -EINVAL, "instance '%s', NIC %u: no interface can have that name",
		        QUOTED(request->owner.instance_id), request->owner.index);
	memcpy(nic->ifname, p->ifname, sizeof(nic->ifname));
	nic->state = NIC_PREPARING;
	nic->kind = kind;
	nic->owner = request->owner;
	nic->owner.filtered = kind == NIC_TAP && request->filtered;
	owner_format(&nic->owner, p->alias);
	host_mac(p->ifname, &request->owner.mac, &p->mac);
	if (kind == NIC_TAP) {
		r = nic_filter_elements(p->ifname, &request->owner.mac,
		        request->filtered ? &request->filter : NULL, &nic->elements, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < request->n_ports; i++) {
		struct element port = element_publication(&request->ports[i]);
		struct element hairpin = element_hairpin(&request->ports[i], request->owner.master);

		elements_add(&nic->elements, &port);
		elements_add(&nic->elements, &hairpin);
	}
	return elements_finish(&nic->elements);
}

int prepare_run(struct nics *nics, const struct nic_request *request, enum nic_kind kind,
        const struct step *steps, size_t n_steps, struct nic **ret, struct err *err)
{
	__attribute__((
	        cleanup(prepare_done))) struct prepare p = { .nics = nics, .request = request, .fd = -EBADF };
	struct nic *entry, *placeholder = NULL;
	int r = nic_plan(&p, kind, err);

	if (r == 0)
		r = nics_netlink(nics, &p.nl, err);
	if (r == 0)
		r = steps_run(&p, steps, n_steps, err);
	if (r < 0)
		return r;
	p.nic->state = NIC_READY;
	p.nic->ifindex = p.ifindex;
	p.nic->master = kind == NIC_TAP ? p.master.ifindex : 0;
	r = nic_copy(p.nic, &entry);
	if (r == 0)
		r = nic_table_put(nics->table, entry, &placeholder, err);
	nic_free(placeholder);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p.nic);
	return 0;
}
