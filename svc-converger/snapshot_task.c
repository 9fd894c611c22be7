#include "svc-converger/snapshot_task.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "svc-converger/call.h"
#include "svc-converger/instance_view.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/runtimes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum task_state {
	TASK_WRITING,
	TASK_UPLOADING,
	TASK_ENDED,
};

struct task {
	struct snapshot_tasks *tasks; /* weak */
	char id[SNAPSHOT_ID_MAX];
	char instance_id[UUID_TEXT_MAX];
	char url[2049];
	bool with_memory;
	enum task_state state;
	bool is_heard;                  /* its end was told to somebody */
	struct call *call;              /* owned while writing */
	struct snapshot_upload *upload; /* owned by the store; NULL once it has ended */
	uint64_t done_bytes, total_bytes, size_bytes;
	char digest[72];
	struct rpc_status outcome; /* once ENDED */
	struct task *next;         /* weak; newest first */
};

struct snapshot_tasks {
	struct converger *c; /* weak */
	struct task *first;  /* owned */
	size_t n;
	struct snapshot_follower *followers; /* weak */
};

struct snapshot_tasks *snapshot_tasks_new(struct converger *c)
{
	struct snapshot_tasks *tasks = calloc(1, sizeof(*tasks));

	if (tasks)
		tasks->c = c;
	return tasks;
}

static void task_stop(struct task *task)
{
	struct snapshot_upload *upload = TAKE_PTR(task->upload);

	call_drop(&task->call);
	if (upload)
		snapshot_upload_cancel(upload);
}

struct snapshot_tasks *snapshot_tasks_free(struct snapshot_tasks *tasks)
{
	if (!tasks)
		return NULL;
	while (tasks->first) {
		struct task *task = tasks->first;

		tasks->first = task->next;
		task->state = TASK_ENDED;
		task_stop(task);
		free(task);
	}
	free(tasks);
	return NULL;
}

static struct task *task_find(const struct snapshot_tasks *tasks, const char *id)
{
	for (struct task *task = tasks->first; task; task = task->next)
		if (strcmp(task->id, id) == 0)
			return task;
	return NULL;
}

static struct task *task_of_instance(const struct snapshot_tasks *tasks, const char *instance_id)
{
	for (struct task *task = tasks->first; task; task = task->next)
		if (task->state != TASK_ENDED && strcmp(task->instance_id, instance_id) == 0)
			return task;
	return NULL;
}

static void task_progress(const struct task *task, Bc__V1__Progress *ret)
{
	bc__v1__progress__init(ret);
	ret->what = (char *)(task->state == TASK_WRITING ? "writing snapshot" : "uploading snapshot");
	ret->done_bytes = task->done_bytes;
	ret->total_bytes = task->total_bytes;
}

static void task_say(struct task *task, struct snapshot_follower *one)
{
	Bc__V1__SnapshotProgress message = BC__V1__SNAPSHOT_PROGRESS__INIT;
	Bc__V1__Progress progress;
	struct snapshot_follower *next;
	struct instance *instance = converger_instance(task->tasks->c, task->instance_id);

	message.id = task->id;
	message.progress = &progress;
	task_progress(task, &progress);
	message.done = task->state == TASK_ENDED;
	message.digest = task->digest;
	message.size_bytes = task->size_bytes;
	if (message.done && task->outcome.code != GRPC_STATUS_OK)
		message.error = task->outcome.message;
	if (instance && !message.done) {
		instance->is_news = true;
		reconciler_refresh(task->tasks->c, instance);
	}
	if (one) {
		task->is_heard = task->is_heard || message.done;
		one->on_progress(&message, &task->outcome, one->userdata);
		return;
	}
	for (struct snapshot_follower *f = task->tasks->followers; f; f = next) {
		next = f->next; /* it may leave at the end */
		task->is_heard = task->is_heard || message.done;
		f->on_progress(&message, &task->outcome, f->userdata);
	}
}

static void task_end(struct task *task, grpc_status_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void task_end(struct task *task, grpc_status_code code, const char *fmt, ...)
{
	struct converger *c = task->tasks->c;
	struct instance *instance = converger_instance(c, task->instance_id);
	va_list ap;

	if (task->state == TASK_ENDED)
		return;
	task->state = TASK_ENDED;
	task->outcome.code = code;
	va_start(ap, fmt);
	(void)vsnprintf(task->outcome.message, sizeof(task->outcome.message), fmt, ap);
	va_end(ap);
	task_stop(task);
	if (instance) {
		instance->is_snapshotting = false;
		instance->is_news = true;
		reconciler_mark(c, instance);
	}
	converger_event(c, code == GRPC_STATUS_OK ? EVENT_INFO : EVENT_ERROR, task->instance_id,
	        code == GRPC_STATUS_OK ? "SnapshotDone" : "SnapshotFailed", "%s%s%.160s", task->id,
	        *task->outcome.message ? ": " : "", task->outcome.message);
	task_say(task, NULL);
}

/* --- uploading --- */

static void on_upload_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct task *task = userdata;

	task->done_bytes = done_bytes;
	task->total_bytes = total_bytes;
	task_say(task, NULL);
}

static void on_upload_pause(const struct err *why, uint64_t pause_usec, void *userdata)
{
	struct task *task = userdata;

	converger_event(task->tasks->c, EVENT_WARNING, task->instance_id, "SnapshotDelayed",
	        "%s: %.160s; sent again in %" PRIu64 " s", task->id, err_text(why, -EIO),
	        (pause_usec + USEC_PER_SEC - 1) / USEC_PER_SEC);
	task->done_bytes = 0;
	task_say(task, NULL);
}

static void on_uploaded(const struct snapshot_result *result, void *userdata)
{
	struct task *task = userdata;

	task->upload = NULL;
	if (result->r < 0)
		task_end(task, rpc_code_from_errno(result->r), "%s", err_text(&result->error, result->r));
	else
		task_end(task, GRPC_STATUS_OK, "%s", "");
}

static const struct snapshot_upload_handlers upload_handlers = {
	.on_progress = on_upload_progress,
	.on_pause = on_upload_pause,
	.on_done = on_uploaded,
};

/* --- writing --- */

static void on_written(const ProtobufCMessage *message, void *owner)
{
	struct task *task = owner;
	const Bc__V1__RuntimeSnapshotEvent *event = (const Bc__V1__RuntimeSnapshotEvent *)message;

	if (event->progress) {
		task->done_bytes = event->progress->done_bytes;
		task->total_bytes = event->progress->total_bytes;
	}
	if (*event->digest) {
		quote_text(event->digest, task->digest, sizeof(task->digest));
		task->size_bytes = event->size_bytes;
	}
	task_say(task, NULL);
}

static void on_write_end(const struct rpc_status *status, void *owner)
{
	struct task *task = owner;
	struct err err = { 0 };
	int r;

	if (status->code != GRPC_STATUS_OK) {
		task_end(task, status->code, "%s", status->message);
		return;
	}
	if (!*task->digest) {
		task_end(
		        task, GRPC_STATUS_INTERNAL, "the runtime ended without saying the snapshot's digest");
		return;
	}
	task->state = TASK_UPLOADING;
	task->done_bytes = 0;
	task->total_bytes = task->size_bytes;
	r = snapshot_upload_start(
	        task->upload, task->url, task->digest, task->size_bytes, &upload_handlers, task, &err);
	if (r < 0)
		task_end(task, rpc_code_from_errno(r), "%s", err_text(&err, r));
	else
		task_say(task, NULL);
}

static const struct call_stream_handlers write_handlers = { .on_message = on_written,
	.on_end = on_write_end };

/* --- beginning --- */

static int check_command(const Bc__V1__SnapshotCommand *command, struct rpc_status *status)
{
	if (!*command->id || strlen(command->id) >= SNAPSHOT_ID_MAX)
		return rpc_status_set(status, GRPC_STATUS_INVALID_ARGUMENT,
		        "id: has %zu bytes; write 1 to 128", strlen(command->id));
	if (!uuid_is_valid(command->instance_id))
		return rpc_status_set(
		        status, GRPC_STATUS_INVALID_ARGUMENT, "instance_id: not a canonical UUID");
	if (strlen(command->upload_url) > 2048 ||
	        (strncmp(command->upload_url, "file:", 5) != 0 &&
	                strncmp(command->upload_url, "https:", 6) != 0))
		return rpc_status_set(status, GRPC_STATUS_INVALID_ARGUMENT,
		        "upload_url: write a file: or https: URL of at most 2048 bytes");
	return 0;
}

static bool has_writable_volume(const Bc__V1__InstanceSpec *spec)
{
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (!spec->volumes[i]->read_only)
			return true;
	return false;
}

static int check_instance(const struct instance *instance, const struct instance_view *view,
        const Bc__V1__InstanceSpec *spec, bool with_memory, struct rpc_status *status)
{
	const char *runtime = runtime_link_id(view->runtime);

	/* Between two steps of a start nothing is in flight; it would wait for the snapshot's end all the same. */
	if (instance->operation || instance->attempt)
		return rpc_status_set(status, GRPC_STATUS_UNAVAILABLE,
		        "instance %s is being worked on; try again soon", instance->id);
	if (!runtime_link_has(view->runtime, with_memory ? "snapshot.memory" : "snapshot"))
		return rpc_status_set(status, GRPC_STATUS_UNIMPLEMENTED, "runtime %s makes no snapshots%s",
		        runtime, with_memory ? " of memory" : "");
	if (with_memory && !domain_is_up(view->domain))
		return rpc_status_set(status, GRPC_STATUS_FAILED_PRECONDITION,
		        "instance %s is not running: it has no memory to keep; snapshot its disk only",
		        instance->id);
	if (with_memory && has_writable_volume(spec))
		return rpc_status_set(status, GRPC_STATUS_FAILED_PRECONDITION,
		        "an instance with a read-write volume cannot be snapshotted with its memory; snapshot its disk only");
	if (with_memory && spec->n_gpu_device_ids)
		return rpc_status_set(status, GRPC_STATUS_FAILED_PRECONDITION,
		        "an instance with passthrough GPUs cannot be snapshotted with its memory; snapshot its disk only");
	return 0;
}

static int task_start(struct task *task, const struct instance_view *view, const Bc__V1__InstanceSpec *spec,
        bool with_memory, struct rpc_status *status)
{
	struct converger *c = task->tasks->c;
	Bc__V1__RuntimeSnapshotRequest request = BC__V1__RUNTIME_SNAPSHOT_REQUEST__INIT;
	struct err err = { 0 };
	int r = snapshot_store_stage(c->snapshots, task->id,
	        (with_memory ? spec->memory_bytes : 0) + spec->root_disk_bytes, &task->upload, &err);

	if (r < 0)
		return rpc_status_set(status, rpc_code_from_errno(r), "%s", err_text(&err, r));
	request.id = task->instance_id;
	request.with_memory = with_memory;
	request.path = (char *)snapshot_upload_path(task->upload);
	r = call_stream(&task->call, runtime_link_channel(view->runtime),
	        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, snapshot), &request.base,
	        c->options.snapshot_timeout_usec, &write_handlers, task);
	if (r < 0) {
		snapshot_upload_cancel(TAKE_PTR(task->upload));
		return rpc_status_set(status, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
	}
	return 0;
}

/* The oldest that has ended makes room. */
static void tasks_trim(struct snapshot_tasks *tasks)
{
	struct task **last = NULL;

	for (struct task **at = &tasks->first; *at; at = &(*at)->next)
		if ((*at)->state == TASK_ENDED)
			last = at;
	if (tasks->n < SNAPSHOTS_KEPT_MAX || !last)
		return;
	struct task *task = *last;
	*last = task->next;
	tasks->n--;
	free(task);
}

/* It is begun, and on the list. */
static int tasks_add(struct snapshot_tasks *tasks, const Bc__V1__SnapshotCommand *command,
        struct instance *instance, const struct instance_view *view, const Bc__V1__InstanceSpec *spec,
        struct rpc_status *ret_status)
{
	struct task *task;
	int r = check_instance(instance, view, spec, command->with_memory, ret_status);

	if (r < 0)
		return r;
	tasks_trim(tasks);
	task = tasks->n < SNAPSHOTS_KEPT_MAX ? calloc(1, sizeof(*task)) : NULL;
	if (!task)
		return rpc_status_set(
		        ret_status, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many snapshots are under way");
	task->tasks = tasks;
	strcpy(task->id, command->id);
	strcpy(task->instance_id, instance->id);
	strcpy(task->url, command->upload_url);
	task->with_memory = command->with_memory;
	r = task_start(task, view, spec, command->with_memory, ret_status);
	if (r < 0) {
		free(task);
		return r;
	}
	task->next = tasks->first;
	tasks->first = task;
	tasks->n++;
	instance->is_snapshotting = true;
	instance->is_news = true;
	reconciler_refresh(tasks->c, instance);
	return 0;
}

int snapshot_tasks_begin(
        struct snapshot_tasks *tasks, const Bc__V1__SnapshotCommand *command, struct rpc_status *ret_status)
{
	struct converger *c = tasks->c;
	const struct task *task;
	struct instance *instance;
	struct instance_view view;
	Bc__V1__InstanceSpec *spec;
	int r = check_command(command, ret_status);

	if (r < 0)
		return r;
	task = task_find(tasks, command->id);
	/* The URL may differ: a signed one does each time. */
	if (task &&
	        (strcmp(task->instance_id, command->instance_id) != 0 ||
	                task->with_memory != command->with_memory))
		return rpc_status_set(ret_status, GRPC_STATUS_ALREADY_EXISTS,
		        "id: there is a snapshot '%s' already, of instance %s%s; give this one another id",
		        QUOTED(task->id), task->instance_id, task->with_memory ? " with its memory" : "");
	if (task)
		return 0;
	r = instance_view_named(c, command->instance_id, &instance, &view, ret_status);
	if (r < 0)
		return r;
	if (task_of_instance(tasks, instance->id))
		return rpc_status_set(ret_status, GRPC_STATUS_FAILED_PRECONDITION,
		        "a snapshot of instance %s is under way", instance->id);
	if (!instance_has_domain(&view))
		return rpc_status_set(ret_status, GRPC_STATUS_FAILED_PRECONDITION,
		        "instance %s has no domain", instance->id);
	spec = instance_spec_unpack(instance->spec);
	if (!spec)
		return rpc_status_set(ret_status, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
	r = tasks_add(tasks, command, instance, &view, spec, ret_status);
	bc__v1__instance_spec__free_unpacked(spec, NULL);
	return r;
}

void snapshot_tasks_cancel(struct snapshot_tasks *tasks, const char *instance_id)
{
	struct task *task = task_of_instance(tasks, instance_id);

	if (task)
		task_end(task, GRPC_STATUS_CANCELLED, "the instance is to stop or to go");
}

bool snapshot_tasks_progress(
        const struct snapshot_tasks *tasks, const char *instance_id, Bc__V1__Progress *ret)
{
	const struct task *task = task_of_instance(tasks, instance_id);

	if (task)
		task_progress(task, ret);
	return task != NULL;
}

size_t snapshot_tasks_running(const struct snapshot_tasks *tasks)
{
	size_t n = 0;

	for (const struct task *task = tasks->first; task; task = task->next)
		n += task->state != TASK_ENDED;
	return n;
}

void snapshot_tasks_follow(struct snapshot_tasks *tasks, struct snapshot_follower *follower)
{
	follower->next = tasks->followers;
	tasks->followers = follower;
}

void snapshot_tasks_unfollow(struct snapshot_tasks *tasks, struct snapshot_follower *follower)
{
	struct snapshot_follower **at = &tasks->followers;

	while (*at && *at != follower)
		at = &(*at)->next;
	if (*at)
		*at = follower->next;
}

bool snapshot_tasks_tell(struct snapshot_tasks *tasks, const char *id, struct snapshot_follower *follower)
{
	struct task *task = task_find(tasks, id);

	if (task)
		task_say(task, follower);
	return task != NULL;
}

void snapshot_tasks_tell_unheard(struct snapshot_tasks *tasks, struct snapshot_follower *follower)
{
	for (struct task *task = tasks->first; task; task = task->next)
		if (task->state == TASK_ENDED && !task->is_heard)
			task_say(task, follower);
}
