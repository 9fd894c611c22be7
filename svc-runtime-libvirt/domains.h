/* Every domain that libvirt has, as last seen: the one copy that answers Get, List and Watch. Loop thread only.
 *
 * Truth comes from looks alone. An event only says that a look is due, and a look that an event overtook is taken again.
 * Threads take them, so that an older one may arrive after a newer one: it is not believed. */
#pragma once

#include "svc-runtime-libvirt/domain_look.h"
#include "svc-runtime-libvirt/domain_state.h"
#include "svc-runtime-libvirt/virt.h"

#include <sys/queue.h>

struct domains;
struct console;
struct stop;
struct runtime;
struct slow;

struct domain_boot_times {
	uint64_t begun_usec; /* monotonic; 0: not started by this process */
	/* monotonic; 0: not seen */
	uint64_t prepared_usec, started_usec, first_output_usec, ready_usec;
};

struct domain_entry {
	char uuid[UUID_TEXT_MAX];
	struct domain_look look; /* owned; the last one; present false before the first and once gone */
	struct domain_condition condition;
	uint64_t since_usec; /* since the epoch, in that state; 0: unknown */
	bool asked;          /* we told it to stop; until it is started again */
	bool panicked;       /* since it was started */
	struct domain_boot_times boot;
	bool completed;          /* a job said so, since it was started */
	bool starting;           /* a job is: it counts as a user of its volumes */
	unsigned n_ensures;      /* jobs that may define it anew */
	struct stop *stop;       /* weak: lifecycle's; a graceful stop that waits for the guest */
	struct slow *slow;       /* weak: a snapshot or a rebind that is under way */
	struct console *console; /* owned; managed domains only */
	struct runtime *runtime; /* weak; set with console */
	bool attaching;          /* a job opens its serial port */

	/* private to the table */
	uint64_t version; /* of the last change */
	TAILQ_ENTRY(domain_entry) by_version;
	uint64_t sync; /* the last one it was part of */
	bool listed;
	bool looking, look_again;
	uint64_t look_begun_usec, look_ended_usec; /* of the last look that was believed */
};

static inline bool domain_entry_managed(const struct domain_entry *entry)
{
	return entry->look.present && entry->look.record.def;
}

struct domains_handlers {
	/* A domain is there, or its state or definition is another than before. */
	void (*on_changed)(struct domain_entry *entry, void *userdata);
	/* It is gone from libvirt; the entry is freed when the last watcher has heard of it. */
	void (*on_gone)(struct domain_entry *entry, void *userdata);
};

/* virt may be set later (domains_set_virt), pool is for looks alone: they are short, and must not wait behind work. */
int domains_new(struct job_pool *pool, const struct look_paths *paths,
        const struct domains_handlers *handlers, void *userdata, struct domains **ret);
void domains_set_virt(struct domains *domains, struct virt *virt);
struct domains *domains_free(struct domains *domains); /* consoles too; no look may be under way */

/* --- what comes from libvirt --- */

/* All there is: what is not among looks is gone. Takes the looks' contents. */
void domains_sync(struct domains *domains, struct domain_look *looks, size_t n_looks);
/* The connection is lost: nothing can be said until the next sync. */
void domains_unsync(struct domains *domains);
bool domains_synced(const struct domains *domains);
void domains_on_event(struct domains *domains, const struct virt_event *event);
/* The look that an operation took when it was done; takes its contents. Of two that were taken at the same time this
 * one is believed, and another one is taken. */
void domains_apply(struct domains *domains, struct domain_look *look);
/* Ask for a look: something about it has changed. */
void domains_look(struct domains *domains, const char *uuid);
/* What is published of it changed here (boot times, a stop in progress), not in libvirt. */
void domains_touch(struct domains *domains, struct domain_entry *entry);

/* --- what is asked --- */

struct domain_entry *domains_find(struct domains *domains, const char *uuid); /* present ones; NULL */
struct domain_entry *domains_find_any(struct domains *domains, const char *uuid);
/* For one whose first look is still to come (it is being defined): makes the entry. NULL for want of memory. */
struct domain_entry *domains_get(struct domains *domains, const char *uuid);
/* In order of their last change, present ones; start with NULL. */
struct domain_entry *domains_next(struct domains *domains, const struct domain_entry *entry);

/* A watcher reads changes in their order at its own pace: of a domain that changed often it sees the newest state. */
struct domains_watcher {
	uint64_t seen; /* version; 0: nothing yet */
	/* There may be more to read; or domains_synced() became true, or false: then the watch cannot go on. */
	void (*on_more)(struct domains_watcher *watcher);
	LIST_ENTRY(domains_watcher) all;
};
void domains_watch(struct domains *domains, struct domains_watcher *watcher);
void domains_unwatch(struct domains *domains, struct domains_watcher *watcher);
/* The next change the watcher has not seen, which is seen by this; NULL when it has all. Gone ones have
 * look.present false. */
struct domain_entry *domains_watcher_next(struct domains *domains, struct domains_watcher *watcher);
