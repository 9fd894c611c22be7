/* Snapshots on their way out and in: data_dir/snapshots/<name>.tar.
 *
 * Out: a runtime writes the tar to a staging path, it is uploaded (file: or https: PUT) with retries while its
 * digest is compared with the runtime's, then removed. In: a download_cache of its own in data_dir/snapshots/restore.
 * What a crash, ours or a runtime's, leaves of the first kind is removed at open: its command is repeated by whoever gave it. Loop thread
 * only. */
#pragma once

#include "svc-converger/download_cache.h"

struct snapshot_store;
struct snapshot_upload;

struct snapshot_store_options {
	struct download_cache_options
	        restore;      /* dir is data_dir/snapshots; the other members as for any cache */
	size_t n_uploads_max; /* staged or uploading at once; 0: 16 */
};

int snapshot_store_open(
        const struct snapshot_store_options *options, struct snapshot_store **ret, struct err *err);
struct snapshot_store *snapshot_store_free(
        struct snapshot_store *store); /* ends uploads; their done does not run */
CLEANUP_DEFINE(snapshot_store, snapshot_store_free)

/* --- out --- */

struct snapshot_result {
	int r; /* 0 or -errno: -ECANCELED, -EBADMSG when the tar is not what the runtime hashed, … */
	struct err error;
	char digest[72];
	uint64_t size_bytes;
};

/* A staging path for a snapshot of about estimate_bytes (memory and allocated disks). command_id names it for
 * idempotency: -EALREADY while one of that id is under way. -ENOSPC when the disk could not hold it, -EAGAIN
 * when too many are under way. The upload is owned by the store; it ends with _cancel() or with done. */
int snapshot_store_stage(struct snapshot_store *store, const char *command_id, uint64_t estimate_bytes,
        struct snapshot_upload **ret, struct err *err);
const char *snapshot_upload_path(const struct snapshot_upload *upload);
struct snapshot_upload_handlers {
	void (*on_progress)(
	        uint64_t done_bytes, uint64_t total_bytes, void *userdata); /* may be NULL, as the next */
	/* An attempt has failed; another one is made after the pause. */
	void (*on_pause)(const struct err *why, uint64_t pause_usec, void *userdata);
	void (*on_done)(const struct snapshot_result *result, void *userdata);
};
/* The runtime is done and said digest and size_bytes. on_done runs exactly once, on the loop and never from inside this
 * call, unless it is cancelled; the staging file is gone by then, and the upload with it. Failed attempts are made again,
 * with the options' pauses, up to SNAPSHOT_ATTEMPTS_MAX or until trying again is useless (403, 404, a wrong digest).
 * handlers is weak. -errno: nothing was started, the upload is to be cancelled. */
enum { SNAPSHOT_ATTEMPTS_MAX = 8 };
int snapshot_upload_start(struct snapshot_upload *upload, const char *url, const char *digest,
        uint64_t size_bytes, const struct snapshot_upload_handlers *handlers, void *userdata,
        struct err *err);
/* Ends what is under way, removes the staging file and frees. done does not run. */
void snapshot_upload_cancel(struct snapshot_upload *upload);

/* --- in --- */

/* As download_cache_want(): 0 when the verified tar is at ret->path. */
int snapshot_store_want(
        struct snapshot_store *store, const struct download_source *source, struct download_status *ret);
/* Without a wish. */
void snapshot_store_get(struct snapshot_store *store, const char *digest, struct download_status *ret);
void snapshot_store_retry(struct snapshot_store *store, const char *digest);
/* As of the cache. */
bool snapshot_store_has_wishes(const struct snapshot_store *store);
void snapshot_store_end_unwanted(
        struct snapshot_store *store, bool (*in_use)(const char *digest, void *userdata), void *userdata);
uint64_t snapshot_store_collect(struct snapshot_store *store, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata);
