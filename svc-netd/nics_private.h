/* What the parts of nics share. */
#pragma once

#include "svc-netd/link.h"
#include "svc-netd/netlink.h"
#include "svc-netd/nics.h"
#include "svc-netd/reaper.h"

#include "lib/base/cleanup.h"

#include <pthread.h>

enum { BRIDGES_PINNED_MAX = 256 };

struct nics {
	struct nics_options options;    /* strings owned */
	struct rules *rules;            /* owned */
	struct nic_table *table;        /* owned */
	struct reaper *reaper;          /* owned */
	struct netlink_pool *netlinks;  /* owned */
	int record_fd;                  /* owned: directory, or -EBADF */
	pthread_mutex_t lock;           /* the rest */
	int record_error;               /* of the last one written: 0 or -errno */
	int pinned[BRIDGES_PINNED_MAX]; /* ifindexes of bridges whose address no longer follows their ports */
	size_t n_pinned;
};

CLEANUP_DEFINE(netlink, netlink_free)

/* An rtnetlink socket for one operation; netlink_free() ends it. */
int nics_netlink(struct nics *nics, struct netlink **ret, struct err *err);
int nics_step(struct nics *nics, const char *step, const char *ifname, struct err *err);

/* NULL when link, which has the name of NIC index of the instance, is proven to be that NIC's; else why
 * not. */
const char *link_foreign(const struct link *link, const char *instance_id, unsigned index, struct owner *ret);

/* Puts a TAP that is ours on its bridge as it has to be there. */
int link_join_bridge(struct netlink *nl, int ifindex, int bridge, const struct mac *mac);

void nics_record(struct nics *nics, const struct nic *nic);
void nics_forget(struct nics *nics, const char *ifname);
