#include "svc-runtime-libvirt/domain_snapshot.h"

#include "lib/base/clock.h"
#include "lib/image/disk.h"
#include "lib/snapshot/tar.h"
#include "svc-runtime-libvirt/block_commit.h"
#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/job_guard.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <fcntl.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beside the root disk while a snapshot is taken. */
#define LAYER "snapshot.layer"
#define MEMORY "snapshot.memory"
#define ROOT_TARGET "vda"
/* A minute, and a second for every 16 MiB: slower is no disk, but a fault. */
#define SAVE_TIMEOUT_USEC(bytes) (60 * USEC_PER_SEC + ((bytes) >> 24) * USEC_PER_SEC)
#define COMMIT_TIMEOUT_USEC (600 * USEC_PER_SEC)

/* One instance, its domain and the files of it that matter here. */
struct subject {
	virConnectPtr conn;          /* weak */
	virDomainPtr domain;         /* owned */
	struct domain_record record; /* owned; of the definition that it runs by */
	char *disk;                  /* owned, as the next: paths */
	char *layer;
	char *memory;
	struct file_perm perm;
	const struct ending *ending; /* weak */
};

static void subject_done(struct subject *s)
{
	if (s->domain)
		(void)virDomainFree(s->domain);
	domain_record_done(&s->record);
	free(s->disk);
	free(s->layer);
	free(s->memory);
}
#define CLEANUP_SUBJECT __attribute__((cleanup(subject_done)))

static int subject_find(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        struct subject *s, struct err *err)
{
	s->conn = conn;
	s->ending = files->ending;
	s->perm = (struct file_perm){ .mode = 0660, .uid = (uid_t)-1, .gid = files->vmm_gid };
	s->disk = instance_path(files->instances_dir, id, INSTANCE_DISK);
	s->layer = instance_path(files->instances_dir, id, LAYER);
	s->memory = instance_path(files->instances_dir, id, MEMORY);
	if (!s->disk || !s->layer || !s->memory)
		return -ENOMEM;
	return domain_find_current(conn, id, &s->domain, &s->record, err);
}

static int xml_of(virDomainPtr domain, unsigned flags, xmlDoc **ret, struct err *err)
{
	CLEANUP_FREE char *text = virDomainGetXMLDesc(domain, flags);

	return text ? xml_parse(text, strlen(text), ret, err) : virt_err(err, "definition of a domain");
}

static xmlNode *root_disk_of(xmlDoc *doc)
{
	xmlNode *disk = xml_child(xml_child(xmlDocGetRootElement(doc), "devices"), "disk");

	while (disk && !xml_attr_is(xml_child(disk, "target"), "dev", ROOT_TARGET))
		disk = xml_next(disk, "disk");
	return disk;
}

/* --- settle --- */

bool domain_is_unsettled(const struct domain_def *def)
{
	const char *slash = def->disk_path ? strrchr(def->disk_path, '/') : NULL;

	return slash && strcmp(slash + 1, LAYER) == 0;
}

/* As the definition has it: what the files themselves say was in the VMM's hands. */
static struct disk_base base_of(const struct subject *s)
{
	return (struct disk_base){ .path = s->record.def->image_path, .format = s->record.def->image_format };
}

static int commit_layer(const struct subject *s, struct err *err)
{
	struct disk_base base = base_of(s);
	int r = disk_commit_layer(
	        s->layer, s->disk, &base, COMMIT_TIMEOUT_USEC, s->ending ? &s->ending->fd : NULL, err);

	return r == -ECANCELED ? ending_refuse(err, "qemu-img") : r;
}

/* The stored definition says the layer: make it say the disk below. */
static int redefine(struct subject *s, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *doc = NULL;
	CLEANUP_FREE char *text = NULL;
	struct disk_base base = base_of(s);

	int r = xml_of(s->domain, VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE, &doc, err);
	if (r < 0)
		return r;
	xmlNode *disk = root_disk_of(doc), *old = xml_child(disk, "backingStore");
	if (!xmlSetProp(xml_child(disk, "source"), (const xmlChar *)"file", (const xmlChar *)s->disk))
		return -ENOMEM;
	if (old) {
		xmlUnlinkNode(old);
		xmlFreeNode(old);
	}
	xmlNode *backing = xml_add(disk, "backingStore");
	xml_set(backing, "type", "file");
	xml_set(xml_add(backing, "format"), "type", image_format_to_string(base.format));
	xml_set(xml_add(backing, "source"), "file", base.path);
	xml_add(backing, "backingStore");
	r = xml_document_text(doc, &text);
	if (r < 0)
		return r;
	CLEANUP_DOMAIN virDomainPtr domain = virDomainDefineXMLFlags(s->conn, text, 0);
	return domain ? 0 : virt_err(err, "defining the domain");
}

/* While it ran its stored definition changed with the running one: what was read before is no guide. */
static int settle_off(struct subject *s, struct err *err)
{
	domain_record_done(&s->record);
	int r = domain_read_record(s->domain, VIR_DOMAIN_XML_INACTIVE, &s->record, err);
	if (r == 0 && !s->record.managed)
		r = err_set(err, -EACCES, "the domain's metadata was taken away meanwhile");
	if (r < 0 || !domain_is_unsettled(s->record.def))
		return r;
	if (!s->record.def->image_path)
		return err_set(err, -EINVAL, "the definition of %s does not say what its disk lies on",
		        s->record.def->id);
	/* Committed already, when we were killed before the definition was changed. */
	r = access(s->layer, F_OK) == 0 ? commit_layer(s, err) : 0;
	return r < 0 ? r : redefine(s, err);
}

static int settle(struct subject *s, struct err *err)
{
	int r = domain_is_active(s->domain, NULL, err);

	if (r > 0 && s->record.def->disk_path)
		r = block_commit_active(
		        s->conn, s->domain, ROOT_TARGET, s->disk, COMMIT_TIMEOUT_USEC, s->ending, err);
	if (r == -EPIPE) { /* it ended: its stored definition is on the layer too */
		if (err)
			*err = (struct err){ 0 };
		r = 0;
	}
	if (r == 0)
		r = domain_is_active(s->domain, NULL, err) > 0 ? 0 : settle_off(s, err);
	if (r < 0)
		return r;
	(void)unlink(s->layer);
	(void)unlink(s->memory);
	return 0;
}

int domain_op_settle(
        virConnectPtr conn, const char *id, const struct instance_files_conf *files, struct err *err)
{
	CLEANUP_SUBJECT struct subject s = { 0 };
	int r = subject_find(conn, id, files, &s, err);

	return r < 0 ? r : settle(&s, err);
}

/* --- the tar --- */

struct told {
	progress_fn progress;
	void *userdata;
	uint64_t before, total; /* bytes done in earlier steps, and in all */
};

static int on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct told *told = userdata;
	uint64_t done = told->before + done_bytes;

	(void)total_bytes;
	return told->progress
	        ? told->progress(done < told->total ? done : told->total, told->total, told->userdata)
	        : 0;
}

static int add_file(struct snapshot_writer *writer, const char *name, const char *path, struct told *told,
        struct err *err)
{
	CLEANUP_CLOSE int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -EBADF;
	struct stat st;

	if (!path)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int r = -errno;
		return r == -ENOENT ? 0 : err_set(err, r, "cannot open '%s': %s", path, strerror(-r));
	}
	int r = snapshot_writer_add_file(writer, name, fd, on_progress, told, err);
	told->before += (uint64_t)st.st_blocks * 512;
	return r;
}

static int meta_fill(const struct subject *s, const struct snapshot_take *take, struct snapshot_meta *meta,
        struct err *err)
{
	const struct domain_def *def = s->record.def;
	struct disk_usage usage = { 0 };
	int r = def->disk_path ? disk_usage(s->disk, IMAGE_QCOW2, &usage, err) : 0;

	if (r < 0)
		return r;
	*meta = (struct snapshot_meta){
		.kind = take->with_memory ? SNAPSHOT_MEMORY : SNAPSHOT_DISK,
		.created_usec = clock_realtime_usec(),
		.vcpus = def->vcpus,
		.memory_bytes = def->memory_bytes,
		.n_nics = (uint32_t)def->n_nics,
		.disk_format = IMAGE_QCOW2,
		.disk_bytes = usage.virtual_bytes,
		.n_volumes = def->n_volumes,
	};
	(void)snprintf(meta->runtime, sizeof(meta->runtime), "%s", take->runtime);
	(void)snprintf(meta->instance_id, sizeof(meta->instance_id), "%s", def->id);
	(void)snprintf(meta->allocation_id, sizeof(meta->allocation_id), "%s", def->allocation_id);
	(void)snprintf(
	        meta->hypervisor_version, sizeof(meta->hypervisor_version), "%s", take->hypervisor_version);
	(void)snprintf(meta->cpu_model, sizeof(meta->cpu_model), "%s", take->cpu_model);
	(void)snprintf(meta->image_digest, sizeof(meta->image_digest), "%s", def->image_digest);
	for (size_t i = 0; i < def->n_volumes; i++) {
		struct snapshot_volume *volume = &meta->volumes[i];
		memcpy(volume->id, def->volumes[i].id, sizeof(volume->id));
		memcpy(volume->serial, def->volumes[i].serial, sizeof(volume->serial));
		volume->read_only = def->volumes[i].read_only;
		volume->bytes = def->volumes[i].size_bytes;
	}
	return 0;
}

/* memory_fd -EBADF: none. */
static int tar_write(const struct subject *s, struct snapshot_take *take, const struct snapshot_meta *meta,
        int memory_fd, struct told *told, struct err *err)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *writer = NULL;
	const struct domain_def *def = s->record.def;
	int r = snapshot_writer_new(take->path, FILE_PERM(0640), meta, &writer, err);

	if (r == 0 && memory_fd >= 0)
		r = snapshot_writer_add_file(writer, SNAPSHOT_MEMORY_NAME, memory_fd, on_progress, told, err);
	if (r == 0 && def->disk_path)
		r = add_file(writer, SNAPSHOT_DISK_NAME, s->disk, told, err);
	if (r == 0)
		r = add_file(writer, SNAPSHOT_SEED_NAME, def->seed_path, told, err);
	if (r == 0)
		r = add_file(writer, SNAPSHOT_NVRAM_NAME, def->nvram_path, told, err);
	return r < 0 ? r : snapshot_writer_finish(writer, take->digest, &take->bytes, err);
}

/* --- the moment --- */

/* Every disk is named: one that is not would get a layer that nobody commits. */
static void moment_disk(const struct subject *s, const xmlNode *disk, xmlNode *disks)
{
	CLEANUP_FREE char *target = xml_attr_dup(xml_child(disk, "target"), "dev");

	if (!target)
		return;
	xmlNode *what = xml_add(disks, "disk");
	xml_set(what, "name", target);
	if (strcmp(target, ROOT_TARGET) != 0 || !s->record.def->disk_path) {
		xml_set(what, "snapshot", "no");
		return;
	}
	xml_set(what, "snapshot", "external");
	xml_set(what, "type", "file");
	xml_set(xml_add(what, "driver"), "type", "qcow2");
	xml_set(xml_add(what, "source"), "file", s->layer);
}

static int moment_xml(const struct subject *s, bool with_memory, char **ret, struct err *err)
{
	CLEANUP_XML_DOC xmlDoc *doc = xmlNewDoc((const xmlChar *)"1.0");
	CLEANUP_XML_DOC xmlDoc *running = NULL;
	xmlNode *root = doc ? xmlNewNode(NULL, (const xmlChar *)"domainsnapshot") : NULL;

	if (!root)
		return -ENOMEM;
	xmlDocSetRootElement(doc, root);
	int r = xml_of(s->domain, 0, &running, err);
	if (r < 0)
		return r;
	xmlNode *memory = xml_add(root, "memory");
	xml_set(memory, "snapshot", with_memory ? "external" : "no");
	if (with_memory)
		xml_set(memory, "file", s->memory);
	xmlNode *disks = xml_add(root, "disks");
	const xmlNode *disk = xml_child(xml_child(xmlDocGetRootElement(running), "devices"), "disk");
	for (; disk; disk = xml_next(disk, "disk"))
		moment_disk(s, disk, disks);
	return xml_document_text(doc, ret);
}

/* The memory's file is made here, so that it stays readable to us when libvirt gives it to QEMU's user or to root. */
static int make_files(const struct subject *s, const struct snapshot_meta *meta, bool with_memory,
        int *ret_memory_fd, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	int r = 0;

	(void)unlink(s->layer);
	(void)unlink(s->memory);
	if (with_memory) {
		fd = open(s->memory, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_set(err, -errno, "cannot create '%s': %m", s->memory);
	}
	if (s->record.def->disk_path)
		r = disk_create_layer(s->layer, s->disk, meta->disk_bytes, s->perm, err);
	if (r == 0)
		*ret_memory_fd = TAKE_FD(fd);
	return r;
}

static int capture(struct subject *s, const struct snapshot_take *take, struct told *told, struct err *err)
{
	unsigned flags = VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA | VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC |
	        VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT |
	        (take->with_memory ? VIR_DOMAIN_SNAPSHOT_CREATE_LIVE : VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY);
	CLEANUP_FREE char *xml = NULL;
	struct job_guard *guard;
	uint64_t bytes = take->with_memory ? s->record.def->memory_bytes : 0;

	int r = moment_xml(s, take->with_memory, &xml, err);
	if (r == 0)
		r = job_guard_new(s->domain, bytes, SAVE_TIMEOUT_USEC(bytes),
		        take->progress ? on_progress : NULL, told, &guard);
	if (r < 0)
		return r;
	virDomainSnapshotPtr snapshot = virDomainSnapshotCreateXML(s->domain, xml, flags);
	if (!snapshot)
		r = virt_err(err, "snapshot");
	int aborted = job_guard_end(guard);
	if (snapshot)
		(void)virDomainSnapshotFree(snapshot);
	if (aborted < 0 && r < 0) {
		*err = (struct err){ 0 };
		return err_set(err, aborted, "the snapshot was ended before the memory was saved: %s",
		        strerror(-aborted));
	}
	told->before += bytes;
	return r;
}

static int take_running(struct subject *s, struct snapshot_take *take, const struct snapshot_meta *meta,
        struct told *told, struct err *err)
{
	CLEANUP_CLOSE int memory_fd = -EBADF;
	struct err late = { 0 };
	int r = make_files(s, meta, take->with_memory, &memory_fd, err);

	if (r == 0)
		r = capture(s, take, told, err);
	if (r == 0)
		r = tar_write(s, take, meta, memory_fd, told, err);
	/* Whatever came: the guest goes back on its disk. What cannot be settled now is before its next start. */
	int settled = settle(s, &late);
	if (r == 0 && settled < 0) {
		(void)unlink(take->path);
		return err_set(err, settled, "%s", err_text(&late, settled));
	}
	return r;
}

static int check(const struct subject *s, const struct snapshot_take *take, int state, struct err *err)
{
	const struct domain_def *def = s->record.def;
	size_t n_writable = 0;

	for (size_t i = 0; i < def->n_volumes; i++)
		n_writable += !def->volumes[i].read_only;
	/* the writer finds out, too, but when the memory was saved for nothing */
	if (access(take->path, F_OK) == 0)
		return err_set(err, -EEXIST, "snapshot file '%s' exists", take->path);
	if (take->with_memory && state == VIR_DOMAIN_SHUTOFF)
		return err_set(err, -EBUSY, "%s is off: it has no memory to snapshot", def->id);
	/* QEMU gives its disks away with a memory, and takes them back when the guest goes on: until then nothing could
	 * be done to them, and no other memory be saved */
	if (take->with_memory && state != VIR_DOMAIN_RUNNING)
		return err_set(err, -EBUSY,
		        "%s is paused: resume it to snapshot its memory, or snapshot its disk only", def->id);
	return snapshot_check_take(
	        take->with_memory ? SNAPSHOT_MEMORY : SNAPSHOT_DISK, n_writable, def->n_gpus, err);
}

int domain_op_snapshot(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        struct snapshot_take *take, struct err *err)
{
	CLEANUP_SUBJECT struct subject s = { 0 };
	struct told told = { .progress = take->progress, .userdata = take->userdata };
	struct snapshot_meta meta;
	struct disk_usage usage = { 0 };
	int r = subject_find(conn, id, files, &s, err);

	if (r == 0)
		r = settle(&s, err);
	int state, active = r == 0 ? domain_is_active(s.domain, &state, err) : r;
	if (active < 0)
		return active;
	r = check(&s, take, active ? state : VIR_DOMAIN_SHUTOFF, err);
	if (r == 0)
		r = meta_fill(&s, take, &meta, err);
	if (r == 0 && s.record.def->disk_path)
		r = disk_usage(s.disk, IMAGE_QCOW2, &usage, err);
	if (r < 0)
		return r;
	/* Memory is read twice: into libvirt's file, then into the tar. */
	told.total = usage.allocated_bytes + (take->with_memory ? 2 * meta.memory_bytes : 0);
	/* One that is off stands still by itself, and so does what an instance without a disk is made of. */
	bool moving = active && (take->with_memory || s.record.def->disk_path);
	return moving ? take_running(&s, take, &meta, &told, err)
	              : tar_write(&s, take, &meta, -EBADF, &told, err);
}
