#include "svc-converger/download_cache.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/sha256.h"
#include "svc-converger/id_map.h"
#include "svc-converger/text_hash.h"
#include "svc-converger/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define RETRY_MIN_USEC (5 * USEC_PER_SEC)
#define RETRY_MAX_USEC (600 * USEC_PER_SEC)
#define TOUCH_USEC (3600 * USEC_PER_SEC) /* how old the time of use on a file may be */

enum {
	PARALLEL_MAX = 4,
	WANTED_MAX = 16384,
	TRIED_MAX = 8,
	NAME_SIZE = 80, /* "<64 hex>.part" */
	PREFIX_SIZE = sizeof("sha256:") - 1,
};
static const char PART[] = ".part";

struct entry {
	char digest[SHA256_DIGEST_MAX]; /* the key */
	struct download_cache *cache;   /* weak */
	char *url;                      /* owned; of the wish stated last, used by the next attempt */
	uint64_t wished_bytes;          /* with it; 0: unknown */
	uint64_t tried[TRIED_MAX];      /* hashes of URLs that were tried since the first failure */
	size_t n_tried;
	struct download_status status;
	struct transfer *transfer; /* owned; while RUNNING */
	int fd;                    /* owned; of the part, while RUNNING */
	sd_event_source *retry;    /* owned; until the next attempt */
	bool queued;
	TAILQ_ENTRY(entry) queue;
	TAILQ_ENTRY(entry) wish; /* while it is not READY */
};
TAILQ_HEAD(entry_list, entry);

struct download_cache {
	struct download_cache_options options;
	struct transfer_config transfer;
	char *dir, *program, *ca_path; /* owned */
	int dir_fd;                    /* owned */
	struct id_map *entries;        /* owned, with the entries */
	struct entry_list queue;       /* waiting for a slot */
	struct entry_list wishes;      /* all that are not READY */
	size_t n_running, n_wishes;
	sd_event_source *starter; /* owned; starts what waits, never from inside a caller's call */
};

/* --- names --- */

static void file_name(const char *digest, const char *suffix, char buf[static NAME_SIZE])
{
	(void)snprintf(buf, NAME_SIZE, "%.64s%s", digest + PREFIX_SIZE, suffix);
}

/* The digest a file name stands for; false for names that are not ours. */
static bool name_read(const char *name, char ret_digest[static SHA256_DIGEST_MAX], bool *ret_part)
{
	size_t n = strlen(name);

	*ret_part = n == 64 + sizeof(PART) - 1 && strcmp(name + 64, PART) == 0;
	if (n != 64 && !*ret_part)
		return false;
	(void)snprintf(ret_digest, SHA256_DIGEST_MAX, "sha256:%.64s", name);
	return digest_is_valid(ret_digest);
}

/* --- entries --- */

static void changed(const struct entry *entry)
{
	const struct download_cache *cache = entry->cache;

	if (cache->options.on_change)
		cache->options.on_change(entry->digest, cache->options.userdata);
}

static void queue_leave(struct entry *entry)
{
	if (entry->queued)
		TAILQ_REMOVE(&entry->cache->queue, entry, queue);
	entry->queued = false;
}

static void running_end(struct entry *entry)
{
	if (entry->status.state == DOWNLOAD_RUNNING)
		entry->cache->n_running--;
	entry->transfer = transfer_free(entry->transfer);
	if (entry->fd >= 0)
		(void)close(TAKE_FD(entry->fd));
}

/* Before it becomes READY, or goes. */
static void wish_leave(struct entry *entry)
{
	if (entry->status.state == DOWNLOAD_READY)
		return;
	TAILQ_REMOVE(&entry->cache->wishes, entry, wish);
	entry->cache->n_wishes--;
}

/* Takes it out of the cache and frees it; files stay. */
static void entry_free(struct entry *entry)
{
	struct download_cache *cache = entry->cache;

	queue_leave(entry);
	running_end(entry);
	sd_event_source_disable_unref(entry->retry);
	wish_leave(entry);
	(void)id_map_remove(cache->entries, entry->digest);
	free(entry->url);
	free(entry);
}

static struct entry *entry_new(struct download_cache *cache, const char *digest, enum download_state state)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	(void)snprintf(entry->digest, sizeof(entry->digest), "%s", digest);
	entry->cache = cache;
	entry->fd = -EBADF;
	entry->status.state = state;
	if (id_map_put(cache->entries, entry) < 0) {
		free(entry);
		return NULL;
	}
	if (state != DOWNLOAD_READY) {
		TAILQ_INSERT_TAIL(&cache->wishes, entry, wish);
		cache->n_wishes++;
	}
	return entry;
}

static void entry_ready(struct entry *entry, uint64_t size_bytes)
{
	char name[NAME_SIZE];

	wish_leave(entry);
	entry->status = (struct download_status){ .state = DOWNLOAD_READY, .size_bytes = size_bytes };
	file_name(entry->digest, "", name);
	(void)snprintf(entry->status.path, sizeof(entry->status.path), "%s/%s", entry->cache->dir, name);
	free(TAKE_PTR(entry->url));
}

/* --- attempts --- */

static void starter_arm(struct download_cache *cache)
{
	(void)sd_event_source_set_enabled(cache->starter, SD_EVENT_ONESHOT);
}

static void queue_join(struct entry *entry)
{
	struct download_cache *cache = entry->cache;

	entry->status.state = DOWNLOAD_WAITING;
	entry->status.next_attempt_usec = 0;
	entry->retry = sd_event_source_disable_unref(entry->retry);
	if (!entry->queued)
		TAILQ_INSERT_TAIL(&cache->queue, entry, queue);
	entry->queued = true;
	starter_arm(cache);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct entry *entry = userdata;

	(void)source;
	(void)usec;
	queue_join(entry);
	return 0;
}

/* min, 2 min, 4 min, … up to max, each up to a quarter shorter so that failures do not march in step. */
static uint64_t retry_pause(const struct entry *entry)
{
	uint64_t min = entry->cache->options.retry_min_usec, max = entry->cache->options.retry_max_usec;
	unsigned doublings = entry->status.failures - 1;
	uint64_t pause = doublings < 32 && min << doublings < max ? min << doublings : max;
	uint8_t jitter = 0;

	if (getrandom(&jitter, sizeof(jitter), GRND_NONBLOCK) < 0)
		jitter = 0; /* early at boot: the pause is not shortened */
	return pause - pause / 4 * jitter / UINT8_MAX;
}

static void attempt_failed(struct entry *entry, int r, const struct err *err)
{
	uint64_t pause;

	running_end(entry);
	entry->status.state = DOWNLOAD_WAITING;
	entry->status.failures++;
	entry->status.error = *err;
	if (!err->text[0])
		(void)err_set(&entry->status.error, r, "%s", strerror(-r));
	pause = retry_pause(entry);
	entry->status.next_attempt_usec = clock_realtime_usec() + pause;
	r = sd_event_add_time_relative(entry->cache->options.event, &entry->retry, CLOCK_MONOTONIC, pause,
	        USEC_PER_MSEC, on_retry, entry);
	if (r < 0) /* no memory: it waits for the next wish */
		entry->retry = NULL;
	starter_arm(entry->cache);
}

static void on_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct entry *entry = userdata;

	entry->status.done_bytes = done_bytes;
	entry->status.total_bytes = total_bytes ? total_bytes : entry->wished_bytes;
	changed(entry);
}

/* What was verified gets its name, for good. */
static int part_keep(struct entry *entry, struct err *err)
{
	char part[NAME_SIZE], name[NAME_SIZE];

	file_name(entry->digest, PART, part);
	file_name(entry->digest, "", name);
	if (fchmod(entry->fd, entry->cache->options.file_mode) < 0 || fsync(entry->fd) < 0 ||
	        renameat(entry->cache->dir_fd, part, entry->cache->dir_fd, name) < 0 ||
	        fsync(entry->cache->dir_fd) < 0)
		return err_set(
		        err, -errno, "cannot keep %s/%s: %s", entry->cache->dir, name, strerror(errno));
	return 0;
}

static void on_done(const struct transfer_result *result, void *userdata)
{
	struct entry *entry = userdata;
	struct err err = result->error;
	int r = result->r;

	if (r == 0)
		r = part_keep(entry, &err);
	if (r == 0) {
		running_end(entry);
		entry_ready(entry, result->size_bytes);
		starter_arm(entry->cache);
	} else {
		attempt_failed(entry, r, &err);
	}
	changed(entry);
}

/* What running downloads will still take of the disk, as far as it is known. */
static uint64_t outstanding_bytes(const struct download_cache *cache)
{
	uint64_t sum = 0;
	const struct entry *entry;

	TAILQ_FOREACH(entry, &cache->wishes, wish)
	if (entry->status.state == DOWNLOAD_RUNNING && entry->wished_bytes > entry->status.done_bytes)
		sum += entry->wished_bytes - entry->status.done_bytes;
	return sum;
}

/* How large the file may get: what was agreed, or what the disk has room for. */
static int room_check(struct entry *entry, uint64_t have_bytes, uint64_t *ret_max, struct err *err)
{
	const struct download_cache *cache = entry->cache;
	uint64_t taken = cache->options.reserve_bytes + outstanding_bytes(cache), free_bytes;
	uint64_t needed = entry->wished_bytes > have_bytes ? entry->wished_bytes - have_bytes : 1;
	struct statvfs fs;

	if (fstatvfs(cache->dir_fd, &fs) < 0)
		return err_set(
		        err, -errno, "cannot ask for the free space of %s: %s", cache->dir, strerror(errno));
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	free_bytes = free_bytes > taken ? free_bytes - taken : 0;
	if (entry->wished_bytes ? needed > free_bytes : free_bytes == 0)
		return err_set(err, -ENOSPC, "%s has room for %" PRIu64 " more bytes, %" PRIu64 " are needed",
		        cache->dir, free_bytes, needed);
	*ret_max = entry->wished_bytes ? entry->wished_bytes : have_bytes + free_bytes;
	return 0;
}

static int part_open(const struct entry *entry, int *ret_fd, uint64_t *ret_size, struct err *err)
{
	char name[NAME_SIZE];
	struct stat st;

	file_name(entry->digest, PART, name);
	CLEANUP_CLOSE int fd = openat(
	        entry->cache->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(
		        err, -errno, "cannot open %s/%s: %s", entry->cache->dir, name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EEXIST, "%s/%s is in the way", entry->cache->dir, name);
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool url_was_tried(const struct entry *entry, const char *url)
{
	for (size_t i = 0; i < entry->n_tried; i++)
		if (entry->tried[i] == text_hash(url))
			return true;
	return entry->n_tried == TRIED_MAX;
}

static int attempt_start(struct entry *entry, struct err *err)
{
	struct download_cache *cache = entry->cache;
	uint64_t have_bytes = 0, max_bytes = 0;
	int r = part_open(entry, &entry->fd, &have_bytes, err);

	if (!url_was_tried(entry, entry->url))
		entry->tried[entry->n_tried++] = text_hash(entry->url);
	if (r == 0)
		r = room_check(entry, have_bytes, &max_bytes, err);
	if (r < 0)
		return r;

	const struct transfer_request request = {
		.url = entry->url,
		.fd = entry->fd,
		.offset = have_bytes,
		.size_bytes = entry->wished_bytes,
		.max_bytes = max_bytes,
		.digest = entry->digest,
		.on_progress = on_progress,
		.on_done = on_done,
		.userdata = entry,
	};

	r = transfer_start(cache->options.event, &cache->transfer, &request, &entry->transfer, err);
	if (r < 0)
		return r;
	entry->status.state = DOWNLOAD_RUNNING;
	entry->status.done_bytes = have_bytes;
	entry->status.total_bytes = entry->wished_bytes;
	cache->n_running++;
	return 0;
}

static int on_start(sd_event_source *source, void *userdata)
{
	struct download_cache *cache = userdata;
	struct entry *entry;

	(void)source;
	while (cache->n_running < cache->options.n_parallel_max && (entry = TAILQ_FIRST(&cache->queue))) {
		struct err err = { 0 };
		int r;

		queue_leave(entry);
		r = attempt_start(entry, &err);
		if (r < 0)
			attempt_failed(entry, r, &err);
		changed(entry);
	}
	return 0;
}

/* --- the cache --- */

static int directory_read(struct download_cache *cache, struct err *err)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *item;
	int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return err_set(err, -errno, "cannot read %s: %s", cache->dir, strerror(errno));
	while ((errno = 0, item = readdir(dir))) {
		char digest[SHA256_DIGEST_MAX];
		struct stat st;
		bool part;

		if (!name_read(item->d_name, digest, &part) || part ||
		        fstatat(cache->dir_fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		        !S_ISREG(st.st_mode))
			continue;
		struct entry *entry = entry_new(cache, digest, DOWNLOAD_READY);

		if (!entry)
			return -ENOMEM;
		entry_ready(entry, (uint64_t)st.st_size);
	}
	return errno ? err_set(err, -errno, "cannot read %s: %s", cache->dir, strerror(errno)) : 0;
}

static int options_take(struct download_cache *cache, const struct download_cache_options *options)
{
	struct download_cache_options *own = &cache->options;

	*own = *options;
	own->dir = NULL;
	own->transfer = NULL;
	own->n_parallel_max = own->n_parallel_max ? own->n_parallel_max : PARALLEL_MAX;
	own->n_wanted_max = own->n_wanted_max ? own->n_wanted_max : WANTED_MAX;
	own->file_mode = own->file_mode ? own->file_mode : 0444;
	own->retry_min_usec = own->retry_min_usec ? own->retry_min_usec : RETRY_MIN_USEC;
	own->retry_max_usec = own->retry_max_usec ? own->retry_max_usec : RETRY_MAX_USEC;
	cache->dir = strdup(options->dir);
	cache->transfer = *options->transfer;
	if (options->transfer->program)
		cache->transfer.program = cache->program = strdup(options->transfer->program);
	if (options->transfer->ca_path)
		cache->transfer.ca_path = cache->ca_path = strdup(options->transfer->ca_path);
	return cache->dir && (!options->transfer->program || cache->program) &&
	                (!options->transfer->ca_path || cache->ca_path)
	        ? 0
	        : -ENOMEM;
}

int download_cache_open(
        const struct download_cache_options *options, struct download_cache **ret, struct err *err)
{
	CLEANUP(download_cache) struct download_cache *cache = calloc(1, sizeof(*cache));
	int r;

	if (!cache)
		return -ENOMEM;
	cache->dir_fd = -EBADF;
	TAILQ_INIT(&cache->queue);
	TAILQ_INIT(&cache->wishes);
	cache->entries = id_map_new(offsetof(struct entry, digest));
	r = options_take(cache, options);
	if (r < 0 || !cache->entries)
		return -ENOMEM;
	cache->dir_fd = open(cache->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cache->dir_fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", cache->dir, strerror(errno));
	r = sd_event_add_defer(options->event, &cache->starter, on_start, cache);
	if (r >= 0)
		r = sd_event_source_set_enabled(cache->starter, SD_EVENT_OFF);
	if (r >= 0)
		r = directory_read(cache, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(cache);
	return 0;
}

static struct entry *entry_any(struct download_cache *cache)
{
	size_t cursor = 0;

	return cache->entries ? id_map_next(cache->entries, &cursor) : NULL;
}

struct download_cache *download_cache_free(struct download_cache *cache)
{
	struct entry *entry;

	if (!cache)
		return NULL;
	while ((entry = entry_any(cache)))
		entry_free(entry);
	cache->entries = id_map_free(cache->entries);
	sd_event_source_disable_unref(cache->starter);
	if (cache->dir_fd >= 0)
		(void)close(cache->dir_fd);
	free(cache->dir);
	free(cache->program);
	free(cache->ca_path);
	free(cache);
	return NULL;
}

/* A ready file that somebody took away is not ready. */
static bool file_is_there(const struct entry *entry)
{
	char name[NAME_SIZE];
	struct stat st;

	file_name(entry->digest, "", name);
	return fstatat(entry->cache->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	        (uint64_t)st.st_size == entry->status.size_bytes;
}

static int source_take(struct entry *entry, const struct download_source *source)
{
	bool again = entry->url && strcmp(entry->url, source->url) == 0 &&
	        entry->wished_bytes == source->size_bytes;
	bool is_new;
	char *url;

	if (again || entry->status.state == DOWNLOAD_RUNNING)
		return 0;
	url = strdup(source->url);
	if (!url)
		return -ENOMEM;
	is_new = entry->url && !url_was_tried(entry, url);
	free(entry->url);
	entry->url = url;
	entry->wished_bytes = source->size_bytes;
	if (is_new)
		queue_join(entry);
	return 0;
}

int download_cache_want(
        struct download_cache *cache, const struct download_source *source, struct download_status *ret)
{
	struct entry *entry = id_map_get(cache->entries, source->digest);
	int r;

	if (entry && entry->status.state == DOWNLOAD_READY) {
		if (file_is_there(entry)) {
			if (ret)
				*ret = entry->status;
			return 0;
		}
		entry_free(entry);
		entry = NULL;
	}
	if (!entry) {
		if (cache->n_wishes >= cache->options.n_wanted_max || !digest_is_valid(source->digest))
			return -EAGAIN;
		entry = entry_new(cache, source->digest, DOWNLOAD_WAITING);
		if (!entry)
			return -EAGAIN;
	}
	r = source_take(entry, source);
	if (r < 0)
		return -EAGAIN;
	if (entry->status.state == DOWNLOAD_WAITING && !entry->queued && !entry->retry)
		queue_join(entry);
	if (ret)
		*ret = entry->status;
	return -EINPROGRESS;
}

void download_cache_get(struct download_cache *cache, const char *digest, struct download_status *ret)
{
	const struct entry *entry = id_map_get(cache->entries, digest);

	*ret = entry ? entry->status : (struct download_status){ .state = DOWNLOAD_ABSENT };
}

void download_cache_retry(struct download_cache *cache, const char *digest)
{
	struct entry *entry = id_map_get(cache->entries, digest);

	if (!entry || !entry->retry)
		return;
	entry->status.failures = 0;
	entry->n_tried = 0;
	queue_join(entry);
}

/* --- what nobody uses --- */

static uint64_t stat_usec(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st->st_mtim.tv_nsec / NSEC_PER_USEC;
}

static uint64_t file_collect(struct download_cache *cache, const char *name, const struct stat *st,
        bool in_use, const char *digest, uint64_t keep_usec)
{
	uint64_t now = clock_realtime_usec(), used = stat_usec(st);

	if (in_use) {
		if (used + TOUCH_USEC < now)
			(void)utimensat(cache->dir_fd, name, NULL, AT_SYMLINK_NOFOLLOW);
		return 0;
	}
	if (keep_usec && used + keep_usec > now)
		return 0;

	struct entry *entry = id_map_get(cache->entries, digest);

	if (entry)
		entry_free(entry);
	return unlinkat(cache->dir_fd, name, 0) == 0 ? (uint64_t)st->st_blocks * 512 : 0;
}

bool download_cache_has_wishes(const struct download_cache *cache)
{
	return cache->n_wishes > 0;
}

void download_cache_end_unwanted(
        struct download_cache *cache, bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	struct entry *next;

	for (struct entry *entry = TAILQ_FIRST(&cache->wishes); entry; entry = next) {
		next = TAILQ_NEXT(entry, wish);
		if (!in_use(entry->digest, userdata))
			entry_free(entry);
	}
	starter_arm(cache);
}

uint64_t download_cache_collect(struct download_cache *cache, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *item;
	uint64_t freed = 0;
	int fd;

	download_cache_end_unwanted(cache, in_use, userdata);
	fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	while (dir && (item = readdir(dir))) {
		char digest[SHA256_DIGEST_MAX];
		struct stat st;
		bool part;

		if (name_read(item->d_name, digest, &part) &&
		        fstatat(cache->dir_fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		        S_ISREG(st.st_mode))
			freed += file_collect(
			        cache, item->d_name, &st, in_use(digest, userdata), digest, keep_usec);
	}
	return freed;
}
