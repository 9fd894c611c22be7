#include "svc-converger/image_store.h"

#include "lib/base/sha256.h"
#include "lib/image/image.h"
#include "svc-converger/id_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { FORMATS = 2 };

/* Whether a file may be a base image of a format. It never changes: the digest names the content. */
struct verdict {
	bool known;
	int r;
	uint64_t virtual_bytes;
	struct err err;
};

struct judged {
	char digest[SHA256_DIGEST_MAX];   /* the key */
	struct verdict verdicts[FORMATS]; /* by enum image_format */
};

struct image_store {
	struct download_cache *cache; /* owned */
	struct id_map *judged;        /* owned, with what is in it */
};

static void judged_forget(struct image_store *store)
{
	size_t cursor = 0;
	struct judged *judged;

	while ((judged = id_map_next(store->judged, &cursor))) {
		(void)id_map_remove(store->judged, judged->digest);
		free(judged);
		cursor = 0;
	}
}

int image_store_open(const struct download_cache_options *options, struct image_store **ret, struct err *err)
{
	CLEANUP(image_store) struct image_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	store->judged = id_map_new(offsetof(struct judged, digest));
	if (!store->judged)
		return -ENOMEM;
	r = download_cache_open(options, &store->cache, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(store);
	return 0;
}

struct image_store *image_store_free(struct image_store *store)
{
	if (!store)
		return NULL;
	if (store->judged)
		judged_forget(store);
	(void)id_map_free(store->judged);
	(void)download_cache_free(store->cache);
	free(store);
	return NULL;
}

static void judge(const char *path, enum image_format format, struct verdict *ret)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	*ret = (struct verdict){ .known = true };
	if (fd < 0)
		ret->r = err_set(&ret->err, -errno, "cannot open %s: %s", path, strerror(errno));
	else
		ret->r = image_check_base(fd, format, &ret->virtual_bytes, &ret->err);
	/* A disk that could not be read says nothing about the image. */
	if (ret->r < 0 && ret->r != -EINVAL)
		ret->known = false;
}

static int verdict_get(struct image_store *store, const char *digest, const char *path,
        enum image_format format, struct verdict *ret)
{
	struct judged *judged = id_map_get(store->judged, digest);

	if (!judged) {
		judged = calloc(1, sizeof(*judged));
		if (!judged)
			return -ENOMEM;
		(void)snprintf(judged->digest, sizeof(judged->digest), "%s", digest);
		if (id_map_put(store->judged, judged) < 0) {
			free(judged);
			return -ENOMEM;
		}
	}
	if (!judged->verdicts[format].known)
		judge(path, format, &judged->verdicts[format]);
	*ret = judged->verdicts[format];
	return ret->r;
}

int image_store_want(
        struct image_store *store, const Bc__V1__ImageBoot *boot, struct image *ret, struct err *err)
{
	const struct download_source source = {
		.digest = boot->digest,
		.url = boot->source_url,
		.size_bytes = boot->size_bytes,
	};
	enum image_format format =
	        boot->format == BC__V1__IMAGE_BOOT__FORMAT__QCOW2 ? IMAGE_QCOW2 : IMAGE_RAW;
	struct verdict verdict = { 0 };
	int r;

	*ret = (struct image){ 0 };
	r = download_cache_want(store->cache, &source, &ret->download);
	if (r < 0)
		return r;
	r = verdict_get(store, boot->digest, ret->download.path, format, &verdict);
	if (r < 0)
		return err_set(err, r, "the image cannot be used as %s: %s", image_format_to_string(format),
		        err_text(&verdict.err, r));
	ret->virtual_bytes = verdict.virtual_bytes;
	return 0;
}

void image_store_get(struct image_store *store, const char *digest, struct image *ret)
{
	*ret = (struct image){ 0 };
	download_cache_get(store->cache, digest, &ret->download);
}

void image_store_retry(struct image_store *store, const char *digest)
{
	download_cache_retry(store->cache, digest);
}

bool image_store_has_wishes(const struct image_store *store)
{
	return download_cache_has_wishes(store->cache);
}

void image_store_end_unwanted(
        struct image_store *store, bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	download_cache_end_unwanted(store->cache, in_use, userdata);
}

uint64_t image_store_collect(struct image_store *store, uint64_t keep_usec,
        bool (*in_use)(const char *digest, void *userdata), void *userdata)
{
	judged_forget(store); /* so that it never outgrows what is in the directory for long */
	return download_cache_collect(store->cache, keep_usec, in_use, userdata);
}
