#include "svc-runtime-libvirt/domains.h"

#include "lib/base/clock.h"
#include "svc-runtime-libvirt/console.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TAILQ_HEAD(entry_list, domain_entry);

struct domains {
	struct job_pool *pool; /* weak, as virt */
	struct virt *virt;
	struct look_paths paths;
	const struct domains_handlers *handlers;
	void *userdata;
	void *tree;              /* of domain_entry, by uuid (tsearch) */
	struct entry_list order; /* listed entries, oldest change first */
	uint64_t version;
	uint64_t syncs;
	bool synced;
	bool syncing;
	LIST_HEAD(, domains_watcher) watchers;
};

static int compare(const void *a, const void *b)
{
	const struct domain_entry *x = a, *y = b;

	return strcmp(x->uuid, y->uuid);
}

static struct domain_entry *find(const struct domains *domains, const char *uuid)
{
	struct domain_entry key;

	(void)snprintf(key.uuid, sizeof(key.uuid), "%s", uuid);
	struct domain_entry **found = tfind(&key, &domains->tree, compare);
	return found ? *found : NULL;
}

struct domain_entry *domains_get(struct domains *domains, const char *uuid)
{
	struct domain_entry *entry = find(domains, uuid);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	(void)snprintf(entry->uuid, sizeof(entry->uuid), "%s", uuid);
	if (!tsearch(entry, &domains->tree, compare)) {
		free(entry);
		return NULL;
	}
	return entry;
}

static struct domain_entry *entry_free(struct domain_entry *entry)
{
	entry->console = console_free(entry->console);
	domain_look_done(&entry->look);
	free(entry);
	return NULL;
}

static void drop(struct domains *domains, struct domain_entry *entry)
{
	if (entry->listed)
		TAILQ_REMOVE(&domains->order, entry, by_version);
	(void)tdelete(entry, &domains->tree, compare);
	(void)entry_free(entry);
}

/* One that came to nothing, and that nobody has heard of. */
static void drop_unused(struct domains *domains, struct domain_entry *entry)
{
	if (!entry->look.present && !entry->listed && !entry->looking && !entry->look_again &&
	        !entry->starting)
		drop(domains, entry);
}

/* What is gone is kept until every watcher has heard of it. */
static void collect(struct domains *domains)
{
	uint64_t seen = UINT64_MAX;
	struct domains_watcher *watcher;

	LIST_FOREACH (watcher, &domains->watchers, all)
		if (watcher->seen < seen)
			seen = watcher->seen;
	for (struct domain_entry *entry = TAILQ_FIRST(&domains->order), *next; entry; entry = next) {
		next = TAILQ_NEXT(entry, by_version);
		if (entry->version > seen)
			break;
		if (!entry->look.present && !entry->looking && !entry->stop && !entry->slow &&
		        !entry->starting)
			drop(domains, entry);
	}
}

static void wake_watchers(struct domains *domains)
{
	for (struct domains_watcher *watcher = LIST_FIRST(&domains->watchers), *next; watcher;
	        watcher = next) {
		next = LIST_NEXT(watcher, all);
		watcher->on_more(watcher);
	}
}

static void publish(struct domains *domains, struct domain_entry *entry)
{
	if (entry->listed)
		TAILQ_REMOVE(&domains->order, entry, by_version);
	entry->version = ++domains->version;
	entry->listed = true;
	TAILQ_INSERT_TAIL(&domains->order, entry, by_version);
	if (domains->synced)
		wake_watchers(domains);
}

void domains_touch(struct domains *domains, struct domain_entry *entry)
{
	if (entry->look.present)
		publish(domains, entry);
}

/* --- looks --- */

struct look_job {
	struct job job;
	struct domains *domains; /* weak; not for run() */
	struct look_paths paths;
	virConnectPtr conn; /* owned */
	struct domain_look look;
	struct err err;
	int r;
};

static void apply(struct domains *domains, struct domain_look *look, bool by_operation);

static void look_run(struct job *job)
{
	struct look_job *l = CONTAINER_OF(job, struct look_job, job);
	char uuid[UUID_TEXT_MAX];

	(void)strcpy(uuid, l->look.uuid);
	l->r = domain_look_up(l->conn, uuid, &l->paths, &l->look, &l->err);
	(void)virConnectClose(l->conn);
}

static void look_done(struct job *job)
{
	struct look_job *l = CONTAINER_OF(job, struct look_job, job);
	struct domains *domains = l->domains;
	char uuid[UUID_TEXT_MAX];

	(void)strcpy(uuid, l->look.uuid);
	struct domain_entry *entry = find(domains, uuid);
	if (entry)
		entry->looking = false;
	if (l->r < 0)
		virt_suspect(domains->virt, &l->err);
	else if (entry)
		apply(domains, &l->look, false);
	if (l->r == 0)
		domain_look_done(&l->look);
	free(l);
	entry = find(domains, uuid);
	if (entry && entry->look_again && domains->synced)
		domains_look(domains, uuid);
}

void domains_look(struct domains *domains, const char *uuid)
{
	struct domain_entry *entry = domains_get(domains, uuid);

	if (!entry)
		return;
	entry->look_again = true;
	if (entry->looking || !domains->synced)
		return; /* done, or sync, takes it up */
	struct look_job *l = calloc(1, sizeof(*l));
	if (!l)
		return;
	l->domains = domains;
	l->paths = domains->paths;
	l->conn = virt_ref(domains->virt);
	(void)strcpy(l->look.uuid, entry->uuid);
	l->job = (struct job){ .run = look_run, .done = look_done };
	(void)strcpy(l->job.key, entry->uuid);
	if (!l->conn || job_submit(domains->pool, &l->job) < 0) {
		if (l->conn)
			(void)virConnectClose(l->conn);
		free(l);
		return;
	}
	entry->looking = true;
	entry->look_again = false;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_volumes(const struct domain_def *a, const struct domain_def *b)
{
	if (a->n_volumes != b->n_volumes)
		return false;
	for (size_t i = 0; i < a->n_volumes; i++)
		if (a->volumes[i].size_bytes != b->volumes[i].size_bytes)
			return false;
	return true;
}

/* Whether anybody could tell the difference. */
static bool look_equal(const struct domain_look *a, const struct domain_look *b)
{
	if (a->present != b->present || a->state != b->state || a->reason != b->reason || a->pid != b->pid)
		return false;
	const struct domain_record *x = &a->record, *y = &b->record;
	if (x->managed != y->managed || x->vcpus != y->vcpus || x->memory_bytes != y->memory_bytes ||
	        !same_text(x->name, y->name))
		return false;
	if (!x->managed)
		return true;
	return same_text(x->def->spec_digest, y->def->spec_digest) &&
	        same_text(x->def->allocation_id, y->def->allocation_id) &&
	        same_text(x->def->rebound_ref, y->def->rebound_ref) &&
	        same_text(x->def->restored_from, y->def->restored_from) && x->def->n_nics == y->def->n_nics &&
	        same_volumes(x->def, y->def);
}

/* now is 0 while it is not known since when: of what was there before us. */
static void take_condition(struct domain_entry *entry, bool first, uint64_t now)
{
	struct domain_condition was = entry->condition;

	entry->condition = domain_condition_from_virt(entry->look.state, entry->look.reason,
	        entry->asked || entry->look.stop_noted, entry->panicked);
	if (!first && was.state == entry->condition.state)
		return;
	bool active = domain_state_is_active(entry->condition.state);
	entry->since_usec = first && active && entry->look.since_usec ? entry->look.since_usec : now;
}

/* Whether it says what is known better already. When it cannot be told which of two is the newer, a third will be. */
static bool is_stale(struct domains *domains, const struct domain_entry *entry,
        const struct domain_look *look, bool by_operation)
{
	if (look->ended_usec < entry->look_begun_usec)
		return true;
	if (look->begun_usec > entry->look_ended_usec)
		return false;
	domains_look(domains, look->uuid);
	return !by_operation;
}

static void apply(struct domains *domains, struct domain_look *look, bool by_operation)
{
	struct domain_entry *entry =
	        look->present ? domains_get(domains, look->uuid) : find(domains, look->uuid);

	if (!entry)
		return;
	if (is_stale(domains, entry, look, by_operation)) {
		drop_unused(domains, entry);
		return;
	}
	entry->look_begun_usec = look->begun_usec;
	entry->look_ended_usec = look->ended_usec;
	bool first = !entry->look.present, same = look_equal(&entry->look, look);
	if (!look->present) {
		bool known = entry->look.present;
		domain_look_done(&entry->look);
		entry->look = (struct domain_look){ .present = false };
		(void)strcpy(entry->look.uuid, entry->uuid);
		if (known) {
			domains->handlers->on_gone(entry, domains->userdata);
			publish(domains, entry);
			collect(domains);
		} else {
			drop_unused(domains, entry);
		}
		return;
	}
	struct domain_condition was = entry->condition;
	domain_look_done(&entry->look);
	entry->look = *look;
	look->record = (struct domain_record){ 0 };
	look->cgroup = NULL;
	/* started again by somebody: the old wish to stop it is spent */
	if (!entry->stop &&
	        domain_state_is_active(
	                domain_condition_from_virt(look->state, look->reason, false, false).state))
		entry->asked = false;
	take_condition(entry, first, first && domains->syncing ? 0 : clock_realtime_usec());
	if (first || !same || was.state != entry->condition.state ||
	        strcmp(was.reason, entry->condition.reason) != 0) {
		domains->handlers->on_changed(entry, domains->userdata);
		publish(domains, entry);
	}
}

void domains_apply(struct domains *domains, struct domain_look *look)
{
	apply(domains, look, true);
}

/* What was known and is not there any more. Applying one may free others, so each time the search begins anew. */
static struct domain_entry *find_unseen(struct domains *domains, uint64_t sync)
{
	struct domain_entry *entry;

	TAILQ_FOREACH(entry, &domains->order, by_version)
	if (entry->look.present && entry->sync != sync)
		return entry;
	return NULL;
}

static void look_again(const void *node, VISIT visit, void *userdata)
{
	const struct domain_entry *entry = *(const struct domain_entry *const *)node;

	if ((visit == postorder || visit == leaf) && entry->look_again)
		domains_look(userdata, entry->uuid);
}

void domains_sync(struct domains *domains, struct domain_look *looks, size_t n_looks)
{
	uint64_t sync = ++domains->syncs;
	struct domain_entry *entry;

	domains->synced = domains->syncing = true;
	for (size_t i = 0; i < n_looks; i++) {
		apply(domains, &looks[i], false);
		entry = find(domains, looks[i].uuid);
		if (entry)
			entry->sync = sync;
	}
	while ((entry = find_unseen(domains, sync))) {
		uint64_t now = clock_monotonic_usec();
		struct domain_look none = { .begun_usec = now, .ended_usec = now };
		(void)strcpy(none.uuid, entry->uuid);
		entry->sync = sync;
		apply(domains, &none, false);
	}
	domains->syncing = false;
	/* events that came while the list was read */
	twalk_r(domains->tree, look_again, domains);
	wake_watchers(domains);
}

static void forget_when(const void *node, VISIT visit, void *userdata)
{
	struct domain_entry *entry = *(struct domain_entry *const *)node;

	(void)userdata;
	if (visit == postorder || visit == leaf)
		entry->look_begun_usec = entry->look_ended_usec = 0;
}

void domains_unsync(struct domains *domains)
{
	domains->synced = false;
	twalk_r(domains->tree, forget_when, NULL); /* the next list is believed whatever was before */
	wake_watchers(domains);
}

bool domains_synced(const struct domains *domains)
{
	return domains->synced;
}

void domains_on_event(struct domains *domains, const struct virt_event *event)
{
	struct domain_entry *entry = domains_get(domains, event->uuid);

	if (!entry)
		return;
	if (event->kind == VIRT_EVENT_LIFECYCLE) {
		if (event->event == VIR_DOMAIN_EVENT_STARTED)
			entry->panicked = false;
		if (event->event == VIR_DOMAIN_EVENT_CRASHED)
			entry->panicked = true;
	}
	domains_look(domains, event->uuid);
}

/* --- what is asked --- */

struct domain_entry *domains_find(struct domains *domains, const char *uuid)
{
	struct domain_entry *entry = find(domains, uuid);

	return entry && entry->look.present ? entry : NULL;
}

struct domain_entry *domains_find_any(struct domains *domains, const char *uuid)
{
	return find(domains, uuid);
}

struct domain_entry *domains_next(struct domains *domains, const struct domain_entry *entry)
{
	struct domain_entry *next = entry ? TAILQ_NEXT(entry, by_version) : TAILQ_FIRST(&domains->order);

	while (next && !next->look.present)
		next = TAILQ_NEXT(next, by_version);
	return next;
}

void domains_watch(struct domains *domains, struct domains_watcher *watcher)
{
	LIST_INSERT_HEAD(&domains->watchers, watcher, all);
}

void domains_unwatch(struct domains *domains, struct domains_watcher *watcher)
{
	LIST_REMOVE(watcher, all);
	collect(domains);
}

struct domain_entry *domains_watcher_next(struct domains *domains, struct domains_watcher *watcher)
{
	struct domain_entry *entry;

	collect(domains);
	TAILQ_FOREACH_REVERSE(entry, &domains->order, entry_list, by_version)
	if (entry->version <= watcher->seen)
		break;
	entry = entry ? TAILQ_NEXT(entry, by_version) : TAILQ_FIRST(&domains->order);
	if (entry)
		watcher->seen = entry->version;
	return entry;
}

int domains_new(struct job_pool *pool, const struct look_paths *paths,
        const struct domains_handlers *handlers, void *userdata, struct domains **ret)
{
	struct domains *domains = calloc(1, sizeof(*domains));

	if (!domains)
		return -ENOMEM;
	*domains =
	        (struct domains){ .pool = pool, .paths = *paths, .handlers = handlers, .userdata = userdata };
	TAILQ_INIT(&domains->order);
	LIST_INIT(&domains->watchers);
	*ret = domains;
	return 0;
}

void domains_set_virt(struct domains *domains, struct virt *virt)
{
	domains->virt = virt;
}

static void free_node(void *node)
{
	(void)entry_free(node);
}

struct domains *domains_free(struct domains *domains)
{
	if (!domains)
		return NULL;
	tdestroy(domains->tree, free_node);
	free(domains);
	return NULL;
}
