#include "tests/property/wish.h"

#include "lib/base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define DESIRED(name) BC__V1__INSTANCE_SPEC__DESIRED_STATE__##name
#define POLICY(name) BC__V1__NIC__POLICY__##name

enum { REFS = 6, PORTS_FROM = 20000, PORTS_A_SLOT = 10 };

const char *wish_runtime(unsigned runtime)
{
	static const char *const NAMES[WISH_RUNTIMES] = { "fake", "fake-two" };

	return NAMES[runtime];
}

void wish_allocation(const struct wish_instance *instance, char ret[static 32])
{
	(void)snprintf(ret, 32, "alloc-%u", instance->allocation);
}

void wish_volume_id(unsigned volume, char ret[static 16])
{
	(void)snprintf(ret, 16, "vol-%u", volume);
}

void wish_ref(unsigned number, char ret[static 32])
{
	(void)snprintf(ret, 32, "ref-%u", number);
}

bool wish_restore_is_wrong(const struct wish_instance *instance)
{
	const struct wish_snapshot *restore = &instance->restore;

	return restore->exists &&
	        (restore->runtime != instance->runtime ||
	                (restore->with_memory &&
	                        (restore->vcpus != instance->vcpus ||
	                                restore->memory_mib != instance->memory_mib ||
	                                restore->n_nics != instance->n_nics)));
}

uint16_t wish_port(unsigned slot, unsigned i)
{
	return (uint16_t)(PORTS_FROM + slot * PORTS_A_SLOT + i);
}

void wish_address(
        const struct wish_nic *nic, unsigned slot, unsigned nic_index, unsigned i, char ret[static 48])
{
	if (i == 0)
		(void)snprintf(ret, 48, "10.%u.%u.%u/16", slot, nic_index, nic->octet);
	else
		(void)snprintf(ret, 48, "fd00:%x:%x::%x/64", slot + 1, nic_index + 1, nic->octet);
}

const struct wish_instance *wish_find(const struct wish *wish, const char *id)
{
	for (size_t i = 0; i < WISH_INSTANCES; i++)
		if (strcmp(wish->instances[i].id, id) == 0)
			return &wish->instances[i];
	return NULL;
}

/* --- changes --- */

static void id_make(struct wish *wish, struct wish_instance *instance)
{
	uint64_t a = random_next(wish->random), b = random_next(wish->random);

	(void)snprintf(instance->id, sizeof(instance->id),
	        "%08" PRIx32 "-%04" PRIx32 "-4%03" PRIx32 "-8%03" PRIx32 "-%012" PRIx64, (uint32_t)(a >> 32),
	        (uint32_t)(a >> 16) & 0xffff, (uint32_t)a & 0xfff, (uint32_t)(b >> 52), b & 0xffffffffffff);
	instance->was_wished = false;
}

static void nic_make(struct wish *wish, struct wish_nic *nic)
{
	struct random *random = wish->random;

	*nic = (struct wish_nic){
		.is_bridge = random_chance(random, 80),
		.n_addresses = random_below(random, 3),
		.octet = 2 + random_below(random, 200),
		.queues = random_chance(random, 20) ? 2 : 0,
	};
	nic->policy = nic->is_bridge ? (Bc__V1__Nic__Policy)(POLICY(PUBLIC) + random_below(random, 3))
	                             : POLICY(PUBLIC);
}

/* The volumes an instance may attach: an absent one is a fault in a spec. */
static void attachments_make(struct wish *wish, struct wish_instance *instance)
{
	struct random *random = wish->random;
	unsigned first = random_below(random, WISH_VOLUMES),
	         wanted = random_below(random, WISH_ATTACHMENTS + 1);

	instance->n_attachments = 0;
	for (unsigned i = 0; i < WISH_VOLUMES && instance->n_attachments < wanted; i++) {
		unsigned volume = (first + i) % WISH_VOLUMES;

		/* Now and then one that nobody has named yet. */
		if (wish->volumes[volume].state == WISH_PRESENT ||
		        (wish->volumes[volume].state == WISH_UNNAMED && random_chance(random, 15)))
			instance->attachments[instance->n_attachments++] =
			        (struct wish_attachment){ .volume = volume,
				        .read_only = random_chance(random, 30) ||
				                (instance->restore.exists && instance->restore.with_memory) };
	}
}

static void nics_make(struct wish *wish, struct wish_instance *instance, unsigned n_nics)
{
	instance->n_nics = n_nics;
	for (unsigned i = 0; i < instance->n_nics; i++)
		nic_make(wish, &instance->nics[i]);
	instance->n_ports = 0;
	instance->guest_port = 1 + random_below(wish->random, 60000);
	if (!instance->n_nics || random_chance(wish->random, 50))
		return;
	instance->n_ports = 1 + random_below(wish->random, WISH_PORTS);
	/* What is published on a bridge NIC goes to an address of it. */
	for (unsigned i = 0; i < instance->n_nics; i++)
		if (!instance->nics[i].n_addresses)
			instance->nics[i].n_addresses = 1;
}

/* From a snapshot, mostly one that fits. As many random numbers whether there is one yet or not. */
static void restore_make(struct wish *wish, struct wish_instance *instance)
{
	struct random *random = wish->random;
	bool is_wished = random_chance(random, 20), fits = random_chance(random, 80);
	const struct wish_snapshot *snapshot = &wish->snapshots[random_below(random, WISH_SNAPSHOTS)];

	instance->identity = random_chance(random, 60) ? 1 + random_below(random, REFS) : 0;
	instance->restore = (struct wish_snapshot){ 0 };
	if (!is_wished || !snapshot->exists)
		return;
	instance->restore = *snapshot;
	if (fits)
		instance->runtime = snapshot->runtime;
	if (fits && snapshot->with_memory) {
		instance->vcpus = snapshot->vcpus;
		instance->memory_mib = snapshot->memory_mib;
	}
}

static const char *instance_make(struct wish *wish, unsigned slot)
{
	struct wish_instance *instance = &wish->instances[slot];
	struct random *random = wish->random;
	unsigned n_nics;

	/* An id that was used before comes back as another incarnation. */
	if (instance->was_wished && random_chance(random, 60))
		id_make(wish, instance);
	instance->is_wished = instance->was_wished = true;
	instance->allocation++;
	instance->runtime = random_chance(random, 75) ? 0 : 1;
	instance->desired = random_chance(random, 75)
	        ? DESIRED(RUNNING)
	        : (random_chance(random, 50) ? DESIRED(STOPPED) : DESIRED(PAUSED));
	instance->is_job = random_chance(random, 12);
	instance->ssh_from_host_only = random_chance(random, 20);
	instance->vcpus = 1 + random_below(random, 4);
	instance->memory_mib = 32 * (1 + random_below(random, 6));
	instance->image = random_below(random, WISH_IMAGES + 1);
	instance->user_data = random_chance(random, 40) ? 1 + random_below(random, REFS) : 0;
	restore_make(wish, instance);
	n_nics = random_below(random, WISH_NICS + 1);
	nics_make(wish, instance,
	        instance->restore.exists && instance->restore.with_memory ? instance->restore.n_nics
	                                                                  : n_nics);
	attachments_make(wish, instance);
	return "new";
}

static const char *instance_change(struct wish *wish, unsigned slot)
{
	struct wish_instance *instance = &wish->instances[slot];
	struct random *random = wish->random;
	bool with_addresses;

	switch (random_below(random, 14)) {
	case 0:
	case 1:
		instance->is_wished = false;
		return "dropped";
	case 2:
	case 3:
		instance->desired = DESIRED(STOPPED);
		return "stopped";
	case 4:
	case 5:
		instance->desired = DESIRED(RUNNING);
		return "running";
	case 6:
		instance->desired = DESIRED(PAUSED);
		return "paused";
	case 7:
		instance->allocation++;
		return "another incarnation";
	case 8:
		instance->runtime = !instance->runtime;
		instance->allocation += random_below(random, 2);
		return "to the other runtime";
	case 9:
	case 10:
		/* Policies change at once, addresses with a restart. */
		with_addresses = random_chance(random, 30);
		for (unsigned i = 0; i < instance->n_nics; i++) {
			struct wish_nic *nic = &instance->nics[i];

			if (nic->is_bridge)
				nic->policy = (Bc__V1__Nic__Policy)(POLICY(PUBLIC) + random_below(random, 3));
			if (with_addresses)
				nic->octet = 2 + random_below(random, 200);
		}
		instance->ssh_from_host_only = random_chance(random, 30);
		return "other policies";
	case 11:
		nics_make(wish, instance, random_below(random, WISH_NICS + 1));
		return "other NICs";
	case 12:
		instance->identity = 1 + random_below(random, REFS);
		return "another identity";
	default:
		attachments_make(wish, instance);
		instance->vcpus = 1 + random_below(random, 4);
		return "other volumes";
	}
}

static const char *volume_change(struct wish *wish, unsigned slot)
{
	struct wish_volume *volume = &wish->volumes[slot];

	switch (random_below(wish->random, 6)) {
	case 0:
		volume->state = WISH_UNNAMED;
		return "not named";
	case 1:
		/* What the same spec destroys it cannot attach. */
		for (size_t i = 0; i < WISH_INSTANCES; i++) {
			struct wish_instance *instance = &wish->instances[i];

			for (unsigned a = 0; a < instance->n_attachments;)
				if (instance->attachments[a].volume == slot)
					instance->attachments[a] =
					        instance->attachments[--instance->n_attachments];
				else
					a++;
		}
		volume->state = WISH_ABSENT;
		return "absent";
	case 2:
	case 3:
		volume->size_mib += 1 + random_below(wish->random, 16);
		volume->state = WISH_PRESENT;
		return "grown";
	default:
		volume->state = WISH_PRESENT;
		return "present";
	}
}

void wish_init(struct wish *wish, struct random *random)
{
	*wish = (struct wish){ .random = random };
	for (unsigned i = 0; i < WISH_INSTANCES; i++)
		id_make(wish, &wish->instances[i]);
	for (unsigned i = 0; i < WISH_VOLUMES; i++)
		wish->volumes[i] = (struct wish_volume){ .state = i < 4 ? WISH_PRESENT : WISH_UNNAMED,
			.size_mib = 1 + random_below(random, 16) };
}

void wish_change(struct wish *wish, char ret[static WISH_TEXT_MAX])
{
	static const char *const STATES[] = { "?", "RUNNING", "STOPPED", "PAUSED" };
	unsigned slot;
	const char *what;

	wish->without_instances = random_chance(wish->random, 4);
	if (random_chance(wish->random, 20)) {
		slot = random_below(wish->random, WISH_VOLUMES);
		what = volume_change(wish, slot);
		(void)snprintf(ret, WISH_TEXT_MAX, "vol-%u %s, %" PRIu64 " MiB", slot, what,
		        wish->volumes[slot].size_mib);
		return;
	}
	slot = random_below(wish->random, WISH_INSTANCES);
	struct wish_instance *instance = &wish->instances[slot];
	what = instance->is_wished ? instance_change(wish, slot) : instance_make(wish, slot);
	int n = snprintf(ret, WISH_TEXT_MAX,
	        "%u %s %s: %s on %s, alloc-%u, %u NICs, %u ports, user data %u%s%s%s", slot, instance->id,
	        what, STATES[instance->desired], wish_runtime(instance->runtime), instance->allocation,
	        instance->n_nics, instance->n_ports, instance->user_data, instance->is_job ? ", a job" : "",
	        !instance->restore.exists                 ? ""
	                : wish_restore_is_wrong(instance) ? ", from a snapshot that does not fit"
	                : instance->restore.with_memory   ? ", from a memory"
	                                                  : ", from a disk",
	        instance->n_attachments ? ", volumes" : "");
	for (unsigned i = 0; i < instance->n_attachments && n < WISH_TEXT_MAX; i++)
		n += snprintf(ret + n, (size_t)(WISH_TEXT_MAX - n), " %u%s", instance->attachments[i].volume,
		        instance->attachments[i].read_only ? "r" : "");
}

void wish_start_one(struct wish *wish)
{
	unsigned slot = 0;

	while (slot < WISH_INSTANCES && wish->instances[slot].is_wished &&
	        wish->instances[slot].desired == DESIRED(RUNNING))
		slot++;
	if (slot == WISH_INSTANCES)
		return;
	if (!wish->instances[slot].is_wished)
		(void)instance_make(wish, slot);
	wish->instances[slot].desired = DESIRED(RUNNING);
}

const struct wish_instance *wish_newcomer(struct wish *wish)
{
	unsigned first = random_below(wish->random, WISH_INSTANCES);

	for (unsigned i = 0; i < WISH_INSTANCES; i++) {
		struct wish_instance *instance = &wish->instances[(first + i) % WISH_INSTANCES];

		if (instance->is_wished)
			continue;
		id_make(wish, instance);
		return instance;
	}
	return NULL;
}

void wish_nothing(struct wish *wish)
{
	for (size_t i = 0; i < WISH_INSTANCES; i++)
		wish->instances[i].is_wished = false;
	for (size_t i = 0; i < WISH_VOLUMES; i++)
		wish->volumes[i].state = WISH_ABSENT;
	wish->without_instances = false;
}

/* --- as a message --- */

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void nic_fill(const struct wish_nic *nic, unsigned slot, unsigned index, struct wish_nic_message *ret)
{
	bc__v1__nic__init(&ret->nic);
	if (nic->is_bridge) {
		bc__v1__bridge_attachment__init(&ret->bridge);
		ret->bridge.name = text(WISH_BRIDGE);
		ret->nic.attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
		ret->nic.bridge = &ret->bridge;
		ret->nic.queues = nic->queues;
	} else {
		bc__v1__user_attachment__init(&ret->user);
		ret->nic.attachment_case = BC__V1__NIC__ATTACHMENT_USER;
		ret->nic.user = &ret->user;
	}
	ret->nic.policy = nic->policy;
	for (unsigned i = 0; i < nic->n_addresses; i++) {
		wish_address(nic, slot, index, i, ret->addresses[i]);
		ret->address_pointers[i] = ret->addresses[i];
	}
	ret->nic.n_addresses = nic->n_addresses;
	ret->nic.addresses = ret->address_pointers;
	if (nic->policy == POLICY(PRIVATE)) {
		ret->prefix_pointers[0] = text("10.0.0.0/8");
		ret->nic.private_prefixes = ret->prefix_pointers;
		ret->nic.n_private_prefixes = 1;
	}
}

static void boot_fill(
        const struct wish *wish, const struct wish_instance *instance, struct wish_instance_message *ret)
{
	bc__v1__boot__init(&ret->boot);
	ret->spec.boot = &ret->boot;
	if (instance->image) {
		const struct wish_image *image = &wish->images[instance->image - 1];

		bc__v1__image_boot__init(&ret->image);
		ret->image.digest = text(image->digest);
		ret->image.source_url = text(image->url);
		ret->image.size_bytes = image->size_bytes;
		ret->image.format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
		ret->boot.source_case = BC__V1__BOOT__SOURCE_IMAGE;
		ret->boot.image = &ret->image;
	} else {
		bc__v1__kernel_boot__init(&ret->kernel);
		ret->kernel.kernel = text("/boot/vmlinux");
		ret->boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
		ret->boot.kernel = &ret->kernel;
	}
}

static void restore_fill(const struct wish_instance *instance, struct wish_instance_message *ret)
{
	if (instance->identity) {
		wish_ref(instance->identity, ret->identity_ref);
		ret->spec.identity_rebind_ref = ret->identity_ref;
	}
	if (!instance->restore.exists)
		return;
	bc__v1__restore_from__init(&ret->restore);
	ret->restore.url = text(instance->restore.url);
	ret->restore.digest = text(instance->restore.digest);
	ret->restore.size_bytes = instance->restore.size_bytes;
	ret->restore.with_memory = instance->restore.with_memory;
	ret->spec.restore_from = &ret->restore;
}

static void instance_fill(const struct wish *wish, unsigned slot, struct wish_instance_message *ret)
{
	const struct wish_instance *instance = &wish->instances[slot];
	Bc__V1__InstanceSpec *spec = &ret->spec;

	bc__v1__instance_spec__init(spec);
	wish_allocation(instance, ret->allocation_id);
	spec->id = text(instance->id);
	spec->allocation_id = ret->allocation_id;
	spec->runtime = text(wish_runtime(instance->runtime));
	spec->desired_state = instance->desired;
	spec->vcpus = instance->vcpus;
	spec->memory_bytes = instance->memory_mib * MIB;
	spec->kind =
	        instance->is_job ? BC__V1__INSTANCE_SPEC__KIND__JOB : BC__V1__INSTANCE_SPEC__KIND__SERVER;
	spec->ssh_from_host_only = instance->ssh_from_host_only;
	boot_fill(wish, instance, ret);
	restore_fill(instance, ret);
	for (unsigned i = 0; i < instance->n_nics; i++) {
		nic_fill(&instance->nics[i], slot, i, &ret->nics[i]);
		ret->nic_pointers[i] = &ret->nics[i].nic;
	}
	spec->n_nics = instance->n_nics;
	spec->nics = ret->nic_pointers;
	for (unsigned i = 0; i < instance->n_attachments; i++) {
		bc__v1__volume_attachment__init(&ret->attachments[i].attachment);
		wish_volume_id(instance->attachments[i].volume, ret->attachments[i].id);
		(void)snprintf(
		        ret->attachments[i].serial, sizeof(ret->attachments[i].serial), "serial-%u", i);
		ret->attachments[i].attachment.volume_id = ret->attachments[i].id;
		ret->attachments[i].attachment.serial = ret->attachments[i].serial;
		ret->attachments[i].attachment.read_only = instance->attachments[i].read_only;
		ret->attachment_pointers[i] = &ret->attachments[i].attachment;
	}
	spec->n_volumes = instance->n_attachments;
	spec->volumes = ret->attachment_pointers;
	for (unsigned i = 0; i < instance->n_ports; i++) {
		bc__v1__port_mapping__init(&ret->ports[i]);
		ret->ports[i].protocol =
		        i % 2 ? BC__V1__PORT_MAPPING__PROTOCOL__UDP : BC__V1__PORT_MAPPING__PROTOCOL__TCP;
		ret->ports[i].host_port = wish_port(slot, i);
		ret->ports[i].guest_port = instance->guest_port + i;
		ret->port_pointers[i] = &ret->ports[i];
	}
	spec->n_port_mappings = instance->n_ports;
	spec->port_mappings = ret->port_pointers;
	if (instance->user_data) {
		wish_ref(instance->user_data, ret->user_data_ref);
		spec->user_data_ref = ret->user_data_ref;
	}
}

void wish_fill(struct wish *wish, struct wish_message *ret)
{
	bc__v1__node_spec__init(&ret->spec);
	bc__v1__instances__init(&ret->instances);
	ret->instances.items = ret->instance_pointers;
	for (unsigned i = 0; i < WISH_INSTANCES; i++) {
		if (!wish->instances[i].is_wished)
			continue;
		instance_fill(wish, i, &ret->items[i]);
		ret->instance_pointers[ret->instances.n_items++] = &ret->items[i].spec;
	}
	if (!wish->without_instances)
		ret->spec.instances = &ret->instances;
	ret->spec.volumes = ret->volume_pointers;
	for (unsigned i = 0; i < WISH_VOLUMES; i++) {
		Bc__V1__Volume *volume = &ret->volumes[i];

		if (wish->volumes[i].state == WISH_UNNAMED)
			continue;
		bc__v1__volume__init(volume);
		wish_volume_id(i, ret->volume_ids[i]);
		volume->id = ret->volume_ids[i];
		volume->size_bytes = wish->volumes[i].size_mib * MIB;
		volume->state = wish->volumes[i].state == WISH_ABSENT ? BC__V1__VOLUME__STATE__ABSENT
		                                                      : BC__V1__VOLUME__STATE__PRESENT;
		ret->volume_pointers[ret->spec.n_volumes++] = volume;
	}
	ret->spec.revision = ++wish->revision;
}
