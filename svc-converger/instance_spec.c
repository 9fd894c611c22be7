#include "svc-converger/instance_spec.h"

#include "svc-converger/text_hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a, 64 bits: a change that it misses costs a hint in a status, nothing else. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3;
	return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t hash_texts(uint64_t hash, char *const *texts, size_t n)
{
	hash = hash_bytes(hash, &n, sizeof(n));
	for (size_t i = 0; i < n; i++)
		hash = hash_text(hash, texts[i]);
	return hash;
}

static const uint64_t HASH_BEGIN = 0xcbf29ce484222325;

static uint64_t hash_nics(const Bc__V1__InstanceSpec *m)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, &m->ssh_from_host_only, sizeof(m->ssh_from_host_only));

	for (size_t i = 0; i < m->n_nics; i++) {
		const Bc__V1__Nic *nic = m->nics[i];

		hash = hash_texts(hash, nic->addresses, nic->n_addresses);
		hash = hash_texts(hash, nic->gateways, nic->n_gateways);
		hash = hash_texts(hash, nic->nameservers, nic->n_nameservers);
		hash = hash_texts(hash, nic->private_prefixes, nic->n_private_prefixes);
		hash = hash_bytes(hash, &nic->policy, sizeof(nic->policy));
	}
	return hash | 1; /* 0 is "never" */
}

/* What is left once everything that takes effect by itself is blanked. scratch has room for the packed message. */
static int hash_start(const Bc__V1__InstanceSpec *m, uint8_t *scratch, uint64_t *ret)
{
	Bc__V1__InstanceSpec rest = *m;
	Bc__V1__Nic *nics = calloc(m->n_nics + 1, sizeof(*nics));
	Bc__V1__Nic **pointers = calloc(m->n_nics + 1, sizeof(*pointers));

	if (!nics || !pointers) {
		free(nics);
		free(pointers);
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->n_nics; i++) {
		nics[i] = *m->nics[i];
		nics[i].policy = BC__V1__NIC__POLICY__POLICY_UNSPECIFIED;
		nics[i].n_private_prefixes = 0;
		pointers[i] = &nics[i];
	}
	rest.nics = pointers;
	rest.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__DESIRED_STATE_UNSPECIFIED;
	rest.n_labels = 0;
	rest.balloon = NULL;
	rest.user_data_ref = (char *)protobuf_c_empty_string;
	rest.identity_rebind_ref = (char *)protobuf_c_empty_string;
	rest.restore_from = NULL;
	rest.ssh_from_host_only = false;
	*ret = hash_bytes(HASH_BEGIN, scratch, bc__v1__instance_spec__pack(&rest, scratch)) | 1;
	free(nics);
	free(pointers);
	return 0;
}

const char *instance_nic_segment(const Bc__V1__Nic *nic)
{
	const char *name = nic->attachment_case == BC__V1__NIC__ATTACHMENT_BRIDGE ? nic->bridge->name
	        : nic->attachment_case == BC__V1__NIC__ATTACHMENT_MACVTAP         ? nic->macvtap->parent
	                                                                          : "";

	return name[0] ? name : NULL;
}

static void look_at_nics(struct instance_spec *spec, const Bc__V1__InstanceSpec *m)
{
	spec->is_filtered = m->n_nics && m->ssh_from_host_only;
	for (size_t i = 0; i < m->n_nics; i++) {
		spec->has_macs = spec->has_macs || (m->nics[i]->mac[0] && instance_nic_segment(m->nics[i]));
		switch (m->nics[i]->attachment_case) {
		case BC__V1__NIC__ATTACHMENT_BRIDGE:
		case BC__V1__NIC__ATTACHMENT_MACVTAP:
			spec->uses_netd = true;
			break;
		default:
			break;
		}
		if (m->nics[i]->policy == BC__V1__NIC__POLICY__PRIVATE ||
		        m->nics[i]->policy == BC__V1__NIC__POLICY__NONE)
			spec->is_filtered = true;
	}
}

int instance_spec_new(const Bc__V1__InstanceSpec *m, struct instance_spec **ret)
{
	size_t size = bc__v1__instance_spec__get_packed_size(m);
	size_t n_allocation = strlen(m->allocation_id) + 1;
	struct instance_spec *spec;

	if (strlen(m->runtime) >= RUNTIME_ID_MAX || n_allocation > ALLOCATION_ID_MAX)
		return -EINVAL;
	spec = malloc(sizeof(*spec) + size + n_allocation);
	if (!spec)
		return -ENOMEM;
	*spec = (struct instance_spec){
		.memory_bytes = m->memory_bytes,
		.huge_page_bytes = m->placement ? m->placement->huge_page_bytes : 0,
		.balloon_min_bytes = m->balloon ? m->balloon->min_bytes : 0,
		.vcpus = m->vcpus,
		.desired_state = m->desired_state,
		.is_job = m->kind == BC__V1__INSTANCE_SPEC__KIND__JOB,
		.has_image = m->boot && m->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE,
		.has_restore = m->restore_from != NULL,
		.has_user_data = *m->user_data_ref != 0,
		.rebind_hash = *m->identity_rebind_ref && m->restore_from && m->restore_from->with_memory
		        ? text_hash(m->identity_rebind_ref)
		        : 0,
		.has_volumes = m->n_volumes > 0,
		.has_placement = m->placement != NULL,
		.has_gpus = m->n_gpu_device_ids > 0,
		.has_ports = m->n_port_mappings > 0,
		.size = size,
	};
	spec->nics_hash = hash_nics(m);
	if (hash_start(m, spec->data, &spec->started_hash) < 0) {
		free(spec);
		return -ENOMEM;
	}
	look_at_nics(spec, m);
	(void)bc__v1__instance_spec__pack(m, spec->data);
	strcpy(spec->runtime, m->runtime);
	spec->allocation_id = memcpy(spec->data + size, m->allocation_id, n_allocation);
	*ret = spec;
	return 0;
}

int instance_spec_parse(const void *data, size_t size, struct instance_spec **ret)
{
	Bc__V1__InstanceSpec *message = bc__v1__instance_spec__unpack(NULL, size, data);
	int r;

	if (!message)
		return -EBADMSG;
	r = instance_spec_new(message, ret);
	bc__v1__instance_spec__free_unpacked(message, NULL);
	return r == -EINVAL ? -EBADMSG : r;
}

struct instance_spec *instance_spec_free(struct instance_spec *spec)
{
	free(spec);
	return NULL;
}

Bc__V1__InstanceSpec *instance_spec_unpack(const struct instance_spec *spec)
{
	return bc__v1__instance_spec__unpack(NULL, spec->size, spec->data);
}

bool instance_spec_equals(const struct instance_spec *spec, const Bc__V1__InstanceSpec *message,
        uint8_t **scratch, size_t *n_scratch)
{
	size_t size = bc__v1__instance_spec__get_packed_size(message);

	if (size != spec->size)
		return false;
	if (size > *n_scratch) {
		uint8_t *grown = realloc(*scratch, size * 2);

		if (!grown)
			return false;
		*scratch = grown;
		*n_scratch = size * 2;
	}
	return bc__v1__instance_spec__pack(message, *scratch) == size &&
	        memcmp(*scratch, spec->data, size) == 0;
}
