#include "svc-runtime-libvirt/snapshots.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct snapshot;

/* How far it is: written by the pool's threads, read on the loop, and so held by both. */
struct told {
	struct loop_tag tag;       /* one message under way at a time */
	struct loop *loop;         /* weak */
	struct snapshot *snapshot; /* weak; loop thread; NULL once that has ended */
	atomic_uint n_refs;
	atomic_bool telling;
	atomic_uint_fast64_t done_bytes, total_bytes;
};

struct snapshot {
	struct slow slow;
	struct snapshot_handlers handlers;
	void *userdata;
	char *path; /* owned */
	bool with_memory, abandoned;
	struct told *told; /* a reference */
	struct snapshot_take take;
};

static void told_unref(struct told *told)
{
	if (atomic_fetch_sub(&told->n_refs, 1) == 1)
		free(told);
}

static void on_told(struct loop_tag *tag, bool ok)
{
	struct told *told = CONTAINER_OF(tag, struct told, tag);
	const struct snapshot *snapshot = told->snapshot;

	(void)ok;
	atomic_store(&told->telling, false);
	if (snapshot && snapshot->handlers.on_progress)
		snapshot->handlers.on_progress(
		        atomic_load(&told->done_bytes), atomic_load(&told->total_bytes), snapshot->userdata);
	told_unref(told);
}

/* On the job's thread, or its guard's. */
static int on_work_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct snapshot *snapshot = userdata;
	struct told *told = snapshot->told;

	atomic_store(&told->done_bytes, done_bytes);
	atomic_store(&told->total_bytes, total_bytes);
	if (!atomic_exchange(&told->telling, true)) {
		(void)atomic_fetch_add(&told->n_refs, 1);
		loop_post(told->loop, &told->tag);
	}
	return slow_is_cancelled(&snapshot->slow) ? -ECANCELED : 0;
}

static void snapshot_work(struct op *op)
{
	struct snapshot *snapshot = CONTAINER_OF(op, struct snapshot, slow.op);
	const struct runtime *runtime = op->runtime;
	struct instance_files_conf files = runtime_files_conf(runtime);

	snapshot->take = (struct snapshot_take){
		.with_memory = snapshot->with_memory,
		.path = snapshot->path,
		.runtime = RUNTIME_ID,
		.cpu_model = runtime->cpu_model,
		.hypervisor_version = runtime->hypervisor_version,
		.progress = on_work_progress,
		.userdata = snapshot,
	};
	if (slow_is_cancelled(&snapshot->slow))
		op->r = err_set(&op->err, -ECANCELED, "nobody waits for the snapshot any more");
	else
		op->r = domain_op_snapshot(op->conn, op->id, &files, &snapshot->take, &op->err);
}

static void snapshot_end(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct snapshot *snapshot = userdata;

	(void)entry;
	snapshot->told->snapshot = NULL;
	told_unref(snapshot->told);
	/* too late to be broken off: who asks again wants the path to be free */
	if (r == 0 && snapshot->abandoned)
		(void)unlink(snapshot->path);
	snapshot->handlers.on_end(r, err, snapshot->take.digest, snapshot->take.bytes, snapshot->userdata);
	free(snapshot->path);
}

void snapshot_abandon(struct slow *slow)
{
	CONTAINER_OF(slow, struct snapshot, slow)->abandoned = true;
	slow_cancel(slow);
}

struct slow *snapshot_begin(struct runtime *runtime, const char *id, bool with_memory, const char *path,
        const struct snapshot_handlers *handlers, void *userdata)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct told *told = calloc(1, sizeof(*told));
	char *copy = strdup(path);

	if (!snapshot || !told || !copy ||
	        slow_init(&snapshot->slow, runtime, id, "a snapshot", snapshot_work, snapshot_end, snapshot) <
	                0) {
		free(snapshot);
		free(told);
		free(copy);
		return NULL;
	}
	*told = (struct told){
		.tag.on_done = on_told, .loop = runtime->loop, .snapshot = snapshot, .n_refs = 1
	};
	snapshot->handlers = *handlers;
	snapshot->userdata = userdata;
	snapshot->path = copy;
	snapshot->with_memory = with_memory;
	snapshot->told = told;
	slow_begin(&snapshot->slow);
	return &snapshot->slow;
}
