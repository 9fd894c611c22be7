#include "svc-netd/rules.h"

#include "svc-netd/netlink.h"
#include "svc-netd/nft_batch.h"
#include "svc-netd/nft_query.h"
#include "svc-netd/tables.h"

#include "lib/base/cleanup.h"

#include <netinet/in.h> /* before the kernel's, which then leaves out what is here */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Not in Debian 12's headers. */
#ifndef NFT_TABLE_F_OWNER
#define NFT_TABLE_F_OWNER 0x2
#endif
#define TABLE_F_PERSIST 0x4

/* Above it a restore goes in several transactions: one socket buffer has to hold each. */
enum { TRANSACTION_MAX = 32 << 20 };

CLEANUP_DEFINE(holdings, holdings_free)

struct rules {
	pthread_mutex_t lock;    /* the socket and the batch */
	struct netlink *nl;      /* owned; the tables' owner */
	struct nft_batch *batch; /* owned; empty between transactions */
	/* as rules_open() found it */
	enum rules_keep keep;
	bool can_filter, can_publish;
	struct err missing_filter, missing_publish;
};

/* --- loading --- */

static uint32_t keep_flags(enum rules_keep keep)
{
	switch (keep) {
	case RULES_KEEP_AUTO:
	case RULES_KEEP_NOTHING:
		return 0;
	case RULES_KEEP_OWNER:
		return NFT_TABLE_F_OWNER;
	case RULES_KEEP_PERSIST:
		return NFT_TABLE_F_OWNER | TABLE_F_PERSIST;
	}
	return 0;
}

/* Does the kernel know this way? A table that comes and goes in one transaction was never there. */
static bool keep_possible(struct rules *rules, enum rules_keep keep)
{
	static const char probe_name[] = NFT_TABLE_NAME "_probe";
	struct nlmsghdr *h = nft_batch_begin(
	        rules->batch, NFT_MSG_NEWTABLE, NFPROTO_INET, NLM_F_CREATE | NLM_F_EXCL, probe_name);

	if (h) {
		mnl_attr_put_strz(h, NFTA_TABLE_NAME, probe_name);
		mnl_attr_put_u32(h, NFTA_TABLE_FLAGS, htonl(keep_flags(keep)));
		nft_batch_end(rules->batch, h);
	}
	h = nft_batch_begin(rules->batch, NFT_MSG_DELTABLE, NFPROTO_INET, 0, probe_name);
	if (h) {
		mnl_attr_put_strz(h, NFTA_TABLE_NAME, probe_name);
		nft_batch_end(rules->batch, h);
	}
	return nft_batch_commit(rules->batch, rules->nl, NULL) == 0;
}

/* Makes the table ours, or makes it. One that was made with other flags stays as it is: its content is
 * carried over, the table is replaced. So does one that cannot be made: that is found out, with words,
 * where it matters. */
static int table_claim(struct rules *rules, bool bridge, struct err *err)
{
	int r;

	nft_batch_add_table(rules->batch, bridge ? NFPROTO_BRIDGE : NFPROTO_INET, keep_flags(rules->keep));
	r = nft_batch_commit(rules->batch, rules->nl, NULL);
	if (r == -EPERM)
		return err_set(err, -EBUSY,
		        "table '%s %s' is owned by another process: is a second netd running in this network "
		        "namespace?",
		        bridge ? "bridge" : "inet", NFT_TABLE_NAME);
	return 0;
}

static int load(struct rules *rules, bool bridge, bool inet, bool publish, struct err *err)
{
	uint32_t flags = keep_flags(rules->keep);

	if (bridge) {
		if (nft_query_table(rules->nl, true))
			nft_batch_delete_table(rules->batch, NFPROTO_BRIDGE);
		tables_add_filter(rules->batch, flags);
	}
	if (inet) {
		if (nft_query_table(rules->nl, false))
			nft_batch_delete_table(rules->batch, NFPROTO_INET);
		tables_add_inet(rules->batch, flags, publish);
	}
	return nft_batch_is_empty(rules->batch) ? 0 : nft_batch_commit(rules->batch, rules->nl, err);
}

/* What the kernel can do is found by trying. Loads nothing but what works, with no NICs. */
static void probe(struct rules *rules)
{
	rules->missing_filter = rules->missing_publish = (struct err){ 0 };
	rules->can_filter = load(rules, true, true, false, &rules->missing_filter) == 0;
	rules->can_publish = load(rules, false, true, true, &rules->missing_publish) == 0;
}

struct restore_job {
	struct rules *rules;
	struct err *err;
};

static int restore_nic(const char *ifname, const struct elements *elements, void *userdata)
{
	struct restore_job *job = userdata;
	struct rules *rules = job->rules;

	for (size_t i = 0; i < elements->n; i++) {
		const struct element *e = &elements->items[i];

		if (set_info(e->set)->bridge ? rules->can_filter : rules->can_publish)
			nft_batch_add_element(rules->batch, e, ifname);
	}
	if (nft_batch_size(rules->batch) < TRANSACTION_MAX)
		return 0;
	return nft_batch_commit(rules->batch, rules->nl, job->err);
}

/* The static part and every NIC, in place of what is there. */
static int replace(
        struct rules *rules, enum rules_keep keep, rules_feed_fn feed, void *userdata, struct err *err)
{
	struct restore_job job = { .rules = rules, .err = err };
	uint32_t flags = keep_flags(keep);
	int r;

	if (rules->can_filter) {
		if (nft_query_table(rules->nl, true))
			nft_batch_delete_table(rules->batch, NFPROTO_BRIDGE);
		tables_add_filter(rules->batch, flags);
	}
	if (rules->can_filter || rules->can_publish) {
		if (nft_query_table(rules->nl, false))
			nft_batch_delete_table(rules->batch, NFPROTO_INET);
		tables_add_inet(rules->batch, flags, rules->can_publish);
	}
	r = feed(restore_nic, &job, userdata);
	if (r < 0)
		return r;
	return nft_batch_commit(rules->batch, rules->nl, err);
}

static int feed_holdings(rules_nic_fn fn, void *fn_userdata, void *userdata)
{
	return holdings_each(userdata, fn, fn_userdata);
}

static int keep_choose(struct rules *rules, const struct rules_options *options, struct err *err)
{
	static const enum rules_keep order[] = { RULES_KEEP_PERSIST, RULES_KEEP_OWNER, RULES_KEEP_NOTHING };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		if (options->keep != RULES_KEEP_AUTO && options->keep != order[i])
			continue;
		/* An owned table dies with its socket: worse than one that anybody can flush, unless
		 * somebody holds that. */
		if (options->keep == RULES_KEEP_AUTO && order[i] == RULES_KEEP_OWNER && !options->socket_kept)
			continue;
		rules->keep = order[i];
		if (order[i] == RULES_KEEP_NOTHING || keep_possible(rules, order[i]))
			return 0;
	}
	return err_set(
	        err, -EOPNOTSUPP, "this kernel cannot keep nftables tables in the way that is asked for");
}

/* With nothing in the tables to be lost, what the kernel can do is probed on the tables themselves. With
 * NICs in them a trial must not take their rules away: all at once, or as much as works, each in one
 * transaction with the NICs. */
static int take_over(struct rules *rules, struct err *err)
{
	CLEANUP(holdings) struct holdings *held = NULL;
	int r = nft_query_holdings(rules->nl, &held);

	if (r < 0)
		return err_set(err, r, "cannot read the rules that are loaded: %s", strerror(-r));
	rules->can_filter = rules->can_publish = true;
	r = replace(rules, rules->keep, feed_holdings, held, &rules->missing_publish);
	if (r == 0)
		return 0;
	if (holdings_are_empty(held)) {
		probe(rules);
		return 0;
	}
	rules->can_publish = false;
	return replace(rules, rules->keep, feed_holdings, held, err);
}

int rules_open(const struct rules_options *options, struct rules **ret, struct err *err)
{
	struct rules *rules = calloc(1, sizeof(*rules));
	int r;

	if (!rules) {
		if (options->stored_fd >= 0)
			(void)close(options->stored_fd);
		return -ENOMEM;
	}
	(void)pthread_mutex_init(&rules->lock, NULL);
	rules->batch = nft_batch_new();
	r = options->stored_fd >= 0 ? netlink_adopt(options->stored_fd, &rules->nl)
	                            : netlink_open(NETLINK_NETFILTER, &rules->nl);
	if (r < 0)
		err_set(err, r, "cannot talk to nftables: %s", strerror(-r));
	else if (!rules->batch)
		r = -ENOMEM;
	else
		r = keep_choose(rules, options, err);
	if (r == 0)
		r = table_claim(rules, true, err);
	if (r == 0)
		r = table_claim(rules, false, err);
	if (r == 0)
		r = take_over(rules, err);
	if (r < 0) {
		rules_free(rules);
		return r;
	}
	*ret = rules;
	return 0;
}

struct rules *rules_free(struct rules *rules)
{
	if (!rules)
		return NULL;
	netlink_free(rules->nl);
	nft_batch_free(rules->batch);
	(void)pthread_mutex_destroy(&rules->lock);
	free(rules);
	return NULL;
}

/* --- using --- */

int rules_fd(const struct rules *rules)
{
	return netlink_fd(rules->nl);
}

uint32_t rules_portid(const struct rules *rules)
{
	return netlink_portid(rules->nl);
}

static void unlock(pthread_mutex_t **lock)
{
	(void)pthread_mutex_unlock(*lock);
}

#define LOCKED(rules)                                                                                        \
	__attribute__((cleanup(unlock), unused)) pthread_mutex_t *locked_ = &(rules)->lock;                  \
	(void)pthread_mutex_lock(locked_)

/* Without the lock: whoever asks what is possible does not wait for whoever is at it. */
enum rules_keep rules_kept(const struct rules *rules)
{
	return rules->keep;
}

bool rules_can_filter(const struct rules *rules)
{
	return rules->can_filter;
}

bool rules_can_publish(const struct rules *rules)
{
	return rules->can_publish;
}

void rules_missing_filter(const struct rules *rules, struct err *ret)
{
	*ret = rules->missing_filter;
}

void rules_missing_publish(const struct rules *rules, struct err *ret)
{
	*ret = rules->missing_publish;
}

static int change_commit(struct rules *rules, const char *ifname, const struct elements *from,
        const struct elements *to, struct err *err)
{
	struct elements gone = { 0 }, new = { 0 };
	int r = elements_diff(from, to, &gone, &new);

	if (r < 0)
		return r;
	for (size_t i = 0; i < gone.n; i++)
		nft_batch_delete_element(rules->batch, &gone.items[i]);
	for (size_t i = 0; i < new.n; i++)
		nft_batch_add_element(rules->batch, &new.items[i], ifname);
	elements_done(&gone);
	elements_done(&new);
	return nft_batch_commit(rules->batch, rules->nl, err);
}

static bool changes_possible(struct rules *rules, const struct elements *to, struct err *err)
{
	for (size_t i = 0; i < to->n; i++) {
		if (set_info(to->items[i].set)->bridge && !rules->can_filter)
			err_set(err, -EOPNOTSUPP, "this kernel cannot filter NICs: %s",
			        rules->missing_filter.text);
		else if (!set_info(to->items[i].set)->bridge && !rules->can_publish)
			err_set(err, -EOPNOTSUPP, "this kernel cannot publish ports: %s",
			        rules->missing_publish.text);
		else
			continue;
		return false;
	}
	return true;
}

struct get_job {
	const char *ifname;
	struct elements *ret;
};

static int get_nic(const char *ifname, const struct elements *elements, void *userdata)
{
	struct get_job *job = userdata;

	return strcmp(ifname, job->ifname) == 0 ? elements_copy(elements, job->ret) : 0;
}

static int get_locked(struct rules *rules, const char *ifname, struct elements *ret)
{
	CLEANUP(holdings) struct holdings *held = NULL;
	struct get_job job = { .ifname = ifname, .ret = ret };
	int r = nft_query_holdings(rules->nl, &held);

	return r < 0 ? r : holdings_each(held, get_nic, &job);
}

int rules_change(struct rules *rules, const char *ifname, const struct elements *from,
        const struct elements *to, struct err *err)
{
	struct elements held = { 0 };
	struct err first = { 0 };
	int r;

	LOCKED(rules);
	if (!changes_possible(rules, to, err))
		return -EOPNOTSUPP;
	r = change_commit(rules, ifname, from, to, &first);
	if (r == 0)
		return 0;
	/* It may hold something else than we think. Deleting what is absent fails the whole, so see what is
	 * there. */
	if (r == -ENOENT || r == -EEXIST) {
		r = get_locked(rules, ifname, &held);
		if (r == 0)
			r = change_commit(rules, ifname, &held, to, err);
		elements_done(&held);
		return r;
	}
	return err_set(err, r, "%s", err_text(&first, r));
}

int rules_hold(struct rules *rules, const struct elements *elements, bool *ret, struct element *ret_missing)
{
	LOCKED(rules);
	*ret = true;
	for (size_t i = 0; i < elements->n; i++) {
		int r = nft_query_element(rules->nl, &elements->items[i]);

		if (r == -ENOENT) {
			*ret = false;
			*ret_missing = elements->items[i];
			return 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int rules_list(struct rules *rules, rules_nic_fn fn, void *userdata)
{
	CLEANUP(holdings) struct holdings *held = NULL;
	int r;

	{
		LOCKED(rules);
		r = nft_query_holdings(rules->nl, &held);
	}
	return r < 0 ? r : holdings_each(held, fn, userdata);
}

int rules_get(struct rules *rules, const char *ifname, struct elements *ret)
{
	LOCKED(rules);
	return get_locked(rules, ifname, ret);
}

bool rules_intact(struct rules *rules)
{
	size_t n_filter = 0, n_inet = 0;

	LOCKED(rules);
	if (rules->can_filter &&
	        (nft_query_rule_count(rules->nl, true, &n_filter) < 0 || n_filter != tables_filter_count()))
		return false;
	if ((rules->can_filter || rules->can_publish) &&
	        (nft_query_rule_count(rules->nl, false, &n_inet) < 0 ||
	                n_inet != tables_inet_count(rules->can_publish)))
		return false;
	return true;
}

int rules_restore(struct rules *rules, rules_feed_fn feed, void *userdata, struct err *err)
{
	LOCKED(rules);
	return replace(rules, rules->keep, feed, userdata, err);
}

int rules_leave(struct rules *rules, rules_feed_fn feed, void *userdata, struct err *err)
{
	LOCKED(rules);
	return rules->keep == RULES_KEEP_OWNER ? replace(rules, RULES_KEEP_NOTHING, feed, userdata, err) : 0;
}
