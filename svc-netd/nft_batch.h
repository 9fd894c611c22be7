/* One nftables transaction: messages that the kernel applies together or not at all. Straight over netlink,
 * because a table with an owner takes changes from its owner's socket only, and libnftables has one of its
 * own. */
#pragma once

#include "lib/base/err.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct element;
struct netlink;
struct nft_batch;

enum {
	NFT_TABLE_NAME_MAX = 32, /* of those we care about */
};
#define NFT_TABLE_NAME "bc" /* in family bridge, and in family inet */

struct nft_batch *nft_batch_new(void); /* NULL: out of memory */
struct nft_batch *nft_batch_free(struct nft_batch *batch);
size_t nft_batch_size(const struct nft_batch *batch); /* bytes */
bool nft_batch_is_empty(const struct nft_batch *batch);

/* A message with room for its attributes, to be closed with nft_batch_end() before the next. type is
 * NFT_MSG_*, family NFPROTO_*; label is weak and names it when the kernel refuses. NULL when memory ran
 * out, which commit then says. */
struct nlmsghdr *nft_batch_begin(
        struct nft_batch *batch, int type, int family, uint16_t flags, const char *label);
void nft_batch_end(struct nft_batch *batch, struct nlmsghdr *message);

/* nft knows tables, chains and sets by name, so all of these are order-free to write but not to apply. */
void nft_batch_add_table(struct nft_batch *batch, int family, uint32_t flags);
void nft_batch_delete_table(struct nft_batch *batch, int family); /* must be there */
/* comment is the NIC an element is of where its key does not say so; NULL for none. */
void nft_batch_add_element(struct nft_batch *batch, const struct element *element, const char *comment);
void nft_batch_delete_element(struct nft_batch *batch, const struct element *element);

/* Applies everything at once. The batch is empty afterwards. -errno of the first refusal, in words that
 * name it. */
int nft_batch_commit(struct nft_batch *batch, struct netlink *nl, struct err *err);
