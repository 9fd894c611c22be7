#include "svc-converger/edge.h"

#include "lib/rpc/client.h"
#include "svc-converger/test/world.h"

#include "bc/v1/converger.pb-c.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#define CONVERGER(member) RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, member)

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

static int setup(void **state)
{
	int r = world_setup(state);

	if (r == 0)
		world_serve(*state);
	return r;
}

/* The reply, owned by the caller; NULL with the status otherwise. */
static ProtobufCMessage *ask(
        struct world *w, struct rpc_method method, const ProtobufCMessage *request, struct rpc_status *status)
{
	ProtobufCMessage *reply = NULL;

	*status = (struct rpc_status){ 0 };
	(void)rpc_call_sync(
	        w->loop, w->channel, method, request, test_timeout_usec(TEST_SERVICE_SEC), &reply, status);
	return reply;
}

static void a_flood_of_faults_gets_one_answer(void **state)
{
	enum { N = 10001 };
	struct world *w = *state;
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	Bc__V1__NodeSpec spec = BC__V1__NODE_SPEC__INIT;
	Bc__V1__Instances instances = BC__V1__INSTANCES__INIT;
	Bc__V1__InstanceSpec *items = calloc(N, sizeof(*items));
	Bc__V1__InstanceSpec **pointers = calloc(N, sizeof(*pointers));
	struct rpc_status status;
	size_t n_lines = 0;

	for (size_t i = 0; i < N; i++) {
		bc__v1__instance_spec__init(&items[i]);
		pointers[i] = &items[i];
	}
	instances.n_items = N;
	instances.items = pointers;
	spec.revision = 1;
	spec.instances = &instances;
	request.spec = &spec;
	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_INVALID_ARGUMENT);
	for (const char *p = status.message; (p = strstr(p, "instances.items")); p++)
		n_lines++;
	assert_int_equal(n_lines, 20);
	assert_non_null(strstr(status.message, "instances.items[0].id"));
	assert_int_equal(w->converger->revision, 0);
	free(items);
	free(pointers);
}

/* A spec of so many instances, each with a command line of so many bytes; to be freed with free_unpacked. */
static Bc__V1__NodeSpec *spec_of(uint64_t revision, size_t n_items, size_t n_bytes)
{
	Bc__V1__NodeSpec *spec = calloc(1, sizeof(*spec));

	bc__v1__node_spec__init(spec);
	spec->revision = revision;
	spec->instances = calloc(1, sizeof(*spec->instances));
	bc__v1__instances__init(spec->instances);
	spec->instances->items = calloc(n_items, sizeof(Bc__V1__InstanceSpec *));
	spec->instances->n_items = n_items;
	for (size_t i = 0; i < n_items; i++) {
		Bc__V1__InstanceSpec *item = calloc(1, sizeof(*item));

		bc__v1__instance_spec__init(item);
		assert_true(asprintf(&item->id, "00000000-0000-4000-8000-%012zx", i) > 0);
		item->allocation_id = strdup("a1");
		item->runtime = strdup("stub");
		item->desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
		item->vcpus = 1;
		item->memory_bytes = 64 << 20;
		item->boot = calloc(1, sizeof(*item->boot));
		bc__v1__boot__init(item->boot);
		item->boot->source_case = BC__V1__BOOT__SOURCE_KERNEL;
		item->boot->kernel = calloc(1, sizeof(*item->boot->kernel));
		bc__v1__kernel_boot__init(item->boot->kernel);
		item->boot->kernel->kernel = strdup("/boot/k");
		item->boot->kernel->cmdline = calloc(1, n_bytes + 1);
		memset(item->boot->kernel->cmdline, 'x', n_bytes);
		spec->instances->items[i] = item;
	}
	return spec;
}

static void what_is_accepted_can_be_read_back(void **state)
{
	enum { N = 2200, ROOM = 64 << 10, WIRE = 4 << 20 };
	struct world *w = *state;
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	Bc__V1__GetNodeRequest with_spec = BC__V1__GET_NODE_REQUEST__INIT;
	Bc__V1__NodeSpec *spec = spec_of(1, N, 1750), rest = BC__V1__NODE_SPEC__INIT;
	Bc__V1__Volume volume = BC__V1__VOLUME__INIT;
	struct rpc_status status;
	ProtobufCMessage *reply;
	size_t n_left;

	/* As large as may be, to the byte. */
	request.spec = spec;
	n_left = WIRE - ROOM - bc__v1__apply_request__get_packed_size(&request);
	for (size_t i = 0; n_left > 0; i++) {
		char *cmdline = spec->instances->items[i]->boot->kernel->cmdline;
		size_t n = strlen(cmdline), more = n_left < 250 ? n_left : 250;

		cmdline = spec->instances->items[i]->boot->kernel->cmdline = realloc(cmdline, n + more + 1);
		memset(cmdline + n, 'y', more);
		cmdline[n + more] = '\0';
		n_left -= more;
	}
	assert_int_equal(bc__v1__apply_request__get_packed_size(&request), WIRE - ROOM);
	/* One byte more. */
	free(spec->instances->items[N - 1]->allocation_id);
	spec->instances->items[N - 1]->allocation_id = strdup("a11");
	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(status.message, "4128769 bytes"));
	assert_int_equal(w->converger->revision, 0);
	strcpy(spec->instances->items[N - 1]->allocation_id, "a1");
	reply = ask(w, CONVERGER(apply), &request.base, &status);
	assert_non_null(reply);
	protobuf_c_message_free_unpacked(reply, NULL);

	with_spec.with_spec = true;
	reply = ask(w, CONVERGER(get_node), &with_spec.base, &status);
	assert_non_null(reply);
	assert_int_equal(((Bc__V1__GetNodeReply *)reply)->spec->instances->n_items, N);
	protobuf_c_message_free_unpacked(reply, NULL);

	/* What is left as it is counts too, and stands in nobody's way. */
	rest.revision = 2;
	request.spec = &rest;
	reply = ask(w, CONVERGER(apply), &request.base, &status);
	assert_non_null(reply);
	protobuf_c_message_free_unpacked(reply, NULL);
	Bc__V1__Volume *volumes[] = { &volume };
	volume.id = (char *)"v0123456789-0123456789-0123456789";
	volume.size_bytes = 1 << 20;
	rest.revision = 3;
	rest.n_volumes = 1;
	rest.volumes = volumes;
	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(status.message, "whole desired state"));
	bc__v1__node_spec__free_unpacked(spec, NULL);
}

static void a_spec_for_another_node_is_refused(void **state)
{
	struct world *w = *state;
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	Bc__V1__NodeSpec spec = BC__V1__NODE_SPEC__INIT;
	struct rpc_status status;

	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_INVALID_ARGUMENT);
	spec.revision = 1;
	spec.node_id = (char *)"node-2";
	request.spec = &spec;
	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(status.message, "node-2"));
	spec.node_id = (char *)"node-1";
	Bc__V1__ApplyReply *reply = (Bc__V1__ApplyReply *)ask(w, CONVERGER(apply), &request.base, &status);
	assert_non_null(reply);
	assert_int_equal(reply->accepted_revision, 1);
	bc__v1__apply_reply__free_unpacked(reply, NULL);
	/* Stale: the same again. */
	assert_null(ask(w, CONVERGER(apply), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_FAILED_PRECONDITION);
}

static void a_dry_run_plans_and_changes_nothing(void **state)
{
	struct world *w = *state;
	Bc__V1__GetNodeRequest with_spec = BC__V1__GET_NODE_REQUEST__INIT;
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	struct rpc_status status;

	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	with_spec.with_spec = true;
	Bc__V1__GetNodeReply *node =
	        (Bc__V1__GetNodeReply *)ask(w, CONVERGER(get_node), &with_spec.base, &status);
	assert_non_null(node);
	assert_string_equal(node->node_id, "node-1");
	assert_int_equal(node->accepted_revision, 1);
	assert_int_equal(node->spec->revision, 1);
	assert_int_equal(node->spec->instances->n_items, 2);
	/* What came back, with one to be stopped and one left out. */
	Bc__V1__InstanceSpec *first = node->spec->instances->items[0],
	                     *second = node->spec->instances->items[1];
	first->desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
	node->spec->instances->n_items = 1;
	node->spec->revision = 2;
	request.spec = node->spec;
	request.dry_run = true;
	Bc__V1__ApplyReply *plan = (Bc__V1__ApplyReply *)ask(w, CONVERGER(apply), &request.base, &status);
	assert_non_null(plan);
	assert_int_equal(plan->accepted_revision, 1);
	assert_int_equal(plan->n_changes, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(plan->changes[i]->action,
		        strcmp(plan->changes[i]->id, first->id) == 0
		                ? BC__V1__PLANNED_CHANGE__ACTION__STOP
		                : BC__V1__PLANNED_CHANGE__ACTION__REMOVE);
	bc__v1__apply_reply__free_unpacked(plan, NULL);
	node->spec->instances->n_items = 2;
	(void)second;
	bc__v1__get_node_reply__free_unpacked(node, NULL);
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING"));
	assert_true(world_is(w, B, "RUNNING"));
	assert_int_equal(w->converger->revision, 1);
}

static void a_status_tells_all_and_one(void **state)
{
	struct world *w = *state;
	Bc__V1__GetStatusRequest request = BC__V1__GET_STATUS_REQUEST__INIT;
	struct rpc_status status;

	stub_runtime_add(w->runtime, "foreign-vm", "", false, BC__V1__DOMAIN__STATE__RUNNING);
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, "foreign-vm"));
	world_volume(w, "vol", 4);
	APPLY(w, { .id = A, .n_bridge_nics = 1, .volume = "vol" });
	WAIT_STATUS(w, A, "RUNNING");
	Bc__V1__NodeStatus *node =
	        (Bc__V1__NodeStatus *)ask(w, CONVERGER(get_status), &request.base, &status);
	assert_non_null(node);
	assert_int_equal(node->n_instances, 2);
	for (size_t i = 0; i < 2; i++)
		if (strcmp(node->instances[i]->id, A) == 0) {
			assert_int_equal(node->instances[i]->state, BC__V1__INSTANCE_STATUS__STATE__RUNNING);
			assert_int_equal(node->instances[i]->observed_revision, 1);
			assert_non_null(node->instances[i]->last_transition);
		} else {
			assert_string_equal(node->instances[i]->id, "foreign-vm");
			assert_int_equal(
			        node->instances[i]->state, BC__V1__INSTANCE_STATUS__STATE__UNMANAGED);
		}
	assert_int_equal(node->n_volumes, 1);
	assert_int_equal(node->volumes[0]->size_bytes, 4 << 20);
	assert_int_equal(node->volumes[0]->n_users, 1);
	assert_string_equal(node->volumes[0]->users[0]->instance_id, A);
	assert_true(node->n_drivers >= 2);
	assert_true(node->capacity->known);
	bc__v1__node_status__free_unpacked(node, NULL);

	request.instance_id = (char *)A;
	node = (Bc__V1__NodeStatus *)ask(w, CONVERGER(get_status), &request.base, &status);
	assert_non_null(node);
	assert_int_equal(node->n_instances, 1);
	bc__v1__node_status__free_unpacked(node, NULL);
	request.instance_id = (char *)B;
	assert_null(ask(w, CONVERGER(get_status), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_NOT_FOUND);
}

/* What a stream said, in a line. */
struct reader {
	struct rpc_request *stream;
	bool is_ended;
	struct rpc_status status;
	char text[512];
};

static void on_delta(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct reader *reader = userdata;
	const Bc__V1__StatusDelta *delta = (const Bc__V1__StatusDelta *)message;

	for (size_t i = 0; i < delta->n_instances; i++) {
		size_t n = strlen(reader->text);
		const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		        &bc__v1__instance_status__state__descriptor, (int)delta->instances[i]->state);

		(void)snprintf(reader->text + n, sizeof(reader->text) - n, "%s ", value ? value->name : "?");
	}
	if (delta->synced)
		strcat(reader->text, "synced ");
	rpc_request_read(stream);
}

static void on_console(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct reader *reader = userdata;
	const Bc__V1__ConsoleOutput *output = (const Bc__V1__ConsoleOutput *)message;
	size_t n = strlen(reader->text);

	if (output->output_case == BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED)
		(void)snprintf(reader->text + n, sizeof(reader->text) - n, "opened ");
	else
		(void)snprintf(reader->text + n, sizeof(reader->text) - n, "%.*s", (int)output->data.len,
		        (char *)output->data.data);
	rpc_request_read(stream);
}

static void on_reader_end(const struct rpc_status *status, void *userdata)
{
	struct reader *reader = userdata;

	reader->is_ended = true;
	reader->status = *status;
	reader->stream = NULL;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* An instance is wished where somebody else's domain has its id, and is wished no more: the domain is there still. */
static void a_watcher_does_not_lose_a_foreign_domain(void **state)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_delta,
		.on_end = on_reader_end };
	struct world *w = *state;
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;
	struct reader reader = { 0 };

	stub_runtime_add(w->runtime, A, "", false, BC__V1__DOMAIN__STATE__RUNNING);
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, A));
	APPLY(w, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	request.instance_id = (char *)A;
	reader.stream = rpc_stream(
	        w->channel, CONVERGER(watch_status), &request.base, UINT64_MAX, &handlers, &reader);
	rpc_request_read(reader.stream);
	WORLD_WAIT(w, strstr(reader.text, "synced"));
	assert_string_equal(reader.text, "UNMANAGED synced ");
	APPLY(w, { .id = A }, { .id = B });
	WORLD_WAIT(w, strstr(reader.text, "FAILED"));
	APPLY(w, { .id = B });
	WORLD_WAIT(w, strstr(reader.text, "REMOVED"));
	WORLD_WAIT(w, ends_with(reader.text, "REMOVED UNMANAGED "));
	edge_drain(w->edge);
	WORLD_WAIT(w, reader.is_ended);
}

static void a_watcher_hears_what_changes(void **state)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_delta,
		.on_end = on_reader_end };
	struct world *w = *state;
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;
	struct reader all = { 0 }, one = { 0 };

	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	world_settle(w);
	all.stream =
	        rpc_stream(w->channel, CONVERGER(watch_status), &request.base, UINT64_MAX, &handlers, &all);
	rpc_request_read(all.stream);
	request.instance_id = (char *)B;
	one.stream =
	        rpc_stream(w->channel, CONVERGER(watch_status), &request.base, UINT64_MAX, &handlers, &one);
	rpc_request_read(one.stream);
	WORLD_WAIT(w, strstr(all.text, "synced") && strstr(one.text, "synced"));
	assert_string_equal(all.text, "RUNNING RUNNING synced ");
	assert_string_equal(one.text, "RUNNING synced ");
	APPLY(w, { .id = B });
	WORLD_WAIT(w, strstr(all.text, "REMOVED"));
	APPLY(w, { .id = B, .state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED });
	WORLD_WAIT(w, strstr(one.text, "STOPPED"));
	assert_null(strstr(one.text, "REMOVED"));
	/* The service ends: streams are ended, not left hanging. */
	edge_drain(w->edge);
	WORLD_WAIT(w, all.is_ended && one.is_ended);
	assert_int_equal(all.status.code, GRPC_STATUS_UNAVAILABLE);
}

static void send_input(struct reader *reader, const char *open_id, const char *data)
{
	Bc__V1__ConsoleInput input = BC__V1__CONSOLE_INPUT__INIT;
	Bc__V1__ConsoleOpen open = BC__V1__CONSOLE_OPEN__INIT;

	if (open_id) {
		open.id = (char *)open_id;
		input.input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
		input.open = &open;
	} else {
		input.input_case = BC__V1__CONSOLE_INPUT__INPUT_DATA;
		input.data = (ProtobufCBinaryData){ .data = (uint8_t *)data, .len = strlen(data) };
	}
	assert_int_equal(rpc_request_send(reader->stream, &input.base), 0);
}

static void open_console(struct world *w, struct reader *reader)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_console,
		.on_end = on_reader_end };

	*reader = (struct reader){ 0 };
	reader->stream = rpc_stream(w->channel, CONVERGER(console), NULL, UINT64_MAX, &handlers, reader);
	rpc_request_read(reader->stream);
}

static void a_console_is_passed_through(void **state)
{
	struct world *w = *state;
	struct reader reader;

	w->runtime->features[w->runtime->n_features++] = "console";
	world_stop(w);
	world_start(w);
	world_serve(w);
	APPLY(w, { .id = A }, { .id = B, .state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED });
	WAIT_STATUS(w, A, "RUNNING");
	open_console(w, &reader);
	send_input(&reader, A, NULL);
	send_input(&reader, NULL, "hello");
	WORLD_WAIT(w, strcmp(reader.text, "opened console: hello") == 0);
	rpc_request_close_send(reader.stream);
	WORLD_WAIT(w, reader.is_ended);
	assert_int_equal(reader.status.code, GRPC_STATUS_OK);

	open_console(w, &reader);
	send_input(&reader, B, NULL);
	WORLD_WAIT(w, reader.is_ended);
	assert_int_equal(reader.status.code, GRPC_STATUS_FAILED_PRECONDITION);
	open_console(w, &reader);
	send_input(&reader, NULL, "no open");
	WORLD_WAIT(w, reader.is_ended);
	assert_int_equal(reader.status.code, GRPC_STATUS_INVALID_ARGUMENT);
	/* The runtime goes while it is open. */
	open_console(w, &reader);
	send_input(&reader, A, NULL);
	WORLD_WAIT(w, strcmp(reader.text, "opened ") == 0);
	stub_runtime_kill(w->runtime);
	WORLD_WAIT(w, reader.is_ended);
	assert_int_not_equal(reader.status.code, GRPC_STATUS_OK);
}

static void a_drained_node_stays_so(void **state)
{
	struct world *w = *state;
	Bc__V1__DrainRequest request = BC__V1__DRAIN_REQUEST__INIT;
	struct rpc_status status;

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	request.drain = request.stop_instances = true;
	Bc__V1__DrainReply *reply = (Bc__V1__DrainReply *)ask(w, CONVERGER(drain), &request.base, &status);
	assert_non_null(reply);
	assert_int_equal(reply->running, 1);
	bc__v1__drain_reply__free_unpacked(reply, NULL);
	WAIT_STATUS(w, A, "STOPPED/Draining");
	world_stop(w);
	world_start(w);
	world_serve(w);
	WAIT_STATUS(w, A, "STOPPED/Draining");
	world_settle(w);
	assert_true(world_is(w, A, "STOPPED/Draining"));
	request.drain = request.stop_instances = false;
	reply = (Bc__V1__DrainReply *)ask(w, CONVERGER(drain), &request.base, &status);
	assert_non_null(reply);
	bc__v1__drain_reply__free_unpacked(reply, NULL);
	WAIT_STATUS(w, A, "RUNNING");
}

static void a_retry_forgets_a_final_failure(void **state)
{
	struct world *w = *state;
	Bc__V1__RetryRequest request = BC__V1__RETRY_REQUEST__INIT;
	struct rpc_status status;

	w->runtime->code = GRPC_STATUS_INVALID_ARGUMENT;
	w->runtime->fail[STUB_ENSURE] = 1;
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "FAILED/DefineFailed");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_ENSURE], 1);
	request.instance_id = (char *)A;
	Bc__V1__RetryReply *reply = (Bc__V1__RetryReply *)ask(w, CONVERGER(retry), &request.base, &status);
	assert_non_null(reply);
	bc__v1__retry_reply__free_unpacked(reply, NULL);
	WAIT_STATUS(w, A, "RUNNING");
	request.instance_id = (char *)B;
	assert_null(ask(w, CONVERGER(retry), &request.base, &status));
	assert_int_equal(status.code, GRPC_STATUS_NOT_FOUND);
}

/* A full disk refuses what is new and leaves alone what runs; when there is room again all goes on. */
static void a_full_disk_refuses_and_harms_nobody(void **state)
{
	struct world *w = *state;
	char path[160], block[4096] = { 1 };

	world_stop(w);
	if (mount("tmpfs", w->data_dir, "tmpfs", 0, "size=2m") < 0)
		skip(); /* not root */
	world_start(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	(void)snprintf(path, sizeof(path), "%s/fill", w->data_dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(fd, block, sizeof(block)) > 0)
		;
	(void)close(fd);
	int r = 0;
	for (int i = 0; i < 200 && r == 0; i++) /* what SQLite has in hand may take a few */
		r = world_apply(w,
		        (struct wish[]){ { .id = A }, { .id = B, .memory_mib = 64 + (uint64_t)i }, { 0 } });
	assert_int_equal(r, -ENOSPC);
	assert_non_null(strstr(w->message, "state.db"));
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING"));
	assert_int_equal(stub_runtime_domain(w->runtime, A)->state, BC__V1__DOMAIN__STATE__RUNNING);
	assert_int_equal(unlink(path), 0);
	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	assert_null(strstr(w->runtime->log, "remove"));
	world_stop(w);
	assert_int_equal(umount(w->data_dir), 0);
}

/* A corrupted state refuses to start, with its reason, and no runtime is asked for anything. */
static void a_corrupted_state_refuses_to_start(void **state)
{
	struct world *w = *state;
	struct converger *converger = NULL;
	struct converger_options options = { .node_id = "node-1",
		.data_dir = w->data_dir,
		.run_dir = w->run_dir,
		.netd_socket = "/nowhere/n",
		.intelligence_socket = "/nowhere/i",
		.instances_dir = w->dir };
	struct err err = { 0 };
	char path[160];

	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_stop(w);
	(void)snprintf(path, sizeof(path), "%s/state.db", w->data_dir);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "garbage, garbage, garbage", 25, 0), 25);
	(void)close(fd);
	unsigned n_described = w->runtime->n_calls[STUB_DESCRIBE];
	assert_int_equal(converger_new(w->loop, &options, &converger, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "state.db"));
	assert_int_equal(w->runtime->n_calls[STUB_DESCRIBE], n_described);
	assert_int_equal(stub_runtime_domain(w->runtime, A)->state, BC__V1__DOMAIN__STATE__RUNNING);
}

TEST_SUITE(edge_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_flood_of_faults_gets_one_answer),
		TEST(what_is_accepted_can_be_read_back),
		TEST(a_spec_for_another_node_is_refused),
		TEST(a_dry_run_plans_and_changes_nothing),
		TEST(a_status_tells_all_and_one),
		TEST(a_watcher_hears_what_changes),
		TEST(a_watcher_does_not_lose_a_foreign_domain),
		TEST(a_console_is_passed_through),
		TEST(a_drained_node_stays_so),
		TEST(a_retry_forgets_a_final_failure),
		TEST(a_full_disk_refuses_and_harms_nobody),
		TEST(a_corrupted_state_refuses_to_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
