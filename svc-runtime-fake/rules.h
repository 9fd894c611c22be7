/* What the fake does to a domain when it is asked: from the record there is and a request to the record
 * there will be, or a refusal. Pure: no file, no clock, no socket. Each gives a new record in *ret, which
 * the caller owns. */
#pragma once

#include "svc-runtime-fake/domains.h"
#include "svc-runtime-fake/record.h"

#include "lib/base/err.h"
#include "lib/snapshot/meta.h"

#include <stdint.h>

struct rules {
	const char *runtime_id; /* weak, as all */
	const char *cpu_model;
	uint64_t vcpus_max;        /* of all active domains together; 0: no limit */
	uint64_t memory_bytes_max; /* the same */
	bool one_writer;           /* a volume's second writer is refused */
	uint64_t now_usec;         /* since the epoch */
};

/* -EINVAL for a request that no state could make right. */
int rules_check_key(const char *id, const char *key, const char *verb, struct err *err);

/* current is NULL for a domain that is not there. restored is the meta.json of request->restore_path, NULL
 * for none. */
int rules_ensure(const struct rules *rules, const record *current, const Bc__V1__EnsureRequest *request,
        const struct snapshot_meta *restored, record **ret, struct err *err);
/* domains is asked for what the others use. */
int rules_set_state(const struct rules *rules, const struct domains *domains, const record *current,
        const Bc__V1__SetStateRequest *request, record **ret, struct err *err);
int rules_check_running(const record *current, const char *id, struct err *err);
int rules_check_remove(const record *current, const Bc__V1__RuntimeRemoveRequest *request, struct err *err);
int rules_rebind(const record *current, const Bc__V1__RebindRequest *request, record **ret, struct err *err);
int rules_grow_volume(
        const record *current, const Bc__V1__GrowVolumeRequest *request, record **ret, struct err *err);
int rules_set_balloon(
        const record *current, const Bc__V1__SetBalloonRequest *request, record **ret, struct err *err);
void rules_balloon(const record *current, Bc__V1__BalloonReply *ret);
/* Fills meta for a snapshot that may be taken. */
int rules_snapshot(const struct rules *rules, const record *current,
        const Bc__V1__RuntimeSnapshotRequest *request, struct snapshot_meta *meta, struct err *err);
int rules_check_console(const record *current, struct err *err);

/* Something that happens to a guest by itself. *ret is NULL when the domain is to go. */
int rules_event(const struct rules *rules, const record *current, const Bc__Fake__Event *event, record **ret,
        struct err *err);
