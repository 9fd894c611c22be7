#include "svc-converger/spec_instance.h"

#include "lib/base/ids.h"
#include "lib/base/ip.h"
#include "lib/base/mac.h"
#include "lib/base/quote.h"
#include "lib/net/port_map.h"

#include <string.h>
#include <sys/socket.h>

#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)
#define MEMORY_MIN (16 * MIB)
#define MEMORY_MAX (16 * TIB)
#define DISK_MAX (64 * TIB)
#define HUGE_2M (2 * MIB)
#define HUGE_1G (1024 * MIB)
#define SECTOR UINT64_C(512)

enum {
	VCPUS_MAX = 512,
	ALLOCATION_MAX = 128,
	RUNTIME_MAX = 32,
	REF_MAX = 256,
	PATH_BYTES_MAX = 1024,
	CMDLINE_MAX = 2048,
	NICS_MAX = 100,
	VOLUMES_MAX = 24,
	GPUS_MAX = 16,
	GPU_ID_MAX = 68,
	PORTS_MAX = 256,
	LABELS_MAX = 64,
	LABEL_KEY_MAX = 63,
	LABEL_VALUE_MAX = 256,
	EMULATOR_CPUS_MAX = 1024,
	NUMA_NODES_MAX = 64,
	SSH_PORT = 22,
	PORT_MAX = 65535,
};

static const char ALLOCATION_CHARS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
static const char RUNTIME_CHARS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
static const char GPU_CHARS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";

void spec_check_gpu_id(struct spec_walk *walk, const char *field, const char *id)
{
	static const char PREFIX[] = "GPU-";
	size_t n = sizeof(PREFIX) - 1;

	if (strncmp(id, PREFIX, n) != 0 || !id[n] || strlen(id) > GPU_ID_MAX ||
	        id[n + strspn(id + n, GPU_CHARS)])
		spec_fault(walk, field, "'%s' is not a GPU's UUID; write GPU-…, as nvidia-smi -L shows it",
		        QUOTED(id));
}

static void path_check(struct spec_walk *walk, const char *field, const char *path)
{
	spec_check_line(walk, field, path, PATH_BYTES_MAX);
	if (path[0] != '/')
		spec_fault(walk, field, "'%s' is not an absolute path on this host", QUOTED(path));
}

static void image_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	const Bc__V1__ImageBoot *image = spec->boot->image;
	size_t before = spec_enter(walk, "boot.image");

	spec_check_with(walk, "digest", image->digest, digest_check);
	spec_check_enum(walk, "format", &bc__v1__image_boot__format__descriptor, (int)image->format, false);
	spec_check_url(walk, "source_url", image->source_url);
	spec_check_range(walk, "size_bytes", image->size_bytes, 0, DISK_MAX);
	spec_check_enum(
	        walk, "firmware", &bc__v1__image_boot__firmware__descriptor, (int)image->firmware, true);
	spec_leave(walk, before);

	spec_check_range(walk, "root_disk_bytes", spec->root_disk_bytes, 0, DISK_MAX);
	spec_check_multiple(walk, "root_disk_bytes", spec->root_disk_bytes, SECTOR);
	if (image->format == BC__V1__IMAGE_BOOT__FORMAT__RAW && spec->root_disk_bytes &&
	        spec->root_disk_bytes < image->size_bytes)
		spec_fault(walk, "root_disk_bytes",
		        "%llu is less than the image's %llu; a disk is never shrunk",
		        (unsigned long long)spec->root_disk_bytes, (unsigned long long)image->size_bytes);
}

static void kernel_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	const Bc__V1__KernelBoot *kernel = spec->boot->kernel;
	size_t before = spec_enter(walk, "boot.kernel");

	path_check(walk, "kernel", kernel->kernel);
	if (kernel->initramfs[0])
		path_check(walk, "initramfs", kernel->initramfs);
	spec_check_line(walk, "cmdline", kernel->cmdline, CMDLINE_MAX);
	if (kernel->profile[0] && strcmp(kernel->profile, "fast") != 0)
		spec_fault(walk, "profile", "'%s' is not known; write fast, or nothing",
		        QUOTED(kernel->profile));
	spec_leave(walk, before);
	if (spec->root_disk_bytes)
		spec_fault(walk, "root_disk_bytes", "there is no root disk without boot.image");
}

static void boot_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	switch (spec->boot ? spec->boot->source_case : BC__V1__BOOT__SOURCE__NOT_SET) {
	case BC__V1__BOOT__SOURCE_IMAGE:
		image_check(walk, spec);
		return;
	case BC__V1__BOOT__SOURCE_KERNEL:
		kernel_check(walk, spec);
		return;
	case BC__V1__BOOT__SOURCE__NOT_SET:
	default:
		spec_fault(walk, "boot", "is not set; write one of image and kernel");
		return;
	}
}

/* Two NICs of one guest with one MAC confuse the guest, and every bridge. */
static void macs_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	struct mac macs[NICS_MAX];
	size_t n = spec->n_nics < NICS_MAX ? spec->n_nics : NICS_MAX;
	bool known[NICS_MAX];

	for (size_t i = 0; n > 1 && i < n; i++) {
		known[i] = spec->nics[i]->mac[0] && mac_parse("", spec->nics[i]->mac, &macs[i], NULL) == 0;
		for (size_t j = 0; known[i] && j < i; j++)
			if (known[j] && mac_equal(&macs[i], &macs[j])) {
				size_t before = spec_enter_item(walk, "nics", i);

				spec_fault(walk, "mac", "'%s' is also the MAC of nics[%zu]",
				        spec->nics[i]->mac, j);
				spec_leave(walk, before);
				break;
			}
	}
}

static void nics_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	spec_check_count(walk, "nics", spec->n_nics, NICS_MAX);
	for (size_t i = 0; i < spec->n_nics; i++) {
		size_t before = spec_enter_item(walk, "nics", i);

		spec_check_nic(walk, spec->nics[i], spec->ssh_from_host_only);
		spec_leave(walk, before);
	}
	macs_check(walk, spec);
}

static void volumes_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	size_t n_looked = spec->n_volumes < VOLUMES_MAX ? spec->n_volumes : VOLUMES_MAX;

	spec_check_count(walk, "volumes", spec->n_volumes, VOLUMES_MAX);
	for (size_t i = 0; i < n_looked; i++) {
		const Bc__V1__VolumeAttachment *volume = spec->volumes[i];
		size_t before = spec_enter_item(walk, "volumes", i);

		spec_check_with(walk, "volume_id", volume->volume_id, volume_id_check);
		spec_check_with(walk, "serial", volume->serial, serial_check);
		for (size_t j = 0; j < i; j++) {
			if (strcmp(volume->volume_id, spec->volumes[j]->volume_id) == 0)
				spec_fault(walk, "volume_id", "'%s' is attached by volumes[%zu] already",
				        QUOTED(volume->volume_id), j);
			if (strcmp(volume->serial, spec->volumes[j]->serial) == 0)
				spec_fault(walk, "serial", "'%s' is also the serial of volumes[%zu]",
				        QUOTED(volume->serial), j);
		}
		spec_leave(walk, before);
	}
}

static void gpus_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	size_t n_looked = spec->n_gpu_device_ids < GPUS_MAX ? spec->n_gpu_device_ids : GPUS_MAX;

	spec_check_count(walk, "gpu_device_ids", spec->n_gpu_device_ids, GPUS_MAX);
	for (size_t i = 0; i < n_looked; i++) {
		size_t before = spec_enter_item(walk, "gpu_device_ids", i);

		spec_check_gpu_id(walk, "", spec->gpu_device_ids[i]);
		for (size_t j = 0; j < i; j++)
			if (strcmp(spec->gpu_device_ids[i], spec->gpu_device_ids[j]) == 0)
				spec_fault(walk, "", "'%s' is gpuDeviceIds[%zu] already",
				        QUOTED(spec->gpu_device_ids[i]), j);
		spec_leave(walk, before);
	}
}

static void placement_fields_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	const Bc__V1__Placement *placement = spec->placement;

	if (!placement)
		return;
	size_t before = spec_enter(walk, "placement");

	if (placement->n_cpu_pins && placement->n_cpu_pins != spec->vcpus)
		spec_fault(walk, "cpu_pins", "%zu pins for %u vCPUs; write one for each, or none",
		        placement->n_cpu_pins, spec->vcpus);
	spec_check_count(walk, "emulator_cpus", placement->n_emulator_cpus, EMULATOR_CPUS_MAX);
	spec_check_count(walk, "numa_nodes", placement->n_numa_nodes, NUMA_NODES_MAX);
	if (placement->huge_page_bytes && placement->huge_page_bytes != HUGE_2M &&
	        placement->huge_page_bytes != HUGE_1G)
		spec_fault(walk, "huge_page_bytes", "%llu is no page size; write 0, %llu or %llu",
		        (unsigned long long)placement->huge_page_bytes, (unsigned long long)HUGE_2M,
		        (unsigned long long)HUGE_1G);
	spec_leave(walk, before);
}

static void restore_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	const Bc__V1__RestoreFrom *restore = spec->restore_from;

	if (!restore)
		return;
	size_t before = spec_enter(walk, "restore_from");

	spec_check_url(walk, "url", restore->url);
	spec_check_with(walk, "digest", restore->digest, digest_check);
	if (restore->with_memory && spec->n_gpu_device_ids)
		spec_fault(walk, "with_memory", "a GPU's state is in no snapshot; restore the disks only");
	for (size_t i = 0; restore->with_memory && i < spec->n_volumes; i++)
		if (!spec->volumes[i]->read_only) {
			spec_fault(walk, "with_memory",
			        "a guest's memory cannot be restored beside the read-write volumes[%zu]", i);
			break;
		}
	spec_leave(walk, before);
}

/* A user-mode NIC lets in only what is mapped, to whom the mapping's host address lets in. */
static bool opens_ssh(const Bc__V1__InstanceSpec *spec, const Bc__V1__PortMapping *mapping, uint32_t nic)
{
	struct ip ip;

	if (!spec->ssh_from_host_only || mapping->guest_port != SSH_PORT ||
	        port_map_protocol(mapping) != BC__V1__PORT_MAPPING__PROTOCOL__TCP ||
	        spec->nics[nic]->attachment_case != BC__V1__NIC__ATTACHMENT_USER)
		return false;
	if (ip_parse("", mapping->host_address, &ip, NULL) < 0)
		return true;
	return !ip_is_loopback(&ip);
}

static bool is_bindable(const struct ip *ip)
{
	return ip_is_loopback(ip) || ip_is_host(ip);
}

static void mapping_check(
        struct spec_walk *walk, const Bc__V1__InstanceSpec *spec, const Bc__V1__PortMapping *mapping)
{
	struct err err = { 0 };
	struct ip ip;
	uint32_t nic;

	spec_check_enum(
	        walk, "protocol", &bc__v1__port_mapping__protocol__descriptor, (int)mapping->protocol, true);
	spec_check_range(walk, "host_port", mapping->host_port, 1, PORT_MAX);
	spec_check_range(walk, "guest_port", mapping->guest_port, 1, PORT_MAX);
	if (mapping->host_address[0]) {
		if (ip_parse("host_address", mapping->host_address, &ip, &err) < 0)
			spec_fault_text(walk, err.text);
		else if (!is_bindable(&ip))
			spec_fault(walk, "host_address",
			        "'%s' is no address of a host; leave it out for every address",
			        QUOTED(mapping->host_address));
	}
	err = (struct err){ 0 };
	if (port_map_resolve(spec, mapping, &nic, &err) < 0)
		spec_fault(walk, mapping->nic_case == BC__V1__PORT_MAPPING__NIC_NIC_INDEX ? "nic_index" : "",
		        "%s", err.text);
	else if (opens_ssh(spec, mapping, nic))
		spec_fault(walk, "host_address",
		        "sshFromHostOnly is not kept by a mapping to port 22; write 127.0.0.1");
}

static void mappings_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	spec_check_count(walk, "port_mappings", spec->n_port_mappings, PORTS_MAX);
	for (size_t i = 0; i < spec->n_port_mappings; i++) {
		size_t before = spec_enter_item(walk, "port_mappings", i);

		mapping_check(walk, spec, spec->port_mappings[i]);
		spec_leave(walk, before);
	}
}

static void labels_check(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	spec_check_count(walk, "labels", spec->n_labels, LABELS_MAX);
	for (size_t i = 0; i < spec->n_labels; i++) {
		const char *key = spec->labels[i]->key;

		if (!key[0] || strlen(key) > LABEL_KEY_MAX)
			spec_fault(walk, "labels", "the key '%s' has %zu bytes; write 1 to %d", QUOTED(key),
			        strlen(key), LABEL_KEY_MAX);
		if (strlen(spec->labels[i]->value) > LABEL_VALUE_MAX)
			spec_fault(walk, "labels", "the value of '%s' has %zu bytes, at most %d are taken",
			        QUOTED(key), strlen(spec->labels[i]->value), LABEL_VALUE_MAX);
	}
}

void spec_check_instance(struct spec_walk *walk, const Bc__V1__InstanceSpec *spec)
{
	spec_check_with(walk, "id", spec->id, uuid_check);
	spec_check_chars(walk, "allocation_id", spec->allocation_id, ALLOCATION_CHARS, ALLOCATION_MAX,
	        "an allocation id; write 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'");
	spec_check_chars(walk, "runtime", spec->runtime, RUNTIME_CHARS, RUNTIME_MAX,
	        "a runtime's id; write one like libvirt-kvm");
	spec_check_enum(walk, "desired_state", &bc__v1__instance_spec__desired_state__descriptor,
	        (int)spec->desired_state, false);
	spec_check_range(walk, "vcpus", spec->vcpus, 1, VCPUS_MAX);
	spec_check_range(walk, "memory_bytes", spec->memory_bytes, MEMORY_MIN, MEMORY_MAX);
	spec_check_multiple(walk, "memory_bytes", spec->memory_bytes, MIB);
	boot_check(walk, spec);
	nics_check(walk, spec);
	volumes_check(walk, spec);
	gpus_check(walk, spec);
	placement_fields_check(walk, spec);
	if (spec->balloon)
		spec_check_range(walk, "balloon.min_bytes", spec->balloon->min_bytes, MEMORY_MIN,
		        spec->memory_bytes < MEMORY_MIN ? MEMORY_MIN : spec->memory_bytes);
	spec_check_line(walk, "user_data_ref", spec->user_data_ref, REF_MAX);
	restore_check(walk, spec);
	spec_check_line(walk, "identity_rebind_ref", spec->identity_rebind_ref, REF_MAX);
	mappings_check(walk, spec);
	spec_check_enum(walk, "kind", &bc__v1__instance_spec__kind__descriptor, (int)spec->kind, true);
	labels_check(walk, spec);
}
