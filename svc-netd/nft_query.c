#include "svc-netd/nft_query.h"

#include "svc-netd/netlink.h"
#include "svc-netd/nft_batch.h"

#include "lib/base/cleanup.h"

#include <netinet/in.h> /* before the kernel's, which then leaves out what is here */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET_COUNT_ATTRIBUTE 20 /* NFTA_SET_COUNT, not in Debian 12's headers */

enum {
	QUERY_ATTEMPTS = 8,
	DUMP_ATTEMPTS = 50,
};

static struct nlmsghdr *query_begin(char *buffer, int type, bool bridge)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *head;

	h->nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
	head = mnl_nlmsg_put_extra_header(h, sizeof(*head));
	head->nfgen_family = bridge ? NFPROTO_BRIDGE : NFPROTO_INET;
	head->version = NFNETLINK_V0;
	return h;
}

/* --- tables, rules and single elements --- */

static int on_any(const struct nlmsghdr *message, void *userdata)
{
	(void)message;
	(void)userdata;
	return 0;
}

bool nft_query_table(struct netlink *nl, bool bridge)
{
	char buffer[256];
	struct nlmsghdr *h = query_begin(buffer, NFT_MSG_GETTABLE, bridge);

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE_NAME);
	return netlink_query(nl, h, on_any, NULL) == 0;
}

static int on_rule(const struct nlmsghdr *message, void *userdata)
{
	size_t *n = userdata;

	*n += message->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE);
	return 0;
}

/* Chains cannot be listed by table, rules can, and a chain with rules cannot go without them. */
int nft_query_rule_count(struct netlink *nl, bool bridge, size_t *ret)
{
	int r = -EINTR;

	for (int i = 0; r == -EINTR && i < QUERY_ATTEMPTS; i++) {
		char buffer[256];
		struct nlmsghdr *h = query_begin(buffer, NFT_MSG_GETRULE, bridge);

		*ret = 0;
		h->nlmsg_flags |= NLM_F_DUMP;
		mnl_attr_put_strz(h, NFTA_RULE_TABLE, NFT_TABLE_NAME);
		r = netlink_query(nl, h, on_rule, ret);
	}
	return r;
}

int nft_query_element(struct netlink *nl, const struct element *element)
{
	const struct set_info *info = set_info(element->set);
	char buffer[512];
	struct nlmsghdr *h = query_begin(buffer, NFT_MSG_GETSETELEM, info->bridge);
	struct nlattr *list, *item, *key;

	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, info->name);
	list = mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
	item = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	key = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);
	mnl_attr_put(h, NFTA_DATA_VALUE, info->key_size, element->key);
	mnl_attr_nest_end(h, key);
	mnl_attr_nest_end(h, item);
	mnl_attr_nest_end(h, list);
	return netlink_query(nl, h, on_any, NULL);
}

/* --- holdings --- */

/* An element as it is found. */
struct found {
	struct element element;
	char ifname[IFNAME_MAX];
};

struct holdings {
	struct found *items; /* owned */
	size_t n, capacity;
	bool failed;
};

struct holdings *holdings_free(struct holdings *holdings)
{
	if (!holdings)
		return NULL;
	free(holdings->items);
	free(holdings);
	return NULL;
}

bool holdings_are_empty(const struct holdings *holdings)
{
	return holdings->n == 0;
}

static void found_add(const struct element *element, const char *ifname, void *userdata)
{
	struct holdings *list = userdata;

	if (list->n == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 64;
		struct found *items = reallocarray(list->items, capacity, sizeof(*items));

		if (!items) {
			list->failed = true;
			return;
		}
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->n].element = *element;
	(void)snprintf(list->items[list->n++].ifname, IFNAME_MAX, "%s", ifname);
}

static int found_compare(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int r = strcmp(x->ifname, y->ifname);

	return r ?: element_compare(&x->element, &y->element);
}

static const struct nlattr *nested_find(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, nest)
	{
		if (mnl_attr_get_type(attr) == type)
			return attr;
	}
	return NULL;
}

static bool data_take(const struct nlattr *item, uint16_t type, uint8_t *ret, size_t size)
{
	const struct nlattr *data = nested_find(item, type),
	                    *value = data ? nested_find(data, NFTA_DATA_VALUE) : NULL;

	if (!value || mnl_attr_get_payload_len(value) != size)
		return false;
	memcpy(ret, mnl_attr_get_payload(value), size);
	return true;
}

/* The comment is type, length, text with its NUL. */
static bool comment_take(const struct nlattr *item, char ret[static IFNAME_MAX])
{
	const struct nlattr *attr = nested_find(item, NFTA_SET_ELEM_USERDATA);
	const uint8_t *bytes = attr ? mnl_attr_get_payload(attr) : NULL;
	size_t size = attr ? mnl_attr_get_payload_len(attr) : 0;

	if (size < 3 || bytes[0] != 0 || bytes[1] > size - 2 || bytes[1] > IFNAME_MAX ||
	        bytes[1 + bytes[1]] != 0)
		return false;
	memcpy(ret, bytes + 2, bytes[1]);
	return ifname_is_valid(ret);
}

static bool element_take(const struct nlattr *item, enum set_id set, nft_element_fn fn, void *userdata)
{
	const struct set_info *info = set_info(set);
	struct element element = { .set = (uint8_t)set };
	char ifname[IFNAME_MAX] = "";

	if (!data_take(item, NFTA_SET_ELEM_KEY, element.key, info->key_size) ||
	        (info->data_size && !data_take(item, NFTA_SET_ELEM_DATA, element.data, info->data_size)))
		return false;
	if (!info->by_nic) {
		/* Without one it is nobody's: listed under a name that no interface has. */
		if (!comment_take(item, ifname))
			(void)snprintf(ifname, sizeof(ifname), "?");
	} else if (element.key[IFNAME_MAX - 1] == 0 && ifname_is_valid((const char *)element.key)) {
		memcpy(ifname, element.key, IFNAME_MAX);
	} else {
		return false;
	}
	fn(&element, ifname, userdata);
	return true;
}

int nft_parse_elements(const struct nlmsghdr *message, enum set_id set, nft_element_fn fn, void *userdata)
{
	const struct nlattr *attr, *item;

	/* the kernel pads every attribute; libmnl would read up to the padding that a cut message lacks */
	if (message->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM) ||
	        message->nlmsg_len % NLMSG_ALIGNTO != 0 ||
	        mnl_nlmsg_get_payload_len(message) < sizeof(struct nfgenmsg))
		return -EBADMSG;
	mnl_attr_for_each(attr, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attr) != NFTA_SET_ELEM_LIST_ELEMENTS)
			continue;
		mnl_attr_for_each_nested(item, attr)
		{
			if (!element_take(item, set, fn, userdata))
				return -EBADMSG;
		}
	}
	return 0;
}

struct dump_job {
	enum set_id set;
	struct holdings *list;
};

static int on_elements(const struct nlmsghdr *message, void *userdata)
{
	struct dump_job *job = userdata;

	return nft_parse_elements(message, job->set, found_add, job->list);
}

static int set_dump_once(struct netlink *nl, enum set_id set, struct holdings *list)
{
	const struct set_info *info = set_info(set);
	struct dump_job job = { .set = set, .list = list };
	char buffer[256];
	struct nlmsghdr *h = query_begin(buffer, NFT_MSG_GETSETELEM, info->bridge);

	h->nlmsg_flags |= NLM_F_DUMP;
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, info->name);
	return netlink_query(nl, h, on_elements, &job);
}

/* Sorts what is behind the first `from` and drops doubles. */
static void found_finish(struct holdings *list, size_t from)
{
	size_t n = from;

	if (list->n > from)
		qsort(list->items + from, list->n - from, sizeof(*list->items), found_compare);
	for (size_t i = from; i < list->n; i++) {
		if (n == from || found_compare(&list->items[n - 1], &list->items[i]) != 0)
			list->items[n++] = list->items[i];
	}
	list->n = n;
}

static int on_set(const struct nlmsghdr *message, void *userdata)
{
	const struct nlattr *attr;
	size_t *n = userdata;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(struct nfgenmsg))
		return -EBADMSG;
	mnl_attr_for_each(attr, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attr) == SET_COUNT_ATTRIBUTE &&
		        mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			*n = ntohl(mnl_attr_get_u32(attr));
	}
	return 0;
}

/* How many elements the kernel says there are; SIZE_MAX where it does not say (before 6.16). */
static size_t set_count(struct netlink *nl, enum set_id set)
{
	const struct set_info *info = set_info(set);
	size_t n = SIZE_MAX;
	char buffer[256];
	struct nlmsghdr *h = query_begin(buffer, NFT_MSG_GETSET, info->bridge);

	mnl_attr_put_strz(h, NFTA_SET_TABLE, NFT_TABLE_NAME);
	mnl_attr_put_strz(h, NFTA_SET_NAME, info->name);
	return netlink_query(nl, h, on_set, &n) < 0 ? SIZE_MAX : n;
}

/* A hash that the kernel is still resizing is dumped with elements left out and others doubled, and nothing
 * says so. It is read until there are as many as the kernel says, or else until two readings agree. */
static int set_dump(struct netlink *nl, enum set_id set, struct holdings *list)
{
	size_t start = list->n, n_expected = set_count(nl, set);
	bool known = n_expected != SIZE_MAX;

	for (int i = 0; i < DUMP_ATTEMPTS; i++) {
		size_t n;
		int r;

		list->n = start;
		r = set_dump_once(nl, set, list);
		if (r == -ENOENT)
			return 0;
		if (r < 0 && r != -EINTR)
			return r;
		found_finish(list, start);
		n = list->n - start;
		/* Nothing is nothing: an empty hash has nothing to resize. */
		if (r == 0 && (n == n_expected || (!known && n == 0)))
			return 0;
		if (known)
			n_expected = set_count(nl, set);
		else
			n_expected = r == 0 ? n : SIZE_MAX;
	}
	return -EAGAIN;
}

int nft_query_holdings(struct netlink *nl, struct holdings **ret)
{
	struct holdings *list = calloc(1, sizeof(*list));
	int r = list ? 0 : -ENOMEM;

	for (enum set_id set = 0; set < SET_COUNT && r == 0; set++)
		r = set_dump(nl, set, list);
	if (r == 0 && list->failed)
		r = -ENOMEM;
	if (r < 0) {
		holdings_free(list);
		return r;
	}
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), found_compare);
	*ret = list;
	return 0;
}

int holdings_each(const struct holdings *holdings, holdings_fn fn, void *userdata)
{
	int r = 0;

	for (size_t i = 0; i < holdings->n && r >= 0;) {
		const char *ifname = holdings->items[i].ifname;
		struct elements elements = { 0 };

		for (; i < holdings->n && strcmp(holdings->items[i].ifname, ifname) == 0; i++)
			elements_add(&elements, &holdings->items[i].element);
		r = elements_finish(&elements);
		if (r == 0)
			r = fn(ifname, &elements, userdata);
		elements_done(&elements);
	}
	return r < 0 ? r : 0;
}
