#include "svc-converger/spec_check.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID_A "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11"
#define ID_B "7f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11"

/* A spec that has one of everything and no fault. */
struct fixture {
	Bc__V1__NodeSpec node;
	Bc__V1__Instances instances;
	Bc__V1__InstanceSpec *items[2], a, b;
	Bc__V1__Boot boot_a, boot_b;
	Bc__V1__ImageBoot image;
	Bc__V1__KernelBoot kernel;
	Bc__V1__Nic *nics[3], nic[3], *nics_b[1], nic_b;
	Bc__V1__BridgeAttachment bridge, bridge_b;
	Bc__V1__MacvtapAttachment macvtap;
	Bc__V1__UserAttachment user;
	char *addresses[2], *gateways[2], *nameservers[1], *prefixes[1], *gpu_ids[2];
	Bc__V1__VolumeAttachment *attachments[2], attachment[2];
	Bc__V1__Placement placement;
	uint32_t pins[2];
	Bc__V1__Balloon balloon;
	Bc__V1__RestoreFrom restore;
	Bc__V1__PortMapping *mappings[2], mapping[2], *mappings_b[1], mapping_b;
	Bc__V1__InstanceSpec__LabelsEntry *labels[1], label;
	Bc__V1__Volume *volumes[2], volume[2];
	Bc__V1__Hold *holds[2], hold[2];
	Bc__V1__Gpu *gpus[2], gpu[2];
};

static void instance_a_init(struct fixture *f)
{
	bc__v1__instance_spec__init(&f->a);
	f->a.id = (char *)ID_A;
	f->a.allocation_id = (char *)"alloc-1";
	f->a.runtime = (char *)"libvirt-kvm";
	f->a.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	f->a.vcpus = 2;
	f->a.memory_bytes = 512 * MIB;

	bc__v1__boot__init(&f->boot_a);
	bc__v1__image_boot__init(&f->image);
	f->a.boot = &f->boot_a;
	f->boot_a.source_case = BC__V1__BOOT__SOURCE_IMAGE;
	f->boot_a.image = &f->image;
	f->image.digest = (char *)DIGEST;
	f->image.format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
	f->image.source_url = (char *)"https://images.example/a.raw?token=s3cret";
	f->image.size_bytes = 100 * MIB;
	f->a.root_disk_bytes = 100 * MIB;

	for (size_t i = 0; i < 3; i++) {
		bc__v1__nic__init(&f->nic[i]);
		f->nics[i] = &f->nic[i];
	}
	bc__v1__bridge_attachment__init(&f->bridge);
	f->bridge.name = (char *)"br0";
	f->nic[0].attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	f->nic[0].bridge = &f->bridge;
	f->nic[0].mac = (char *)"52:54:00:12:34:56";
	f->nic[0].policy = BC__V1__NIC__POLICY__PRIVATE;
	f->addresses[0] = (char *)"192.0.2.10/24";
	f->addresses[1] = (char *)"2001:db8::10/64";
	f->gateways[0] = (char *)"192.0.2.1";
	f->gateways[1] = (char *)"fe80::1";
	f->nameservers[0] = (char *)"192.0.2.53";
	f->prefixes[0] = (char *)"10.0.0.0/8";
	f->nic[0].addresses = f->addresses;
	f->nic[0].n_addresses = 2;
	f->nic[0].gateways = f->gateways;
	f->nic[0].n_gateways = 2;
	f->nic[0].nameservers = f->nameservers;
	f->nic[0].n_nameservers = 1;
	f->nic[0].private_prefixes = f->prefixes;
	f->nic[0].n_private_prefixes = 1;
	bc__v1__macvtap_attachment__init(&f->macvtap);
	f->macvtap.parent = (char *)"eth0";
	f->nic[1].attachment_case = BC__V1__NIC__ATTACHMENT_MACVTAP;
	f->nic[1].macvtap = &f->macvtap;
	f->nic[1].mac = (char *)"52:54:00:12:34:57";
	bc__v1__user_attachment__init(&f->user);
	f->nic[2].attachment_case = BC__V1__NIC__ATTACHMENT_USER;
	f->nic[2].user = &f->user;
	f->a.nics = f->nics;
	f->a.n_nics = 3;

	for (size_t i = 0; i < 2; i++) {
		bc__v1__volume_attachment__init(&f->attachment[i]);
		f->attachments[i] = &f->attachment[i];
		bc__v1__port_mapping__init(&f->mapping[i]);
		f->mappings[i] = &f->mapping[i];
		f->mapping[i].guest_port = 80;
	}
	f->attachment[0].volume_id = (char *)"data-1";
	f->attachment[0].serial = (char *)"data1";
	f->attachment[1].volume_id = (char *)"data-2";
	f->attachment[1].serial = (char *)"data2";
	f->a.volumes = f->attachments;
	f->a.n_volumes = 2;
	f->mapping[0].host_port = 8080;
	f->mapping[1].host_port = 8080;
	f->mapping[1].protocol = BC__V1__PORT_MAPPING__PROTOCOL__UDP;
	f->mapping[1].host_address = (char *)"192.0.2.7";
	f->mapping[1].nic_case = BC__V1__PORT_MAPPING__NIC_NIC_INDEX;
	f->mapping[1].nic_index = 0;
	f->a.port_mappings = f->mappings;
	f->a.n_port_mappings = 2;

	f->gpu_ids[0] = (char *)"GPU-5a0d1e6c-1111-2222-3333-444455556666";
	f->gpu_ids[1] = (char *)"GPU-5a0d1e6c-1111-2222-3333-444455556667";
	f->a.gpu_device_ids = f->gpu_ids;
	f->a.n_gpu_device_ids = 2;
	bc__v1__placement__init(&f->placement);
	f->pins[1] = 1;
	f->placement.cpu_pins = f->pins;
	f->placement.n_cpu_pins = 2;
	f->a.placement = &f->placement;
	bc__v1__balloon__init(&f->balloon);
	f->balloon.min_bytes = 256 * MIB;
	f->a.balloon = &f->balloon;
	bc__v1__restore_from__init(&f->restore);
	f->restore.url = (char *)"file:///snapshots/a.tar";
	f->restore.digest = (char *)DIGEST;
	f->a.restore_from = &f->restore;
	f->a.user_data_ref = (char *)"ref";
	bc__v1__instance_spec__labels_entry__init(&f->label);
	f->label.key = (char *)"team";
	f->label.value = (char *)"blue";
	f->labels[0] = &f->label;
	f->a.labels = f->labels;
	f->a.n_labels = 1;
}

static void instance_b_init(struct fixture *f)
{
	bc__v1__instance_spec__init(&f->b);
	f->b.id = (char *)ID_B;
	f->b.allocation_id = (char *)"alloc:2";
	f->b.runtime = (char *)"fake";
	f->b.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED;
	f->b.vcpus = 1;
	f->b.memory_bytes = 16 * MIB;
	bc__v1__boot__init(&f->boot_b);
	bc__v1__kernel_boot__init(&f->kernel);
	f->b.boot = &f->boot_b;
	f->boot_b.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	f->boot_b.kernel = &f->kernel;
	f->kernel.kernel = (char *)"/boot/vmlinuz";
	f->kernel.initramfs = (char *)"/boot/initrd";
	bc__v1__bridge_attachment__init(&f->bridge_b);
	bc__v1__nic__init(&f->nic_b);
	f->bridge_b.name = (char *)"br0";
	f->nic_b.attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	f->nic_b.bridge = &f->bridge_b;
	f->nics_b[0] = &f->nic_b;
	f->b.nics = f->nics_b;
	f->b.n_nics = 1;
	bc__v1__port_mapping__init(&f->mapping_b);
	f->mapping_b.host_port = 8081;
	f->mapping_b.guest_port = 80;
	f->mappings_b[0] = &f->mapping_b;
	f->b.port_mappings = f->mappings_b;
	f->b.n_port_mappings = 1;
}

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	instance_a_init(f);
	instance_b_init(f);
	bc__v1__node_spec__init(&f->node);
	bc__v1__instances__init(&f->instances);
	f->node.revision = 1;
	f->node.instances = &f->instances;
	f->items[0] = &f->a;
	f->items[1] = &f->b;
	f->instances.items = f->items;
	f->instances.n_items = 2;
	for (size_t i = 0; i < 2; i++) {
		bc__v1__volume__init(&f->volume[i]);
		f->volume[i].size_bytes = MIB;
		f->volumes[i] = &f->volume[i];
		bc__v1__hold__init(&f->hold[i]);
		f->holds[i] = &f->hold[i];
		bc__v1__gpu__init(&f->gpu[i]);
		f->gpu[i].id = f->gpu_ids[i];
		f->gpus[i] = &f->gpu[i];
	}
	f->volume[0].id = (char *)"data-1";
	f->volume[1].id = (char *)"data-2";
	f->hold[0].id = (char *)"hold.1";
	f->hold[1].id = (char *)"hold.2";
	f->gpu[0].pci_address = (char *)"0000:65:00.0";
	f->node.volumes = f->volumes;
	f->node.n_volumes = 2;
	f->node.holds = f->holds;
	f->node.n_holds = 2;
	f->node.gpus = f->gpus;
	f->node.n_gpus = 2;
}

/* --- setting a field by its path, through protobuf-c's descriptors --- */

/* Splits "items[3]" into name and index; the index is SIZE_MAX without one. */
static const char *path_step(const char *path, char *name, size_t size, size_t *ret_index)
{
	size_t n = strcspn(path, ".[");

	assert_true(n < size);
	memcpy(name, path, n);
	name[n] = '\0';
	path += n;
	*ret_index = SIZE_MAX;
	if (*path == '[') {
		char *end;

		*ret_index = strtoul(path + 1, &end, 10);
		path = end + 1;
	}
	return *path == '.' ? path + 1 : path;
}

static void scalar_set(const ProtobufCFieldDescriptor *field, void *at, const char *value)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		*(const char **)at = value;
		break;
	case PROTOBUF_C_TYPE_UINT64:
		*(uint64_t *)at = strtoull(value, NULL, 0);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)at = atoi(value);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_ENUM:
		*(uint32_t *)at = (uint32_t)strtoul(value, NULL, 0);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		assert_string_equal(value, "null");
		*(void **)at = NULL;
		break;
	default:
		fail_msg("no value of this type can be set");
	}
}

static void path_set(ProtobufCMessage *message, const char *path, const char *value)
{
	char name[64];
	size_t index;

	path = path_step(path, name, sizeof(name), &index);
	const ProtobufCFieldDescriptor *field =
	        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

	if (!field)
		fail_msg("%s has no field %s", message->descriptor->name, name);
	char *at = (char *)message + field->offset;

	if (strcmp(value, "count") == 0 && !*path && index != SIZE_MAX) { /* only claims to have that many */
		*(size_t *)((char *)message + field->quantifier_offset) = index;
		return;
	}
	if (index != SIZE_MAX) {
		if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING)
			fail_msg("lists of %s cannot be set", field->name);
		at = (char *)&(*(void ***)at)[index];
	}
	if (*path)
		path_set(*(ProtobufCMessage **)at, path, value);
	else
		scalar_set(field, at, value);
}

#define A "instances.items[0]."
#define B "instances.items[1]."
#define S64 "0123456789012345678901234567890123456789012345678901234567890123"
#define S256 S64 S64 S64 S64
#define S2048 S256 S256 S256 S256 S256 S256 S256 S256

static bool has_fault(const struct spec_report *report, const char *says)
{
	for (size_t i = 0; i < report->n_faults && i < SPEC_FAULTS_SHOWN; i++)
		if (strncmp(report->faults[i], says, strlen(says)) == 0)
			return true;
	return false;
}

static void check_says(
        const char *path, const char *value, const char *path2, const char *value2, const char *says)
{
	struct fixture f;
	struct spec_report report;

	fixture_init(&f);
	path_set(&f.node.base, path, value);
	if (path2)
		path_set(&f.node.base, path2, value2);
	int r = spec_check(&f.node, "node-1", &report);

	if (!says) {
		if (r != 0)
			fail_msg("%s = %s: %s", path, value, report.faults[0]);
		return;
	}
	assert_int_equal(r, -EINVAL);
	/* every name in a path is as JSON and YAML have it */
	for (size_t i = 0; i < report.n_faults && i < SPEC_FAULTS_SHOWN; i++)
		if (memchr(report.faults[i], '_', strcspn(report.faults[i], ":")))
			fail_msg("%s = %s: '%s'", path, value, report.faults[i]);
	if (!has_fault(&report, says))
		fail_msg("%s = %s: '%s' and %zu more, not '%s'", path, value, report.faults[0],
		        report.n_faults - 1, says);
}

static void a_spec_with_one_of_everything_has_no_fault(void **state)
{
	struct fixture f;
	struct spec_report report;

	(void)state;
	fixture_init(&f);
	if (spec_check(&f.node, "node-1", &report) != 0)
		fail_msg("%s", report.faults[0]);
	assert_int_equal(report.n_faults, 0);
}

/* Each row breaks one rule (says: how the fault begins), or just keeps it (says NULL). */
static void every_rule_has_its_fault_with_its_path(void **state)
{
	static const struct {
		const char *path, *value, *says;
	} TABLE[] = {
		{ "revision", "0", "revision: is not set" },
		{ "revision", "18446744073709551615", "revision: 18446744073709551615 is the last there is" },
		{ "node_id", "node-1", NULL },
		{ "node_id", "node-2", "nodeId: this spec is for the node 'node-2', this is 'node-1'" },
		{ A "id", "6F1C0D8E-3A52-4A57-9D3B-0C2F7F1F5B11", A "id: '6F1C0D8E" },
		{ A "id", "", A "id: '' is not a UUID" },
		{ A "id", ID_B, "instances.items[1].id: '" ID_B "' is also that of instances.items[0]" },
		{ A "allocation_id", "", A "allocationId: '' is not" },
		{ A "allocation_id", "a b", A "allocationId: 'a b' is not" },
		{ A "allocation_id", S64 S64, NULL },
		{ A "allocation_id", S64 S64 "x", A "allocationId: '" },
		{ A "runtime", "KVM", A "runtime: 'KVM' is not" },
		{ A "runtime", "", A "runtime: '' is not" },
		{ A "desired_state", "0", A "desiredState: is not set; write RUNNING, STOPPED or PAUSED" },
		{ A "desired_state", "9", A "desiredState: 9 is not known" },
		{ A "desired_state", "2", NULL },
		{ A "vcpus", "0", A "vcpus: 0 is out of range; write 1 to 512" },
		{ A "vcpus", "513", A "vcpus: 513 is out of range" },
		{ A "memory_bytes", "0", A "memoryBytes: 0 is out of range" },
		{ A "memory_bytes", "536870913", A "memoryBytes: 536870913 is no multiple of 1048576" },
		{ B "memory_bytes", "15728640", B "memoryBytes: 15728640 is out of range" },
		{ B "memory_bytes", "17592186044416", NULL },
		{ B "memory_bytes", "17592187092992", B "memoryBytes: 17592187092992 is out of range" },
		{ A "boot", "null", A "boot: is not set" },
		{ A "boot.image.digest", "sha256:00", A "boot.image.digest: 'sha256:00' is not" },
		{ A "boot.image.format", "0", A "boot.image.format: is not set; write RAW or QCOW2" },
		{ A "boot.image.format", "3", A "boot.image.format: 3 is not known" },
		{ A "boot.image.firmware", "2", NULL },
		{ A "boot.image.firmware", "7", A "boot.image.firmware: 7 is not known; write BIOS or UEFI" },
		{ A "boot.image.source_url", "http://a/b",
		        A "boot.image.sourceUrl: 'http://a/b' is neither" },
		{ A "boot.image.source_url", "", A "boot.image.sourceUrl: '' is neither" },
		{ A "boot.image.source_url", "file://etc/x",
		        A "boot.image.sourceUrl: 'file://etc/x' is no file" },
		{ A "boot.image.source_url", "file:///x y",
		        A "boot.image.sourceUrl: 'file:///x y' has a space" },
		{ A "boot.image.source_url", "https:///x",
		        A "boot.image.sourceUrl: 'https:///x' names no host" },
		{ A "boot.image.source_url", "https://u:pw@h/",
		        A "boot.image.sourceUrl: 'https://u:pw' carries" },
		{ A "boot.image.source_url", "https://h/" S2048, A "boot.image.sourceUrl: 'https://h/0123" },
		{ A "root_disk_bytes", "0", NULL },
		{ A "root_disk_bytes", "104857601", A "rootDiskBytes: 104857601 is no multiple of 512" },
		{ A "root_disk_bytes", "104857088", A "rootDiskBytes: 104857088 is less than the image's" },
		{ A "root_disk_bytes", "104858112", NULL },
		{ A "root_disk_bytes", "70368744178176", A "rootDiskBytes: 70368744178176 is out of range" },
		{ B "root_disk_bytes", "1048576", B "rootDiskBytes: there is no root disk" },
		{ B "boot.kernel.kernel", "vmlinuz", B "boot.kernel.kernel: 'vmlinuz' is not an absolute" },
		{ B "boot.kernel.kernel", "/a\nb", B "boot.kernel.kernel: '/a?b' has a control character" },
		{ B "boot.kernel.initramfs", "", NULL },
		{ B "boot.kernel.initramfs", "x", B "boot.kernel.initramfs: 'x' is not an absolute" },
		{ B "boot.kernel.cmdline", S2048, NULL },
		{ B "boot.kernel.cmdline", S2048 "x", B "boot.kernel.cmdline: 2049 bytes, at most 2048" },
		{ B "boot.kernel.profile", "fast", NULL },
		{ B "boot.kernel.profile", "slow", B "boot.kernel.profile: 'slow' is not known" },
		{ A "nics[0].mac", "53:54:00:12:34:56", A "nics[0].mac: '53:54:00:12:34:56'" },
		{ A "nics[0].mac", "", NULL },
		{ A "nics[1].mac", "52:54:00:12:34:56",
		        A "nics[1].mac: '52:54:00:12:34:56' is also the MAC of nics[0]" },
		{ A "nics[0].bridge.name", "a-name-of-16-byt", A "nics[0].bridge.name: 'a-name-of-16-byt'" },
		{ A "nics[1].macvtap.parent", "", A "nics[1].macvtap.parent: ''" },
		{ A "nics[1].macvtap.mode", "5", A "nics[1].macvtap.mode: 5 is not known" },
		{ A "nics[1].policy", "2", A "nics[1].policy: cannot be kept on a macvtap NIC" },
		{ A "nics[2].policy", "3", A "nics[2].policy: cannot be kept on a user-mode NIC" },
		{ A "nics[2].policy", "1", NULL },
		{ A "nics[0].policy", "4", A "nics[0].policy: 4 is not known" },
		{ A "nics[0].vhost", "3", A "nics[0].vhost: 3 is not known" },
		{ A "nics[0].queues", "64", NULL },
		{ A "nics[0].queues", "65", A "nics[0].queues: 65 is out of range" },
		{ A "nics[2].queues", "2", A "nics[2].queues: 2, but a user-mode NIC has one queue" },
		{ A "nics[0].addresses[0]", "192.0.2.10", A "nics[0].addresses[0]: " },
		{ A "nics[0].addresses[1]", "ff02::1/64",
		        A "nics[0].addresses[1]: 'ff02::1/64' is no address" },
		{ A "nics[0].gateways[0]", "192.0.2.1/24", A "nics[0].gateways[0]: " },
		{ A "nics[0].gateways[1]", "192.0.2.2", A "nics[0].gateways: has two of one family" },
		{ A "nics[0].nameservers[0]", "dns", A "nics[0].nameservers[0]: " },
		{ A "nics[0].nameservers[0]", "0.0.0.0",
		        A "nics[0].nameservers[0]: '0.0.0.0' is no address" },
		{ A "nics[0].private_prefixes[0]", "10.0.0.1/8", A "nics[0].privatePrefixes[0]: " },
		{ A "ssh_from_host_only", "1", A "nics[1].macvtap: sshFromHostOnly cannot be kept" },
		{ A "volumes[0].volume_id", "Data", A "volumes[0].volumeId: 'Data' is not" },
		{ A "volumes[1].volume_id", "data-1",
		        A "volumes[1].volumeId: 'data-1' is attached by volumes[0]" },
		{ A "volumes[0].serial", "", A "volumes[0].serial: '' is not" },
		{ A "volumes[0].serial", "123456789012345678901",
		        A "volumes[0].serial: '123456789012345678901'" },
		{ A "volumes[1].serial", "data1",
		        A "volumes[1].serial: 'data1' is also the serial of volumes[0]" },
		{ A "volumes[1].volume_id", "unlisted", NULL },
		{ "volumes[0].state", "2", A "volumes[0].volumeId: 'data-1' is ABSENT" },
		{ A "gpu_device_ids[0]", "5a0d1e6c", A "gpuDeviceIds[0]: '5a0d1e6c' is not a GPU's UUID" },
		{ A "gpu_device_ids[0]", "GPU-", A "gpuDeviceIds[0]: 'GPU-' is not" },
		{ A "gpu_device_ids[0]", "GPU-a/b", A "gpuDeviceIds[0]: 'GPU-a/b' is not" },
		{ A "vcpus", "3", A "placement.cpuPins: 2 pins for 3 vCPUs" },
		{ A "placement.huge_page_bytes", "2097152", NULL },
		{ A "placement.huge_page_bytes", "4096", A "placement.hugePageBytes: 4096 is no page size" },
		{ A "balloon.min_bytes", "536870912", NULL },
		{ A "balloon.min_bytes", "536870913", A "balloon.minBytes: 536870913 is out of range" },
		{ A "balloon.min_bytes", "0", A "balloon.minBytes: 0 is out of range" },
		{ A "user_data_ref", S256, NULL },
		{ A "user_data_ref", S256 "x", A "userDataRef: 257 bytes" },
		{ A "identity_rebind_ref", "a\tb", A "identityRebindRef: 'a?b' has a control" },
		{ A "restore_from.url", "ftp://x", A "restoreFrom.url: 'ftp://x' is neither" },
		{ A "restore_from.digest", "md5:0", A "restoreFrom.digest: 'md5:0'" },
		{ A "restore_from.with_memory", "1", A "restoreFrom.withMemory: a GPU's state" },
		{ A "port_mappings[0].host_port", "0", A "portMappings[0].hostPort: 0 is out of range" },
		{ A "port_mappings[0].guest_port", "65536", A "portMappings[0].guestPort: 65536 is out of" },
		{ A "port_mappings[0].protocol", "3", A "portMappings[0].protocol: 3 is not known" },
		{ A "port_mappings[0].host_address", "host", A "portMappings[0].hostAddress: " },
		{ A "port_mappings[0].host_address", "0.0.0.0",
		        A "portMappings[0].hostAddress: '0.0.0.0' is no" },
		{ A "port_mappings[0].host_address", "::1", NULL },
		{ A "port_mappings[0].host_address", "224.0.0.1", A "portMappings[0].hostAddress: " },
		{ A "port_mappings[1].host_address", "127.0.0.1",
		        A "portMappings[1].nicIndex: no bridge NIC can be reached by 127.0.0.1" },
		{ A "port_mappings[0].host_address", "127.0.0.1", NULL },
		{ A "port_mappings[1].nic_index", "1", A "portMappings[1].nicIndex: NIC 1 is a macvtap" },
		{ A "port_mappings[1].nic_index", "3", A "portMappings[1].nicIndex: NIC 3 is not there" },
		{ A "port_mappings[1].protocol", "0",
		        A "portMappings[1].hostPort: tcp 192.0.2.7:8080 is taken by "
		          "instances.items[0].portMappings[0]" },
		{ B "port_mappings[0].host_port", "8080",
		        B
		        "portMappings[0].hostPort: tcp *:8080 is taken by instances.items[0].portMappings[0]" },
		{ A "kind", "2", NULL },
		{ A "kind", "3", A "kind: 3 is not known; write SERVER or JOB" },
		{ A "labels[0].key", "", A "labels: the key '' has 0 bytes" },
		{ A "labels[0].key", S64, A "labels: the key '0123" },
		{ A "labels[0].value", S256, NULL },
		{ A "labels[0].value", S256 "x", A "labels: the value of 'team' has 257 bytes" },
		{ "volumes[0].id", "a/b", "volumes[0].id: 'a/b' is not" },
		{ "volumes[1].id", "data-1", "volumes[1].id: 'data-1' is also that of volumes[0]" },
		{ "volumes[0].size_bytes", "1048575", "volumes[0].sizeBytes: 1048575 is out of range" },
		{ "volumes[0].size_bytes", "1048577", "volumes[0].sizeBytes: 1048577 is no multiple of 512" },
		{ "volumes[0].size_bytes", "70368744177664", NULL },
		{ "volumes[0].size_bytes", "70368744178176",
		        "volumes[0].sizeBytes: 70368744178176 is out of" },
		{ "volumes[0].state", "3", "volumes[0].state: 3 is not known" },
		{ "holds[0].id", "", "holds[0].id: '' is not" },
		{ "holds[1].id", "hold.1", "holds[1].id: 'hold.1' is also that of holds[0]" },
		{ "holds[0].memory_bytes", "70368744177665",
		        "holds[0].memoryBytes: 70368744177665 is out of" },
		{ "gpus[0].id", "x", "gpus[0].id: 'x' is not" },
		{ "gpus[0].pci_address", "65:00.0", "gpus[0].pciAddress: '65:00.0' is not" },
		{ "gpus[0].pci_address", "0000:65:00.8", "gpus[0].pciAddress: '0000:65:00.8' is not" },
		{ "gpus[0].pci_address", "0000:65:00.0x", "gpus[0].pciAddress: '0000:65:00.0x' is not" },
		{ "gpus[1].pci_address", "0000:65:00.0",
		        "gpus[1].pciAddress: '0000:65:00.0' is also that of gpus[0]" },
		{ "instances", "null", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++)
		check_says(TABLE[i].path, TABLE[i].value, NULL, NULL, TABLE[i].says);
}

static void rules_over_two_fields(void **state)
{
	(void)state;
	/* a memory restore beside volumes: all of them read-only, or none */
	check_says(A "gpu_device_ids[0]", "count", A "restore_from.with_memory", "1",
	        A
	        "restoreFrom.withMemory: a guest's memory cannot be restored beside the read-write volumes[0]");
	/* a stopped instance holds no port */
	check_says(B "port_mappings[0].host_port", "8080", B "desired_state", "2", NULL);
	check_says(B "port_mappings[0].host_port", "8080", B "port_mappings[0].protocol", "2",
	        B "portMappings[0].hostPort: udp *:8080 is taken by instances.items[0].portMappings[1]");
	/* nor a MAC; one that is up shares none with another on the same bridge, however it is written */
	check_says(B "nics[0].mac", "52:54:00:12:34:56", B "desired_state", "2", NULL);
	check_says(B "nics[0].mac", "52:54:00:12:34:56", B "nics[0].bridge.name", "br-other", NULL);
	check_says(B "nics[0].mac", "52:54:00:12:34:57", NULL, NULL, NULL); /* that of a macvtap on eth0 */
	check_says(B "nics[0].mac", "52:54:00:12:34:AB", A "nics[0].mac", "52:54:00:12:34:ab",
	        B
	        "nics[0].mac: '52:54:00:12:34:AB' is also that of instances.items[0].nics[0], on 'br0' too");
	/* an ABSENT volume needs no size */
	check_says("volumes[1].size_bytes", "0", A "volumes[1].volume_id", "other",
	        "volumes[1].sizeBytes: 0 is out of range");
	/* without a NIC that can, nothing is published */
	check_says(
	        B "nics[0]", "count", B "nics[0]", "count", B "portMappings[0]: no NIC of the instance can");
}

/* A macvtap's packets pass the host by: it is no NIC to publish on, however the mapping is written. */
static void a_mapping_needs_a_nic_that_can_publish(void **state)
{
	struct fixture f;
	struct spec_report report;

	(void)state;
	fixture_init(&f);
	f.nic_b.attachment_case = BC__V1__NIC__ATTACHMENT_MACVTAP;
	f.nic_b.macvtap = &f.macvtap;
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	assert_int_equal(report.n_faults, 1);
	assert_true(
	        has_fault(&report, B "portMappings[0]: no NIC of the instance can publish a port: add a"));
	f.mapping_b.nic_case = BC__V1__PORT_MAPPING__NIC_NIC_INDEX;
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	assert_int_equal(report.n_faults, 1);
	assert_true(has_fault(&report, B "portMappings[0].nicIndex: NIC 0 is a macvtap"));
	/* A user-mode NIC beside it will do, unless it is the macvtap that is asked for. */
	f.b.nics = (Bc__V1__Nic *[]){ &f.nic_b, &f.nic[2] };
	f.b.n_nics = 2;
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	f.mapping_b.nic_index = 1;
	assert_int_equal(spec_check(&f.node, "", &report), 0);
	f.mapping_b.nic_case = BC__V1__PORT_MAPPING__NIC__NOT_SET;
	assert_int_equal(spec_check(&f.node, "", &report), 0);
}

static void ssh_that_only_the_host_may_use(void **state)
{
	struct fixture f;
	struct spec_report report;

	(void)state;
	fixture_init(&f);
	f.nic_b.attachment_case = BC__V1__NIC__ATTACHMENT_USER;
	f.nic_b.user = &f.user;
	f.b.ssh_from_host_only = true;
	f.mapping_b.guest_port = 22;
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	assert_non_null(strstr(report.faults[0], B "portMappings[0].hostAddress: sshFromHostOnly"));
	f.mapping_b.host_address = (char *)"192.0.2.1";
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	f.mapping_b.host_address = (char *)"127.0.0.1";
	assert_int_equal(spec_check(&f.node, "", &report), 0);
	f.mapping_b.host_address = (char *)"::1";
	assert_int_equal(spec_check(&f.node, "", &report), 0);
	f.mapping_b.host_address = (char *)"";
	f.mapping_b.protocol = BC__V1__PORT_MAPPING__PROTOCOL__UDP;
	assert_int_equal(spec_check(&f.node, "", &report), 0);
}

static void an_absent_volume_needs_no_size(void **state)
{
	struct fixture f;
	struct spec_report report;

	(void)state;
	fixture_init(&f);
	f.volume[1].id = (char *)"old";
	f.volume[1].size_bytes = 0;
	f.volume[1].state = BC__V1__VOLUME__STATE__ABSENT;
	assert_int_equal(spec_check(&f.node, "", &report), 0);
}

/* Lists longer than what is taken; the items repeat one that is valid. */
static void lists_are_bounded(void **state)
{
	static const struct {
		const char *path;
		size_t max;
		const char *says;
	} TABLE[] = {
		{ A "nics", 100, A "nics: 101 items, at most 100" },
		{ A "volumes", 24, A "volumes: 25 items, at most 24" },
		{ A "gpu_device_ids", 16, A "gpuDeviceIds: 17 items, at most 16" },
		{ A "port_mappings", 256, A "portMappings: 257 items, at most 256" },
		{ A "labels", 64, A "labels: 65 items, at most 64" },
		{ A "nics[0].addresses", 16, A "nics[0].addresses: 17 items, at most 16" },
		{ A "nics[0].gateways", 2, A "nics[0].gateways: 3 items, at most 2" },
		{ A "nics[0].nameservers", 8, A "nics[0].nameservers: 9 items, at most 8" },
		{ A "nics[0].private_prefixes", 256, A "nics[0].privatePrefixes: 257 items, at most 256" },
		{ "instances.items", 10000, "instances.items: 10001 items, at most 10000" },
		{ "volumes", 10000, "volumes: 10001 items, at most 10000" },
		{ "holds", 1000, "holds: 1001 items, at most 1000" },
		{ "gpus", 64, "gpus: 65 items, at most 64" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		struct fixture f;
		struct spec_report report;
		ProtobufCMessage *message;
		const char *path = TABLE[i].path;
		size_t n = TABLE[i].max + 1;
		void **items = calloc(n, sizeof(*items));

		assert_non_null(items);
		fixture_init(&f);
		message = &f.node.base;
		for (;;) {
			char name[64];
			size_t index;

			path = path_step(path, name, sizeof(name), &index);
			const ProtobufCFieldDescriptor *field =
			        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
			void ***list = (void ***)((char *)message + field->offset);

			if (*path) {
				message = index == SIZE_MAX ? *(void **)list : (*list)[index];
				continue;
			}
			for (size_t k = 0; k < n; k++)
				items[k] = (*list)[0];
			*list = items;
			*(size_t *)((char *)message + field->quantifier_offset) = n;
			break;
		}
		assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
		if (!has_fault(&report, TABLE[i].says))
			fail_msg("'%s' is not among the faults; the first is '%s'", TABLE[i].says,
			        report.faults[0]);
		free(items);
	}
}

static void ten_thousand_faults_give_one_answer(void **state)
{
	struct fixture f;
	struct spec_report report;
	char text[SPEC_REPORT_TEXT_MAX];
	Bc__V1__InstanceSpec *broken = calloc(10001, sizeof(*broken));
	Bc__V1__InstanceSpec **items = calloc(10001, sizeof(*items));
	char(*ids)[40] = calloc(10001, sizeof(*ids));

	(void)state;
	assert_true(broken && items && ids);
	fixture_init(&f);
	for (size_t i = 0; i < 10001; i++) {
		broken[i] = f.b;
		(void)snprintf(ids[i], sizeof(ids[i]), "%08zx-3a52-4a57-9d3b-0c2f7f1f5b11", i);
		broken[i].id = ids[i];
		broken[i].n_port_mappings = 0;
		broken[i].vcpus = 0;
		items[i] = &broken[i];
	}
	f.instances.items = items;
	f.instances.n_items = 10000;
	broken[9999].vcpus = 1;
	broken[9999].runtime = (char *)"\xc3\xa4\xc3\xb6";
	broken[0].kind = 77;
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	assert_int_equal(report.n_faults, 10001);
	spec_report_text(&report, text, sizeof(text));
	assert_int_equal(
	        strncmp(text, "10001 faults in the NodeSpec:\n  instances.items[0].vcpus: 0 is", 62), 0);
	assert_non_null(strstr(text, "instances.items[18].vcpus: 0 is out of range"));
	assert_null(strstr(text, "instances.items[19]"));
	assert_non_null(strstr(text, "\n  and 9981 more"));
	free(broken);
	free(items);
	free(ids);
}

/* A fault that is too long is cut between characters, and the whole report has room for 20 of them. */
static void long_faults_are_cut(void **state)
{
	struct spec_report report = { .n_faults = 25 };
	char text[SPEC_REPORT_TEXT_MAX], small[40];

	(void)state;
	for (size_t i = 0; i < SPEC_FAULTS_SHOWN; i++) {
		memset(report.faults[i], 'x', SPEC_FAULT_MAX - 1);
		report.faults[i][0] = (char)('a' + i);
	}
	spec_report_text(&report, text, sizeof(text));
	assert_non_null(strstr(text, "\n  txxx"));
	assert_non_null(strstr(text, "\n  and 5 more"));
	spec_report_text(&report, small, sizeof(small));
	assert_int_equal(strlen(small), sizeof(small) - 1);
	report.n_faults = 1;
	spec_report_text(&report, small, 28);
	assert_string_equal(small, "1 fault in the NodeSpec:\n  ");
}

/* A secret in a signed URL's query never comes back in a fault. */
static void the_query_of_a_url_is_not_shown(void **state)
{
	struct fixture f;
	struct spec_report report;

	(void)state;
	fixture_init(&f);
	f.image.source_url = (char *)"http://images.example/a?token=s3cret";
	assert_int_equal(spec_check(&f.node, "", &report), -EINVAL);
	assert_int_equal(report.n_faults, 1);
	assert_null(strstr(report.faults[0], "s3cret"));
	assert_non_null(strstr(report.faults[0], "'http://images.example/a' is neither"));
}

TEST_SUITE(spec_check_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spec_with_one_of_everything_has_no_fault),
		cmocka_unit_test(every_rule_has_its_fault_with_its_path),
		cmocka_unit_test(rules_over_two_fields),
		cmocka_unit_test(a_mapping_needs_a_nic_that_can_publish),
		cmocka_unit_test(ssh_that_only_the_host_may_use),
		cmocka_unit_test(an_absent_volume_needs_no_size),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(ten_thousand_faults_give_one_answer),
		cmocka_unit_test(long_faults_are_cut),
		cmocka_unit_test(the_query_of_a_url_is_not_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
