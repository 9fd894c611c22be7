#include "svc-runtime-libvirt/instance_files.h"

#include "lib/base/atomic_file.h"
#include "lib/base/tree.h"
#include "lib/image/disk.h"
#include "svc-runtime-libvirt/instance_restore.h"
#include "svc-runtime-libvirt/path_access.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALLOCATION_FILE "allocation"

enum { ALLOCATION_MAX = 128 };

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static struct file_perm perm_of(const struct instance_files_conf *conf, mode_t mode)
{
	return (struct file_perm){ .mode = mode, .uid = (uid_t)-1, .gid = conf->vmm_gid };
}

/* Someone put it there: who, it does not say. */
static int not_ours(const char *dir, struct err *err)
{
	return err_set(err, -EBUSY, "%s does not say whose it is: it is left alone", dir);
}

/* QEMU passes through, it does not list. */
static int make_dir(const struct instance_files_conf *conf, const char *dir, bool *ret_made, struct err *err)
{
	int made = mkdir(dir, 0710) < 0 ? -errno : 0;

	if (made < 0 && made != -EEXIST)
		return err_set(err, made, "%s: %s", dir, strerror(-made));
	*ret_made = made == 0;
	CLEANUP_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		return not_ours(dir, err);
	if (fd < 0 || fchmod(fd, 0710) < 0 ||
	        (conf->vmm_gid != (gid_t)-1 && fchown(fd, (uid_t)-1, conf->vmm_gid) < 0)) {
		int r = -errno;
		return err_set(err, r,
		        "%s: QEMU's group %u cannot be given access (is this service's user a member?): %s",
		        dir, conf->vmm_gid, strerror(-r));
	}
	return dir_sync_parent(AT_FDCWD, dir);
}

/* Whose are the files? -ENOENT when the directory is not ours. */
static int read_allocation(const char *instances_dir, const char *id, char **ret)
{
	CLEANUP_FREE char *path = instance_path(instances_dir, id, ALLOCATION_FILE);

	return path ? file_read(AT_FDCWD, path, ALLOCATION_MAX, ret, NULL) : -ENOMEM;
}

static int write_allocation(const struct instance_files_conf *conf, const struct domain_def *def)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, def->id, ALLOCATION_FILE);

	if (!path)
		return -ENOMEM;
	return atomic_file_write(AT_FDCWD, path, def->allocation_id, strlen(def->allocation_id), 0600);
}

/* Where an instance's directory is when it goes: whoever still writes to it by its path finds nothing, and what a kill
 * leaves of it says by its name that it is nobody's. */
static char *gone_path(const char *instances_dir, const char *id)
{
	char *path = NULL;

	return asprintf(&path, "%s/.%s.gone", instances_dir, id) < 0 ? NULL : path;
}

/* One that does not say whose it is may go when it holds nothing but files that were never finished; else -ENOTEMPTY. */
static int judge_dir(const char *dir, bool known)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP_CLOSEDIR DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	int r = entries ? 0 : -errno;

	if (!entries && fd >= 0)
		(void)close(fd);
	for (const struct dirent *entry; r == 0 && !known && (entry = readdir(entries));) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !atomic_file_is_temporary(name))
			r = -ENOTEMPTY;
	}
	return r;
}

/* Whole, or what a kill left of it. *ret_existed: there was something. */
static int remove_dir(
        const char *instances_dir, const char *id, bool known, bool *ret_existed, struct err *err)
{
	CLEANUP_FREE char *dir = instance_path(instances_dir, id, NULL), *gone = gone_path(instances_dir, id);

	if (!dir || !gone)
		return -ENOMEM;
	int r = judge_dir(dir, known);
	if (r == -ENOTEMPTY || r == -ENOTDIR)
		return not_ours(dir, err);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "%s: %s", dir, strerror(-r));
	bool is_there = r == 0;
	*ret_existed = is_there || exists(gone);
	r = *ret_existed ? remove_tree(AT_FDCWD, gone) : 0;
	if (r == 0 && is_there && rename(dir, gone) < 0)
		r = -errno;
	if (r == 0 && is_there)
		r = remove_tree(AT_FDCWD, gone);
	return r < 0 ? err_set(err, r, "%s cannot be removed: %s", gone, strerror(-r)) : 0;
}

/* What a crash left behind belongs to this allocation, or goes; what others left stays, and there is no room for us. */
static int clear_dir(const struct instance_files_conf *conf, const struct domain_def *def, const char *dir,
        struct err *err)
{
	CLEANUP_FREE char *allocation = NULL;
	bool existed;
	int r = read_allocation(conf->instances_dir, def->id, &allocation);

	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return err_set(err, r, "%s/" ALLOCATION_FILE ": %s", dir, strerror(-r));
	if (r == 0 && strcmp(allocation, def->allocation_id) == 0)
		return 0;
	return remove_dir(conf->instances_dir, def->id, r == 0, &existed, err);
}

static int claim_dir(const struct instance_files_conf *conf, const struct domain_def *def, const char *dir,
        bool known, struct instance_files_made *made, struct err *err)
{
	int r = known ? 0 : clear_dir(conf, def, dir, err);

	if (r == 0)
		r = make_dir(conf, dir, &made->dir, err);
	if (r < 0)
		return r;
	r = write_allocation(conf, def);
	return r < 0 ? err_set(err, r, "%s/" ALLOCATION_FILE ": %s", dir, strerror(-r)) : 0;
}

static int make_disk(
        const struct instance_files_conf *conf, const struct domain_def *def, bool *ret_made, struct err *err)
{
	if (!def->disk_path || exists(def->disk_path))
		return 0;
	struct disk_base base = { .path = def->image_path, .format = def->image_format };
	int r = disk_create_overlay(def->disk_path, &base, def->root_disk_bytes, perm_of(conf, 0660), err);
	if (r == 0)
		*ret_made = true;
	return r;
}

/* A guest that runs has the old one open until it is started again, as it has its old definition. */
static int renew_seed(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct seed *seed, struct instance_files_made *made, struct err *err)
{
	CLEANUP_CLOSE int old = open(def->seed_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (old < 0)
		return err_set(err, -errno, "cannot open '%s': %m", def->seed_path);
	int r = seed_renew(def->seed_path, seed, perm_of(conf, 0640), &made->renewed, err);
	if (made->renewed)
		made->old_seed_fd = TAKE_FD(old);
	return r;
}

static int make_seed(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct seed *seed, struct instance_files_made *made, struct err *err)
{
	if (!def->seed_path)
		return 0;
	if (exists(def->seed_path))
		return seed && !instance_is_restored(conf, def->id) ? renew_seed(conf, def, seed, made, err)
		                                                    : 0;
	struct seed plain = { .instance_id = def->id, .allocation_id = def->allocation_id };
	int r = seed_write(def->seed_path, seed ? seed : &plain, perm_of(conf, 0640), err);
	if (r == 0)
		made->seed = true;
	return r;
}

static int make_nvram(
        const struct instance_files_conf *conf, const struct domain_def *def, bool *ret_made, struct err *err)
{
	if (!def->nvram_path || exists(def->nvram_path))
		return 0;
	if (!conf->firmware_vars)
		return err_set(err, -EBUSY,
		        "UEFI needs a variable store to begin from: install ovmf or set "
		        "[firmware] vars=");
	CLEANUP_CLOSE int src = open(conf->firmware_vars, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	if (src < 0 || fstat(src, &st) < 0) {
		int r = -errno;
		return err_set(err, r, "%s: %s", conf->firmware_vars, strerror(-r));
	}
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	int r = new_file_open(def->nvram_path, perm_of(conf, 0660), &file);
	if (r == 0)
		r = sparse_copy(src, file.fd, (uint64_t)st.st_size, NULL, NULL, err);
	if (r == 0)
		r = new_file_commit(&file, false);
	if (r < 0)
		return err_set(err, r, "%s: %s", def->nvram_path, strerror(-r));
	*ret_made = true;
	return 0;
}

void instance_files_made_done(struct instance_files_made *made)
{
	if (made->renewed)
		(void)close(made->old_seed_fd);
	made->renewed = false;
}

static void put_back_seed(const struct instance_files_conf *conf, const struct domain_def *def, int old_fd)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	struct stat st;

	if (fstat(old_fd, &st) == 0 && new_file_open(def->seed_path, perm_of(conf, 0640), &file) == 0 &&
	        sparse_copy(old_fd, file.fd, (uint64_t)st.st_size, NULL, NULL, NULL) == 0)
		(void)new_file_commit(&file, true);
}

void instance_files_undo(const struct instance_files_conf *conf, const struct domain_def *def,
        struct instance_files_made *made)
{
	bool existed;

	if (made->renewed)
		put_back_seed(conf, def, made->old_seed_fd);
	instance_files_made_done(made);
	if (made->dir) {
		(void)remove_dir(conf->instances_dir, def->id, true, &existed, NULL);
		return;
	}
	if (made->disk)
		(void)unlink(def->disk_path);
	if (made->seed)
		(void)unlink(def->seed_path);
	if (made->nvram)
		(void)unlink(def->nvram_path);
}

int instance_files_make(const struct instance_files_conf *conf, const struct domain_def *def,
        const struct seed *seed, const struct instance_restore *restore, bool known,
        struct instance_files_made *ret, struct err *err)
{
	struct instance_files_made made = { 0 };
	CLEANUP_FREE char *dir = instance_path(conf->instances_dir, def->id, NULL);

	if (!dir)
		return -ENOMEM;
	int r = claim_dir(conf, def, dir, known, &made, err);
	if (r == 0 && restore)
		r = instance_restore(conf, def, restore, err);
	if (r == 0)
		r = make_disk(conf, def, &made.disk, err);
	if (r == 0)
		r = make_seed(conf, def, seed, &made, err);
	if (r == 0)
		r = make_nvram(conf, def, &made.nvram, err);
	if (r < 0) {
		instance_files_undo(conf, def, &made);
		return r;
	}
	*ret = made;
	return 0;
}

int instance_files_open_way(
        const struct instance_files_conf *conf, const struct domain_def *def, struct err *err)
{
	const char *const paths[] = { def->disk_path, def->image_path, def->seed_path, def->nvram_path };
	size_t n_below = conf->open_below ? strlen(conf->open_below) : 0;
	int r = 0;

	if (!conf->open_below)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths) + def->n_volumes; i++) {
		const char *path =
		        i < ARRAY_SIZE(paths) ? paths[i] : def->volumes[i - ARRAY_SIZE(paths)].path;
		if (path && strncmp(path, conf->open_below, n_below) == 0 && path[n_below] == '/')
			r = path_access_add(conf->open_below, path, PATH_ACCESS_OTHERS, NULL, NULL, err);
	}
	return r;
}

static void mark_remove(const struct instance_files_conf *conf, const char *id, const char *mark)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, id, mark);

	if (path)
		(void)unlink(path);
}

void instance_files_begin_run(const struct instance_files_conf *conf, const char *id)
{
	mark_remove(conf, id, INSTANCE_COMPLETED);
}

/* On a full disk the stop goes on without it. */
void instance_files_mark_stop(const struct instance_files_conf *conf, const char *id)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, id, INSTANCE_STOPPING);
	int fd = path ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;

	if (fd >= 0)
		(void)close(fd);
}

void instance_files_forget_stop(const struct instance_files_conf *conf, const char *id)
{
	mark_remove(conf, id, INSTANCE_STOPPING);
}

int instance_files_grow(const struct instance_files_conf *conf, const struct domain_def *def, struct err *err)
{
	CLEANUP_FREE char *disk = instance_path(conf->instances_dir, def->id, INSTANCE_DISK);
	struct disk_usage usage;

	if (!def->disk_path || !def->root_disk_bytes)
		return 0;
	if (!disk)
		return -ENOMEM;
	int r = disk_usage(disk, IMAGE_QCOW2, &usage, err);
	if (r < 0 || usage.virtual_bytes == def->root_disk_bytes)
		return r;
	return disk_grow(disk, IMAGE_QCOW2, def->root_disk_bytes, err);
}

static void remove_vmm_log(const struct instance_files_conf *conf, const char *id)
{
	CLEANUP_FREE char *path = NULL;
	char name[DOMAIN_NAME_MAX];

	domain_name(id, name);
	if (!conf->vmm_log_dir || asprintf(&path, "%s/%s.log", conf->vmm_log_dir, name) < 0)
		path = NULL;
	else
		(void)unlink(path);
}

int instance_files_remove(
        const struct instance_files_conf *conf, const char *id, bool *ret_existed, struct err *err)
{
	CLEANUP_FREE char *allocation = NULL;
	int r = read_allocation(conf->instances_dir, id, &allocation);

	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return err_set(
		        err, r, "%s/%s/" ALLOCATION_FILE ": %s", conf->instances_dir, id, strerror(-r));
	r = remove_dir(conf->instances_dir, id, r == 0, ret_existed, err);
	if (r == 0)
		remove_vmm_log(conf, id);
	return r;
}
