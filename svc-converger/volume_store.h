/* Persistent volumes: sparse raw files data_dir/volumes/<id>.raw, and who has them open.
 *
 * Who has what open is written down before a start (claims/<instance id>) and survives restarts: a runtime that
 * does not answer keeps its instances' volumes. One writer at most, and no reader beside it.
 *
 * Work that waits for the disk is done in jobs keyed by the volume, the answers come on the loop thread, where
 * all of this is called. Nothing is ever shrunk; nothing somebody has open is destroyed. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/base/err.h"
#include "lib/base/ids.h"
#include "lib/loop/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct volume_store;

struct volume_store_options {
	struct job_pool *pool;  /* weak */
	const char *dir;        /* data_dir/volumes; must exist */
	mode_t file_mode;       /* 0: 0660 */
	gid_t file_gid;         /* (gid_t)-1: as it comes */
	uint64_t reserve_bytes; /* with less than that free on the disk nothing is made or grown: -ENOSPC */
	/* Something of this volume changed: made, grown, destroyed, claimed, released, or an attempt failed. May be
	 * NULL. Only the ends of jobs and volume_store_release() call it. */
	void (*on_change)(const char *volume_id, void *userdata);
	void *userdata;
};

/* Reads the directory and the claims: blocks, for the start of the service. -EBADMSG names a claim that
 * cannot be read; it is not guessed at. */
int volume_store_open(const struct volume_store_options *options, struct volume_store **ret, struct err *err);
struct volume_store *volume_store_free(struct volume_store *store); /* no job may be pending */
CLEANUP_DEFINE(volume_store, volume_store_free)

/* --- files --- */

enum volume_wish {
	VOLUME_NO_OPINION, /* keep it as it is; the report says unclaimed */
	VOLUME_PRESENT,    /* exists with at least size_bytes */
	VOLUME_ABSENT,     /* destroyed, as soon as nobody has it open */
};

/* States the wish, as often as one likes. -EINVAL for an id that is none, -ENOMEM. A failed attempt is made again at
 * the first call, or volume_store_refresh(), after VOLUME_RETRY_USEC. */
#define VOLUME_RETRY_USEC (5 * UINT64_C(1000000))
int volume_store_want(struct volume_store *store, const char *id, enum volume_wish wish, uint64_t size_bytes);

struct volume_user {
	char instance_id[UUID_TEXT_MAX];
	bool read_only;
};

struct volume_info {
	char id[VOLUME_ID_MAX];
	char path[512];
	bool exists;
	bool busy; /* an operation is under way */
	enum volume_wish wish;
	uint64_t wished_bytes;
	uint64_t size_bytes;      /* apparent */
	uint64_t allocated_bytes; /* on disk, as of the last refresh */
	struct err error;         /* why the wish is not fulfilled; text "" otherwise */
	size_t n_users;
	const struct volume_user *users; /* weak; until the next call into the store */
};

/* -ENOENT: neither a file nor a wish nor a user has this id. */
int volume_store_get(struct volume_store *store, const char *id, struct volume_info *ret);
/* Every one, in order of id: fn must not call into the store. */
void volume_store_each(struct volume_store *store, void (*fn)(const struct volume_info *info, void *userdata),
        void *userdata);
/* Measures all anew, in one job, and tries again what failed: to be called from time to time. on_change for those that
 * differ. */
int volume_store_refresh(struct volume_store *store);

/* --- who has them open --- */

struct volume_use {
	const char *volume_id; /* weak */
	bool read_only;
};

/* 0 when instance_id could open all of uses beside the present users, -EBUSY naming volume and holder. Its own
 * present claim does not count. */
int volume_store_check(struct volume_store *store, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, struct err *err);
/* Claims all of uses, replacing what instance_id had; counts at once for others, and done runs when it is on disk:
 * only then may the VM start. Returns -EBUSY as above and -ENOENT for a volume that has no file; done does not
 * run then. When done brings an error the claim is taken back already. */
int volume_store_claim(struct volume_store *store, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, void (*done)(int r, void *userdata), void *userdata, struct err *err);
/* For a domain that is seen running with volumes nobody claimed for it (our records were lost): what is so is
 * written down, even when two write. -EINVAL for ids that are none. */
int volume_store_adopt(
        struct volume_store *store, const char *instance_id, const struct volume_use *uses, size_t n_uses);
/* The domain is known to be stopped or gone: complete answer of its runtime, never a guess. */
void volume_store_release(struct volume_store *store, const char *instance_id);
bool volume_store_has_claim(struct volume_store *store, const char *instance_id);
/* Every instance that has a claim, so that one of an instance long gone can be released: fn must not call into the
 * store. */
void volume_store_each_claim(
        struct volume_store *store, void (*fn)(const char *instance_id, void *userdata), void *userdata);
