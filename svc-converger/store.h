/* What must survive a restart: the accepted spec, an instance at a time, and the marks of removals under way.
 *
 * One SQLite file in WAL mode with synchronous=FULL, held exclusively. Changes are collected in a batch and
 * committed as one transaction: all of it is on disk when store_commit() returns 0, none of it otherwise.
 * Opening and loading belong to the start of the service; afterwards only store_lane commits, off the loop.
 * Secrets never come here. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_batch;

enum store_job {
	STORE_JOB_NONE,
	STORE_JOB_STARTED,
	STORE_JOB_COMPLETED,
	STORE_JOB_FAILED,
	STORE_JOB_MAX,
};

/* What is remembered of an instance beside its spec. */
struct store_facts {
	bool recorded;  /* something of it may exist: a removal has to ask its runtime */
	bool used_netd; /* it may have had interfaces on the host: a removal has to ask netd */
	enum store_job job;
	uint32_t restarts;
	uint64_t started_hash; /* of the spec it was last started with; 0: never */
	uint64_t nics_hash;    /* of the filters netd was last given; 0: never */
};

struct store_instance {
	const char *id;   /* all weak */
	const void *spec; /* a packed InstanceSpec */
	size_t n_spec;
	uint64_t revision; /* of the NodeSpec that last changed it */
	struct store_facts facts;
};

struct store_removal {
	const char *id; /* all weak */
	const char *runtime;
	const char *allocation_id;
	bool uses_netd; /* may have interfaces on the host */
};

enum store_meta {
	STORE_REVISION,      /* last accepted; 0: none */
	STORE_HAS_INSTANCES, /* an accepted spec had an instances section */
	STORE_DRAINING,
	STORE_META_MAX,
};

/* -EBUSY: another process has it; -EBADMSG: corrupted, or no state.db at all; -EPROTO: written by a newer
 * version. Nothing is changed then. A new file is made where there is none. */
int store_open(const char *path, struct store **ret, struct err *err);
struct store *store_close(struct store *store); /* accepts NULL, returns NULL */

/* Everything kept, in order of id; a negative return of a handler ends the load and is passed on. */
struct store_handlers {
	int (*on_instance)(const struct store_instance *instance, void *userdata, struct err *err);
	int (*on_removal)(const struct store_removal *removal, void *userdata, struct err *err);
};
int store_load(struct store *store, const struct store_handlers *handlers, void *userdata, struct err *err);
int store_get_number(struct store *store, enum store_meta meta, uint64_t *ret, struct err *err);
/* The packed NodeSpec without its instances. *ret is owned by the caller; NULL with *ret_size 0 when none. */
int store_get_node(struct store *store, void **ret, size_t *ret_size, struct err *err);
int store_get_boot_id(struct store *store, char ret[static 64], struct err *err); /* "": none yet */

/* A batch keeps copies of ids, but not of specs: those must live until it is committed or freed. Filling it
 * cannot fail; running out of memory is found at the commit. */
struct store_batch *store_batch_new(void); /* NULL: no memory */
struct store_batch *store_batch_free(struct store_batch *batch);
/* An instance that is there keeps its facts: they are set apart, below. */
void store_batch_put_instance(struct store_batch *batch, const struct store_instance *instance);
void store_batch_drop_instance(struct store_batch *batch, const char *id);
void store_batch_set_facts(struct store_batch *batch, const char *id, const struct store_facts *facts);
void store_batch_put_removal(struct store_batch *batch, const struct store_removal *removal);
void store_batch_drop_removal(struct store_batch *batch, const char *id);
void store_batch_set_number(struct store_batch *batch, enum store_meta meta, uint64_t value);
void store_batch_set_node(struct store_batch *batch, const void *node, size_t size);
void store_batch_set_boot_id(struct store_batch *batch, const char *boot_id);

/* Commits n batches as one transaction. -ENOSPC: the disk is full; -EIO: it fails. Nothing is changed then, for as long
 * as the store is open; after a crash before the next commit, a transaction whose fsync failed may be found, whole. */
int store_commit(struct store *store, struct store_batch *const *batches, size_t n, struct err *err);
