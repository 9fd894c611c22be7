/* Snapshots under way: the runtime writes a tar to the staging place, it is uploaded, and gone. One at a time per
 * instance; a command repeated under its id joins what runs, or gets the result of what has ended lately. */
#pragma once

#include "lib/rpc/status.h"
#include "svc-converger/converger.h"

#include "bc/v1/converger.pb-c.h"

struct snapshot_tasks;

enum { SNAPSHOTS_KEPT_MAX = 64, SNAPSHOT_ID_MAX = 129 };

struct snapshot_tasks *snapshot_tasks_new(struct converger *converger); /* NULL: no memory */
/* Ends what runs; no follower hears of it. Accepts NULL. */
struct snapshot_tasks *snapshot_tasks_free(struct snapshot_tasks *tasks);

/* Begins, or joins. On failure code and words are in ret_status and nothing was begun. */
int snapshot_tasks_begin(
        struct snapshot_tasks *tasks, const Bc__V1__SnapshotCommand *command, struct rpc_status *ret_status);
/* The instance is to stop or to go: its snapshot, if any, ends with CANCELLED. */
void snapshot_tasks_cancel(struct snapshot_tasks *tasks, const char *instance_id);
/* How far the one of this instance is; false: none is under way. Texts are static. */
bool snapshot_tasks_progress(
        const struct snapshot_tasks *tasks, const char *instance_id, Bc__V1__Progress *ret);
size_t snapshot_tasks_running(const struct snapshot_tasks *tasks);

/* Hears of every task. Embedded in the listener. progress->done is set once, last; status is then its outcome, and
 * valid during the call like everything else. */
struct snapshot_follower {
	void (*on_progress)(
	        const Bc__V1__SnapshotProgress *progress, const struct rpc_status *status, void *userdata);
	void *userdata;                 /* weak */
	struct snapshot_follower *next; /* weak; private */
};
void snapshot_tasks_follow(struct snapshot_tasks *tasks, struct snapshot_follower *follower);
void snapshot_tasks_unfollow(struct snapshot_tasks *tasks, struct snapshot_follower *follower);
/* Tells one follower where a task stands; false: nobody knows this id. */
bool snapshot_tasks_tell(struct snapshot_tasks *tasks, const char *id, struct snapshot_follower *follower);
/* Tells it of each that has ended without anybody following. */
void snapshot_tasks_tell_unheard(struct snapshot_tasks *tasks, struct snapshot_follower *follower);
