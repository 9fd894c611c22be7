#include "svc-runtime-libvirt/instance_restore.h"

#include "lib/base/atomic_file.h"
#include "lib/image/disk.h"
#include "lib/snapshot/tar.h"
#include "svc-runtime-libvirt/domain_snapshot.h"
#include "svc-runtime-libvirt/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Written last: with it, all files are there. It says of which snapshot. */
#define RESTORED_FILE "restored"

enum {
	MEMBER_DISK,
	MEMBER_SEED,
	MEMBER_NVRAM,
	MEMBER_MEMORY,
	N_MEMBERS,
	SEED_BYTES_MAX = 64 << 20,
	NVRAM_BYTES_MAX = 64 << 20,
	DISK_OVERHEAD_SHIFT = 6, /* an overlay's tables take far less than a 64th of its disk */
};

static const char *snapshot_name(const struct domain_def *def, const struct instance_restore *restore)
{
	return def->restored_from ? def->restored_from : restore->path;
}

static bool is_done(const char *marker, const char *name)
{
	CLEANUP_FREE char *text = NULL;

	return file_read(AT_FDCWD, marker, 4096, &text, NULL) == 0 && strcmp(text, name) == 0;
}

bool instance_is_restored(const struct instance_files_conf *conf, const char *id)
{
	CLEANUP_FREE char *marker = instance_path(conf->instances_dir, id, RESTORED_FILE);

	return marker && access(marker, F_OK) == 0;
}

static int check(const struct domain_def *def, const struct instance_restore *restore,
        struct snapshot_meta *ret_meta, struct err *err)
{
	struct snapshot_target target = {
		.runtime = restore->runtime,
		.cpu_model = restore->cpu_model,
		.with_memory = restore->with_memory,
		.image_digest = def->image_digest,
		.root_disk_bytes = def->root_disk_bytes,
		.vcpus = def->vcpus,
		.memory_bytes = def->memory_bytes,
		.n_nics = def->n_nics,
		.n_gpus = def->n_gpus,
	};
	int r = snapshot_read_meta(restore->path, ret_meta, err);

	for (size_t i = 0; i < def->n_volumes; i++)
		target.n_writable_volumes += !def->volumes[i].read_only;
	if (r == 0)
		r = snapshot_check_restore(ret_meta, &target, err);
	if (r == 0 && (ret_meta->disk_bytes > 0) != (def->disk_path != NULL))
		r = err_set(err, -EBUSY, "the snapshot has %s disk, the instance has %s",
		        ret_meta->disk_bytes ? "a" : "no", def->disk_path ? "one" : "none");
	if (r < 0)
		err_wrap(err, "snapshot '%s'", restore->path);
	return r;
}

static void members_fill(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct snapshot_meta *meta, const char *memory,
        struct snapshot_member members[static N_MEMBERS])
{
	struct file_perm disk_perm = { .mode = 0660, .uid = (uid_t)-1, .gid = conf->vmm_gid };
	struct file_perm seed_perm = { .mode = 0640, .uid = (uid_t)-1, .gid = conf->vmm_gid };

	members[MEMBER_DISK] = (struct snapshot_member){ .name = SNAPSHOT_DISK_NAME,
		.path = def->disk_path,
		.bytes_max = meta->disk_bytes + (meta->disk_bytes >> DISK_OVERHEAD_SHIFT) + (16 << 20),
		.required = def->disk_path != NULL,
		.perm = disk_perm };
	members[MEMBER_SEED] = (struct snapshot_member){ .name = SNAPSHOT_SEED_NAME,
		.path = def->seed_path,
		.bytes_max = SEED_BYTES_MAX,
		.perm = seed_perm };
	members[MEMBER_NVRAM] = (struct snapshot_member){ .name = SNAPSHOT_NVRAM_NAME,
		.path = def->nvram_path,
		.bytes_max = NVRAM_BYTES_MAX,
		.required = def->nvram_path != NULL,
		.perm = disk_perm };
	/* Not larger than the guest's memory by more than its devices' state. */
	members[MEMBER_MEMORY] = (struct snapshot_member){ .name = SNAPSHOT_MEMORY_NAME,
		.path = memory,
		.bytes_max = meta->memory_bytes + meta->memory_bytes / 8 + (UINT64_C(256) << 20),
		.required = memory != NULL,
		.perm = disk_perm };
}

static int extract(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct instance_restore *restore, const struct snapshot_meta *meta, struct err *err)
{
	CLEANUP_FREE char *memory = instance_path(conf->instances_dir, def->id, INSTANCE_MEMORY);
	struct disk_base base = { .path = def->image_path, .format = def->image_format };
	struct snapshot_member members[N_MEMBERS];

	if (!memory)
		return -ENOMEM;
	(void)unlink(memory);
	members_fill(conf, def, meta, restore->with_memory ? memory : NULL, members);
	int r = snapshot_extract(
	        restore->path, members, N_MEMBERS, ending_progress, (void *)(uintptr_t)conf->ending, err);
	if (r == 0 && def->disk_path)
		r = disk_adopt_overlay(def->disk_path, &base, err);
	if (r == 0)
		return 0;
	for (size_t i = 0; i < N_MEMBERS; i++)
		if (members[i].path && members[i].found)
			(void)unlink(members[i].path);
	return ending_begun(conf->ending) ? ending_refuse(err, "a restore") : r;
}

int instance_restore(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct instance_restore *restore, struct err *err)
{
	CLEANUP_FREE char *marker = instance_path(conf->instances_dir, def->id, RESTORED_FILE);
	const char *name = snapshot_name(def, restore);
	struct snapshot_meta meta;

	if (!marker)
		return -ENOMEM;
	if (is_done(marker, name))
		return 0;
	(void)unlink(marker);
	int r = check(def, restore, &meta, err);
	if (r == 0)
		r = extract(conf, def, restore, &meta, err);
	if (r < 0)
		return r;
	r = atomic_file_write(AT_FDCWD, marker, name, strlen(name), 0600);
	return r < 0 ? err_set(err, r, "cannot write '%s': %s", marker, strerror(-r)) : 0;
}
