#include "svc-runtime-libvirt/domain_devices.h"

#include "lib/base/clock.h"
#include "lib/seed/rebind.h"
#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REBIND_TARGET "vdz"
#define REBIND_FILE "rebind.raw"

#define VOLUME_BYTES_MAX (UINT64_C(64) << 40)

enum { UNPLUG_TRIES = 3, UNPLUG_PAUSE_MSEC = 500 };

/* --- what becomes of a domain while it runs --- */

/* One of both. */
struct note {
	const char *rebound_ref;
	const char *volume_id;
	uint64_t volume_bytes;
};

/* 1: the metadata is another now, 0: it says so already. */
static int note_take(const struct note *note, struct domain_def *def)
{
	if (note->rebound_ref) {
		free(def->rebound_ref);
		def->rebound_ref = strdup(note->rebound_ref);
		return def->rebound_ref ? 1 : -ENOMEM;
	}
	for (size_t i = 0; i < def->n_volumes; i++)
		if (strcmp(def->volumes[i].id, note->volume_id) == 0 &&
		        def->volumes[i].size_bytes != note->volume_bytes) {
			def->volumes[i].size_bytes = note->volume_bytes;
			return 1;
		}
	return 0;
}

/* The running definition may be an older one than the stored: each keeps what else its metadata says. */
static int note_in(virDomainPtr domain, bool live, const struct note *note, struct err *err)
{
	CLEANUP_FREE char *metadata = NULL;
	struct domain_record record;

	int r = domain_read_record(domain, live ? 0 : VIR_DOMAIN_XML_INACTIVE, &record, err);
	if (r < 0)
		return r;
	if (!record.def) {
		domain_record_done(&record);
		return err_set(err, -EACCES, "the domain's metadata was taken away meanwhile");
	}
	r = note_take(note, record.def);
	if (r > 0)
		r = domain_xml_write_metadata(record.def, &metadata);
	domain_record_done(&record);
	if (r < 0 || !metadata)
		return r;
	if (virDomainSetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, metadata, "bc", DOMAIN_XML_NS,
	            live ? VIR_DOMAIN_AFFECT_LIVE : VIR_DOMAIN_AFFECT_CONFIG) < 0)
		return virt_err(err, "writing the domain's metadata");
	return 0;
}

static int note_both(virDomainPtr domain, const struct note *note, struct err *err)
{
	int r = note_in(domain, false, note, err);

	return r < 0 ? r : note_in(domain, true, note, err);
}

/* --- volumes --- */

static const struct domain_volume *find_volume(
        const struct domain_def *def, const char *id, char ret_target[4])
{
	for (size_t i = 0; i < def->n_volumes; i++)
		if (strcmp(def->volumes[i].id, id) == 0) {
			ret_target[0] = 'v';
			ret_target[1] = 'd';
			ret_target[2] = (char)('b' + i);
			ret_target[3] = '\0';
			return &def->volumes[i];
		}
	return NULL;
}

static int check_growth(const char *volume_id, uint64_t now, uint64_t bytes, struct err *err)
{
	if (bytes < now)
		return err_set(err, -EBUSY, "volume %s has %" PRIu64 " bytes: it does not shrink to %" PRIu64,
		        volume_id, now, bytes);
	return 0;
}

static int grow_live(virDomainPtr domain, const struct domain_volume *volume, const char *target,
        uint64_t bytes, uint64_t *ret_bytes, struct err *err)
{
	virDomainBlockInfo info;

	/* what the guest sees: the file may have been grown already */
	if (virDomainGetBlockInfo(domain, target, &info, 0) < 0)
		return virt_err(err, "size of the volume");
	int r = check_growth(volume->id, info.capacity, bytes, err);
	if (r < 0)
		return r;
	/* without the flag the size would be in KiB */
	if (bytes > info.capacity &&
	        virDomainBlockResize(domain, target, bytes, VIR_DOMAIN_BLOCK_RESIZE_BYTES) < 0)
		return virt_err(err, "growing the volume");
	/* the guest knows: without this note whoever asks is told the old size, and tells the guest once more */
	(void)note_both(domain, &(struct note){ .volume_id = volume->id, .volume_bytes = bytes }, NULL);
	*ret_bytes = bytes;
	return 0;
}

static int grow_off(const struct domain_volume *volume, uint64_t bytes, uint64_t *ret_bytes, struct err *err)
{
	struct stat st;

	if (stat(volume->path, &st) < 0)
		return err_set(err, -errno, "%s: %s", volume->path, strerror(errno));
	int r = check_growth(volume->id, (uint64_t)st.st_size, bytes, err);
	if (r < 0)
		return r;
	if ((uint64_t)st.st_size < bytes)
		return err_set(err, -EBUSY,
		        "the instance is off and the file of volume %s has %" PRIu64 " bytes, not %" PRIu64
		        ": grow the file",
		        volume->id, (uint64_t)st.st_size, bytes);
	*ret_bytes = bytes;
	return 0;
}

int domain_op_grow_volume(virConnectPtr conn, const char *id, const char *volume_id, uint64_t bytes,
        uint64_t *ret_bytes, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	struct domain_record record;
	char target[4];

	if (!bytes || bytes % 512 || bytes > VOLUME_BYTES_MAX)
		return err_set(
		        err, -EINVAL, "size_bytes: %" PRIu64 " is no multiple of 512 up to 64 TiB", bytes);
	int r = domain_find_current(conn, id, &domain, &record, err);
	if (r < 0)
		return r;
	const struct domain_volume *volume = find_volume(record.def, volume_id, target);
	r = domain_is_active(domain, NULL, err);
	if (!volume)
		r = err_set(err, -ENOENT, "%s has no volume %s", id, volume_id);
	else if (r > 0)
		r = grow_live(domain, volume, target, bytes, ret_bytes, err);
	else if (r == 0)
		r = grow_off(volume, bytes, ret_bytes, err);
	domain_record_done(&record);
	return r;
}

/* --- the rebind disk --- */

static int rebind_xml(const char *path, char **ret)
{
	CLEANUP_XML_DOC xmlDoc *doc = xmlNewDoc((const xmlChar *)"1.0");
	xmlNode *disk = doc ? xmlNewNode(NULL, (const xmlChar *)"disk") : NULL;

	if (!disk)
		return -ENOMEM;
	xmlDocSetRootElement(doc, disk);
	xml_set(disk, "type", "file");
	xml_set(disk, "device", "disk");
	xmlNode *driver = xml_add(disk, "driver");
	xml_set(driver, "name", "qemu");
	xml_set(driver, "type", "raw");
	xml_set(xml_add(disk, "source"), "file", path);
	xml_add(disk, "backingStore");
	xmlNode *target = xml_add(disk, "target");
	xml_set(target, "dev", REBIND_TARGET);
	xml_set(target, "bus", "virtio");
	xml_add_text(disk, "serial", REBIND_SERIAL);
	return xml_element_text(disk, ret);
}

/* 1: there, 0: not. */
static int is_plugged(virDomainPtr domain, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *doc = NULL;
	CLEANUP_FREE char *xml = virDomainGetXMLDesc(domain, 0);

	if (!xml)
		return virt_err(err, "definition of a domain");
	int r = xml_parse(xml, strlen(xml), &doc, err);
	if (r < 0)
		return r;
	xmlNode *disk = xml_at(xmlDocGetRootElement(doc), "devices/disk");
	for (; disk; disk = xml_next(disk, "disk"))
		if (xml_attr_is(xml_child(disk, "target"), "dev", REBIND_TARGET))
			return 1;
	return 0;
}

/* The guest has to let go; libvirt waits five seconds for its word at each request. */
static int unplug(virDomainPtr domain, const char *xml, int tries, struct err *err)
{
	struct err why = { 0 };
	int r = is_plugged(domain, err);

	if (r <= 0)
		return r;
	for (int i = 0; i < tries; i++) {
		if (i > 0) /* an earlier request is still with the guest */
			(void)poll(NULL, 0, UNPLUG_PAUSE_MSEC);
		why = (struct err){ 0 };
		r = virDomainDetachDeviceFlags(domain, xml, VIR_DOMAIN_AFFECT_LIVE) < 0
		        ? virt_err(&why, "removing the rebind disk")
		        : err_set(&why, -EAGAIN, "the guest did not let go of the rebind disk");
		if (is_plugged(domain, NULL) == 0)
			return 0;
	}
	if (err)
		*err = why;
	return r;
}

static int rebind_with(virDomainPtr domain, const char *path, const struct instance_files_conf *files,
        const struct domain_rebind *rebind, struct err *err)
{
	CLEANUP_FREE char *xml = NULL;
	struct file_perm perm = { .mode = 0660, .uid = (uid_t)-1, .gid = files->vmm_gid };

	int r = rebind_xml(path, &xml);
	if (r < 0)
		return r;
	/* of a call that did not come to its end */
	r = unplug(domain, xml, UNPLUG_TRIES, err);
	if (r < 0)
		return r;
	r = rebind_disk_write(path, rebind->ref, rebind->payload, perm, err);
	if (r < 0)
		return r;
	if (virDomainAttachDeviceFlags(domain, xml, VIR_DOMAIN_AFFECT_LIVE) < 0) {
		r = virt_err(err, "adding the rebind disk");
		(void)rebind_disk_remove(path);
		return r;
	}
	r = rebind_disk_wait(path, rebind->ref, rebind->timeout_usec, rebind->cancel_fd, err);
	/* one that has not answered is seldom there to let go of it, and its caller waits */
	int gone = unplug(domain, xml, r == 0 || r == -EBADMSG ? UNPLUG_TRIES : 1, r < 0 ? NULL : err);
	(void)(gone == 0 ? rebind_disk_remove(path) : rebind_disk_erase(path));
	if (r == 0)
		r = note_both(domain, &(struct note){ .rebound_ref = rebind->ref }, err);
	return r < 0 ? r : gone;
}

int domain_op_rebind(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        const struct domain_rebind *rebind, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	CLEANUP_FREE char *path = instance_path(files->instances_dir, id, REBIND_FILE);
	int state;

	if (!path)
		return -ENOMEM;
	int r = domain_find_active(conn, id, &domain, &state, err);
	if (r >= 0 && (r == 0 || state != VIR_DOMAIN_RUNNING))
		r = err_set(
		        err, -EBUSY, "%s does not run: only a guest that runs can take on an identity", id);
	if (r > 0)
		r = rebind_with(domain, path, files, rebind, err);
	return r;
}
