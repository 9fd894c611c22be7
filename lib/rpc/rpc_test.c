/* Server and client in one process and one loop, over a real socket. */
#include "lib/rpc/client.h"
#include "lib/rpc/server.h"
#include "lib/rpc/test/echo_service.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <grpc/health/v1/health.pb-c.h>
#include <string.h>
#include <sys/stat.h>

#define ECHO(member) RPC_METHOD(Bc__Test__Echo_Service, bc__test__echo__descriptor, member)

struct fixture {
	char dir[32], path[48];
	struct loop *loop;
	struct rpc_server *server;
	struct rpc_channel *channel;
	struct echo_service echo;
	/* of the stream under test */
	struct rpc_status status;
	size_t n_messages, n_to_send, n_sent;
	bool ended;
};

static void server_make(struct fixture *f)
{
	struct err err = { 0 };
	struct rpc_server_options options = { .path = f->path,
		.listen_fd = -EBADF,
		.descriptor_set = echo_descriptor_set,
		.n_descriptor_set = echo_descriptor_set_size };

	echo_service_init(&f->echo);
	assert_int_equal(rpc_server_new(f->loop, &options, &f->server, &err), 0);
	assert_int_equal(rpc_server_add(f->server, &f->echo.service.base), 0);
	assert_int_equal(rpc_server_start(f->server, &err), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/rpc-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/s.sock", f->dir);
	assert_int_equal(loop_new(&f->loop), 0);
	server_make(f);
	assert_int_equal(rpc_channel_new_unix(f->loop, f->path, &f->channel), 0);
	*state = f;
	return 0;
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(((struct fixture *)userdata)->loop, 0);
}

static void server_stop(struct fixture *f, uint64_t grace_usec)
{
	rpc_server_drain(f->server, grace_usec, on_drained, f);
	assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(rpc_server_live_calls(f->server), 0);
	f->server = rpc_server_free(f->server);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	f->channel = rpc_channel_free(f->channel);
	if (f->server)
		server_stop(f, USEC_PER_SEC);
	loop_free(f->loop);
	assert_int_equal(stat(f->path, &st), -1);
	assert_int_equal(rmdir(f->dir), 0); /* neither socket nor lock is left */
	free(f);
	return 0;
}

static int unary(
        struct fixture *f, const Bc__Test__EchoMessage *m, uint64_t timeout_usec, Bc__Test__EchoMessage **ret)
{
	ProtobufCMessage *reply = NULL;
	int r = rpc_call_sync(f->loop, f->channel, ECHO(unary), &m->base, timeout_usec, &reply, &f->status);

	*ret = (Bc__Test__EchoMessage *)reply;
	return r;
}

static void unary_echoes(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	m.count = 42;
	m.text = (char *)"grüezi";
	for (int i = 0; i < 100; i++) {
		assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), 0);
		assert_int_equal(reply->count, 42);
		assert_string_equal(reply->text, "grüezi");
		bc__test__echo_message__free_unpacked(reply, NULL);
	}
}

static void failure_keeps_code_and_words(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__FAIL;
	m.code = GRPC_STATUS_ALREADY_EXISTS;
	m.text = (char *)"port 80 is held by 'x': choose another";
	assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), -EEXIST);
	assert_int_equal(f->status.code, GRPC_STATUS_ALREADY_EXISTS);
	assert_string_equal(f->status.message, m.text);
}

static void echo_once(struct fixture *f)
{
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), 0);
	bc__test__echo_message__free_unpacked(reply, NULL);
}

static void no_call_is_live(struct fixture *f)
{
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	while (rpc_server_live_calls(f->server) > 0) {
		assert_true(clock_monotonic_usec() < until_usec);
		echo_once(f);
	}
}

static void deadline_cancels_the_handler(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	/* A call that was over before the server had read it has no handler to cancel. */
	for (uint64_t usec = 20000; f->echo.n_hung == 0; usec *= 2) {
		assert_true(usec < test_timeout_usec(TEST_SERVICE_SEC));
		assert_int_equal(unary(f, &m, usec, &reply), -ETIMEDOUT);
		echo_once(f);
	}
	no_call_is_live(f);
	assert_int_equal(f->echo.n_cancelled, f->echo.n_hung);
}

static void absent_is_told_from_refused(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	server_stop(f, 0);
	assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), -EAGAIN);
	assert_int_equal(f->status.errno_hint, -ENOENT);
	assert_true(rpc_status_absent(&f->status));
	assert_non_null(strstr(f->status.message, f->path));
}

static void client_finds_a_restarted_server(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply = NULL;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), 0);
		bc__test__echo_message__free_unpacked(reply, NULL);
		server_stop(f, 0);
		server_make(f);
	}
	int r = unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply);
	assert_int_equal(r, 0);
	bc__test__echo_message__free_unpacked(reply, NULL);
}

static void on_stream_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct fixture *f = userdata;

	assert_int_equal(((const Bc__Test__EchoMessage *)message)->count, f->n_messages);
	f->n_messages++;
	rpc_request_read(stream);
}

static void on_stream_end(const struct rpc_status *status, void *userdata)
{
	struct fixture *f = userdata;

	f->status = *status;
	f->ended = true;
	loop_exit(f->loop, 0);
}

static void on_stream_writable(struct rpc_request *stream, void *userdata)
{
	struct fixture *f = userdata;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	for (; f->n_sent < f->n_to_send; f->n_sent++) {
		m.count = (uint32_t)f->n_sent;
		if (rpc_request_send(stream, &m.base) < 0)
			return;
	}
	rpc_request_close_send(stream);
}

static const struct rpc_stream_handlers stream_handlers = { on_stream_message, on_stream_writable,
	on_stream_end };

static void server_stream_arrives_whole(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	m.count = 5000;
	struct rpc_request *s = rpc_stream(
	        f->channel, ECHO(down), &m.base, test_timeout_usec(TEST_SERVICE_SEC), &stream_handlers, f);
	rpc_request_read(s);
	assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(f->status.code, GRPC_STATUS_OK);
	assert_int_equal(f->n_messages, 5000);
}

static void bidi_stream_echoes_in_order(void **state)
{
	struct fixture *f = *state;

	f->n_to_send = 5000;
	struct rpc_request *s = rpc_stream(
	        f->channel, ECHO(both), NULL, test_timeout_usec(TEST_SERVICE_SEC), &stream_handlers, f);
	rpc_request_read(s);
	on_stream_writable(s, f);
	assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(f->status.code, GRPC_STATUS_OK);
	assert_int_equal(f->n_messages, 5000);
}

static void client_stream_is_answered_once(void **state)
{
	struct fixture *f = *state;

	f->n_to_send = 300;
	struct rpc_stream_handlers h = { on_stream_message, on_stream_writable, on_stream_end };
	struct rpc_request *s =
	        rpc_stream(f->channel, ECHO(up), NULL, test_timeout_usec(TEST_SERVICE_SEC), &h, f);
	f->n_messages = 300; /* the one reply carries the count */
	rpc_request_read(s);
	on_stream_writable(s, f);
	assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(f->status.code, GRPC_STATUS_OK);
	assert_int_equal(f->n_messages, 301);
}

static void vanished_reader_is_noticed(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG; /* nothing to send, ever */
	for (int i = 0; i < 100; i++) {
		f->ended = false;
		struct rpc_request *s = rpc_stream(f->channel, ECHO(down), &m.base,
		        test_timeout_usec(TEST_SERVICE_SEC), &stream_handlers, f);
		rpc_cancel(s);
		while (!f->ended)
			assert_int_equal(loop_run(f->loop), 0);
		assert_int_equal(f->status.code, GRPC_STATUS_CANCELLED);
	}
	no_call_is_live(f);
}

static void drain_ends_streams_after_the_grace(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	m.count = 1;
	struct rpc_request *s = rpc_stream(
	        f->channel, ECHO(down), &m.base, test_timeout_usec(TEST_SERVICE_SEC), &stream_handlers, f);
	rpc_request_read(s);
	while (f->n_messages == 0) {
		assert_false(f->ended);
		echo_once(f);
	}
	server_stop(f, 10000);
	while (!f->ended)
		assert_int_equal(loop_run(f->loop), 0);
	assert_int_not_equal(f->status.code, GRPC_STATUS_OK);
	assert_int_equal(f->echo.n_ended, 1);
}

static void second_server_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rpc_server_options options = { .path = f->path, .listen_fd = -EBADF };
	struct rpc_server *second = NULL;
	struct err err = { 0 };
	struct stat before;
	struct stat after;
	char pid[32];

	assert_int_equal(stat(f->path, &before), 0);
	assert_int_equal(rpc_server_new(f->loop, &options, &second, &err), -EADDRINUSE);
	(void)snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	assert_non_null(strstr(err.text, pid));
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	unary_echoes(state);
}

static void health_answers(void **state)
{
	struct fixture *f = *state;
	struct rpc_method check =
	        RPC_METHOD(Grpc__Health__V1__Health_Service, grpc__health__v1__health__descriptor, check);
	Grpc__Health__V1__HealthCheckRequest m = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;

	m.service = (char *)"bc.test.Echo";
	assert_int_equal(rpc_call_sync(f->loop, f->channel, check, &m.base,
	                         test_timeout_usec(TEST_SERVICE_SEC), &reply, &f->status),
	        0);
	assert_int_equal(((Grpc__Health__V1__HealthCheckResponse *)reply)->status,
	        GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
	protobuf_c_message_free_unpacked(reply, NULL);
	m.service = (char *)"no.such.Service";
	assert_int_equal(rpc_call_sync(f->loop, f->channel, check, &m.base,
	                         test_timeout_usec(TEST_SERVICE_SEC), &reply, &f->status),
	        -ENOENT);
}

static int on_somebody_else(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(((struct fixture *)userdata)->loop, 0);
	return 0;
}

static void a_loop_that_somebody_ends_cancels_the_sync_call(void **state)
{
	struct fixture *f = *state;
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT, *reply;
	sd_event_source *timer = NULL;

	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	assert_true(sd_event_add_time_relative(
	                    loop_event(f->loop), &timer, CLOCK_MONOTONIC, 1000, 1, on_somebody_else, f) >= 0);
	assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), -ECANCELED);
	assert_null(reply);
	sd_event_source_disable_unref(timer);
	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__ECHO;
	assert_int_equal(unary(f, &m, test_timeout_usec(TEST_SERVICE_SEC), &reply), 0);
	bc__test__echo_message__free_unpacked(reply, NULL);
}

TEST_SUITE(rpc_test)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(unary_echoes),
		T(failure_keeps_code_and_words),
		T(deadline_cancels_the_handler),
		T(absent_is_told_from_refused),
		T(client_finds_a_restarted_server),
		T(server_stream_arrives_whole),
		T(bidi_stream_echoes_in_order),
		T(client_stream_is_answered_once),
		T(vanished_reader_is_noticed),
		T(drain_ends_streams_after_the_grace),
		T(second_server_is_refused),
		T(health_answers),
		T(a_loop_that_somebody_ends_cancels_the_sync_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
