/* The owner record of an interface, kept by the kernel in its alias: whose it is and how it was built.
 * Anybody with CAP_NET_ADMIN can write an alias, so it is believed only when the name derived from it is
 * the name it is on. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/ids.h"
#include "lib/base/mac.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	OWNER_TEXT_MAX = 256, /* IFALIASZ: 255 bytes and the NUL */
	NODE_ID_MAX = 65,     /* bytes with the NUL */
	QUEUES_MAX = 64,
};

struct owner {
	char node_id[NODE_ID_MAX]; /* may be "" */
	char instance_id[UUID_TEXT_MAX];
	unsigned index;
	uint32_t queues; /* pairs */
	bool vhost;
	bool filtered;
	struct mac mac;          /* the guest's */
	char master[IFNAME_MAX]; /* the bridge it belongs on, or a macvtap's parent */
};

/* [A-Za-z0-9._:-]{0,64} */
bool node_id_is_valid(const char *s);

/* "bc1 node=… instance=… nic=0 queues=2 vhost=1 filter=1 mac=… on=br0" */
void owner_format(const struct owner *owner, char ret[static OWNER_TEXT_MAX]);
/* -EINVAL for anything that owner_format() does not write. */
int owner_parse(const char *alias, struct owner *ret);

/* NULL when alias is an owner record that gives name, and *ret is set; else why it is not believed. */
const char *owner_disbelief(const char *name, const char *alias, struct owner *ret);
