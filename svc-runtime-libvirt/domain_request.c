#include "svc-runtime-libvirt/domain_request.h"

#include "lib/base/ip.h"
#include "lib/base/quote.h"
#include "lib/base/tap_name.h"
#include "lib/base/utf8.h"
#include "svc-runtime-libvirt/instance_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MIB (UINT64_C(1) << 20)

enum { MEMORY_MIN_MIB = 16, QUEUES_MAX = 64, ADDRESSES_MAX = 16 };

/* XML cannot carry control characters, and none of these texts has use for one. */
static int check_text(const char *what, const char *text, size_t max, struct err *err)
{
	size_t n = strlen(text);

	if (n > max)
		return err_set(err, -EINVAL, "%s has %zu bytes; at most %zu", what, n, max);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return err_set(err, -EINVAL, "%s: '%s' has a control character", what, QUOTED(text));
	if (!utf8_is_valid(text, n))
		return err_set(err, -EINVAL, "%s is not UTF-8", what);
	return 0;
}

static int check_path(const char *what, const char *path, struct err *err)
{
	int r = check_text(what, path, DOMAIN_PATH_MAX - 1, err);

	if (r < 0)
		return r;
	if (path[0] != '/')
		return err_set(err, -EINVAL, "%s: '%s' is no absolute path", what, QUOTED(path));
	return 0;
}

static int dup_to(char **ret, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}

static int dup_path(char **ret, const char *what, const char *path, struct err *err)
{
	int r = check_path(what, path, err);

	return r < 0 ? r : dup_to(ret, path);
}

static int take_u32s(uint32_t **ret, size_t *ret_n, const uint32_t *values, size_t n)
{
	if (!n)
		return 0;
	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	memcpy(*ret, values, n * sizeof(**ret));
	*ret_n = n;
	return 0;
}

static int take_size(const Bc__V1__InstanceSpec *spec, struct domain_def *def, struct err *err)
{
	if (spec->vcpus < 1 || spec->vcpus > DOMAIN_VCPUS_MAX)
		return err_set(err, -EINVAL, "spec.vcpus: %" PRIu32 " is not in 1..%d", spec->vcpus,
		        DOMAIN_VCPUS_MAX);
	if (spec->memory_bytes % MIB || spec->memory_bytes < MEMORY_MIN_MIB * MIB ||
	        spec->memory_bytes > (UINT64_C(16) << 40))
		return err_set(err, -EINVAL,
		        "spec.memory_bytes: %" PRIu64 " is no multiple of 1 MiB from 16 MiB to 16 TiB",
		        spec->memory_bytes);
	def->vcpus = spec->vcpus;
	def->memory_bytes = spec->memory_bytes;
	if (spec->balloon) {
		if (spec->balloon->min_bytes > spec->memory_bytes)
			return err_set(err, -EINVAL,
			        "spec.balloon.min_bytes: %" PRIu64 " is above memory_bytes, %" PRIu64,
			        spec->balloon->min_bytes, spec->memory_bytes);
		def->balloon_min_bytes = spec->balloon->min_bytes;
	}
	return 0;
}

static int take_image(
        const Bc__V1__EnsureRequest *request, const char *dir, struct domain_def *def, struct err *err)
{
	const Bc__V1__ImageBoot *image = request->spec->boot->image;

	def->boot = DOMAIN_BOOT_IMAGE;
	int r = digest_check("spec.boot.image.digest", image->digest, err);
	if (r < 0)
		return r;
	(void)strcpy(def->image_digest, image->digest);
	switch (image->format) {
	case BC__V1__IMAGE_BOOT__FORMAT__RAW:
		def->image_format = IMAGE_RAW;
		break;
	case BC__V1__IMAGE_BOOT__FORMAT__QCOW2:
		def->image_format = IMAGE_QCOW2;
		break;
	default:
		return err_set(err, -EINVAL,
		        "spec.boot.image.format must be RAW or QCOW2: it is stated, never probed");
	}
	def->uefi = image->firmware == BC__V1__IMAGE_BOOT__FIRMWARE__UEFI;
	def->root_disk_bytes = request->spec->root_disk_bytes;
	if (!request->image_path[0])
		return err_set(
		        err, -EINVAL, "image_path is empty: an instance that boots from an image needs it");
	r = dup_path(&def->image_path, "image_path", request->image_path, err);
	if (r < 0)
		return r;
	def->disk_path = instance_path(dir, def->id, INSTANCE_DISK);
	if (def->uefi)
		def->nvram_path = instance_path(dir, def->id, INSTANCE_NVRAM);
	return def->disk_path && (!def->uefi || def->nvram_path) ? 0 : -ENOMEM;
}

static int take_kernel(const Bc__V1__KernelBoot *kernel, struct domain_def *def, struct err *err)
{
	def->boot = DOMAIN_BOOT_KERNEL;
	int r = dup_path(&def->kernel, "spec.boot.kernel.kernel", kernel->kernel, err);
	if (r == 0 && kernel->initramfs[0])
		r = dup_path(&def->initramfs, "spec.boot.kernel.initramfs", kernel->initramfs, err);
	if (r == 0)
		r = check_text("spec.boot.kernel.cmdline", kernel->cmdline, DOMAIN_CMDLINE_MAX - 1, err);
	if (r == 0)
		r = dup_to(&def->cmdline, kernel->cmdline);
	if (r < 0)
		return r;
	/* as if it were not wished is no way to take a wish */
	if (strcmp(kernel->profile, "fast") == 0)
		return err_set(err, -EOPNOTSUPP,
		        "spec.boot.kernel.profile: 'fast' is not built yet in version " BC_VERSION
		        ": leave it out");
	if (kernel->profile[0])
		return err_set(err, -EINVAL, "spec.boot.kernel.profile: '%s' is no profile: leave it out",
		        QUOTED(kernel->profile));
	return 0;
}

static int take_boot(
        const Bc__V1__EnsureRequest *request, const char *dir, struct domain_def *def, struct err *err)
{
	const Bc__V1__Boot *boot = request->spec->boot;

	if (request->spec->root_disk_bytes % 512)
		return err_set(err, -EINVAL, "spec.root_disk_bytes: %" PRIu64 " is no multiple of 512",
		        request->spec->root_disk_bytes);
	if (!boot)
		return err_set(err, -EINVAL, "spec.boot is missing: write an image or a kernel");
	switch (boot->source_case) {
	case BC__V1__BOOT__SOURCE_IMAGE:
		return take_image(request, dir, def, err);
	case BC__V1__BOOT__SOURCE_KERNEL:
		return take_kernel(boot->kernel, def, err);
	default:
		return err_set(err, -EINVAL, "spec.boot has neither an image nor a kernel");
	}
}

static int take_nic_addresses(const Bc__V1__Nic *wish, size_t index, struct domain_nic *nic, struct err *err)
{
	if (wish->n_addresses > ADDRESSES_MAX)
		return err_set(err, -EINVAL, "spec.nics[%zu].addresses: %zu; at most %d", index,
		        wish->n_addresses, ADDRESSES_MAX);
	nic->addresses = calloc(wish->n_addresses + 1, sizeof(*nic->addresses));
	if (!nic->addresses)
		return -ENOMEM;
	for (size_t i = 0; i < wish->n_addresses; i++) {
		char what[64];
		struct ip ip;
		(void)snprintf(what, sizeof(what), "spec.nics[%zu].addresses[%zu]", index, i);
		int r = ip_parse_cidr(what, wish->addresses[i], &ip, err);
		if (r < 0)
			return r;
		nic->addresses[i] = strdup(wish->addresses[i]);
		if (!nic->addresses[i])
			return -ENOMEM;
		nic->n_addresses++;
	}
	return 0;
}

/* The guest's MAC: the one prepared, which must be the one wished for. */
static int take_nic_mac(const Bc__V1__Nic *wish, const Bc__V1__PreparedNic *prepared, const char *id,
        size_t index, struct domain_nic *nic, struct err *err)
{
	struct mac wished, built;
	char what[64];
	int r;

	(void)snprintf(what, sizeof(what), "spec.nics[%zu].mac", index);
	if (wish->mac[0])
		r = mac_parse(what, wish->mac, &wished, err);
	else
		r = tap_mac(id, (unsigned)index, &wished);
	if (r < 0)
		return r;
	if (prepared->mac[0]) {
		(void)snprintf(what, sizeof(what), "nics[%zu].mac", index);
		r = mac_parse(what, prepared->mac, &built, err);
		if (r < 0)
			return r;
		if (!mac_equal(&wished, &built)) {
			char text[MAC_TEXT_MAX];
			mac_format(&wished, text);
			return err_set(err, -EINVAL,
			        "nics[%zu] was prepared for %s, but the instance's is %s", index,
			        prepared->mac, text);
		}
	}
	mac_format(&wished, nic->mac);
	return 0;
}

static int take_nic_device(const Bc__V1__Nic *wish, const Bc__V1__PreparedNic *prepared, const char *id,
        size_t index, struct domain_nic *nic, struct err *err)
{
	switch (wish->attachment_case) {
	case BC__V1__NIC__ATTACHMENT_BRIDGE:
		nic->kind = NIC_TAP;
		break;
	case BC__V1__NIC__ATTACHMENT_MACVTAP:
		nic->kind = NIC_MACVTAP;
		break;
	case BC__V1__NIC__ATTACHMENT_USER:
		nic->kind = NIC_USER;
		nic->queues = 1;
		if (prepared->interface[0])
			return err_set(err, -EINVAL,
			        "nics[%zu].interface: '%s' for a user-mode NIC, which has none", index,
			        QUOTED(prepared->interface));
		return 0;
	default:
		return err_set(err, -EINVAL,
		        "spec.nics[%zu] is attached to nothing: write bridge, macvtap or user", index);
	}
	if (!tap_name_matches(prepared->interface, id, (unsigned)index))
		return err_set(err, -EINVAL, "nics[%zu].interface: '%s' is not the name of NIC %zu of %s",
		        index, QUOTED(prepared->interface), index, id);
	(void)strcpy(nic->ifname, prepared->interface);
	if (prepared->queues < 1 || prepared->queues > QUEUES_MAX)
		return err_set(err, -EINVAL, "nics[%zu].queues: %" PRIu32 " is not in 1..%d", index,
		        prepared->queues, QUEUES_MAX);
	if (wish->queues && wish->queues != prepared->queues)
		return err_set(err, -EINVAL, "nics[%zu] was prepared with %" PRIu32 " queues, not %" PRIu32,
		        index, prepared->queues, wish->queues);
	nic->queues = prepared->queues;
	nic->vhost = prepared->vhost;
	nic->filtered = prepared->filtered;
	return 0;
}

static int take_nics(const Bc__V1__EnsureRequest *request, struct domain_def *def, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	size_t n_user = 0;

	if (spec->n_nics > DOMAIN_NICS_MAX)
		return err_set(err, -EINVAL, "spec.nics: %zu; at most %d", spec->n_nics, DOMAIN_NICS_MAX);
	if (spec->n_nics != request->n_nics)
		return err_set(err, -EINVAL, "%zu NICs were prepared, but the instance has %zu",
		        request->n_nics, spec->n_nics);
	def->nics = calloc(spec->n_nics + 1, sizeof(*def->nics));
	if (!def->nics)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_nics; i++) {
		struct domain_nic *nic = &def->nics[def->n_nics++];
		int r = take_nic_device(spec->nics[i], request->nics[i], def->id, i, nic, err);
		if (r == 0)
			r = take_nic_mac(spec->nics[i], request->nics[i], def->id, i, nic, err);
		if (r == 0)
			r = take_nic_addresses(spec->nics[i], i, nic, err);
		if (r < 0)
			return r;
		if (nic->kind == NIC_USER && ++n_user > DOMAIN_USER_NICS_MAX)
			return err_set(
			        err, -EINVAL, "spec.nics: more than %d user-mode NICs", DOMAIN_USER_NICS_MAX);
	}
	return 0;
}

static int take_port(
        const Bc__V1__PortMapping *mapping, uint32_t nic_index, struct domain_port *port, struct err *err)
{
	if (mapping->host_address[0]) {
		struct ip ip;
		int r = ip_parse("ports[].mappings[].host_address", mapping->host_address, &ip, err);
		if (r < 0)
			return r;
		if (ip.family != AF_INET)
			return err_set(err, -EINVAL,
			        "ports[].mappings[].host_address: '%s': QEMU's user-mode NIC publishes on IPv4 "
			        "addresses only",
			        QUOTED(mapping->host_address));
	}
	if (mapping->host_port < 1 || mapping->host_port > UINT16_MAX || mapping->guest_port < 1 ||
	        mapping->guest_port > UINT16_MAX)
		return err_set(err, -EINVAL, "ports[]: %" PRIu32 " -> %" PRIu32 " are not both in 1..65535",
		        mapping->host_port, mapping->guest_port);
	port->protocol = mapping->protocol == BC__V1__PORT_MAPPING__PROTOCOL__UDP ? PORT_UDP : PORT_TCP;
	port->host_port = (uint16_t)mapping->host_port;
	port->guest_port = (uint16_t)mapping->guest_port;
	port->nic_index = nic_index;
	return dup_to(&port->host_address, mapping->host_address);
}

static int take_ports(const Bc__V1__EnsureRequest *request, struct domain_def *def, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < request->n_ports; i++)
		n += request->ports[i]->n_mappings;
	if (n > DOMAIN_PORTS_MAX)
		return err_set(err, -EINVAL, "ports: %zu mappings; at most %d", n, DOMAIN_PORTS_MAX);
	def->ports = calloc(n + 1, sizeof(*def->ports));
	if (!def->ports)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_ports; i++) {
		const Bc__V1__NicPorts *nic = request->ports[i];
		if (nic->nic_index >= def->n_nics || def->nics[nic->nic_index].kind != NIC_USER)
			return err_set(err, -EINVAL,
			        "ports[%zu].nic_index: NIC %" PRIu32 " is no user-mode NIC of this instance",
			        i, nic->nic_index);
		for (size_t k = 0; k < nic->n_mappings; k++) {
			int r = take_port(nic->mappings[k], nic->nic_index, &def->ports[def->n_ports++], err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int take_volumes(const Bc__V1__EnsureRequest *request, struct domain_def *def, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (spec->n_volumes > DOMAIN_VOLUMES_MAX)
		return err_set(
		        err, -EINVAL, "spec.volumes: %zu; at most %d", spec->n_volumes, DOMAIN_VOLUMES_MAX);
	if (spec->n_volumes != request->n_volumes)
		return err_set(err, -EINVAL, "%zu volumes have a path, but the instance attaches %zu",
		        request->n_volumes, spec->n_volumes);
	def->volumes = calloc(spec->n_volumes + 1, sizeof(*def->volumes));
	if (!def->volumes)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const Bc__V1__VolumeAttachment *wish = spec->volumes[i];
		const Bc__V1__VolumePath *given = request->volumes[i];
		char what[48];
		(void)snprintf(what, sizeof(what), "spec.volumes[%zu].volume_id", i);
		int r = volume_id_check(what, wish->volume_id, err);
		if (r < 0)
			return r;
		(void)snprintf(what, sizeof(what), "spec.volumes[%zu].serial", i);
		r = serial_check(what, wish->serial, err);
		if (r < 0)
			return r;
		if (strcmp(wish->volume_id, given->volume_id) != 0)
			return err_set(err, -EINVAL,
			        "volumes[%zu] is '%s', but the instance attaches '%s' there", i,
			        QUOTED(given->volume_id), wish->volume_id);
		for (size_t k = 0; k < def->n_volumes; k++)
			if (strcmp(def->volumes[k].serial, wish->serial) == 0 ||
			        strcmp(def->volumes[k].id, wish->volume_id) == 0)
				return err_set(err, -EINVAL,
				        "spec.volumes[%zu] and [%zu] have one id or one serial", k, i);
		struct domain_volume *volume = &def->volumes[def->n_volumes++];
		(void)strcpy(volume->id, wish->volume_id);
		(void)strcpy(volume->serial, wish->serial);
		volume->read_only = wish->read_only;
		volume->size_bytes = given->size_bytes;
		(void)snprintf(what, sizeof(what), "volumes[%zu].path", i);
		r = dup_path(&volume->path, what, given->path, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static const Bc__V1__Gpu *find_gpu(const Bc__V1__EnsureRequest *request, const char *id)
{
	for (size_t i = 0; i < request->n_gpus; i++)
		if (strcmp(request->gpus[i]->id, id) == 0)
			return request->gpus[i];
	return NULL;
}

static int take_gpus(const Bc__V1__EnsureRequest *request, struct domain_def *def, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = request->spec;

	if (spec->n_gpu_device_ids > DOMAIN_GPUS_MAX)
		return err_set(err, -EINVAL, "spec.gpu_device_ids: %zu; at most %d", spec->n_gpu_device_ids,
		        DOMAIN_GPUS_MAX);
	def->gpus = calloc(spec->n_gpu_device_ids + 1, sizeof(*def->gpus));
	if (!def->gpus)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_gpu_device_ids; i++) {
		const char *id = spec->gpu_device_ids[i];
		char what[48];
		(void)snprintf(what, sizeof(what), "spec.gpu_device_ids[%zu]", i);
		int r = check_text(what, id, 128, err);
		if (r < 0)
			return r;
		const Bc__V1__Gpu *gpu = find_gpu(request, id);
		struct domain_gpu *mine = &def->gpus[def->n_gpus++];
		if (gpu && gpu->pci_address[0] && pci_address_parse(gpu->pci_address, &mine->address) < 0)
			return err_set(err, -EINVAL,
			        "gpus[].pci_address: '%s' is not of the form dddd:bb:ss.f",
			        QUOTED(gpu->pci_address));
		r = dup_to(&mine->uuid, id);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_placement(const Bc__V1__Placement *placement, struct domain_def *def, struct err *err)
{
	if (!placement)
		return 0;
	if (placement->n_cpu_pins && placement->n_cpu_pins != def->vcpus)
		return err_set(err, -EINVAL, "spec.placement.cpu_pins: %zu for %" PRIu32 " vCPUs",
		        placement->n_cpu_pins, def->vcpus);
	if (placement->n_emulator_cpus > 1024 || placement->n_numa_nodes > 64)
		return err_set(err, -EINVAL,
		        "spec.placement: at most 1,024 emulator_cpus and 64 numa_nodes, not %zu and %zu",
		        placement->n_emulator_cpus, placement->n_numa_nodes);
	uint64_t page = placement->huge_page_bytes;
	if (page != 0 && page != 2 * MIB && page != 1024 * MIB)
		return err_set(err, -EINVAL,
		        "spec.placement.huge_page_bytes: %" PRIu64 " is not 0, 2 MiB or 1 GiB", page);
	if (page && def->memory_bytes % page)
		return err_set(err, -EINVAL,
		        "spec.memory_bytes: %" PRIu64 " is no multiple of the huge page size, %" PRIu64,
		        def->memory_bytes, page);
	def->huge_page_bytes = page;
	int r = take_u32s(&def->cpu_pins, &def->n_cpu_pins, placement->cpu_pins, placement->n_cpu_pins);
	if (r == 0)
		r = take_u32s(&def->emulator_cpus, &def->n_emulator_cpus, placement->emulator_cpus,
		        placement->n_emulator_cpus);
	if (r == 0)
		r = take_u32s(
		        &def->numa_nodes, &def->n_numa_nodes, placement->numa_nodes, placement->n_numa_nodes);
	return r;
}

/* Images read their seed; a kernel booted directly gets one only when there is something to say in it. */
static int take_seed(
        const Bc__V1__EnsureRequest *request, const char *dir, struct domain_def *def, struct err *err)
{
	if (request->user_data.len > DOMAIN_USER_DATA_MAX)
		return err_set(err, -EINVAL, "user_data has %zu bytes; at most %d", request->user_data.len,
		        DOMAIN_USER_DATA_MAX);
	if (def->boot == DOMAIN_BOOT_KERNEL && !request->spec->user_data_ref[0])
		return 0;
	def->seed_path = instance_path(dir, def->id, INSTANCE_SEED);
	return def->seed_path ? 0 : -ENOMEM;
}

static int take_identity(const Bc__V1__InstanceSpec *spec, struct domain_def *def, struct err *err)
{
	int r = uuid_check("spec.id", spec->id, err);

	if (r < 0)
		return r;
	(void)strcpy(def->id, spec->id);
	if (!spec->allocation_id[0])
		return err_set(err, -EINVAL, "spec.allocation_id is empty");
	r = check_text("spec.allocation_id", spec->allocation_id, 128, err);
	if (r < 0)
		return r;
	def->kind = spec->kind == BC__V1__INSTANCE_SPEC__KIND__JOB ? DOMAIN_JOB : DOMAIN_SERVER;
	return dup_to(&def->allocation_id, spec->allocation_id);
}

static int take_restore(const Bc__V1__EnsureRequest *request, struct domain_def *def, struct err *err)
{
	if (request->restore_path[0]) {
		int r = check_path("restore_path", request->restore_path, err);
		if (r < 0)
			return r;
	}
	if (!request->restored_from[0])
		return 0;
	int r = digest_check("restored_from", request->restored_from, err);
	return r < 0 ? r : dup_to(&def->restored_from, request->restored_from);
}

int domain_def_from_request(const Bc__V1__EnsureRequest *request, const char *instances_dir,
        struct domain_def **ret, struct err *err)
{
	if (!request->spec)
		return err_set(err, -EINVAL, "spec is missing");
	CLEANUP(domain_def) struct domain_def *def = calloc(1, sizeof(*def));
	if (!def)
		return -ENOMEM;
	int r = take_identity(request->spec, def, err);
	if (r == 0)
		r = take_size(request->spec, def, err);
	if (r == 0)
		r = take_boot(request, instances_dir, def, err);
	if (r == 0)
		r = take_nics(request, def, err);
	if (r == 0)
		r = take_ports(request, def, err);
	if (r == 0)
		r = take_volumes(request, def, err);
	if (r == 0)
		r = take_gpus(request, def, err);
	if (r == 0)
		r = take_placement(request->spec->placement, def, err);
	if (r == 0)
		r = take_seed(request, instances_dir, def, err);
	if (r == 0)
		r = take_restore(request, def, err);
	if (r < 0)
		return r;
	def->log_path = instance_path(instances_dir, def->id, INSTANCE_SERIAL_LOG);
	if (!def->log_path)
		return -ENOMEM;
	*ret = TAKE_PTR(def);
	return 0;
}
