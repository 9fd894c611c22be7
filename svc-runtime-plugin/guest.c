#include "svc-runtime-plugin/guest.h"

#include "lib/base/clock.h"
#include "lib/domain/state.h"
#include "lib/rpc/message.h"

#include <search.h>
#include <stdio.h>
#include <string.h>

/* --- the table --- */

static int id_compare(const void *a, const void *b)
{
	return strcmp(((const struct guest *)a)->id, ((const struct guest *)b)->id);
}

void guests_init(struct guests *guests, void (*on_change)(void *userdata), void *userdata)
{
	*guests = (struct guests){ .on_change = on_change, .userdata = userdata };
	TAILQ_INIT(&guests->list);
}

static void guest_free(struct guest *guest)
{
	if (guest->record)
		bc__v1__ensure_request__free_unpacked(guest->record, NULL);
	if (guest->seen)
		bc__v1__plugin_domain__free_unpacked(guest->seen, NULL);
	secret_free(guest->user_data);
	free(guest);
}

void guests_done(struct guests *guests)
{
	struct guest *guest;

	while ((guest = TAILQ_FIRST(&guests->list))) {
		TAILQ_REMOVE(&guests->list, guest, link);
		if (!guest->is_gone)
			(void)tdelete(guest, &guests->tree, id_compare);
		guest_free(guest);
	}
}

struct guest *guests_find(const struct guests *guests, const char *id)
{
	struct guest key = { .version = 0 };
	struct guest *const *found;

	(void)snprintf(key.id, sizeof(key.id), "%s", id);
	found = tfind(&key, &guests->tree, id_compare);
	return found ? *found : NULL;
}

struct guest *guests_add(struct guests *guests, const char *id)
{
	struct guest *guest = calloc(1, sizeof(*guest));

	if (!guest)
		return NULL;
	(void)snprintf(guest->id, sizeof(guest->id), "%s", id);
	if (!tsearch(guest, &guests->tree, id_compare)) {
		free(guest);
		return NULL;
	}
	TAILQ_INSERT_HEAD(&guests->list, guest, link);
	guests->n++;
	return guest;
}

static Bc__V1__Domain__State state_of(const struct guest *guest)
{
	if (!guest->seen)
		return BC__V1__DOMAIN__STATE__STOPPED;
	if (*guest->verdict && !guest_is_up(guest))
		return BC__V1__DOMAIN__STATE__CRASHED;
	return guest->seen->state;
}

void guest_touch(struct guests *guests, struct guest *guest)
{
	Bc__V1__Domain__State state = state_of(guest);

	if (state != guest->state) {
		guest->state = state;
		guest->since_usec = clock_realtime_usec();
	}
	guest->version = ++guests->version;
	TAILQ_REMOVE(&guests->list, guest, link);
	TAILQ_INSERT_TAIL(&guests->list, guest, link);
	guests->on_change(guests->userdata);
}

void guests_drop(struct guests *guests, struct guest *guest)
{
	(void)tdelete(guest, &guests->tree, id_compare);
	guests->n--;
	if (guest->version == 0) {
		TAILQ_REMOVE(&guests->list, guest, link);
		guest_free(guest);
		return;
	}
	guest->is_gone = true;
	guests->n_gone++;
	guest_touch(guests, guest);
}

void guests_bury(struct guests *guests)
{
	struct guest *guest, *next;

	for (guest = guests->n_gone ? TAILQ_FIRST(&guests->list) : NULL; guest; guest = next) {
		next = TAILQ_NEXT(guest, link);
		if (!guest->is_gone)
			continue;
		TAILQ_REMOVE(&guests->list, guest, link);
		guests->n_gone--;
		guest_free(guest);
	}
}

struct guest *guests_after(const struct guests *guests, uint64_t version)
{
	struct guest *guest = TAILQ_LAST(&guests->list, guest_list), *found = NULL;

	for (; guest && guest->version > version; guest = TAILQ_PREV(guest, guest_list, link))
		found = guest;
	return found;
}

/* --- one of them --- */

bool guest_see(struct guest *guest, Bc__V1__PluginDomain *seen)
{
	bool is_news = !seen != !guest->seen || (seen && !message_is_same(&seen->base, &guest->seen->base));

	if (guest->seen)
		bc__v1__plugin_domain__free_unpacked(guest->seen, NULL);
	guest->seen = seen;
	if (seen) {
		/* It has it, or will never ask for it again. */
		guest->user_data = secret_free(guest->user_data);
		guest->is_loaded = false;
	}
	return is_news;
}

/* Of the definition without what changes from call to call. */
static int digest_make(const Bc__V1__EnsureRequest *record, char ret[static SHA256_DIGEST_MAX])
{
	Bc__V1__InstanceSpec spec = *record->spec;
	Bc__V1__EnsureRequest plain = *record;
	struct sha256_stream *stream = NULL;
	uint8_t *bytes;
	size_t n;
	int r;

	spec.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__DESIRED_STATE_UNSPECIFIED;
	plain.spec = &spec;
	plain.idempotency_key = plain.restore_path = (char *)(uintptr_t)protobuf_c_empty_string;
	n = bc__v1__ensure_request__get_packed_size(&plain);
	bytes = malloc(n + 1);
	if (!bytes)
		return -ENOMEM;
	(void)bc__v1__ensure_request__pack(&plain, bytes);
	r = sha256_stream_new(&stream);
	if (r == 0)
		r = sha256_stream_add(stream, bytes, n);
	if (r == 0)
		r = sha256_stream_digest(stream, ret);
	sha256_stream_free(stream);
	free(bytes);
	return r;
}

int guest_define(struct guest *guest, Bc__V1__EnsureRequest *record)
{
	int r = digest_make(record, guest->spec_digest);

	if (r < 0) {
		bc__v1__ensure_request__free_unpacked(record, NULL);
		return r;
	}
	if (guest->record)
		bc__v1__ensure_request__free_unpacked(guest->record, NULL);
	guest->record = record;
	return 0;
}

bool guest_is_up(const struct guest *guest)
{
	return guest->seen && domain_state_is_up(guest->seen->state);
}

/* --- its message --- */

enum { NICS_MAX = 100, PORTS_MAX = 256 };

struct view {
	Bc__V1__Domain domain;
	Google__Protobuf__Timestamp since;
	Bc__V1__NicStatus nics[NICS_MAX];
	Bc__V1__NicStatus *nic_pointers[NICS_MAX];
	Bc__V1__PortMapping *ports[PORTS_MAX];
};

static void view_nics(struct view *view, const Bc__V1__EnsureRequest *record)
{
	size_t n = record->n_nics < NICS_MAX ? record->n_nics : NICS_MAX;

	for (size_t i = 0; i < n; i++) {
		const Bc__V1__PreparedNic *prepared = record->nics[i];
		Bc__V1__NicStatus *nic = view->nic_pointers[i] = &view->nics[i];

		bc__v1__nic_status__init(nic);
		nic->index = (uint32_t)i;
		nic->mac = prepared->mac;
		nic->interface = prepared->interface;
		nic->queues = prepared->queues;
		nic->vhost = prepared->vhost;
		nic->filtered = prepared->filtered;
		if (i < record->spec->n_nics) {
			nic->addresses = record->spec->nics[i]->addresses;
			nic->n_addresses = record->spec->nics[i]->n_addresses;
		}
	}
	view->domain.nics = view->nic_pointers;
	view->domain.n_nics = n;
}

static void view_ports(struct view *view, const Bc__V1__EnsureRequest *record)
{
	for (size_t i = 0; i < record->n_ports; i++)
		for (size_t k = 0; k < record->ports[i]->n_mappings && view->domain.n_ports < PORTS_MAX; k++)
			view->ports[view->domain.n_ports++] = record->ports[i]->mappings[k];
	view->domain.ports = view->ports;
}

static void view_record(struct view *view, const Bc__V1__EnsureRequest *record)
{
	const Bc__V1__InstanceSpec *spec = record->spec;
	Bc__V1__Domain *domain = &view->domain;

	domain->allocation_id = spec->allocation_id;
	domain->vcpus = spec->vcpus;
	domain->memory_bytes = spec->memory_bytes;
	domain->huge_page_bytes = spec->placement ? spec->placement->huge_page_bytes : 0;
	if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE)
		domain->image_digest = spec->boot->image->digest;
	domain->restored_from = record->restored_from;
	domain->volumes = record->volumes;
	domain->n_volumes = record->n_volumes;
	domain->gpu_device_ids = spec->gpu_device_ids;
	domain->n_gpu_device_ids = spec->n_gpu_device_ids;
	view_nics(view, record);
	view_ports(view, record);
}

static void view_seen(struct view *view, const Bc__V1__PluginDomain *seen)
{
	Bc__V1__Domain *domain = &view->domain;

	if (*seen->allocation_id)
		domain->allocation_id = seen->allocation_id;
	domain->reason = seen->reason;
	domain->message = seen->message;
	domain->vmm_pids = seen->vmm_pids;
	domain->n_vmm_pids = seen->n_vmm_pids;
	domain->cgroup = seen->cgroup;
	domain->completed = seen->completed;
}

Bc__V1__Domain *guest_message(const struct guest *guest)
{
	struct view view = { 0 };

	bc__v1__domain__init(&view.domain);
	google__protobuf__timestamp__init(&view.since);
	view.domain.id = view.domain.name = (char *)(uintptr_t)guest->id;
	view.domain.managed = true;
	if (guest->record)
		view_record(&view, guest->record);
	if (guest->seen)
		view_seen(&view, guest->seen);
	if (*guest->verdict) {
		view.domain.reason = (char *)(uintptr_t)guest->verdict_reason;
		view.domain.message = (char *)(uintptr_t)guest->verdict;
	}
	view.domain.state = guest->state;
	view.since.seconds = (int64_t)(guest->since_usec / USEC_PER_SEC);
	view.since.nanos = (int32_t)(guest->since_usec % USEC_PER_SEC * NSEC_PER_USEC);
	view.domain.since = &view.since;
	view.domain.spec_digest = (char *)(uintptr_t)guest->spec_digest;
	return (Bc__V1__Domain *)message_copy(&view.domain.base);
}
