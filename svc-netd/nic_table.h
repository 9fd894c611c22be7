/* What netd holds, by interface name: each NIC with its owner record and its elements, and through these
 * the host's ports. The kernel is the truth; this is what netd last saw or did there. Every function may be
 * called from any thread. */
#pragma once

#include "svc-netd/element.h"
#include "svc-netd/owner.h"

#include "lib/base/cleanup.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum nic_kind { NIC_TAP, NIC_MACVTAP };

enum nic_state {
	NIC_PREPARING, /* its rules and ports are held, the interface is being made */
	NIC_READY,
	NIC_ORPHAN, /* elements without an interface */
};

struct nic {
	char ifname[IFNAME_MAX];
	enum nic_state state;
	enum nic_kind kind;
	int ifindex; /* 0 until it is made */
	int master;  /* ifindex of the bridge; 0 for a macvtap */
	uint32_t mtu_bytes;
	struct owner owner;
	struct elements elements; /* owned */
};

struct nic *nic_free(struct nic *nic);
CLEANUP_DEFINE(nic, nic_free)
int nic_copy(const struct nic *nic, struct nic **ret);

struct nic_table;

struct nic_table *nic_table_new(void); /* NULL: out of memory */
struct nic_table *nic_table_free(struct nic_table *table);

/* Puts nic (consumed, also on failure) in place of the one of its name, which *ret_old gets (owned; NULL
 * for none). -EEXIST, with the holder's name, when a port it publishes, or its MAC on its bridge, is another
 * NIC's: nothing is changed then. */
int nic_table_put(struct nic_table *table, struct nic *nic, struct nic **ret_old, struct err *err);
/* The same for what the kernel already holds, whoever's the ports and the MAC are. */
int nic_table_adopt(struct nic_table *table, struct nic *nic, struct nic **ret_old);
/* A copy, or NULL. */
struct nic *nic_table_get(struct nic_table *table, const char *ifname);
struct nic *nic_table_get_index(struct nic_table *table, int ifindex);
/* Each NIC that belongs on the bridge of that name and was last seen on another interface, or belongs on
 * another and was last seen on that interface, whose name then changed. fn must not use the table. */
typedef void (*nic_fn)(const struct nic *nic, void *userdata);
void nic_table_strays(struct nic_table *table, const char *bridge, int ifindex, nic_fn fn, void *userdata);
struct nic *nic_table_take(
        struct nic_table *table, const char *ifname); /* takes it out; NULL when there is none */
size_t nic_table_count(struct nic_table *table);

/* Copies of all of them, sorted by name: *ret is owned, as is each. */
int nic_table_list(struct nic_table *table, struct nic ***ret, size_t *ret_n);
void nic_list_free(struct nic **list, size_t n);

/* Says in the words of a person which port it is: "tcp *:8080". */
enum { PORT_TEXT_MAX = 64 };
void publication_text(const struct publication *p, char ret[static PORT_TEXT_MAX]);
