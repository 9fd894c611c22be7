/* netd's two nftables tables as a service of the kernel: loaded, owned, changed one NIC at a time, compared
 * and put back. Every function may be called from any thread; one transaction runs at a time. */
#pragma once

#include "svc-netd/element.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct rules;

/* How the tables are kept from other people's `flush ruleset`. */
enum rules_keep {
	RULES_KEEP_AUTO,    /* the best that is possible */
	RULES_KEEP_PERSIST, /* the kernel (6.9 and later) keeps them for us and after us */
	RULES_KEEP_OWNER,   /* … for as long as our socket lives, which somebody else then has to hold */
	RULES_KEEP_NOTHING, /* not at all: what is flushed is put back */
};

struct rules_options {
	enum rules_keep keep;
	int stored_fd;    /* consumed: our netlink socket from an earlier life, or -EBADF */
	bool socket_kept; /* this life's socket outlives us, so that RULES_KEEP_OWNER leaves no gap */
};

/* Everything the kernel holds of one NIC. */
typedef int (*rules_nic_fn)(const char *ifname, const struct elements *elements, void *userdata);

/* Takes the tables over, or makes them, and replaces their static part by ours in one transaction; a NIC's
 * elements are carried over. -EBUSY when another process owns them. A kernel that cannot do all of it is no
 * error: what is missing is said by rules_missing(). */
int rules_open(const struct rules_options *options, struct rules **ret, struct err *err);
struct rules *rules_free(struct rules *rules);

int rules_fd(const struct rules *rules); /* weak: the socket that owns the tables */
uint32_t rules_portid(const struct rules *rules);
enum rules_keep rules_kept(const struct rules *rules);
bool rules_can_filter(const struct rules *rules);
bool rules_can_publish(const struct rules *rules);
/* Why not, in the kernel's words; no error when it can. */
void rules_missing_filter(const struct rules *rules, struct err *ret);
void rules_missing_publish(const struct rules *rules, struct err *ret);

/* Makes `from`, what the kernel holds for the NIC, into `to`, in one transaction: on failure `from` still
 * holds. Both finished. What is gone already, or there already, is no failure. */
int rules_change(struct rules *rules, const char *ifname, const struct elements *from,
        const struct elements *to, struct err *err);

/* True when the kernel has every one of them. *ret_missing is the first it has not. */
int rules_hold(struct rules *rules, const struct elements *elements, bool *ret, struct element *ret_missing);

/* What the kernel holds now, NIC by NIC, sorted by name. */
int rules_list(struct rules *rules, rules_nic_fn fn, void *userdata);
/* … of one NIC; empty when it is unknown. */
int rules_get(struct rules *rules, const char *ifname, struct elements *ret);

/* True when both tables are there with all of their chains. */
bool rules_intact(struct rules *rules);
/* Replaces whatever is there by the static part and the NICs that feed() gives to fn, in one transaction as
 * far as they fit in one; until the last is in, a NIC that is not yet in passes nothing. */
typedef int (*rules_feed_fn)(rules_nic_fn fn, void *fn_userdata, void *userdata);
int rules_restore(struct rules *rules, rules_feed_fn feed, void *userdata, struct err *err);
/* Before the end: tables that would go with our socket are left to nobody instead, in one transaction.
 * Others stay as they are. */
int rules_leave(struct rules *rules, rules_feed_fn feed, void *userdata, struct err *err);
