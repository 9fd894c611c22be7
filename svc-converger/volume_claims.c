#include "svc-converger/volume_claims.h"

#include "lib/base/atomic_file.h"
#include "svc-converger/id_map.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { CLAIM_FILE_MAX = 64 * 1024 };

struct use {
	char volume_id[VOLUME_ID_MAX];
	bool read_only;
};

/* What an instance has, or is to have, open. */
struct uses {
	struct use *items; /* owned */
	size_t n;
};

struct waiter {
	struct waiter *next;
	uint64_t generation; /* served when that one is on disk */
	void (*done)(int r, void *userdata);
	void *userdata;
};

struct claim {
	char instance_id[UUID_TEXT_MAX]; /* the key */
	struct uses uses;                /* in force; none: the claim is to be taken off the disk */
	struct uses written;             /* on disk */
	uint64_t generation, written_generation;
	bool busy;              /* a job of it is under way */
	struct waiter *waiters; /* owned */
};

/* The users of one volume, as the claims in force say. */
struct used {
	char volume_id[VOLUME_ID_MAX]; /* the key */
	struct volume_user *users;     /* owned */
	size_t n_users;
};

struct volume_claims {
	char *dir;             /* owned */
	int dir_fd;            /* owned */
	struct job_pool *pool; /* weak */
	void (*on_change)(const char *volume_id, void *userdata);
	void *userdata;
	struct id_map *claims; /* owned, with what is in it */
	struct id_map *used;   /* likewise */
};

struct claim_job {
	struct job job;
	struct volume_claims *claims; /* weak */
	char instance_id[UUID_TEXT_MAX];
	char *text; /* owned; NULL: remove the file */
	size_t n_text;
	struct uses uses; /* owned; what text says */
	uint64_t generation;
	int dir_fd; /* weak */
	int r;
};

/* --- sets of uses --- */

static void uses_done(struct uses *uses)
{
	free(uses->items);
	*uses = (struct uses){ 0 };
}

static int uses_add(struct uses *uses, const char *volume_id, bool read_only)
{
	struct use *items = reallocarray(uses->items, uses->n + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	uses->items = items;
	(void)snprintf(items[uses->n].volume_id, sizeof(items[0].volume_id), "%s", volume_id);
	items[uses->n++].read_only = read_only;
	return 0;
}

static int uses_copy(const struct uses *from, struct uses *ret)
{
	struct uses copy = { 0 };

	for (size_t i = 0; i < from->n; i++)
		if (uses_add(&copy, from->items[i].volume_id, from->items[i].read_only) < 0) {
			uses_done(&copy);
			return -ENOMEM;
		}
	*ret = copy;
	return 0;
}

/* "data-1 rw\n" for each. NULL: no memory. */
static char *uses_format(const struct uses *uses, size_t *ret_size)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	for (size_t i = 0; i < uses->n; i++)
		(void)fprintf(
		        to, "%s %s\n", uses->items[i].volume_id, uses->items[i].read_only ? "ro" : "rw");
	if (fclose(to) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int uses_parse(char *text, size_t n_text, struct uses *ret)
{
	char *line = text;
	int r = strlen(text) == n_text ? 0 : -EBADMSG;

	while (r == 0 && *line) {
		char *end = strchr(line, '\n'), *mode = strchr(line, ' ');

		if (!end || !mode || mode > end)
			return -EBADMSG;
		*end = *mode++ = '\0';
		if (!volume_id_is_valid(line) || (strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0))
			return -EBADMSG;
		r = uses_add(ret, line, strcmp(mode, "ro") == 0);
		line = end + 1;
	}
	return r;
}

/* --- users of volumes --- */

static struct used *used_get(struct volume_claims *claims, const char *volume_id)
{
	struct used *used = id_map_get(claims->used, volume_id);

	if (used)
		return used;
	used = calloc(1, sizeof(*used));
	if (!used)
		return NULL;
	(void)snprintf(used->volume_id, sizeof(used->volume_id), "%s", volume_id);
	if (id_map_put(claims->used, used) < 0) {
		free(used);
		return NULL;
	}
	return used;
}

static int user_add(
        struct volume_claims *claims, const char *volume_id, const char *instance_id, bool read_only)
{
	struct used *used = used_get(claims, volume_id);
	struct volume_user *users =
	        used ? reallocarray(used->users, used->n_users + 1, sizeof(*users)) : NULL;

	if (!users)
		return -ENOMEM;
	used->users = users;
	(void)snprintf(users[used->n_users].instance_id, sizeof(users[0].instance_id), "%s", instance_id);
	users[used->n_users++].read_only = read_only;
	return 0;
}

static void user_remove(struct volume_claims *claims, const char *volume_id, const char *instance_id)
{
	struct used *used = id_map_get(claims->used, volume_id);
	size_t i = 0;

	while (used && i < used->n_users && strcmp(used->users[i].instance_id, instance_id) != 0)
		i++;
	if (!used || i == used->n_users)
		return;
	used->users[i] = used->users[--used->n_users];
	if (used->n_users > 0)
		return;
	(void)id_map_remove(claims->used, volume_id);
	free(used->users);
	free(used);
}

static void users_changed(struct volume_claims *claims, const struct uses *uses)
{
	for (size_t i = 0; i < uses->n; i++)
		claims->on_change(uses->items[i].volume_id, claims->userdata);
}

/* Puts other uses in force. On failure the old ones are. Consumes uses. */
static int claim_set(struct volume_claims *claims, struct claim *claim, struct uses *uses)
{
	size_t i = 0;

	for (; i < uses->n; i++)
		if (user_add(claims, uses->items[i].volume_id, claim->instance_id, uses->items[i].read_only) <
		        0)
			break;
	if (i < uses->n) {
		while (i-- > 0)
			user_remove(claims, uses->items[i].volume_id, claim->instance_id);
		uses_done(uses);
		return -ENOMEM;
	}
	/* user_remove() takes the first of an instance's entries, which is the older one, or an equal one. */
	for (i = 0; i < claim->uses.n; i++)
		user_remove(claims, claim->uses.items[i].volume_id, claim->instance_id);
	uses_done(&claim->uses);
	claim->uses = *uses;
	*uses = (struct uses){ 0 };
	claim->generation++;
	return 0;
}

/* --- on disk --- */

static void claim_free(struct volume_claims *claims, struct claim *claim)
{
	(void)id_map_remove(claims->claims, claim->instance_id);
	for (size_t i = 0; i < claim->uses.n; i++)
		user_remove(claims, claim->uses.items[i].volume_id, claim->instance_id);
	uses_done(&claim->uses);
	uses_done(&claim->written);
	for (struct waiter *w = claim->waiters, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	free(claim);
}

static void claim_run(struct job *job)
{
	struct claim_job *own = CONTAINER_OF(job, struct claim_job, job);

	if (own->text)
		own->r = atomic_file_write(own->dir_fd, own->instance_id, own->text, own->n_text, 0600);
	else if (unlinkat(own->dir_fd, own->instance_id, 0) < 0 && errno != ENOENT)
		own->r = -errno;
	/* No fsync for a removal: one that comes back claims too much, never too little. */
}

static void claim_job_free(struct claim_job *job)
{
	free(job->text);
	uses_done(&job->uses);
	free(job);
}

/* What is not written down is not claimed: back to what is. */
static void claim_revert(struct volume_claims *claims, struct claim *claim)
{
	struct uses written = { 0 };

	if (uses_copy(&claim->written, &written) == 0 && claim_set(claims, claim, &written) == 0)
		claim->written_generation = claim->generation;
}

static int claim_sync(struct volume_claims *claims, struct claim *claim);

/* The waiters that a job of this generation serves, taken off the claim. */
static struct waiter *waiters_take(struct claim *claim, uint64_t generation)
{
	struct waiter *served = NULL;

	for (struct waiter **at = &claim->waiters; *at;) {
		struct waiter *w = *at;

		if (w->generation > generation) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = served;
		served = w;
	}
	return served;
}

static void claim_done(struct job *job)
{
	struct claim_job *own = CONTAINER_OF(job, struct claim_job, job);
	struct volume_claims *claims = own->claims;
	struct claim *claim = id_map_get(claims->claims, own->instance_id);
	struct waiter *served = waiters_take(claim, own->generation);
	struct uses changed = { 0 };
	int r = own->r;

	claim->busy = false;
	if (r == 0) {
		changed = own->uses;
		own->uses = claim->written; /* freed with the job */
		claim->written = (struct uses){ 0 };
		(void)uses_copy(&changed, &claim->written);
		claim->written_generation = own->generation;
	} else if (own->text && claim->generation == own->generation) {
		(void)uses_copy(&claim->uses, &changed);
		claim_revert(claims, claim);
	}
	if (r == 0 || claim->generation != own->generation || claim->generation == claim->written_generation)
		(void)claim_sync(claims, claim); /* may free it */
	claim_job_free(own);
	users_changed(claims, &changed);
	uses_done(&changed);
	for (struct waiter *next; served; served = next) {
		next = served->next;
		served->done(r, served->userdata);
		free(served);
	}
}

/* Brings the disk nearer to what is in force, or frees a claim of which nothing is left. */
static int claim_sync(struct volume_claims *claims, struct claim *claim)
{
	struct claim_job *job;
	int r;

	if (claim->busy)
		return 0;
	if (claim->generation == claim->written_generation) {
		if (claim->uses.n == 0)
			claim_free(claims, claim);
		return 0;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->claims = claims;
	job->dir_fd = claims->dir_fd;
	job->generation = claim->generation;
	job->job.run = claim_run;
	job->job.done = claim_done;
	(void)snprintf(job->instance_id, sizeof(job->instance_id), "%s", claim->instance_id);
	(void)snprintf(job->job.key, sizeof(job->job.key), "claim:%s", claim->instance_id);
	r = uses_copy(&claim->uses, &job->uses);
	if (r == 0 && claim->uses.n > 0) {
		job->text = uses_format(&claim->uses, &job->n_text);
		r = job->text ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = job_submit(claims->pool, &job->job);
	if (r < 0) {
		claim_job_free(job);
		return r;
	}
	claim->busy = true;
	return 0;
}

/* --- reading what is there --- */

static struct claim *claim_new(struct volume_claims *claims, const char *instance_id)
{
	struct claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	(void)snprintf(claim->instance_id, sizeof(claim->instance_id), "%s", instance_id);
	if (id_map_put(claims->claims, claim) < 0) {
		free(claim);
		return NULL;
	}
	return claim;
}

static int claim_read(struct volume_claims *claims, const char *name, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	struct uses uses = { 0 };
	struct claim *claim;
	size_t n;
	int r = file_read(claims->dir_fd, name, CLAIM_FILE_MAX, &text, &n);

	if (r == 0)
		r = uses_parse(text, n, &uses);
	if (r < 0) {
		uses_done(&uses);
		return err_set(err, r == -ENOMEM ? r : -EBADMSG,
		        "%s/%s cannot be read: it says which volumes an instance has open; when that instance is "
		        "stopped for certain, remove the file",
		        claims->dir, name);
	}
	claim = claim_new(claims, name);
	r = claim ? uses_copy(&uses, &claim->written) : -ENOMEM;
	if (r == 0)
		r = claim_set(claims, claim, &uses);
	uses_done(&uses);
	if (r == 0)
		claim->written_generation = claim->generation;
	return r;
}

static int directory_read(struct volume_claims *claims, struct err *err)
{
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	const struct dirent *item;
	int fd = openat(claims->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return err_set(err, -errno, "cannot read %s: %s", claims->dir, strerror(errno));
	while (r == 0 && (errno = 0, item = readdir(dir))) {
		if (atomic_file_is_temporary(item->d_name))
			(void)unlinkat(claims->dir_fd, item->d_name, 0);
		else if (item->d_name[0] != '.' && uuid_is_valid(item->d_name))
			r = claim_read(claims, item->d_name, err);
		else if (item->d_name[0] != '.')
			r = err_set(err, -EBADMSG, "%s/%s is no instance's file", claims->dir, item->d_name);
	}
	return r < 0 ? r : -errno;
}

int volume_claims_open(const char *dir, struct job_pool *pool,
        void (*on_change)(const char *volume_id, void *userdata), void *userdata, struct volume_claims **ret,
        struct err *err)
{
	CLEANUP(volume_claims) struct volume_claims *claims = calloc(1, sizeof(*claims));
	int r;

	if (!claims)
		return -ENOMEM;
	claims->dir_fd = -EBADF;
	claims->pool = pool;
	claims->on_change = on_change;
	claims->userdata = userdata;
	claims->dir = strdup(dir);
	claims->claims = id_map_new(offsetof(struct claim, instance_id));
	claims->used = id_map_new(offsetof(struct used, volume_id));
	if (!claims->dir || !claims->claims || !claims->used)
		return -ENOMEM;
	claims->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (claims->dir_fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", dir, strerror(errno));
	r = directory_read(claims, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(claims);
	return 0;
}

static struct claim *claim_any(const struct volume_claims *claims)
{
	size_t cursor = 0;

	return claims->claims ? id_map_next(claims->claims, &cursor) : NULL;
}

struct volume_claims *volume_claims_free(struct volume_claims *claims)
{
	struct claim *claim;

	if (!claims)
		return NULL;
	while ((claim = claim_any(claims)))
		claim_free(claims, claim);
	(void)id_map_free(claims->claims);
	(void)id_map_free(claims->used);
	if (claims->dir_fd >= 0)
		(void)close(claims->dir_fd);
	free(claims->dir);
	free(claims);
	return NULL;
}

/* --- the ledger --- */

int volume_claims_check(const struct volume_claims *claims, const char *instance_id,
        const struct volume_use *uses, size_t n_uses, struct err *err)
{
	for (size_t i = 0; i < n_uses; i++) {
		size_t n_users;
		const struct volume_user *users = volume_claims_users(claims, uses[i].volume_id, &n_users);

		for (size_t j = 0; j < n_users; j++) {
			if (strcmp(users[j].instance_id, instance_id) == 0)
				continue;
			if (!uses[i].read_only || !users[j].read_only)
				return err_set(err, -EBUSY, "volume %s is open in instance %s, %s",
				        uses[i].volume_id, users[j].instance_id,
				        users[j].read_only ? "and this one would write to it"
				                           : "which writes to it");
		}
	}
	return 0;
}

static int uses_of(const struct volume_use *from, size_t n_from, struct uses *ret)
{
	struct uses uses = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_from; i++)
		r = volume_id_is_valid(from[i].volume_id)
		        ? uses_add(&uses, from[i].volume_id, from[i].read_only)
		        : -EINVAL;
	if (r < 0)
		uses_done(&uses);
	else
		*ret = uses;
	return r;
}

/* Puts uses in force; writing them down is claim_sync()'s. */
static int claim_put(struct volume_claims *claims, const char *instance_id, const struct volume_use *from,
        size_t n_from, struct claim **ret)
{
	struct claim *claim = id_map_get(claims->claims, instance_id);
	struct uses uses = { 0 };
	int r = uuid_is_valid(instance_id) ? uses_of(from, n_from, &uses) : -EINVAL; /* both go into a file */

	if (r < 0)
		return r;
	if (!claim)
		claim = claim_new(claims, instance_id);
	if (!claim) {
		uses_done(&uses);
		return -ENOMEM;
	}
	r = claim_set(claims, claim, &uses);
	if (r < 0 && claim->generation == 0)
		claim_free(claims, claim);
	*ret = claim;
	return r;
}

int volume_claims_take(struct volume_claims *claims, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, void (*done)(int r, void *userdata), void *userdata, struct err *err)
{
	struct waiter *waiter;
	struct claim *claim = NULL;
	int r = volume_claims_check(claims, instance_id, uses, n_uses, err);

	if (r < 0)
		return r;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	r = claim_put(claims, instance_id, uses, n_uses, &claim);
	if (r == 0) {
		r = claim_sync(claims, claim);
		if (r < 0) {
			claim_revert(claims, claim);
			(void)claim_sync(claims, claim); /* frees it when nothing is left */
		}
	}
	if (r < 0) {
		free(waiter);
		return err_set(err, r, "the claim of volumes cannot be written down: %s", strerror(-r));
	}
	*waiter = (struct waiter){
		.next = claim->waiters, .generation = claim->generation, .done = done, .userdata = userdata
	};
	claim->waiters = waiter;
	return 0;
}

int volume_claims_adopt(
        struct volume_claims *claims, const char *instance_id, const struct volume_use *uses, size_t n_uses)
{
	struct claim *claim = NULL;
	int r = claim_put(claims, instance_id, uses, n_uses, &claim);

	if (r < 0)
		return r;
	(void)claim_sync(claims, claim); /* or volume_claims_retry() does */
	return 0;
}

void volume_claims_release(struct volume_claims *claims, const char *instance_id)
{
	struct claim *claim = id_map_get(claims->claims, instance_id);
	struct uses before = { 0 }, none = { 0 };

	if (!claim || claim->uses.n == 0)
		return;
	before = claim->uses;
	claim->uses = (struct uses){ 0 };
	for (size_t i = 0; i < before.n; i++)
		user_remove(claims, before.items[i].volume_id, instance_id);
	(void)claim_set(claims, claim, &none);
	(void)claim_sync(claims, claim);
	users_changed(claims, &before);
	uses_done(&before);
}

bool volume_claims_has(const struct volume_claims *claims, const char *instance_id)
{
	const struct claim *claim = id_map_get(claims->claims, instance_id);

	return claim && claim->uses.n > 0;
}

void volume_claims_each(const struct volume_claims *claims,
        void (*fn)(const char *instance_id, void *userdata), void *userdata)
{
	size_t cursor = 0;
	const struct claim *claim;

	while ((claim = id_map_next(claims->claims, &cursor)))
		if (claim->uses.n > 0)
			fn(claim->instance_id, userdata);
}

void volume_claims_retry(struct volume_claims *claims)
{
	size_t cursor = 0;
	struct claim *claim;

	/* One that differs from the disk is given a job, not freed, so the map does not change. */
	while ((claim = id_map_next(claims->claims, &cursor)))
		if (claim->generation != claim->written_generation)
			(void)claim_sync(claims, claim);
}

const struct volume_user *volume_claims_users(
        const struct volume_claims *claims, const char *volume_id, size_t *ret_n)
{
	const struct used *used = id_map_get(claims->used, volume_id);

	*ret_n = used ? used->n_users : 0;
	return used ? used->users : NULL;
}

void volume_claims_each_volume(
        const struct volume_claims *claims, void (*fn)(const char *volume_id, void *userdata), void *userdata)
{
	size_t cursor = 0;
	const struct used *used;

	while ((used = id_map_next(claims->used, &cursor)))
		fn(used->volume_id, userdata);
}
