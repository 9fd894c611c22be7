/* The reading half of domain_xml.h. What stands in a definition is foreign: it may be somebody else's, or written by
 * hand. */
#include "svc-runtime-libvirt/domain_xml.h"

#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void domain_record_done(struct domain_record *record)
{
	free(record->name);
	record->def = domain_def_free(record->def);
	record->name = NULL;
}

static size_t count_children(const xmlNode *parent, const char *name, size_t max)
{
	size_t n = 0;

	for (const xmlNode *node = xml_child(parent, name); node && n < max; node = xml_next(node, name))
		n++;
	return n;
}

static int read_nics(const xmlNode *meta, struct domain_def *def)
{
	size_t n = count_children(meta, "nic", DOMAIN_NICS_MAX);

	def->nics = calloc(n + 1, sizeof(*def->nics));
	if (!def->nics)
		return -ENOMEM;
	for (const xmlNode *node = xml_child(meta, "nic"); def->n_nics < n; node = xml_next(node, "nic")) {
		struct domain_nic *nic = &def->nics[def->n_nics++];
		char kind[16];
		if (xml_attr(node, "kind", kind, sizeof(kind)) < 0 ||
		        xml_attr(node, "mac", nic->mac, sizeof(nic->mac)) < 0 ||
		        xml_attr(node, "interface", nic->ifname, sizeof(nic->ifname)) < 0)
			return -EINVAL;
		/* a word of a later release is taken for the first of its kind */
		(void)nic_kind_from_string(kind, &nic->kind);
		nic->queues = (uint32_t)xml_attr_u64(node, "queues");
		nic->vhost = xml_attr_is(node, "vhost", "yes");
		nic->filtered = xml_attr_is(node, "filtered", "yes");
		size_t n_addresses = count_children(node, "address", 16);
		nic->addresses = calloc(n_addresses + 1, sizeof(*nic->addresses));
		if (!nic->addresses)
			return -ENOMEM;
		for (const xmlNode *a = xml_child(node, "address"); nic->n_addresses < n_addresses;
		        a = xml_next(a, "address")) {
			nic->addresses[nic->n_addresses] = xml_text_dup(a);
			if (!nic->addresses[nic->n_addresses])
				return -ENOMEM;
			nic->n_addresses++;
		}
	}
	return 0;
}

static int read_ports(const xmlNode *meta, struct domain_def *def)
{
	size_t n = count_children(meta, "port", DOMAIN_PORTS_MAX);

	def->ports = calloc(n + 1, sizeof(*def->ports));
	if (!def->ports)
		return -ENOMEM;
	for (const xmlNode *node = xml_child(meta, "port"); def->n_ports < n; node = xml_next(node, "port")) {
		struct domain_port *port = &def->ports[def->n_ports++];
		char protocol[8];
		if (xml_attr(node, "protocol", protocol, sizeof(protocol)) < 0)
			return -EINVAL;
		(void)port_protocol_from_string(protocol, &port->protocol);
		port->host_port = (uint16_t)xml_attr_u64(node, "host-port");
		port->guest_port = (uint16_t)xml_attr_u64(node, "guest-port");
		port->nic_index = (uint32_t)xml_attr_u64(node, "nic");
		port->host_address = xml_attr_dup(node, "host-address");
		if (!port->host_address)
			port->host_address = strdup("");
		if (!port->host_address)
			return -ENOMEM;
	}
	return 0;
}

static int read_volumes(const xmlNode *meta, struct domain_def *def)
{
	size_t n = count_children(meta, "volume", DOMAIN_VOLUMES_MAX);

	def->volumes = calloc(n + 1, sizeof(*def->volumes));
	if (!def->volumes)
		return -ENOMEM;
	for (const xmlNode *node = xml_child(meta, "volume"); def->n_volumes < n;
	        node = xml_next(node, "volume")) {
		struct domain_volume *volume = &def->volumes[def->n_volumes++];
		if (xml_attr(node, "id", volume->id, sizeof(volume->id)) < 0 ||
		        xml_attr(node, "serial", volume->serial, sizeof(volume->serial)) < 0)
			return -EINVAL;
		volume->read_only = xml_attr_is(node, "read-only", "yes");
		volume->size_bytes = xml_attr_u64(node, "bytes");
		volume->path = xml_attr_dup(node, "path");
		if (!volume->path)
			return -EINVAL;
	}
	return 0;
}

static int read_gpus(const xmlNode *meta, struct domain_def *def)
{
	size_t n = count_children(meta, "gpu", DOMAIN_GPUS_MAX);

	def->gpus = calloc(n + 1, sizeof(*def->gpus));
	if (!def->gpus)
		return -ENOMEM;
	for (const xmlNode *node = xml_child(meta, "gpu"); def->n_gpus < n; node = xml_next(node, "gpu")) {
		struct domain_gpu *gpu = &def->gpus[def->n_gpus++];
		if (xml_attr(node, "pci", gpu->address.text, sizeof(gpu->address.text)) < 0)
			return -EINVAL;
		gpu->uuid = xml_attr_dup(node, "id");
		if (!gpu->uuid)
			return -EINVAL;
	}
	return 0;
}

static int read_image(const xmlNode *meta, struct domain_def *def)
{
	const xmlNode *image = xml_child(meta, "image");
	char format[16];

	if (!image) {
		def->boot = DOMAIN_BOOT_KERNEL;
		return 0;
	}
	def->boot = DOMAIN_BOOT_IMAGE;
	if (xml_attr(image, "digest", def->image_digest, sizeof(def->image_digest)) < 0 ||
	        xml_attr(image, "format", format, sizeof(format)) < 0 ||
	        image_format_from_string(format, &def->image_format) < 0)
		return -EINVAL;
	char *path = xml_attr_dup(image, "path");
	if (path) { /* what was defined before this was written has its chain alone */
		free(def->image_path);
		def->image_path = path;
	}
	def->root_disk_bytes = xml_attr_u64(image, "disk-bytes");
	return 0;
}

static int read_metadata(const xmlNode *meta, struct domain_def *def)
{
	char kind[16];

	def->allocation_id = xml_text_dup(xml_child(meta, "allocation"));
	if (!def->allocation_id || xml_text(xml_child(meta, "kind"), kind, sizeof(kind)) < 0 ||
	        xml_text(xml_child(meta, "spec"), def->spec_digest, sizeof(def->spec_digest)) < 0)
		return -EINVAL;
	(void)domain_kind_from_string(kind, &def->kind);
	def->restored_from = xml_text_dup(xml_child(meta, "restored-from"));
	def->rebound_ref = xml_text_dup(xml_child(meta, "rebound"));
	def->balloon_min_bytes = xml_text_u64(xml_child(meta, "balloon-min"));
	int r = read_image(meta, def);
	if (r == 0)
		r = read_nics(meta, def);
	if (r == 0)
		r = read_ports(meta, def);
	if (r == 0)
		r = read_volumes(meta, def);
	if (r == 0)
		r = read_gpus(meta, def);
	return r;
}

/* libvirt writes KiB whatever it was given; other units are for definitions by hand. */
static uint64_t memory_bytes(const xmlNode *memory)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {
		{ "b", 1 },
		{ "bytes", 1 },
		{ "KiB", UINT64_C(1) << 10 },
		{ "MiB", UINT64_C(1) << 20 },
		{ "GiB", UINT64_C(1) << 30 },
		{ "TiB", UINT64_C(1) << 40 },
	};
	uint64_t value = xml_text_u64(memory), bytes = 1024;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (xml_attr_is(memory, "unit", units[i].unit))
			bytes = units[i].bytes;
	return value > UINT64_MAX / bytes ? UINT64_MAX : value * bytes;
}

/* The file at the end of a disk's chain: of one that is on the layer of a snapshot there is another between. */
static const xmlNode *base_of(const xmlNode *disk)
{
	const xmlNode *base = NULL;

	for (const xmlNode *file = xml_child(disk, "backingStore"); file;
	        file = xml_child(file, "backingStore"))
		if (xml_child(file, "source"))
			base = xml_child(file, "source");
	return base;
}

static void read_devices(const xmlNode *domain, struct domain_def *def)
{
	const xmlNode *devices = xml_child(domain, "devices");

	for (const xmlNode *disk = xml_child(devices, "disk"); disk; disk = xml_next(disk, "disk")) {
		/* the first of each: others may have added more */
		if (!def->disk_path && xml_attr_is(xml_child(disk, "target"), "dev", "vda")) {
			def->disk_path = xml_attr_dup(xml_child(disk, "source"), "file");
			def->image_path = xml_attr_dup(base_of(disk), "file");
		} else if (!def->seed_path && xml_attr_is(disk, "device", "cdrom")) {
			def->seed_path = xml_attr_dup(xml_child(disk, "source"), "file");
		}
	}
	def->log_path = xml_attr_dup(xml_at(devices, "serial/log"), "file");
}

static int read_managed(const xmlNode *domain, const xmlNode *meta, struct domain_record *record)
{
	struct domain_def *def = calloc(1, sizeof(*def));

	if (!def)
		return -ENOMEM;
	record->def = def;
	memcpy(def->id, record->uuid, sizeof(def->id));
	def->vcpus = record->vcpus;
	def->memory_bytes = record->memory_bytes;
	def->huge_page_bytes = record->huge_page_bytes;
	const xmlNode *os = xml_child(domain, "os");
	def->kernel = xml_text_dup(xml_child(os, "kernel"));
	def->initramfs = xml_text_dup(xml_child(os, "initrd"));
	def->cmdline = xml_text_dup(xml_child(os, "cmdline"));
	def->nvram_path = xml_text_dup(xml_child(os, "nvram"));
	def->uefi = def->nvram_path != NULL;
	read_devices(domain, def);
	return read_metadata(meta, def);
}

int domain_xml_read(const char *xml, struct domain_record *ret, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *doc = NULL;
	struct domain_record record = { 0 };
	char ours[DOMAIN_NAME_MAX];

	int r = xml_parse(xml, strlen(xml), &doc, err);
	if (r < 0)
		return r;
	const xmlNode *domain = xmlDocGetRootElement(doc);
	if (!domain || strcmp((const char *)domain->name, "domain") != 0)
		return err_set(err, -EINVAL, "the XML is not that of a domain");
	record.name = xml_text_dup(xml_child(domain, "name"));
	if (!record.name || xml_text(xml_child(domain, "uuid"), record.uuid, sizeof(record.uuid)) < 0) {
		domain_record_done(&record);
		return err_set(err, -EINVAL, "the domain has no name or no UUID");
	}
	record.kvm = xml_attr_is(domain, "type", "kvm");
	record.vcpus = (uint32_t)xml_text_u64(xml_child(domain, "vcpu"));
	record.memory_bytes = memory_bytes(xml_child(domain, "memory"));
	const xmlNode *pages = xml_at(domain, "memoryBacking/hugepages");
	if (pages) {
		const xmlNode *page = xml_child(pages, "page");
		/* without a size: the host's default, which is 2 MiB here */
		record.huge_page_bytes = page ? xml_attr_u64(page, "size") * 1024 : UINT64_C(2) << 20;
	}

	const xmlNode *meta = xml_child_ns(xml_child(domain, "metadata"), "instance", DOMAIN_XML_NS);
	domain_name(record.uuid, ours);
	if (meta && uuid_is_valid(record.uuid) && strcmp(record.name, ours) == 0) {
		r = read_managed(domain, meta, &record);
		/* metadata that makes no sense is somebody else's, or from a later release: hands off */
		if (r == -EINVAL)
			record.def = domain_def_free(record.def);
		else if (r < 0)
			goto fail;
		record.managed = record.def != NULL;
	}
	*ret = record;
	return 0;
fail:
	domain_record_done(&record);
	return r;
}
