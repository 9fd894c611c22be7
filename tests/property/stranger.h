/* What is on the host and is none of bcd's: planted at random, and to be found again just as it was. */
#pragma once

#include "tests/property/history.h"
#include "tests/property/kernel.h"
#include "tests/property/plane.h"
#include "tests/property/wish.h"

enum { STRANGERS_MAX = 40 };

struct stranger {
	enum stranger_kind {
		STRANGER_TAP,       /* a port of our bridge with a name of its own */
		STRANGER_SQUATTER,  /* a TAP with the name that an instance's NIC 0 would have */
		STRANGER_DOMAIN,    /* somebody else's domain in the first fake */
		STRANGER_IMPOSTOR,  /* … with the id of an instance */
		STRANGER_FILE,      /* beside ours */
		STRANGER_DIRECTORY, /* a file in an instance's own directory */
		STRANGER_KINDS
	} kind;
	char name[128];         /* of the interface, the domain's id, or the file's path */
	char id[UUID_TEXT_MAX]; /* of the instance it is in the way of; "" for none */
	char *looks;            /* owned; what it is to look like */
};

struct strangers {
	struct set *set; /* weak, as both below */
	struct plane *plane;
	struct history *history;
	struct stranger items[STRANGERS_MAX];
	size_t n;
	unsigned n_made;
	char *tables; /* owned; the nftables of others */
	char words[512];
};

/* With the tables of others, which are there from the beginning. */
void strangers_init(
        struct strangers *strangers, struct set *set, struct plane *plane, struct history *history);
void strangers_done(struct strangers *strangers);
/* One more, or one less. */
void strangers_change(struct strangers *strangers, struct wish *wish, char ret[static WISH_TEXT_MAX]);
/* All that stand in an instance's way go. */
void strangers_make_way(struct strangers *strangers);
/* Somebody flushes every table; others put theirs back. */
void strangers_flush(struct strangers *strangers);
/* Interfaces and rules do not outlive a host: what of them goes with it, and comes back with it. */
void strangers_reboot(struct strangers *strangers);

bool strangers_have(const struct strangers *strangers, enum stranger_kind kind, const char *id);
bool strangers_own(const struct strangers *strangers, const char *ifname);
/* What was touched, or NULL. */
const char *strangers_touched(
        struct strangers *strangers, const struct kernel *kernel, const struct history *history);
