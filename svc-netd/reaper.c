#include "svc-netd/reaper.h"

#include "svc-netd/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum {
	/* The kernel's lock on all interfaces is held some 0.2 ms for each. */
	BATCH_MAX = 32,
};

struct reaper {
	pthread_mutex_t lock; /* all of the below */
	int *pending;         /* owned: ifindexes, in the order they came */
	size_t n, capacity;
	uint32_t next_group;
};

struct reaper *reaper_new(void)
{
	struct reaper *reaper = calloc(1, sizeof(*reaper));

	if (!reaper)
		return NULL;
	(void)pthread_mutex_init(&reaper->lock, NULL);
	return reaper;
}

struct reaper *reaper_free(struct reaper *reaper)
{
	if (!reaper)
		return NULL;
	(void)pthread_mutex_destroy(&reaper->lock);
	free(reaper->pending);
	free(reaper);
	return NULL;
}

static int pending_add(struct reaper *reaper, int ifindex)
{
	int r = 0;

	(void)pthread_mutex_lock(&reaper->lock);
	if (reaper->n == reaper->capacity) {
		size_t capacity = reaper->capacity ? reaper->capacity * 2 : 64;
		int *pending = reallocarray(reaper->pending, capacity, sizeof(*pending));

		if (pending) {
			reaper->pending = pending;
			reaper->capacity = capacity;
		} else {
			r = -ENOMEM;
		}
	}
	if (r == 0)
		reaper->pending[reaper->n++] = ifindex;
	(void)pthread_mutex_unlock(&reaper->lock);
	return r;
}

int reaper_doom(struct reaper *reaper, struct netlink *nl, const struct link *link)
{
	int r = link_doom(nl, link, LINK_GROUP_DOOMED);

	if (r == 0 && pending_add(reaper, link->ifindex) < 0)
		r = link_delete(nl, link->ifindex);
	return r;
}

void reaper_adopt(struct reaper *reaper, const struct link *link)
{
	/* Out of memory it waits for yet another life. */
	(void)pending_add(reaper, link->ifindex);
}

size_t reaper_pending(struct reaper *reaper)
{
	size_t n;

	(void)pthread_mutex_lock(&reaper->lock);
	n = reaper->n;
	(void)pthread_mutex_unlock(&reaper->lock);
	return n;
}

static size_t pending_take(struct reaper *reaper, int ret[static BATCH_MAX], uint32_t *ret_group)
{
	size_t n;

	(void)pthread_mutex_lock(&reaper->lock);
	n = reaper->n < BATCH_MAX ? reaper->n : BATCH_MAX;
	for (size_t i = 0; i < n; i++)
		ret[i] = reaper->pending[i];
	reaper->n -= n;
	for (size_t i = 0; i < reaper->n; i++)
		reaper->pending[i] = reaper->pending[i + n];
	/* Never LINK_GROUP_DOOMED itself, where interfaces arrive meanwhile. */
	reaper->next_group = reaper->next_group % (LINK_GROUP_DOOMED_COUNT - 1) + 1;
	*ret_group = LINK_GROUP_DOOMED + reaper->next_group;
	(void)pthread_mutex_unlock(&reaper->lock);
	return n;
}

/* A group is deleted whoever is in it: each interface is looked at once more, then put in a group of this
 * batch. */
static bool group_join(struct netlink *nl, int ifindex, uint32_t group)
{
	struct link link;

	return link_get_index(nl, ifindex, &link) == 0 && link_is_doomed(&link) &&
	        link_set_group(nl, ifindex, group) == 0;
}

static int batch_run(struct reaper *reaper, struct netlink *nl, int *ret_n)
{
	int batch[BATCH_MAX];
	uint32_t group;
	size_t n = pending_take(reaper, batch, &group), n_joined = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		if (group_join(nl, batch[i], group))
			batch[n_joined++] = batch[i];
	}
	if (n_joined == 1)
		r = link_delete(nl, batch[0]);
	else if (n_joined > 1)
		r = link_delete_group(nl, group);
	for (size_t i = 0; r < 0 && i < n_joined; i++)
		(void)pending_add(reaper, batch[i]);
	*ret_n += r < 0 ? 0 : (int)n_joined;
	return r;
}

int reaper_run(struct reaper *reaper, struct netlink *nl)
{
	int n = 0, r = 0;

	while (r == 0 && reaper_pending(reaper) > 0)
		r = batch_run(reaper, nl, &n);
	return r < 0 ? r : n;
}
