/* The client of one runtime, and what it shows: a copy of its domains that is kept current by its Watch stream and
 * checked by a List now and then.
 *
 * "It has no such domain" is said only while the copy is whole (runtime_link_is_known): from the end of the first
 * list until the stream breaks or a list fails. Before and after that every answer is "cannot tell", and the last
 * thing seen is kept for people to read. */
#pragma once

#include "svc-converger/link.h"

#include "bc/v1/runtime.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOMAIN_ID_MAX = 68 }; /* bytes with the NUL; a longer id of a foreign domain is cut */

struct domain {
	char id[DOMAIN_ID_MAX];
	Bc__V1__Domain__State state;
	bool is_managed, is_completed, is_restored, has_volumes;
	bool was_started; /* since it was defined, or this runtime remembers */
	uint64_t memory_bytes, huge_page_bytes;
	uint64_t volume_bytes; /* of all its volumes, as its guest knows them */
	uint64_t rebound_hash; /* of identity_rebound_ref; 0: none */
	uint64_t vmm_hash;     /* of its processes and their cgroup; 0: none known */
	uint64_t changes;      /* of the link's clock, when this was last said */
	uint64_t since_ns;     /* realtime, as the runtime says: in this state; 0: unknown */
	uint64_t
	        learned_usec; /* monotonic; when a call of ours was answered with it; 0: told by the stream */
	bool is_gone;         /* a call of ours was told so; kept until the stream says it too */
	bool is_doubtful;     /* a call of ours may have changed it: until its runtime is heard again */
	unsigned n_interfaces;     /* of the host, that its NICs are on */
	const char *allocation_id; /* behind data */
	size_t size;
	uint8_t data[]; /* the packed Domain */
};

/* The whole message, owned by the caller. NULL: no memory. */
Bc__V1__Domain *domain_unpack(const struct domain *domain);
/* True while a VMM may have its memory and disks. */
bool domain_is_up(const struct domain *domain);

struct runtime_link;

struct runtime_link_handlers {
	/* before is NULL for a new one, now is NULL for one that is gone; both weak, valid during the call. */
	void (*on_domain)(struct runtime_link *link, const struct domain *before, const struct domain *now,
	        void *userdata);
	/* is_known, or how it answers, has changed. */
	void (*on_state)(struct runtime_link *link, void *userdata);
};

struct runtime_link_options {
	struct link_options link; /* its call_timeout_usec bounds the first list of a Watch too */
	unsigned index;           /* the owner's number for it */
	const struct runtime_link_handlers *handlers; /* weak */
	void *userdata;                               /* weak */
};

int runtime_link_new(
        struct loop *loop, const struct runtime_link_options *options, struct runtime_link **ret);
struct runtime_link *runtime_link_free(struct runtime_link *link);

void runtime_link_poke(struct runtime_link *link); /* its socket appeared, or somebody asked: try now */
void runtime_link_resync(
        struct runtime_link *link); /* look at everything anew; on failure it is known no more */
/* Its id is another's: it is not used until it describes itself anew, and says so; its copy is emptied. */
void runtime_link_refuse(struct runtime_link *link, const char *why);
bool runtime_link_is_refused(const struct runtime_link *link);
/* A service answers there that cannot describe itself (one that is not built yet): it has no name and no domains. */
bool runtime_link_is_none(const struct runtime_link *link);

unsigned runtime_link_index(const struct runtime_link *link);
const char *runtime_link_id(const struct runtime_link *link); /* "" until it has described itself once */
bool runtime_link_is_known(const struct runtime_link *link);
enum link_state runtime_link_state(const struct runtime_link *link);
const char *runtime_link_message(const struct runtime_link *link);
const char *runtime_link_path(const struct runtime_link *link);
struct rpc_channel *runtime_link_channel(const struct runtime_link *link); /* weak */
/* What it said of itself last; NULL until then; weak. */
const Bc__V1__DescribeReply *runtime_link_description(const struct runtime_link *link);
bool runtime_link_has(const struct runtime_link *link, const char *feature);

/* The copy. NULL: it has none of this id, provided it is known. Valid until control returns to the loop. */
const struct domain *runtime_link_domain(const struct runtime_link *link, const char *id);
const struct domain *runtime_link_next(
        const struct runtime_link *link, size_t *cursor); /* cursor starts at 0 */
/* What a mutating call answered: as true as an event. message NULL: the domain is gone. */
void runtime_link_learn(struct runtime_link *link, const char *id, const Bc__V1__Domain *message);
/* A call of ours failed and may have had its effect all the same: nothing is concluded until the runtime tells of it,
 * which it is asked to at once. */
void runtime_link_doubt(struct runtime_link *link, const char *id);
