/* What a NIC is in the rules: elements of sets and maps. The sets are fixed; each is described here once,
 * and an element is its key as the kernel compares it. */
#pragma once

#include "lib/base/ids.h"
#include "lib/base/ip.h"
#include "lib/base/mac.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PEERS4_STEP = 4, /* prefix lengths that have a set; a prefix in between becomes several */
	PEERS6_STEP = 8,
	PEERS4_LEVELS = 32 / PEERS4_STEP + 1,
	PEERS6_LEVELS = 128 / PEERS6_STEP + 1,
};

enum set_id {
	SET_NICS,       /* every NIC that may pass anything */
	SET_MACS,       /* … with the address it may send from */
	SET_ADDRESSES4, /* … and the IP addresses */
	SET_ADDRESSES6,
	SET_UNFILTERED,    /* may send what it likes */
	SET_RESTRICTED,    /* speaks with its peers only: PRIVATE and NONE */
	SET_ISOLATED,      /* … and has none: NONE */
	SET_SSH_FROM_HOST, /* tcp/22 from the host itself only */
	SET_PEERS4,        /* + n: networks of n * PEERS4_STEP bits */
	SET_PEERS4_LAST = SET_PEERS4 + PEERS4_LEVELS - 1,
	SET_PEERS6, /* + n: networks of n * PEERS6_STEP bits */
	SET_PEERS6_LAST = SET_PEERS6 + PEERS6_LEVELS - 1,
	SET_PUBLISHED4,     /* host address, protocol, port → guest address, port */
	SET_PUBLISHED4_ANY, /* the same for every address of the host */
	SET_PUBLISHED6,
	SET_PUBLISHED6_ANY,
	SET_HAIRPIN4, /* bridge and guest address, protocol, port: the guest's neighbours need masquerading */
	SET_HAIRPIN6,
	SET_COUNT,
};

enum {
	ELEMENT_KEY_MAX = 40,
	ELEMENT_DATA_MAX = 20,
	ELEMENT_TEXT_MAX = 200,
};

struct set_info {
	const char *name;
	bool bridge; /* in table bridge bc, else inet bc */
	bool by_nic; /* the key begins with the NIC's name; else a comment has it */
	uint8_t key_size;
	uint8_t data_size; /* 0: a set, else a map */
	uint32_t key_type; /* as nft numbers them, for `nft list` */
	uint32_t data_type;
};

const struct set_info *set_info(enum set_id id);
/* SET_COUNT when there is none of that name in that table. */
enum set_id set_find(bool bridge, const char *name);

struct element {
	uint8_t set;                  /* enum set_id */
	uint8_t key[ELEMENT_KEY_MAX]; /* 0 beyond the set's key_size */
	uint8_t data[ELEMENT_DATA_MAX];
};

struct elements {
	struct element *items; /* owned */
	size_t n, capacity;
	bool failed; /* out of memory once */
};

void elements_done(struct elements *elements);
void elements_add(struct elements *elements, const struct element *element);
/* Sorts and drops doubles: the form in which two of them are compared. -ENOMEM when an addition failed. */
int elements_finish(struct elements *elements);
int elements_copy(const struct elements *from, struct elements *ret);
/* What has to go from `from` and be added to make it `to`; both finished. A changed map entry is in both. */
int elements_diff(const struct elements *from, const struct elements *to, struct elements *ret_gone,
        struct elements *ret_new);
bool elements_equal(const struct elements *a, const struct elements *b);
size_t elements_count(const struct elements *elements, enum set_id set);

int element_compare(const struct element *a, const struct element *b); /* set, key, data */

struct element element_nic(enum set_id set, const char *ifname);
struct element element_nic_mac(enum set_id set, const char *ifname, const struct mac *mac);
struct element element_nic_ip(enum set_id set, const char *ifname, const struct ip *ip);

struct publication {
	uint8_t protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	bool any;         /* every address of the host */
	struct ip host;   /* unless any */
	uint16_t host_port;
	struct ip guest;
	uint16_t guest_port;
};
/* The map entry and, where the guest's bridge is given, the one for its neighbours. */
struct element element_publication(const struct publication *p);
struct element element_hairpin(const struct publication *p, const char *bridge);
/* The inverse, for elements of the four maps. */
void element_to_publication(const struct element *element, struct publication *ret);

/* The name of the NIC an element is of; "" for those that keep it in a comment. */
const char *element_ifname(const struct element *element);
void element_ip(const struct element *element, struct ip *ret); /* addresses and peers */
