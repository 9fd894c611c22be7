/* A golden definition per feature: what is written, valid by libvirt's schema, and read back as what it was.
 * BC_GOLDEN_UPDATE=1 writes them anew. */
#include "svc-runtime-libvirt/domain_request.h"
#include "svc-runtime-libvirt/domain_xml.h"

#include "lib/base/atomic_file.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <libxml/relaxng.h>
#include <libxml/xpath.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID "6f1b1a52-0c1d-4c56-9a1e-2f6b1c6d7e80"
#define DIGEST "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SCHEMA "/usr/share/libvirt/schemas/domain.rng"
#define GIB (UINT64_C(1) << 30)
#define TAP(n) "bce44ab4201cn" n

/* One request with room for everything a feature may want to point to. */
struct request {
	Bc__V1__EnsureRequest ensure;
	Bc__V1__InstanceSpec spec;
	Bc__V1__Boot boot;
	Bc__V1__ImageBoot image;
	Bc__V1__KernelBoot kernel;
	Bc__V1__Nic nics[2];
	Bc__V1__Nic *nic_list[2];
	Bc__V1__PreparedNic prepared[2];
	Bc__V1__PreparedNic *prepared_list[2];
	Bc__V1__BridgeAttachment bridge;
	Bc__V1__MacvtapAttachment macvtap;
	Bc__V1__UserAttachment user;
	Bc__V1__NicPorts ports;
	Bc__V1__NicPorts *ports_list[1];
	Bc__V1__PortMapping mappings[3];
	Bc__V1__PortMapping *mapping_list[3];
	Bc__V1__VolumeAttachment volumes[2];
	Bc__V1__VolumeAttachment *volume_list[2];
	Bc__V1__VolumePath paths[2];
	Bc__V1__VolumePath *path_list[2];
	Bc__V1__Gpu gpu;
	Bc__V1__Gpu *gpu_list[1];
	char *gpu_ids[1];
	Bc__V1__Placement placement;
	Bc__V1__Balloon balloon;
	struct domain_host host;
};

static char *const addresses[] = { (char *)"192.0.2.7/24", (char *)"2001:db8::7/64" };

static void begin(struct request *q)
{
	*q = (struct request){
		.ensure = BC__V1__ENSURE_REQUEST__INIT,
		.spec = BC__V1__INSTANCE_SPEC__INIT,
		.boot = BC__V1__BOOT__INIT,
		.image = BC__V1__IMAGE_BOOT__INIT,
		.kernel = BC__V1__KERNEL_BOOT__INIT,
		.nics = { BC__V1__NIC__INIT, BC__V1__NIC__INIT },
		.prepared = { BC__V1__PREPARED_NIC__INIT, BC__V1__PREPARED_NIC__INIT },
		.bridge = BC__V1__BRIDGE_ATTACHMENT__INIT,
		.macvtap = BC__V1__MACVTAP_ATTACHMENT__INIT,
		.user = BC__V1__USER_ATTACHMENT__INIT,
		.ports = BC__V1__NIC_PORTS__INIT,
		.mappings = { BC__V1__PORT_MAPPING__INIT, BC__V1__PORT_MAPPING__INIT,
		        BC__V1__PORT_MAPPING__INIT },
		.volumes = { BC__V1__VOLUME_ATTACHMENT__INIT, BC__V1__VOLUME_ATTACHMENT__INIT },
		.paths = { BC__V1__VOLUME_PATH__INIT, BC__V1__VOLUME_PATH__INIT },
		.gpu = BC__V1__GPU__INIT,
		.placement = BC__V1__PLACEMENT__INIT,
		.balloon = BC__V1__BALLOON__INIT,
		.host = { .emulator = "/usr/bin/qemu-system-x86_64", .disk_cache = "none" },
	};
	for (size_t i = 0; i < 2; i++) {
		q->nic_list[i] = &q->nics[i];
		q->prepared_list[i] = &q->prepared[i];
		q->volume_list[i] = &q->volumes[i];
		q->path_list[i] = &q->paths[i];
	}
	for (size_t i = 0; i < 3; i++)
		q->mapping_list[i] = &q->mappings[i];
	q->ports_list[0] = &q->ports;
	q->gpu_list[0] = &q->gpu;
	q->spec.nics = q->nic_list;
	q->ensure.nics = q->prepared_list;
	q->spec.volumes = q->volume_list;
	q->ensure.volumes = q->path_list;
	q->ensure.ports = q->ports_list;
	q->ports.mappings = q->mapping_list;
	q->ensure.gpus = q->gpu_list;
	q->spec.gpu_device_ids = q->gpu_ids;

	q->ensure.spec = &q->spec;
	q->spec.id = (char *)ID;
	q->spec.allocation_id = (char *)"alloc-1";
	q->spec.vcpus = 2;
	q->spec.memory_bytes = 2 * GIB;
	q->spec.boot = &q->boot;
	q->boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	q->boot.kernel = &q->kernel;
	q->kernel.kernel = (char *)"/srv/vmlinuz";
	q->kernel.initramfs = (char *)"/srv/initramfs";
	q->kernel.cmdline = (char *)"console=ttyS0 quiet a=\"<&>\"";
}

static void use_image(struct request *q, Bc__V1__ImageBoot__Format format)
{
	q->boot.source_case = BC__V1__BOOT__SOURCE_IMAGE;
	q->boot.image = &q->image;
	q->image.digest = (char *)DIGEST;
	q->image.format = format;
	q->ensure.image_path = (char *)"/var/lib/bc/images/x.img";
}

static void use_nic(struct request *q, size_t i, const char *tap)
{
	q->spec.n_nics = q->ensure.n_nics = i + 1;
	q->nics[i].addresses = (char **)addresses;
	q->nics[i].n_addresses = 2;
	q->nics[i].attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	q->nics[i].bridge = &q->bridge;
	q->prepared[i].interface = (char *)tap;
	q->prepared[i].queues = 1;
	q->prepared[i].filtered = true;
}

static void kernel(struct request *q)
{
	(void)q;
}
static void job(struct request *q)
{
	q->spec.kind = BC__V1__INSTANCE_SPEC__KIND__JOB;
}
static void image_raw(struct request *q)
{
	use_image(q, BC__V1__IMAGE_BOOT__FORMAT__RAW);
}
static void image_qcow2(struct request *q)
{
	use_image(q, BC__V1__IMAGE_BOOT__FORMAT__QCOW2);
	q->spec.root_disk_bytes = 10 * GIB;
}
static void uefi(struct request *q)
{
	image_raw(q);
	q->image.firmware = BC__V1__IMAGE_BOOT__FIRMWARE__UEFI;
	q->host.firmware_code = "/usr/share/OVMF/OVMF_CODE_4M.fd";
}
static void user_data(struct request *q)
{
	q->spec.user_data_ref = (char *)"secret/1";
}
static void nic_tap(struct request *q)
{
	use_nic(q, 0, TAP("0"));
	use_nic(q, 1, TAP("1"));
	q->nics[1].mac = (char *)"52:54:00:AA:bb:01";
}
static void nic_queues(struct request *q)
{
	use_nic(q, 0, TAP("0"));
	q->prepared[0].queues = q->nics[0].queues = 4;
}
static void nic_vhost(struct request *q)
{
	nic_queues(q);
	q->prepared[0].vhost = true;
	q->host.kvm = true;
}
static void nic_macvtap(struct request *q)
{
	use_nic(q, 0, TAP("0"));
	q->nics[0].attachment_case = BC__V1__NIC__ATTACHMENT_MACVTAP;
	q->nics[0].macvtap = &q->macvtap;
	q->prepared[0].device = (char *)"/dev/tap7";
	q->prepared[0].filtered = false;
}
static void nic_user(struct request *q)
{
	use_nic(q, 0, "");
	q->nics[0].attachment_case = BC__V1__NIC__ATTACHMENT_USER;
	q->nics[0].user = &q->user;
	q->prepared[0].queues = 0;
	q->prepared[0].filtered = false;
}
static void nic_user_ports(struct request *q)
{
	nic_user(q);
	q->ensure.n_ports = 1;
	q->ports.n_mappings = 3;
	q->mappings[0].host_port = 8080;
	q->mappings[0].guest_port = 80;
	q->mappings[1].protocol = BC__V1__PORT_MAPPING__PROTOCOL__UDP;
	q->mappings[1].host_address = (char *)"127.0.0.1";
	q->mappings[1].host_port = q->mappings[1].guest_port = 53;
	q->mappings[2].host_address = (char *)"127.0.0.2";
	q->mappings[2].host_port = 2222;
	q->mappings[2].guest_port = 22;
}
static void volumes(struct request *q)
{
	image_raw(q);
	q->spec.n_volumes = q->ensure.n_volumes = 2;
	for (size_t i = 0; i < 2; i++) {
		q->volumes[i].volume_id = q->paths[i].volume_id = (char *)(i ? "logs" : "data");
		q->volumes[i].serial = (char *)(i ? "LOGS-1" : "DATA-1");
		q->paths[i].path =
		        (char *)(i ? "/var/lib/bc/volumes/logs.raw" : "/var/lib/bc/volumes/data.raw");
		q->volumes[i].read_only = i == 1;
		q->paths[i].size_bytes = UINT64_C(1) << (30 + i);
	}
}
static void gpu(struct request *q)
{
	q->spec.n_gpu_device_ids = q->ensure.n_gpus = 1;
	q->gpu_ids[0] = q->gpu.id = (char *)"GPU-5b7b1a52-0c1d-4c56-9a1e-2f6b1c6d7e80";
	q->gpu.pci_address = (char *)"0000:65:00.0";
}
static void pinning(struct request *q)
{
	static uint32_t pins[] = { 4, 6 }, emulator[] = { 0, 1 };
	q->spec.placement = &q->placement;
	q->placement.cpu_pins = pins;
	q->placement.n_cpu_pins = 2;
	q->placement.emulator_cpus = emulator;
	q->placement.n_emulator_cpus = 2;
}
static void numa(struct request *q)
{
	static uint32_t nodes[] = { 0, 1 };
	q->spec.placement = &q->placement;
	q->placement.numa_nodes = nodes;
	q->placement.n_numa_nodes = 2;
}
static void huge_pages(struct request *q)
{
	q->spec.placement = &q->placement;
	q->placement.huge_page_bytes = GIB;
}
static void balloon(struct request *q)
{
	q->spec.balloon = &q->balloon;
	q->balloon.min_bytes = GIB;
}
static void kvm(struct request *q)
{
	q->host.kvm = true;
}
static void many_cpus(struct request *q)
{
	q->host.kvm = true;
	q->spec.vcpus = 288;
}
static void restored(struct request *q)
{
	image_raw(q);
	q->ensure.restored_from = (char *)DIGEST;
}
static void owners(struct request *q)
{
	q->host.keep_owners = true;
	q->host.vmm_uid = 64055;
	q->host.vmm_gid = 64055;
}

struct feature {
	const char *name;
	void (*ask)(struct request *q);
};
#define FEATURE(f)                                                                                           \
	{                                                                                                    \
		.name = #f, .ask = (f)                                                                       \
	}
static const struct feature features[] = {
	FEATURE(kernel),
	FEATURE(job),
	FEATURE(image_raw),
	FEATURE(image_qcow2),
	FEATURE(uefi),
	FEATURE(user_data),
	FEATURE(nic_tap),
	FEATURE(nic_queues),
	FEATURE(nic_vhost),
	FEATURE(nic_macvtap),
	FEATURE(nic_user),
	FEATURE(nic_user_ports),
	FEATURE(volumes),
	FEATURE(gpu),
	FEATURE(pinning),
	FEATURE(numa),
	FEATURE(huge_pages),
	FEATURE(balloon),
	FEATURE(kvm),
	FEATURE(many_cpus),
	FEATURE(restored),
	FEATURE(owners),
};

static void validate(const char *xml)
{
	xmlRelaxNGParserCtxt *parser = xmlRelaxNGNewParserCtxt(SCHEMA);
	assert_non_null(parser);
	xmlRelaxNG *schema = xmlRelaxNGParse(parser);
	assert_non_null(schema); /* it comes with libvirt0 */
	xmlRelaxNGValidCtxt *context = xmlRelaxNGNewValidCtxt(schema);
	xmlDoc *doc = xmlReadMemory(xml, (int)strlen(xml), NULL, NULL, XML_PARSE_NONET);
	assert_non_null(doc);
	assert_int_equal(xmlRelaxNGValidateDoc(context, doc), 0);
	xmlFreeDoc(doc);
	xmlRelaxNGFreeValidCtxt(context);
	xmlRelaxNGFree(schema);
	xmlRelaxNGFreeParserCtxt(parser);
}

/* No format is ever found out by looking, and no chain of images by following it. */
static void disks_are_stated(const char *xml)
{
	xmlDoc *doc = xmlReadMemory(xml, (int)strlen(xml), NULL, NULL, XML_PARSE_NONET);
	xmlXPathContext *context = xmlXPathNewContext(doc);
	xmlXPathObject *unstated = xmlXPathEval(
	        (const xmlChar *)"//disk[not(driver/@type) or not(backingStore)] | //backingStore[* and not(format/@type)]",
	        context);

	assert_non_null(unstated);
	assert_true(xmlXPathNodeSetIsEmpty(unstated->nodesetval));
	xmlXPathFreeObject(unstated);
	xmlXPathFreeContext(context);
	xmlFreeDoc(doc);
}

static void compare_golden(const char *name, const char *xml)
{
	char path[512];
	CLEANUP_FREE char *golden = NULL;

	(void)snprintf(path, sizeof(path), "%s/%s.xml", BC_GOLDEN_DIR, name);
	if (getenv("BC_GOLDEN_UPDATE"))
		assert_int_equal(atomic_file_write(AT_FDCWD, path, xml, strlen(xml), 0644), 0);
	assert_int_equal(file_read(AT_FDCWD, path, 1 << 20, &golden, NULL), 0);
	assert_string_equal(xml, golden);
}

static void compare_nics(const struct domain_def *a, const struct domain_def *b)
{
	assert_int_equal(a->n_nics, b->n_nics);
	for (size_t i = 0; i < a->n_nics; i++) {
		assert_int_equal(a->nics[i].kind, b->nics[i].kind);
		assert_string_equal(a->nics[i].mac, b->nics[i].mac);
		assert_string_equal(a->nics[i].ifname, b->nics[i].ifname);
		assert_int_equal(a->nics[i].queues, b->nics[i].queues);
		assert_int_equal(a->nics[i].vhost, b->nics[i].vhost);
		assert_int_equal(a->nics[i].filtered, b->nics[i].filtered);
		assert_int_equal(a->nics[i].n_addresses, b->nics[i].n_addresses);
		for (size_t k = 0; k < a->nics[i].n_addresses; k++)
			assert_string_equal(a->nics[i].addresses[k], b->nics[i].addresses[k]);
	}
}

static void assert_same_text(const char *a, const char *b)
{
	assert_string_equal(a ? a : "", b ? b : "");
}

/* Everything that a status or a later decision is made of. */
static void compare_defs(const struct domain_def *a, const struct domain_def *b)
{
	assert_string_equal(a->id, b->id);
	assert_string_equal(a->allocation_id, b->allocation_id);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->vcpus, b->vcpus);
	assert_int_equal(a->memory_bytes, b->memory_bytes);
	assert_int_equal(a->huge_page_bytes, b->huge_page_bytes);
	assert_int_equal(a->boot, b->boot);
	assert_string_equal(a->image_digest, b->image_digest);
	assert_int_equal(a->image_format, b->image_format);
	assert_int_equal(a->root_disk_bytes, b->root_disk_bytes);
	assert_int_equal(a->uefi, b->uefi);
	assert_int_equal(a->balloon_min_bytes, b->balloon_min_bytes);
	assert_string_equal(a->spec_digest, b->spec_digest);
	assert_same_text(a->image_path, b->image_path);
	assert_same_text(a->disk_path, b->disk_path);
	assert_same_text(a->nvram_path, b->nvram_path);
	assert_same_text(a->kernel, b->kernel);
	assert_same_text(a->initramfs, b->initramfs);
	assert_same_text(a->cmdline, b->cmdline);
	assert_same_text(a->seed_path, b->seed_path);
	assert_same_text(a->log_path, b->log_path);
	assert_same_text(a->restored_from, b->restored_from);
	compare_nics(a, b);
	assert_int_equal(a->n_ports, b->n_ports);
	for (size_t i = 0; i < a->n_ports; i++) {
		assert_int_equal(a->ports[i].protocol, b->ports[i].protocol);
		assert_string_equal(a->ports[i].host_address, b->ports[i].host_address);
		assert_int_equal(a->ports[i].host_port, b->ports[i].host_port);
		assert_int_equal(a->ports[i].guest_port, b->ports[i].guest_port);
		assert_int_equal(a->ports[i].nic_index, b->ports[i].nic_index);
	}
	assert_int_equal(a->n_volumes, b->n_volumes);
	for (size_t i = 0; i < a->n_volumes; i++) {
		assert_string_equal(a->volumes[i].id, b->volumes[i].id);
		assert_string_equal(a->volumes[i].serial, b->volumes[i].serial);
		assert_string_equal(a->volumes[i].path, b->volumes[i].path);
		assert_int_equal(a->volumes[i].read_only, b->volumes[i].read_only);
		assert_int_equal(a->volumes[i].size_bytes, b->volumes[i].size_bytes);
	}
	assert_int_equal(a->n_gpus, b->n_gpus);
	for (size_t i = 0; i < a->n_gpus; i++) {
		assert_string_equal(a->gpus[i].uuid, b->gpus[i].uuid);
		assert_string_equal(a->gpus[i].address.text, b->gpus[i].address.text);
	}
}

static void every_feature_has_its_definition(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		struct request q;
		CLEANUP(domain_def) struct domain_def *def = NULL;
		CLEANUP_FREE char *xml = NULL;
		struct domain_record record;
		struct err err = { 0 };

		print_message("%s\n", features[i].name);
		begin(&q);
		features[i].ask(&q);
		int r = domain_def_from_request(&q.ensure, "/var/lib/bc/libvirt", &def, &err);
		if (r == 0)
			r = domain_xml_digest(def, &q.host, &err);
		if (r == 0)
			r = domain_xml_write(def, &q.host, &xml, &err);
		assert_string_equal(err.text, "");
		assert_int_equal(r, 0);
		validate(xml);
		disks_are_stated(xml);
		compare_golden(features[i].name, xml);
		assert_int_equal(domain_xml_read(xml, &record, &err), 0);
		assert_true(record.managed);
		assert_int_equal(record.kvm, q.host.kvm);
		compare_defs(record.def, def);
		domain_record_done(&record);
	}
}

static void digest_tells_definitions_apart(void **state)
{
	char digests[ARRAY_SIZE(features)][DIGEST_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		struct request q;
		CLEANUP(domain_def) struct domain_def *def = NULL;
		begin(&q);
		features[i].ask(&q);
		assert_int_equal(domain_def_from_request(&q.ensure, "/i", &def, NULL), 0);
		assert_int_equal(domain_xml_digest(def, &q.host, NULL), 0);
		(void)strcpy(digests[i], def->spec_digest);
		/* what a guest took on since is no other wish */
		def->rebound_ref = strdup("identity-1");
		assert_int_equal(domain_xml_digest(def, &q.host, NULL), 0);
		assert_string_equal(digests[i], def->spec_digest);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(digests[i], digests[k]);
	}
}

static void vhost_under_tcg_is_refused(void **state)
{
	struct request q;
	CLEANUP(domain_def) struct domain_def *def = NULL;
	CLEANUP_FREE char *xml = NULL;
	struct err err = { 0 };

	(void)state;
	begin(&q);
	nic_vhost(&q);
	q.host.kvm = false;
	assert_int_equal(domain_def_from_request(&q.ensure, "/i", &def, &err), 0);
	assert_int_equal(domain_xml_write(def, &q.host, &xml, &err), -EBUSY);
	assert_non_null(strstr(err.text, "nics[0]"));
}

static void uefi_without_firmware_is_refused(void **state)
{
	struct request q;
	CLEANUP(domain_def) struct domain_def *def = NULL;
	CLEANUP_FREE char *xml = NULL;
	struct err err = { 0 };

	(void)state;
	begin(&q);
	uefi(&q);
	q.host.firmware_code = NULL;
	assert_int_equal(domain_def_from_request(&q.ensure, "/i", &def, &err), 0);
	assert_int_equal(domain_xml_write(def, &q.host, &xml, &err), -EBUSY);
	assert_non_null(strstr(err.text, "ovmf"));
}

/* --- refusals of a request --- */

struct refusal {
	void (*ask)(struct request *q);
	int r;
	const char *words; /* that the message has */
};

static void bad_id(struct request *q)
{
	q->spec.id = (char *)"6F1B1A52-0c1d-4c56-9a1e-2f6b1c6d7e80";
}
static void no_allocation(struct request *q)
{
	q->spec.allocation_id = (char *)"";
}
static void no_cpus(struct request *q)
{
	q->spec.vcpus = 0;
}
static void too_many_cpus(struct request *q)
{
	q->spec.vcpus = 513;
}
static void odd_memory(struct request *q)
{
	q->spec.memory_bytes += 4096;
}
static void little_memory(struct request *q)
{
	q->spec.memory_bytes = 8 << 20;
}
static void no_boot(struct request *q)
{
	q->spec.boot = NULL;
}
static void empty_boot(struct request *q)
{
	q->boot.source_case = BC__V1__BOOT__SOURCE__NOT_SET;
}
static void relative_kernel(struct request *q)
{
	q->kernel.kernel = (char *)"vmlinuz";
}
static void control_character(struct request *q)
{
	q->kernel.cmdline = (char *)"quiet\nrw";
}
static void unknown_profile(struct request *q)
{
	q->kernel.profile = (char *)"turbo";
}
static void fast_profile(struct request *q)
{
	q->kernel.profile = (char *)"fast";
}
static void unstated_format(struct request *q)
{
	use_image(q, BC__V1__IMAGE_BOOT__FORMAT__FORMAT_UNSPECIFIED);
}
static void bad_digest(struct request *q)
{
	image_raw(q);
	q->image.digest = (char *)"sha256:00";
}
static void no_image_path(struct request *q)
{
	image_raw(q);
	q->ensure.image_path = (char *)"";
}
static void odd_root_disk(struct request *q)
{
	image_raw(q);
	q->spec.root_disk_bytes = 1000;
}
static void nic_not_prepared(struct request *q)
{
	nic_tap(q);
	q->ensure.n_nics = 1;
}
static void nic_of_another(struct request *q)
{
	nic_tap(q);
	q->prepared[0].interface = (char *)"bc0000000000n0";
}
static void nic_wrong_queues(struct request *q)
{
	nic_queues(q);
	q->prepared[0].queues = 1;
}
static void nic_65_queues(struct request *q)
{
	use_nic(q, 0, TAP("0"));
	q->prepared[0].queues = 65;
}
static void nic_wrong_mac(struct request *q)
{
	nic_tap(q);
	q->prepared[1].mac = (char *)"52:54:00:aa:bb:02";
}
static void nic_multicast(struct request *q)
{
	nic_tap(q);
	q->nics[1].mac = (char *)"01:00:5e:00:00:01";
}
static void nic_bad_address(struct request *q)
{
	static char *bad[] = { (char *)"192.0.2.7" };
	nic_tap(q);
	q->nics[0].addresses = bad;
	q->nics[0].n_addresses = 1;
}
static void nic_nowhere(struct request *q)
{
	nic_tap(q);
	q->nics[0].attachment_case = BC__V1__NIC__ATTACHMENT__NOT_SET;
}
static void ports_on_bridge(struct request *q)
{
	nic_user_ports(q);
	use_nic(q, 0, TAP("0"));
}
static void port_zero(struct request *q)
{
	nic_user_ports(q);
	q->mappings[0].host_port = 0;
}
static void port_address(struct request *q)
{
	nic_user_ports(q);
	q->mappings[0].host_address = (char *)"localhost,x=y";
}
static void port_ipv6(struct request *q)
{
	nic_user_ports(q);
	q->mappings[0].host_address = (char *)"::1";
}
static void volume_other(struct request *q)
{
	volumes(q);
	q->paths[1].volume_id = (char *)"other";
}
static void volume_serial(struct request *q)
{
	volumes(q);
	q->volumes[0].serial = (char *)"with space";
}
static void volume_twice(struct request *q)
{
	volumes(q);
	q->volumes[1].serial = q->volumes[0].serial;
}
static void volume_relative(struct request *q)
{
	volumes(q);
	q->paths[0].path = (char *)"../data.raw";
}
static void gpu_unknown(struct request *q)
{
	gpu(q);
	q->ensure.n_gpus = 0;
}
static void gpu_address(struct request *q)
{
	gpu(q);
	q->gpu.pci_address = (char *)"65:00";
}
static void pins_missing(struct request *q)
{
	pinning(q);
	q->spec.vcpus = 3;
}
static void page_size(struct request *q)
{
	huge_pages(q);
	q->placement.huge_page_bytes = 4096;
}
static void page_multiple(struct request *q)
{
	huge_pages(q);
	q->spec.memory_bytes += 1 << 20;
}
static void balloon_above(struct request *q)
{
	balloon(q);
	q->balloon.min_bytes = 3 * GIB;
}

static void bad_requests_are_refused(void **state)
{
	static const struct refusal refusals[] = {
		{ bad_id, -EINVAL, "spec.id" },
		{ no_allocation, -EINVAL, "spec.allocation_id" },
		{ no_cpus, -EINVAL, "spec.vcpus" },
		{ too_many_cpus, -EINVAL, "513" },
		{ odd_memory, -EINVAL, "spec.memory_bytes" },
		{ little_memory, -EINVAL, "16 MiB" },
		{ no_boot, -EINVAL, "spec.boot" },
		{ empty_boot, -EINVAL, "spec.boot" },
		{ relative_kernel, -EINVAL, "absolute" },
		{ control_character, -EINVAL, "control character" },
		{ unknown_profile, -EINVAL, "turbo" },
		{ fast_profile, -EOPNOTSUPP, "not built yet" },
		{ unstated_format, -EINVAL, "format" },
		{ bad_digest, -EINVAL, "spec.boot.image.digest" },
		{ no_image_path, -EINVAL, "image_path" },
		{ odd_root_disk, -EINVAL, "512" },
		{ nic_not_prepared, -EINVAL, "prepared" },
		{ nic_of_another, -EINVAL, "nics[0].interface" },
		{ nic_wrong_queues, -EINVAL, "nics[0]" },
		{ nic_65_queues, -EINVAL, "1..64" },
		{ nic_wrong_mac, -EINVAL, "nics[1]" },
		{ nic_multicast, -EINVAL, "spec.nics[1].mac" },
		{ nic_bad_address, -EINVAL, "spec.nics[0].addresses[0]" },
		{ nic_nowhere, -EINVAL, "attached to nothing" },
		{ ports_on_bridge, -EINVAL, "user-mode" },
		{ port_zero, -EINVAL, "65535" },
		{ port_address, -EINVAL, "host_address" },
		{ port_ipv6, -EINVAL, "IPv4" },
		{ volume_other, -EINVAL, "volumes[1]" },
		{ volume_serial, -EINVAL, "spec.volumes[0].serial" },
		{ volume_twice, -EINVAL, "one serial" },
		{ volume_relative, -EINVAL, "volumes[0].path" },
		{ gpu_unknown, -EBUSY, "no PCI address" },
		{ gpu_address, -EINVAL, "dddd:bb:ss.f" },
		{ pins_missing, -EINVAL, "cpu_pins" },
		{ page_size, -EINVAL, "huge_page_bytes" },
		{ page_multiple, -EINVAL, "multiple" },
		{ balloon_above, -EINVAL, "balloon" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct request q;
		struct domain_def *def = NULL;
		struct err err = { 0 };
		begin(&q);
		refusals[i].ask(&q);
		int r = domain_def_from_request(&q.ensure, "/i", &def, &err);
		if (r == 0) /* a GPU's address may be found later: then its definition is what is refused */
			r = domain_xml_digest(def, &q.host, &err);
		assert_int_equal(r, refusals[i].r);
		def = domain_def_free(def);
		if (!strstr(err.text, refusals[i].words))
			fail_msg("refusal %zu says: %s", i, err.text);
	}
}

/* --- reading what others wrote --- */

static struct domain_record read_ok(const char *xml)
{
	struct domain_record record;
	struct err err = { 0 };

	int r = domain_xml_read(xml, &record, &err);
	assert_string_equal(err.text, "");
	assert_int_equal(r, 0);
	return record;
}

static void foreign_domains_are_unmanaged(void **state)
{
	static const char *const xmls[] = {
		/* none of our metadata */
		"<domain type='kvm'><name>web</name><uuid>" ID "</uuid><memory unit='MiB'>512</memory>"
		"<vcpu>4</vcpu></domain>",
		/* our name alone is not ours */
		"<domain><name>bc-" ID "</name><uuid>" ID
		"</uuid><memory>524288</memory><vcpu>4</vcpu></domain>",
		/* our element under somebody else's name */
		"<domain><name>web</name><uuid>" ID "</uuid><memory>524288</memory><vcpu>4</vcpu><metadata>"
		"<i:instance xmlns:i='https://better-compute.dev/libvirt/1'><i:allocation>a</i:allocation>"
		"</i:instance></metadata></domain>",
		/* another namespace */
		"<domain><name>bc-" ID "</name><uuid>" ID
		"</uuid><memory>524288</memory><vcpu>4</vcpu><metadata>"
		"<i:instance xmlns:i='https://example.com/1'><i:allocation>a</i:allocation></i:instance>"
		"</metadata></domain>",
		/* ours, but it makes no sense */
		"<domain><name>bc-" ID "</name><uuid>" ID
		"</uuid><memory>524288</memory><vcpu>4</vcpu><metadata>"
		"<i:instance xmlns:i='https://better-compute.dev/libvirt/1'><i:image digest='x'/></i:instance>"
		"</metadata></domain>",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(xmls); i++) {
		struct domain_record record = read_ok(xmls[i]);
		assert_false(record.managed);
		assert_null(record.def);
		assert_int_equal(record.memory_bytes, UINT64_C(512) << 20);
		assert_int_equal(record.vcpus, 4);
		domain_record_done(&record);
	}
}

/* An operator may have plugged more into one of ours. */
static void drives_of_others_are_not_taken_for_ours(void **state)
{
	struct domain_record record = read_ok(
	        "<domain type='qemu'><name>bc-" ID "</name><uuid>" ID
	        "</uuid><memory>524288</memory><vcpu>1</vcpu>"
	        "<metadata><i:instance xmlns:i='https://better-compute.dev/libvirt/1'><i:allocation>a</i:allocation>"
	        "</i:instance></metadata><devices>"
	        "<disk device='disk'><source file='/ours'/><target dev='vda'/></disk>"
	        "<disk device='cdrom'><source file='/seed'/><target dev='sda'/></disk>"
	        "<disk device='disk'><source file='/theirs'/><target dev='vda'/></disk>"
	        "<disk device='disk'><source file='/theirs'/><target dev='vdq'/></disk>"
	        "<disk device='cdrom'><source file='/theirs'/><target dev='sdb'/></disk></devices></domain>");

	(void)state;
	assert_true(record.managed);
	assert_string_equal(record.def->disk_path, "/ours");
	assert_string_equal(record.def->seed_path, "/seed");
	assert_int_equal(record.def->n_volumes, 0);
	domain_record_done(&record);
}

/* By the metadata, else by the end of the chain: not what lies next below. */
static void the_image_of_a_layered_disk_is_told(void **state)
{
	struct domain_record record = read_ok(
	        "<domain type='qemu'><name>bc-" ID "</name><uuid>" ID
	        "</uuid><memory>524288</memory><vcpu>1</vcpu>"
	        "<metadata><i:instance xmlns:i='https://better-compute.dev/libvirt/1'><i:allocation>a</i:allocation>"
	        "</i:instance></metadata><devices>"
	        "<disk device='disk'><source file='/i/snapshot.layer'/><backingStore><format type='qcow2'/>"
	        "<source file='/i/disk.qcow2'/><backingStore><format type='raw'/><source file='/image'/>"
	        "<backingStore/></backingStore></backingStore><target dev='vda'/></disk></devices></domain>");

	(void)state;
	assert_string_equal(record.def->disk_path, "/i/snapshot.layer");
	assert_string_equal(record.def->image_path, "/image");
	domain_record_done(&record);

	record = read_ok(
	        "<domain type='qemu'><name>bc-" ID "</name><uuid>" ID
	        "</uuid><memory>524288</memory><vcpu>1</vcpu>"
	        "<metadata><i:instance xmlns:i='https://better-compute.dev/libvirt/1'><i:allocation>a</i:allocation>"
	        "<i:image digest='sha256:00' format='raw' path='/image'/></i:instance></metadata><devices>"
	        "<disk device='disk'><source file='/i/snapshot.layer'/><target dev='vda'/></disk></devices></domain>");
	assert_string_equal(record.def->image_path, "/image");
	domain_record_done(&record);
}

static void no_xml_is_no_domain(void **state)
{
	static const char *const xmls[] = {
		"",
		"text",
		"<domain>",
		"<network><name>x</name><uuid>" ID "</uuid></network>",
		"<domain><name>x</name></domain>",
		"<!DOCTYPE d [<!ENTITY a 'b'>]><domain><name>&a;</name><uuid>" ID "</uuid></domain>",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(xmls); i++) {
		struct domain_record record;
		struct err err = { 0 };
		if (domain_xml_read(xmls[i], &record, &err) == 0) {
			assert_string_equal(record.uuid, "");
			domain_record_done(&record);
		} else {
			assert_true(err.text[0] != '\0');
		}
	}
}

TEST_SUITE(domain_xml_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_feature_has_its_definition),
		cmocka_unit_test(digest_tells_definitions_apart),
		cmocka_unit_test(vhost_under_tcg_is_refused),
		cmocka_unit_test(uefi_without_firmware_is_refused),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(foreign_domains_are_unmanaged),
		cmocka_unit_test(drives_of_others_are_not_taken_for_ours),
		cmocka_unit_test(the_image_of_a_layered_disk_is_told),
		cmocka_unit_test(no_xml_is_no_domain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
