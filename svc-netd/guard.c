#include "svc-netd/guard.h"

#include "svc-netd/link.h"
#include "svc-netd/netd.h"
#include "svc-netd/netlink.h"
#include "svc-netd/nft_batch.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "lib/log/log.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	ANY_TABLE_ATTRIBUTE = 1, /* NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, …: all of them */
	RETRY_USEC = 200 * 1000,
	BURST_MAX = 256, /* datagrams read at once, before others have their turn */
};

/* One NIC that something happened to. */
struct check {
	LIST_ENTRY(check) link;
	struct job job;
	struct guard *guard; /* weak */
	char ifname[IFNAME_MAX];
	bool again; /* something happened since it began */
	bool running;
	enum nic_mend result;
	struct nic *nic; /* owned */
	struct err err;
};

struct guard {
	struct netd *netd;                             /* weak */
	struct netlink *links, *tables;                /* owned; tables only where nobody keeps them for us */
	sd_event_source *on_links, *on_tables, *retry; /* owned */
	LIST_HEAD(, check) checks;
	/* putting the tables back */
	struct job restore;
	bool restoring, restore_again;
	int restore_result;
	struct err restore_err;
	uint64_t lost_usec; /* monotonic: since when they are not whole; 0: they are */
	bool stopping;
};

/* --- telling --- */

static void tell(struct guard *guard, Bc__V1__NetdEvent__Type type, const struct nic *nic,
        const char *message, uint64_t gap_usec)
{
	Bc__V1__NetdEvent event = BC__V1__NETD_EVENT__INIT;

	event.type = type;
	event.message = (char *)message;
	event.gap_ns = gap_usec * NSEC_PER_USEC;
	if (nic) {
		event.interface = (char *)nic->ifname;
		event.instance_id = (char *)nic->owner.instance_id;
		event.index = nic->owner.index;
	}
	watch_tell(guard->netd->watch, &event);
}

static void job_ended(struct guard *guard)
{
	if (guard->stopping && !guard->restoring && LIST_EMPTY(&guard->checks))
		netd_released(guard->netd);
}

/* --- NICs --- */

static void check_run(struct job *job)
{
	struct check *check = CONTAINER_OF(job, struct check, job);

	check->result = nic_mend(check->guard->netd->nics, check->ifname, &check->nic, &check->err);
}

static void check_free(struct check *check)
{
	LIST_REMOVE(check, link);
	nic_free(check->nic);
	free(check);
}

static void check_start(struct check *check);

static void check_done(struct job *job)
{
	struct check *check = CONTAINER_OF(job, struct check, job);
	struct guard *guard = check->guard;

	switch (check->result) {
	case NIC_WHOLE:
	case NIC_UNKNOWN:
		break;
	case NIC_MENDED:
	case NIC_NOT_MENDED:
		tell(guard, BC__V1__NETD_EVENT__TYPE__MASTER_LOST, check->nic, check->err.text, 0);
		(void)log_warning(0, "%s", check->err.text);
		break;
	case NIC_LOST:
		tell(guard, BC__V1__NETD_EVENT__TYPE__LOST, check->nic, check->err.text, 0);
		(void)log_warning(0, "%s", check->err.text);
		break;
	}
	check->running = false;
	check->nic = nic_free(check->nic);
	check->err = (struct err){ 0 };
	if (check->again && !guard->stopping)
		check_start(check);
	else
		check_free(check);
	job_ended(guard);
}

/* In its instance's lane: never while an operation of netd's own is at it. */
static void check_start(struct check *check)
{
	check->again = false;
	check->running = job_submit(check->guard->netd->jobs, &check->job) == 0;
	if (!check->running)
		check_free(check); /* the queue is full: whoever filled it looks at the kernel himself */
}

static void check_nic(struct guard *guard, const struct nic *nic)
{
	struct check *check;

	LIST_FOREACH (check, &guard->checks, link) {
		if (strcmp(check->ifname, nic->ifname) == 0) {
			check->again = true;
			return;
		}
	}
	check = calloc(1, sizeof(*check));
	if (!check)
		return;
	check->guard = guard;
	(void)snprintf(check->ifname, sizeof(check->ifname), "%s", nic->ifname);
	netd_lane(nic->ifname, check->job.key);
	check->job.run = check_run;
	check->job.done = check_done;
	LIST_INSERT_HEAD(&guard->checks, check, link);
	check_start(check);
}

/* Everything: what happened while nobody listened. */
static void check_all(struct guard *guard)
{
	struct nic **list;
	size_t n;

	if (nic_table_list(nics_table(guard->netd->nics), &list, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (list[i]->state == NIC_READY)
			check_nic(guard, list[i]);
	nic_list_free(list, n);
}

/* True when what an event says of an interface does not fit what we know. An old event may say so of a new
 * interface, and our own doing looks the same halfway: who looks closer asks the kernel. */
static bool is_odd(const struct nic *nic, const struct nlmsghdr *message, const struct link *link)
{
	if (nic->state != NIC_READY || nic->ifindex != link->ifindex)
		return false;
	return message->nlmsg_type == RTM_DELLINK || strcmp(nic->ifname, link->name) != 0 ||
	        nic->master != link->master || (nic->kind == NIC_TAP && link->master && !link->guarded);
}

static void on_stray(const struct nic *nic, void *userdata)
{
	check_nic(userdata, nic);
}

static int on_link_message(const struct nlmsghdr *message, void *userdata)
{
	struct guard *guard = userdata;
	struct nic_table *table = nics_table(guard->netd->nics);
	CLEANUP(nic) struct nic *nic = NULL;
	const struct ifinfomsg *head = mnl_nlmsg_get_payload(message);
	struct link link;

	/* The bridge's own messages of a port leaving look like those of an interface going. */
	if (link_parse(message, &link) < 0 || head->ifi_family != AF_UNSPEC)
		return 0;
	/* A bridge that was gone is back, with another index. */
	if (message->nlmsg_type == RTM_NEWLINK && strcmp(link.kind, "bridge") == 0)
		nic_table_strays(table, link.name, link.ifindex, on_stray, guard);
	if (tap_name_parse(link.name, NULL, NULL))
		nic = nic_table_get(table, link.name);
	if (!nic && link.group == LINK_GROUP_OURS)
		nic = nic_table_get_index(table, link.ifindex);
	if (nic && is_odd(nic, message, &link))
		check_nic(guard, nic);
	return 0;
}

static int on_links(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct guard *guard = userdata;
	int r = 0;

	(void)source;
	(void)fd;
	(void)revents;
	for (int i = 0; i < BURST_MAX && r == 0; i++)
		r = netlink_receive(guard->links, on_link_message, guard);
	if (r == -ENOBUFS) {
		tell(guard, BC__V1__NETD_EVENT__TYPE__RESYNC, NULL,
		        "events of interfaces were lost: list anew", 0);
		check_all(guard);
	} else if (r < 0 && r != -EAGAIN)
		(void)log_err(r, "cannot hear of interfaces: %m");
	return 0;
}

/* --- tables --- */

static void restore_run(struct job *job)
{
	struct guard *guard = CONTAINER_OF(job, struct guard, restore);

	guard->restore_result = nics_restore_rules(guard->netd->nics, &guard->restore_err);
}

static void restore_later(struct guard *guard)
{
	(void)sd_event_source_set_time_relative(guard->retry, RETRY_USEC);
	(void)sd_event_source_set_enabled(guard->retry, SD_EVENT_ONESHOT);
}

static void restore_start(struct guard *guard)
{
	guard->restore_again = false;
	guard->restore_err = (struct err){ 0 };
	guard->restoring = job_submit(guard->netd->jobs, &guard->restore) == 0;
	if (!guard->restoring)
		restore_later(guard);
}

static void restore_done(struct job *job)
{
	struct guard *guard = CONTAINER_OF(job, struct guard, restore);

	guard->restoring = false;
	if (guard->stopping) {
		job_ended(guard);
	} else if (guard->restore_result < 0) {
		(void)log_err(guard->restore_result, "cannot put the rules back: %s; trying again",
		        guard->restore_err.text);
		restore_later(guard);
	} else if (guard->restore_again) {
		restore_start(guard);
	} else {
		uint64_t gap_usec = clock_monotonic_usec() - guard->lost_usec;

		guard->lost_usec = 0;
		tell(guard, BC__V1__NETD_EVENT__TYPE__RULES_RESTORED, NULL, "the rules are back", gap_usec);
		(void)log_warning(0, "the rules are back after %llu us", (unsigned long long)gap_usec);
	}
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct guard *guard = userdata;

	(void)source;
	(void)usec;
	if (guard->lost_usec && !guard->restoring)
		restore_start(guard);
	return 0;
}

static void tables_touched(struct guard *guard)
{
	static const char words[] = "somebody else changed or flushed netd's rules";

	if (!guard->lost_usec) {
		guard->lost_usec = clock_monotonic_usec();
		tell(guard, BC__V1__NETD_EVENT__TYPE__RULES_LOST, NULL, words, 0);
		(void)log_warning(0, "%s", words);
	}
	if (guard->restoring)
		guard->restore_again = true;
	else
		restore_start(guard);
}

struct touch {
	struct guard *guard;
	bool ours;
};

/* What is another's is recognised by its table's name and not looked at. */
static int on_table_message(const struct nlmsghdr *message, void *userdata)
{
	struct touch *touch = userdata;
	const struct nfgenmsg *head = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	if (message->nlmsg_pid == rules_portid(nics_rules(touch->guard->netd->nics)) ||
	        message->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES ||
	        (message->nlmsg_type & 0xff) == NFT_MSG_NEWGEN ||
	        mnl_nlmsg_get_payload_len(message) < sizeof(*head) ||
	        (head->nfgen_family != NFPROTO_BRIDGE && head->nfgen_family != NFPROTO_INET))
		return 0;
	mnl_attr_for_each(attr, message, sizeof(*head))
	{
		if (mnl_attr_get_type(attr) == ANY_TABLE_ATTRIBUTE &&
		        mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0 &&
		        strcmp(mnl_attr_get_str(attr), NFT_TABLE_NAME) == 0)
			touch->ours = true;
	}
	return 0;
}

static int on_tables(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct guard *guard = userdata;
	struct touch touch = { .guard = guard };
	int r = 0;

	(void)source;
	(void)fd;
	(void)revents;
	for (int i = 0; i < BURST_MAX && r == 0; i++)
		r = netlink_receive(guard->tables, on_table_message, &touch);
	if (touch.ours || r == -ENOBUFS)
		tables_touched(guard);
	return 0;
}

/* --- life --- */

static int listen_to(struct guard *guard, int protocol, unsigned group, sd_event_io_handler_t handler,
        struct netlink **ret, sd_event_source **ret_source)
{
	int r = netlink_open(protocol, ret);

	if (r == 0)
		r = netlink_join(*ret, group);
	if (r == 0)
		r = sd_event_add_io(loop_event(service_loop(guard->netd->host)), ret_source, netlink_fd(*ret),
		        EPOLLIN, handler, guard);
	return r;
}

int guard_new(struct netd *netd, struct guard **ret, struct err *err)
{
	struct guard *guard = calloc(1, sizeof(*guard));
	int r;

	if (!guard)
		return -ENOMEM;
	guard->netd = netd;
	LIST_INIT(&guard->checks);
	guard->restore.run = restore_run;
	guard->restore.done = restore_done;
	r = listen_to(guard, NETLINK_ROUTE, RTNLGRP_LINK, on_links, &guard->links, &guard->on_links);
	if (r >= 0)
		r = sd_event_add_time_relative(loop_event(service_loop(netd->host)), &guard->retry,
		        CLOCK_MONOTONIC, RETRY_USEC, 1000, on_retry, guard);
	if (r >= 0)
		r = sd_event_source_set_enabled(guard->retry, SD_EVENT_OFF);
	/* An owned table is changed by nobody, and each change of ours would be told to us. */
	if (r >= 0 && rules_kept(nics_rules(netd->nics)) == RULES_KEEP_NOTHING)
		r = listen_to(guard, NETLINK_NETFILTER, NFNLGRP_NFTABLES, on_tables, &guard->tables,
		        &guard->on_tables);
	if (r < 0) {
		guard_free(guard);
		return err_set(err, r, "cannot watch interfaces and rules: %s", strerror(-r));
	}
	/* Who took one off its bridge while no netd ran was not heard. */
	check_all(guard);
	*ret = guard;
	return 0;
}

bool guard_stop(struct guard *guard)
{
	if (!guard)
		return true;
	guard->stopping = true;
	guard->on_links = sd_event_source_disable_unref(guard->on_links);
	guard->on_tables = sd_event_source_disable_unref(guard->on_tables);
	guard->retry = sd_event_source_disable_unref(guard->retry);
	return !guard->restoring && LIST_EMPTY(&guard->checks);
}

struct guard *guard_free(struct guard *guard)
{
	if (!guard)
		return NULL;
	(void)sd_event_source_disable_unref(guard->on_links);
	(void)sd_event_source_disable_unref(guard->on_tables);
	(void)sd_event_source_disable_unref(guard->retry);
	netlink_free(guard->links);
	netlink_free(guard->tables);
	free(guard);
	return NULL;
}
