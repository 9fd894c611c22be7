/* What a plugin made, or is to make, for one instance; and the table of all of them in the order of their last change.
 * The loop thread's. */
#pragma once

#include "lib/base/ids.h"
#include "lib/base/secret.h"
#include "lib/base/sha256.h"

#include "bc/v1/plugin.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct op;

struct guest {
	char id[UUID_TEXT_MAX];
	Bc__V1__EnsureRequest *record; /* owned; how it was defined, without user data; NULL: not by us */
	Bc__V1__PluginDomain *seen;    /* owned; what the plugin said of it last; NULL: the plugin has none */
	struct secret *user_data;      /* owned; waits for the first apply; NULL: none */
	char spec_digest[SHA256_DIGEST_MAX];
	char verdict[512]; /* why we ended it; "" */
	const char *verdict_reason;
	Bc__V1__Domain__State state; /* as it is told */
	uint64_t since_usec;         /* realtime; in that state */
	uint64_t answered;           /* of guests' clock: a list begun before is history for it */
	struct op *op;               /* weak; in flight */
	bool is_doubtful;            /* it may be up: a start of it came to no answer that could be read */
	bool is_loaded;              /* from a record of an earlier run, not seen since */
	bool is_gone;                /* told to watchers, then forgotten */
	uint64_t version;            /* of guests; its last change */
	TAILQ_ENTRY(guest) link;
};

TAILQ_HEAD(guest_list, guest);

struct guests {
	void *tree;             /* tsearch(), by id; those that are not gone */
	struct guest_list list; /* owned; by version */
	uint64_t version;
	uint64_t clock; /* counts lists and answers */
	size_t n, n_gone;
	void (*on_change)(void *userdata);
	void *userdata; /* weak */
};

void guests_init(struct guests *guests, void (*on_change)(void *userdata), void *userdata);
void guests_done(struct guests *guests);
struct guest *guests_find(const struct guests *guests, const char *id);
/* A new one that nobody is told of before guest_touch(). NULL: no memory. */
struct guest *guests_add(struct guests *guests, const char *id);
/* Its change is told. */
void guest_touch(struct guests *guests, struct guest *guest);
/* Out of the table; watchers are told where they knew of it. */
void guests_drop(struct guests *guests, struct guest *guest);
/* Frees those that are gone: every watcher knows. */
void guests_bury(struct guests *guests);
/* Changed after version, the one that changed first; NULL: none. */
struct guest *guests_after(const struct guests *guests, uint64_t version);

/* seen is consumed, NULL: the plugin has none. True when that is news. */
bool guest_see(struct guest *guest, Bc__V1__PluginDomain *seen);
/* record is consumed. -ENOMEM. */
int guest_define(struct guest *guest, Bc__V1__EnsureRequest *record);
bool guest_is_up(const struct guest *guest); /* a VMM may have its memory, disks and TAPs */

/* The message of it, on the heap; freed by the caller; NULL: no memory. */
Bc__V1__Domain *guest_message(const struct guest *guest);
