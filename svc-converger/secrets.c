#include "svc-converger/secrets.h"

#include "lib/base/ids.h"
#include "lib/base/quote.h"
#include "svc-converger/id_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum wish_state {
	WISH_QUEUED, /* too many are open */
	WISH_OPEN,
	WISH_REFUSED, /* open too: another session, or the same later, may do better */
	WISH_HERE,
};

struct wish {
	char instance_id[UUID_TEXT_MAX];
	char allocation_id[ALLOCATION_ID_MAX];
	char ref[SECRET_REF_MAX];
	char request_id[SECRET_REQUEST_MAX]; /* the instance id, a dot, a number */
	enum wish_state state;
	uint64_t number;       /* of the request; askers have been asked up to a number */
	struct secret *secret; /* owned; when HERE */
	char why[192];
	struct wish *next; /* weak; of all, oldest first */
};

struct secrets {
	struct id_map *by_instance; /* owned, as the wishes are */
	struct wish *first, *last;  /* weak; in order of number */
	size_t n_open;
	uint64_t numbers;
	struct secret_asker *askers; /* weak; a list */
	void (*on_change)(const char *instance_id, void *userdata);
	void *userdata; /* weak */
};

struct secret_asker {
	struct secrets *secrets;   /* weak */
	struct secret_asker *next; /* weak */
	uint64_t asked;            /* every open request up to this number */
	bool (*ask)(const struct secret_request *request, void *userdata);
	void *userdata; /* weak */
};

struct secrets *secrets_new(void (*on_change)(const char *instance_id, void *userdata), void *userdata)
{
	struct secrets *secrets = calloc(1, sizeof(*secrets));

	if (!secrets)
		return NULL;
	secrets->by_instance = id_map_new(offsetof(struct wish, instance_id));
	if (!secrets->by_instance) {
		free(secrets);
		return NULL;
	}
	secrets->on_change = on_change;
	secrets->userdata = userdata;
	return secrets;
}

static bool wish_is_open(const struct wish *wish)
{
	return wish->state != WISH_QUEUED;
}

/* Out of the order; the caller decides whether it goes on living. */
static void wish_unlink(struct secrets *secrets, struct wish *wish)
{
	struct wish *before = NULL;

	for (struct wish *w = secrets->first; w != wish; w = w->next)
		before = w;
	if (before)
		before->next = wish->next;
	else
		secrets->first = wish->next;
	if (secrets->last == wish)
		secrets->last = before;
	wish->next = NULL;
	if (wish_is_open(wish))
		secrets->n_open--;
	wish->secret = secret_free(wish->secret);
}

static void wish_append(struct secrets *secrets, struct wish *wish)
{
	wish->number = ++secrets->numbers;
	(void)snprintf(
	        wish->request_id, sizeof(wish->request_id), "%s.%" PRIu64, wish->instance_id, wish->number);
	wish->state = WISH_QUEUED;
	if (secrets->last)
		secrets->last->next = wish;
	else
		secrets->first = wish;
	secrets->last = wish;
}

struct secrets *secrets_free(struct secrets *secrets)
{
	if (!secrets)
		return NULL;
	assert(!secrets->askers);
	while (secrets->first) {
		struct wish *wish = secrets->first;

		wish_unlink(secrets, wish);
		free(wish);
	}
	id_map_free(secrets->by_instance);
	free(secrets);
	return NULL;
}

static void asker_run(struct secret_asker *asker)
{
	for (struct wish *wish = asker->secrets->first; wish; wish = wish->next) {
		struct secret_request request = {
			.request_id = wish->request_id,
			.instance_id = wish->instance_id,
			.allocation_id = wish->allocation_id,
			.ref = wish->ref,
		};

		if (wish->number <= asker->asked || wish->state == WISH_HERE)
			continue;
		if (wish->state == WISH_QUEUED)
			return; /* and so are all behind it */
		if (!asker->ask(&request, asker->userdata))
			return;
		asker->asked = wish->number;
	}
}

/* Opens what may be opened, and asks. */
static void secrets_run(struct secrets *secrets)
{
	for (struct wish *wish = secrets->first; wish && secrets->n_open < SECRETS_OPEN_MAX;
	        wish = wish->next) {
		if (wish->state != WISH_QUEUED)
			continue;
		wish->state = WISH_OPEN;
		secrets->n_open++;
	}
	for (struct secret_asker *asker = secrets->askers; asker; asker = asker->next)
		asker_run(asker);
}

static bool wish_is_for(const struct wish *wish, const char *allocation_id, const char *ref)
{
	return strcmp(wish->allocation_id, allocation_id) == 0 && strcmp(wish->ref, ref) == 0;
}

static const char *wish_why(const struct secrets *secrets, struct wish *wish)
{
	if (wish->state == WISH_REFUSED)
		return wish->why;
	if (!secrets->askers)
		return "no control plane session is there to give it";
	return wish->state == WISH_QUEUED ? "others are asked for first" : "asked for, not answered yet";
}

bool secrets_want(struct secrets *secrets, const char *instance_id, const char *allocation_id,
        const char *ref, const char **ret_why)
{
	struct wish *wish = id_map_get(secrets->by_instance, instance_id);

	*ret_why = "";
	if (wish && wish_is_for(wish, allocation_id, ref)) {
		if (wish->state == WISH_HERE)
			return true;
		*ret_why = wish_why(secrets, wish);
		return false;
	}
	if (wish) {
		wish_unlink(secrets, wish);
	} else {
		wish = calloc(1, sizeof(*wish));
		if (!wish || strlen(instance_id) >= sizeof(wish->instance_id)) {
			free(wish);
			*ret_why = "out of memory";
			return false;
		}
		strcpy(wish->instance_id, instance_id);
		if (id_map_put(secrets->by_instance, wish) < 0) {
			free(wish);
			*ret_why = "out of memory";
			return false;
		}
	}
	(void)snprintf(wish->allocation_id, sizeof(wish->allocation_id), "%s", allocation_id);
	(void)snprintf(wish->ref, sizeof(wish->ref), "%s", ref);
	wish_append(secrets, wish);
	secrets_run(secrets);
	*ret_why = wish_why(secrets, wish);
	return false;
}

static void wish_drop(struct secrets *secrets, struct wish *wish)
{
	(void)id_map_remove(secrets->by_instance, wish->instance_id);
	wish_unlink(secrets, wish);
	free(wish);
	secrets_run(secrets);
}

struct secret *secrets_take(
        struct secrets *secrets, const char *instance_id, const char *allocation_id, const char *ref)
{
	struct wish *wish = id_map_get(secrets->by_instance, instance_id);
	struct secret *secret;

	if (!wish || wish->state != WISH_HERE || !wish_is_for(wish, allocation_id, ref))
		return NULL;
	secret = TAKE_PTR(wish->secret);
	wish_drop(secrets, wish);
	return secret;
}

void secrets_forget(struct secrets *secrets, const char *instance_id)
{
	struct wish *wish = id_map_get(secrets->by_instance, instance_id);

	if (wish)
		wish_drop(secrets, wish);
}

void secrets_retry(struct secrets *secrets, const char *instance_id)
{
	struct wish *wish = id_map_get(secrets->by_instance, instance_id);

	if (!wish || wish->state != WISH_REFUSED)
		return;
	wish_unlink(secrets, wish);
	wish_append(secrets, wish);
	secrets_run(secrets);
}

size_t secrets_open(const struct secrets *secrets)
{
	return secrets->n_open;
}

struct secret_asker *secret_asker_new(struct secrets *secrets,
        bool (*ask)(const struct secret_request *request, void *userdata), void *userdata)
{
	struct secret_asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return NULL;
	asker->secrets = secrets;
	asker->ask = ask;
	asker->userdata = userdata;
	asker->next = secrets->askers;
	secrets->askers = asker;
	asker_run(asker);
	return asker;
}

struct secret_asker *secret_asker_free(struct secret_asker *asker)
{
	if (!asker)
		return NULL;
	struct secret_asker **link = &asker->secrets->askers;
	while (*link != asker)
		link = &(*link)->next;
	*link = asker->next;
	free(asker);
	return NULL;
}

void secret_asker_resume(struct secret_asker *asker)
{
	asker_run(asker);
}

enum secret_verdict secrets_answer(
        struct secrets *secrets, const char *request_id, const void *value, size_t size, const char *error)
{
	char instance_id[UUID_TEXT_MAX];
	char words[160];
	const char *dot = strchr(request_id, '.');
	struct wish *wish;

	if (!dot || (size_t)(dot - request_id) >= sizeof(instance_id))
		return SECRET_E_UNKNOWN;
	(void)snprintf(instance_id, sizeof(instance_id), "%.*s", (int)(dot - request_id), request_id);
	wish = id_map_get(secrets->by_instance, instance_id);
	if (!wish || strcmp(wish->request_id, request_id) != 0 || !wish_is_open(wish) ||
	        wish->state == WISH_HERE)
		return SECRET_E_UNKNOWN;
	if (*error || size > SECRET_SIZE_MAX || secret_new(value, size, &wish->secret) < 0) {
		if (*error)
			(void)snprintf(wish->why, sizeof(wish->why), "it was refused: %s",
			        quote_text(error, words, sizeof(words)));
		else
			(void)snprintf(wish->why, sizeof(wish->why),
			        "the answer has %zu bytes, at most %d can be taken", size, SECRET_SIZE_MAX);
		wish->state = WISH_REFUSED;
		secrets->on_change(wish->instance_id, secrets->userdata);
		return *error ? SECRET_TAKEN : SECRET_E_TOO_LARGE;
	}
	wish->state = WISH_HERE;
	secrets->on_change(wish->instance_id, secrets->userdata);
	return SECRET_TAKEN;
}
