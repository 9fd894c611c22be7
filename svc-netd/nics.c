#include "svc-netd/nics_private.h"

#include "svc-netd/record.h"
#include "svc-netd/tap.h"

#include "lib/base/tap_name.h"
#include "lib/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void nic_request_done(struct nic_request *request)
{
	free(request->ports);
	*request = (struct nic_request){ 0 };
}

void nic_removal_done(struct nic_removal *removal)
{
	free(removal->interfaces);
	*removal = (struct nic_removal){ 0 };
}

int nics_netlink(struct nics *nics, struct netlink **ret, struct err *err)
{
	int r = netlink_pool_take(nics->netlinks, ret);

	return r < 0 ? err_set(err, r, "cannot open a netlink socket: %s", strerror(-r)) : 0;
}

int nics_step(struct nics *nics, const char *step, const char *ifname, struct err *err)
{
	int r;

	if (!nics->options.before_step)
		return 0;
	r = nics->options.before_step(step, ifname, nics->options.userdata);
	return r < 0 ? err_set(err, r, "step '%s' of '%s' failed: %s", step, ifname, strerror(-r)) : 0;
}

struct rules *nics_rules(struct nics *nics)
{
	return nics->rules;
}

struct nic_table *nics_table(struct nics *nics)
{
	return nics->table;
}

struct reaper *nics_reaper(struct nics *nics)
{
	return nics->reaper;
}

const char *link_foreign(const struct link *link, const char *instance_id, unsigned index, struct owner *ret)
{
	struct owner owner = { 0 };
	const char *disbelief;

	if (!link_is_tap(link) && !link_is_macvtap(link))
		return "it is no TAP or macvtap";
	disbelief = owner_disbelief(link->name, link->alias, &owner);
	/* A TAP is not left behind before it has its record; a macvtap is born in our group and gets it
	 * then. */
	if (disbelief && !link->alias[0] && link_is_macvtap(link) && link->group == LINK_GROUP_OURS)
		disbelief = NULL;
	else if (!disbelief && (strcmp(owner.instance_id, instance_id) != 0 || owner.index != index))
		disbelief = "its owner record is another NIC's";
	if (!disbelief)
		*ret = owner;
	return disbelief;
}

int link_join_bridge(struct netlink *nl, int ifindex, int bridge, const struct mac *mac)
{
	int r = link_set_master(nl, ifindex, bridge);

	if (r == 0)
		r = link_guard_port(nl, ifindex);
	return r < 0 ? r : link_add_station(nl, ifindex, mac);
}

void nics_record(struct nics *nics, const struct nic *nic)
{
	int r;

	if (nics->record_fd < 0)
		return;
	r = record_write(nics->record_fd, nic->ifname, &nic->elements);
	/* Without one a NIC passes nothing after a flush; by an old one it might pass what it may not any more. */
	if (r < 0)
		record_remove(nics->record_fd, nic->ifname);
	(void)pthread_mutex_lock(&nics->lock);
	nics->record_error = r;
	(void)pthread_mutex_unlock(&nics->lock);
}

int nics_record_error(struct nics *nics)
{
	int r;

	(void)pthread_mutex_lock(&nics->lock);
	r = nics->record_error;
	(void)pthread_mutex_unlock(&nics->lock);
	return r;
}

void nics_forget(struct nics *nics, const char *ifname)
{
	if (nics->record_fd >= 0)
		record_remove(nics->record_fd, ifname);
}

/* --- taking over --- */

struct adoption {
	struct nics *nics;
	bool failed;
};

static int adopt_elements(const char *ifname, const struct elements *elements, void *userdata)
{
	struct adoption *adoption = userdata;
	CLEANUP(nic) struct nic *old = NULL;
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic || elements_copy(elements, &nic->elements) < 0) {
		free(nic);
		return -ENOMEM;
	}
	(void)snprintf(nic->ifname, sizeof(nic->ifname), "%s", ifname);
	nic->state = NIC_ORPHAN;
	return nic_table_adopt(adoption->nics->table, nic, &old);
}

static bool elements_have(const struct elements *elements, bool in_bridge_table)
{
	for (size_t i = 0; i < elements->n; i++)
		if (set_info(elements->items[i].set)->bridge == in_bridge_table)
			return true;
	return false;
}

/* What a table of the kernel has nothing of, for somebody flushed or deleted it, a record may tell; without one the NIC
 * passes nothing. */
static int elements_recall(struct nics *nics, struct nic *nic)
{
	const bool is_lost[] = { !elements_have(&nic->elements, false),
		!elements_have(&nic->elements, true) };
	struct elements recorded = { 0 };

	if ((!is_lost[false] && !is_lost[true]) || record_read(nics->record_fd, nic->ifname, &recorded) < 0)
		return 0;
	for (size_t i = 0; i < recorded.n; i++)
		if (is_lost[set_info(recorded.items[i].set)->bridge])
			elements_add(&nic->elements, &recorded.items[i]);
	elements_done(&recorded);
	return elements_finish(&nic->elements);
}

static int adopt_link(const struct link *link, void *userdata)
{
	struct adoption *adoption = userdata;
	struct nics *nics = adoption->nics;
	struct nic *nic, *old = NULL;
	struct owner owner;
	int r;

	if (link_is_doomed(link))
		reaper_adopt(nics->reaper, link);
	if (!tap_name_parse(link->name, NULL, NULL) || (!link_is_tap(link) && !link_is_macvtap(link)) ||
	        owner_disbelief(link->name, link->alias, &owner))
		return 0;
	nic = nic_table_get(nics->table, link->name);
	if (!nic)
		nic = calloc(1, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	(void)snprintf(nic->ifname, sizeof(nic->ifname), "%s", link->name);
	nic->state = NIC_READY;
	nic->kind = link_is_tap(link) ? NIC_TAP : NIC_MACVTAP;
	nic->ifindex = link->ifindex;
	/* Where it should be, which need not be where it is; found when all links are known. */
	nic->master = 0;
	nic->mtu_bytes = link->mtu_bytes;
	nic->owner = owner;
	r = nic->kind == NIC_TAP && nics->record_fd >= 0 ? elements_recall(nics, nic) : 0;
	if (r < 0) {
		nic_free(nic);
		return r;
	}
	r = nic_table_adopt(nics->table, nic, &old);
	nic_free(old);
	return r;
}

static void adopt_restart(void *userdata)
{
	/* Taking in a link twice is harmless. */
	(void)userdata;
}

/* A bridge that does not exist any more leaves 0, which no NIC's master is. */
static int masters_find(struct nics *nics, struct netlink *nl)
{
	struct link link = { 0 };
	struct nic **list;
	size_t n;
	int r = nic_table_list(nics->table, &list, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct nic *old = NULL;

		if (list[i]->state != NIC_READY || list[i]->kind != NIC_TAP)
			continue;
		if (strcmp(link.name, list[i]->owner.master) != 0 &&
		        link_get(nl, list[i]->owner.master, &link) < 0)
			link = (struct link){ 0 };
		list[i]->master = link.ifindex;
		r = nic_table_adopt(nics->table, TAKE_PTR(list[i]), &old);
		nic_free(old);
	}
	nic_list_free(list, n);
	return r;
}

/* What records put back is not in the kernel yet. */
static int reinstate(struct nics *nics, struct err *err)
{
	struct elements none = { 0 };
	struct nic **list;
	size_t n;
	int r = nic_table_list(nics->table, &list, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool held;
		struct element missing;

		if (list[i]->state != NIC_READY || !list[i]->elements.n)
			continue;
		r = rules_hold(nics->rules, &list[i]->elements, &held, &missing);
		if (r == 0 && !held)
			r = rules_change(nics->rules, list[i]->ifname, &none, &list[i]->elements, err);
	}
	nic_list_free(list, n);
	return r;
}

/* Rules without an interface: of one that was deleted while nobody looked, or of a Prepare that was killed. They guard
 * nothing, hold ports of the host, and would let pass whoever comes under that name. */
static void orphans_release(struct nics *nics)
{
	static const struct elements none;
	const char *first = NULL;
	size_t n, n_released = 0;
	struct nic **list;

	if (nic_table_list(nics->table, &list, &n) < 0)
		return; /* they are listed, and go with their instance */
	for (size_t i = 0; i < n; i++) {
		struct err err = { 0 };
		int r;

		if (list[i]->state != NIC_ORPHAN)
			continue;
		r = rules_change(nics->rules, list[i]->ifname, &list[i]->elements, &none, &err);
		if (r < 0) {
			(void)log_warning(0, "the rules of '%s', which is not there, stay: %s",
			        list[i]->ifname, err_text(&err, r));
			continue;
		}
		nic_free(nic_table_take(nics->table, list[i]->ifname));
		first = first ?: list[i]->ifname;
		n_released++;
	}
	if (n_released)
		(void)log_warning(0,
		        "rules and ports of %zu interfaces that are gone were released, of '%s' first",
		        n_released, first);
	nic_list_free(list, n);
}

static bool nic_is_known(const char *ifname, void *userdata)
{
	CLEANUP(nic) struct nic *nic = nic_table_get(userdata, ifname);

	return nic != NULL;
}

static int nics_adopt(struct nics *nics, struct err *err)
{
	CLEANUP(netlink) struct netlink *nl = NULL;
	struct adoption adoption = { .nics = nics };
	int r = nics_netlink(nics, &nl, err);

	if (r < 0)
		return r;
	r = rules_list(nics->rules, adopt_elements, &adoption);
	if (r < 0)
		return err_set(err, r, "cannot read the rules that are loaded: %s", strerror(-r));
	r = link_list(nl, adopt_link, adopt_restart, &adoption);
	if (r < 0)
		return err_set(err, r, "cannot list interfaces: %s", strerror(-r));
	orphans_release(nics);
	if (nics->record_fd >= 0)
		record_sweep(nics->record_fd, nic_is_known, nics->table);
	r = masters_find(nics, nl);
	return r < 0 ? r : reinstate(nics, err);
}

static char *copy_or(const char *s, const char *otherwise)
{
	return strdup(s ? s : otherwise);
}

int nics_open(const struct nics_options *options, struct nics **ret, struct err *err)
{
	struct nics *nics = calloc(1, sizeof(*nics));
	int r = 0;

	if (!nics)
		return -ENOMEM;
	(void)pthread_mutex_init(&nics->lock, NULL);
	nics->record_fd = -EBADF;
	nics->options = *options;
	nics->options.tun_path = copy_or(options->tun_path, TUN_PATH);
	nics->options.dev_dir = copy_or(options->dev_dir, "/dev");
	nics->options.sys_dir = copy_or(options->sys_dir, "/sys");
	nics->options.record_dir = NULL;
	nics->table = nic_table_new();
	nics->reaper = reaper_new();
	nics->netlinks = netlink_pool_new(NETLINK_ROUTE);
	if (!nics->options.tun_path || !nics->options.dev_dir || !nics->options.sys_dir || !nics->table ||
	        !nics->reaper || !nics->netlinks)
		r = -ENOMEM;
	if (r == 0 && options->record_dir) {
		if (mkdir(options->record_dir, 0700) < 0 && errno != EEXIST)
			r = err_set(
			        err, -errno, "cannot create '%s': %s", options->record_dir, strerror(errno));
		nics->record_fd = open(options->record_dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		if (r == 0 && nics->record_fd < 0)
			r = err_set(
			        err, -errno, "cannot open '%s': %s", options->record_dir, strerror(errno));
	}
	if (r == 0)
		r = rules_open(&options->rules, &nics->rules, err);
	else if (options->rules.stored_fd >= 0)
		(void)close(options->rules.stored_fd);
	if (r == 0)
		r = nics_adopt(nics, err);
	if (r < 0) {
		nics_free(nics);
		return r;
	}
	*ret = nics;
	return 0;
}

struct nics *nics_free(struct nics *nics)
{
	if (!nics)
		return NULL;
	rules_free(nics->rules);
	nic_table_free(nics->table);
	reaper_free(nics->reaper);
	netlink_pool_free(nics->netlinks);
	if (nics->record_fd >= 0)
		(void)close(nics->record_fd);
	free((char *)nics->options.tun_path);
	free((char *)nics->options.dev_dir);
	free((char *)nics->options.sys_dir);
	(void)pthread_mutex_destroy(&nics->lock);
	free(nics);
	return NULL;
}

/* --- restoring --- */

static int feed_nics(rules_nic_fn fn, void *fn_userdata, void *userdata)
{
	struct nics *nics = userdata;
	struct nic **list;
	size_t n;
	int r = nic_table_list(nics->table, &list, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = fn(list[i]->ifname, &list[i]->elements, fn_userdata);
	nic_list_free(list, n);
	return r;
}

int nics_restore_rules(struct nics *nics, struct err *err)
{
	return rules_restore(nics->rules, feed_nics, nics, err);
}

int nics_leave(struct nics *nics, struct err *err)
{
	return rules_leave(nics->rules, feed_nics, nics, err);
}
