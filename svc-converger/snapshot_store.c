#include "svc-converger/snapshot_store.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/quote.h"
#include "lib/base/sha256.h"
#include "svc-converger/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define RETRY_MIN_USEC (5 * USEC_PER_SEC)
#define RETRY_MAX_USEC (600 * USEC_PER_SEC)

enum { UPLOADS_MAX = 16, NAME_HEX = 32 };
static const char SUFFIX[] = ".tar";

struct snapshot_upload {
	struct snapshot_store *store; /* weak */
	TAILQ_ENTRY(snapshot_upload) link;
	char name[NAME_HEX + sizeof(SUFFIX)]; /* of the staging file; says which command it is */
	char path[PATH_MAX];
	uint64_t estimate_bytes; /* room that is kept for it while it is written */
	bool started;
	char *url; /* owned */
	char digest[SHA256_DIGEST_MAX];
	uint64_t size_bytes;
	const struct snapshot_upload_handlers *handlers; /* weak, as userdata */
	void *userdata;
	unsigned n_attempts;
	struct transfer *transfer; /* owned; while one runs */
	sd_event_source *next;     /* owned; the next attempt */
};

struct snapshot_store {
	struct snapshot_store_options options;
	struct transfer_config transfer;
	char *dir, *program, *ca_path;   /* owned */
	int dir_fd;                      /* owned */
	struct download_cache *restores; /* owned */
	TAILQ_HEAD(, snapshot_upload) uploads;
	size_t n_uploads;
};

/* --- staging --- */

static int name_of(const char *command_id, char ret[static NAME_HEX + sizeof(SUFFIX)])
{
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX];
	int r = sha256(command_id, strlen(command_id), sum);

	if (r < 0)
		return r;
	sha256_to_hex(sum, hex);
	(void)snprintf(ret, NAME_HEX + sizeof(SUFFIX), "%.*s%s", NAME_HEX, hex, SUFFIX);
	return 0;
}

/* Of a staging file; a runtime writes it under a temporary's name first, and may die over that. */
static bool name_is_ours(const char *name)
{
	bool is_temporary = atomic_file_is_temporary(name);
	size_t n_end = sizeof(SUFFIX) - 1;

	if (is_temporary)
		name++;
	return strspn(name, "0123456789abcdef") == NAME_HEX && strncmp(name + NAME_HEX, SUFFIX, n_end) == 0 &&
	        (is_temporary || !name[NAME_HEX + n_end]);
}

/* What the snapshots being written may still take. */
static uint64_t promised_bytes(const struct snapshot_store *store)
{
	const struct snapshot_upload *upload;
	uint64_t sum = store->options.restore.reserve_bytes;

	TAILQ_FOREACH(upload, &store->uploads, link)
	if (!upload->started)
		sum += upload->estimate_bytes;
	return sum;
}

static int room_check(const struct snapshot_store *store, uint64_t bytes, struct err *err)
{
	struct statvfs fs;
	uint64_t promised = promised_bytes(store), free_bytes;

	if (fstatvfs(store->dir_fd, &fs) < 0)
		return err_set(
		        err, -errno, "cannot ask for the free space of %s: %s", store->dir, strerror(errno));
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	free_bytes = free_bytes > promised ? free_bytes - promised : 0;
	if (bytes > free_bytes)
		return err_set(err, -ENOSPC,
		        "%s has room for %" PRIu64 " more bytes, the snapshot may take %" PRIu64, store->dir,
		        free_bytes, bytes);
	return 0;
}

/* What a runtime left of one staging file, or (NULL) of all; whoever still writes to it has no name for it then. */
static int leftovers_remove(const struct snapshot_store *store, const char *name)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *item;
	int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	while ((item = readdir(dir))) {
		const char *found = item->d_name + (item->d_name[0] == '.');

		if (name_is_ours(item->d_name) && (!name || strncmp(found, name, strlen(name)) == 0))
			(void)unlinkat(store->dir_fd, item->d_name, 0);
	}
	return 0;
}

static void upload_free(struct snapshot_upload *upload)
{
	struct snapshot_store *store = upload->store;

	TAILQ_REMOVE(&store->uploads, upload, link);
	store->n_uploads--;
	upload->transfer = transfer_free(upload->transfer);
	sd_event_source_disable_unref(upload->next);
	(void)leftovers_remove(store, upload->name);
	free(upload->url);
	free(upload);
}

int snapshot_store_stage(struct snapshot_store *store, const char *command_id, uint64_t estimate_bytes,
        struct snapshot_upload **ret, struct err *err)
{
	char name[NAME_HEX + sizeof(SUFFIX)];
	struct snapshot_upload *upload;
	int r = name_of(command_id, name);

	if (r < 0)
		return r;
	TAILQ_FOREACH(upload, &store->uploads, link)
	if (strcmp(upload->name, name) == 0)
		return err_set(err, -EALREADY, "the snapshot '%s' is under way", QUOTED(command_id));
	if (store->n_uploads >= store->options.n_uploads_max)
		return err_set(err, -EAGAIN, "%zu snapshots are under way already", store->n_uploads);
	r = room_check(store, estimate_bytes, err);
	if (r < 0)
		return r;
	upload = calloc(1, sizeof(*upload));
	if (!upload)
		return -ENOMEM;
	upload->store = store;
	upload->estimate_bytes = estimate_bytes;
	memcpy(upload->name, name, sizeof(name));
	(void)snprintf(upload->path, sizeof(upload->path), "%s/%s", store->dir, name);
	TAILQ_INSERT_TAIL(&store->uploads, upload, link);
	store->n_uploads++;
	*ret = upload;
	return 0;
}

const char *snapshot_upload_path(const struct snapshot_upload *upload)
{
	return upload->path;
}

/* --- uploading --- */

static void upload_end(struct snapshot_upload *upload, int r, const struct err *err)
{
	struct snapshot_result result = { .r = r, .size_bytes = upload->size_bytes };
	const struct snapshot_upload_handlers *handlers = upload->handlers;
	void *userdata = upload->userdata;

	if (err)
		result.error = *err;
	memcpy(result.digest, upload->digest, sizeof(upload->digest));
	upload_free(upload);
	handlers->on_done(&result, userdata);
}

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata);

/* The next attempt after usec. */
static int attempt_plan(struct snapshot_upload *upload, uint64_t usec)
{
	upload->next = sd_event_source_disable_unref(upload->next);
	return sd_event_add_time_relative(upload->store->options.restore.event, &upload->next,
	        CLOCK_MONOTONIC, usec, USEC_PER_MSEC, on_attempt, upload);
}

static void attempt_failed(struct snapshot_upload *upload, int r, bool permanent, const struct err *err)
{
	uint64_t pause = upload->store->options.restore.retry_min_usec;
	uint64_t max = upload->store->options.restore.retry_max_usec;

	upload->transfer = transfer_free(upload->transfer);
	for (unsigned i = 1; i < upload->n_attempts && pause < max; i++)
		pause *= 2;
	pause = pause < max ? pause : max;
	if (permanent || upload->n_attempts == SNAPSHOT_ATTEMPTS_MAX || attempt_plan(upload, pause) < 0)
		upload_end(upload, r, err);
	else if (upload->handlers->on_pause)
		upload->handlers->on_pause(err, pause, upload->userdata);
}

static void on_transfer_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct snapshot_upload *upload = userdata;

	if (upload->handlers->on_progress)
		upload->handlers->on_progress(done_bytes, total_bytes, upload->userdata);
}

static void on_transfer_done(const struct transfer_result *result, void *userdata)
{
	struct snapshot_upload *upload = userdata;
	const struct transfer_result end = *result; /* the transfer goes with the upload */

	if (end.r < 0)
		attempt_failed(upload, end.r, end.permanent, &end.error);
	else
		upload_end(upload, 0, NULL);
}

static int attempt_start(struct snapshot_upload *upload, struct err *err)
{
	struct snapshot_store *store = upload->store;
	CLEANUP_CLOSE int fd =
	        openat(store->dir_fd, upload->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot open the snapshot %s: %s", upload->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "the snapshot %s is no regular file", upload->path);

	const struct transfer_request request = {
		.upload = true,
		.url = upload->url,
		.fd = fd,
		.size_bytes = upload->size_bytes,
		.digest = upload->digest,
		.on_progress = on_transfer_progress,
		.on_done = on_transfer_done,
		.userdata = upload,
	};

	return transfer_start(
	        store->options.restore.event, &store->transfer, &request, &upload->transfer, err);
}

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct snapshot_upload *upload = userdata;
	struct err err = { 0 };
	int r;

	(void)source;
	(void)usec;
	upload->n_attempts++;
	r = attempt_start(upload, &err);
	if (r < 0)
		attempt_failed(upload, r, r == -EBADMSG || r == -ENOENT || r == -EINVAL, &err);
	return 0;
}

int snapshot_upload_start(struct snapshot_upload *upload, const char *url, const char *digest,
        uint64_t size_bytes, const struct snapshot_upload_handlers *handlers, void *userdata, struct err *err)
{
	if (upload->started)
		return err_set(err, -EALREADY, "the upload has begun already");
	if (!digest_is_valid(digest))
		return err_set(
		        err, -EBADMSG, "the runtime says that the snapshot's digest is '%s'", QUOTED(digest));
	upload->url = strdup(url);
	if (!upload->url)
		return -ENOMEM;
	(void)snprintf(upload->digest, sizeof(upload->digest), "%s", digest);
	upload->size_bytes = size_bytes;
	upload->handlers = handlers;
	upload->userdata = userdata;
	upload->started = true;
	return attempt_plan(upload, 0);
}

void snapshot_upload_cancel(struct snapshot_upload *upload)
{
	upload_free(upload);
}

/* --- restores --- */

int snapshot_store_want(
        struct snapshot_store *store, const struct download_source *source, struct download_status *ret)
{
	return download_cache_want(store->restores, source, ret);
}

void snapshot_store_get(struct snapshot_store *store, const char *digest, struct download_status *ret)
{
	download_cache_get(store->restores, digest, ret);
}

void snapshot_store_retry(struct snapshot_store *store, const char *digest)
{
	download_cache_retry(store->restores, digest);
}

bool snapshot_store_has_wishes(const struct snapshot_store *store)
{
	return download_cache_has_wishes(store->restores);
}

void snapshot_store_end_unwanted(
        struct snapshot_store *store, bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	download_cache_end_unwanted(store->restores, in_use, userdata);
}

uint64_t snapshot_store_collect(struct snapshot_store *store, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	return download_cache_collect(store->restores, keep_usec, in_use, userdata);
}

/* --- the store --- */

static int restores_open(struct snapshot_store *store, struct err *err)
{
	struct download_cache_options options = store->options.restore;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/restore", store->dir);
	/* Others may pass to a file whose name they know; what is in it is for the runtimes' group alone. */
	if (mkdirat(store->dir_fd, "restore", 0711) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make %s: %s", path, strerror(errno));
	options.dir = path;
	options.transfer = &store->transfer;
	return download_cache_open(&options, &store->restores, err);
}

static int options_take(struct snapshot_store *store, const struct snapshot_store_options *options)
{
	const struct transfer_config *transfer = options->restore.transfer;
	struct download_cache_options *restore = &store->options.restore;

	store->options = *options;
	store->options.n_uploads_max = options->n_uploads_max ? options->n_uploads_max : UPLOADS_MAX;
	restore->dir = NULL;
	restore->transfer = NULL;
	restore->retry_min_usec = restore->retry_min_usec ? restore->retry_min_usec : RETRY_MIN_USEC;
	restore->retry_max_usec = restore->retry_max_usec ? restore->retry_max_usec : RETRY_MAX_USEC;
	store->transfer = *transfer;
	store->dir = strdup(options->restore.dir);
	if (transfer->program)
		store->transfer.program = store->program = strdup(transfer->program);
	if (transfer->ca_path)
		store->transfer.ca_path = store->ca_path = strdup(transfer->ca_path);
	return store->dir && (!transfer->program || store->program) && (!transfer->ca_path || store->ca_path)
	        ? 0
	        : -ENOMEM;
}

int snapshot_store_open(
        const struct snapshot_store_options *options, struct snapshot_store **ret, struct err *err)
{
	CLEANUP(snapshot_store) struct snapshot_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	store->dir_fd = -EBADF;
	TAILQ_INIT(&store->uploads);
	r = options_take(store, options);
	if (r < 0)
		return r;
	store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->dir_fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", store->dir, strerror(errno));
	r = leftovers_remove(store, NULL);
	if (r < 0)
		return err_set(err, r, "cannot read %s: %s", store->dir, strerror(-r));
	r = restores_open(store, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

struct snapshot_store *snapshot_store_free(struct snapshot_store *store)
{
	struct snapshot_upload *upload;

	if (!store)
		return NULL;
	while ((upload = TAILQ_FIRST(&store->uploads)))
		upload_free(upload);
	(void)download_cache_free(store->restores);
	if (store->dir_fd >= 0)
		(void)close(store->dir_fd);
	free(store->dir);
	free(store->program);
	free(store->ca_path);
	free(store);
	return NULL;
}
