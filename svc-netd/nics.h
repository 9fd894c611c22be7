/* The NICs of this host: made, compared, changed and removed in the kernel, step by step, each step undone
 * when a later one fails. Functions block for as long as the kernel takes and may be called from any
 * thread; for one instance only one at a time. */
#pragma once

#include "svc-netd/nic_filter.h"
#include "svc-netd/nic_table.h"
#include "svc-netd/rules.h"

#include "lib/base/err.h"

struct nics;
struct reaper;

struct nics_options {
	const char *tun_path;   /* weak; NULL: /dev/net/tun */
	const char *dev_dir;    /* weak; NULL: /dev, for macvtap nodes */
	const char *sys_dir;    /* weak; NULL: /sys */
	const char *record_dir; /* weak; NULL: no records */
	struct rules_options rules;
	/* Called before each step of every operation: a negative value is that step's failure. Tests also
	 * stop or kill the process here. */
	int (*before_step)(const char *step, const char *ifname, void *userdata);
	void *userdata;
};

/* Takes over the rules and every NIC that can be proven to be ours, and puts back from records what
 * somebody flushed meanwhile. */
int nics_open(const struct nics_options *options, struct nics **ret, struct err *err);
struct nics *nics_free(struct nics *nics);

struct rules *nics_rules(struct nics *nics);     /* weak */
struct nic_table *nics_table(struct nics *nics); /* weak */
struct reaper *nics_reaper(struct nics *nics);   /* weak */
/* 0 when the last record of a NIC could be written, else -errno. */
int nics_record_error(struct nics *nics);

/* What somebody wants, checked for form already. */
struct nic_request {
	struct owner owner; /* queues already decided; master is the bridge or the parent */
	uid_t uid;          /* the VMM's */
	gid_t gid;
	bool filtered;             /* bridge only */
	struct nic_filter filter;  /* when filtered */
	struct publication *ports; /* owned; bridge only */
	size_t n_ports;
	uint32_t macvtap_mode; /* MACVLAN_MODE_* */
};
void nic_request_done(struct nic_request *request);

/* Each returns 0 and what was built, read back from the kernel; or -errno with words, and everything is as
 * before or, once a leftover of the same NIC was replaced, gone. -EEXIST: the name is taken by an interface
 * that is not provably this NIC's, or a port by another NIC. */
int nic_prepare_bridge(
        struct nics *nics, const struct nic_request *request, struct nic **ret, struct err *err);
int nic_prepare_macvtap(
        struct nics *nics, const struct nic_request *request, struct nic **ret, struct err *err);

/* 0 when what was built is whole; -ENOENT when there is nothing, -EBUSY with what is not as it should be. */
int nic_check(struct nics *nics, const char *instance_id, unsigned index, struct nic **ret, struct err *err);

/* Another filter for a NIC that is there, in one transaction: on failure the old one still holds. */
int nic_set_filter(struct nics *nics, const char *instance_id, unsigned index,
        const struct nic_filter *filter, struct nic **ret, struct err *err);

struct nic_removed {
	char ifname[IFNAME_MAX];
	char instance_id[UUID_TEXT_MAX]; /* ""; nobody's */
};

struct nic_removal {
	struct nic_removed *interfaces; /* owned */
	size_t n_interfaces;
	uint32_t n_rules, n_ports;
};
void nic_removal_done(struct nic_removal *removal);

/* *ret is written also on failure: what was removed all the same. What is absent already is removed. The interface is out of everybody's way and its name free on return;
 * the kernel is rid of it after the reaper's next run. */
int nic_remove(
        struct nics *nics, const char *instance_id, unsigned index, struct nic_removal *ret, struct err *err);
/* Every name the instance could have, whatever any record says. Goes on after a failure and returns the
 * first. */
int nic_remove_instance(struct nics *nics, const char *instance_id, struct nic_removal *ret, struct err *err);
/* By name, without asking whose it is: a name of our form, and an interface of a kind that netd makes. */
int nic_remove_interface(struct nics *nics, const char *ifname, struct nic_removal *ret, struct err *err);

/* One interface of our name form as it is, for people. */
struct nic_view {
	char ifname[IFNAME_MAX];
	bool exists; /* false: an orphan, rules without an interface */
	enum nic_kind kind;
	const char *disbelief; /* weak; NULL: owner is believed */
	struct owner owner;
	int on; /* ifindex of the bridge or the parent; 0 for none */
	char master[IFNAME_MAX];
	bool multi_queue, up, in_use;
	int ifindex;
	struct elements elements; /* owned: what the kernel holds for it */
};
/* From the kernel, not from memory. *ret is owned. */
int nics_list(struct nics *nics, struct nic_view **ret, size_t *ret_n, struct err *err);
void nic_views_free(struct nic_view *views, size_t n);

/* --- for the guard --- */

enum nic_mend {
	NIC_WHOLE,      /* nothing was wrong */
	NIC_MENDED,     /* it had left its bridge and is back */
	NIC_NOT_MENDED, /* … and cannot come back */
	NIC_LOST,       /* the interface is gone; so are its rules now */
	NIC_UNKNOWN,    /* not ours, or not any more */
};
/* Looks at a NIC that something happened to, and mends what can be. err has words unless NIC_WHOLE or
 * NIC_UNKNOWN. */
enum nic_mend nic_mend(struct nics *nics, const char *ifname, struct nic **ret, struct err *err);
/* Puts the tables back with every NIC in them. */
int nics_restore_rules(struct nics *nics, struct err *err);
/* The end is near and meant: the rules stay without us. */
int nics_leave(struct nics *nics, struct err *err);
