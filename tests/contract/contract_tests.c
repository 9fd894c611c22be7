#include "tests/contract/contract.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/sha256.h"
#include "lib/snapshot/tar.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define RUNNING BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING
#define STOPPED BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED
#define PAUSED BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED

static const char NOBODY[] = "00000000-0000-4000-8000-000000000000";

/* --- describing and defining --- */

static void describe_says_what_it_is(void **state)
{
	struct contract *c = *state;
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	static const char *const KNOWN[] = { "snapshot", "snapshot.memory", "console", "rebind",
		"grow-volume", "balloon", "self-admitting", "restores-on-normal-pages", "gpu", "macvtap",
		"user-nic", "placement", "dry-run" };
	Bc__V1__DescribeReply *reply = contract_call(c, RUNTIME(describe), &request, NULL);

	assert_true(reply->id[0] && reply->version[0] && reply->cpu_model[0]);
	/* A reason why not kvm belongs to everything but kvm. */
	assert_int_equal(strcmp(reply->accel, "kvm") == 0, reply->accel_reason[0] == '\0');
	for (size_t i = 0; i < reply->n_features; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_SIZE(KNOWN); k++)
			known |= strcmp(reply->features[i], KNOWN[k]) == 0;
		if (!known)
			fail_msg("feature '%s' is not one of the contract", reply->features[i]);
	}
	bc__v1__describe_reply__free_unpacked(reply, NULL);
}

static void ensure_defines_and_does_not_start(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	Bc__V1__Domain *first = contract_ensure(c, request);
	Bc__V1__Domain *again = contract_ensure(c, request);

	assert_string_equal(first->id, request->spec->id);
	assert_true(first->managed && first->name[0] && first->spec_digest[0] && first->since);
	assert_int_equal(first->state, BC__V1__DOMAIN__STATE__STOPPED);
	assert_string_equal(first->allocation_id, request->spec->allocation_id);
	assert_int_equal(first->vcpus, 1);
	assert_int_equal(first->memory_bytes, request->spec->memory_bytes);
	assert_string_equal(again->spec_digest, first->spec_digest);
	bc__v1__domain__free_unpacked(again, NULL);
	/* Another definition is another digest; another wish for its state is not. */
	request->spec->desired_state = STOPPED;
	again = contract_ensure(c, request);
	assert_string_equal(again->spec_digest, first->spec_digest);
	bc__v1__domain__free_unpacked(again, NULL);
	request->spec->vcpus = 2;
	again = contract_ensure(c, request);
	assert_string_not_equal(again->spec_digest, first->spec_digest);
	assert_int_equal(again->vcpus, 2);
	bc__v1__domain__free_unpacked(again, NULL);
	bc__v1__domain__free_unpacked(first, NULL);
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void bad_requests_are_refused_and_leave_nothing(void **state)
{
	struct contract *c = *state;

	for (int mistake = 0; mistake < 9; mistake++) {
		Bc__V1__EnsureRequest *request = ensure_new(c, 1);
		Bc__V1__InstanceSpec *spec = request->spec;

		switch (mistake) {
		case 0:
			text_replace(&spec->id, "NOT-A-UUID");
			break;
		case 1:
			bc__v1__instance_spec__free_unpacked(TAKE_PTR(request->spec), NULL);
			break;
		case 2:
			bc__v1__boot__free_unpacked(TAKE_PTR(spec->boot), NULL);
			break;
		case 3:
			spec->vcpus = 0;
			break;
		case 4:
			spec->memory_bytes = 64 * MIB + 1;
			break;
		case 5:
			spec->root_disk_bytes = 1000;
			break;
		case 6:
			text_replace(&request->idempotency_key, "instance:somebody-else:apply:RUNNING");
			break;
		case 7:
			request->user_data.len = 64 * 1024 + 1;
			request->user_data.data = calloc(1, request->user_data.len);
			break;
		default: /* a path for a volume that the spec does not have */
			ensure_add_volume(request, c, "volume-1", false);
			bc__v1__volume_attachment__free_unpacked(spec->volumes[--spec->n_volumes], NULL);
			break;
		}
		contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_INVALID_ARGUMENT);
		bc__v1__ensure_request__free_unpacked(request, NULL);
	}
	Bc__V1__EnsureRequest *good = ensure_new(c, 1);
	assert_int_equal(contract_state(c, good->spec->id), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	bc__v1__ensure_request__free_unpacked(good, NULL);
}

static void a_dry_run_defines_nothing(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);

	request->dry_run = true;
	if (contract_has(c, "dry-run")) {
		Bc__V1__EnsureReply *reply = contract_call(c, RUNTIME(ensure), request, NULL);

		assert_true(reply->definition[0] != '\0');
		bc__v1__ensure_reply__free_unpacked(reply, NULL);
		request->spec->vcpus = 0;
		contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_INVALID_ARGUMENT);
	} else {
		contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_UNIMPLEMENTED);
	}
	assert_int_equal(contract_state(c, request->spec->id), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void another_allocation_does_not_take_over(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	text_replace(&request->spec->allocation_id, "allocation-2");
	contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_FAILED_PRECONDITION);
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void a_root_disk_grows_and_never_shrinks(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);

	/* A kernel boot may have no root disk at all. */
	if (request->spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE || !c->runtime->adapt) {
		request->spec->root_disk_bytes = 64 * MIB;
		bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
		request->spec->root_disk_bytes = 128 * MIB;
		bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
		request->spec->root_disk_bytes = 64 * MIB;
		contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_FAILED_PRECONDITION);
		assert_true(contract_remove(c, request->spec->id));
	}
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* --- states --- */

static void states_follow_and_repeat(void **state)
{
	static const struct {
		Bc__V1__InstanceSpec__DesiredState wish;
		Bc__V1__Domain__State state;
	} STEPS[] = { { STOPPED, BC__V1__DOMAIN__STATE__STOPPED },
		{ RUNNING, BC__V1__DOMAIN__STATE__RUNNING }, { RUNNING, BC__V1__DOMAIN__STATE__RUNNING },
		{ PAUSED, BC__V1__DOMAIN__STATE__PAUSED }, { PAUSED, BC__V1__DOMAIN__STATE__PAUSED },
		{ RUNNING, BC__V1__DOMAIN__STATE__RUNNING }, { STOPPED, BC__V1__DOMAIN__STATE__STOPPED },
		{ STOPPED, BC__V1__DOMAIN__STATE__STOPPED }, { RUNNING, BC__V1__DOMAIN__STATE__RUNNING } };
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;
	int64_t since = 0;

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	for (size_t i = 0; i < ARRAY_SIZE(STEPS); i++) {
		Bc__V1__Domain *domain = contract_set_state(c, id, STEPS[i].wish);

		if (domain->state != STEPS[i].state)
			fail_msg("step %zu: state %d", i, domain->state);
		assert_true(domain->since->seconds >= since);
		since = domain->since->seconds;
		/* Who tells how long a start took tells each part of it. */
		if (domain->boot && domain->boot->vmm_started_ns) {
			assert_true(domain->boot->prepared_ns > 0);
			assert_true(domain->boot->prepared_ns <= domain->boot->vmm_started_ns);
		}
		bc__v1__domain__free_unpacked(domain, NULL);
		assert_int_equal(contract_state(c, id), STEPS[i].state);
	}
	/* Running as it is, it can be ensured again, and removed. */
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__RUNNING);
	assert_true(contract_remove(c, id));
	assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	assert_false(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void what_is_not_there_is_not_found(void **state)
{
	struct contract *c = *state;
	Bc__V1__SetStateRequest set = BC__V1__SET_STATE_REQUEST__INIT;
	Bc__V1__RuntimeGetRequest get = BC__V1__RUNTIME_GET_REQUEST__INIT;

	set.id = get.id = (char *)(uintptr_t)NOBODY;
	set.state = RUNNING;
	contract_refused(c, RUNTIME(set_state), &set, GRPC_STATUS_NOT_FOUND);
	contract_refused(c, RUNTIME(get), &get, GRPC_STATUS_NOT_FOUND);
	assert_false(contract_remove(c, NOBODY));
	get.id = (char[]){ "" };
	contract_refused(c, RUNTIME(get), &get, GRPC_STATUS_INVALID_ARGUMENT);
}

static void wishes_that_are_none_are_refused(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	Bc__V1__SetStateRequest set = BC__V1__SET_STATE_REQUEST__INIT;
	Bc__V1__RuntimeRemoveRequest remove = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	set.id = remove.id = request->spec->id;
	contract_refused(c, RUNTIME(set_state), &set, GRPC_STATUS_INVALID_ARGUMENT);
	set.state = RUNNING;
	set.idempotency_key = (char[]){ "instance:x:apply:RUNNING" };
	contract_refused(c, RUNTIME(set_state), &set, GRPC_STATUS_INVALID_ARGUMENT);
	remove.idempotency_key = (char[]){ "instance:x:remove" };
	contract_refused(c, RUNTIME(remove), &remove, GRPC_STATUS_INVALID_ARGUMENT);
	assert_int_equal(contract_state(c, request->spec->id), BC__V1__DOMAIN__STATE__STOPPED);
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void domains_outlive_the_runtime(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 2);
	char running[UUID_TEXT_MAX];

	contract_start_instance(c, 1, running);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, running), BC__V1__DOMAIN__STATE__RUNNING);
	assert_int_equal(contract_state(c, request->spec->id), BC__V1__DOMAIN__STATE__STOPPED);
	contract_end(c);
	contract_start(c);
	assert_int_equal(contract_state(c, running), BC__V1__DOMAIN__STATE__RUNNING);
	assert_true(contract_remove(c, running));
	assert_true(contract_remove(c, request->spec->id));
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, running), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void list_has_all_of_them(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	char ids[3][UUID_TEXT_MAX];

	for (unsigned i = 0; i < 3; i++)
		contract_start_instance(c, i, ids[i]);
	Bc__V1__RuntimeListReply *reply = contract_call(c, RUNTIME(list), &request, NULL);
	for (unsigned i = 0; i < 3; i++) {
		size_t n = 0;

		for (size_t d = 0; d < reply->n_domains; d++)
			n += strcmp(reply->domains[d]->id, ids[i]) == 0;
		assert_int_equal(n, 1);
		assert_true(contract_remove(c, ids[i]));
	}
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
}

/* --- watching --- */

/* The next event about that domain. Steps on the way, such as STOPPING, may come before. */
static void event_awaited(
        struct stream *watch, Bc__V1__DomainEvent__Type type, const char *id, Bc__V1__Domain__State want)
{
	for (;;) {
		Bc__V1__DomainEvent *event = stream_next(watch);

		if (!event)
			fail_msg("the stream ended where event %d was awaited", type);
		bool found = event->type == type && event->domain && strcmp(event->domain->id, id) == 0 &&
		        (type == BC__V1__DOMAIN_EVENT__TYPE__GONE || event->domain->state == want);
		bc__v1__domain_event__free_unpacked(event, NULL);
		if (found)
			return;
	}
}

static void watch_tells_what_is_and_what_changes(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	char first[UUID_TEXT_MAX], second[UUID_TEXT_MAX];
	Bc__V1__DomainEvent *event;
	bool seen = false;

	contract_start_instance(c, 1, first);
	struct stream *watch = stream_open(c, RUNTIME(watch), &request);
	for (;;) {
		event = stream_next(watch);
		assert_non_null(event);
		if (event->type == BC__V1__DOMAIN_EVENT__TYPE__SYNCED)
			break;
		assert_int_equal(event->type, BC__V1__DOMAIN_EVENT__TYPE__PRESENT);
		seen |= strcmp(event->domain->id, first) == 0 &&
		        event->domain->state == BC__V1__DOMAIN__STATE__RUNNING;
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
	bc__v1__domain_event__free_unpacked(event, NULL);
	assert_true(seen);
	contract_start_instance(c, 2, second);
	event_awaited(watch, BC__V1__DOMAIN_EVENT__TYPE__CHANGED, second, BC__V1__DOMAIN__STATE__RUNNING);
	bc__v1__domain__free_unpacked(contract_set_state(c, first, STOPPED), NULL);
	event_awaited(watch, BC__V1__DOMAIN_EVENT__TYPE__CHANGED, first, BC__V1__DOMAIN__STATE__STOPPED);
	assert_true(contract_remove(c, first));
	event_awaited(watch, BC__V1__DOMAIN_EVENT__TYPE__GONE, first, 0);
	assert_true(contract_remove(c, second));
	event_awaited(watch, BC__V1__DOMAIN_EVENT__TYPE__GONE, second, 0);
	stream_close(watch);
}

static void a_watcher_does_not_hold_the_end(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	struct stream *watch = stream_open(c, RUNTIME(watch), &request);

	bc__v1__domain_event__free_unpacked(stream_next(watch), NULL);
	contract_end(c);
	assert_int_equal(stream_end(watch), GRPC_STATUS_UNAVAILABLE);
	stream_close(watch);
	contract_start(c);
}

/* --- consoles --- */

static void a_console_has_one_client_at_a_time(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	struct stream *first = contract_console_open(c, id, false);
	if (!contract_has(c, "console")) {
		assert_int_equal(stream_end(first), GRPC_STATUS_UNIMPLEMENTED);
		stream_close(first);
		assert_true(contract_remove(c, id));
		return;
	}
	contract_console_opened(first);
	if (c->runtime->echoes) {
		contract_console_type(first, "hello");
		contract_console_says(first, "hello");
	}
	struct stream *second = contract_console_open(c, id, false);
	assert_int_equal(stream_end(second), GRPC_STATUS_FAILED_PRECONDITION);
	stream_close(second);
	second = contract_console_open(c, id, true);
	contract_console_opened(second);
	assert_int_equal(stream_end(first), GRPC_STATUS_ABORTED);
	stream_close(first);
	if (c->runtime->echoes)
		contract_console_says(second, "hello"); /* the backlog */
	stream_close(second);
	/* A client that is gone leaves its place. */
	for (int i = 0; i < 20; i++) {
		struct stream *next = contract_console_open(c, id, true);

		contract_console_opened(next);
		stream_close(next);
	}
	assert_true(contract_remove(c, id));
}

static void a_console_refuses_what_makes_no_sense(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);

	if (contract_has(c, "console")) {
		struct stream *stream = contract_console_open(c, NOBODY, false);

		assert_int_equal(stream_end(stream), GRPC_STATUS_NOT_FOUND);
		stream_close(stream);
		bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
		stream = contract_console_open(c, request->spec->id, false);
		assert_int_equal(stream_end(stream), GRPC_STATUS_FAILED_PRECONDITION); /* it is stopped */
		stream_close(stream);
		stream = stream_open(c, RUNTIME(console), NULL);
		contract_console_type(stream, "data before open");
		assert_int_equal(stream_end(stream), GRPC_STATUS_INVALID_ARGUMENT);
		stream_close(stream);
		assert_true(contract_remove(c, request->spec->id));
	}
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* --- snapshots --- */

/* Takes one; the last event is the caller's. NULL when the stream ended with a refusal, told in *ret_code. */
static Bc__V1__RuntimeSnapshotEvent *snapshot(
        struct contract *c, const char *id, bool with_memory, const char *path, grpc_status_code *ret_code)
{
	Bc__V1__RuntimeSnapshotRequest request = BC__V1__RUNTIME_SNAPSHOT_REQUEST__INIT;
	Bc__V1__RuntimeSnapshotEvent *last = NULL, *event;

	request.id = (char *)(uintptr_t)id;
	request.with_memory = with_memory;
	request.path = (char *)(uintptr_t)path;
	struct stream *stream = stream_open(c, RUNTIME(snapshot), &request);
	while ((event = stream_next(stream))) {
		if (last)
			bc__v1__runtime_snapshot_event__free_unpacked(last, NULL);
		last = event;
	}
	*ret_code = stream_end(stream);
	stream_close(stream);
	if (*ret_code != GRPC_STATUS_OK && last) {
		bc__v1__runtime_snapshot_event__free_unpacked(last, NULL);
		last = NULL;
	}
	return last;
}

static void snapshot_refused(
        struct contract *c, const char *id, bool with_memory, const char *path, grpc_status_code code)
{
	grpc_status_code got;

	assert_null(snapshot(c, id, with_memory, path, &got));
	assert_int_equal(got, code);
}

/* Instance n with a disk, running. */
static void start_with_disk(struct contract *c, unsigned n, char *ret_id)
{
	Bc__V1__EnsureRequest *request = ensure_new(c, n);

	ensure_give_disk(request, c);
	(void)snprintf(ret_id, UUID_TEXT_MAX, "%s", request->spec->id);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	bc__v1__domain__free_unpacked(contract_set_state(c, ret_id, RUNNING), NULL);
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* A snapshot of an instance that runs; its tar at path. */
static void snapshot_take(
        struct contract *c, const char *id, bool with_memory, const char *path, struct snapshot_meta *meta)
{
	char digest[SHA256_DIGEST_MAX];
	grpc_status_code code;
	uint64_t size;

	Bc__V1__RuntimeSnapshotEvent *last = snapshot(c, id, with_memory, path, &code);
	assert_int_equal(code, GRPC_STATUS_OK);
	assert_non_null(last);
	file_digest(path, digest, &size);
	assert_string_equal(last->digest, digest);
	assert_int_equal(last->size_bytes, size);
	bc__v1__runtime_snapshot_event__free_unpacked(last, NULL);
	struct err err = { 0 };
	if (snapshot_read_meta(path, meta, &err) < 0)
		fail_msg("%s", err.text);
}

static void a_snapshot_says_what_it_is(void **state)
{
	struct contract *c = *state;
	const char *path = SANDBOX_PATH(&c->dir, "one.tar");
	struct snapshot_meta meta;
	char id[UUID_TEXT_MAX];

	start_with_disk(c, 1, id);
	if (!contract_has(c, "snapshot")) {
		snapshot_refused(c, id, false, path, GRPC_STATUS_UNIMPLEMENTED);
		assert_true(contract_remove(c, id));
		return;
	}
	snapshot_take(c, id, false, path, &meta);
	assert_string_equal(meta.instance_id, id);
	assert_int_equal(meta.kind, SNAPSHOT_DISK);
	assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__RUNNING);
	/* What is at the path is not written over. */
	snapshot_refused(c, id, false, path, GRPC_STATUS_ALREADY_EXISTS);
	snapshot_refused(c, NOBODY, false, SANDBOX_PATH(&c->dir, "none.tar"), GRPC_STATUS_NOT_FOUND);
	snapshot_refused(c, id, false, "relative.tar", GRPC_STATUS_INVALID_ARGUMENT);
	assert_int_equal(access(SANDBOX_PATH(&c->dir, "none.tar"), F_OK), -1);
	assert_true(contract_remove(c, id));
}

static void memory_needs_a_running_guest_and_no_writable_volume(void **state)
{
	struct contract *c = *state;
	const char *path = SANDBOX_PATH(&c->dir, "memory.tar");
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;
	struct snapshot_meta meta;

	if (contract_has(c, "snapshot.memory")) {
		bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
		snapshot_refused(c, id, true, path, GRPC_STATUS_FAILED_PRECONDITION); /* it is stopped */
		bc__v1__domain__free_unpacked(contract_set_state(c, id, RUNNING), NULL);
		snapshot_take(c, id, true, path, &meta);
		assert_int_equal(meta.kind, SNAPSHOT_MEMORY);
		assert_true(meta.cpu_model[0] != '\0');
		assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__RUNNING);
		assert_true(contract_remove(c, id));
		ensure_add_volume(request, c, "volume-1", false);
		bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
		bc__v1__domain__free_unpacked(contract_set_state(c, id, RUNNING), NULL);
		path = SANDBOX_PATH(&c->dir, "refused.tar");
		snapshot_refused(c, id, true, path, GRPC_STATUS_FAILED_PRECONDITION);
		assert_int_equal(access(path, F_OK), -1);
		assert_true(contract_remove(c, id));
	}
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* The instance n, to be made from the tar at path. */
static Bc__V1__EnsureRequest *restore_new(struct contract *c, unsigned n, const char *path, bool with_memory)
{
	Bc__V1__EnsureRequest *request = ensure_new(c, n);
	char digest[SHA256_DIGEST_MAX];
	uint64_t size;

	ensure_give_disk(request, c);
	file_digest(path, digest, &size);
	text_replace(&request->restore_path, path);
	text_replace(&request->restored_from, digest);
	request->spec->restore_from = calloc(1, sizeof(*request->spec->restore_from));
	assert_non_null(request->spec->restore_from);
	bc__v1__restore_from__init(request->spec->restore_from);
	request->spec->restore_from->with_memory = with_memory;
	text_replace(&request->spec->restore_from->digest, digest);
	return request;
}

static void a_snapshot_becomes_an_instance(void **state)
{
	struct contract *c = *state;
	static const char *const FEATURES[] = { "snapshot", "snapshot.memory" };

	for (int with_memory = 0; with_memory < 2; with_memory++) {
		const char *path = SANDBOX_PATH(&c->dir, with_memory ? "memory.tar" : "disk.tar");
		struct snapshot_meta meta;
		char id[UUID_TEXT_MAX];

		if (!contract_has(c, FEATURES[with_memory]))
			continue;
		start_with_disk(c, 1, id);
		snapshot_take(c, id, with_memory, path, &meta);
		Bc__V1__EnsureRequest *request = restore_new(c, 2, path, with_memory);
		Bc__V1__Domain *domain = contract_ensure(c, request);
		assert_string_equal(domain->restored_from, request->restored_from);
		bc__v1__domain__free_unpacked(domain, NULL);
		domain = contract_set_state(c, request->spec->id, RUNNING);
		assert_int_equal(domain->state, BC__V1__DOMAIN__STATE__RUNNING);
		bc__v1__domain__free_unpacked(domain, NULL);
		assert_true(contract_remove(c, request->spec->id));
		assert_true(contract_remove(c, id));
		bc__v1__ensure_request__free_unpacked(request, NULL);
	}
}

/* A tar like meta's, but by other hands. */
static void tar_forge(const char *path, const struct snapshot_meta *meta)
{
	struct snapshot_writer *writer = NULL;
	char digest[SHA256_DIGEST_MAX];
	struct err err = { 0 };
	uint64_t size;

	if (snapshot_writer_new(path, FILE_PERM(0644), meta, &writer, &err) < 0 ||
	        snapshot_writer_finish(writer, digest, &size, &err) < 0)
		fail_msg("%s", err.text);
	(void)snapshot_writer_free(writer);
}

static void what_cannot_be_restored_is_refused(void **state)
{
	struct contract *c = *state;
	const char *path = SANDBOX_PATH(&c->dir, "good.tar"), *forged = SANDBOX_PATH(&c->dir, "forged.tar");
	struct snapshot_meta meta;
	char id[UUID_TEXT_MAX];

	if (!contract_has(c, "snapshot.memory"))
		return;
	start_with_disk(c, 1, id);
	snapshot_take(c, id, true, path, &meta);
	assert_true(contract_remove(c, id));
	for (int mistake = 0; mistake < 4; mistake++) {
		struct snapshot_meta other = meta;
		grpc_status_code code = GRPC_STATUS_FAILED_PRECONDITION;

		if (mistake == 0)
			(void)snprintf(other.runtime, sizeof(other.runtime), "somebody-else");
		else if (mistake == 1)
			(void)snprintf(other.cpu_model, sizeof(other.cpu_model), "Z80");
		tar_forge(forged, &other);
		if (mistake == 3) {
			assert_int_equal(atomic_file_write(AT_FDCWD, forged, "no tar", 6, 0644), 0);
			code = GRPC_STATUS_INVALID_ARGUMENT;
		}
		Bc__V1__EnsureRequest *request = restore_new(c, 2, forged, true);
		if (mistake == 2)
			ensure_add_volume(request, c, "volume-1", false);
		contract_refused(c, RUNTIME(ensure), request, code);
		assert_int_equal(
		        contract_state(c, request->spec->id), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
		bc__v1__ensure_request__free_unpacked(request, NULL);
		assert_int_equal(unlink(forged), 0);
	}
}

/* --- volumes, balloon, identity --- */

static void volumes_grow_live_and_have_one_writer(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1), *other = ensure_new(c, 2);
	Bc__V1__GrowVolumeRequest grow = BC__V1__GROW_VOLUME_REQUEST__INIT;
	Bc__V1__SetStateRequest set = BC__V1__SET_STATE_REQUEST__INIT;

	ensure_add_volume(request, c, "volume-1", false);
	ensure_add_volume(other, c, "volume-1", false);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	Bc__V1__Domain *domain = contract_set_state(c, request->spec->id, RUNNING);
	assert_int_equal(domain->n_volumes, 1);
	assert_string_equal(domain->volumes[0]->volume_id, "volume-1");
	if (contract_has(c, "grow-volume"))
		assert_int_equal(domain->volumes[0]->size_bytes, 16 * MIB);
	bc__v1__domain__free_unpacked(domain, NULL);
	/* Defining a second writer is no harm, starting it is. */
	bc__v1__domain__free_unpacked(contract_ensure(c, other), NULL);
	set.id = other->spec->id;
	set.state = RUNNING;
	contract_refused(c, RUNTIME(set_state), &set, GRPC_STATUS_FAILED_PRECONDITION);
	if (contract_has(c, "grow-volume")) {
		int fd = open(request->volumes[0]->path, O_RDWR | O_CLOEXEC);

		grow.id = request->spec->id;
		grow.volume_id = (char[]){ "volume-1" };
		grow.size_bytes = 32 * MIB;
		assert_int_equal(ftruncate(fd, (off_t)grow.size_bytes), 0);
		(void)close(fd);
		for (int i = 0; i < 2; i++) {
			Bc__V1__GrowVolumeReply *reply = contract_call(c, RUNTIME(grow_volume), &grow, NULL);

			assert_int_equal(reply->size_bytes, 32 * MIB);
			bc__v1__grow_volume_reply__free_unpacked(reply, NULL);
		}
		/* Who comes anew sees that the guest knows. */
		domain = contract_set_state(c, request->spec->id, RUNNING);
		assert_int_equal(domain->volumes[0]->size_bytes, 32 * MIB);
		bc__v1__domain__free_unpacked(domain, NULL);
		grow.size_bytes = 16 * MIB;
		contract_refused(c, RUNTIME(grow_volume), &grow, GRPC_STATUS_FAILED_PRECONDITION);
		grow.size_bytes = 64 * MIB + 1;
		contract_refused(c, RUNTIME(grow_volume), &grow, GRPC_STATUS_INVALID_ARGUMENT);
		grow.size_bytes = 64 * MIB;
		grow.volume_id = (char[]){ "volume-2" };
		contract_refused(c, RUNTIME(grow_volume), &grow, GRPC_STATUS_NOT_FOUND);
	}
	bc__v1__domain__free_unpacked(contract_set_state(c, request->spec->id, STOPPED), NULL);
	bc__v1__domain__free_unpacked(contract_set_state(c, other->spec->id, RUNNING), NULL);
	assert_true(contract_remove(c, request->spec->id));
	assert_true(contract_remove(c, other->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
	bc__v1__ensure_request__free_unpacked(other, NULL);
}

static void a_balloon_is_told_its_size(void **state)
{
	struct contract *c = *state;
	Bc__V1__BalloonRequest get = BC__V1__BALLOON_REQUEST__INIT;
	Bc__V1__SetBalloonRequest set = BC__V1__SET_BALLOON_REQUEST__INIT;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	get.id = set.id = id;
	if (!contract_has(c, "balloon")) {
		contract_refused(c, RUNTIME(get_balloon), &get, GRPC_STATUS_UNIMPLEMENTED);
		assert_true(contract_remove(c, id));
		return;
	}
	Bc__V1__BalloonReply *reply = contract_call(c, RUNTIME(get_balloon), &get, NULL);
	assert_int_equal(reply->maximum_bytes, 64 * MIB);
	bc__v1__balloon_reply__free_unpacked(reply, NULL);
	set.target_bytes = 48 * MIB;
	reply = contract_call(c, RUNTIME(set_balloon), &set, NULL);
	assert_int_equal(reply->maximum_bytes, 64 * MIB);
	bc__v1__balloon_reply__free_unpacked(reply, NULL);
	set.target_bytes = 65 * MIB;
	contract_refused(c, RUNTIME(set_balloon), &set, GRPC_STATUS_INVALID_ARGUMENT);
	bc__v1__domain__free_unpacked(contract_set_state(c, id, STOPPED), NULL);
	set.target_bytes = 48 * MIB;
	contract_refused(c, RUNTIME(set_balloon), &set, GRPC_STATUS_FAILED_PRECONDITION);
	assert_true(contract_remove(c, id));
}

static void a_rebind_needs_a_running_guest(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *ensure = ensure_new(c, 1);
	Bc__V1__RebindRequest request = BC__V1__REBIND_REQUEST__INIT;

	if (contract_has(c, "rebind")) {
		bc__v1__domain__free_unpacked(contract_ensure(c, ensure), NULL);
		request.id = ensure->spec->id;
		request.ref = (char[]){ "identity-1" };
		contract_refused(c, RUNTIME(rebind), &request, GRPC_STATUS_FAILED_PRECONDITION);
		bc__v1__domain__free_unpacked(contract_set_state(c, ensure->spec->id, RUNNING), NULL);
		request.ref = (char[]){ "" };
		contract_refused(c, RUNTIME(rebind), &request, GRPC_STATUS_INVALID_ARGUMENT);
		assert_true(contract_remove(c, ensure->spec->id));
	}
	bc__v1__ensure_request__free_unpacked(ensure, NULL);
}

/* --- running them --- */

#define TEST(fn) CONTRACT_TEST(fn, runtime)

int contract_run(const struct contract_runtime *runtime)
{
	const struct CMUnitTest tests[] = {
		TEST(describe_says_what_it_is),
		TEST(ensure_defines_and_does_not_start),
		TEST(bad_requests_are_refused_and_leave_nothing),
		TEST(a_dry_run_defines_nothing),
		TEST(another_allocation_does_not_take_over),
		TEST(a_root_disk_grows_and_never_shrinks),
		TEST(states_follow_and_repeat),
		TEST(what_is_not_there_is_not_found),
		TEST(wishes_that_are_none_are_refused),
		TEST(domains_outlive_the_runtime),
		TEST(list_has_all_of_them),
		TEST(watch_tells_what_is_and_what_changes),
		TEST(a_watcher_does_not_hold_the_end),
		TEST(a_console_has_one_client_at_a_time),
		TEST(a_console_refuses_what_makes_no_sense),
		TEST(a_snapshot_says_what_it_is),
		TEST(memory_needs_a_running_guest_and_no_writable_volume),
		TEST(a_snapshot_becomes_an_instance),
		TEST(what_cannot_be_restored_is_refused),
		TEST(volumes_grow_live_and_have_one_writer),
		TEST(a_balloon_is_told_its_size),
		TEST(a_rebind_needs_a_running_guest),
	};

	return cmocka_run_group_tests_name(runtime->program, tests, NULL, NULL);
}
