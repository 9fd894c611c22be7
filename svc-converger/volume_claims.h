/* Who has which volume open: one writer at most, and no reader beside it. Written down per instance
 * (<dir>/<instance id>), so that it outlives us and a runtime that does not answer keeps its instances' volumes.
 * A part of volume_store.h, which says what the calls mean. Loop thread only. */
#pragma once

#include "svc-converger/volume_store.h"

struct volume_claims;

/* dir must exist; blocks. on_change: the users of a volume changed. */
int volume_claims_open(const char *dir, struct job_pool *pool,
        void (*on_change)(const char *volume_id, void *userdata), void *userdata, struct volume_claims **ret,
        struct err *err);
struct volume_claims *volume_claims_free(struct volume_claims *claims);
CLEANUP_DEFINE(volume_claims, volume_claims_free)

int volume_claims_check(const struct volume_claims *claims, const char *instance_id,
        const struct volume_use *uses, size_t n_uses, struct err *err);
int volume_claims_take(struct volume_claims *claims, const char *instance_id, const struct volume_use *uses,
        size_t n_uses, void (*done)(int r, void *userdata), void *userdata, struct err *err);
int volume_claims_adopt(
        struct volume_claims *claims, const char *instance_id, const struct volume_use *uses, size_t n_uses);
void volume_claims_release(struct volume_claims *claims, const char *instance_id);
bool volume_claims_has(const struct volume_claims *claims, const char *instance_id);
void volume_claims_each(const struct volume_claims *claims,
        void (*fn)(const char *instance_id, void *userdata), void *userdata);
/* Tries again what could not be written down or taken off. */
void volume_claims_retry(struct volume_claims *claims);

/* The users of a volume; weak, until the next call. */
const struct volume_user *volume_claims_users(
        const struct volume_claims *claims, const char *volume_id, size_t *ret_n);
/* Each volume that somebody claims. */
void volume_claims_each_volume(const struct volume_claims *claims,
        void (*fn)(const char *volume_id, void *userdata), void *userdata);
