/* What bc-runtime-fake does beside the contract: its limits, reboots, guests that end by themselves, and
 * every way to misbehave. */
#include "tests/contract/contract.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define RUNNING BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING
#define STOPPED BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED
#define IS(name) BC__V1__DOMAIN__STATE__##name

/* Tells the fake; in force from the next call on. */
static void control(const struct contract *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void control(const struct contract *c, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	contract_put(c, "fake/control.yaml", text);
}

static Bc__V1__Domain *get(struct contract *c, const char *id)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	return contract_call(c, RUNTIME(get), &request, NULL);
}

/* --- limits and reboots --- */

static void it_admits_for_itself(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 9);
	char ids[2][UUID_TEXT_MAX];

	contract_configure(c, "[service]\nlog_level=warning\n[fake]\nmax_vcpus=3\nmax_memory=160M\n");
	contract_end(c);
	contract_start(c);
	assert_true(contract_has(c, "self-admitting"));
	contract_start_instance(c, 0, ids[0]);
	contract_start_instance(c, 1, ids[1]);
	/* Defining takes nothing, starting does. */
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(c, request->spec->id, RUNNING, GRPC_STATUS_RESOURCE_EXHAUSTED,
	        "needs 64 MiB of memory, 32 of 160 MiB are free");
	request->spec->memory_bytes = 32 * MIB;
	request->spec->vcpus = 2;
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(c, request->spec->id, RUNNING, GRPC_STATUS_RESOURCE_EXHAUSTED,
	        "needs 2 vCPUs, 1 of 3 are free");
	request->spec->vcpus = 1;
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(c, request->spec->id, RUNNING, GRPC_STATUS_OK, ""); /* exactly what is left */
	/* A resume is no start; a stop gives back. */
	bc__v1__domain__free_unpacked(
	        contract_set_state(c, ids[0], BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED), NULL);
	contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	contract_set_state_is(c, ids[0], STOPPED, GRPC_STATUS_OK, "");
	contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	/* What is used is known again after a death. */
	contract_kill(c);
	contract_start(c);
	request->spec->memory_bytes = 64 * MIB;
	text_replace(&request->spec->id, "c0de0000-0000-4000-8000-00000000000a");
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(
	        c, request->spec->id, RUNNING, GRPC_STATUS_RESOURCE_EXHAUSTED, "0 of 3 are free");
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void a_reboot_stops_all_of_them(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 9);
	char ids[2][UUID_TEXT_MAX];

	contract_put(c, "boot_id", "11111111-1111-4111-8111-111111111111\n");
	contract_configure(c, "[service]\nlog_level=warning\n[fake]\nboot_id_path=%s/boot_id\n", c->dir);
	contract_end(c);
	contract_start(c);
	contract_start_instance(c, 0, ids[0]);
	contract_start_instance(c, 1, ids[1]);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, ids[0]), IS(RUNNING));
	contract_kill(c);
	contract_put(c, "boot_id", "22222222-2222-4222-8222-222222222222\n");
	contract_start(c);
	for (int i = 0; i < 2; i++) {
		Bc__V1__Domain *domain = get(c, ids[i]);

		assert_int_equal(domain->state, IS(STOPPED));
		assert_string_equal(domain->reason, "HostRebooted");
		assert_true(domain->managed);
		bc__v1__domain__free_unpacked(domain, NULL);
	}
	Bc__V1__Domain *domain = get(c, request->spec->id);
	assert_string_equal(domain->reason, ""); /* it was stopped before */
	bc__v1__domain__free_unpacked(domain, NULL);
	contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, ids[0]), IS(RUNNING)); /* the same boot */
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void a_torn_last_line_is_left_out(void **state)
{
	struct contract *c = *state;
	CLEANUP_FREE char *text = NULL;
	char id[UUID_TEXT_MAX], other[UUID_TEXT_MAX], path[256];
	size_t n;

	contract_start_instance(c, 1, id);
	contract_start_instance(c, 2, other);
	contract_kill(c);
	(void)snprintf(path, sizeof(path), "%s/fake/domains.json", c->dir);
	assert_int_equal(file_read(AT_FDCWD, path, 1 << 20, &text, &n), 0);
	/* Half of the line that says that the second one runs. */
	assert_int_equal(truncate(path, (off_t)n - 50), 0);
	contract_start(c);
	assert_int_equal(contract_state(c, id), IS(RUNNING));
	assert_int_equal(contract_state(c, other), IS(STOPPED));
	contract_set_state_is(c, other, RUNNING, GRPC_STATUS_OK, "");
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, other), IS(RUNNING));
}

static void a_state_file_that_is_none_is_refused(void **state)
{
	struct contract *c = *state;
	char path[256];

	contract_end(c);
	(void)snprintf(path, sizeof(path), "%s/fake/domains.json", c->dir);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, "{\"record\":{}}\n{\"rekord\":1}\n", 27, 0600), 0);
	assert_int_equal(contract_try_start(c), EXIT_FAILURE);
	assert_int_equal(unlink(path), 0);
	contract_start(c);
}

/* --- guests that end by themselves, and other people's domains --- */

static void guests_end_by_themselves_when_told(void **state)
{
	static const struct {
		const char *type;
		Bc__V1__Domain__State state;
		const char *reason;
		bool completed;
	} CASES[] = { { "CRASH", IS(CRASHED), "GuestPanicked", false },
		{ "SHUTDOWN", IS(STOPPED), "GuestShutdown", false },
		{ "COMPLETE", IS(STOPPED), "Completed", true } };
	struct contract *c = *state;
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	Bc__V1__DomainEvent *event;
	char id[UUID_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		contract_start_instance(c, 1, id);
		struct stream *watch = stream_open(c, RUNTIME(watch), &request);
		for (int n = 0; n < 2; n++) /* PRESENT, SYNCED */
			bc__v1__domain_event__free_unpacked(stream_next(watch), NULL);
		/* No call follows: the file alone makes it happen. */
		control(c, "events: [{type: %s, id: %s, message: as told}]\n", CASES[i].type, id);
		event = stream_next(watch);
		assert_non_null(event);
		assert_int_equal(event->domain->state, CASES[i].state);
		assert_string_equal(event->domain->reason, CASES[i].reason);
		assert_string_equal(event->domain->message, "as told");
		assert_int_equal(event->domain->completed, CASES[i].completed);
		bc__v1__domain_event__free_unpacked(event, NULL);
		stream_close(watch);
		/* It happened once. */
		contract_set_state_is(c, id, RUNNING, GRPC_STATUS_OK, "");
		assert_int_equal(contract_state(c, id), IS(RUNNING));
		assert_true(contract_remove(c, id));
	}
}

static void a_vanished_domain_is_gone(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	control(c, "events: [{type: VANISH, id: %s}]\n", id);
	assert_int_equal(contract_state(c, id), IS(STATE_UNSPECIFIED));
	assert_false(contract_remove(c, id));
}

static void foreign_domains_are_listed_and_left_alone(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	Bc__V1__RuntimeRemoveRequest remove = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;
	const char *id = request->spec->id;

	control(c, "events: [{type: FOREIGN, id: %s, message: somebodys-vm}]\n", id);
	Bc__V1__Domain *before = get(c, id);
	assert_false(before->managed);
	assert_string_equal(before->name, "somebodys-vm");
	assert_int_equal(before->state, IS(RUNNING));
	contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_ALREADY_EXISTS);
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_FAILED_PRECONDITION, "was not made by bcd");
	remove.id = request->spec->id;
	contract_refused(c, RUNTIME(remove), &remove, GRPC_STATUS_FAILED_PRECONDITION);
	Bc__V1__Domain *after = get(c, id);
	assert_int_equal(protobuf_c_message_get_packed_size(&after->base),
	        protobuf_c_message_get_packed_size(&before->base));
	assert_int_equal(after->state, IS(RUNNING));
	bc__v1__domain__free_unpacked(before, NULL);
	bc__v1__domain__free_unpacked(after, NULL);
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* --- misbehaving --- */

static void faults_fail_before_or_after_the_deed(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	control(c,
	        "faults: [{method: SetState, action: FAIL, code: INTERNAL, message: by order, count: 1}]\n");
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_INTERNAL, "by order");
	assert_int_equal(contract_state(c, id), IS(RUNNING));
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_OK, "");
	control(c, "faults: [{method: SetState, action: FAIL_AFTER}]\n");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_UNAVAILABLE, "injected fault");
	assert_int_equal(contract_state(c, id), IS(RUNNING));
	control(c, "{}\n");
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_OK, "");
}

static void faults_fit_by_id_skip_and_count(void **state)
{
	struct contract *c = *state;
	char ids[2][UUID_TEXT_MAX];

	for (unsigned i = 0; i < 2; i++)
		contract_start_instance(c, i, ids[i]);
	control(c, "faults: [{method: SetState, id: %s, action: FAIL, skip: 1, count: 2}]\n", ids[1]);
	for (int i = 0; i < 5; i++)
		contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	for (int i = 0; i < 5; i++)
		contract_set_state_is(
		        c, ids[1], RUNNING, i == 1 || i == 2 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_OK, "");
}

static void a_share_of_calls_is_drawn_from_the_seed(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX], drawn[2][101];

	contract_start_instance(c, 1, id);
	for (int round = 0; round < 2; round++) {
		Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

		request.id = id;
		/* Another comment is another file: counting begins anew. */
		control(c, "# %d\nfaults: [{method: Get, action: FAIL, percent: 30, seed: 7}]\n", round);
		for (int i = 0; i < 100; i++) {
			struct rpc_status status;
			Bc__V1__Domain *domain = contract_call(c, RUNTIME(get), &request, &status);

			drawn[round][i] = domain ? '.' : 'x';
			if (domain)
				bc__v1__domain__free_unpacked(domain, NULL);
		}
		drawn[round][100] = '\0';
	}
	assert_string_equal(drawn[0], drawn[1]);
	assert_non_null(strchr(drawn[0], 'x'));
	assert_non_null(strchr(drawn[0], '.'));
}

/* A call that is given up after a while, and what became of it. */
static void gives_up(struct contract *c, const char *id)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;
	struct rpc_status status;

	request.id = (char *)(uintptr_t)id;
	request.state = STOPPED;
	assert_null(contract_call_for(
	        c, RUNTIME(set_state), &request, 100 * USEC_PER_MSEC, &status)); /* runs out */
	assert_int_equal(status.code, GRPC_STATUS_DEADLINE_EXCEEDED);
}

static void stalls_end_with_time_or_with_the_caller(void **state)
{
	struct contract *c = *state;
	Bc__V1__SetStateRequest set = BC__V1__SET_STATE_REQUEST__INIT;
	struct pending stalled;
	char ids[2][UUID_TEXT_MAX];

	for (unsigned i = 0; i < 2; i++)
		contract_start_instance(c, i, ids[i]);
	control(c, "faults: [{method: SetState, id: %s, action: STALL}]\n", ids[0]);
	gives_up(c, ids[0]);
	assert_int_equal(contract_state(c, ids[0]), IS(RUNNING));
	/* Nobody else waits. */
	contract_set_state_is(c, ids[1], STOPPED, GRPC_STATUS_OK, "");
	control(c, "faults: [{method: SetState, id: %s, action: STALL_AFTER}]\n", ids[0]);
	set.id = ids[0];
	set.state = STOPPED;
	contract_begin(c, RUNTIME(set_state), &set, contract_timeout_usec(), &stalled);
	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();
	while (contract_state(c, ids[0]) != IS(STOPPED))
		assert_true(clock_monotonic_usec() < until_usec);
	assert_false(stalled.done);
	assert_int_equal(contract_give_up(&stalled), GRPC_STATUS_CANCELLED);
	assert_int_equal(contract_state(c, ids[0]), IS(STOPPED));
	control(c, "faults: [{method: SetState, action: STALL, stallMs: 20}]\n");
	contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	control(c, "faults: [{method: SetState, action: STALL_AFTER, stallMs: 20}]\n");
	contract_set_state_is(c, ids[0], STOPPED, GRPC_STATUS_OK, "");
	/* A stalled call does not hold the end of the service: teardown sends SIGTERM. */
	control(c, "faults: [{method: SetState, action: STALL}]\n");
	gives_up(c, ids[0]);
}

/* Who asks for a snapshot and goes leaves no half of one, nor a whole one that nobody waits for. */
static void a_snapshot_nobody_waits_for_is_not_written(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeSnapshotRequest request = BC__V1__RUNTIME_SNAPSHOT_REQUEST__INIT;
	const char *dir = SANDBOX_PATH(&c->dir, "tars");
	char id[UUID_TEXT_MAX], path[512];

	assert_int_equal(mkdir(dir, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/one.tar", dir);
	contract_start_instance(c, 0, id);
	request.id = id;
	request.path = path;
	control(c, "faults: [{method: Snapshot.write, action: STALL}]\n");
	struct stream *stream = stream_open(c, RUNTIME(snapshot), &request);
	Bc__V1__RuntimeSnapshotEvent *event = stream_next(stream);
	assert_non_null(event);
	bc__v1__runtime_snapshot_event__free_unpacked(event, NULL);
	stream_close(stream);
	/* Jobs of one instance come one after the other: it has ended when the next one does. */
	control(c, "faults: [{method: Snapshot.write, action: STALL, stallMs: 20}]\n");
	(void)snprintf(path, sizeof(path), "%s/two.tar", dir);
	stream = stream_open(c, RUNTIME(snapshot), &request);
	while ((event = stream_next(stream)))
		bc__v1__runtime_snapshot_event__free_unpacked(event, NULL);
	assert_int_equal(stream_end(stream), GRPC_STATUS_OK);
	stream_close(stream);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0); /* nothing else is there */
}

static void lies_are_told_and_nothing_is_done(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 2);
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	control(c, "faults: [{action: LIE}]\n");
	Bc__V1__Domain *domain = contract_set_state(c, id, STOPPED);
	assert_int_equal(domain->state, IS(STOPPED));
	bc__v1__domain__free_unpacked(domain, NULL);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	assert_true(contract_remove(c, id));
	control(c, "{}\n");
	assert_int_equal(contract_state(c, id), IS(RUNNING));
	assert_int_equal(contract_state(c, request->spec->id), IS(STATE_UNSPECIFIED));
	control(c, "faults: [{method: Get.domain, action: LIE}]\n");
	assert_int_equal(contract_state(c, id), IS(STOPPED));
	control(c, "faults: [{method: Get.domain, action: LOSE}]\n");
	assert_int_equal(contract_state(c, id), IS(STATE_UNSPECIFIED));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static size_t listed(struct contract *c)
{
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	Bc__V1__RuntimeListReply *reply = contract_call(c, RUNTIME(list), &request, NULL);
	size_t n = reply->n_domains;

	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
	return n;
}

static void domains_are_lost(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	char ids[3][UUID_TEXT_MAX];
	Bc__V1__DomainEvent *event;
	size_t n = 0;

	for (unsigned i = 0; i < 3; i++)
		contract_start_instance(c, i, ids[i]);
	control(c,
	        "faults:\n- {method: List.domain, id: %s, action: LOSE}\n- {method: Watch.domain, id: %s,"
	        " action: LOSE}\n"
	        "- {method: SetState, id: %s, action: LOSE}\n",
	        ids[0], ids[1], ids[2]);
	assert_int_equal(listed(c), 2);
	struct stream *watch = stream_open(c, RUNTIME(watch), &request);
	for (; (event = stream_next(watch)) && event->type == BC__V1__DOMAIN_EVENT__TYPE__PRESENT; n++) {
		assert_string_not_equal(event->domain->id, ids[1]);
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
	assert_int_equal(n, 2);
	bc__v1__domain_event__free_unpacked(event, NULL);
	/* The deed is answered for, and the domain is no more. */
	contract_set_state_is(c, ids[2], STOPPED, GRPC_STATUS_OK, "");
	assert_int_equal(contract_state(c, ids[2]), IS(STATE_UNSPECIFIED));
	/* And the stream itself. */
	control(c, "events: [{type: DROP_WATCHERS, message: cable cut}]\n");
	assert_int_equal(stream_end(watch), GRPC_STATUS_UNAVAILABLE);
	stream_close(watch);
}

static void a_control_file_with_mistakes_changes_nothing(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	control(c, "faults: [{method: SetState, action: FAIL}]\n");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_UNAVAILABLE, "");
	static const char *const MISTAKES[] = { "faults: [{method: SetState}]\n",
		"faults: [{action: FAIL, code: BROKEN}]\n", "faults: [{action: FAIL, percent: 101}]\n",
		"fault: []\n", "events: [{id: x}]\n", "[\n" };
	for (size_t i = 0; i < ARRAY_SIZE(MISTAKES); i++) {
		control(c, "%s", MISTAKES[i]);
		contract_set_state_is(c, id, RUNNING, GRPC_STATUS_UNAVAILABLE, "injected fault");
	}
	contract_end(c);
	assert_int_equal(contract_try_start(c), EXIT_FAILURE);
	control(c, "{}\n");
	contract_start(c);
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_OK, "");
}

static void starts_and_stops_take_the_time_that_is_set(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_configure(c, "[service]\nlog_level=warning\n[fake]\nstart_time=20ms\nstop_time=1h\n");
	contract_end(c);
	contract_start(c);
	contract_start_instance(c, 1, id);
	assert_int_equal(contract_state(c, id), IS(RUNNING));
	gives_up(c, id); /* an hour is too long */
	assert_int_equal(contract_state(c, id), IS(RUNNING));
}

/* --- the console, and many of them --- */

static void the_console_echoes(void **state)
{
	struct contract *c = *state;
	Bc__V1__ConsoleInput input = BC__V1__CONSOLE_INPUT__INIT;
	Bc__V1__ConsoleOpen open = BC__V1__CONSOLE_OPEN__INIT;
	Bc__V1__ConsoleOutput *output;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	open.id = id;
	open.no_backlog = true;
	input.input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
	input.open = &open;
	struct stream *console = stream_open(c, RUNTIME(console), NULL);
	stream_send(console, &input);
	output = stream_next(console);
	assert_int_equal(output->opened->backlog_bytes, 0);
	bc__v1__console_output__free_unpacked(output, NULL);
	input.input_case = BC__V1__CONSOLE_INPUT__INPUT_DATA;
	input.data = (ProtobufCBinaryData){ .len = 5, .data = (uint8_t[]){ "hello" } };
	stream_send(console, &input);
	output = stream_next(console);
	assert_int_equal(output->data.len, 14);
	assert_memory_equal(output->data.data, "console: hello", 14);
	bc__v1__console_output__free_unpacked(output, NULL);
	/* It ends with the guest. */
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_OK, "");
	assert_int_equal(stream_end(console), GRPC_STATUS_OK);
	stream_close(console);
}

static void a_slow_watcher_sees_the_newest_of_each(void **state)
{
	enum { N = 300, ROUNDS = 5 };
	struct contract *c = *state;
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	char ids[N][UUID_TEXT_MAX];
	Bc__V1__DomainEvent *event;
	size_t n_events = 0, n_stopped = 0;

	struct stream *watch = stream_open(c, RUNTIME(watch), &request);
	event = stream_next(watch);
	assert_int_equal(event->type, BC__V1__DOMAIN_EVENT__TYPE__SYNCED);
	bc__v1__domain_event__free_unpacked(event, NULL);
	/* It does not read meanwhile. */
	for (unsigned i = 0; i < N; i++)
		contract_start_instance(c, i, ids[i]);
	for (int round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < N; i++)
			contract_set_state_is(c, ids[i], round % 2 ? RUNNING : STOPPED, GRPC_STATUS_OK, "");
	while (n_stopped < N) {
		event = stream_next(watch);
		assert_non_null(event);
		assert_int_equal(event->type, BC__V1__DOMAIN_EVENT__TYPE__CHANGED);
		n_events++;
		/* The last change of each comes last. */
		n_stopped = event->domain->state == IS(STOPPED) ? n_stopped + 1 : 0;
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
	/* What was under way when it stopped reading is a few queues full, not every step of every domain. */
	assert_true(n_events < N * ROUNDS);
	stream_close(watch);
}

/* --- running them --- */

static void fake_prepare(struct contract *c)
{
	contract_configure(c, "[service]\nlog_level=error\n");
}

static const struct contract_runtime FAKE = {
	.program = BC_RUNTIME, .prepare = fake_prepare, .echoes = true
};

#define TEST(fn) CONTRACT_TEST(fn, &FAKE)

TEST_SUITE(fake_test)
{
	const struct CMUnitTest tests[] = {
		TEST(it_admits_for_itself),
		TEST(a_reboot_stops_all_of_them),
		TEST(a_torn_last_line_is_left_out),
		TEST(a_state_file_that_is_none_is_refused),
		TEST(guests_end_by_themselves_when_told),
		TEST(a_vanished_domain_is_gone),
		TEST(foreign_domains_are_listed_and_left_alone),
		TEST(faults_fail_before_or_after_the_deed),
		TEST(faults_fit_by_id_skip_and_count),
		TEST(a_share_of_calls_is_drawn_from_the_seed),
		TEST(stalls_end_with_time_or_with_the_caller),
		TEST(a_snapshot_nobody_waits_for_is_not_written),
		TEST(lies_are_told_and_nothing_is_done),
		TEST(domains_are_lost),
		TEST(a_control_file_with_mistakes_changes_nothing),
		TEST(starts_and_stops_take_the_time_that_is_set),
		TEST(the_console_echoes),
		TEST(a_slow_watcher_sees_the_newest_of_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
