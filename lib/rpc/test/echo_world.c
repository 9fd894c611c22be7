#include "lib/rpc/test/echo_world.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

enum { LOOK_USEC = 2000 };

static void on_refuse(const struct rpc_peer *peer, const char *why, void *userdata)
{
	struct echo_world *w = userdata;

	assert_string_not_equal(why, "");
	w->refused = *peer;
	w->n_refused++;
}

struct echo_world *echo_world_new(const struct rpc_server_options *options)
{
	struct echo_world *w = calloc(1, sizeof(*w));
	struct rpc_server_options own = options ? *options : (struct rpc_server_options){ 0 };
	struct err err = { 0 };

	assert_non_null(w);
	strcpy(w->dir, "/tmp/echo-world-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(chmod(w->dir, 0711), 0);
	(void)snprintf(w->path, sizeof(w->path), "%s/s.sock", w->dir);
	own.path = w->path;
	own.listen_fd = -EBADF;
	own.descriptor_set = echo_descriptor_set;
	own.n_descriptor_set = echo_descriptor_set_size;
	own.on_refuse = on_refuse;
	own.userdata = w;
	assert_int_equal(loop_new(&w->loop), 0);
	echo_service_init(&w->echo);
	assert_int_equal(rpc_server_new(w->loop, &own, &w->server, &err), 0);
	assert_int_equal(rpc_server_add(w->server, &w->echo.service.base), 0);
	assert_int_equal(rpc_server_start(w->server, &err), 0);
	assert_int_equal(rpc_channel_new_unix(w->loop, w->path, &w->channel), 0);
	return w;
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(((struct echo_world *)userdata)->loop, 0);
}

void echo_world_stop(struct echo_world *w, uint64_t grace_usec)
{
	rpc_server_drain(w->server, grace_usec, on_drained, w);
	assert_int_equal(loop_run(w->loop), 0);
	assert_int_equal(rpc_server_live_calls(w->server), 0);
	w->server = rpc_server_free(w->server);
}

void echo_world_free(struct echo_world *w)
{
	if (!w)
		return;
	w->channel = rpc_channel_free(w->channel);
	if (w->server)
		echo_world_stop(w, USEC_PER_SEC);
	loop_free(w->loop);
	assert_int_equal(rmdir(w->dir), 0); /* neither socket nor lock is left */
	free(w);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(((struct echo_world *)userdata)->loop, 0);
	return 0;
}

void echo_world_run_for(struct echo_world *w, uint64_t usec)
{
	sd_event_source *timer = NULL;

	assert_true(sd_event_add_time_relative(
	                    loop_event(w->loop), &timer, CLOCK_MONOTONIC, usec, 1, on_look, w) >= 0);
	assert_int_equal(loop_run(w->loop), 0);
	sd_event_source_disable_unref(timer);
}

void echo_world_until(struct echo_world *w, bool (*fn)(struct echo_world *w, void *userdata), void *userdata)
{
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	while (!fn(w, userdata)) {
		if (clock_monotonic_usec() > until_usec)
			fail_msg("what is waited for does not come");
		echo_world_run_for(w, LOOK_USEC);
	}
}

Bc__Test__EchoMessage *echo_world_unary(struct echo_world *w, const Bc__Test__EchoMessage *m)
{
	ProtobufCMessage *reply = NULL;

	if (rpc_call_sync(w->loop, w->channel, ECHO(unary), &m->base, test_timeout_usec(TEST_SERVICE_SEC),
	            &reply, &w->status) < 0)
		return NULL;
	return (Bc__Test__EchoMessage *)reply;
}

void echo_world_answers(struct echo_world *w)
{
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	Bc__Test__EchoMessage *reply;

	m.count = 42;
	reply = echo_world_unary(w, &m);
	if (!reply || reply->count != 42)
		fail_msg("%s", w->status.message);
	if (reply)
		bc__test__echo_message__free_unpacked(reply, NULL);
}

int echo_world_connect(const struct echo_world *w)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, w->path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}
