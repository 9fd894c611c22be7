#include "tests/contract/contract.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/base/sha256.h"
#include "lib/rpc/message.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

uint64_t contract_timeout_usec(void)
{
	return test_timeout_usec(TEST_SERVICE_SEC);
}

/* --- the service --- */

void contract_configure(struct contract *c, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(atomic_file_write(AT_FDCWD, c->config, text, strlen(text), 0644), 0);
}

static void ready_wait(struct contract *c)
{
	struct pollfd p[] = { { .fd = c->notify_fd, .events = POLLIN },
		{ .fd = c->pidfd, .events = POLLIN } };
	char text[1024];

	for (;;) {
		assert_true(poll(p, 2, test_timeout_msec(TEST_GUEST_SEC)) > 0);
		if (!p[0].revents)
			fail_msg("the service ended before it was ready");
		ssize_t n = recv(c->notify_fd, text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
		if (strstr(text, "READY=1"))
			return;
	}
}

void contract_put(const struct contract *c, const char *name, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", c->dir, name);
	assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

/* Reads what it said meanwhile, as systemd would: a full socket would hold it. */
static void notify_drain(struct contract *c)
{
	char text[1024];

	while (recv(c->notify_fd, text, sizeof(text), MSG_DONTWAIT) >= 0)
		;
}

static int service_wait(struct contract *c)
{
	struct pollfd p[] = { { .fd = c->notify_fd, .events = POLLIN },
		{ .fd = c->pidfd, .events = POLLIN } };
	int status;

	while (poll(p, 2, test_timeout_msec(TEST_GUEST_SEC)) > 0 && p[0].revents)
		notify_drain(c);
	assert_int_equal(process_wait(c->pidfd, contract_timeout_usec(), &status), 0);
	(void)close(TAKE_FD(c->pidfd));
	return status;
}

static int on_notify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	notify_drain(userdata);
	return 0;
}

static int on_ended(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	loop_exit(((struct contract *)userdata)->loop, 0);
	return 0;
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	fail_msg("pid %d does not say what is waited for", ((struct contract *)userdata)->pid);
	return 0;
}

/* Runs the loop until it holds: whatever else is under way ends the loop, too. */
static void run_until(struct contract *c, bool (*holds)(const void *userdata), const void *userdata)
{
	sd_event_source *late = NULL;

	assert_true(sd_event_add_time_relative(loop_event(c->loop), &late, CLOCK_MONOTONIC,
	                    contract_timeout_usec(), 0, on_late, c) >= 0);
	while (!holds(userdata))
		assert_int_equal(loop_run(c->loop), 0);
	sd_event_source_disable_unref(late);
}

static bool has_ended(const void *userdata)
{
	const struct contract *c = userdata;
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Reads what it answers until it has ended, as a client does: of what nobody reads gRPC may lose a part once the
 * connection breaks. */
static void answers_read(struct contract *c)
{
	sd_event *event = loop_event(c->loop);
	sd_event_source *notify = NULL, *end = NULL;

	assert_true(sd_event_add_io(event, &notify, c->notify_fd, EPOLLIN, on_notify, c) >= 0);
	assert_true(sd_event_add_io(event, &end, c->pidfd, EPOLLIN, on_ended, c) >= 0);
	run_until(c, has_ended, c);
	notify = sd_event_source_disable_unref(notify);
	end = sd_event_source_disable_unref(end);
}

static void service_spawn(struct contract *c)
{
	const char *argv[] = { c->runtime->program, "--config", c->config, "--socket", c->socket,
		"--data-dir", c->dir, NULL };
	const char *env[] = { c->notify_env, NULL };
	const struct process_fd fds[] = { { .from = STDERR_FILENO, .to = STDERR_FILENO } };
	const struct process_options options = { .argv = argv, .env = env, .fds = fds, .n_fds = 1 };

	assert_int_equal(process_spawn(&options, &c->pid, &c->pidfd), 0);
}

void contract_start(struct contract *c)
{
	service_spawn(c);
	ready_wait(c);
	if (!c->channel)
		assert_int_equal(rpc_channel_new_unix(c->loop, c->socket, &c->channel), 0);
}

int contract_try_start(struct contract *c)
{
	service_spawn(c);
	int status = service_wait(c);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

void contract_kill(struct contract *c)
{
	assert_int_equal(kill(c->pid, SIGKILL), 0);
	(void)service_wait(c);
}

void contract_end(struct contract *c)
{
	assert_int_equal(kill(c->pid, SIGTERM), 0);
	answers_read(c);
	assert_int_equal(service_wait(c), 0);
}

static bool notify_bind(struct contract *c)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", c->dir);
	(void)snprintf(c->notify_env, sizeof(c->notify_env), "NOTIFY_SOCKET=%s", address.sun_path);
	c->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return bind(c->notify_fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

struct contract *contract_new(const struct contract_runtime *runtime)
{
	struct contract *c = calloc(1, sizeof(*c));

	if (!c || sandbox_setup((void **)&c->dir) < 0)
		return NULL;
	c->runtime = runtime;
	c->pidfd = -EBADF;
	(void)snprintf(c->config, sizeof(c->config), "%s/runtime.conf", c->dir);
	(void)snprintf(c->socket, sizeof(c->socket), "%s/runtime.sock", c->dir);
	if (!notify_bind(c) || loop_new(&c->loop) < 0)
		return NULL;
	runtime->prepare(c);
	contract_start(c);
	return c;
}

void contract_free(struct contract *c)
{
	c->channel = rpc_channel_free(c->channel);
	if (c->pidfd >= 0)
		contract_end(c);
	if (c->runtime->cleanup)
		c->runtime->cleanup(c);
	c->loop = loop_free(c->loop);
	(void)close(c->notify_fd);
	(void)sandbox_teardown((void **)&c->dir);
	free(c);
}

int contract_setup(void **state)
{
	*state = contract_new(*state);
	return *state ? 0 : -1;
}

int contract_teardown(void **state)
{
	contract_free(*state);
	return 0;
}

/* --- calls --- */

static void on_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct pending *pending = userdata;

	pending->status = *status;
	pending->answer = reply ? message_copy(reply) : NULL;
	pending->request = NULL;
	pending->done = true;
	loop_exit(pending->c->loop, 0);
}

void contract_begin(struct contract *c, struct rpc_method method, const void *request, uint64_t timeout_usec,
        struct pending *ret)
{
	notify_drain(c);
	*ret = (struct pending){ .c = c };
	ret->request = rpc_unary(c->channel, method, request, timeout_usec, on_reply, ret);
}

static bool is_done(const void *userdata)
{
	return ((const struct pending *)userdata)->done;
}

grpc_status_code contract_await(struct pending *pending)
{
	run_until(pending->c, is_done, pending);
	return pending->status.code;
}

grpc_status_code contract_give_up(struct pending *pending)
{
	rpc_cancel(pending->request);
	return contract_await(pending);
}

void *contract_call_for(struct contract *c, struct rpc_method method, const void *request,
        uint64_t timeout_usec, struct rpc_status *ret_status)
{
	struct pending pending;

	contract_begin(c, method, request, timeout_usec, &pending);
	(void)contract_await(&pending);
	*ret_status = pending.status;
	return pending.answer;
}

void *contract_call(
        struct contract *c, struct rpc_method method, const void *request, struct rpc_status *ret_status)
{
	struct rpc_status status;
	void *answer = contract_call_for(c, method, request, contract_timeout_usec(), &status);

	if (ret_status)
		*ret_status = status;
	else if (status.code != GRPC_STATUS_OK)
		fail_msg("%s: %s: %s", method.service->methods[method.index].name,
		        rpc_code_to_string(status.code), status.message);
	return answer;
}

void contract_refused(
        struct contract *c, struct rpc_method method, const void *request, grpc_status_code code)
{
	struct rpc_status status;
	ProtobufCMessage *answer = contract_call(c, method, request, &status);

	if (answer)
		protobuf_c_message_free_unpacked(answer, NULL);
	if (status.code != code)
		fail_msg("%s: %s (%s) where %s is right", method.service->methods[method.index].name,
		        rpc_code_to_string(status.code), status.message, rpc_code_to_string(code));
	/* A refusal says why. */
	assert_true(status.message[0] != '\0');
}

bool contract_has(struct contract *c, const char *feature)
{
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	Bc__V1__DescribeReply *reply = contract_call(c, RUNTIME(describe), &request, NULL);
	bool has = false;

	for (size_t i = 0; i < reply->n_features; i++)
		has |= strcmp(reply->features[i], feature) == 0;
	bc__v1__describe_reply__free_unpacked(reply, NULL);
	return has;
}

/* --- requests --- */

void *message_make(const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = message_new(type);

	assert_non_null(message);
	return message;
}

void text_replace(char **slot, const char *text)
{
	assert_int_equal(message_text_set(slot, text), 0);
}

Bc__V1__EnsureRequest *ensure_new(const struct contract *c, unsigned n)
{
	Bc__V1__EnsureRequest *request = message_make(&bc__v1__ensure_request__descriptor);
	Bc__V1__InstanceSpec *spec = message_make(&bc__v1__instance_spec__descriptor);
	char id[UUID_TEXT_MAX];

	/* The pid keeps concurrent runs apart where a hypervisor is shared. */
	(void)snprintf(id, sizeof(id), "c0de%04x-0000-4000-8000-%012x", (unsigned)getpid() & 0xffff, n);
	request->spec = spec;
	text_replace(&spec->id, id);
	text_replace(&spec->allocation_id, "allocation-1");
	spec->desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	spec->vcpus = 1;
	spec->memory_bytes = 64 * MIB;
	spec->boot = message_make(&bc__v1__boot__descriptor);
	spec->boot->source_case = BC__V1__BOOT__SOURCE_KERNEL;
	spec->boot->kernel = message_make(&bc__v1__kernel_boot__descriptor);
	text_replace(&spec->boot->kernel->kernel, "/boot/vmlinuz");
	if (c->runtime->adapt)
		c->runtime->adapt(c, request);
	return request;
}

void file_digest(const char *path, char ret[static SHA256_DIGEST_MAX], uint64_t *ret_size)
{
	CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[65536];
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(sha256_stream_new(&stream), 0);
	*ret_size = 0;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		assert_int_equal(sha256_stream_add(stream, buf, (size_t)n), 0);
		*ret_size += (uint64_t)n;
	}
	assert_int_equal(sha256_stream_digest(stream, ret), 0);
}

void ensure_give_disk(Bc__V1__EnsureRequest *request, const struct contract *c)
{
	Bc__V1__Boot *boot = request->spec->boot;
	char path[256], digest[SHA256_DIGEST_MAX];
	uint64_t size;

	(void)snprintf(path, sizeof(path), "%s/base.raw", c->dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)MIB), 0);
	(void)close(fd);
	file_digest(path, digest, &size);
	if (boot->source_case == BC__V1__BOOT__SOURCE_KERNEL)
		bc__v1__kernel_boot__free_unpacked(boot->kernel, NULL);
	boot->source_case = BC__V1__BOOT__SOURCE_IMAGE;
	boot->image = message_make(&bc__v1__image_boot__descriptor);
	boot->image->format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
	text_replace(&boot->image->digest, digest);
	text_replace(&request->image_path, path);
}

void ensure_add_volume(
        Bc__V1__EnsureRequest *request, const struct contract *c, const char *id, bool read_only)
{
	Bc__V1__VolumeAttachment *attachment = message_make(&bc__v1__volume_attachment__descriptor);
	Bc__V1__VolumePath *volume = message_make(&bc__v1__volume_path__descriptor);
	Bc__V1__InstanceSpec *spec = request->spec;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s.raw", c->dir, id);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0660);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(16 * MIB)), 0);
	(void)close(fd);
	text_replace(&attachment->volume_id, id);
	text_replace(&attachment->serial, id);
	attachment->read_only = read_only;
	text_replace(&volume->volume_id, id);
	text_replace(&volume->serial, id);
	text_replace(&volume->path, path);
	volume->read_only = read_only;
	volume->size_bytes = 16 * MIB;
	spec->volumes = reallocarray(spec->volumes, spec->n_volumes + 1, sizeof(*spec->volumes));
	request->volumes = reallocarray(request->volumes, request->n_volumes + 1, sizeof(*request->volumes));
	assert_true(spec->volumes && request->volumes);
	spec->volumes[spec->n_volumes++] = attachment;
	request->volumes[request->n_volumes++] = volume;
}

Bc__V1__Domain *contract_ensure(struct contract *c, const Bc__V1__EnsureRequest *request)
{
	Bc__V1__EnsureReply *reply = contract_call(c, RUNTIME(ensure), request, NULL);
	Bc__V1__Domain *domain = TAKE_PTR(reply->domain);

	assert_non_null(domain);
	bc__v1__ensure_reply__free_unpacked(reply, NULL);
	return domain;
}

Bc__V1__Domain *contract_set_state(
        struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	request.state = state;
	return contract_call(c, RUNTIME(set_state), &request, NULL);
}

void contract_set_state_is(struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state,
        grpc_status_code code, const char *words)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;
	struct rpc_status status;

	request.id = (char *)(uintptr_t)id;
	request.state = state;
	Bc__V1__Domain *domain = contract_call(c, RUNTIME(set_state), &request, &status);
	if (domain)
		bc__v1__domain__free_unpacked(domain, NULL);
	if (status.code != code || !strstr(status.message, words))
		fail_msg("%s: %s", rpc_code_to_string(status.code), status.message);
}

Bc__V1__Domain__State contract_state(struct contract *c, const char *id)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;
	struct rpc_status status;

	request.id = (char *)(uintptr_t)id;
	Bc__V1__Domain *domain = contract_call(c, RUNTIME(get), &request, &status);
	assert_true(status.code == GRPC_STATUS_OK || status.code == GRPC_STATUS_NOT_FOUND);
	if (!domain)
		return BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED;
	Bc__V1__Domain__State state = domain->state;
	bc__v1__domain__free_unpacked(domain, NULL);
	return state;
}

bool contract_remove(struct contract *c, const char *id)
{
	Bc__V1__RuntimeRemoveRequest request = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	Bc__V1__RuntimeRemoveReply *reply = contract_call(c, RUNTIME(remove), &request, NULL);
	bool existed = reply->existed;
	bc__v1__runtime_remove_reply__free_unpacked(reply, NULL);
	return existed;
}

void contract_start_instance(struct contract *c, unsigned n, char *ret_id)
{
	Bc__V1__EnsureRequest *request = ensure_new(c, n);

	(void)snprintf(ret_id, UUID_TEXT_MAX, "%s", request->spec->id);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	bc__v1__ensure_request__free_unpacked(request, NULL);
	bc__v1__domain__free_unpacked(
	        contract_set_state(c, ret_id, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING), NULL);
}

/* --- streams --- */

struct stream {
	struct contract *c;
	struct rpc_request *request; /* weak; NULL once it ended */
	ProtobufCMessage *message;   /* owned; came and was not taken */
	struct rpc_status status;
};

static void on_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	struct stream *stream = userdata;

	(void)request;
	stream->message = message_copy(message);
	loop_exit(stream->c->loop, 0);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct stream *stream = userdata;

	stream->status = *status;
	stream->request = NULL;
	loop_exit(stream->c->loop, 0);
}

struct stream *stream_open(struct contract *c, struct rpc_method method, const void *first)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_message, .on_end = on_end };
	struct stream *stream = calloc(1, sizeof(*stream));

	assert_non_null(stream);
	stream->c = c;
	stream->request = rpc_stream(c->channel, method, first, UINT64_MAX, &HANDLERS, stream);
	assert_non_null(stream->request);
	return stream;
}

static bool stream_has_news(const void *userdata)
{
	const struct stream *stream = userdata;

	return !stream->request || stream->message;
}

void *stream_next(struct stream *stream)
{
	if (stream->request)
		rpc_request_read(stream->request);
	run_until(stream->c, stream_has_news, stream);
	return TAKE_PTR(stream->message);
}

void stream_send(struct stream *stream, const void *message)
{
	assert_non_null(stream->request);
	assert_int_equal(rpc_request_send(stream->request, message), 0);
}

grpc_status_code stream_end(struct stream *stream)
{
	ProtobufCMessage *message;

	while ((message = stream_next(stream)))
		protobuf_c_message_free_unpacked(message, NULL);
	return stream->status.code;
}

const struct rpc_status *stream_status(const struct stream *stream)
{
	return &stream->status;
}

void stream_close(struct stream *stream)
{
	rpc_cancel(stream->request);
	(void)stream_end(stream);
	free(stream);
}

/* --- consoles --- */

static Bc__V1__ConsoleInput *console_open_new(const char *id, bool take_over)
{
	Bc__V1__ConsoleInput *input = calloc(1, sizeof(*input));

	assert_non_null(input);
	bc__v1__console_input__init(input);
	input->input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
	input->open = calloc(1, sizeof(*input->open));
	assert_non_null(input->open);
	bc__v1__console_open__init(input->open);
	text_replace(&input->open->id, id);
	input->open->take_over = take_over;
	return input;
}

struct stream *contract_console_open(struct contract *c, const char *id, bool take_over)
{
	Bc__V1__ConsoleInput *input = console_open_new(id, take_over);
	struct stream *stream = stream_open(c, RUNTIME(console), NULL);

	stream_send(stream, input);
	bc__v1__console_input__free_unpacked(input, NULL);
	return stream;
}

void contract_console_says(struct stream *stream, const char *text)
{
	CLEANUP_FREE char *said = calloc(1, 1);
	size_t n = 0;

	while (!memmem(said, n, text, strlen(text))) {
		Bc__V1__ConsoleOutput *output = stream_next(stream);

		if (!output)
			fail_msg("the console ended before it said '%s'", text);
		if (output->output_case == BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA) {
			char *grown = realloc(said, n + output->data.len + 1);

			assert_non_null(grown);
			said = grown;
			memcpy(said + n, output->data.data, output->data.len);
			n += output->data.len;
		}
		bc__v1__console_output__free_unpacked(output, NULL);
	}
}

void contract_console_opened(struct stream *stream)
{
	Bc__V1__ConsoleOutput *output = stream_next(stream);

	if (!output)
		fail_msg("the console did not open");
	assert_int_equal(output->output_case, BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED);
	bc__v1__console_output__free_unpacked(output, NULL);
}

void contract_console_type(struct stream *stream, const char *text)
{
	Bc__V1__ConsoleInput input = BC__V1__CONSOLE_INPUT__INIT;

	input.input_case = BC__V1__CONSOLE_INPUT__INPUT_DATA;
	input.data = (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)(uintptr_t)text };
	stream_send(stream, &input);
}
