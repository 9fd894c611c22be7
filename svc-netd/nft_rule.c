#include "svc-netd/nft_rule.h"

#include "svc-netd/nft_batch.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

/* The kernel puts a number for the %d; until then a set of the same transaction is known by the sender's
 * number. */
#define ANONYMOUS_NAME "__set%d"

enum {
	IP6_FRAGMENT_HEADER = 44,
	/* Sets of a transaction are numbered by who sends it: named ones by their id, anonymous ones above.
	 */
	ANONYMOUS_FIRST = 1 << 10,
};

static uint32_t words(uint32_t size)
{
	return (size + 3) / 4;
}

/* Register of word n: 32 bits each. */
static uint32_t reg(uint32_t n)
{
	return htonl(NFT_REG32_00 + n);
}

struct expr {
	struct nlattr *item, *data;
};

static struct expr expr_begin(struct nlmsghdr *h, const char *name)
{
	struct expr e = { .item = mnl_attr_nest_start(h, NFTA_LIST_ELEM) };

	mnl_attr_put_strz(h, NFTA_EXPR_NAME, name);
	e.data = mnl_attr_nest_start(h, NFTA_EXPR_DATA);
	return e;
}

static void expr_end(struct nlmsghdr *h, struct expr e)
{
	mnl_attr_nest_end(h, e.data);
	mnl_attr_nest_end(h, e.item);
}

static void value_put(struct nlmsghdr *h, uint16_t type, const void *data, size_t size)
{
	struct nlattr *nest = mnl_attr_nest_start(h, type);

	mnl_attr_put(h, NFTA_DATA_VALUE, size, data);
	mnl_attr_nest_end(h, nest);
}

static void mask_put(struct nlmsghdr *h, uint32_t word, uint32_t size, const void *mask)
{
	static const uint8_t zeroes[NFT_VALUE_MAX];
	struct expr e = expr_begin(h, "bitwise");

	mnl_attr_put_u32(h, NFTA_BITWISE_SREG, reg(word));
	mnl_attr_put_u32(h, NFTA_BITWISE_DREG, reg(word));
	mnl_attr_put_u32(h, NFTA_BITWISE_LEN, htonl(size));
	value_put(h, NFTA_BITWISE_MASK, mask, size);
	value_put(h, NFTA_BITWISE_XOR, zeroes, size);
	expr_end(h, e);
}

static void first_bits_put(struct nlmsghdr *h, uint32_t word, const struct nft_operand *of)
{
	uint8_t mask[NFT_VALUE_MAX] = { 0 };

	memset(mask, 0xff, of->n_bits / 8U);
	if (of->n_bits % 8)
		mask[of->n_bits / 8] = (uint8_t)(0xff00U >> of->n_bits % 8);
	mask_put(h, word, of->size, mask);
}

static void operand_put(struct nlmsghdr *h, uint32_t word, const struct nft_operand *of)
{
	struct expr e;

	switch (of->kind) {
	case OPERAND_NONE:
		return;
	case OPERAND_META:
		e = expr_begin(h, "meta");
		mnl_attr_put_u32(h, NFTA_META_KEY, htonl(of->what));
		mnl_attr_put_u32(h, NFTA_META_DREG, reg(word));
		break;
	case OPERAND_PAYLOAD:
		e = expr_begin(h, "payload");
		mnl_attr_put_u32(h, NFTA_PAYLOAD_DREG, reg(word));
		mnl_attr_put_u32(h, NFTA_PAYLOAD_BASE, htonl(of->what));
		mnl_attr_put_u32(h, NFTA_PAYLOAD_OFFSET, htonl(of->offset));
		mnl_attr_put_u32(h, NFTA_PAYLOAD_LEN, htonl(of->size));
		break;
	case OPERAND_IP6_FRAGMENT:
	case OPERAND_IP6_IS_FRAGMENT:
		e = expr_begin(h, "exthdr");
		mnl_attr_put_u32(h, NFTA_EXTHDR_DREG, reg(word));
		mnl_attr_put_u8(h, NFTA_EXTHDR_TYPE, IP6_FRAGMENT_HEADER);
		mnl_attr_put_u32(h, NFTA_EXTHDR_OFFSET, htonl(of->offset));
		mnl_attr_put_u32(h, NFTA_EXTHDR_LEN, htonl(of->size));
		if (of->kind == OPERAND_IP6_IS_FRAGMENT)
			mnl_attr_put_u32(h, NFTA_EXTHDR_FLAGS, htonl(NFT_EXTHDR_F_PRESENT));
		break;
	case OPERAND_FIB_DADDR_TYPE:
		e = expr_begin(h, "fib");
		mnl_attr_put_u32(h, NFTA_FIB_DREG, reg(word));
		mnl_attr_put_u32(h, NFTA_FIB_RESULT, htonl(NFT_FIB_RESULT_ADDRTYPE));
		mnl_attr_put_u32(h, NFTA_FIB_FLAGS, htonl(NFTA_FIB_F_DADDR));
		break;
	case OPERAND_CT_STATUS:
		e = expr_begin(h, "ct");
		mnl_attr_put_u32(h, NFTA_CT_KEY, htonl(NFT_CT_STATUS));
		mnl_attr_put_u32(h, NFTA_CT_DREG, reg(word));
		break;
	}
	expr_end(h, e);
	if (of->masked)
		first_bits_put(h, word, of);
}

static void operands_put(struct nlmsghdr *h, const struct nft_term *term)
{
	uint32_t word = 0;

	for (size_t i = 0; i < NFT_OPERANDS_MAX && term->of[i].kind != OPERAND_NONE; i++) {
		operand_put(h, word, &term->of[i]);
		word += words(term->of[i].size);
	}
}

static void compare_put(struct nlmsghdr *h, bool not, const void *value, size_t size)
{
	struct expr e = expr_begin(h, "cmp");

	mnl_attr_put_u32(h, NFTA_CMP_SREG, reg(0));
	mnl_attr_put_u32(h, NFTA_CMP_OP, htonl(not ? NFT_CMP_NEQ : NFT_CMP_EQ));
	value_put(h, NFTA_CMP_DATA, value, size);
	expr_end(h, e);
}

static void lookup_put(struct nlmsghdr *h, const char *set, uint32_t set_number, bool not, bool map)
{
	struct expr e = expr_begin(h, "lookup");

	mnl_attr_put_strz(h, NFTA_LOOKUP_SET, set);
	mnl_attr_put_u32(h, NFTA_LOOKUP_SET_ID, htonl(set_number));
	mnl_attr_put_u32(h, NFTA_LOOKUP_SREG, reg(0));
	if (map)
		mnl_attr_put_u32(h, NFTA_LOOKUP_DREG, reg(0));
	if (not )
		mnl_attr_put_u32(h, NFTA_LOOKUP_FLAGS, htonl(NFT_LOOKUP_F_INV));
	expr_end(h, e);
}

static void verdict_put(struct nlmsghdr *h, const struct nft_term *term)
{
	struct expr e = expr_begin(h, "immediate");
	struct nlattr *data, *verdict;

	mnl_attr_put_u32(h, NFTA_IMMEDIATE_DREG, htonl(NFT_REG_VERDICT));
	data = mnl_attr_nest_start(h, NFTA_IMMEDIATE_DATA);
	verdict = mnl_attr_nest_start(h, NFTA_DATA_VERDICT);
	mnl_attr_put_u32(h, NFTA_VERDICT_CODE, htonl((uint32_t)term->verdict));
	if (term->chain)
		mnl_attr_put_strz(h, NFTA_VERDICT_CHAIN, term->chain);
	mnl_attr_nest_end(h, verdict);
	mnl_attr_nest_end(h, data);
	expr_end(h, e);
}

/* The map's value is the guest's address and, in the word behind it, the port. */
static void dnat_put(struct nlmsghdr *h, const struct nft_term *term)
{
	uint32_t port = words(term->family == NFPROTO_IPV4 ? 4 : 16);
	struct expr e = expr_begin(h, "nat");

	mnl_attr_put_u32(h, NFTA_NAT_TYPE, htonl(NFT_NAT_DNAT));
	mnl_attr_put_u32(h, NFTA_NAT_FAMILY, htonl(term->family));
	mnl_attr_put_u32(h, NFTA_NAT_REG_ADDR_MIN, reg(0));
	mnl_attr_put_u32(h, NFTA_NAT_REG_ADDR_MAX, reg(0));
	mnl_attr_put_u32(h, NFTA_NAT_REG_PROTO_MIN, reg(port));
	mnl_attr_put_u32(h, NFTA_NAT_REG_PROTO_MAX, reg(port));
	mnl_attr_put_u32(h, NFTA_NAT_FLAGS, htonl(NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED));
	expr_end(h, e);
}

static void term_put(struct nlmsghdr *h, const struct nft_term *term, uint32_t anonymous)
{
	static const uint8_t no_mask[NFT_VALUE_MAX];

	operands_put(h, term);
	switch (term->kind) {
	case TERM_NONE:
		break;
	case TERM_IS:
		if (memcmp(term->mask, no_mask, sizeof(no_mask)) != 0)
			mask_put(h, 0, term->of[0].size, term->mask);
		compare_put(h, term->not, term->value, term->of[0].size);
		break;
	case TERM_NUMBER:
		if (term->number_mask)
			mask_put(h, 0, sizeof(term->number_mask), &term->number_mask);
		compare_put(h, term->not, &term->number, sizeof(term->number));
		break;
	case TERM_IN:
		lookup_put(h, set_info(term->set)->name, term->set, term->not, false);
		break;
	case TERM_ONE_OF:
		lookup_put(h, ANONYMOUS_NAME, ANONYMOUS_FIRST + anonymous, term->not, false);
		break;
	case TERM_DO:
		verdict_put(h, term);
		break;
	case TERM_DNAT:
		lookup_put(h, set_info(term->set)->name, term->set, false, true);
		dnat_put(h, term);
		break;
	case TERM_MASQUERADE:
		expr_end(h, expr_begin(h, "masq"));
		break;
	}
}

void nft_batch_add_chain(struct nft_batch *batch, int family, const struct nft_chain *chain)
{
	struct nlmsghdr *h = nft_batch_begin(batch, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE, chain->name);
	struct nlattr *hook;

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, chain->name);
	if (chain->type) {
		hook = mnl_attr_nest_start(h, NFTA_CHAIN_HOOK);
		mnl_attr_put_u32(h, NFTA_HOOK_HOOKNUM, htonl(chain->hook));
		mnl_attr_put_u32(h, NFTA_HOOK_PRIORITY, htonl((uint32_t)chain->priority));
		mnl_attr_nest_end(h, hook);
		mnl_attr_put_strz(h, NFTA_CHAIN_TYPE, chain->type);
		mnl_attr_put_u32(h, NFTA_CHAIN_POLICY, htonl(NF_ACCEPT));
	}
	nft_batch_end(batch, h);
}

static struct nlmsghdr *set_begin(struct nft_batch *batch, int family, const char *name, uint32_t number,
        uint32_t flags, uint32_t key_type, uint32_t key_size)
{
	struct nlmsghdr *h = nft_batch_begin(batch, NFT_MSG_NEWSET, family, NLM_F_CREATE, name);

	if (!h)
		return NULL;
	mnl_attr_put_strz(h, NFTA_SET_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_SET_NAME, name);
	mnl_attr_put_u32(h, NFTA_SET_FLAGS, htonl(flags));
	mnl_attr_put_u32(h, NFTA_SET_KEY_TYPE, htonl(key_type));
	mnl_attr_put_u32(h, NFTA_SET_KEY_LEN, htonl(key_size));
	mnl_attr_put_u32(h, NFTA_SET_ID, htonl(number));
	return h;
}

void nft_batch_add_set(struct nft_batch *batch, enum set_id set)
{
	/* As nft writes it: type, length, value. */
	static const struct {
		uint8_t type, size;
		uint32_t value;
	} __attribute__((packed)) key_order = { .type = 0, .size = 4, .value = 1 };
	const struct set_info *info = set_info(set);
	int family = info->bridge ? NFPROTO_BRIDGE : NFPROTO_INET;
	struct nlmsghdr *h = set_begin(batch, family, info->name, set, info->data_size ? NFT_SET_MAP : 0,
	        info->key_type, info->key_size);

	if (!h)
		return;
	/* Without this hint nft reads a name from its end. */
	if (info->key_size == IFNAME_MAX)
		mnl_attr_put(h, NFTA_SET_USERDATA, sizeof(key_order), &key_order);
	if (info->data_size) {
		mnl_attr_put_u32(h, NFTA_SET_DATA_TYPE, htonl(info->data_type));
		mnl_attr_put_u32(h, NFTA_SET_DATA_LEN, htonl(info->data_size));
	}
	nft_batch_end(batch, h);
}

static void anonymous_add(struct nft_batch *batch, int family, const struct nft_term *term,
        uint32_t anonymous, const char *label)
{
	struct nlattr *list, *item;
	struct nlmsghdr *h;

	h = set_begin(batch, family, ANONYMOUS_NAME, ANONYMOUS_FIRST + anonymous,
	        NFT_SET_ANONYMOUS | NFT_SET_CONSTANT, term->values_type, 1);
	if (!h)
		return;
	nft_batch_end(batch, h);
	h = nft_batch_begin(batch, NFT_MSG_NEWSETELEM, family, NLM_F_CREATE, label);
	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, ANONYMOUS_NAME);
	mnl_attr_put_u32(h, NFTA_SET_ELEM_LIST_SET_ID, htonl(ANONYMOUS_FIRST + anonymous));
	list = mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
	for (size_t i = 0; i < NFT_VALUES_MAX && term->values[i]; i++) {
		item = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
		value_put(h, NFTA_SET_ELEM_KEY, &term->values[i], 1);
		mnl_attr_nest_end(h, item);
	}
	mnl_attr_nest_end(h, list);
	nft_batch_end(batch, h);
}

void nft_batch_add_rule(
        struct nft_batch *batch, int family, const struct nft_rule *rule, uint32_t *n_anonymous)
{
	uint32_t anonymous = *n_anonymous;
	struct nlattr *list;
	struct nlmsghdr *h;

	for (size_t i = 0; i < NFT_TERMS_MAX && rule->terms[i].kind != TERM_NONE; i++) {
		if (rule->terms[i].kind == TERM_ONE_OF)
			anonymous_add(batch, family, &rule->terms[i], (*n_anonymous)++, rule->chain);
	}
	h = nft_batch_begin(batch, NFT_MSG_NEWRULE, family, NLM_F_CREATE | NLM_F_APPEND, rule->chain);
	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_RULE_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_RULE_CHAIN, rule->chain);
	list = mnl_attr_nest_start(h, NFTA_RULE_EXPRESSIONS);
	for (size_t i = 0; i < NFT_TERMS_MAX && rule->terms[i].kind != TERM_NONE; i++) {
		term_put(h, &rule->terms[i], anonymous);
		anonymous += rule->terms[i].kind == TERM_ONE_OF;
	}
	mnl_attr_nest_end(h, list);
	nft_batch_end(batch, h);
}
