/* Base images: data_dir/images/<64 hex of the digest>. A download_cache, and the rule that an image is what its
 * spec states: a qcow2 with a backing file, an external data file or encryption is never handed out, nor a file
 * that is plainly of another format. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include "svc-converger/download_cache.h"

struct image_store;

struct image {
	struct download_status download;
	uint64_t virtual_bytes; /* the disk a guest would see; when ready */
};

/* options->dir is data_dir/images. */
int image_store_open(const struct download_cache_options *options, struct image_store **ret, struct err *err);
struct image_store *image_store_free(struct image_store *store);
CLEANUP_DEFINE(image_store, image_store_free)

/* States the wish for an image; one that is there is judged (once per digest and format). 0: ret->download.path
 * may be used. -EINPROGRESS, -EAGAIN: as of download_cache_want(). -EINVAL, with words: it never may be. */
int image_store_want(
        struct image_store *store, const Bc__V1__ImageBoot *boot, struct image *ret, struct err *err);
void image_store_get(
        struct image_store *store, const char *digest, struct image *ret); /* no wish, no verdict */
void image_store_retry(struct image_store *store, const char *digest);
/* As of the cache. */
bool image_store_has_wishes(const struct image_store *store);
void image_store_end_unwanted(
        struct image_store *store, bool (*in_use)(const char *digest, void *userdata), void *userdata);
uint64_t image_store_collect(struct image_store *store, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata);
