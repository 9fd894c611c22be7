#include "svc-netd/element.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Data types as `nft` numbers them; a concatenation is six bits for each. */
enum {
	TYPE_IPADDR = 7,
	TYPE_IP6ADDR = 8,
	TYPE_ETHERADDR = 9,
	TYPE_PROTO = 12,
	TYPE_SERVICE = 13,
	TYPE_IFNAME = 41,
	TYPE_BITS = 6,
};
#define CONCAT2(a, b) ((uint32_t)(a) << TYPE_BITS | (b))
#define CONCAT3(a, b, c) (CONCAT2(a, b) << TYPE_BITS | (c))
#define CONCAT4(a, b, c, d) (CONCAT3(a, b, c) << TYPE_BITS | (d))

/* Each part of a concatenation fills whole words. */
enum { KEY_IFNAME = 16, KEY_MAC = 8, KEY_IP4 = 4, KEY_IP6 = 16, KEY_PROTO = 4, KEY_PORT = 4 };

#define OF_NIC(label, size, type)                                                                            \
	{                                                                                                    \
		.name = (label), .bridge = true, .by_nic = true, .key_size = KEY_IFNAME + (size),            \
		.key_type = (type),                                                                          \
	}
#define OF_IP4 CONCAT2(TYPE_IFNAME, TYPE_IPADDR)
#define OF_IP6 CONCAT2(TYPE_IFNAME, TYPE_IP6ADDR)
#define PEERS4(n) [SET_PEERS4 + (n) / PEERS4_STEP] = OF_NIC("peers4_" #n, KEY_IP4, OF_IP4)
#define PEERS6(n) [SET_PEERS6 + (n) / PEERS6_STEP] = OF_NIC("peers6_" #n, KEY_IP6, OF_IP6)
#define PUBLISHED(label, key, type, data, to)                                                                \
	{                                                                                                    \
		.name = (label), .key_size = (key) + KEY_PROTO + KEY_PORT, .key_type = (type),               \
		.data_size = (data) + KEY_PORT, .data_type = CONCAT2(to, TYPE_SERVICE),                      \
	}

static const struct set_info sets[SET_COUNT] = {
	[SET_NICS] = OF_NIC("nics", 0, TYPE_IFNAME),
	[SET_MACS] = OF_NIC("macs", KEY_MAC, CONCAT2(TYPE_IFNAME, TYPE_ETHERADDR)),
	[SET_ADDRESSES4] = OF_NIC("addresses4", KEY_IP4, OF_IP4),
	[SET_ADDRESSES6] = OF_NIC("addresses6", KEY_IP6, OF_IP6),
	[SET_UNFILTERED] = OF_NIC("unfiltered", 0, TYPE_IFNAME),
	[SET_RESTRICTED] = OF_NIC("restricted", 0, TYPE_IFNAME),
	[SET_ISOLATED] = OF_NIC("isolated", 0, TYPE_IFNAME),
	[SET_SSH_FROM_HOST] = OF_NIC("ssh_from_host", 0, TYPE_IFNAME),
	PEERS4(0),
	PEERS4(4),
	PEERS4(8),
	PEERS4(12),
	PEERS4(16),
	PEERS4(20),
	PEERS4(24),
	PEERS4(28),
	PEERS4(32),
	PEERS6(0),
	PEERS6(8),
	PEERS6(16),
	PEERS6(24),
	PEERS6(32),
	PEERS6(40),
	PEERS6(48),
	PEERS6(56),
	PEERS6(64),
	PEERS6(72),
	PEERS6(80),
	PEERS6(88),
	PEERS6(96),
	PEERS6(104),
	PEERS6(112),
	PEERS6(120),
	PEERS6(128),
	[SET_PUBLISHED4] = PUBLISHED(
	        "published4", KEY_IP4, CONCAT3(TYPE_IPADDR, TYPE_PROTO, TYPE_SERVICE), KEY_IP4, TYPE_IPADDR),
	[SET_PUBLISHED4_ANY] =
	        PUBLISHED("published4_any", 0, CONCAT2(TYPE_PROTO, TYPE_SERVICE), KEY_IP4, TYPE_IPADDR),
	[SET_PUBLISHED6] = PUBLISHED("published6", KEY_IP6, CONCAT3(TYPE_IP6ADDR, TYPE_PROTO, TYPE_SERVICE),
	        KEY_IP6, TYPE_IP6ADDR),
	[SET_PUBLISHED6_ANY] =
	        PUBLISHED("published6_any", 0, CONCAT2(TYPE_PROTO, TYPE_SERVICE), KEY_IP6, TYPE_IP6ADDR),
	[SET_HAIRPIN4] = { .name = "hairpin4",
	        .key_size = KEY_IFNAME + KEY_IP4 + KEY_PROTO + KEY_PORT,
	        .key_type = CONCAT4(TYPE_IFNAME, TYPE_IPADDR, TYPE_PROTO, TYPE_SERVICE) },
	[SET_HAIRPIN6] = { .name = "hairpin6",
	        .key_size = KEY_IFNAME + KEY_IP6 + KEY_PROTO + KEY_PORT,
	        .key_type = CONCAT4(TYPE_IFNAME, TYPE_IP6ADDR, TYPE_PROTO, TYPE_SERVICE) },
};

_Static_assert(KEY_IFNAME + KEY_IP6 + KEY_PROTO + KEY_PORT <= ELEMENT_KEY_MAX, "the longest key fits");
_Static_assert(KEY_IP6 + KEY_PORT <= ELEMENT_DATA_MAX, "the longest value fits");
_Static_assert((int)KEY_IFNAME == (int)IFNAME_MAX, "a name is a part of a key as it stands");

const struct set_info *set_info(enum set_id id)
{
	return &sets[id];
}

enum set_id set_find(bool bridge, const char *name)
{
	for (enum set_id id = 0; id < SET_COUNT; id++) {
		if (sets[id].bridge == bridge && strcmp(sets[id].name, name) == 0)
			return id;
	}
	return SET_COUNT;
}

void elements_done(struct elements *elements)
{
	free(elements->items);
	*elements = (struct elements){ 0 };
}

void elements_add(struct elements *elements, const struct element *element)
{
	if (elements->n == elements->capacity) {
		size_t capacity = elements->capacity ? elements->capacity * 2 : 12;
		struct element *items = reallocarray(elements->items, capacity, sizeof(*items));

		if (!items) {
			elements->failed = true;
			return;
		}
		elements->items = items;
		elements->capacity = capacity;
	}
	elements->items[elements->n++] = *element;
}

int element_compare(const struct element *a, const struct element *b)
{
	int r;

	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	r = memcmp(a->key, b->key, sizeof(a->key));
	return r ?: memcmp(a->data, b->data, sizeof(a->data));
}

static int items_compare(const void *a, const void *b)
{
	return element_compare(a, b);
}

int elements_finish(struct elements *elements)
{
	size_t n = 0;

	if (elements->failed)
		return -ENOMEM;
	if (elements->n)
		qsort(elements->items, elements->n, sizeof(*elements->items), items_compare);
	for (size_t i = 0; i < elements->n; i++) {
		if (n == 0 || element_compare(&elements->items[n - 1], &elements->items[i]) != 0)
			elements->items[n++] = elements->items[i];
	}
	elements->n = n;
	return 0;
}

int elements_copy(const struct elements *from, struct elements *ret)
{
	struct elements copy = { .n = from->n, .capacity = from->n };

	if (from->n) {
		copy.items = reallocarray(NULL, from->n, sizeof(*copy.items));
		if (!copy.items)
			return -ENOMEM;
		memcpy(copy.items, from->items, from->n * sizeof(*copy.items));
	}
	*ret = copy;
	return 0;
}

int elements_diff(const struct elements *from, const struct elements *to, struct elements *ret_gone,
        struct elements *ret_new)
{
	struct elements gone = { 0 }, new = { 0 };
	size_t i = 0, j = 0;

	while (i < from->n || j < to->n) {
		int order = i == from->n ? 1
		        : j == to->n     ? -1
		                         : element_compare(&from->items[i], &to->items[j]);

		if (order < 0)
			elements_add(&gone, &from->items[i++]);
		else if (order > 0)
			elements_add(&new, &to->items[j++]);
		else
			i++, j++;
	}
	if (gone.failed || new.failed) {
		elements_done(&gone);
		elements_done(&new);
		return -ENOMEM;
	}
	*ret_gone = gone;
	*ret_new = new;
	return 0;
}

bool elements_equal(const struct elements *a, const struct elements *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (element_compare(&a->items[i], &b->items[i]) != 0)
			return false;
	}
	return true;
}

size_t elements_count(const struct elements *elements, enum set_id set)
{
	size_t n = 0;

	for (size_t i = 0; i < elements->n; i++)
		n += elements->items[i].set == set;
	return n;
}

struct element element_nic(enum set_id set, const char *ifname)
{
	struct element e = { .set = (uint8_t)set };

	memcpy(e.key, ifname, strnlen(ifname, IFNAME_MAX - 1));
	return e;
}

struct element element_nic_mac(enum set_id set, const char *ifname, const struct mac *mac)
{
	struct element e = element_nic(set, ifname);

	memcpy(e.key + KEY_IFNAME, mac->bytes, MAC_SIZE);
	return e;
}

static size_t ip_size(const struct ip *ip)
{
	return ip->family == AF_INET ? KEY_IP4 : KEY_IP6;
}

struct element element_nic_ip(enum set_id set, const char *ifname, const struct ip *ip)
{
	struct element e = element_nic(set, ifname);

	memcpy(e.key + KEY_IFNAME, ip->bytes, ip_size(ip));
	return e;
}

static void service_put(uint8_t *at, uint8_t protocol, uint16_t port)
{
	at[0] = protocol;
	at[KEY_PROTO] = (uint8_t)(port >> 8);
	at[KEY_PROTO + 1] = (uint8_t)port;
}

struct element element_publication(const struct publication *p)
{
	bool ip4 = p->guest.family == AF_INET;
	struct element e = {
		.set = p->any ? (ip4 ? SET_PUBLISHED4_ANY : SET_PUBLISHED6_ANY)
		        : ip4 ? SET_PUBLISHED4
		              : SET_PUBLISHED6,
	};
	size_t n = ip_size(&p->guest);

	if (!p->any)
		memcpy(e.key, p->host.bytes, n);
	service_put(e.key + (p->any ? 0 : n), p->protocol, p->host_port);
	memcpy(e.data, p->guest.bytes, n);
	e.data[n] = (uint8_t)(p->guest_port >> 8);
	e.data[n + 1] = (uint8_t)p->guest_port;
	return e;
}

struct element element_hairpin(const struct publication *p, const char *bridge)
{
	struct element e = element_nic(p->guest.family == AF_INET ? SET_HAIRPIN4 : SET_HAIRPIN6, bridge);
	size_t n = ip_size(&p->guest);

	memcpy(e.key + KEY_IFNAME, p->guest.bytes, n);
	service_put(e.key + KEY_IFNAME + n, p->protocol, p->guest_port);
	return e;
}

void element_to_publication(const struct element *element, struct publication *ret)
{
	bool ip4 = element->set == SET_PUBLISHED4 || element->set == SET_PUBLISHED4_ANY;
	bool any = element->set == SET_PUBLISHED4_ANY || element->set == SET_PUBLISHED6_ANY;
	size_t n = ip4 ? KEY_IP4 : KEY_IP6;
	const uint8_t *service = element->key + (any ? 0 : n);
	struct publication p = {
		.protocol = service[0],
		.any = any,
		.host_port = (uint16_t)(service[KEY_PROTO] << 8 | service[KEY_PROTO + 1]),
		.guest_port = (uint16_t)(element->data[n] << 8 | element->data[n + 1]),
		.guest = { .family = ip4 ? AF_INET : AF_INET6, .n_bits = (uint8_t)(n * 8) },
	};

	p.host.family = p.guest.family;
	p.host.n_bits = p.guest.n_bits;
	if (!any)
		memcpy(p.host.bytes, element->key, n);
	memcpy(p.guest.bytes, element->data, n);
	*ret = p;
}

const char *element_ifname(const struct element *element)
{
	return sets[element->set].by_nic ? (const char *)element->key : "";
}

void element_ip(const struct element *element, struct ip *ret)
{
	bool ip4 = sets[element->set].key_size == KEY_IFNAME + KEY_IP4;
	struct ip ip = { .family = ip4 ? AF_INET : AF_INET6, .n_bits = ip4 ? 32 : 128 };

	memcpy(ip.bytes, element->key + KEY_IFNAME, ip4 ? KEY_IP4 : KEY_IP6);
	if (element->set >= SET_PEERS4 && element->set <= SET_PEERS4_LAST)
		ip.n_bits = (uint8_t)((element->set - SET_PEERS4) * PEERS4_STEP);
	if (element->set >= SET_PEERS6 && element->set <= SET_PEERS6_LAST)
		ip.n_bits = (uint8_t)((element->set - SET_PEERS6) * PEERS6_STEP);
	*ret = ip;
}
