#include "cli/settle.h"

#include "lib/text/proto_enum.h"

#include <search.h>
#include <stdio.h>
#include <string.h>

/* One instance: of the spec, or seen and not in it. */
struct seen {
	const Bc__V1__InstanceSpec *spec; /* weak; NULL: it must not exist */
	char id[64];
	bool known; /* a status of it came since the stream began */
	Bc__V1__InstanceStatus__State state;
	char reason[64];
	bool retried; /* a next attempt is due */
};

struct settle {
	const Bc__V1__NodeSpec *spec; /* weak */
	uint64_t revision, reached;   /* reached: the newest revision the stream spoke of */
	bool synced;
	struct seen *items; /* owned; sorted by id up to n_spec, strangers behind */
	size_t n, n_spec, n_room;
};

static int seen_compare(const void *a, const void *b)
{
	return strcmp(((const struct seen *)a)->id, ((const struct seen *)b)->id);
}

struct settle *settle_new(const Bc__V1__NodeSpec *spec, uint64_t revision)
{
	size_t n = spec->instances ? spec->instances->n_items : 0;
	struct settle *settle = calloc(1, sizeof(*settle));

	if (!settle)
		return NULL;
	settle->spec = spec;
	settle->revision = revision;
	settle->n_room = n + 16;
	settle->items = calloc(settle->n_room, sizeof(*settle->items));
	if (!settle->items)
		return settle_free(settle);
	settle->n = settle->n_spec = n;
	for (size_t i = 0; i < n; i++) {
		settle->items[i].spec = spec->instances->items[i];
		(void)snprintf(settle->items[i].id, sizeof(settle->items[i].id), "%s",
		        spec->instances->items[i]->id);
	}
	qsort(settle->items, n, sizeof(*settle->items), seen_compare);
	return settle;
}

struct settle *settle_free(struct settle *settle)
{
	if (settle)
		free(settle->items);
	free(settle);
	return NULL;
}

static struct seen *seen_find(struct settle *settle, const char *id)
{
	struct seen key = { 0 };
	struct seen *found;

	(void)snprintf(key.id, sizeof(key.id), "%s", id);
	found = bsearch(&key, settle->items, settle->n_spec, sizeof(key), seen_compare);
	for (size_t i = settle->n_spec; !found && i < settle->n; i++)
		if (strcmp(settle->items[i].id, key.id) == 0)
			found = &settle->items[i];
	return found;
}

/* An instance that is not in the spec: it is to go. */
static struct seen *seen_add(struct settle *settle, const char *id)
{
	if (settle->n == settle->n_room) {
		struct seen *items = reallocarray(settle->items, settle->n_room * 2, sizeof(*items));

		if (!items)
			return NULL;
		settle->items = items;
		settle->n_room *= 2;
	}
	struct seen *seen = &settle->items[settle->n++];

	*seen = (struct seen){ 0 };
	(void)snprintf(seen->id, sizeof(seen->id), "%s", id);
	return seen;
}

void settle_delta(struct settle *settle, const Bc__V1__StatusDelta *delta)
{
	for (size_t i = 0; settle->spec->instances && i < delta->n_instances; i++) {
		const Bc__V1__InstanceStatus *status = delta->instances[i];
		struct seen *seen;

		if (status->state == BC__V1__INSTANCE_STATUS__STATE__UNMANAGED)
			continue;
		seen = seen_find(settle, status->id);
		if (!seen)
			seen = seen_add(settle, status->id);
		if (!seen)
			continue;
		seen->known = true;
		seen->state = status->state;
		seen->retried = status->next_attempt && status->next_attempt->seconds;
		(void)snprintf(seen->reason, sizeof(seen->reason), "%s", status->reason);
	}
	settle->synced |= delta->synced;
	if (delta->accepted_revision > settle->reached)
		settle->reached = delta->accepted_revision;
}

void settle_break(struct settle *settle)
{
	settle->synced = false;
	for (size_t i = 0; i < settle->n; i++)
		settle->items[i].known = false;
	settle->n = settle->n_spec;
}

static bool is_as_wished(const struct seen *seen)
{
	if (!seen->spec)
		return !seen->known || seen->state == BC__V1__INSTANCE_STATUS__STATE__REMOVED;
	if (!seen->known)
		return false;
	switch (seen->spec->desired_state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return seen->state == BC__V1__INSTANCE_STATUS__STATE__RUNNING ||
		        seen->state == BC__V1__INSTANCE_STATUS__STATE__COMPLETED;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return seen->state == BC__V1__INSTANCE_STATUS__STATE__PAUSED;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED:
		return seen->state == BC__V1__INSTANCE_STATUS__STATE__STOPPED ||
		        seen->state == BC__V1__INSTANCE_STATUS__STATE__COMPLETED;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__DESIRED_STATE_UNSPECIFIED:
	default:
		return false;
	}
}

static bool is_final_failure(const struct seen *seen)
{
	return seen->spec && seen->known && seen->state == BC__V1__INSTANCE_STATUS__STATE__FAILED &&
	        !seen->retried;
}

enum settle_result settle_check(const struct settle *settle)
{
	bool all = true;

	if (!settle->synced || settle->reached < settle->revision)
		return SETTLE_WAITS;
	for (size_t i = 0; i < settle->n; i++) {
		if (is_final_failure(&settle->items[i]))
			return SETTLE_FAILED;
		all &= is_as_wished(&settle->items[i]);
	}
	return all ? SETTLE_DONE : SETTLE_WAITS;
}

/* As many bytes of an id as tell it from its neighbours, at least 8. */
static int short_length(const struct settle *settle, size_t i)
{
	const char *id = settle->items[i].id;
	size_t length = 8;

	for (size_t k = i ? i - 1 : 0; k < settle->n && k <= i + 1; k++) {
		size_t same = 0;

		while (k != i && id[same] && id[same] == settle->items[k].id[same])
			same++;
		length = same >= length ? same + 1 : length;
	}
	return (int)length;
}

/* What failed for good is why a wait ends: it is named before what only takes its time. */
static bool is_named(const struct seen *seen, bool failed)
{
	return !is_as_wished(seen) && is_final_failure(seen) == failed;
}

void settle_text(const struct settle *settle, char *buf, size_t size)
{
	size_t n_done = 0, n_named = 0, n = 0;

	for (size_t i = 0; i < settle->n; i++)
		n_done += is_as_wished(&settle->items[i]);
	n = (size_t)snprintf(buf, size, "%zu of %zu as wished", n_done, settle->n);
	for (size_t i = 0; i < 2 * settle->n && n_named < 3 && n < size; i++) {
		const struct seen *seen = &settle->items[i % settle->n];
		const char *state =
		        proto_enum_name(&bc__v1__instance_status__state__descriptor, (int)seen->state);

		if (!is_named(seen, i < settle->n))
			continue;
		n_named++;
		n += (size_t)snprintf(buf + n, size - n, "; %.*s %s%s%s", short_length(settle, i % settle->n),
		        seen->id, seen->known && state ? state : "not seen yet", seen->reason[0] ? " " : "",
		        seen->reason);
	}
}
