#include "svc-runtime-fake/rules.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/base/tap_name.h"

#include <inttypes.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
enum { PAYLOAD_MAX = 64 * 1024, REF_MAX = 256 };

typedef Bc__V1__Domain__State state;

/* --- small changes --- */

static const char *state_text(state s)
{
	switch (s) {
	case BC__V1__DOMAIN__STATE__STOPPED:
		return "stopped";
	case BC__V1__DOMAIN__STATE__RUNNING:
		return "running";
	case BC__V1__DOMAIN__STATE__PAUSED:
		return "paused";
	case BC__V1__DOMAIN__STATE__STOPPING:
		return "stopping";
	case BC__V1__DOMAIN__STATE__CRASHED:
		return "crashed";
	default:
		return "in no state";
	}
}

static int since_set(const struct rules *rules, Bc__V1__Domain *domain)
{
	if (!domain->since) {
		domain->since = calloc(1, sizeof(*domain->since));
		if (!domain->since)
			return -ENOMEM;
		google__protobuf__timestamp__init(domain->since);
	}
	domain->since->seconds = (int64_t)(rules->now_usec / USEC_PER_SEC);
	domain->since->nanos = (int32_t)(rules->now_usec % USEC_PER_SEC * NSEC_PER_USEC);
	return 0;
}

static int state_set(const struct rules *rules, record *r, state s, const char *reason, const char *message)
{
	Bc__V1__Domain *domain = r->domain;

	if (message_text_set(&domain->reason, reason) < 0 || message_text_set(&domain->message, message) < 0)
		return -ENOMEM;
	if (domain->state == s)
		return 0;
	domain->state = s;
	return since_set(rules, domain);
}

static void volumes_free(size_t *n, Bc__V1__VolumePath ***volumes)
{
	for (size_t i = 0; i < *n; i++)
		bc__v1__volume_path__free_unpacked((*volumes)[i], NULL);
	free(*volumes);
	*volumes = NULL;
	*n = 0;
}

/* A deep copy of a repeated message field. */
static int messages_copy(size_t n, void *const *from, size_t *ret_n, void ***ret)
{
	void **copies = calloc(n + 1, sizeof(*copies));

	*ret = copies;
	*ret_n = 0;
	if (!copies)
		return -ENOMEM;
	for (; *ret_n < n; (*ret_n)++) {
		copies[*ret_n] = message_copy(from[*ret_n]);
		if (!copies[*ret_n])
			return -ENOMEM;
	}
	return 0;
}

static int volumes_copy(size_t n, Bc__V1__VolumePath *const *from, size_t *ret_n, Bc__V1__VolumePath ***ret)
{
	return messages_copy(n, (void *const *)from, ret_n, (void ***)ret);
}

static const Bc__V1__VolumePath *volume_find(size_t n, Bc__V1__VolumePath *const *volumes, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(volumes[i]->volume_id, id) == 0)
			return volumes[i];
	return NULL;
}

/* --- who may be touched --- */

static int check_present(const record *current, const char *id, struct err *err)
{
	int r = uuid_check("id", id, err);

	if (r < 0)
		return r;
	if (!current)
		return err_set(err, -ENOENT, "there is no domain '%s'", id);
	if (!current->domain->managed)
		return err_set(err, -EBUSY, "domain '%s' was not made by bcd and is left alone", id);
	return 0;
}

int rules_check_running(const record *current, const char *id, struct err *err)
{
	int r = check_present(current, id, err);

	if (r < 0)
		return r;
	if (current->domain->state != BC__V1__DOMAIN__STATE__RUNNING)
		return err_set(err, -EBUSY, "domain '%s' is %s; it must be running", id,
		        state_text(current->domain->state));
	return 0;
}

int rules_check_key(const char *id, const char *key, const char *verb, struct err *err)
{
	char want[UUID_TEXT_MAX + 32];

	(void)snprintf(want, sizeof(want), "instance:%s:%s", id, verb);
	if (!key[0] || strcmp(key, want) == 0)
		return 0;
	return err_set(err, -EINVAL,
	        "idempotency_key: '%s' is not of this call; write '%s' or leave it empty", QUOTED(key), want);
}

/* --- ensure --- */

static const char *desired_text(Bc__V1__InstanceSpec__DesiredState s)
{
	switch (s) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return "apply:RUNNING";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED:
		return "apply:STOPPED";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return "apply:PAUSED";
	default:
		return NULL;
	}
}

static int check_boot(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__Boot *boot = request->spec->boot;

	if (!boot || boot->source_case == BC__V1__BOOT__SOURCE__NOT_SET)
		return err_set(err, -EINVAL, "spec.boot: is missing; write image or kernel");
	if (boot->source_case == BC__V1__BOOT__SOURCE_KERNEL)
		return boot->kernel->kernel[0] == '/'
		        ? 0
		        : err_set(err, -EINVAL, "spec.boot.kernel.kernel: '%s' is not an absolute path",
		                  QUOTED(boot->kernel->kernel));
	int r = digest_check("spec.boot.image.digest", boot->image->digest, err);
	if (r < 0)
		return r;
	if (boot->image->format == BC__V1__IMAGE_BOOT__FORMAT__FORMAT_UNSPECIFIED)
		return err_set(
		        err, -EINVAL, "spec.boot.image.format: is missing; a format is stated, never probed");
	if (request->image_path[0] != '/')
		return err_set(err, -EINVAL,
		        "image_path: '%s' is not the absolute path of the verified image",
		        QUOTED(request->image_path));
	return 0;
}

static int check_nics(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (spec->n_nics > TAP_INDEX_COUNT)
		return err_set(err, -EINVAL, "spec.nics: has %zu entries; at most %d", spec->n_nics,
		        TAP_INDEX_COUNT);
	if (request->n_nics != spec->n_nics)
		return err_set(err, -EINVAL, "nics: has %zu entries; the spec has %zu NICs", request->n_nics,
		        spec->n_nics);
	for (size_t i = 0; i < spec->n_nics; i++) {
		bool user = spec->nics[i]->attachment_case == BC__V1__NIC__ATTACHMENT_USER;
		bool prepared = request->nics[i]->interface[0] != '\0';

		if (spec->nics[i]->attachment_case == BC__V1__NIC__ATTACHMENT__NOT_SET)
			return err_set(err, -EINVAL,
			        "spec.nics[%zu]: has no attachment; write bridge, macvtap or user", i);
		if (user == prepared)
			return err_set(err, -EINVAL, "nics[%zu].interface: '%s' does not go with a NIC %s", i,
			        QUOTED(request->nics[i]->interface),
			        user ? "of user mode, which has none" : "that needs one");
	}
	return 0;
}

static int check_volumes(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (request->n_volumes != spec->n_volumes)
		return err_set(err, -EINVAL, "volumes: has %zu entries; the spec attaches %zu",
		        request->n_volumes, spec->n_volumes);
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const Bc__V1__VolumePath *path = request->volumes[i];
		const Bc__V1__VolumeAttachment *want = spec->volumes[i];

		if (strcmp(path->volume_id, want->volume_id) != 0 ||
		        strcmp(path->serial, want->serial) != 0 || path->read_only != want->read_only)
			return err_set(err, -EINVAL, "volumes[%zu]: is not spec.volumes[%zu] ('%s')", i, i,
			        QUOTED(want->volume_id));
		if (path->path[0] != '/')
			return err_set(err, -EINVAL, "volumes[%zu].path: '%s' is not an absolute path", i,
			        QUOTED(path->path));
	}
	return 0;
}

static int check_gpus(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	for (size_t i = 0; i < spec->n_gpu_device_ids; i++) {
		const char *address = NULL;

		for (size_t g = 0; g < request->n_gpus; g++)
			if (strcmp(request->gpus[g]->id, spec->gpu_device_ids[i]) == 0)
				address = request->gpus[g]->pci_address;
		if (!address || !address[0])
			return err_set(err, -EBUSY, "GPU '%s' has no PCI address on this host",
			        QUOTED(spec->gpu_device_ids[i]));
	}
	return 0;
}

static int check_request(const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (!spec)
		return err_set(err, -EINVAL, "spec: is missing");
	int r = uuid_check("spec.id", spec->id, err);
	if (r < 0)
		return r;
	if (!spec->allocation_id[0])
		return err_set(err, -EINVAL, "spec.allocation_id: is missing");
	if (spec->vcpus < 1 || spec->vcpus > 512)
		return err_set(
		        err, -EINVAL, "spec.vcpus: %" PRIu32 " is out of range; write 1 to 512", spec->vcpus);
	if (spec->memory_bytes < 16 * MIB || spec->memory_bytes % MIB != 0)
		return err_set(err, -EINVAL,
		        "spec.memory_bytes: %" PRIu64 " is not a multiple of 1 MiB from 16 MiB up",
		        spec->memory_bytes);
	if (spec->root_disk_bytes % 512 != 0)
		return err_set(err, -EINVAL, "spec.root_disk_bytes: %" PRIu64 " is not a multiple of 512",
		        spec->root_disk_bytes);
	if (request->user_data.len > PAYLOAD_MAX)
		return err_set(err, -EINVAL, "user_data: has %zu bytes; at most %d", request->user_data.len,
		        PAYLOAD_MAX);
	if (!desired_text(spec->desired_state))
		return err_set(err, -EINVAL, "spec.desired_state: write RUNNING, STOPPED or PAUSED");
	r = rules_check_key(spec->id, request->idempotency_key, desired_text(spec->desired_state), err);
	if (r == 0)
		r = check_boot(request, err);
	if (r == 0)
		r = check_nics(request, err);
	if (r == 0)
		r = check_volumes(request, err);
	if (r == 0)
		r = check_gpus(request, err);
	return r;
}

/* What was there and cannot become what is asked for. */
static int check_succession(const record *current, const Bc__V1__EnsureRequest *request, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (!current->domain->managed)
		return err_set(err, -EEXIST, "domain '%s' exists and was not made by bcd; it is left alone",
		        spec->id);
	if (strcmp(current->domain->allocation_id, spec->allocation_id) != 0)
		return err_set(err, -EBUSY,
		        "domain '%s' is of allocation '%s'; remove it before '%s' takes its place", spec->id,
		        QUOTED(current->domain->allocation_id), QUOTED(spec->allocation_id));
	if (spec->root_disk_bytes && spec->root_disk_bytes < current->root_disk_bytes)
		return err_set(err, -EBUSY,
		        "the root disk has %" PRIu64 " bytes and cannot shrink to %" PRIu64,
		        current->root_disk_bytes, spec->root_disk_bytes);
	return 0;
}

static const char *image_digest_of(const Bc__V1__InstanceSpec *spec)
{
	return spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE ? spec->boot->image->digest : "";
}

static size_t writable_count(size_t n, Bc__V1__VolumePath *const *volumes)
{
	size_t n_writable = 0;

	for (size_t i = 0; i < n; i++)
		n_writable += !volumes[i]->read_only;
	return n_writable;
}

static int check_restore(const struct rules *rules, const Bc__V1__EnsureRequest *request,
        const struct snapshot_meta *restored, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	const struct snapshot_target target = {
		.runtime = rules->runtime_id,
		.cpu_model = rules->cpu_model,
		.with_memory = spec->restore_from && spec->restore_from->with_memory,
		.image_digest = image_digest_of(spec),
		.root_disk_bytes = spec->root_disk_bytes,
		.vcpus = spec->vcpus,
		.memory_bytes = spec->memory_bytes,
		.n_nics = spec->n_nics,
		.n_writable_volumes = writable_count(request->n_volumes, request->volumes),
		.n_gpus = spec->n_gpu_device_ids,
	};

	return snapshot_check_restore(restored, &target, err);
}

/* The digest of what is defined: of everything in the request that a redefinition would change. */
static int definition_digest(const Bc__V1__EnsureRequest *request, char ret[static SHA256_DIGEST_MAX])
{
	Bc__V1__EnsureRequest *copy = (Bc__V1__EnsureRequest *)message_copy(&request->base);
	CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;

	if (!copy)
		return -ENOMEM;
	copy->spec->desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__DESIRED_STATE_UNSPECIFIED;
	(void)message_text_set(&copy->idempotency_key, "");
	(void)message_text_set(&copy->restore_path, "");
	(void)message_text_set(&copy->restored_from, "");
	copy->dry_run = false;
	copy->user_data.len = 0;
	size_t n = protobuf_c_message_get_packed_size(&copy->base);
	uint8_t *bytes = malloc(n + 1);
	int r = bytes ? sha256_stream_new(&stream) : -ENOMEM;
	if (r == 0) {
		(void)protobuf_c_message_pack(&copy->base, bytes);
		r = sha256_stream_add(stream, bytes, n);
	}
	if (r == 0)
		r = sha256_stream_digest(stream, ret);
	free(bytes);
	bc__v1__ensure_request__free_unpacked(copy, NULL);
	return r;
}

static int bytes_digest(const ProtobufCBinaryData *bytes, char ret[static SHA256_DIGEST_MAX])
{
	CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;
	int r = sha256_stream_new(&stream);

	if (r == 0)
		r = sha256_stream_add(stream, bytes->data, bytes->len);
	return r < 0 ? r : sha256_stream_digest(stream, ret);
}

static record *record_new(void)
{
	record *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	bc__fake__record__init(r);
	r->domain = calloc(1, sizeof(*r->domain));
	if (!r->domain)
		return record_free(r);
	bc__v1__domain__init(r->domain);
	return r;
}

static int nics_define(record *r, const Bc__V1__EnsureRequest *request)
{
	Bc__V1__Domain *domain = r->domain;
	char text[MAC_TEXT_MAX];

	domain->nics = calloc(request->n_nics + 1, sizeof(*domain->nics));
	if (!domain->nics)
		return -ENOMEM;
	for (; domain->n_nics < request->n_nics; domain->n_nics++) {
		size_t i = domain->n_nics;
		const Bc__V1__PreparedNic *prepared = request->nics[i];
		Bc__V1__NicStatus *nic = calloc(1, sizeof(*nic));
		const char *mac = request->spec->nics[i]->mac;
		struct mac derived;

		if (!nic)
			return -ENOMEM;
		bc__v1__nic_status__init(nic);
		domain->nics[i] = nic;
		if (!mac[0]) {
			if (tap_mac(domain->id, (unsigned)i, &derived) < 0)
				return -ENOMEM;
			mac_format(&derived, text);
			mac = text;
		}
		nic->index = (uint32_t)i;
		nic->queues = prepared->queues ? prepared->queues : 1;
		nic->vhost = prepared->vhost;
		nic->filtered = prepared->filtered;
		if (message_text_set(&nic->mac, mac) < 0 ||
		        message_text_set(&nic->interface, prepared->interface) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void nics_free(Bc__V1__Domain *domain)
{
	for (size_t i = 0; i < domain->n_nics; i++)
		bc__v1__nic_status__free_unpacked(domain->nics[i], NULL);
	free(domain->nics);
	domain->nics = NULL;
	domain->n_nics = 0;
}

static void ports_free(Bc__V1__Domain *domain)
{
	for (size_t i = 0; i < domain->n_ports; i++)
		bc__v1__port_mapping__free_unpacked(domain->ports[i], NULL);
	free(domain->ports);
	domain->ports = NULL;
	domain->n_ports = 0;
}

/* The forwarded ports of user-mode NICs; those of bridges are netd's. */
static int ports_define(Bc__V1__Domain *domain, const Bc__V1__EnsureRequest *request)
{
	size_t n = 0;

	for (size_t i = 0; i < request->n_ports; i++)
		n += request->ports[i]->n_mappings;
	domain->ports = calloc(n + 1, sizeof(*domain->ports));
	if (!domain->ports)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_ports; i++) {
		for (size_t m = 0; m < request->ports[i]->n_mappings; m++) {
			ProtobufCMessage *copy = message_copy(&request->ports[i]->mappings[m]->base);

			if (!copy)
				return -ENOMEM;
			domain->ports[domain->n_ports++] = (Bc__V1__PortMapping *)copy;
		}
	}
	return 0;
}

static int gpus_define(Bc__V1__Domain *domain, const Bc__V1__InstanceSpec *spec)
{
	for (size_t i = 0; i < domain->n_gpu_device_ids; i++)
		free(domain->gpu_device_ids[i]);
	free(domain->gpu_device_ids);
	domain->n_gpu_device_ids = 0;
	domain->gpu_device_ids = calloc(spec->n_gpu_device_ids + 1, sizeof(char *));
	if (!domain->gpu_device_ids)
		return -ENOMEM;
	for (; domain->n_gpu_device_ids < spec->n_gpu_device_ids; domain->n_gpu_device_ids++) {
		size_t i = domain->n_gpu_device_ids;

		domain->gpu_device_ids[i] = strdup(spec->gpu_device_ids[i]);
		if (!domain->gpu_device_ids[i])
			return -ENOMEM;
	}
	return 0;
}

/* What a stopped domain takes on at once, and a running one at its next start. */
static int definition_take(record *r)
{
	const Bc__V1__InstanceSpec *spec = r->spec;
	Bc__V1__Domain *domain = r->domain;

	domain->vcpus = spec->vcpus;
	domain->memory_bytes = spec->memory_bytes;
	domain->huge_page_bytes = spec->placement ? spec->placement->huge_page_bytes : 0;
	volumes_free(&domain->n_volumes, &domain->volumes);
	return volumes_copy(r->n_volumes, r->volumes, &domain->n_volumes, &domain->volumes);
}

static int identity_define(const struct rules *rules, record *r, const Bc__V1__EnsureRequest *request)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	char name[UUID_TEXT_MAX + 8];

	(void)snprintf(name, sizeof(name), "bc-%s", spec->id);
	r->domain->managed = true;
	if (message_text_set(&r->domain->id, spec->id) < 0 || message_text_set(&r->domain->name, name) < 0 ||
	        message_text_set(&r->domain->allocation_id, spec->allocation_id) < 0)
		return -ENOMEM;
	return state_set(rules, r, BC__V1__DOMAIN__STATE__STOPPED, "", "");
}

static int restore_take(record *r, const Bc__V1__EnsureRequest *request, const struct snapshot_meta *restored)
{
	if (restored->disk_bytes > r->root_disk_bytes)
		r->root_disk_bytes = restored->disk_bytes;
	return message_text_set(&r->domain->restored_from, request->restored_from);
}

static int record_define(record *r, const Bc__V1__EnsureRequest *request)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	char digest[SHA256_DIGEST_MAX];

	int res = definition_digest(request, digest);
	if (res < 0)
		return res;
	if (r->spec)
		bc__v1__instance_spec__free_unpacked(r->spec, NULL);
	r->spec = (Bc__V1__InstanceSpec *)message_copy(&spec->base);
	volumes_free(&r->n_volumes, &r->volumes);
	if (!r->spec || volumes_copy(request->n_volumes, request->volumes, &r->n_volumes, &r->volumes) < 0 ||
	        message_text_set(&r->domain->spec_digest, digest) < 0 ||
	        message_text_set(&r->domain->image_digest, image_digest_of(spec)) < 0)
		return -ENOMEM;
	if (spec->root_disk_bytes)
		r->root_disk_bytes = spec->root_disk_bytes;
	if (request->user_data.len > 0) {
		res = bytes_digest(&request->user_data, digest);
		if (res == 0)
			res = message_text_set(&r->user_data_digest, digest);
	}
	nics_free(r->domain);
	ports_free(r->domain);
	if (res == 0)
		res = nics_define(r, request);
	if (res == 0)
		res = ports_define(r->domain, request);
	if (res == 0)
		res = gpus_define(r->domain, spec);
	return res < 0 || record_is_active(r) ? res : definition_take(r);
}

int rules_ensure(const struct rules *rules, const record *current, const Bc__V1__EnsureRequest *request,
        const struct snapshot_meta *restored, record **ret, struct err *err)
{
	int r = check_request(request, err);

	if (r == 0 && current)
		r = check_succession(current, request, err);
	/* Only a domain that is not there yet is made from a snapshot. */
	if (r == 0 && !current && restored)
		r = check_restore(rules, request, restored, err);
	if (r < 0)
		return r;
	CLEANUP_RECORD record *next = current ? record_copy(current) : record_new();
	if (!next)
		return -ENOMEM;
	if (!current)
		r = identity_define(rules, next, request);
	if (r == 0)
		r = record_define(next, request);
	if (r == 0 && !current && restored)
		r = restore_take(next, request, restored);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(next);
	return 0;
}

/* --- states --- */

static int check_capacity(const struct rules *rules, const struct usage *usage,
        const Bc__V1__InstanceSpec *spec, struct err *err)
{
	if (rules->vcpus_max && usage->vcpus + spec->vcpus > rules->vcpus_max)
		return err_set(err, -ENOSPC, "needs %" PRIu32 " vCPUs, %" PRIu64 " of %" PRIu64 " are free",
		        spec->vcpus, rules->vcpus_max > usage->vcpus ? rules->vcpus_max - usage->vcpus : 0,
		        rules->vcpus_max);
	if (rules->memory_bytes_max && usage->memory_bytes + spec->memory_bytes > rules->memory_bytes_max)
		return err_set(err, -ENOSPC,
		        "needs %" PRIu64 " MiB of memory, %" PRIu64 " of %" PRIu64 " MiB are free",
		        spec->memory_bytes / MIB,
		        rules->memory_bytes_max > usage->memory_bytes
		                ? (rules->memory_bytes_max - usage->memory_bytes) / MIB
		                : 0,
		        rules->memory_bytes_max / MIB);
	return 0;
}

/* One writer at most: the caller's accounting is checked, not trusted. */
static int check_writers(
        const struct rules *rules, const struct domains *domains, const record *r, struct err *err)
{
	for (size_t i = 0; i < r->n_volumes; i++) {
		const char *writer = r->volumes[i]->read_only || !rules->one_writer
		        ? NULL
		        : domains_writer_of(domains, r->volumes[i]->volume_id, record_id(r));

		if (writer)
			return err_set(err, -EBUSY, "volume '%s' is open for writing by domain '%s'",
			        r->volumes[i]->volume_id, writer);
	}
	return 0;
}

static int boot_set(Bc__V1__Domain *domain)
{
	if (!domain->boot) {
		domain->boot = calloc(1, sizeof(*domain->boot));
		if (!domain->boot)
			return -ENOMEM;
		bc__v1__boot_timings__init(domain->boot);
	}
	/* A guest that is none boots at once. */
	domain->boot->prepared_ns = 1;
	domain->boot->vmm_started_ns = 2;
	domain->boot->first_output_ns = 3;
	domain->boot->ready_ns = 4;
	return 0;
}

static int record_activate(
        const struct rules *rules, const struct domains *domains, record *r, state s, struct err *err)
{
	struct usage usage = domains_usage(domains);

	if (record_is_active(r))
		return state_set(rules, r, s, "", "");
	int res = check_capacity(rules, &usage, r->spec, err);
	if (res == 0)
		res = check_writers(rules, domains, r, err);
	if (res == 0)
		res = definition_take(r);
	if (res == 0)
		res = boot_set(r->domain);
	r->balloon_bytes = 0;
	r->domain->completed = false;
	return res < 0 ? res : state_set(rules, r, s, "", "");
}

int rules_set_state(const struct rules *rules, const struct domains *domains, const record *current,
        const Bc__V1__SetStateRequest *request, record **ret, struct err *err)
{
	int r = check_present(current, request->id, err);

	if (r < 0)
		return r;
	if (!desired_text(request->state))
		return err_set(err, -EINVAL, "state: write RUNNING, STOPPED or PAUSED");
	r = rules_check_key(request->id, request->idempotency_key, desired_text(request->state), err);
	if (r < 0)
		return r;
	CLEANUP_RECORD record *next = record_copy(current);
	if (!next)
		return -ENOMEM;
	switch (request->state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		r = record_activate(rules, domains, next, BC__V1__DOMAIN__STATE__RUNNING, err);
		break;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		r = record_activate(rules, domains, next, BC__V1__DOMAIN__STATE__PAUSED, err);
		break;
	default:
		/* A domain that is down already keeps the reason why it went. */
		if (record_is_active(next))
			r = state_set(rules, next, BC__V1__DOMAIN__STATE__STOPPED, "", "");
		next->balloon_bytes = 0;
		break;
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(next);
	return 0;
}

int rules_check_remove(const record *current, const Bc__V1__RuntimeRemoveRequest *request, struct err *err)
{
	int r = uuid_check("id", request->id, err);

	if (r == 0)
		r = rules_check_key(request->id, request->idempotency_key, "remove", err);
	if (r < 0 || !current)
		return r;
	return check_present(current, request->id, err);
}

/* --- what a running guest is asked --- */

int rules_rebind(const record *current, const Bc__V1__RebindRequest *request, record **ret, struct err *err)
{
	int r = rules_check_running(current, request->id, err);

	if (r < 0)
		return r;
	if (!request->ref[0] || strlen(request->ref) > REF_MAX || strchr(request->ref, '\n'))
		return err_set(err, -EINVAL, "ref: '%s' is not one line of 1 to %d bytes",
		        QUOTED(request->ref), REF_MAX);
	if (request->payload.len > PAYLOAD_MAX)
		return err_set(err, -EINVAL, "payload: has %zu bytes; at most %d", request->payload.len,
		        PAYLOAD_MAX);
	CLEANUP_RECORD record *next = record_copy(current);
	if (!next || message_text_set(&next->domain->identity_rebound_ref, request->ref) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(next);
	return 0;
}

int rules_grow_volume(
        const record *current, const Bc__V1__GrowVolumeRequest *request, record **ret, struct err *err)
{
	int r = check_present(current, request->id, err);

	if (r == 0)
		r = volume_id_check("volume_id", request->volume_id, err);
	if (r < 0)
		return r;
	if (request->size_bytes == 0 || request->size_bytes % 512 != 0)
		return err_set(err, -EINVAL, "size_bytes: %" PRIu64 " is not a multiple of 512",
		        request->size_bytes);
	const Bc__V1__VolumePath *volume =
	        volume_find(current->domain->n_volumes, current->domain->volumes, request->volume_id);
	if (!volume)
		return err_set(
		        err, -ENOENT, "domain '%s' has no volume '%s'", request->id, request->volume_id);
	if (request->size_bytes < volume->size_bytes)
		return err_set(err, -EBUSY, "volume '%s' has %" PRIu64 " bytes and cannot shrink to %" PRIu64,
		        request->volume_id, volume->size_bytes, request->size_bytes);
	CLEANUP_RECORD record *next = record_copy(current);
	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i < next->domain->n_volumes; i++)
		if (strcmp(next->domain->volumes[i]->volume_id, request->volume_id) == 0)
			next->domain->volumes[i]->size_bytes = request->size_bytes;
	for (size_t i = 0; i < next->n_volumes; i++)
		if (strcmp(next->volumes[i]->volume_id, request->volume_id) == 0)
			next->volumes[i]->size_bytes = request->size_bytes;
	*ret = TAKE_PTR(next);
	return 0;
}

void rules_balloon(const record *current, Bc__V1__BalloonReply *ret)
{
	ret->maximum_bytes = current->domain->memory_bytes;
	ret->current_bytes = current->balloon_bytes ? current->balloon_bytes : ret->maximum_bytes;
	/* Half of what it has is what such a guest does not use. */
	ret->unused_bytes = ret->current_bytes / 2;
	ret->usage_known = true;
}

int rules_set_balloon(
        const record *current, const Bc__V1__SetBalloonRequest *request, record **ret, struct err *err)
{
	int r = rules_check_running(current, request->id, err);

	if (r < 0)
		return r;
	if (request->target_bytes == 0 || request->target_bytes > current->domain->memory_bytes)
		return err_set(err, -EINVAL, "target_bytes: %" PRIu64 " is out of range; write 1 to %" PRIu64,
		        request->target_bytes, current->domain->memory_bytes);
	CLEANUP_RECORD record *next = record_copy(current);
	if (!next)
		return -ENOMEM;
	next->balloon_bytes =
	        request->target_bytes == current->domain->memory_bytes ? 0 : request->target_bytes;
	*ret = TAKE_PTR(next);
	return 0;
}

int rules_check_console(const record *current, struct err *err)
{
	const Bc__V1__Domain *domain = current->domain;

	if (domain->state == BC__V1__DOMAIN__STATE__RUNNING || domain->state == BC__V1__DOMAIN__STATE__PAUSED)
		return 0;
	return err_set(
	        err, -EBUSY, "domain '%s' is %s and has no console", domain->id, state_text(domain->state));
}

/* --- snapshots --- */

static void meta_fill(
        const struct rules *rules, const record *r, enum snapshot_kind kind, struct snapshot_meta *meta)
{
	const Bc__V1__Domain *domain = r->domain;

	*meta = (struct snapshot_meta){ .kind = kind,
		.created_usec = rules->now_usec,
		.vcpus = domain->vcpus,
		.memory_bytes = domain->memory_bytes,
		.n_nics = (uint32_t)domain->n_nics,
		.disk_format = IMAGE_RAW,
		.disk_bytes = r->root_disk_bytes };
	(void)snprintf(meta->runtime, sizeof(meta->runtime), "%s", rules->runtime_id);
	(void)snprintf(meta->instance_id, sizeof(meta->instance_id), "%s", domain->id);
	(void)snprintf(meta->allocation_id, sizeof(meta->allocation_id), "%s", domain->allocation_id);
	(void)snprintf(meta->cpu_model, sizeof(meta->cpu_model), "%s", rules->cpu_model);
	(void)snprintf(meta->hypervisor_version, sizeof(meta->hypervisor_version), "%s", BC_VERSION);
	for (size_t i = 0; i < domain->n_volumes && i < SNAPSHOT_VOLUMES_MAX; i++) {
		struct snapshot_volume *volume = &meta->volumes[meta->n_volumes++];

		(void)snprintf(volume->id, sizeof(volume->id), "%s", domain->volumes[i]->volume_id);
		(void)snprintf(volume->serial, sizeof(volume->serial), "%s", domain->volumes[i]->serial);
		volume->read_only = domain->volumes[i]->read_only;
		volume->bytes = domain->volumes[i]->size_bytes;
	}
}

int rules_snapshot(const struct rules *rules, const record *current,
        const Bc__V1__RuntimeSnapshotRequest *request, struct snapshot_meta *meta, struct err *err)
{
	enum snapshot_kind kind = request->with_memory ? SNAPSHOT_MEMORY : SNAPSHOT_DISK;
	int r = check_present(current, request->id, err);

	if (r < 0)
		return r;
	if (request->path[0] != '/')
		return err_set(err, -EINVAL, "path: '%s' is not an absolute path", QUOTED(request->path));
	if (kind == SNAPSHOT_MEMORY && current->domain->state != BC__V1__DOMAIN__STATE__RUNNING &&
	        current->domain->state != BC__V1__DOMAIN__STATE__PAUSED)
		return err_set(err, -EBUSY, "domain '%s' is %s and has no memory to snapshot", request->id,
		        state_text(current->domain->state));
	r = snapshot_check_take(kind, writable_count(current->domain->n_volumes, current->domain->volumes),
	        current->domain->n_gpu_device_ids, err);
	if (r < 0)
		return r;
	meta_fill(rules, current, kind, meta);
	return 0;
}

/* --- what happens by itself --- */

static record *foreign_new(const struct rules *rules, const Bc__Fake__Event *event)
{
	CLEANUP_RECORD record *r = record_new();

	if (!r || message_text_set(&r->domain->id, event->id) < 0 ||
	        message_text_set(&r->domain->name, event->message[0] ? event->message : event->id) < 0 ||
	        state_set(rules, r, BC__V1__DOMAIN__STATE__RUNNING, "", "") < 0)
		return NULL;
	r->domain->vcpus = 1;
	r->domain->memory_bytes = 64 * MIB;
	return TAKE_PTR(r);
}

int rules_event(const struct rules *rules, const record *current, const Bc__Fake__Event *event, record **ret,
        struct err *err)
{
	static const struct {
		state state;
		const char *reason;
	} ENDS[] = {
		[BC__FAKE__EVENT__TYPE__CRASH] = { BC__V1__DOMAIN__STATE__CRASHED, "GuestPanicked" },
		[BC__FAKE__EVENT__TYPE__SHUTDOWN] = { BC__V1__DOMAIN__STATE__STOPPED, "GuestShutdown" },
		[BC__FAKE__EVENT__TYPE__COMPLETE] = { BC__V1__DOMAIN__STATE__STOPPED, "Completed" },
	};

	if (event->type == BC__FAKE__EVENT__TYPE__FOREIGN) {
		if (current)
			return err_set(err, -EEXIST, "domain '%s' exists", QUOTED(event->id));
		*ret = foreign_new(rules, event);
		return *ret ? 0 : -ENOMEM;
	}
	if (!current)
		return err_set(err, -ENOENT, "there is no domain '%s'", QUOTED(event->id));
	if (event->type == BC__FAKE__EVENT__TYPE__VANISH) {
		*ret = NULL;
		return 0;
	}
	if (!record_is_active(current))
		return err_set(
		        err, -EBUSY, "domain '%s' is %s", event->id, state_text(current->domain->state));
	CLEANUP_RECORD record *next = record_copy(current);
	if (!next)
		return -ENOMEM;
	next->domain->completed = event->type == BC__FAKE__EVENT__TYPE__COMPLETE;
	next->balloon_bytes = 0;
	int r = state_set(rules, next, ENDS[event->type].state, ENDS[event->type].reason, event->message);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(next);
	return 0;
}
