/* A server whose peers send rubbish, never read, ping all the time, vanish in crowds, or call while it ends. The crowds
 * are this program again (--watch). BC_STORM_ROUNDS (6) is how often the server is ended under load. */
#include "lib/rpc/test/echo_world.h"
#include "lib/rpc/test/wire_builder.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/rpc/intake.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

enum {
	WATCHERS = 1000,
	WATCHERS_PER_PROCESS = 25,
	PROCESSES = WATCHERS / WATCHERS_PER_PROCESS,
	STALLED = 8,
	STALLED_MESSAGES = 1000,
	STALLED_BYTES = 64 << 10,
	PINGS = 300,
	STORM_STREAMS = 100,
	STORM_UNARIES = 50,
	ROUNDS_DEFAULT = 6,
	STARTERS = 5,
	START_ROUNDS = 5,
	SPAWNS = 200,
};

static const size_t MIB = 1 << 20;

static int setup(void **state)
{
	*state = echo_world_new(NULL);
	return 0;
}

static int teardown(void **state)
{
	echo_world_free(*state);
	return 0;
}

static size_t descriptors_open(void)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	return n;
}

static size_t resident_bytes(void)
{
	CLEANUP_FCLOSE FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	(void)malloc_trim(0);
	assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A sanitizer keeps what is freed, and its own books. */
static bool memory_tells(void)
{
#ifdef BC_SANITIZED
	return false;
#else
	return true;
#endif
}

/* --- bytes that are no message, through the door --- */

struct raw_call {
	struct loop_tag tag;
	struct loop *loop;
	bool done;
};

static void on_raw_done(struct loop_tag *tag, bool ok)
{
	struct raw_call *raw = CONTAINER_OF(tag, struct raw_call, tag);

	(void)ok;
	raw->done = true;
	loop_exit(raw->loop, 0);
}

/* Echo/Unary with any bytes; words is for RPC_MESSAGE_MAX bytes. */
static grpc_status_code raw_unary(
        struct echo_world *w, const struct wire_builder *bytes, char words[static RPC_MESSAGE_MAX])
{
	struct raw_call raw = { .tag = { on_raw_done }, .loop = w->loop };
	int max = 64 << 20;
	grpc_arg args[] = { { .type = GRPC_ARG_INTEGER,
		                    .key = (char *)GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
		                    .value.integer = max },
		{ .type = GRPC_ARG_STRING,
		        .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY,
		        .value.string = (char *)"localhost" } };
	grpc_channel_args channel_args = { ARRAY_SIZE(args), args };
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	grpc_channel *channel =
	        grpc_channel_create_from_fd("raw", echo_world_connect(w), credentials, &channel_args);
	grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS,
	        loop_queue(w->loop), grpc_slice_from_static_string("/bc.test.Echo/Unary"), NULL,
	        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
	                gpr_time_from_micros((int64_t)test_timeout_usec(TEST_SERVICE_SEC), GPR_TIMESPAN)),
	        NULL);
	grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes->bytes, bytes->n);
	grpc_byte_buffer *out = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_byte_buffer *in = NULL;
	grpc_metadata_array initial, trailing;
	grpc_slice details = grpc_empty_slice();
	grpc_status_code code = GRPC_STATUS_OK;
	grpc_op ops[6] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA },
		{ .op = GRPC_OP_RECV_MESSAGE }, { .op = GRPC_OP_RECV_STATUS_ON_CLIENT } };

	grpc_metadata_array_init(&initial);
	grpc_metadata_array_init(&trailing);
	ops[1].data.send_message.send_message = out;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
	ops[4].data.recv_message.recv_message = &in;
	ops[5].data.recv_status_on_client.trailing_metadata = &trailing;
	ops[5].data.recv_status_on_client.status = &code;
	ops[5].data.recv_status_on_client.status_details = &details;
	assert_int_equal(grpc_call_start_batch(call, ops, ARRAY_SIZE(ops), &raw.tag, NULL), GRPC_CALL_OK);
	while (!raw.done)
		assert_int_equal(loop_run(w->loop), 0);
	(void)snprintf(words, RPC_MESSAGE_MAX, "%.*s", (int)GRPC_SLICE_LENGTH(details),
	        (const char *)GRPC_SLICE_START_PTR(details));
	grpc_slice_unref(details);
	grpc_slice_unref(slice);
	grpc_byte_buffer_destroy(out);
	if (in)
		grpc_byte_buffer_destroy(in);
	grpc_metadata_array_destroy(&initial);
	grpc_metadata_array_destroy(&trailing);
	grpc_call_unref(call);
	grpc_channel_destroy(channel);
	grpc_channel_credentials_release(credentials);
	return code;
}

enum field { PAYLOAD = 1, COUNT = 2, TEXT = 5, NESTED = 6, ITEMS = 7, UNKNOWN = 77 };

static void refused(
        struct echo_world *w, const struct wire_builder *bytes, grpc_status_code code, const char *words)
{
	char got[RPC_MESSAGE_MAX];
	grpc_status_code got_code = raw_unary(w, bytes, got);

	if (got_code != code || !strstr(got, words))
		fail_msg("%s: '%s' instead of %s: '%s'", rpc_code_to_string(got_code), got,
		        rpc_code_to_string(code), words);
	echo_world_answers(w); /* nobody else is disturbed */
}

static void what_is_no_message_is_an_invalid_argument(void **state)
{
	struct echo_world *w = *state;
	CLEANUP_WIRE struct wire_builder cut = { 0 }, utf8 = { 0 }, nul = { 0 }, deep = { 0 }, noise = { 0 };

	wire_put_raw(&cut, "\x2a\x05x", 3);
	refused(w, &cut, GRPC_STATUS_INVALID_ARGUMENT, "text: cut short");
	wire_put_bytes(&utf8, TEXT, "\xff", 1);
	refused(w, &utf8, GRPC_STATUS_INVALID_ARGUMENT, "text: not valid UTF-8");
	wire_put_bytes(&nul, TEXT, "a\0b", 3);
	refused(w, &nul, GRPC_STATUS_INVALID_ARGUMENT, "text: a NUL byte");
	for (int i = 0; i < 10000; i++)
		wire_wrap(&deep, NESTED);
	refused(w, &deep, GRPC_STATUS_INVALID_ARGUMENT, "nested deeper than 64");
	for (int i = 0; i < 4096; i++)
		wire_put_raw(&noise, &(uint8_t){ 0xff }, 1);
	refused(w, &noise, GRPC_STATUS_INVALID_ARGUMENT, "malformed field tag");
}

/* Small on the wire and huge in memory is refused by count, before it is unpacked. */
static void what_would_be_huge_is_refused_small(void **state)
{
	struct echo_world *w = *state;
	CLEANUP_WIRE struct wire_builder items = { 0 }, unknown = { 0 }, large = { 0 };
	static const uint8_t zeros[5 << 20];

	while (items.n + 2 <= RPC_WIRE_MAX - 64)
		wire_put_bytes(&items, ITEMS, "", 0);
	while (unknown.n + 4 <= (1 << 20))
		wire_put_number(&unknown, UNKNOWN, 1);
	wire_put_bytes(&large, PAYLOAD, zeros, sizeof(zeros));
	echo_world_answers(w);
	size_t before = resident_bytes();
	for (int i = 0; i < 5; i++) {
		refused(w, &items, GRPC_STATUS_INVALID_ARGUMENT, "too many elements");
		refused(w, &unknown, GRPC_STATUS_INVALID_ARGUMENT, "too many fields");
		refused(w, &large, GRPC_STATUS_RESOURCE_EXHAUSTED, "larger than max");
	}
	if (memory_tells())
		assert_true(resident_bytes() < before + 16 * MIB);
}

/* --- pings --- */

struct frames {
	int fd;
	uint8_t bytes[9 + (16 << 10)];
	size_t n, n_ping_acks, n_goaways;
};

enum { FRAME_PING = 6, FRAME_GOAWAY = 7, FLAG_ACK = 1 };

static void frames_take(struct frames *f)
{
	size_t at = 0;

	while (f->n - at >= 9) {
		const uint8_t *h = f->bytes + at;
		size_t n = 9 + ((size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2]);

		if (f->n - at < n)
			break;
		f->n_ping_acks += h[3] == FRAME_PING && (h[4] & FLAG_ACK);
		f->n_goaways += h[3] == FRAME_GOAWAY;
		at += n;
	}
	memmove(f->bytes, f->bytes + at, f->n - at);
	f->n -= at;
}

static bool pings_answered(struct echo_world *w, void *userdata)
{
	struct frames *f = userdata;
	ssize_t n;

	(void)w;
	while ((n = recv(f->fd, f->bytes + f->n, sizeof(f->bytes) - f->n, 0)) > 0) {
		f->n += (size_t)n;
		frames_take(f);
	}
	return n == 0 || f->n_goaways > 0 || f->n_ping_acks == PINGS;
}

/* gRPC's own limit is a ping in five minutes, and two strikes. A client's keepalive on a silent stream is no attack. */
static void pings_are_answered_not_punished(void **state)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	static uint8_t pings[PINGS][9 + 8];
	struct echo_world *w = *state;
	struct frames f = { .fd = echo_world_connect(w) };

	assert_int_equal(send(f.fd, preface, sizeof(preface), MSG_NOSIGNAL), sizeof(preface));
	for (int i = 0; i < PINGS; i++) {
		pings[i][2] = 8;
		pings[i][3] = FRAME_PING;
	}
	assert_int_equal(send(f.fd, pings, sizeof(pings), MSG_NOSIGNAL), sizeof(pings));
	echo_world_until(w, pings_answered, &f);
	assert_int_equal(f.n_goaways, 0);
	assert_int_equal(f.n_ping_acks, PINGS);
	(void)close(f.fd);
}

/* --- readers that stall --- */

struct reader {
	size_t n_messages;
	bool ended;
	grpc_status_code code;
};

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct reader *reader = userdata;

	(void)message;
	reader->n_messages++;
	rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct reader *reader = userdata;

	reader->ended = true;
	reader->code = status->code;
}

static const struct rpc_stream_handlers handlers = { .on_message = on_message, .on_end = on_end };

static bool calls_are_live(struct echo_world *w, void *userdata)
{
	return rpc_server_live_calls(w->server) == *(const size_t *)userdata;
}

static bool readers_ended(struct echo_world *w, void *userdata)
{
	struct reader *readers = userdata;

	(void)w;
	for (int i = 0; i < STALLED; i++)
		if (!readers[i].ended)
			return false;
	return true;
}

/* Eight streams of 64 MiB each, that nobody reads: the handler is not asked for more than the queue, and others are
 * served. Then they are read, and nothing was lost. */
static void a_stalled_reader_costs_a_queue_not_its_stream(void **state)
{
	struct echo_world *w = *state;
	static uint8_t payload[STALLED_BYTES];
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	struct reader readers[STALLED] = { 0 };
	struct rpc_request *streams[STALLED];
	size_t live = STALLED;

	m.count = STALLED_MESSAGES;
	m.payload = (ProtobufCBinaryData){ sizeof(payload), payload };
	echo_world_answers(w);
	size_t before = resident_bytes();
	for (int i = 0; i < STALLED; i++)
		streams[i] = rpc_stream(w->channel, ECHO(down), &m.base, UINT64_MAX, &handlers, &readers[i]);
	echo_world_until(w, calls_are_live, &live);
	size_t sent;
	do { /* until it stands still */
		sent = w->echo.n_down;
		for (int i = 0; i < 200; i++)
			echo_world_answers(w);
	} while (w->echo.n_down != sent);
	assert_true(sent >= STALLED);
	assert_true(sent <= STALLED * (2 * RPC_STREAM_QUEUE_MAX));
	if (memory_tells())
		assert_true(resident_bytes() < before + STALLED * (2 * RPC_STREAM_QUEUE_MAX) * STALLED_BYTES);
	for (int i = 0; i < STALLED; i++)
		rpc_request_read(streams[i]);
	echo_world_until(w, readers_ended, readers);
	for (int i = 0; i < STALLED; i++) {
		assert_int_equal(readers[i].code, GRPC_STATUS_OK);
		assert_int_equal(readers[i].n_messages, STALLED_MESSAGES);
	}
}

/* --- calls over the limit --- */

static int setup_few_calls(void **state)
{
	*state = echo_world_new(&(struct rpc_server_options){ .n_calls_max = STALLED });
	return 0;
}

static void calls_over_the_limit_are_told_to_come_later(void **state)
{
	struct echo_world *w = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	struct reader readers[STALLED] = { 0 };
	struct rpc_request *streams[STALLED];
	size_t live = STALLED;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	for (int i = 0; i < STALLED; i++)
		streams[i] = rpc_stream(w->channel, ECHO(down), &m.base, UINT64_MAX, &handlers, &readers[i]);
	echo_world_until(w, calls_are_live, &live);
	assert_null(echo_world_unary(w, &m));
	assert_int_equal(w->status.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(w->status.message, "8 calls are under way, the limit"));
	live = STALLED; /* the refused one is gone */
	echo_world_until(w, calls_are_live, &live);
	rpc_cancel(streams[0]);
	live--;
	echo_world_until(w, calls_are_live, &live);
	echo_world_answers(w);
	for (int i = 1; i < STALLED; i++)
		rpc_cancel(streams[i]);
	echo_world_until(w, readers_ended, readers);
}

/* --- watchers that are killed --- */

static int watch_run(const char *path)
{
	static struct reader readers[WATCHERS_PER_PROCESS];
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	struct rpc_channel *channel;
	struct loop *loop;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	if (loop_new(&loop) < 0 || rpc_channel_new_unix(loop, path, &channel) < 0)
		return 1;
	for (int i = 0; i < WATCHERS_PER_PROCESS; i++) {
		m.count = i % 2; /* half of them never hear anything */
		rpc_request_read(
		        rpc_stream(channel, ECHO(down), &m.base, UINT64_MAX, &handlers, &readers[i]));
	}
	return loop_run(loop); /* until it is killed */
}

static void watchers_come_and_are_killed(struct echo_world *w)
{
	const char *argv[] = { "/proc/self/exe", "server_test", "--watch", w->path, NULL };
	struct process_fd fds[] = { { 2, 2 } };
	struct process_options options = { .argv = argv, .fds = fds, .n_fds = 1 };
	pid_t pids[PROCESSES];
	int pidfds[PROCESSES];
	size_t live = WATCHERS;

	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(process_spawn(&options, &pids[i], &pidfds[i]), 0);
	echo_world_until(w, calls_are_live, &live);
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(kill(pids[i], SIGKILL), 0);
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		(void)close(pidfds[i]);
	}
	live = 0;
	echo_world_until(w, calls_are_live, &live);
}

static bool descriptors_are(struct echo_world *w, void *userdata)
{
	(void)w;
	return descriptors_open() == *(const size_t *)userdata;
}

/* Calls, descriptors and memory are back; the first crowd has left gRPC's own pools at their size. */
static void a_thousand_killed_watchers_leave_nothing(void **state)
{
	struct echo_world *w = *state;

	echo_world_answers(w);
	size_t descriptors = descriptors_open();
	watchers_come_and_are_killed(w);
	echo_world_until(w, descriptors_are, &descriptors);
	size_t before = resident_bytes();
	for (int i = 0; i < 2; i++)
		watchers_come_and_are_killed(w);
	echo_world_until(w, descriptors_are, &descriptors);
	if (memory_tells())
		assert_true(resident_bytes() < before + 4 * MIB);
	assert_int_equal(w->echo.n_ended, 3 * WATCHERS);
	echo_world_answers(w);
}

/* --- an end under load --- */

struct storm {
	struct loop *loop;
	struct rpc_channel *channel;
	struct reader streams[STORM_STREAMS];
	size_t n_open, n_unaries, n_answered;
	bool ending; /* the server was told to end */
	bool failed;
};

static void storm_check_over(struct storm *s)
{
	if (s->ending && s->n_open == 0 && s->n_unaries == 0)
		loop_exit(s->loop, s->failed ? 1 : 0);
}

/* A call of a server that ends is answered, cut off or refused; anything else is a fault. */
static bool end_is_fair(grpc_status_code code)
{
	return code == GRPC_STATUS_OK || code == GRPC_STATUS_UNAVAILABLE || code == GRPC_STATUS_CANCELLED;
}

static void storm_unary(struct storm *s);

static void on_storm_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct storm *s = userdata;

	(void)reply;
	s->n_unaries--;
	s->n_answered++;
	if (!end_is_fair(status->code)) {
		(void)fprintf(stderr, "unary: %s: %s\n", rpc_code_to_string(status->code), status->message);
		s->failed = true;
	}
	if (status->code == GRPC_STATUS_OK)
		storm_unary(s);
	else
		s->ending = true;
	storm_check_over(s);
}

static void storm_unary(struct storm *s)
{
	static const Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	s->n_unaries++;
	rpc_unary(s->channel, ECHO(unary), &m.base, test_timeout_usec(TEST_SERVICE_SEC), on_storm_reply, s);
}

static void on_storm_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	(void)message;
	(void)userdata;
	rpc_request_read(stream);
}

static void on_storm_end(const struct rpc_status *status, void *userdata)
{
	struct storm *s = userdata;

	s->n_open--;
	s->ending = true;
	if (!end_is_fair(status->code)) {
		(void)fprintf(stderr, "stream: %s: %s\n", rpc_code_to_string(status->code), status->message);
		s->failed = true;
	}
	storm_check_over(s);
}

static void storm_start(struct storm *s)
{
	static const struct rpc_stream_handlers storm_handlers = { .on_message = on_storm_message,
		.on_end = on_storm_end };
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	for (int i = 0; i < STORM_STREAMS; i++) {
		/* silent ones, and ones in full flow that would go on for ever */
		m.behaviour = i % 2 ? BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG
		                    : BC__TEST__ECHO_MESSAGE__BEHAVIOUR__ECHO;
		m.count = i % 2 ? 1 : UINT32_MAX;
		s->n_open++;
		rpc_request_read(rpc_stream(s->channel, ECHO(down), &m.base, UINT64_MAX, &storm_handlers, s));
	}
	for (int i = 0; i < STORM_UNARIES; i++)
		storm_unary(s);
}

static int on_storm_full(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	(void)kill(*(pid_t *)userdata, SIGTERM);
	return 0;
}

/* Of a server in a process of its own: it has to end by itself, with 0. */
static void storm_round(const char *dir, unsigned round)
{
	struct storm s = { 0 };
	char path[64];
	const char *argv[] = { BC_ECHO_SERVER, path, NULL };
	int out[2], status;
	CLEANUP_CLOSE int pidfd = -EBADF;
	sd_event_source *timer = NULL;
	char line[8] = "";
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/s.sock", dir);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	struct process_fd fds[] = { { out[1], 1 }, { 2, 2 } };
	assert_int_equal(process_spawn(&(struct process_options){ .argv = argv, .fds = fds, .n_fds = 2 },
	                         &pid, &pidfd),
	        0);
	(void)close(out[1]);
	assert_int_equal(poll(&(struct pollfd){ .fd = out[0], .events = POLLIN }, 1,
	                         test_timeout_msec(TEST_SERVICE_SEC)),
	        1);
	assert_int_equal(read(out[0], line, 6), 6);
	assert_int_equal(loop_new(&s.loop), 0);
	assert_int_equal(rpc_channel_new_unix(s.loop, path, &s.channel), 0);
	storm_start(&s);
	/* at another moment of the storm each time */
	assert_true(sd_event_add_time_relative(loop_event(s.loop), &timer, CLOCK_MONOTONIC,
	                    (1 + round * 7 % 50) * USEC_PER_MSEC, 1, on_storm_full, &pid) >= 0);
	assert_int_equal(loop_run(s.loop), 0);
	assert_true(s.n_answered >= STORM_UNARIES);
	assert_int_equal(process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	sd_event_source_disable_unref(timer);
	rpc_channel_free(s.channel);
	loop_free(s.loop);
	(void)close(out[0]);
	assert_int_equal(access(path, F_OK), -1);
}

static void a_server_ends_in_the_middle_of_a_storm(void **state)
{
	const char *text = getenv("BC_STORM_ROUNDS");
	unsigned rounds = text ? (unsigned)strtoul(text, NULL, 10) : ROUNDS_DEFAULT;
	char dir[] = "/tmp/rpc-storm-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (unsigned i = 0; i < rounds; i++)
		storm_round(dir, i);
	assert_int_equal(rmdir(dir), 0);
}

/* --- starters --- */

struct starter {
	pid_t pid;
	int out, pidfd; /* owned */
};

static struct starter starter_new(const char *path)
{
	const char *argv[] = { BC_ECHO_SERVER, path, NULL };
	struct starter s = { .out = -EBADF };
	int out[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	struct process_fd fds[] = { { out[1], 1 } };
	assert_int_equal(process_spawn(&(struct process_options){ .argv = argv, .fds = fds, .n_fds = 1 },
	                         &s.pid, &s.pidfd),
	        0);
	(void)close(out[1]);
	s.out = out[0];
	return s;
}

/* Until it says that it is ready, or has ended without. */
static bool starter_await(struct starter *s)
{
	struct pollfd p = { .fd = s->out, .events = POLLIN };
	char line[8];

	assert_int_equal(poll(&p, 1, test_timeout_msec(TEST_SERVICE_SEC)), 1);
	return read(s->out, line, 6) == 6;
}

static int starter_end(struct starter *s, int signal)
{
	int status;

	if (signal)
		assert_int_equal(kill(s->pid, signal), 0);
	assert_int_equal(process_wait(s->pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
	(void)close(s->pidfd);
	(void)close(s->out);
	return status;
}

/* The socket of a killed server lies there for all of them to find. */
static void after_a_crash_exactly_one_of_many_starters_serves(void **state)
{
	char dir[] = "/tmp/rpc-start-XXXXXX";
	char path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/s.sock", dir);
	struct starter serving = starter_new(path);
	assert_true(starter_await(&serving));
	for (int round = 0; round < START_ROUNDS; round++) {
		struct starter s[STARTERS];
		int winner = -1;

		(void)starter_end(&serving, SIGKILL);
		for (int i = 0; i < STARTERS; i++)
			s[i] = starter_new(path);
		for (int i = 0; i < STARTERS; i++) {
			if (!starter_await(&s[i])) {
				int status = starter_end(&s[i], 0);
				assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
				continue;
			}
			assert_int_equal(winner, -1);
			winner = i;
		}
		assert_int_not_equal(winner, -1);
		serving = s[winner];

		struct echo_world w = { 0 }; /* a client, no more */
		(void)snprintf(w.path, sizeof(w.path), "%s", path);
		assert_int_equal(loop_new(&w.loop), 0);
		assert_int_equal(rpc_channel_new_unix(w.loop, path, &w.channel), 0);
		echo_world_answers(&w);
		rpc_channel_free(w.channel);
		loop_free(w.loop);
	}
	int status = starter_end(&serving, SIGTERM);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(rmdir(dir), 0);
}

struct load {
	struct echo_world *w;
	size_t n_calls;
	bool stop;
};

static void load_call(struct load *load);

static void on_load_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct load *load = userdata;

	(void)reply;
	assert_int_equal(status->code, GRPC_STATUS_OK);
	load->n_calls--;
	if (!load->stop)
		load_call(load);
}

static void load_call(struct load *load)
{
	static const Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	load->n_calls++;
	rpc_unary(load->w->channel, ECHO(unary), &m.base, test_timeout_usec(TEST_SERVICE_SEC), on_load_reply,
	        load);
}

static bool load_over(struct echo_world *w, void *userdata)
{
	(void)w;
	return ((struct load *)userdata)->n_calls == 0;
}

/* A fork would copy gRPC's locks in whatever state they are. */
static void programs_started_under_load_run_and_end(void **state)
{
	struct echo_world *w = *state;
	const char *argv[] = { "true", NULL };
	struct process_options options = { .argv = argv };
	struct load load = { .w = w };

	for (int i = 0; i < STORM_UNARIES; i++)
		load_call(&load);
	for (int i = 0; i < SPAWNS; i++) {
		pid_t pid;
		int pidfd, status;

		assert_int_equal(process_spawn(&options, &pid, &pidfd), 0);
		echo_world_run_for(w, 1000);
		assert_int_equal(process_wait(pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
		assert_int_equal(status, 0);
		(void)close(pidfd);
	}
	load.stop = true;
	echo_world_until(w, load_over, &load);
}

TEST_SUITE(server_test)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(what_is_no_message_is_an_invalid_argument),
		T(what_would_be_huge_is_refused_small),
		T(pings_are_answered_not_punished),
		T(a_stalled_reader_costs_a_queue_not_its_stream),
		cmocka_unit_test_setup_teardown(
		        calls_over_the_limit_are_told_to_come_later, setup_few_calls, teardown),
		T(a_thousand_killed_watchers_leave_nothing),
		cmocka_unit_test(after_a_crash_exactly_one_of_many_starters_serves),
		T(programs_started_under_load_run_and_end),
		cmocka_unit_test(a_server_ends_in_the_middle_of_a_storm),
	};

	if (argc == 3 && strcmp(argv[1], "--watch") == 0)
		return watch_run(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
