#include "svc-runtime-fake/domains.h"

#include "lib/base/clock.h"

#include <search.h>
#include <string.h>
#include <sys/queue.h>

struct change {
	TAILQ_ENTRY(change) link;
	char *id;         /* owned; the key of the tree */
	record *record;   /* owned; NULL: a gravestone, which is in no tree */
	uint64_t version; /* of its last change */
};
TAILQ_HEAD(changes, change);

/* Who writes a volume. At most one active domain does, unless the state file was made by hand. */
struct claim {
	char *volume_id; /* owned; the key of the tree */
	char *owner;     /* owned; instance id */
};

struct domains {
	struct state_file *file;       /* owned */
	void *tree;                    /* owned; tsearch() of struct change, by id */
	struct changes changes;        /* owned; oldest change first */
	struct change_cursor *cursors; /* weak */
	void *claims;                  /* owned; tsearch() of struct claim, by volume id */
	struct usage usage;
	size_t n, n_gravestones;
	uint64_t version;
	char boot_id[UUID_TEXT_MAX]; /* that the file was written on; "" when it does not say */
	void (*on_change)(void *userdata);
	void *userdata;
};

/* --- trees --- */

static int change_compare(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->id, ((const struct change *)b)->id);
}

static int claim_compare(const void *a, const void *b)
{
	return strcmp(((const struct claim *)a)->volume_id, ((const struct claim *)b)->volume_id);
}

static struct change *change_find(const struct domains *domains, const char *id)
{
	const struct change key = { .id = (char *)(uintptr_t)id };
	void *found = tfind(&key, &domains->tree, change_compare);

	return found ? *(struct change **)found : NULL;
}

static struct claim *claim_find(const struct domains *domains, const char *volume_id)
{
	const struct claim key = { .volume_id = (char *)(uintptr_t)volume_id };
	void *found = tfind(&key, &domains->claims, claim_compare);

	return found ? *(struct claim **)found : NULL;
}

static void change_free(struct change *change)
{
	(void)record_free(change->record);
	free(change->id);
	free(change);
}

static void claim_free(void *p)
{
	struct claim *claim = p;

	free(claim->volume_id);
	free(claim->owner);
	free(claim);
}

static void nothing_free(void *p)
{
	(void)p;
}

/* --- what active domains use --- */

static int claim_add(struct domains *domains, const char *volume_id, const char *owner)
{
	struct claim *claim = claim_find(domains, volume_id);

	if (claim)
		return 0;
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -ENOMEM;
	claim->volume_id = strdup(volume_id);
	claim->owner = strdup(owner);
	if (!claim->volume_id || !claim->owner || !tsearch(claim, &domains->claims, claim_compare)) {
		claim_free(claim);
		return -ENOMEM;
	}
	return 0;
}

static void claim_drop(struct domains *domains, const char *volume_id, const char *owner)
{
	struct claim *claim = claim_find(domains, volume_id);

	if (!claim || strcmp(claim->owner, owner) != 0)
		return;
	(void)tdelete(claim, &domains->claims, claim_compare);
	claim_free(claim);
}

static void usage_add(struct domains *domains, const record *r, int sign)
{
	const Bc__V1__Domain *domain = r->domain;

	if (!domain->managed || !record_is_active(r))
		return;
	if (sign > 0) {
		domains->usage.vcpus += domain->vcpus;
		domains->usage.memory_bytes += domain->memory_bytes;
	} else {
		domains->usage.vcpus -= domain->vcpus;
		domains->usage.memory_bytes -= domain->memory_bytes;
	}
	for (size_t i = 0; i < domain->n_volumes; i++) {
		if (domain->volumes[i]->read_only)
			continue;
		if (sign > 0)
			(void)claim_add(domains, domain->volumes[i]->volume_id, domain->id);
		else
			claim_drop(domains, domain->volumes[i]->volume_id, domain->id);
	}
}

/* --- changes --- */

/* Nobody may stand on a change that moves or goes. */
static void cursors_step_off(struct domains *domains, struct change *change)
{
	for (struct change_cursor *c = domains->cursors; c; c = c->others)
		if (c->next == change)
			c->next = TAILQ_NEXT(change, link);
}

static void change_append(struct domains *domains, struct change *change)
{
	change->version = ++domains->version;
	TAILQ_INSERT_TAIL(&domains->changes, change, link);
	for (struct change_cursor *c = domains->cursors; c; c = c->others)
		if (!c->next)
			c->next = change;
}

/* Gravestones at the front that every cursor has passed. */
static void gravestones_sweep(struct domains *domains)
{
	struct change *change, *next;

	for (const struct change_cursor *c = domains->cursors; c; c = c->others)
		if (c->next)
			return;
	if (domains->n_gravestones == 0)
		return;
	for (change = TAILQ_FIRST(&domains->changes); change; change = next) {
		next = TAILQ_NEXT(change, link);
		if (change->record)
			continue;
		TAILQ_REMOVE(&domains->changes, change, link);
		change_free(change);
	}
	domains->n_gravestones = 0;
}

static void changed(struct domains *domains)
{
	if (domains->on_change)
		domains->on_change(domains->userdata);
	gravestones_sweep(domains);
}

static int change_new(struct domains *domains, const char *id, struct change **ret)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change)
		return -ENOMEM;
	change->id = strdup(id);
	if (!change->id || !tsearch(change, &domains->tree, change_compare)) {
		change_free(change);
		return -ENOMEM;
	}
	domains->n++;
	*ret = change;
	return 0;
}

/* In memory only. Takes r. */
static int record_take(struct domains *domains, record *r)
{
	struct change *change = change_find(domains, record_id(r));
	int res = 0;

	if (change) {
		cursors_step_off(domains, change);
		TAILQ_REMOVE(&domains->changes, change, link);
		usage_add(domains, change->record, -1);
		(void)record_free(change->record);
		change->record = NULL;
	} else {
		res = change_new(domains, record_id(r), &change);
	}
	if (res < 0) {
		(void)record_free(r);
		return res;
	}
	change->record = r;
	usage_add(domains, r, +1);
	change_append(domains, change);
	return 0;
}

static void record_drop(struct domains *domains, struct change *change)
{
	usage_add(domains, change->record, -1);
	(void)tdelete(change, &domains->tree, change_compare);
	domains->n--;
	cursors_step_off(domains, change);
	TAILQ_REMOVE(&domains->changes, change, link);
	change->record = record_free(change->record);
	domains->n_gravestones++;
	change_append(domains, change);
}

/* --- the file --- */

static int on_line(const Bc__Fake__StateLine *line, void *userdata)
{
	struct domains *domains = userdata;
	struct change *change;

	switch (line->line_case) {
	case BC__FAKE__STATE_LINE__LINE_RECORD:
		if (!line->record->domain || !line->record->domain->id[0])
			return -EINVAL;
		record *r = record_copy(line->record);
		return r ? record_take(domains, r) : -ENOMEM;
	case BC__FAKE__STATE_LINE__LINE_REMOVED:
		change = change_find(domains, line->removed);
		if (change)
			record_drop(domains, change);
		return 0;
	case BC__FAKE__STATE_LINE__LINE_BOOT_ID:
		(void)snprintf(domains->boot_id, sizeof(domains->boot_id), "%s", line->boot_id);
		return 0;
	default:
		return 0;
	}
}

static int file_rewrite(struct domains *domains, struct err *err)
{
	struct change *change;
	int r = state_file_rewrite_begin(domains->file, err);

	if (r == 0 && domains->boot_id[0])
		r = state_file_set_boot_id(domains->file, domains->boot_id, err);
	TAILQ_FOREACH(change, &domains->changes, link)
	{
		if (r == 0 && change->record)
			r = state_file_put(domains->file, change->record, err);
	}
	return r < 0 ? r : state_file_rewrite_end(domains->file, err);
}

/* The host was rebooted under them. */
static int all_stop(struct domains *domains, struct err *err)
{
	struct change *change, *last = TAILQ_LAST(&domains->changes, changes);
	struct change *next;

	/* Each that is stopped moves behind last. */
	for (change = TAILQ_FIRST(&domains->changes); change; change = next) {
		next = change == last ? NULL : TAILQ_NEXT(change, link);
		if (!change->record || !record_is_active(change->record))
			continue;
		record *stopped = record_copy(change->record);
		if (!stopped || message_text_set(&stopped->domain->reason, "HostRebooted") < 0) {
			(void)record_free(stopped);
			return -ENOMEM;
		}
		stopped->domain->state = BC__V1__DOMAIN__STATE__STOPPED;
		stopped->balloon_bytes = 0;
		int r = domains_put(domains, stopped, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int domains_start(struct domains *domains, const char *path, const char *boot_id, struct err *err)
{
	int r = state_file_open(path, on_line, domains, &domains->file, err);

	gravestones_sweep(domains);
	if (r == 0 && strcmp(domains->boot_id, boot_id) != 0) {
		r = all_stop(domains, err);
		(void)snprintf(domains->boot_id, sizeof(domains->boot_id), "%s", boot_id);
		/* After the stops: a death between them stops the rest next time. */
		if (r == 0)
			r = state_file_set_boot_id(domains->file, boot_id, err);
	}
	if (r == 0 && state_file_is_stale(domains->file, domains->n, true))
		r = file_rewrite(domains, err);
	return r;
}

int domains_open(const char *path, const char *boot_id, struct domains **ret, struct err *err)
{
	struct domains *domains = calloc(1, sizeof(*domains));

	if (!domains)
		return -ENOMEM;
	TAILQ_INIT(&domains->changes);
	int r = domains_start(domains, path, boot_id, err);
	if (r < 0) {
		(void)domains_close(domains);
		return r;
	}
	*ret = domains;
	return 0;
}

struct domains *domains_close(struct domains *domains)
{
	struct change *change;

	if (!domains)
		return NULL;
	tdestroy(domains->tree, nothing_free);
	tdestroy(domains->claims, claim_free);
	while ((change = TAILQ_FIRST(&domains->changes))) {
		TAILQ_REMOVE(&domains->changes, change, link);
		change_free(change);
	}
	domains->file = state_file_close(domains->file);
	free(domains);
	return NULL;
}

/* --- questions and changes --- */

const record *domains_get(const struct domains *domains, const char *id)
{
	const struct change *change = change_find(domains, id);

	return change ? change->record : NULL;
}

size_t domains_count(const struct domains *domains)
{
	return domains->n;
}

struct usage domains_usage(const struct domains *domains)
{
	return domains->usage;
}

const char *domains_writer_of(const struct domains *domains, const char *volume_id, const char *except)
{
	const struct claim *claim = claim_find(domains, volume_id);

	return claim && strcmp(claim->owner, except) != 0 ? claim->owner : NULL;
}

int domains_put(struct domains *domains, record *r_consume, struct err *err)
{
	int r = state_file_put(domains->file, r_consume, err);

	if (r < 0) {
		(void)record_free(r_consume);
		return r;
	}
	r = record_take(domains, r_consume);
	if (r == 0 && state_file_is_stale(domains->file, domains->n, false))
		r = file_rewrite(domains, err);
	changed(domains);
	return r;
}

int domains_remove(struct domains *domains, const char *id, struct err *err)
{
	struct change *change = change_find(domains, id);

	if (!change)
		return 0;
	int r = state_file_remove(domains->file, id, err);
	if (r < 0)
		return r;
	record_drop(domains, change);
	changed(domains);
	return 0;
}

/* --- cursors --- */

void change_cursor_init(struct change_cursor *cursor, struct domains *domains)
{
	*cursor = (struct change_cursor){ .next = TAILQ_FIRST(&domains->changes),
		.born = domains->version,
		.others = domains->cursors,
		.domains = domains };
	domains->cursors = cursor;
}

void change_cursor_done(struct change_cursor *cursor)
{
	struct domains *domains = cursor->domains;

	for (struct change_cursor **c = &domains->cursors; *c; c = &(*c)->others) {
		if (*c == cursor) {
			*c = cursor->others;
			break;
		}
	}
	gravestones_sweep(domains);
}

bool change_cursor_next(struct change_cursor *cursor, const char **ret_id, const record **ret_record)
{
	while (cursor->next) {
		const struct change *change = cursor->next;

		cursor->next = TAILQ_NEXT(change, link);
		if (!change->record && change->version <= cursor->born)
			continue;
		*ret_id = change->id;
		*ret_record = change->record;
		return true;
	}
	return false;
}

void domains_on_change(struct domains *domains, void (*fn)(void *userdata), void *userdata)
{
	domains->on_change = fn;
	domains->userdata = userdata;
}

size_t domains_gravestones(const struct domains *domains)
{
	return domains->n_gravestones;
}
