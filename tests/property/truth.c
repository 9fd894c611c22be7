#include "tests/property/truth.h"

#include "lib/base/tap_name.h"

#include "lib/text/proto_write.h"

#include <dirent.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESIRED(name) BC__V1__INSTANCE_SPEC__DESIRED_STATE__##name
#define STATE(name) BC__V1__INSTANCE_STATUS__STATE__##name
#define MIB (UINT64_C(1) << 20)

static bool __attribute__((format(printf, 2, 3))) no(struct truth *truth, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(truth->words, sizeof(truth->words), fmt, ap);
	va_end(ap);
	return false;
}

/* --- instances, as the converger tells them --- */

static bool volumes_conflict(const struct wish_instance *instance, const Bc__V1__Domain *domain)
{
	for (unsigned a = 0; a < instance->n_attachments; a++) {
		char id[16];

		wish_volume_id(instance->attachments[a].volume, id);
		for (size_t i = 0; i < domain->n_volumes; i++)
			if (strcmp(domain->volumes[i]->volume_id, id) == 0 &&
			        !(domain->volumes[i]->read_only && instance->attachments[a].read_only))
				return true;
	}
	return false;
}

static bool has_impostor(const struct truth *truth, const struct wish_instance *instance)
{
	return instance->runtime == 0 && strangers_have(truth->strangers, STRANGER_IMPOSTOR, instance->id);
}

/* What one had claimed that was about to start as a stranger took its place stays claimed while that is up. */
static bool impostor_holds_volumes(const struct truth *truth, const struct wish_instance *except)
{
	for (size_t i = 0; i < WISH_INSTANCES; i++) {
		const struct wish_instance *instance = &truth->wish->instances[i];
		char path[256];

		if (instance != except && has_impostor(truth, instance) &&
		        access(set_path(truth->set, path, sizeof(path), "data/volumes/claims/%s",
		                       instance->id),
		                F_OK) == 0)
			return true;
	}
	return false;
}

static bool volume_is_taken(const struct truth *truth, const struct wish_instance *instance)
{
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record;
		size_t cursor = 0;

		while ((record = history_next(truth->history, r, &cursor)))
			if (history_is_up(record) && strcmp(record->domain->id, instance->id) != 0 &&
			        volumes_conflict(instance, record->domain))
				return true;
	}
	return impostor_holds_volumes(truth, instance);
}

static bool volume_stat(const struct truth *truth, unsigned volume, struct stat *ret)
{
	char path[256], id[16];

	wish_volume_id(volume, id);
	return stat(set_path(truth->set, path, sizeof(path), "data/volumes/%s.raw", id), ret) == 0;
}

static bool volume_exists(const struct truth *truth, unsigned volume, uint64_t *ret_size)
{
	struct stat st;

	if (!volume_stat(truth, volume, &st))
		return false;
	*ret_size = (uint64_t)st.st_size;
	return true;
}

static bool volume_is_missing(const struct truth *truth, const struct wish_instance *instance)
{
	uint64_t size;

	for (unsigned a = 0; a < instance->n_attachments; a++) {
		unsigned volume = instance->attachments[a].volume;

		if (truth->wish->volumes[volume].state == WISH_UNNAMED &&
		        !volume_exists(truth, volume, &size))
			return true;
	}
	return false;
}

static bool capacity_is_short(const struct truth *truth, const struct wish_instance *instance)
{
	const Bc__Fake__Record *record;
	size_t cursor = 0;
	unsigned used = 0;

	while ((record = history_next(truth->history, 0, &cursor)))
		used += record->domain->managed && history_is_up(record) ? record->domain->vcpus : 0;
	return instance->runtime == 0 && used + instance->vcpus > truth->set->options.max_vcpus;
}

static bool is_squatted(const struct truth *truth, const struct wish_instance *instance)
{
	return instance->n_nics && instance->nics[0].is_bridge &&
	        strangers_have(truth->strangers, STRANGER_SQUATTER, instance->id);
}

/* Nothing of an earlier incarnation is left but what a stranger put there, which is not ours to remove. */
static bool removal_rests(const struct truth *truth, const Bc__V1__InstanceStatus *status)
{
	if (status->state != STATE(REMOVING))
		return false;
	if (strcmp(status->reason, "RemoveFailed") == 0)
		return strangers_have(truth->strangers, STRANGER_DIRECTORY, status->id);
	return strcmp(status->reason, "ReleaseFailed") == 0 &&
	        strangers_have(truth->strangers, STRANGER_SQUATTER, status->id);
}

/* Whether an instance that is to be up may rest in this state instead. */
static bool rest_is_right(
        const struct truth *truth, const struct wish_instance *instance, const Bc__V1__InstanceStatus *status)
{
	const char *reason = status->reason;

	switch (status->state) {
	case STATE(COMPLETED):
		return instance->is_job;
	case STATE(FAILED):
		if (strcmp(reason, "DefineFailed") == 0)
			return wish_restore_is_wrong(instance);
		if (strcmp(reason, "JobFailed") == 0)
			return instance->is_job;
		if (strcmp(reason, "ForeignDomain") == 0)
			return has_impostor(truth, instance);
		return strcmp(reason, "NetworkFailed") == 0 && is_squatted(truth, instance);
	case STATE(PENDING):
		if (strcmp(reason, "VolumeInUse") == 0)
			return volume_is_taken(truth, instance);
		return strcmp(reason, "WaitingForVolume") == 0 && volume_is_missing(truth, instance);
	case STATE(STOPPED):
		if (strcmp(reason, "Draining") == 0)
			return truth->drain == TRUTH_DRAINED;
		return strcmp(reason, "ResourcesExhausted") == 0 && capacity_is_short(truth, instance);
	default:
		return false;
	}
}

static bool state_is_told(
        const struct truth *truth, const struct wish_instance *instance, const Bc__V1__InstanceStatus *status)
{
	/* Whether an interface is lost is looked at where interfaces are. */
	bool has_words = status->reason[0] && strcmp(status->reason, "RestartNeeded") != 0 &&
	        strcmp(status->reason, "InterfaceLost") != 0;

	if (removal_rests(truth, status))
		return true;
	switch (truth->drain == TRUTH_STOPPED ? DESIRED(STOPPED) : instance->desired) {
	case DESIRED(RUNNING):
		return (status->state == STATE(RUNNING) && !has_words) ||
		        rest_is_right(truth, instance, status);
	case DESIRED(PAUSED):
		return (status->state == STATE(PAUSED) && !has_words) ||
		        rest_is_right(truth, instance, status);
	default:
		return status->state == STATE(STOPPED) ||
		        (status->state == STATE(FAILED) && strcmp(status->reason, "ForeignDomain") == 0 &&
		                has_impostor(truth, instance)) ||
		        (instance->is_job && rest_is_right(truth, instance, status));
	}
}

/* Who was refused for good is asked about again, as its operator would. */
static void terminal_retry(struct truth *truth, const Bc__V1__InstanceStatus *status)
{
	Bc__V1__RetryRequest request = BC__V1__RETRY_REQUEST__INIT;
	struct rpc_status ignored;
	char id[UUID_TEXT_MAX];

	if (status->state != STATE(FAILED) || status->next_attempt ||
	        strcmp(status->reason, "JobFailed") == 0 || strcmp(status->reason, "ForeignDomain") == 0)
		return;
	(void)snprintf(id, sizeof(id), "%s", status->id);
	request.instance_id = id;
	ProtobufCMessage *reply =
	        plane_call(truth->plane, SET_CONVERGER, PLANE_CONVERGER(retry), &request.base, &ignored);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
}

static const char *desired_text(const struct truth *truth, const struct wish_instance *instance)
{
	if (truth->drain == TRUTH_STOPPED)
		return "STOPPED (the node is drained)";
	switch (instance->desired) {
	case DESIRED(RUNNING):
		return "RUNNING";
	case DESIRED(PAUSED):
		return "PAUSED";
	default:
		return "STOPPED";
	}
}

static bool told_is_right(struct truth *truth)
{
	const Bc__V1__InstanceStatus *status;
	size_t cursor = 0;

	if (!plane_is_synced(truth->plane))
		return no(truth, "the converger does not tell its whole status");
	for (size_t i = 0; i < WISH_INSTANCES; i++) {
		const struct wish_instance *instance = &truth->wish->instances[i];

		if (!instance->is_wished)
			continue;
		status = plane_status(truth->plane, instance->id);
		if (!status)
			return no(truth, "instance %s (%zu) is not in the status", instance->id, i);
		if (!state_is_told(truth, instance, status)) {
			(void)no(truth, "instance %s (%zu), which is to be %s, is told as %s %s: %s",
			        instance->id, i, desired_text(truth, instance),
			        protobuf_c_enum_descriptor_get_value(
			                &bc__v1__instance_status__state__descriptor, (int)status->state)
			                ->name,
			        status->reason, status->message);
			terminal_retry(truth, status);
			return false;
		}
	}
	while ((status = plane_next(truth->plane, &cursor))) {
		const struct wish_instance *instance = wish_find(truth->wish, status->id);

		if (status->state == STATE(UNMANAGED) || (instance && instance->is_wished))
			continue;
		if (removal_rests(truth, status))
			continue;
		return no(truth, "instance %s, which is not wished, is told as %s %s: %s", status->id,
		        protobuf_c_enum_descriptor_get_value(
		                &bc__v1__instance_status__state__descriptor, (int)status->state)
		                ->name,
		        status->reason, status->message);
	}
	return true;
}

/* --- domains --- */

static bool secret_is_right(
        struct truth *truth, const struct wish_instance *instance, const Bc__Fake__Record *record)
{
	CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;
	char ref[32], secret[PLANE_SECRET_SIZE + 1], digest[SHA256_DIGEST_MAX];

	/* One that was restored has the user data of the one that was snapshotted. */
	if (!instance->user_data || instance->restore.exists)
		return true;
	wish_ref(instance->user_data, ref);
	plane_secret(truth->plane, ref, secret);
	if (sha256_stream_new(&stream) < 0 || sha256_stream_add(stream, secret, PLANE_SECRET_SIZE) < 0 ||
	        sha256_stream_digest(stream, digest) < 0)
		set_die("no memory");
	return strcmp(digest, record->user_data_digest) == 0 ||
	        no(truth, "instance %s got other user data than %s", instance->id, ref);
}

/* It was made from its snapshot, and has taken on its identity. */
static bool restore_is_right(struct truth *truth, const struct wish_instance *instance,
        const Bc__V1__InstanceStatus *status, const Bc__V1__Domain *domain)
{
	char ref[32] = "";

	if (strcmp(domain->restored_from, instance->restore.digest) != 0)
		return no(truth, "domain %s is from snapshot '%s', not from '%s'", instance->id,
		        domain->restored_from, instance->restore.digest);
	if (!instance->restore.with_memory || !instance->identity || status->state != STATE(RUNNING))
		return true;
	wish_ref(instance->identity, ref);
	if (strcmp(domain->identity_rebound_ref, ref) != 0)
		return no(truth, "the guest of %s is '%s', not '%s'", instance->id,
		        domain->identity_rebound_ref, ref);
	return strcmp(status->identity_rebound_ref, ref) == 0 ||
	        no(truth, "the guest of %s is told to be '%s', not '%s'", instance->id,
	                status->identity_rebound_ref, ref);
}

static bool definition_is_right(
        struct truth *truth, const struct wish_instance *instance, const Bc__V1__Domain *domain)
{
	if (domain->vcpus != instance->vcpus || domain->memory_bytes != instance->memory_mib * MIB)
		return no(truth, "domain %s has %u vCPUs and %" PRIu64 " MiB, not %u and %u", domain->id,
		        domain->vcpus, domain->memory_bytes / MIB, instance->vcpus, instance->memory_mib);
	if (domain->n_nics != instance->n_nics || domain->n_volumes != instance->n_attachments)
		return no(truth, "domain %s has %zu NICs and %zu volumes, not %u and %u", domain->id,
		        domain->n_nics, domain->n_volumes, instance->n_nics, instance->n_attachments);
	for (unsigned i = 0; i < instance->n_attachments; i++) {
		const Bc__V1__VolumePath *volume = domain->volumes[i];
		uint64_t size = 0;
		char id[16];

		wish_volume_id(instance->attachments[i].volume, id);
		if (strcmp(volume->volume_id, id) != 0 ||
		        volume->read_only != instance->attachments[i].read_only)
			return no(
			        truth, "domain %s has volume %s, not %s", domain->id, volume->volume_id, id);
		if (!volume_exists(truth, instance->attachments[i].volume, &size) ||
		        volume->size_bytes != size)
			return no(truth,
			        "domain %s has volume %s with %" PRIu64 " bytes, its file has %" PRIu64,
			        domain->id, id, volume->size_bytes, size);
	}
	for (unsigned i = 0; i < instance->n_nics; i++) {
		char name[IFNAME_MAX] = "";

		if (instance->nics[i].is_bridge)
			(void)tap_name(instance->id, i, name);
		if (strcmp(domain->nics[i]->interface, name) != 0)
			return no(truth, "NIC %u of domain %s is on '%s', not '%s'", i, domain->id,
			        domain->nics[i]->interface, name);
	}
	return true;
}

static bool domain_is_right(struct truth *truth, const struct wish_instance *instance)
{
	const Bc__V1__InstanceStatus *status = plane_status(truth->plane, instance->id);
	const Bc__Fake__Record *record = history_domain(truth->history, instance->runtime, instance->id);
	bool told_up = status->state == STATE(RUNNING) || status->state == STATE(PAUSED);
	char allocation[32];

	if (has_impostor(truth, instance))
		return true;
	if (told_up != (record && history_is_up(record)))
		return no(truth, "instance %s is told as %s, but its domain is %s", instance->id,
		        told_up ? "up" : "down", told_up ? "not" : "up");
	wish_allocation(instance, allocation);
	if (record && strcmp(record->domain->allocation_id, allocation) != 0)
		return no(truth, "domain %s is of %s, not of %s", instance->id, record->domain->allocation_id,
		        allocation);
	if (!told_up)
		return true;
	if ((record->domain->state == BC__V1__DOMAIN__STATE__PAUSED) != (status->state == STATE(PAUSED)))
		return no(truth, "domain %s is paused, or is not, against what is told", instance->id);
	if (!secret_is_right(truth, instance, record) ||
	        !restore_is_right(truth, instance, status, record->domain))
		return false;
	/* A start of what was told to be down and was not is believed to have given it the new spec. */
	return status->reason[0] || !truth->set->options.trusts_converger ||
	        definition_is_right(truth, instance, record->domain);
}

static bool domains_are_right(struct truth *truth)
{
	for (size_t i = 0; i < WISH_INSTANCES; i++)
		if (truth->wish->instances[i].is_wished &&
		        !domain_is_right(truth, &truth->wish->instances[i]))
			return false;
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record;
		size_t cursor = 0;

		while ((record = history_next(truth->history, r, &cursor))) {
			const struct wish_instance *instance = wish_find(truth->wish, record->domain->id);

			if (record->domain->managed &&
			        !(instance && instance->is_wished && instance->runtime == r))
				return no(truth, "domain %s is left in %s", record->domain->id,
				        wish_runtime(r));
		}
	}
	return true;
}

/* --- what the kernel holds --- */

/* The domain that an interface is of, when that is up. */
static const Bc__V1__Domain *domain_of(const struct truth *truth, const char *ifname, unsigned *ret_nic)
{
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record;
		size_t cursor = 0;

		while ((record = history_next(truth->history, r, &cursor)))
			for (size_t i = 0; history_is_up(record) && i < record->domain->n_nics; i++)
				if (strcmp(record->domain->nics[i]->interface, ifname) == 0) {
					*ret_nic = (unsigned)i;
					return record->domain;
				}
	}
	return NULL;
}

static bool nothing_is_left(struct truth *truth, const struct kernel *kernel)
{
	const char *name;
	json_t *ignored;
	unsigned nic;

	json_object_foreach(kernel->links, name, ignored) if (kernel_is_ours_by_name(name) &&
	        !strangers_own(truth->strangers, name) &&
	        !domain_of(truth, name, &nic)) return no(truth, "interface %s is left", name);
	json_object_foreach(kernel->named, name, ignored) if (!domain_of(truth, name, &nic)) return no(
	        truth, "rules for %s are left", name);
	return true;
}

static bool interface_is_right(struct truth *truth, const struct kernel *kernel, const char *name)
{
	json_t *link = json_object_get(kernel->links, name), *flags = json_object_get(link, "flags");
	const char *master = json_string_value(json_object_get(link, "master"));
	bool is_up = false;

	if (!link)
		return no(truth, "interface %s is missing", name);
	for (size_t i = 0; i < json_array_size(flags); i++)
		is_up = is_up || strcmp(json_string_value(json_array_get(flags, i)), "UP") == 0;
	if (!is_up || !master || strcmp(master, WISH_BRIDGE) != 0)
		return no(truth, "interface %s is not up, or not on its bridge", name);
	return kernel_has(kernel, "nics", name, NULL) || no(truth, "interface %s has no rules", name);
}

static bool filter_is_right(struct truth *truth, const struct kernel *kernel,
        const struct wish_instance *instance, unsigned index)
{
	const struct wish_nic *nic = &instance->nics[index];
	unsigned slot = (unsigned)(instance - truth->wish->instances);
	char name[IFNAME_MAX];

	(void)tap_name(instance->id, index, name);
	if (kernel_has(kernel, "restricted", name, NULL) != (nic->policy != BC__V1__NIC__POLICY__PUBLIC) ||
	        kernel_has(kernel, "isolated", name, NULL) != (nic->policy == BC__V1__NIC__POLICY__NONE) ||
	        kernel_has(kernel, "ssh_from_host", name, NULL) != instance->ssh_from_host_only ||
	        kernel_has(kernel, "unfiltered", name, NULL))
		return no(truth, "interface %s has another policy than is wished", name);
	for (unsigned i = 0; i < nic->n_addresses; i++) {
		char address[48];

		wish_address(nic, slot, index, i, address);
		*strchr(address, '/') = 0;
		if (!kernel_has(kernel, i ? "addresses6" : "addresses4", name, address))
			return no(truth, "interface %s may not use %s", name, address);
	}
	return true;
}

static bool ports_are_right(struct truth *truth, const struct kernel *kernel,
        const struct wish_instance *instance, const Bc__V1__Domain *domain)
{
	unsigned slot = (unsigned)(instance - truth->wish->instances);
	bool has_user = false;

	for (unsigned i = 0; i < instance->n_nics; i++)
		has_user = has_user || !instance->nics[i].is_bridge;
	if (domain->n_ports != (has_user ? instance->n_ports : 0))
		return no(truth, "domain %s forwards %zu ports", domain->id, domain->n_ports);
	for (unsigned i = 0; i < WISH_PORTS; i++)
		if (kernel_publishes(kernel, wish_port(slot, i)) != (!has_user && i < instance->n_ports))
			return no(truth, "port %u of instance %s is published, or is not, against its spec",
			        wish_port(slot, i), instance->id);
	return true;
}

/* An interface that somebody deleted: that is told, and nothing of it is left. One that nobody deleted is there, unless
 * a runtime lied: who believes that a running domain is down takes its interfaces from under it. */
static bool loss_is_right(struct truth *truth, const struct kernel *kernel,
        const struct wish_instance *instance, const Bc__V1__Domain *domain, bool is_told)
{
	unsigned n_lost = 0, slot = (unsigned)(instance - truth->wish->instances);

	for (size_t i = 0; i < domain->n_nics; i++) {
		const char *name = domain->nics[i]->interface;

		if (!name[0])
			continue;
		if (json_object_get(kernel->links, name)) {
			meddle_forget(truth->meddler, name);
			continue;
		}
		if (!meddle_has_deleted(truth->meddler, name) && truth->set->options.trusts_converger)
			return no(truth, "interface %s of domain %s is missing, and nobody deleted it", name,
			        domain->id);
		if (!is_told)
			return no(truth, "interface %s of domain %s is gone, and that is not told", name,
			        domain->id);
		if (json_object_get(kernel->named, name))
			return no(truth, "interface %s is gone, its rules are left", name);
		n_lost++;
	}
	if (is_told != (n_lost > 0))
		return no(truth, "instance %s is told to have lost an interface, but all are there",
		        instance->id);
	for (size_t i = 0; is_told && i < domain->n_nics && n_lost == domain->n_nics; i++)
		for (unsigned port = 0; port < WISH_PORTS; port++)
			if (kernel_publishes(kernel, wish_port(slot, port)))
				return no(truth,
				        "port %u of instance %s is published, its interfaces are gone",
				        wish_port(slot, port), instance->id);
	return true;
}

static bool host_is_right(
        struct truth *truth, const struct kernel *kernel, const struct wish_instance *instance)
{
	const Bc__Fake__Record *record = history_domain(truth->history, instance->runtime, instance->id);
	const Bc__V1__InstanceStatus *status = plane_status(truth->plane, instance->id);
	unsigned slot = (unsigned)(instance - truth->wish->instances);

	if (!record || !history_is_up(record) || !record->domain->managed) {
		for (unsigned i = 0; i < WISH_PORTS; i++)
			if (kernel_publishes(kernel, wish_port(slot, i)))
				return no(truth, "port %u of instance %s, which is down, is published",
				        wish_port(slot, i), instance->id);
		return true;
	}
	if (!loss_is_right(
	            truth, kernel, instance, record->domain, strcmp(status->reason, "InterfaceLost") == 0))
		return false;
	for (size_t i = 0; i < record->domain->n_nics; i++)
		if (json_object_get(kernel->links, record->domain->nics[i]->interface) &&
		        !interface_is_right(truth, kernel, record->domain->nics[i]->interface))
			return false;
	/* What may pass is changed while it runs. */
	for (unsigned i = 0; i < instance->n_nics && i < record->domain->n_nics; i++)
		if (instance->nics[i].is_bridge &&
		        json_object_get(kernel->links, record->domain->nics[i]->interface) &&
		        !filter_is_right(truth, kernel, instance, i))
			return false;
	if (status->reason[0] || !truth->set->options.trusts_converger)
		return true; /* it was started by another spec, or may have been */
	return ports_are_right(truth, kernel, instance, record->domain);
}

static bool kernel_is_right(struct truth *truth)
{
	struct kernel kernel;
	const char *touched;
	bool is_right;

	kernel_read(&kernel);
	touched = strangers_touched(truth->strangers, &kernel, truth->history);
	is_right = touched ? no(truth, "%s", touched) : nothing_is_left(truth, &kernel);
	for (size_t i = 0; is_right && i < WISH_INSTANCES; i++)
		if (truth->wish->instances[i].is_wished)
			is_right = host_is_right(truth, &kernel, &truth->wish->instances[i]);
	kernel_done(&kernel);
	return is_right;
}

/* --- files --- */

static bool volume_is_open(const struct truth *truth, const char *id)
{
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record;
		size_t cursor = 0;

		while ((record = history_next(truth->history, r, &cursor)))
			for (size_t i = 0; history_is_up(record) && i < record->domain->n_volumes; i++)
				if (strcmp(record->domain->volumes[i]->volume_id, id) == 0)
					return true;
	}
	return false;
}

static bool volumes_are_right(struct truth *truth)
{
	for (unsigned i = 0; i < WISH_VOLUMES; i++) {
		const struct wish_volume *volume = &truth->wish->volumes[i];
		uint64_t size = 0;
		bool exists = volume_exists(truth, i, &size);
		struct stat st = { 0 };
		char id[16];

		wish_volume_id(i, id);
		if (volume_stat(truth, i, &st) && st.st_blocks)
			return no(truth, "volume %s was written to, and there is no guest that could", id);
		if (volume->state == WISH_PRESENT && (!exists || size != volume->size_mib * MIB))
			return no(truth, "volume %s has %" PRIu64 " bytes, not %" PRIu64 " MiB", id, size,
			        volume->size_mib);
		if (volume->state == WISH_ABSENT && exists && !volume_is_open(truth, id))
			return no(
			        truth, "volume %s is there, nobody has it open, and it is to be absent", id);
	}
	return true;
}

/* Every name in a directory of ours that is neither a stranger's nor found right by is_right. */
static bool directory_is_right(
        struct truth *truth, const char *name, bool (*is_right)(const struct truth *truth, const char *name))
{
	char path[256], file[512];
	CLEANUP_CLOSEDIR DIR *dir = opendir(set_path(truth->set, path, sizeof(path), "%s", name));
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		bool is_known = entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.');

		(void)snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		for (size_t i = 0; i < truth->strangers->n; i++)
			is_known = is_known || strcmp(truth->strangers->items[i].name, file) == 0;
		if (!is_known && !is_right(truth, entry->d_name))
			return no(truth, "%s is left", file);
	}
	return true;
}

static bool instance_file_is_right(const struct truth *truth, const char *name)
{
	return strangers_have(truth->strangers, STRANGER_DIRECTORY, name) || wish_find(truth->wish, name);
}

static bool volume_file_is_right(const struct truth *truth, const char *name)
{
	unsigned number;
	char end;

	(void)truth;
	return strcmp(name, "claims") == 0 || sscanf(name, "vol-%u.ra%c", &number, &end) == 2;
}

static bool claim_is_right(const struct truth *truth, const char *name)
{
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record = history_domain(truth->history, r, name);

		/* What a domain that is not ours has open nobody knows. */
		if (record && history_is_up(record) &&
		        (record->domain->n_volumes || !record->domain->managed))
			return true;
	}
	return false;
}

static bool record_file_is_right(const struct truth *truth, const char *name)
{
	unsigned nic;

	return domain_of(truth, name, &nic) && if_nametoindex(name) != 0;
}

static bool snapshot_file_is_right(const struct truth *truth, const char *name)
{
	(void)truth;
	return strcmp(name, "restore") == 0;
}

/* What was fetched is kept for a time, and the part of what was given up. */
static bool fetched_file_is_right(const struct truth *truth, const char *name)
{
	size_t n = strspn(name, "0123456789abcdef");

	(void)truth;
	return n == SHA256_HEX_MAX - 1 && (!name[n] || strcmp(name + n, ".part") == 0);
}

static bool data_file_is_right(const struct truth *truth, const char *name)
{
	static const char *const NAMES[] = { "state.db", "state.db-wal", "state.db-shm", "images",
		"instances", "snapshots", "volumes" };

	(void)truth;
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		if (strcmp(name, NAMES[i]) == 0)
			return true;
	return false;
}

static bool files_are_right(struct truth *truth)
{
	return volumes_are_right(truth) &&
	        directory_is_right(truth, "data/instances", instance_file_is_right) &&
	        directory_is_right(truth, "data/volumes", volume_file_is_right) &&
	        directory_is_right(truth, "data/volumes/claims", claim_is_right) &&
	        directory_is_right(truth, "data", data_file_is_right) &&
	        directory_is_right(truth, "data/images", fetched_file_is_right) &&
	        directory_is_right(truth, "data/snapshots", snapshot_file_is_right) &&
	        directory_is_right(truth, "data/snapshots/restore", fetched_file_is_right) &&
	        directory_is_right(truth, "record", record_file_is_right);
}

bool truth_is_reached(struct truth *truth)
{
	history_read(truth->history);
	return snapshots_are_quiet(truth->snapshots, truth->words, sizeof(truth->words)) &&
	        told_is_right(truth) && domains_are_right(truth) && files_are_right(truth) &&
	        kernel_is_right(truth);
}

/* --- secrets --- */

const char *truth_leak(struct truth *truth)
{
	/* In clear, as base64 of any alignment, and as hex; in one look. Volumes are large, and nothing but holes. */
	const char *const argv[] = { "grep", "-rlaF", "-D", "skip", "--exclude=vol-*.raw", "-e", "TOPSECRET-",
		"-e", "VE9QU0VDUkVULT", "-e", "RPUFNFQ1JFVC", "-e", "UT1BTRUNSRVQt", "-e",
		"544f505345435245542d", truth->set->dir, NULL };
	CLEANUP_FREE char *found = set_output(argv);

	if (!found)
		return NULL;
	(void)no(truth, "a secret is to be read, in clear, as base64 or as hex, in %s", found);
	return truth->words;
}

/* --- for people --- */

static void message_print(const char *what, const ProtobufCMessage *message)
{
	CLEANUP_FREE char *text = NULL;

	if (message && proto_write_json(message, PROTO_WRITE_COMPACT, &text) < 0)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, message ? text : "none");
}

void truth_print_instance(struct truth *truth, const char *id)
{
	CLEANUP_FREE struct wish_message *message = calloc(1, sizeof(*message));

	if (!message)
		return;
	wish_fill(truth->wish, message);
	const Bc__V1__InstanceSpec *spec = NULL;
	for (size_t i = 0; i < message->instances.n_items; i++)
		if (strcmp(message->instances.items[i]->id, id) == 0)
			spec = message->instances.items[i];
	(void)fprintf(stderr, "\nInstance %s\n", id);
	message_print("wished", spec ? &spec->base : NULL);
	const Bc__V1__InstanceStatus *status = plane_status(truth->plane, id);
	message_print("told", status ? &status->base : NULL);
	for (unsigned r = 0; r < WISH_RUNTIMES; r++) {
		const Bc__Fake__Record *record = history_domain(truth->history, r, id);

		message_print(wish_runtime(r), record ? &record->domain->base : NULL);
	}
}

const struct wish_instance *truth_find_at_rest(const struct truth *truth, unsigned first)
{
	for (unsigned i = 0; i < WISH_INSTANCES; i++) {
		const struct wish_instance *instance = &truth->wish->instances[(first + i) % WISH_INSTANCES];
		const Bc__V1__InstanceStatus *status = plane_status(truth->plane, instance->id);

		if (instance->is_wished && status && !status->reason[0] && !has_impostor(truth, instance) &&
		        history_domain(truth->history, instance->runtime, instance->id))
			return instance;
	}
	return NULL;
}
