/* The two tables netd owns, with everything in them that does not depend on NICs: `bridge bc`, which
 * filters, and `inet bc`, which publishes ports. docs/netd.md shows them as nft prints them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nft_batch;

/* Tables, chains, sets and rules, for tables that are not there. flags are NFT_TABLE_F_*. */
void tables_add_filter(struct nft_batch *batch, uint32_t flags);
/* Without publishing, `inet bc` has only the guard that the filter needs. */
void tables_add_inet(struct nft_batch *batch, uint32_t flags, bool publish);

/* How many rules that makes. */
size_t tables_filter_count(void);
size_t tables_inet_count(bool publish);
