#include "svc-runtime-libvirt/domain_xml.h"

#include "lib/base/quote.h"
#include "lib/base/sha256.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QEMU_NS "http://libvirt.org/schemas/domain/qemu/1.0"

enum {
	/* Slots of the root bus that libvirt, which fills from the front, is not going to reach. */
	SLOT_USER_NIC = 0x10,
	SLOT_WATCHDOG = 0x1d,
	APIC_CPUS_MAX = 255, /* above it a guest needs an IOMMU with extended interrupts */
};

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

/* --- metadata --- */

static void add_nic_metadata(xmlNode *parent, const struct domain_nic *nic)
{
	xmlNode *node = xml_add(parent, "nic");

	xml_set(node, "kind", nic_kind_to_string(nic->kind));
	xml_set(node, "mac", nic->mac);
	if (nic->ifname[0])
		xml_set(node, "interface", nic->ifname);
	xml_set_u64(node, "queues", nic->queues);
	xml_set(node, "vhost", yes_no(nic->vhost));
	xml_set(node, "filtered", yes_no(nic->filtered));
	for (size_t i = 0; i < nic->n_addresses; i++)
		xml_add_text(node, "address", nic->addresses[i]);
}

static xmlNode *metadata_node(const struct domain_def *def, bool with_ns)
{
	xmlNode *root = xmlNewNode(NULL, (const xmlChar *)"instance");
	if (!root)
		return NULL;
	/* children take their parent's namespace */
	if (with_ns)
		xmlSetNs(root, xmlNewNs(root, (const xmlChar *)DOMAIN_XML_NS, (const xmlChar *)"bc"));

	xml_add_text(root, "allocation", def->allocation_id);
	xml_add_text(root, "kind", domain_kind_to_string(def->kind));
	if (def->spec_digest[0])
		xml_add_text(root, "spec", def->spec_digest);
	if (def->boot == DOMAIN_BOOT_IMAGE) {
		xmlNode *image = xml_add(root, "image");
		xml_set(image, "digest", def->image_digest);
		xml_set(image, "format", image_format_to_string(def->image_format));
		/* libvirt forgets a disk's chain when it puts a layer over the disk of a domain that is off */
		xml_set(image, "path", def->image_path);
		if (def->root_disk_bytes)
			xml_set_u64(image, "disk-bytes", def->root_disk_bytes);
	}
	if (def->balloon_min_bytes)
		xml_add_u64(root, "balloon-min", def->balloon_min_bytes);
	if (def->restored_from)
		xml_add_text(root, "restored-from", def->restored_from);
	if (def->rebound_ref)
		xml_add_text(root, "rebound", def->rebound_ref);
	for (size_t i = 0; i < def->n_nics; i++)
		add_nic_metadata(root, &def->nics[i]);
	for (size_t i = 0; i < def->n_ports; i++) {
		const struct domain_port *port = &def->ports[i];
		xmlNode *node = xml_add(root, "port");
		xml_set(node, "protocol", port_protocol_to_string(port->protocol));
		if (port->host_address[0])
			xml_set(node, "host-address", port->host_address);
		xml_set_u64(node, "host-port", port->host_port);
		xml_set_u64(node, "guest-port", port->guest_port);
		xml_set_u64(node, "nic", port->nic_index);
	}
	for (size_t i = 0; i < def->n_volumes; i++) {
		const struct domain_volume *volume = &def->volumes[i];
		xmlNode *node = xml_add(root, "volume");
		xml_set(node, "id", volume->id);
		xml_set(node, "serial", volume->serial);
		xml_set(node, "path", volume->path);
		xml_set(node, "read-only", yes_no(volume->read_only));
		/* what libvirt would have to ask QEMU for */
		if (volume->size_bytes)
			xml_set_u64(node, "bytes", volume->size_bytes);
	}
	for (size_t i = 0; i < def->n_gpus; i++) {
		xmlNode *node = xml_add(root, "gpu");
		xml_set(node, "id", def->gpus[i].uuid);
		xml_set(node, "pci", def->gpus[i].address.text);
	}
	return root;
}

/* --- what a domain is --- */

static void set_cpu_list(xmlNode *node, const char *name, const uint32_t *cpus, size_t n_cpus)
{
	size_t size = n_cpus * 11 + 1, at = 0;
	CLEANUP_FREE char *text = calloc(1, size);

	if (!text)
		return;
	for (size_t i = 0; i < n_cpus; i++)
		at += (size_t)snprintf(text + at, size - at, i ? ",%" PRIu32 : "%" PRIu32, cpus[i]);
	xml_set(node, name, text);
}

static void add_memory(xmlNode *domain, const struct domain_def *def)
{
	xmlNode *memory = xml_add_u64(domain, "memory", def->memory_bytes / 1024);

	xml_set(memory, "unit", "KiB");
	if (def->huge_page_bytes) {
		xmlNode *page = xml_add(xml_add(xml_add(domain, "memoryBacking"), "hugepages"), "page");
		xml_set_u64(page, "size", def->huge_page_bytes / 1024);
		xml_set(page, "unit", "KiB");
	}
	if (def->n_numa_nodes) {
		xmlNode *tune = xml_add(xml_add(domain, "numatune"), "memory");
		xml_set(tune, "mode", "strict");
		set_cpu_list(tune, "nodeset", def->numa_nodes, def->n_numa_nodes);
	}
}

static void add_cpus(xmlNode *domain, const struct domain_def *def, const struct domain_host *host)
{
	xmlNode *vcpu = xml_add_u64(domain, "vcpu", def->vcpus);

	xml_set(vcpu, "placement", "static");
	if (def->n_cpu_pins || def->n_emulator_cpus) {
		xmlNode *tune = xml_add(domain, "cputune");
		for (size_t i = 0; i < def->n_cpu_pins; i++) {
			xmlNode *pin = xml_add(tune, "vcpupin");
			xml_set_u64(pin, "vcpu", i);
			xml_set_u64(pin, "cpuset", def->cpu_pins[i]);
		}
		if (def->n_emulator_cpus)
			set_cpu_list(xml_add(tune, "emulatorpin"), "cpuset", def->emulator_cpus,
			        def->n_emulator_cpus);
	}
	/* Under TCG a named model is a promise that QEMU does not keep, and the host's own is refused. */
	if (host->kvm) {
		xmlNode *cpu = xml_add(domain, "cpu");
		xml_set(cpu, "mode", "host-model");
		xml_set(cpu, "check", "partial");
	}
}

static int add_os(
        xmlNode *domain, const struct domain_def *def, const struct domain_host *host, struct err *err)
{
	xmlNode *os = xml_add(domain, "os");
	xmlNode *type = xml_add_text(os, "type", "hvm");

	xml_set(type, "arch", "x86_64");
	xml_set(type, "machine", "q35");
	if (def->boot == DOMAIN_BOOT_KERNEL) {
		xml_add_text(os, "kernel", def->kernel);
		if (def->initramfs)
			xml_add_text(os, "initrd", def->initramfs);
		if (def->cmdline && def->cmdline[0])
			xml_add_text(os, "cmdline", def->cmdline);
	} else {
		if (def->uefi) {
			if (!host->firmware_code)
				return err_set(err, -EBUSY,
				        "boot.image.firmware is UEFI, but this host has no firmware for it: install "
				        "ovmf or set [firmware] code= and vars=");
			xmlNode *loader = xml_add_text(os, "loader", host->firmware_code);
			xml_set(loader, "readonly", "yes");
			xml_set(loader, "type", "pflash");
			xml_add_text(os, "nvram", def->nvram_path);
		}
		xml_set(xml_add(os, "boot"), "dev", "hd");
	}
	return 0;
}

static void add_platform(xmlNode *domain, const struct domain_def *def, const struct domain_host *host)
{
	xmlNode *features = xml_add(domain, "features");

	xml_add(features, "acpi");
	xml_add(features, "apic");
	if (def->vcpus > APIC_CPUS_MAX)
		xml_set(xml_add(features, "ioapic"), "driver", "qemu");

	xmlNode *clock = xml_add(domain, "clock");
	xml_set(clock, "offset", "utc");
	if (host->kvm) {
		static const char *const timers[][3] = {
			{ "rtc", "tickpolicy", "catchup" },
			{ "pit", "tickpolicy", "delay" },
			{ "hpet", "present", "no" },
		};
		for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
			xmlNode *timer = xml_add(clock, "timer");
			xml_set(timer, "name", timers[i][0]);
			xml_set(timer, timers[i][1], timers[i][2]);
		}
	}
	xml_add_text(domain, "on_poweroff", "destroy");
	/* a job that reboots has not completed: it is over */
	xml_add_text(domain, "on_reboot", def->kind == DOMAIN_JOB ? "destroy" : "restart");
	xml_add_text(domain, "on_crash", "destroy");
}

/* --- devices --- */

struct disk_parts {
	const char *device; /* "disk" or "cdrom" */
	const char *path;
	const char *format;
	const char *cache; /* NULL: QEMU's default */
	const char *target;
	const char *bus;
	const char *serial; /* NULL: none */
	bool read_only;
	const struct domain_def *overlay; /* NULL: no backing file */
};

static void add_disk(xmlNode *devices, const struct disk_parts *parts)
{
	xmlNode *disk = xml_add(devices, "disk");
	xml_set(disk, "type", "file");
	xml_set(disk, "device", parts->device);

	xmlNode *driver = xml_add(disk, "driver");
	xml_set(driver, "name", "qemu");
	xml_set(driver, "type", parts->format);
	xml_set(driver, "cache", parts->cache);
	if (parts->cache)
		xml_set(driver, "discard", "unmap");
	xml_set(xml_add(disk, "source"), "file", parts->path);

	/* The whole chain is stated, down to its end: nothing is left for anybody to find out by looking. */
	xmlNode *backing = xml_add(disk, "backingStore");
	if (parts->overlay) {
		xml_set(backing, "type", "file");
		xml_set(xml_add(backing, "format"), "type",
		        image_format_to_string(parts->overlay->image_format));
		xml_set(xml_add(backing, "source"), "file", parts->overlay->image_path);
		xml_add(backing, "backingStore");
	}
	xmlNode *target = xml_add(disk, "target");
	xml_set(target, "dev", parts->target);
	xml_set(target, "bus", parts->bus);
	if (parts->read_only)
		xml_add(disk, "readonly");
	if (parts->serial)
		xml_add_text(disk, "serial", parts->serial);
}

static void add_disks(xmlNode *devices, const struct domain_def *def, const struct domain_host *host)
{
	if (def->disk_path)
		add_disk(devices,
		        &(struct disk_parts){
		                .device = "disk",
		                .path = def->disk_path,
		                .format = "qcow2",
		                .cache = host->disk_cache,
		                .target = "vda",
		                .bus = "virtio",
		                .overlay = def,
		        });
	for (size_t i = 0; i < def->n_volumes; i++) {
		char target[8];
		(void)snprintf(target, sizeof(target), "vd%c", (char)('b' + i));
		add_disk(devices,
		        &(struct disk_parts){
		                .device = "disk",
		                .path = def->volumes[i].path,
		                .format = "raw",
		                .cache = host->disk_cache,
		                .target = target,
		                .bus = "virtio",
		                .serial = def->volumes[i].serial,
		                .read_only = def->volumes[i].read_only,
		        });
	}
	if (def->seed_path) {
		/* not SATA: the kernels of cloud images leave its driver out */
		xmlNode *controller = xml_add(devices, "controller");
		xml_set(controller, "type", "scsi");
		xml_set(controller, "model", "virtio-scsi");
		add_disk(devices,
		        &(struct disk_parts){
		                .device = "cdrom",
		                .path = def->seed_path,
		                .format = "raw",
		                .target = "sda",
		                .bus = "scsi",
		                .read_only = true,
		        });
	}
}

static void add_nics(xmlNode *devices, const struct domain_def *def)
{
	for (size_t i = 0; i < def->n_nics; i++) {
		const struct domain_nic *nic = &def->nics[i];
		if (nic->kind == NIC_USER && domain_has_user_ports(def, i))
			continue; /* libvirt has no words for hostfwd: add_user_nics() */
		xmlNode *node = xml_add(devices, "interface");
		xml_set(node, "type", nic->kind == NIC_USER ? "user" : "ethernet");
		xml_set(xml_add(node, "mac"), "address", nic->mac);
		if (nic->kind != NIC_USER) {
			/* somebody else made it and will remove it; for a macvtap libvirt opens /dev/tapN, once per
			 * queue, and QEMU gets descriptors */
			xmlNode *target = xml_add(node, "target");
			xml_set(target, "dev", nic->ifname);
			xml_set(target, "managed", "no");
		}
		xml_set(xml_add(node, "model"), "type", "virtio");
		if (nic->kind != NIC_USER) {
			xmlNode *driver = xml_add(node, "driver");
			xml_set(driver, "name", nic->vhost ? "vhost" : "qemu");
			if (nic->queues > 1)
				xml_set_u64(driver, "queues", nic->queues);
		}
	}
}

static void add_gpus(xmlNode *devices, const struct domain_def *def)
{
	for (size_t i = 0; i < def->n_gpus; i++) {
		unsigned domain, bus, slot, function;
		if (sscanf(def->gpus[i].address.text, "%4x:%2x:%2x.%1x", &domain, &bus, &slot, &function) !=
		        4)
			continue; /* checked when the request came in */
		xmlNode *node = xml_add(devices, "hostdev");
		xml_set(node, "mode", "subsystem");
		xml_set(node, "type", "pci");
		xml_set(node, "managed", "yes");
		xml_set(xml_add(node, "driver"), "name", "vfio");
		xmlNode *address = xml_add(xml_add(node, "source"), "address");
		xml_set_fmt(address, "domain", "0x%04x", domain);
		xml_set_fmt(address, "bus", "0x%02x", bus);
		xml_set_fmt(address, "slot", "0x%02x", slot);
		xml_set_fmt(address, "function", "0x%x", function);
	}
}

static void add_serial(xmlNode *devices, const struct domain_def *def)
{
	xmlNode *serial = xml_add(devices, "serial");
	xml_set(serial, "type", "pty");
	if (def->log_path) {
		xmlNode *log = xml_add(serial, "log");
		xml_set(log, "file", def->log_path);
		xml_set(log, "append", "off");
	}
	xmlNode *target = xml_add(serial, "target");
	xml_set(target, "type", "isa-serial");
	xml_set(target, "port", "0");

	xmlNode *console = xml_add(devices, "console");
	xml_set(console, "type", "pty");
	target = xml_add(console, "target");
	xml_set(target, "type", "serial");
	xml_set(target, "port", "0");
}

static void add_small_devices(xmlNode *devices, const struct domain_def *def)
{
	xmlNode *usb = xml_add(devices, "controller");
	xml_set(usb, "type", "usb");
	xml_set(usb, "model", "none");

	xmlNode *balloon = xml_add(devices, "memballoon");
	xml_set(balloon, "model", "virtio");
	xml_set(balloon, "autodeflate", "on");
	xml_set(xml_add(balloon, "stats"), "period", "5");

	xmlNode *rng = xml_add(devices, "rng");
	xml_set(rng, "model", "virtio");
	xml_set(xml_add_text(rng, "backend", "/dev/urandom"), "model", "random");

	/* where it is put it costs no PCI bridge */
	xmlNode *watchdog = xml_add(devices, "watchdog");
	xml_set(watchdog, "model", "i6300esb");
	xml_set(watchdog, "action", def->kind == DOMAIN_JOB ? "poweroff" : "reset");
	xmlNode *address = xml_add(watchdog, "address");
	xml_set(address, "type", "pci");
	xml_set(address, "domain", "0");
	xml_set(address, "bus", "0");
	xml_set_fmt(address, "slot", "0x%02x", SLOT_WATCHDOG);
	xml_set(address, "function", "0");

	xml_set(xml_add(devices, "panic"), "model", "isa");

	if (def->vcpus > APIC_CPUS_MAX) {
		xmlNode *iommu = xml_add(devices, "iommu");
		xml_set(iommu, "model", "intel");
		xmlNode *driver = xml_add(iommu, "driver");
		xml_set(driver, "intremap", "on");
		xml_set(driver, "eim", "on");
	}
}

/* --- user-mode NICs with published ports: QEMU's own words --- */

static void add_qemu_arg(xmlNode *commandline, xmlNs *ns, const char *value)
{
	xmlNode *arg = commandline ? xmlNewChild(commandline, ns, (const xmlChar *)"arg", NULL) : NULL;

	xml_set(arg, "value", value);
}

static int netdev_text(const struct domain_def *def, size_t nic_index, char **ret)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	(void)fprintf(out, "user,id=bcnet%zu", nic_index);
	for (size_t i = 0; i < def->n_ports; i++) {
		const struct domain_port *port = &def->ports[i];
		if (port->nic_index != nic_index)
			continue;
		(void)fprintf(out, ",hostfwd=%s:%s:%u-:%u", port_protocol_to_string(port->protocol),
		        port->host_address, port->host_port, port->guest_port);
	}
	if (fclose(out) != 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}

static int add_user_nics(xmlNode *domain, const struct domain_def *def)
{
	xmlNode *commandline = NULL;
	xmlNs *ns = NULL;
	unsigned slot = SLOT_USER_NIC;

	for (size_t i = 0; i < def->n_nics; i++) {
		if (def->nics[i].kind != NIC_USER || !domain_has_user_ports(def, i))
			continue;
		if (!commandline) {
			ns = xmlNewNs(domain, (const xmlChar *)QEMU_NS, (const xmlChar *)"qemu");
			commandline = xmlNewChild(domain, ns, (const xmlChar *)"commandline", NULL);
		}
		CLEANUP_FREE char *netdev = NULL;
		int r = netdev_text(def, i, &netdev);
		if (r < 0)
			return r;
		char device[160];
		(void)snprintf(device, sizeof(device),
		        "virtio-net-pci,netdev=bcnet%zu,mac=%s,bus=pcie.0,addr=0x%x", i, def->nics[i].mac,
		        slot++);
		add_qemu_arg(commandline, ns, "-netdev");
		add_qemu_arg(commandline, ns, netdev);
		add_qemu_arg(commandline, ns, "-device");
		add_qemu_arg(commandline, ns, device);
	}
	return 0;
}

static void add_owners(xmlNode *domain, const struct domain_host *host)
{
	if (!host->keep_owners)
		return;
	xmlNode *label = xml_add(domain, "seclabel");
	xml_set(label, "type", "static");
	xml_set(label, "model", "dac");
	xml_set(label, "relabel", "no");
	char ids[32];
	(void)snprintf(ids, sizeof(ids), "+%u:+%u", host->vmm_uid, host->vmm_gid);
	xml_add_text(label, "label", ids);
}

static int build(const struct domain_def *def, const struct domain_host *host, xmlDoc *doc, struct err *err)
{
	xmlNode *domain = xmlNewNode(NULL, (const xmlChar *)"domain");
	char name[DOMAIN_NAME_MAX];

	if (!domain)
		return -ENOMEM;
	xmlDocSetRootElement(doc, domain);
	xml_set(domain, "type", host->kvm ? "kvm" : "qemu");
	domain_name(def->id, name);
	xml_add_text(domain, "name", name);
	xml_add_text(domain, "uuid", def->id);
	xmlNode *metadata = xml_add(domain, "metadata"), *ours = metadata_node(def, true);
	if (!metadata || !ours || !xmlAddChild(metadata, ours)) {
		xmlFreeNode(ours);
		return -ENOMEM;
	}
	add_memory(domain, def);
	add_cpus(domain, def, host);
	int r = add_os(domain, def, host, err);
	if (r < 0)
		return r;
	add_platform(domain, def, host);

	xmlNode *devices = xml_add(domain, "devices");
	xml_add_text(devices, "emulator", host->emulator);
	add_disks(devices, def, host);
	add_nics(devices, def);
	add_gpus(devices, def);
	add_serial(devices, def);
	add_small_devices(devices, def);
	add_owners(domain, host);
	return add_user_nics(domain, def);
}

int domain_xml_write(
        const struct domain_def *def, const struct domain_host *host, char **ret, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *doc = xmlNewDoc((const xmlChar *)"1.0");

	if (!doc)
		return -ENOMEM;
	for (size_t i = 0; i < def->n_nics; i++)
		if (def->nics[i].vhost && !host->kvm)
			return err_set(err, -EBUSY,
			        "nics[%zu] was prepared with vhost, but guests run under TCG here, which leaves it "
			        "unused: set vhost OFF for it",
			        i);
	for (size_t i = 0; i < def->n_gpus; i++)
		if (!def->gpus[i].address.text[0])
			return err_set(err, -EBUSY,
			        "spec.gpu_device_ids[%zu]: no PCI address is known for %s", i,
			        QUOTED(def->gpus[i].uuid));
	int r = build(def, host, doc, err);
	return r < 0 ? r : xml_document_text(doc, ret);
}

int domain_xml_digest(struct domain_def *def, const struct domain_host *host, struct err *err)
{
	struct domain_def plain = *def;
	CLEANUP_FREE char *xml = NULL;

	plain.spec_digest[0] = '\0';
	plain.rebound_ref = NULL;
	int r = domain_xml_write(&plain, host, &xml, err);
	if (r < 0)
		return r;
	uint8_t sum[SHA256_SIZE];
	r = sha256(xml, strlen(xml), sum);
	if (r < 0)
		return r;
	memcpy(def->spec_digest, "sha256:", 7);
	sha256_to_hex(sum, def->spec_digest + 7);
	return 0;
}

int domain_xml_write_metadata(const struct domain_def *def, char **ret)
{
	CLEANUP_XML_DOC xmlDoc *doc = xmlNewDoc((const xmlChar *)"1.0");
	xmlNode *root = doc ? metadata_node(def, false) : NULL;

	if (!root)
		return -ENOMEM;
	xmlDocSetRootElement(doc, root);
	return xml_element_text(root, ret);
}
