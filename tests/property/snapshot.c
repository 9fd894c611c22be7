#include "tests/property/snapshot.h"

#include "lib/base/cleanup.h"
#include "lib/snapshot/tar.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum { TASKS_MAX = 32, DISK_BYTES = 1 << 20 };

/* A command, until it has ended. */
struct task {
	struct snapshots *snapshots; /* weak */
	unsigned number;             /* 0: free */
	char instance_id[UUID_TEXT_MAX];
	bool with_memory, by_session;
	char digest[SHA256_DIGEST_MAX]; /* as the stream told last */
	uint64_t size_bytes;
	bool is_done;
};

struct snapshots {
	struct set *set; /* weak, as both below */
	struct plane *plane;
	struct wish *wish;
	struct task tasks[TASKS_MAX];
	unsigned n_asked, n_kept;
	/* the one that is wanted */
	char wanted_id[UUID_TEXT_MAX]; /* of the instance; "": none */
	bool wanted_with_memory;
	unsigned wanted_number;
	char why[512]; /* it was refused last */
	char fault[768];
};

/* --- made before the run --- */

static struct snapshot_meta meta_of(unsigned runtime, bool with_memory)
{
	struct snapshot_meta meta = { .kind = with_memory ? SNAPSHOT_MEMORY : SNAPSHOT_DISK,
		.created_usec = 1,
		.vcpus = 1,
		.memory_bytes = 64 * MIB,
		.n_nics = 2,
		.disk_format = IMAGE_RAW,
		.disk_bytes = DISK_BYTES };

	(void)snprintf(meta.runtime, sizeof(meta.runtime), "%s", wish_runtime(runtime));
	(void)snprintf(
	        meta.instance_id, sizeof(meta.instance_id), "eeeeeeee-0000-4000-8000-00000000000%u", runtime);
	(void)strcpy(meta.allocation_id, "of-another-host");
	(void)strcpy(meta.cpu_model, "fake-cpu-1");
	return meta;
}

static void snapshot_know(struct wish_snapshot *ret, const struct snapshot_meta *meta, const char *path,
        const char *digest, uint64_t size_bytes)
{
	*ret = (struct wish_snapshot){ .exists = true,
		.with_memory = meta->kind == SNAPSHOT_MEMORY,
		.size_bytes = size_bytes,
		.runtime = strcmp(meta->runtime, wish_runtime(0)) != 0,
		.vcpus = meta->vcpus,
		.memory_mib = (unsigned)(meta->memory_bytes / MIB),
		.n_nics = meta->n_nics };
	(void)snprintf(ret->url, sizeof(ret->url), "file://%s", path);
	(void)snprintf(ret->digest, sizeof(ret->digest), "%s", digest);
}

static void snapshot_make(struct snapshots *snapshots, unsigned i)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *writer = NULL;
	struct snapshot_meta meta = meta_of(i / 2, i % 2);
	char path[200], digest[SHA256_DIGEST_MAX];
	struct err err = { 0 };
	uint64_t size_bytes;

	(void)set_path(snapshots->set, path, sizeof(path), "sources/snapshot-%u.tar", i);
	int r = snapshot_writer_new(path, FILE_PERM(0600), &meta, &writer, &err);
	if (r == 0)
		r = snapshot_writer_add_bytes(writer, "disk.raw", "a disk", 6, &err);
	if (r == 0 && i % 2)
		r = snapshot_writer_add_bytes(writer, "memory", "a memory", 8, &err);
	if (r == 0)
		r = snapshot_writer_finish(writer, digest, &size_bytes, &err);
	if (r < 0)
		set_die("cannot make a snapshot: %s", err_text(&err, r));
	snapshot_know(&snapshots->wish->snapshots[i], &meta, path, digest, size_bytes);
}

/* --- one that is said to be done --- */

static void __attribute__((format(printf, 2, 3))) is_wrong(struct task *task, const char *fmt, ...)
{
	struct snapshots *snapshots = task->snapshots;
	va_list ap;
	int n = snprintf(snapshots->fault, sizeof(snapshots->fault),
	        "snapshot snap-%u of instance %s%s is told as done, but ", task->number, task->instance_id,
	        task->with_memory ? " with its memory" : "");

	va_start(ap, fmt);
	(void)vsnprintf(snapshots->fault + n, sizeof(snapshots->fault) - (size_t)n, fmt, ap);
	va_end(ap);
}

static bool digest_of(const char *path, char ret[static SHA256_DIGEST_MAX], uint64_t *ret_size)
{
	CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[65536];
	ssize_t n = -1;

	*ret_size = 0;
	if (fd < 0 || sha256_stream_new(&stream) < 0)
		return false;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		*ret_size += (uint64_t)n;
		if (sha256_stream_add(stream, buf, (size_t)n) < 0)
			return false;
	}
	return n == 0 && sha256_stream_digest(stream, ret) == 0;
}

/* The whole tar can be read, and says what it is. */
static bool tar_is_right(struct task *task, const char *path, struct snapshot_meta *ret)
{
	struct snapshot_member members[] = {
		{ .name = "disk.raw", .bytes_max = UINT64_MAX, .required = true },
		{ .name = "memory", .bytes_max = UINT64_MAX, .required = task->with_memory }
	};
	struct err err = { 0 };

	if (snapshot_read_meta(path, ret, &err) < 0 ||
	        snapshot_extract(path, members, ARRAY_SIZE(members), NULL, NULL, &err) < 0) {
		is_wrong(task, "%s cannot be read: %s", path, err.text);
		return false;
	}
	if (strcmp(ret->instance_id, task->instance_id) != 0 ||
	        (ret->kind == SNAPSHOT_MEMORY) != task->with_memory) {
		is_wrong(task, "its tar is of %s, %s", ret->instance_id, snapshot_kind_to_string(ret->kind));
		return false;
	}
	for (size_t i = 0; task->with_memory && i < ret->n_volumes; i++)
		if (!ret->volumes[i].read_only) {
			is_wrong(task, "its memory is from beside the read-write volume %s",
			        ret->volumes[i].id);
			return false;
		}
	return true;
}

/* A name of its own: a command that comes twice writes the file of its URL twice. */
static void tar_keep(struct snapshots *snapshots, const struct task *task, const char *path,
        const struct snapshot_meta *meta)
{
	unsigned n = WISH_SNAPSHOTS - WISH_SNAPSHOTS_MADE;
	char kept[200];

	(void)set_path(snapshots->set, kept, sizeof(kept), "sources/taken-%u.tar", snapshots->n_kept);
	if (link(path, kept) < 0)
		set_die("cannot keep %s: %s", path, strerror(errno));
	snapshot_know(&snapshots->wish->snapshots[WISH_SNAPSHOTS_MADE + snapshots->n_kept++ % n], meta, kept,
	        task->digest, task->size_bytes);
}

static void task_verify(struct task *task)
{
	struct snapshots *snapshots = task->snapshots;
	char path[200], digest[SHA256_DIGEST_MAX];
	struct snapshot_meta meta;
	uint64_t size_bytes;

	(void)set_path(snapshots->set, path, sizeof(path), "uploads/snap-%u.tar", task->number);
	if (!task->is_done || !task->digest[0]) {
		is_wrong(task, "no digest was told");
	} else if (!digest_of(path, digest, &size_bytes)) {
		is_wrong(task, "%s is not there: %s", path, strerror(errno));
	} else if (strcmp(digest, task->digest) != 0 || size_bytes != task->size_bytes) {
		is_wrong(task, "%s has %s (%" PRIu64 " bytes), and %s (%" PRIu64 " bytes) was told", path,
		        digest, size_bytes, task->digest, task->size_bytes);
	} else if (tar_is_right(task, path, &meta)) {
		tar_keep(snapshots, task, path, &meta);
	}
	(void)unlink(path);
}

/* --- commands --- */

static void task_end(struct task *task, bool is_ok, const char *why)
{
	struct snapshots *snapshots = task->snapshots;

	if (is_ok)
		task_verify(task);
	if (task->number == snapshots->wanted_number) {
		snapshots->wanted_number = 0;
		if (is_ok)
			snapshots->wanted_id[0] = 0;
		(void)snprintf(snapshots->why, sizeof(snapshots->why), "%s", is_ok ? "" : why);
	}
	*task = (struct task){ 0 };
}

static void task_hear(struct task *task, const Bc__V1__SnapshotProgress *progress)
{
	(void)snprintf(task->digest, sizeof(task->digest), "%s", progress->digest);
	task->size_bytes = progress->size_bytes;
	task->is_done = progress->done;
}

static void on_progress(const Bc__V1__SnapshotProgress *progress, void *userdata)
{
	task_hear(userdata, progress);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	task_end(userdata, status->code == GRPC_STATUS_OK, status->message);
}

/* The session's answers name their command; one that was asked for by a call is heard of here too. */
static void on_session_progress(const Bc__V1__SnapshotProgress *progress, void *userdata)
{
	struct snapshots *snapshots = userdata;
	unsigned number = 0;

	(void)sscanf(progress->id, "snap-%u", &number);
	for (size_t i = 0; number && i < TASKS_MAX; i++) {
		struct task *task = &snapshots->tasks[i];

		if (task->number != number || !task->by_session)
			continue;
		task_hear(task, progress);
		if (progress->done)
			task_end(task, !progress->error[0], progress->error);
	}
}

static void task_send(struct task *task)
{
	Bc__V1__SnapshotCommand command = BC__V1__SNAPSHOT_COMMAND__INIT;
	char id[32], path[200], url[256];

	(void)snprintf(id, sizeof(id), "snap-%u", task->number);
	(void)set_path(task->snapshots->set, path, sizeof(path), "uploads/%s.tar", id);
	(void)snprintf(url, sizeof(url), "file://%s", path);
	command.id = id;
	command.instance_id = task->instance_id;
	command.with_memory = task->with_memory;
	command.upload_url = url;
	if (task->by_session)
		plane_session_snapshot(task->snapshots->plane, &command);
	else
		plane_snapshot(task->snapshots->plane, &command, on_progress, on_end, task);
}

/* Who has not heard the end of a command gives it again. */
static void on_session(void *userdata)
{
	struct snapshots *snapshots = userdata;

	for (size_t i = 0; i < TASKS_MAX; i++)
		if (snapshots->tasks[i].number && snapshots->tasks[i].by_session)
			task_send(&snapshots->tasks[i]);
}

static struct task *task_new(
        struct snapshots *snapshots, const char *instance_id, bool with_memory, bool by_session)
{
	size_t i = 0;

	while (i < TASKS_MAX && snapshots->tasks[i].number)
		i++;
	if (i == TASKS_MAX)
		return NULL;
	snapshots->tasks[i] = (struct task){ .snapshots = snapshots,
		.number = ++snapshots->n_asked,
		.with_memory = with_memory,
		.by_session = by_session };
	(void)snprintf(
	        snapshots->tasks[i].instance_id, sizeof(snapshots->tasks[i].instance_id), "%s", instance_id);
	return &snapshots->tasks[i];
}

void snapshots_take(struct snapshots *snapshots, char ret[static WISH_TEXT_MAX])
{
	struct random *random = snapshots->wish->random;
	const char *id = snapshots->wish->instances[random_below(random, WISH_INSTANCES)].id;
	bool with_memory = random_chance(random, 40), by_session = random_chance(random, 50);
	bool comes_twice = random_chance(random, 15);
	struct task *task = task_new(snapshots, id, with_memory, by_session);

	if (!task) {
		(void)snprintf(ret, WISH_TEXT_MAX, "no snapshot: %d are under way", TASKS_MAX);
		return;
	}
	(void)snprintf(ret, WISH_TEXT_MAX, "snapshot snap-%u of %s%s, by %s%s", task->number, id,
	        with_memory ? " with its memory" : "", by_session ? "the session" : "a call",
	        comes_twice && by_session ? ", twice" : "");
	task_send(task);
	if (comes_twice && by_session && task->number)
		task_send(task);
}

void snapshots_want(struct snapshots *snapshots, const char *instance_id, bool with_memory)
{
	(void)snprintf(snapshots->wanted_id, sizeof(snapshots->wanted_id), "%s", instance_id);
	snapshots->wanted_with_memory = with_memory;
}

bool snapshots_are_quiet(struct snapshots *snapshots, char *words, size_t size)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (snapshots->tasks[i].number) {
			(void)snprintf(words, size, "snapshot snap-%u of instance %s has no end",
			        snapshots->tasks[i].number, snapshots->tasks[i].instance_id);
			return false;
		}
	if (!snapshots->wanted_id[0])
		return true;
	struct task *task = task_new(snapshots, snapshots->wanted_id, snapshots->wanted_with_memory, false);
	if (task) {
		snapshots->wanted_number = task->number;
		task_send(task);
	}
	(void)snprintf(words, size, "no snapshot can be taken of instance %s%s, which is at rest: %s",
	        snapshots->wanted_id, snapshots->wanted_with_memory ? " with its memory" : "",
	        snapshots->why);
	return false;
}

const char *snapshots_fault(const struct snapshots *snapshots)
{
	return snapshots->fault[0] ? snapshots->fault : NULL;
}

struct snapshots *snapshots_new(struct set *set, struct plane *plane, struct wish *wish)
{
	struct snapshots *snapshots = calloc(1, sizeof(*snapshots));

	if (!snapshots)
		set_die("no memory");
	snapshots->set = set;
	snapshots->plane = plane;
	snapshots->wish = wish;
	for (unsigned i = 0; i < WISH_SNAPSHOTS_MADE; i++)
		snapshot_make(snapshots, i);
	plane_follow_snapshots(plane, on_session, on_session_progress, snapshots);
	return snapshots;
}

struct snapshots *snapshots_free(struct snapshots *snapshots)
{
	free(snapshots);
	return NULL;
}
