#include "svc-converger/runtime_link.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/domain/state.h"
#include "lib/rpc/message.h"
#include "svc-converger/id_map.h"
#include "svc-converger/text_hash.h"

#include <stdio.h>
#include <string.h>

/* Above this a List could outgrow a message, so the stream is begun anew instead. */
enum { LIST_DOMAINS_MAX = 4000 };

static const uint64_t HISTORY_USEC = 10 * USEC_PER_SEC;

struct runtime_link {
	struct link *link;                            /* owned */
	struct loop *loop;                            /* weak */
	const struct runtime_link_handlers *handlers; /* weak */
	void *userdata;                               /* weak */
	unsigned index;
	struct call *describe, *watch, *list; /* owned while in flight */
	sd_event_source *sync_timer;          /* owned; bounds the first list of a stream */
	Bc__V1__DescribeReply *description;   /* owned; NULL: never described */
	struct id_map *domains;               /* owned, as the domains in it are */
	uint64_t clock;                       /* counts everything heard */
	uint64_t sync_began;                  /* clock when the stream, or the list, was asked for */
	uint64_t last_gone;                   /* clock of the last domain that went */
	bool is_known, is_refused;
	bool is_none;     /* what answers there said last that it is no runtime */
	bool is_list_due; /* something became doubtful: the list that is under way may be older */
	uint8_t *scratch; /* owned */
	size_t n_scratch;
};

#define METHOD(member) RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, member)

/* --- domains --- */

/* Tells one VMM from the next. */
static uint64_t hash_vmm(const Bc__V1__Domain *message)
{
	uint64_t hash = message->n_vmm_pids ? text_hash(message->cgroup) : 0;

	for (size_t i = 0; i < message->n_vmm_pids; i++)
		hash = (hash ^ (uint64_t)message->vmm_pids[i]) * 0x100000001b3;
	return hash;
}

static struct domain *domain_new(
        const char *id, const Bc__V1__Domain *message, const uint8_t *data, size_t size, uint64_t clock)
{
	size_t n_allocation = strlen(message->allocation_id) + 1;
	struct domain *domain = malloc(sizeof(*domain) + size + n_allocation);

	if (!domain)
		return NULL;
	*domain = (struct domain){
		.state = message->state,
		.is_managed = message->managed,
		.is_completed = message->completed,
		.has_volumes = message->n_volumes > 0,
		.vmm_hash = hash_vmm(message),
		.is_restored = *message->restored_from != 0,
		.rebound_hash = *message->identity_rebound_ref ? text_hash(message->identity_rebound_ref) : 0,
		.was_started = message->boot && message->boot->vmm_started_ns,
		.memory_bytes = message->memory_bytes,
		.huge_page_bytes = message->huge_page_bytes,
		.changes = clock,
		.since_ns = message->since
		        ? (uint64_t)message->since->seconds * 1000000000 + (uint64_t)message->since->nanos
		        : 0,
		.size = size,
	};
	for (size_t i = 0; i < message->n_nics; i++)
		domain->n_interfaces += message->nics[i]->interface[0] != 0;
	for (size_t i = 0; i < message->n_volumes; i++)
		domain->volume_bytes += message->volumes[i]->size_bytes;
	(void)snprintf(domain->id, sizeof(domain->id), "%s", id);
	memcpy(domain->data, data, size);
	domain->allocation_id = memcpy(domain->data + size, message->allocation_id, n_allocation);
	return domain;
}

Bc__V1__Domain *domain_unpack(const struct domain *domain)
{
	return bc__v1__domain__unpack(NULL, domain->size, domain->data);
}

bool domain_is_up(const struct domain *domain)
{
	return domain_state_is_up(domain->state);
}

/* Out of the copy; who listens has heard of it already when it is_gone. */
static void link_forget(struct runtime_link *link, struct domain *domain)
{
	(void)id_map_remove(link->domains, domain->id);
	link->last_gone = ++link->clock;
	if (!domain->is_gone)
		link->handlers->on_domain(link, domain, NULL, link->userdata);
	free(domain);
}

static bool scratch_grow(struct runtime_link *link, size_t size)
{
	uint8_t *grown;

	if (size <= link->n_scratch)
		return true;
	grown = realloc(link->scratch, size * 2);
	if (!grown)
		return false;
	link->scratch = grown;
	link->n_scratch = size * 2;
	return true;
}

static bool is_learned_lately(const struct domain *domain)
{
	return domain->learned_usec && clock_monotonic_usec() - domain->learned_usec < HISTORY_USEC;
}

/* The stream and the answers to calls come by two ways, and the stream may be behind: what it says of a time before
 * an answer of ours is history. For a while only: clocks may be set back. */
static bool is_history(const struct domain *known, const struct domain *told)
{
	return known->since_ns && told->since_ns &&
	        (told->since_ns < known->since_ns || (known->is_gone && told->since_ns == known->since_ns)) &&
	        is_learned_lately(known);
}

/* Without memory the old state stays; the next full look mends it. */
static void link_put(struct runtime_link *link, const Bc__V1__Domain *message, bool is_answer)
{
	size_t size = bc__v1__domain__get_packed_size(message);
	char id[DOMAIN_ID_MAX];
	struct domain *before, *now;

	if (!*message->id || !scratch_grow(link, size))
		return;
	(void)bc__v1__domain__pack(message, link->scratch);
	(void)snprintf(id, sizeof(id), "%s", message->id);
	before = id_map_get(link->domains, id);
	if (before && !before->is_gone && !before->is_doubtful && before->size == size &&
	        memcmp(before->data, link->scratch, size) == 0) {
		before->changes = ++link->clock;
		if (is_answer)
			before->learned_usec = clock_monotonic_usec();
		return;
	}
	now = domain_new(id, message, link->scratch, size, ++link->clock);
	if (!now)
		return;
	if (is_answer) {
		now->learned_usec = clock_monotonic_usec();
	} else if (before && is_history(before, now)) {
		before->changes = now->changes;
		free(now);
		return;
	}
	if (before)
		(void)id_map_remove(link->domains, id);
	if (id_map_put(link->domains, now) < 0) {
		/* Without memory: as if nothing had been said; the full look mends it. */
		free(now);
		if (before)
			(void)id_map_put(link->domains, before);
		return;
	}
	link->handlers->on_domain(link, before && !before->is_gone ? before : NULL, now, link->userdata);
	free(before);
}

/* What was not named since the list was asked for is gone. Of one whose removal was answered that is no news, and the
 * stream may be behind the list, too. */
static void link_sweep(struct runtime_link *link)
{
	struct domain *domain;
	size_t cursor = 0, n = 0, n_max = id_map_count(link->domains);
	CLEANUP_FREE struct domain **gone = calloc(n_max + 1, sizeof(struct domain *));

	if (!gone)
		return;
	while ((domain = id_map_next(link->domains, &cursor)))
		if (domain->changes <= link->sync_began && !(domain->is_gone && is_learned_lately(domain)))
			gone[n++] = domain;
	for (size_t i = 0; i < n; i++)
		link_forget(link, gone[i]);
}

/* --- the conversation: Describe, Watch; now and then List --- */

static void link_lose(void *owner, const struct rpc_status *status)
{
	struct runtime_link *link = owner;
	bool was_known = link->is_known;

	call_drop(&link->describe);
	call_drop(&link->watch);
	call_drop(&link->list);
	(void)sd_event_source_set_enabled(link->sync_timer, SD_EVENT_OFF);
	link->is_known = false;
	link->is_none = status->code == GRPC_STATUS_UNIMPLEMENTED;
	if (link_failed(link->link, status) || was_known)
		link->handlers->on_state(link, link->userdata);
}

/* Once nothing is under way that was asked for before. */
static void link_list_again(struct runtime_link *link)
{
	if (link->is_list_due)
		runtime_link_resync(link);
}

static void on_event(const ProtobufCMessage *message, void *owner)
{
	struct runtime_link *link = owner;
	const Bc__V1__DomainEvent *event = (const Bc__V1__DomainEvent *)message;
	struct domain *domain;

	switch (event->type) {
	case BC__V1__DOMAIN_EVENT__TYPE__PRESENT:
	case BC__V1__DOMAIN_EVENT__TYPE__CHANGED:
		if (event->domain)
			link_put(link, event->domain, false);
		break;
	case BC__V1__DOMAIN_EVENT__TYPE__GONE:
		domain = event->domain ? id_map_get(link->domains, event->domain->id) : NULL;
		if (domain)
			link_forget(link, domain);
		break;
	case BC__V1__DOMAIN_EVENT__TYPE__SYNCED:
		(void)sd_event_source_set_enabled(link->sync_timer, SD_EVENT_OFF);
		link_sweep(link);
		if (!link->is_known) { /* else it was begun anew for a full look */
			link->is_known = true;
			link_ready(link->link);
			link->handlers->on_state(link, link->userdata);
		}
		link_list_again(link);
		break;
	default:
		break;
	}
}

static void on_watch_end(const struct rpc_status *status, void *owner)
{
	struct rpc_status broken;

	link_lose(owner, link_broken_watch(status, &broken));
}

static const struct call_stream_handlers watch_handlers = { .on_message = on_event, .on_end = on_watch_end };

static int on_sync_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct rpc_status status = { .code = GRPC_STATUS_DEADLINE_EXCEEDED,
		.message = "it did not list its domains in time" };

	(void)source;
	(void)usec;
	link_lose(userdata, &status);
	return 0;
}

static void link_watch(struct runtime_link *link)
{
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;

	call_drop(&link->watch);
	link->is_list_due = false;
	link->sync_began = link->clock;
	(void)sd_event_source_set_time_relative(link->sync_timer, link_call_timeout_usec(link->link));
	(void)sd_event_source_set_enabled(link->sync_timer, SD_EVENT_ONESHOT);
	link_call_stream(link->link, &link->watch, METHOD(watch), &request.base, &watch_handlers);
}

static void on_described(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct runtime_link *link = owner;
	Bc__V1__DescribeReply *description;

	if (status->code != GRPC_STATUS_OK) {
		link_lose(link, status);
		return;
	}
	description = (Bc__V1__DescribeReply *)message_copy(reply);
	if (!description) {
		link_lose(link, &link_no_memory);
		return;
	}
	if (link->description)
		bc__v1__describe_reply__free_unpacked(link->description, NULL);
	link->description = description;
	link->is_refused = link->is_none = false;
	link->handlers->on_state(link, link->userdata);
	if (!link->is_refused)
		link_watch(link);
}

static void on_try(void *owner)
{
	struct runtime_link *link = owner;
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;

	link_call_unary(link->link, &link->describe, METHOD(describe), &request.base, on_described);
}

static const struct link_handlers link_handlers = { .on_try = on_try, .on_lost = link_lose };

static void on_listed(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct runtime_link *link = owner;
	const Bc__V1__RuntimeListReply *list = (const Bc__V1__RuntimeListReply *)reply;

	if (status->code != GRPC_STATUS_OK) {
		link_lose(link, status);
		return;
	}
	/* An event that overtook the list is newer than what the list says. */
	for (size_t i = 0; i < list->n_domains; i++) {
		const struct domain *domain = id_map_get(link->domains, list->domains[i]->id);

		if (domain ? domain->changes <= link->sync_began : link->last_gone <= link->sync_began)
			link_put(link, list->domains[i], false);
	}
	link_sweep(link);
	link_list_again(link);
}

int runtime_link_new(struct loop *loop, const struct runtime_link_options *options, struct runtime_link **ret)
{
	struct runtime_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->loop = loop;
	link->index = options->index;
	link->handlers = options->handlers;
	link->userdata = options->userdata;
	link->domains = id_map_new(offsetof(struct domain, id));
	r = link->domains ? sd_event_add_time_relative(loop_event(loop), &link->sync_timer, CLOCK_MONOTONIC,
	                            0, 1, on_sync_timeout, link)
	                  : -ENOMEM;
	if (r >= 0)
		r = sd_event_source_set_enabled(link->sync_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = link_new(loop, &options->link, &link_handlers, link, &link->link);
	if (r < 0) {
		runtime_link_free(link);
		return r;
	}
	(void)sd_event_source_set_description(link->sync_timer, "runtime-sync");
	*ret = link;
	return 0;
}

struct runtime_link *runtime_link_free(struct runtime_link *link)
{
	struct domain *domain;
	size_t cursor = 0;

	if (!link)
		return NULL;
	call_drop(&link->describe);
	call_drop(&link->watch);
	call_drop(&link->list);
	link_free(link->link);
	sd_event_source_disable_unref(link->sync_timer);
	while (link->domains && (domain = id_map_next(link->domains, &cursor)))
		free(domain);
	id_map_free(link->domains);
	if (link->description)
		bc__v1__describe_reply__free_unpacked(link->description, NULL);
	free(link->scratch);
	free(link);
	return NULL;
}

void runtime_link_poke(struct runtime_link *link)
{
	link_poke(link->link);
}

void runtime_link_resync(struct runtime_link *link)
{
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;

	if (!link->is_known || link->list || sd_event_source_get_enabled(link->sync_timer, NULL) > 0)
		return;
	if (id_map_count(link->domains) > LIST_DOMAINS_MAX) {
		link_watch(link);
		return;
	}
	link->is_list_due = false;
	link->sync_began = link->clock;
	link_call_unary(link->link, &link->list, METHOD(list), &request.base, on_listed);
}

void runtime_link_refuse(struct runtime_link *link, const char *why)
{
	struct rpc_status status = { .code = GRPC_STATUS_ALREADY_EXISTS };

	link->is_refused = true;
	(void)snprintf(status.message, sizeof(status.message), "%s", why);
	link->is_known = false;
	call_drop(&link->describe);
	call_drop(&link->watch);
	call_drop(&link->list);
	(void)sd_event_source_set_enabled(link->sync_timer, SD_EVENT_OFF);
	link->sync_began = UINT64_MAX;
	link_sweep(link);
	(void)link_failed(link->link, &status);
}

bool runtime_link_is_refused(const struct runtime_link *link)
{
	return link->is_refused;
}

bool runtime_link_is_none(const struct runtime_link *link)
{
	return link->is_none && !link->description;
}

unsigned runtime_link_index(const struct runtime_link *link)
{
	return link->index;
}

const char *runtime_link_id(const struct runtime_link *link)
{
	return link->description ? link->description->id : "";
}

bool runtime_link_is_known(const struct runtime_link *link)
{
	return link->is_known;
}

enum link_state runtime_link_state(const struct runtime_link *link)
{
	return link_state(link->link);
}

const char *runtime_link_message(const struct runtime_link *link)
{
	return link_message(link->link);
}

const char *runtime_link_path(const struct runtime_link *link)
{
	return link_path(link->link);
}

struct rpc_channel *runtime_link_channel(const struct runtime_link *link)
{
	return link_channel(link->link);
}

const Bc__V1__DescribeReply *runtime_link_description(const struct runtime_link *link)
{
	return link->description;
}

bool runtime_link_has(const struct runtime_link *link, const char *feature)
{
	for (size_t i = 0; link->description && i < link->description->n_features; i++)
		if (strcmp(link->description->features[i], feature) == 0)
			return true;
	return false;
}

const struct domain *runtime_link_domain(const struct runtime_link *link, const char *id)
{
	const struct domain *domain = id_map_get(link->domains, id);

	return domain && !domain->is_gone ? domain : NULL;
}

const struct domain *runtime_link_next(const struct runtime_link *link, size_t *cursor)
{
	const struct domain *domain;

	do
		domain = id_map_next(link->domains, cursor);
	while (domain && domain->is_gone);
	return domain;
}

void runtime_link_learn(struct runtime_link *link, const char *id, const Bc__V1__Domain *message)
{
	struct domain *domain = id_map_get(link->domains, id);

	if (message) {
		link_put(link, message, true);
	} else if (domain && !domain->is_gone) {
		link->last_gone = ++link->clock;
		domain->learned_usec = clock_monotonic_usec();
		domain->is_gone = true;
		link->handlers->on_domain(link, domain, NULL, link->userdata);
	}
}

void runtime_link_doubt(struct runtime_link *link, const char *id)
{
	struct domain *domain = id_map_get(link->domains, id);

	if (!domain || domain->is_gone)
		return;
	domain->is_doubtful = true;
	domain->changes = ++link->clock; /* a list that was asked for before tells nothing of it */
	link->is_list_due = true;
	link_list_again(link);
}
