#include "svc-converger/volume_store.h"

#include "lib/base/clock.h"
#include "lib/image/disk.h"
#include "svc-converger/id_map.h"
#include "svc-converger/volume_claims.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static const char SUFFIX[] = ".raw";

enum volume_action {
	VOLUME_NOTHING,
	VOLUME_CREATE,
	VOLUME_GROW,
	VOLUME_DESTROY,
};

struct volume {
	char id[VOLUME_ID_MAX]; /* the key */
	bool exists, busy;
	enum volume_action action; /* while busy */
	enum volume_wish wish;
	uint64_t wished_bytes, size_bytes, allocated_bytes;
	struct err error;
	uint64_t retry_usec; /* monotonic: when a failed action may be tried again; 0: at once */
};

struct volume_store {
	struct volume_store_options options;
	char *dir;                    /* owned */
	int dir_fd;                   /* owned */
	struct id_map *volumes;       /* owned, with what is in it */
	struct volume_claims *claims; /* owned */
	bool refreshing;
};

/* --- volumes in memory --- */

static void path_of(const struct volume_store *store, const char *id, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/%s%s", store->dir, id, SUFFIX);
}

static struct volume *volume_add(struct volume_store *store, const char *id)
{
	struct volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		return NULL;
	(void)snprintf(volume->id, sizeof(volume->id), "%s", id);
	if (id_map_put(store->volumes, volume) < 0) {
		free(volume);
		return NULL;
	}
	return volume;
}

/* Frees one of which nothing is left but its name. */
static void volume_tidy(struct volume_store *store, struct volume *volume)
{
	if (volume->exists || volume->busy || volume->wish == VOLUME_PRESENT)
		return;
	(void)id_map_remove(store->volumes, volume->id);
	free(volume);
}

static void changed(const struct volume_store *store, const char *id)
{
	if (store->options.on_change)
		store->options.on_change(id, store->options.userdata);
}

/* --- making, growing, destroying --- */

struct volume_job {
	struct job job;
	struct volume_store *store; /* weak */
	enum volume_action action;
	char id[VOLUME_ID_MAX];
	char path[PATH_MAX];
	int dir_fd; /* weak */
	uint64_t bytes, reserve_bytes;
	mode_t mode;
	gid_t gid;
	int r;
	struct err err;
	uint64_t allocated_bytes;
};

static int room_check(struct volume_job *job)
{
	struct statvfs fs;

	if (fstatvfs(job->dir_fd, &fs) < 0)
		return err_set(&job->err, -errno, "cannot ask for the free space: %s", strerror(errno));
	uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;

	if (free_bytes < job->reserve_bytes)
		return err_set(&job->err, -ENOSPC,
		        "the disk has %" PRIu64 " bytes free, of which %" PRIu64 " must stay", free_bytes,
		        job->reserve_bytes);
	return 0;
}

static int destroy(struct volume_job *job)
{
	if (unlink(job->path) < 0 && errno != ENOENT)
		return err_set(&job->err, -errno, "cannot remove %s: %s", job->path, strerror(errno));
	return fsync(job->dir_fd) < 0 ? -errno : 0;
}

static void volume_run(struct job *job)
{
	struct volume_job *own = CONTAINER_OF(job, struct volume_job, job);
	const struct file_perm perm = { .mode = own->mode, .uid = (uid_t)-1, .gid = own->gid };
	struct stat st;

	switch (own->action) {
	case VOLUME_NOTHING:
		break;
	case VOLUME_CREATE:
		own->r = room_check(own);
		if (own->r == 0)
			own->r = disk_create_empty(own->path, own->bytes, perm, &own->err);
		break;
	case VOLUME_GROW:
		own->r = room_check(own);
		if (own->r == 0)
			own->r = disk_grow(own->path, IMAGE_RAW, own->bytes, &own->err);
		break;
	case VOLUME_DESTROY:
		own->r = destroy(own);
		return;
	}
	if (own->r == 0 && stat(own->path, &st) == 0)
		own->allocated_bytes = (uint64_t)st.st_blocks * 512;
}

static void volume_step(struct volume_store *store, struct volume *volume);

static void volume_done(struct job *job)
{
	struct volume_job *own = CONTAINER_OF(job, struct volume_job, job);
	struct volume_store *store = own->store;
	struct volume *volume = id_map_get(store->volumes, own->id);
	char id[VOLUME_ID_MAX];

	memcpy(id, own->id, sizeof(id));
	volume->busy = false;
	volume->error = own->err;
	volume->retry_usec = 0;
	if (own->r < 0) {
		(void)err_set(&volume->error, own->r, "%s", strerror(-own->r));
		volume->retry_usec = clock_monotonic_usec() + VOLUME_RETRY_USEC;
	} else if (own->action == VOLUME_DESTROY) {
		volume->exists = false;
		volume->size_bytes = volume->allocated_bytes = 0;
	} else {
		volume->exists = true;
		volume->size_bytes = own->bytes;
		volume->allocated_bytes = own->allocated_bytes;
	}
	free(own);
	volume_step(store, volume); /* the wish may have changed meanwhile; may free it */
	changed(store, id);
}

static void start_failed(struct volume *volume, int r)
{
	volume->error = (struct err){ 0 };
	(void)err_set(&volume->error, r, "cannot begin: %s", strerror(-r));
	volume->retry_usec = clock_monotonic_usec() + VOLUME_RETRY_USEC;
}

static void volume_start(
        struct volume_store *store, struct volume *volume, enum volume_action action, uint64_t bytes)
{
	struct volume_job *job;
	int r;

	if (volume->retry_usec && clock_monotonic_usec() < volume->retry_usec)
		return;
	job = calloc(1, sizeof(*job));
	if (!job) {
		start_failed(volume, -ENOMEM);
		return;
	}
	job->job.run = volume_run;
	job->job.done = volume_done;
	job->store = store;
	job->action = action;
	job->dir_fd = store->dir_fd;
	job->bytes = bytes;
	job->reserve_bytes = store->options.reserve_bytes;
	job->mode = store->options.file_mode;
	job->gid = store->options.file_gid;
	memcpy(job->id, volume->id, sizeof(job->id));
	path_of(store, volume->id, job->path, sizeof(job->path));
	r = job_submit(store->options.pool, &job->job);
	if (r < 0) {
		free(job);
		start_failed(volume, r);
		return;
	}
	volume->busy = true;
	volume->action = action;
}

static void wish_refuse(struct volume *volume, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void wish_refuse(struct volume *volume, const char *fmt, ...)
{
	va_list ap;

	volume->error = (struct err){ 0 };
	va_start(ap, fmt);
	(void)err_setv(&volume->error, -EBUSY, fmt, ap);
	va_end(ap);
}

static void present_step(struct volume_store *store, struct volume *volume)
{
	if (!volume->exists)
		volume_start(store, volume, VOLUME_CREATE, volume->wished_bytes);
	else if (volume->size_bytes < volume->wished_bytes)
		volume_start(store, volume, VOLUME_GROW, volume->wished_bytes);
	else if (volume->size_bytes > volume->wished_bytes)
		wish_refuse(volume,
		        "it has %" PRIu64 " bytes and %" PRIu64 " are wished; a volume is never shrunk",
		        volume->size_bytes, volume->wished_bytes);
	else
		volume->error = (struct err){ 0 };
}

static void absent_step(struct volume_store *store, struct volume *volume)
{
	size_t n_users;
	const struct volume_user *users = volume_claims_users(store->claims, volume->id, &n_users);

	if (!volume->exists)
		volume->error = (struct err){ 0 };
	else if (n_users > 0)
		wish_refuse(volume, "it is destroyed once instance %s no longer has it open",
		        users[0].instance_id);
	else
		volume_start(store, volume, VOLUME_DESTROY, 0);
}

/* Does the next thing the wish asks for. May free the volume. */
static void volume_step(struct volume_store *store, struct volume *volume)
{
	if (volume->busy)
		return;
	switch (volume->wish) {
	case VOLUME_NO_OPINION:
		volume->error = (struct err){ 0 };
		break;
	case VOLUME_PRESENT:
		present_step(store, volume);
		break;
	case VOLUME_ABSENT:
		absent_step(store, volume);
		break;
	}
	volume_tidy(store, volume);
}

int volume_store_want(struct volume_store *store, const char *id, enum volume_wish wish, uint64_t size_bytes)
{
	struct volume *volume = id_map_get(store->volumes, id);

	if (!volume_id_is_valid(id))
		return -EINVAL;
	if (!volume && wish != VOLUME_PRESENT)
		return 0;
	if (!volume)
		volume = volume_add(store, id);
	if (!volume)
		return -ENOMEM;
	if (volume->wish != wish || volume->wished_bytes != size_bytes)
		volume->retry_usec = 0; /* another wish may well succeed */
	volume->wish = wish;
	volume->wished_bytes = size_bytes;
	volume_step(store, volume);
	return 0;
}

/* --- who has them open --- */

/* A volume that a job takes away can no longer be opened. */
static int existence_check(
        struct volume_store *store, const struct volume_use *uses, size_t n_uses, struct err *err)
{
	for (size_t i = 0; i < n_uses; i++) {
		const struct volume *volume = id_map_get(store->volumes, uses[i].volume_id);

		if (!volume || !volume->exists)
			return err_set(err, -ENOENT, "volume %s is not there", uses[i].volume_id);
		if (volume->busy && volume->action == VOLUME_DESTROY)
			return err_set(err, -ENOENT, "volume %s is being destroyed", uses[i].volume_id);
	}
	return 0;
}

int volume_store_check(struct volume_store *store, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, struct err *err)
{
	return volume_claims_check(store->claims, instance_id, uses, n_uses, err);
}

int volume_store_claim(struct volume_store *store, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, void (*done)(int r, void *userdata), void *userdata, struct err *err)
{
	int r = existence_check(store, uses, n_uses, err);

	return r < 0 ? r : volume_claims_take(store->claims, instance_id, uses, n_uses, done, userdata, err);
}

int volume_store_adopt(
        struct volume_store *store, const char *instance_id, const struct volume_use *uses, size_t n_uses)
{
	return volume_claims_adopt(store->claims, instance_id, uses, n_uses);
}

void volume_store_release(struct volume_store *store, const char *instance_id)
{
	volume_claims_release(store->claims, instance_id);
}

bool volume_store_has_claim(struct volume_store *store, const char *instance_id)
{
	return volume_claims_has(store->claims, instance_id);
}

void volume_store_each_claim(
        struct volume_store *store, void (*fn)(const char *instance_id, void *userdata), void *userdata)
{
	volume_claims_each(store->claims, fn, userdata);
}

/* A volume whose destruction waits for its last user. */
static void on_users_change(const char *volume_id, void *userdata)
{
	struct volume_store *store = userdata;
	struct volume *volume = id_map_get(store->volumes, volume_id);

	if (volume && volume->wish == VOLUME_ABSENT)
		volume_step(store, volume);
	changed(store, volume_id);
}

/* --- what is known of them --- */

static void info_fill(struct volume_store *store, const char *id, struct volume_info *ret)
{
	const struct volume *volume = id_map_get(store->volumes, id);

	*ret = (struct volume_info){ 0 };
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	path_of(store, id, ret->path, sizeof(ret->path));
	ret->users = volume_claims_users(store->claims, id, &ret->n_users);
	if (!volume)
		return;
	ret->exists = volume->exists;
	ret->busy = volume->busy;
	ret->wish = volume->wish;
	ret->wished_bytes = volume->wished_bytes;
	ret->size_bytes = volume->size_bytes;
	ret->allocated_bytes = volume->allocated_bytes;
	ret->error = volume->error;
}

int volume_store_get(struct volume_store *store, const char *id, struct volume_info *ret)
{
	size_t n_users;

	(void)volume_claims_users(store->claims, id, &n_users);
	if (!id_map_get(store->volumes, id) && n_users == 0)
		return -ENOENT;
	info_fill(store, id, ret);
	return 0;
}

/* The ids of all, sorted and once each. */
struct id_list {
	char (*ids)[VOLUME_ID_MAX]; /* owned */
	size_t n, n_room;
	bool failed;
};

static void id_list_add(const char *id, void *userdata)
{
	struct id_list *list = userdata;

	if (list->n == list->n_room) {
		size_t n = list->n_room ? 2 * list->n_room : 64;
		char(*ids)[VOLUME_ID_MAX] = reallocarray(list->ids, n, sizeof(*ids));

		if (!ids) {
			list->failed = true;
			return;
		}
		list->ids = ids;
		list->n_room = n;
	}
	(void)snprintf(list->ids[list->n++], VOLUME_ID_MAX, "%s", id);
}

static int id_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int ids_list(struct volume_store *store, bool with_users, struct id_list *ret)
{
	struct id_list list = { 0 };
	size_t cursor = 0, n = 0;
	const struct volume *volume;

	while ((volume = id_map_next(store->volumes, &cursor)))
		id_list_add(volume->id, &list);
	if (with_users)
		volume_claims_each_volume(store->claims, id_list_add, &list);
	if (list.failed) {
		free(list.ids);
		return -ENOMEM;
	}
	if (list.n)
		qsort(list.ids, list.n, sizeof(*list.ids), id_compare);
	for (size_t i = 0; i < list.n; i++)
		if (n == 0 || strcmp(list.ids[n - 1], list.ids[i]) != 0)
			memmove(list.ids[n++], list.ids[i], sizeof(*list.ids));
	list.n = n;
	*ret = list;
	return 0;
}

void volume_store_each(struct volume_store *store, void (*fn)(const struct volume_info *info, void *userdata),
        void *userdata)
{
	struct id_list list;

	if (ids_list(store, true, &list) < 0)
		return;
	for (size_t i = 0; i < list.n; i++) {
		struct volume_info info;

		info_fill(store, list.ids[i], &info);
		fn(&info, userdata);
	}
	free(list.ids);
}

/* --- measuring --- */

struct refresh_job {
	struct job job;
	struct volume_store *store; /* weak */
	int dir_fd;                 /* weak */
	struct id_list list;        /* owned */
	struct stat *stats;         /* owned; st_mode 0: not there */
};

static void refresh_run(struct job *job)
{
	struct refresh_job *own = CONTAINER_OF(job, struct refresh_job, job);
	char name[VOLUME_ID_MAX + sizeof(SUFFIX)];

	for (size_t i = 0; i < own->list.n; i++) {
		(void)snprintf(name, sizeof(name), "%s%s", own->list.ids[i], SUFFIX);
		if (fstatat(own->dir_fd, name, &own->stats[i], AT_SYMLINK_NOFOLLOW) < 0)
			own->stats[i] = (struct stat){ 0 };
	}
}

static void refresh_job_free(struct refresh_job *job)
{
	free(job->list.ids);
	free(job->stats);
	free(job);
}

/* What was measured is only taken where no job has changed the file meanwhile. */
static void measured(struct volume_store *store, struct volume *volume, const struct stat *st)
{
	bool exists = S_ISREG(st->st_mode);
	uint64_t size = exists ? (uint64_t)st->st_size : 0,
	         allocated = exists ? (uint64_t)st->st_blocks * 512 : 0;
	bool same = volume->exists == exists && volume->size_bytes == size &&
	        volume->allocated_bytes == allocated;
	char id[VOLUME_ID_MAX];

	if (volume->busy)
		return;
	memcpy(id, volume->id, sizeof(id));
	volume->exists = exists;
	volume->size_bytes = size;
	volume->allocated_bytes = allocated;
	volume_step(store, volume); /* failed attempts too; may free it */
	if (!same)
		changed(store, id);
}

static void refresh_done(struct job *job)
{
	struct refresh_job *own = CONTAINER_OF(job, struct refresh_job, job);
	struct volume_store *store = own->store;

	store->refreshing = false;
	for (size_t i = 0; i < own->list.n; i++) {
		struct volume *volume = id_map_get(store->volumes, own->list.ids[i]);

		if (volume)
			measured(store, volume, &own->stats[i]);
	}
	refresh_job_free(own);
}

int volume_store_refresh(struct volume_store *store)
{
	struct refresh_job *job;
	int r;

	volume_claims_retry(store->claims);
	if (store->refreshing)
		return 0;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->job.run = refresh_run;
	job->job.done = refresh_done;
	job->store = store;
	job->dir_fd = store->dir_fd;
	r = ids_list(store, false, &job->list);
	if (r == 0) {
		job->stats = calloc(job->list.n + 1, sizeof(*job->stats));
		r = job->stats ? job_submit(store->options.pool, &job->job) : -ENOMEM;
	}
	if (r < 0) {
		refresh_job_free(job);
		return r;
	}
	store->refreshing = true;
	return 0;
}

/* --- the store --- */

static bool name_read(const char *name, char ret_id[static VOLUME_ID_MAX])
{
	size_t n = strlen(name), n_suffix = sizeof(SUFFIX) - 1;

	if (n <= n_suffix || n - n_suffix >= VOLUME_ID_MAX || strcmp(name + n - n_suffix, SUFFIX) != 0)
		return false;
	(void)snprintf(ret_id, VOLUME_ID_MAX, "%.*s", (int)(n - n_suffix), name);
	return volume_id_is_valid(ret_id);
}

static int directory_read(struct volume_store *store, struct err *err)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *item;
	int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return err_set(err, -errno, "cannot read %s: %s", store->dir, strerror(errno));
	while ((errno = 0, item = readdir(dir))) {
		char id[VOLUME_ID_MAX];
		struct volume *volume;
		struct stat st;

		if (!name_read(item->d_name, id) ||
		        fstatat(store->dir_fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		        !S_ISREG(st.st_mode))
			continue;
		volume = volume_add(store, id);
		if (!volume)
			return -ENOMEM;
		volume->exists = true;
		volume->size_bytes = (uint64_t)st.st_size;
		volume->allocated_bytes = (uint64_t)st.st_blocks * 512;
	}
	return errno ? err_set(err, -errno, "cannot read %s: %s", store->dir, strerror(errno)) : 0;
}

static int claims_open(struct volume_store *store, struct err *err)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/claims", store->dir);
	if (mkdirat(store->dir_fd, "claims", 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make %s: %s", path, strerror(errno));
	return volume_claims_open(path, store->options.pool, on_users_change, store, &store->claims, err);
}

int volume_store_open(const struct volume_store_options *options, struct volume_store **ret, struct err *err)
{
	CLEANUP(volume_store) struct volume_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	store->dir_fd = -EBADF;
	store->options = *options;
	store->options.dir = NULL;
	store->options.file_mode = options->file_mode ? options->file_mode : 0660;
	store->dir = strdup(options->dir);
	store->volumes = id_map_new(offsetof(struct volume, id));
	if (!store->dir || !store->volumes)
		return -ENOMEM;
	store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->dir_fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", store->dir, strerror(errno));
	r = directory_read(store, err);
	if (r == 0)
		r = claims_open(store, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

static struct volume *volume_any(const struct volume_store *store)
{
	size_t cursor = 0;

	return store->volumes ? id_map_next(store->volumes, &cursor) : NULL;
}

struct volume_store *volume_store_free(struct volume_store *store)
{
	struct volume *volume;

	if (!store)
		return NULL;
	while ((volume = volume_any(store))) {
		(void)id_map_remove(store->volumes, volume->id);
		free(volume);
	}
	(void)id_map_free(store->volumes);
	(void)volume_claims_free(store->claims);
	if (store->dir_fd >= 0)
		(void)close(store->dir_fd);
	free(store->dir);
	free(store);
	return NULL;
}
