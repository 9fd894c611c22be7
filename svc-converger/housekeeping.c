#include "svc-converger/housekeeping.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "svc-converger/runtimes.h"

#include <stdio.h>
#include <string.h>

#define PERIOD_USEC (60 * USEC_PER_SEC)
enum { COLLECT_ROUNDS = 60 }; /* the directories are looked over once in so many rounds */

struct housekeeping {
	struct converger *c;    /* weak */
	sd_event_source *timer; /* owned */
	unsigned n_rounds;
};

/* Digests somebody uses, for one look. */
struct digest {
	char text[72]; /* the key */
};

static int digest_add(struct id_map *digests, const char *text)
{
	struct digest *digest;

	if (!text[0] || id_map_get(digests, text))
		return 0;
	digest = calloc(1, sizeof(*digest));
	if (!digest)
		return -ENOMEM;
	(void)snprintf(digest->text, sizeof(digest->text), "%s", text);
	if (id_map_put(digests, digest) < 0) {
		free(digest);
		return -ENOMEM;
	}
	return 0;
}

static struct id_map *digests_free(struct id_map *digests)
{
	size_t cursor = 0;
	struct digest *digest;

	while (digests && (digest = id_map_next(digests, &cursor)))
		free(digest);
	return id_map_free(digests);
}

/* Every runtime that was ever heard of tells all it has. */
static bool all_is_known(const struct converger *c)
{
	size_t cursor = 0;
	const struct runtime_link *link;

	if (runtimes_nameless(c->runtimes))
		return false;
	while ((link = runtimes_next(c->runtimes, &cursor)))
		if (!runtime_link_is_refused(link) && runtime_link_id(link)[0] &&
		        !runtime_link_is_known(link))
			return false;
	return true;
}

static const struct domain *domain_find(const struct converger *c, const char *id)
{
	size_t cursor = 0;
	const struct runtime_link *link;
	const struct domain *domain = NULL;

	while (!domain && (link = runtimes_next(c->runtimes, &cursor)))
		domain = runtime_link_domain(link, id);
	return domain;
}

/* A restore is used until there is a domain that was made from it. */
static int spec_digests(const struct converger *c, const struct instance *instance, struct id_map *images,
        struct id_map *restores)
{
	Bc__V1__InstanceSpec *spec;
	int r = 0;

	if (!instance->spec || (!instance->spec->has_image && !instance->spec->has_restore))
		return 0;
	spec = instance_spec_unpack(instance->spec);
	if (!spec)
		return -ENOMEM;
	if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE)
		r = digest_add(images, spec->boot->image->digest);
	if (r == 0 && spec->restore_from && !domain_find(c, instance->id))
		r = digest_add(restores, spec->restore_from->digest);
	bc__v1__instance_spec__free_unpacked(spec, NULL);
	return r;
}

static int domain_digests(const struct converger *c, struct id_map *images)
{
	size_t at_link = 0;
	const struct runtime_link *link;
	int r = 0;

	while (r == 0 && (link = runtimes_next(c->runtimes, &at_link))) {
		size_t at_domain = 0;
		const struct domain *domain;

		while (r == 0 && (domain = runtime_link_next(link, &at_domain))) {
			Bc__V1__Domain *message = domain_unpack(domain);

			r = message ? digest_add(images, message->image_digest) : -ENOMEM;
			if (message)
				bc__v1__domain__free_unpacked(message, NULL);
		}
	}
	return r;
}

static bool is_in(const char *digest, void *userdata)
{
	return id_map_get(userdata, digest) != NULL;
}

struct uses {
	struct id_map *images, *restores; /* owned, as what is in them */
};

static void uses_done(struct uses *uses)
{
	uses->images = digests_free(uses->images);
	uses->restores = digests_free(uses->restores);
}
#define CLEANUP_USES __attribute__((cleanup(uses_done)))

/* What specs wish for. */
static int uses_of_specs(const struct converger *c, struct uses *ret)
{
	const struct instance *instance;
	size_t cursor = 0;
	int r;

	ret->images = id_map_new(offsetof(struct digest, text));
	ret->restores = id_map_new(offsetof(struct digest, text));
	r = ret->images && ret->restores ? 0 : -ENOMEM;
	while (r == 0 && (instance = id_map_next(c->instances, &cursor)))
		r = spec_digests(c, instance, ret->images, ret->restores);
	return r;
}

static void stores_collect(struct converger *c)
{
	CLEANUP_USES struct uses uses = { 0 };
	int r = uses_of_specs(c, &uses);
	uint64_t freed;

	if (r == 0)
		r = domain_digests(c, uses.images);
	if (r < 0)
		return; /* what is used is not known, and nothing is removed */
	freed = image_store_collect(c->images, c->options.image_keep_usec, is_in, uses.images) +
	        snapshot_store_collect(c->snapshots, c->options.image_keep_usec, is_in, uses.restores);
	if (freed)
		converger_event(c, EVENT_INFO, "", "ImagesCollected",
		        "%llu MiB of images and snapshots nobody uses were removed",
		        (unsigned long long)(freed >> 20));
}

/* Specs alone say what is fetched, whatever runtimes can tell: an instance that was dropped may have wished for what
 * fills the disk. */
static void downloads_end(struct converger *c)
{
	CLEANUP_USES struct uses uses = { 0 };

	if (!image_store_has_wishes(c->images) && !snapshot_store_has_wishes(c->snapshots))
		return;
	if (uses_of_specs(c, &uses) < 0)
		return;
	image_store_end_unwanted(c->images, is_in, uses.images);
	snapshot_store_end_unwanted(c->snapshots, is_in, uses.restores);
}

/* --- claims --- */

struct stale {
	const struct converger *c;  /* weak */
	char (*ids)[UUID_TEXT_MAX]; /* owned */
	size_t n;
};

/* One of an instance that there is, is the reconciler's to judge. */
static void on_claim(const char *instance_id, void *userdata)
{
	struct stale *stale = userdata;
	const struct domain *domain = domain_find(stale->c, instance_id);
	char(*ids)[UUID_TEXT_MAX];

	if (converger_instance(stale->c, instance_id) || (domain && domain_is_up(domain)))
		return;
	ids = reallocarray(stale->ids, stale->n + 1, sizeof(*ids));
	if (!ids)
		return; /* the next round */
	stale->ids = ids;
	(void)snprintf(ids[stale->n++], UUID_TEXT_MAX, "%s", instance_id);
}

static void claims_release(struct converger *c)
{
	struct stale stale = { .c = c };

	volume_store_each_claim(c->volumes, on_claim, &stale);
	for (size_t i = 0; i < stale.n; i++)
		volume_store_release(c->volumes, stale.ids[i]);
	free(stale.ids);
}

/* --- rounds --- */

void housekeeping_run(struct housekeeping *h)
{
	struct converger *c = h->c;

	if (c->is_stopping)
		return;
	(void)volume_store_refresh(c->volumes);
	downloads_end(c);
	if (!all_is_known(c))
		return; /* what was due is done in the first round in which all is */
	claims_release(c);
	if (h->n_rounds++ % COLLECT_ROUNDS == 0)
		stores_collect(c);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct housekeeping *h = userdata;

	(void)usec;
	housekeeping_run(h);
	(void)sd_event_source_set_time_relative(source, PERIOD_USEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int housekeeping_new(struct converger *c, struct housekeeping **ret)
{
	struct housekeeping *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->c = c;
	r = sd_event_add_time_relative(
	        loop_event(c->loop), &h->timer, CLOCK_MONOTONIC, PERIOD_USEC, USEC_PER_SEC, on_timer, h);
	if (r < 0) {
		free(h);
		return r;
	}
	(void)sd_event_source_set_description(h->timer, "housekeeping");
	*ret = h;
	return 0;
}

struct housekeeping *housekeeping_free(struct housekeeping *h)
{
	if (!h)
		return NULL;
	sd_event_source_disable_unref(h->timer);
	free(h);
	return NULL;
}
