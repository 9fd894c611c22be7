/* Secrets on their way from a session to a runtime: asked for when an instance needs one, held in memory until it is
 * handed over, bound to the allocation it was asked for. Only so many are open at once; the others wait their turn. */
#pragma once

#include "lib/base/secret.h"
#include "svc-converger/instance_spec.h"

#include <stdbool.h>
#include <stddef.h>

struct secrets;
struct secret_asker;

enum { SECRETS_OPEN_MAX = 64, SECRET_SIZE_MAX = 64 * 1024, SECRET_REF_MAX = 257, SECRET_REQUEST_MAX = 64 };

/* on_change: the answer for this instance is there, or was refused. Runs from secrets_answer(). */
struct secrets *secrets_new(void (*on_change)(const char *instance_id, void *userdata), void *userdata);
struct secrets *secrets_free(struct secrets *secrets); /* every asker is gone; accepts NULL */

/* True when it is here. Otherwise it is asked for, and *ret_why (weak, a sentence) says what it waits for. Another
 * ref or allocation than before drops what was held. */
bool secrets_want(struct secrets *secrets, const char *instance_id, const char *allocation_id,
        const char *ref, const char **ret_why);
/* Hands it over; NULL when it is not here or was for another allocation or ref. */
struct secret *secrets_take(
        struct secrets *secrets, const char *instance_id, const char *allocation_id, const char *ref);
/* It is wanted no more: nothing of it stays. */
void secrets_forget(struct secrets *secrets, const char *instance_id);
/* Open requests of this instance are asked again although they were refused. */
void secrets_retry(struct secrets *secrets, const char *instance_id);
size_t secrets_open(const struct secrets *secrets);

struct secret_request {
	const char *request_id; /* all weak, valid during the call */
	const char *instance_id;
	const char *allocation_id;
	const char *ref;
};
/* A session that can answer; it is asked for everything that is open at once. false from ask: it cannot take the
 * question now; secret_asker_resume() when it can. */
struct secret_asker *secret_asker_new(struct secrets *secrets,
        bool (*ask)(const struct secret_request *request, void *userdata), void *userdata);
struct secret_asker *secret_asker_free(struct secret_asker *asker);
void secret_asker_resume(struct secret_asker *asker);

enum secret_verdict { SECRET_TAKEN, SECRET_E_UNKNOWN, SECRET_E_TOO_LARGE };
/* An answer; error "" for a value, which the caller clears. One that nobody waits for (any more) changes nothing. */
enum secret_verdict secrets_answer(
        struct secrets *secrets, const char *request_id, const void *value, size_t size, const char *error);
