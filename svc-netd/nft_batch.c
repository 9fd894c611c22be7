#include "svc-netd/nft_batch.h"

#include "svc-netd/element.h"
#include "svc-netd/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

enum {
	MESSAGE_ROOM = 48 << 10, /* one message; a nested attribute ends at 64 KiB */
	ELEMENTS_PER_MESSAGE = 200,
	COMMENT_TYPE = 0, /* as nft writes comments of elements: type, length, text */
};

struct nft_batch {
	char *data; /* owned */
	size_t size, capacity;
	size_t last;         /* where the last message begins */
	uint32_t n;          /* messages */
	const char **labels; /* owned array of weak strings, one for each message */
	size_t labels_capacity;
	bool failed;
	/* the message that elements of one set are being put into */
	struct nlmsghdr *open;
	struct nlattr *open_list;
	int open_type;
	enum set_id open_set;
	unsigned open_count;
};

struct nft_batch *nft_batch_new(void)
{
	return calloc(1, sizeof(struct nft_batch));
}

struct nft_batch *nft_batch_free(struct nft_batch *batch)
{
	if (!batch)
		return NULL;
	free(batch->data);
	free(batch->labels);
	free(batch);
	return NULL;
}

static void elements_close(struct nft_batch *batch)
{
	if (!batch->open)
		return;
	mnl_attr_nest_end(batch->open, batch->open_list);
	nft_batch_end(batch, batch->open);
	batch->open = NULL;
}

size_t nft_batch_size(const struct nft_batch *batch)
{
	return batch->size;
}

bool nft_batch_is_empty(const struct nft_batch *batch)
{
	return batch->n == 0 && !batch->open;
}

static bool batch_reserve(struct nft_batch *batch)
{
	if (batch->capacity - batch->size < MESSAGE_ROOM) {
		size_t capacity = batch->capacity ? batch->capacity * 2 : 2 * (size_t)MESSAGE_ROOM;
		char *data = realloc(batch->data, capacity);

		if (!data)
			return false;
		batch->data = data;
		batch->capacity = capacity;
	}
	if (batch->n == batch->labels_capacity) {
		size_t capacity = batch->labels_capacity ? batch->labels_capacity * 2 : 16;
		const char **labels = reallocarray(batch->labels, capacity, sizeof(*labels));

		if (!labels)
			return false;
		batch->labels = labels;
		batch->labels_capacity = capacity;
	}
	return true;
}

static struct nlmsghdr *message_begin(
        struct nft_batch *batch, uint16_t type, int family, uint16_t flags, const char *label)
{
	struct nlmsghdr *h;
	struct nfgenmsg *head;

	if (batch->failed || !batch_reserve(batch)) {
		batch->failed = true;
		return NULL;
	}
	h = mnl_nlmsg_put_header(batch->data + batch->size);
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->nfgen_family = (uint8_t)family;
	head->version = NFNETLINK_V0;
	head->res_id = type < NLMSG_MIN_TYPE + 2 ? htons(NFNL_SUBSYS_NFTABLES) : 0;
	batch->labels[batch->n] = label;
	return h;
}

struct nlmsghdr *nft_batch_begin(
        struct nft_batch *batch, int type, int family, uint16_t flags, const char *label)
{
	elements_close(batch);
	if (batch->n == 0) {
		struct nlmsghdr *h = message_begin(batch, NFNL_MSG_BATCH_BEGIN, AF_UNSPEC, 0, "begin");

		if (h)
			nft_batch_end(batch, h);
	}
	return message_begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), family, flags, label);
}

void nft_batch_end(struct nft_batch *batch, struct nlmsghdr *message)
{
	batch->last = batch->size;
	batch->size += NLMSG_ALIGN(message->nlmsg_len);
	batch->n++;
}

void nft_batch_add_table(struct nft_batch *batch, int family, uint32_t flags)
{
	struct nlmsghdr *h = nft_batch_begin(batch, NFT_MSG_NEWTABLE, family, NLM_F_CREATE, "table");

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE_NAME);
	mnl_attr_put_u32(h, NFTA_TABLE_FLAGS, htonl(flags));
	nft_batch_end(batch, h);
}

void nft_batch_delete_table(struct nft_batch *batch, int family)
{
	struct nlmsghdr *h = nft_batch_begin(batch, NFT_MSG_DELTABLE, family, 0, "table");

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE_NAME);
	nft_batch_end(batch, h);
}

/* Elements of one set that follow each other share a message. */
static struct nlmsghdr *elements_open(struct nft_batch *batch, int type, enum set_id set)
{
	const struct set_info *info = set_info(set);

	if (batch->open && batch->open_type == type && batch->open_set == set &&
	        batch->open_count < ELEMENTS_PER_MESSAGE)
		return batch->open;
	batch->open = nft_batch_begin(batch, type, info->bridge ? NFPROTO_BRIDGE : NFPROTO_INET,
	        type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0, info->name);
	if (!batch->open)
		return NULL;
	mnl_attr_put_strz(batch->open, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(batch->open, NFTA_SET_ELEM_LIST_SET, info->name);
	batch->open_list = mnl_attr_nest_start(batch->open, NFTA_SET_ELEM_LIST_ELEMENTS);
	batch->open_type = type;
	batch->open_set = set;
	batch->open_count = 0;
	return batch->open;
}

static void value_put(struct nlmsghdr *h, uint16_t type, const void *data, size_t size)
{
	struct nlattr *nest = mnl_attr_nest_start(h, type);

	mnl_attr_put(h, NFTA_DATA_VALUE, size, data);
	mnl_attr_nest_end(h, nest);
}

static void element_put(struct nft_batch *batch, int type, const struct element *element, const char *comment)
{
	const struct set_info *info = set_info(element->set);
	struct nlmsghdr *h = elements_open(batch, type, element->set);
	struct nlattr *item;

	if (!h)
		return;
	item = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	value_put(h, NFTA_SET_ELEM_KEY, element->key, info->key_size);
	if (info->data_size && type == NFT_MSG_NEWSETELEM)
		value_put(h, NFTA_SET_ELEM_DATA, element->data, info->data_size);
	if (comment) {
		uint8_t userdata[2 + IFNAME_MAX] = { COMMENT_TYPE,
			(uint8_t)(strnlen(comment, IFNAME_MAX - 1) + 1) };

		memcpy(userdata + 2, comment, userdata[1] - 1U);
		mnl_attr_put(h, NFTA_SET_ELEM_USERDATA, 2U + userdata[1], userdata);
	}
	mnl_attr_nest_end(h, item);
	batch->open_count++;
}

void nft_batch_add_element(struct nft_batch *batch, const struct element *element, const char *comment)
{
	element_put(batch, NFT_MSG_NEWSETELEM, element, set_info(element->set)->by_nic ? NULL : comment);
}

void nft_batch_delete_element(struct nft_batch *batch, const struct element *element)
{
	element_put(batch, NFT_MSG_DELSETELEM, element, NULL);
}

static void batch_reset(struct nft_batch *batch)
{
	batch->size = 0;
	batch->n = 0;
	batch->failed = false;
	batch->open = NULL;
}

/* The word of a refused rule that the kernel did not like, which tells what it was built without; NULL for none. */
static const char *expression_refused(const struct nft_batch *batch, uint32_t refused, uint32_t offset)
{
	const struct nlmsghdr *h = NULL;
	const struct nlattr *expression, *attr;

	for (size_t at = 0; at < batch->size; at += NLMSG_ALIGN(h->nlmsg_len)) {
		h = (const void *)(batch->data + at);
		if (h->nlmsg_seq == refused)
			break;
	}
	if (!h || h->nlmsg_seq != refused || h->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE) ||
	        offset % NLMSG_ALIGNTO != 0 || offset < sizeof(*h) + sizeof(struct nfgenmsg) ||
	        offset >= h->nlmsg_len)
		return NULL;
	expression = (const void *)((const char *)h + offset);
	if (!mnl_attr_ok(expression, (int)(h->nlmsg_len - offset)) ||
	        mnl_attr_get_type(expression) != NFTA_LIST_ELEM)
		return NULL;
	mnl_attr_for_each_nested(attr, expression)
	{
		if (mnl_attr_get_type(attr) == NFTA_EXPR_NAME &&
		        mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(attr);
	}
	return NULL;
}

int nft_batch_commit(struct nft_batch *batch, struct netlink *nl, struct err *err)
{
	struct nlmsghdr *end, *last;
	uint32_t first, refused = 0, n;
	size_t last_at;
	int r;

	if (nft_batch_is_empty(batch) && !batch->failed)
		return 0;
	elements_close(batch);
	last_at = batch->last;
	end = message_begin(batch, NFNL_MSG_BATCH_END, AF_UNSPEC, 0, "end");
	if (!end) {
		batch_reset(batch);
		return err_set(err, -ENOMEM, "out of memory for nftables rules");
	}
	nft_batch_end(batch, end);
	n = batch->n;
	first = netlink_sequence(nl, n);
	for (size_t at = 0, i = 0; at < batch->size; i++) {
		struct nlmsghdr *h = (void *)(batch->data + at);

		h->nlmsg_seq = first + (uint32_t)i;
		at += NLMSG_ALIGN(h->nlmsg_len);
	}
	/* Acknowledging the last says that all were taken: a refused one is answered whether it asked or not,
	 * and the answers come once the whole was applied or undone. */
	last = (void *)(batch->data + last_at);
	last->nlmsg_flags |= NLM_F_ACK;
	r = netlink_transact(nl, batch->data, batch->size, last->nlmsg_seq, &refused);
	if (r < 0) {
		const char *label = refused - first < n ? batch->labels[refused - first] : "transaction";
		const char *word = expression_refused(batch, refused, netlink_culprit(nl));

		r = err_set(err, r, "nftables refused %s%s'%s': %s%s", word ?: "", word ? " in " : "", label,
		        strerror(-r), netlink_words(nl));
	}
	batch_reset(batch);
	return r;
}
