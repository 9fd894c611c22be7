/* Questions to nftables about the two tables of netd, never about others: what the kernel holds, read until it is whole.
 * A socket is used by one thread at a time. */
#pragma once

#include "svc-netd/element.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netlink;

/* Is it there: `bridge bc`, else `inet bc`? */
bool nft_query_table(struct netlink *nl, bool bridge);
int nft_query_rule_count(struct netlink *nl, bool bridge, size_t *ret);
/* 0 when the kernel has it, -ENOENT when it has not. */
int nft_query_element(struct netlink *nl, const struct element *element);

/* Every element of both tables' sets, sorted by the NIC that it is of. */
struct holdings;
int nft_query_holdings(struct netlink *nl, struct holdings **ret);
struct holdings *holdings_free(struct holdings *holdings);
bool holdings_are_empty(const struct holdings *holdings);
/* NIC by NIC, sorted by name; fn ends it early with a negative value, which is returned. */
typedef int (*holdings_fn)(const char *ifname, const struct elements *elements, void *userdata);
int holdings_each(const struct holdings *holdings, holdings_fn fn, void *userdata);

/* One answer to a dump of a set's elements; -EBADMSG when it is no whole one. */
typedef void (*nft_element_fn)(const struct element *element, const char *ifname, void *userdata);
int nft_parse_elements(const struct nlmsghdr *message, enum set_id set, nft_element_fn fn, void *userdata);
