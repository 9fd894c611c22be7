/* Static nftables rules as data: what a rule looks at and what follows, in the words of nft. */
#pragma once

#include "svc-netd/element.h"

#include <stdbool.h>
#include <stdint.h>

struct nft_batch;

enum { NFT_OPERANDS_MAX = 4, NFT_VALUE_MAX = 16, NFT_VALUES_MAX = 8, NFT_TERMS_MAX = 8 };

/* A piece of a packet, or of what is known about it. */
enum nft_operand_kind {
	OPERAND_NONE,
	OPERAND_META,            /* what: NFT_META_* */
	OPERAND_PAYLOAD,         /* what: NFT_PAYLOAD_* base */
	OPERAND_IP6_FRAGMENT,    /* of the IPv6 fragment header */
	OPERAND_IP6_IS_FRAGMENT, /* 1 or 0 */
	OPERAND_FIB_DADDR_TYPE,  /* RTN_*, a number */
	OPERAND_CT_STATUS,       /* IPS_*, a number */
};

struct nft_operand {
	enum nft_operand_kind kind;
	uint8_t what;
	uint8_t offset; /* bytes */
	uint8_t size;   /* bytes */
	bool masked;    /* only the first n_bits are kept */
	uint8_t n_bits;
};

enum nft_term_kind {
	TERM_NONE,
	TERM_IS,     /* of[0] & mask == value, in network order */
	TERM_NUMBER, /* of[0] & number_mask == number, for what the kernel keeps in its own order */
	TERM_IN,     /* the operands side by side are an element of set */
	TERM_ONE_OF, /* of[0] is one of values */
	TERM_DO,     /* verdict */
	TERM_DNAT,   /* to what map `set` has for the operands; nothing when it has nothing */
	TERM_MASQUERADE,
};

struct nft_term {
	enum nft_term_kind kind;
	bool not ;
	uint8_t family; /* of TERM_DNAT: NFPROTO_IPV4 or NFPROTO_IPV6 */
	enum set_id set;
	struct nft_operand of[NFT_OPERANDS_MAX];
	uint8_t value[NFT_VALUE_MAX], mask[NFT_VALUE_MAX]; /* a mask of zeroes is none */
	uint32_t number, number_mask;                      /* so is 0 */
	uint8_t values[NFT_VALUES_MAX];                    /* ends with 0 */
	uint8_t values_type;                               /* as nft numbers data types */
	int verdict; /* NF_DROP, NF_ACCEPT, NFT_RETURN, NFT_JUMP, NFT_GOTO */
	const char *chain;
};

struct nft_rule {
	const char *chain;
	struct nft_term terms[NFT_TERMS_MAX]; /* up to the first TERM_NONE */
};

struct nft_chain {
	const char *name;
	const char *type; /* "filter" or "nat"; NULL for a chain that is only gone to */
	uint32_t hook;
	int32_t priority;
};

void nft_batch_add_chain(struct nft_batch *batch, int family, const struct nft_chain *chain);
void nft_batch_add_set(struct nft_batch *batch, enum set_id set);
/* The transaction numbers its anonymous sets with *n_anonymous, which starts at 0. */
void nft_batch_add_rule(
        struct nft_batch *batch, int family, const struct nft_rule *rule, uint32_t *n_anonymous);
