/* Who connects, who must not, and who connects and says nothing. */
#include "lib/rpc/test/echo_world.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { STRANGER = 54321, SILENT = 20 };

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"

static size_t n_accepts; /* only of the wrapper below, which has no other way to tell */

/* The linker puts these around the library's calls. */
int __real_accept4(int fd, struct sockaddr *address, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *n, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *n, int flags)
{
	n_accepts++;
	return __real_accept4(fd, address, n, flags);
}

static int setup(void **state)
{
	*state = echo_world_new(NULL);
	return 0;
}

/* Small, and open to everybody as far as the file system goes. */
static int setup_small(void **state)
{
	*state = echo_world_new(&(struct rpc_server_options){ .n_connections_max = 8, .mode = 0666 });
	return 0;
}

static int teardown(void **state)
{
	echo_world_free(*state);
	return 0;
}

static void raw_send(int fd, const void *data, size_t n)
{
	assert_int_equal(send(fd, data, n, MSG_NOSIGNAL), n);
}

static bool is_readable(struct echo_world *w, void *userdata)
{
	char byte;

	(void)w;
	return recv(*(int *)userdata, &byte, 1, MSG_PEEK) >= 0;
}

static bool is_ended(struct echo_world *w, void *userdata)
{
	char bytes[4096];

	(void)w;
	return recv(*(int *)userdata, bytes, sizeof(bytes), 0) == 0;
}

/* --- a uid that is not allowed: this program again, as somebody else --- */

static int stranger_run(const char *path)
{
	struct echo_world w = { 0 };
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	ProtobufCMessage *reply = NULL;

	(void)snprintf(w.path, sizeof(w.path), "%s", path);
	if (setresgid(STRANGER, STRANGER, STRANGER) < 0 || setresuid(STRANGER, STRANGER, STRANGER) < 0)
		return 77;
	/* not a byte comes before the end */
	CLEANUP_CLOSE int fd = echo_world_connect(&w);
	struct timeval patience = { .tv_sec = (time_t)(test_timeout_usec(TEST_SERVICE_SEC) / USEC_PER_SEC) };
	char byte;
	if (fcntl(fd, F_SETFL, 0) < 0 ||
	        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return 3;
	(void)send(fd, PREFACE SETTINGS, sizeof(PREFACE SETTINGS) - 1, MSG_NOSIGNAL);
	ssize_t n = recv(fd, &byte, 1, 0);
	if (n > 0 || (n < 0 && errno != ECONNRESET && errno != EPIPE))
		return 4;
	if (loop_new(&w.loop) < 0 || rpc_channel_new_unix(w.loop, path, &w.channel) < 0)
		return 5;
	int r = rpc_call_sync(w.loop, w.channel, ECHO(unary), &m.base, test_timeout_usec(TEST_SERVICE_SEC),
	        &reply, &w.status);
	(void)printf("%d %s\n", r == rpc_errno_from_code(GRPC_STATUS_UNAVAILABLE), w.status.message);
	rpc_channel_free(w.channel);
	loop_free(w.loop);
	return 0;
}

struct child {
	int out; /* owned */
	pid_t pid;
	char text[1024];
	size_t n_text;
	int status;
};

static bool child_over(struct echo_world *w, void *userdata)
{
	struct child *c = userdata;
	ssize_t n = read(c->out, c->text + c->n_text, sizeof(c->text) - 1 - c->n_text);

	(void)w;
	if (n > 0)
		c->n_text += (size_t)n;
	return n == 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid;
}

static void a_uid_that_is_not_allowed_gets_nothing_but_clear_words(void **state)
{
	struct echo_world *w = *state;
	const char *argv[] = { "/proc/self/exe", "listener_test", "--stranger", w->path, NULL };
	struct child c = { 0 };
	int out[2];
	CLEANUP_CLOSE int pidfd = -EBADF;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	struct process_fd fds[] = { { out[1], 1 }, { 2, 2 } };
	assert_int_equal(process_spawn(&(struct process_options){ .argv = argv, .fds = fds, .n_fds = 2 },
	                         &c.pid, &pidfd),
	        0);
	(void)close(out[1]);
	c.out = out[0];
	echo_world_until(w, child_over, &c);
	(void)close(c.out);
	assert_true(WIFEXITED(c.status));
	assert_int_equal(WEXITSTATUS(c.status), 0);
	/* unavailable, and says which uid, and where it would have to be allowed */
	assert_int_equal(c.text[0], '1');
	assert_non_null(strstr(c.text, w->path));
	assert_non_null(strstr(c.text, "uid 54321 is not among its allowed_uids"));
	assert_int_equal(w->n_refused, 2);
	assert_int_equal(w->refused.uid, STRANGER);
	assert_int_equal(w->refused.pid, c.pid);
	echo_world_answers(w);
}

/* --- whoever says nothing, half of it, or nonsense --- */

static void connections_that_say_little_delay_nobody(void **state)
{
	struct echo_world *w = *state;
	int silent[SILENT], half[SILENT], mute[SILENT], nonsense[SILENT];
	static const char noise[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

	for (int i = 0; i < SILENT; i++) {
		silent[i] = echo_world_connect(w);
		half[i] = echo_world_connect(w);
		raw_send(half[i], PREFACE, 11);
		mute[i] = echo_world_connect(w);
		raw_send(mute[i], PREFACE SETTINGS, sizeof(PREFACE SETTINGS) - 1);
		nonsense[i] = echo_world_connect(w);
		raw_send(nonsense[i], noise, sizeof(noise) - 1);
		echo_world_answers(w);
	}
	for (int i = 0; i < SILENT; i++) {
		echo_world_until(w, is_ended, &nonsense[i]);
		/* one byte at a time is no better */
		raw_send(half[i], &PREFACE[11], 1);
	}
	echo_world_answers(w);
	for (int i = 0; i < SILENT; i++) {
		(void)close(silent[i]);
		(void)close(half[i]);
		(void)close(mute[i]);
		(void)close(nonsense[i]);
	}
	echo_world_answers(w);
}

/* The limit is 8. */
static void silent_connections_give_way_at_the_limit(void **state)
{
	struct echo_world *w = *state;
	int silent[SILENT];

	for (int i = 0; i < SILENT; i++)
		silent[i] = echo_world_connect(w);
	echo_world_answers(w);
	/* the oldest went first, the newest are still there */
	for (int i = 0; i < SILENT - 8; i++)
		echo_world_until(w, is_ended, &silent[i]);
	raw_send(silent[SILENT - 1], PREFACE SETTINGS, sizeof(PREFACE SETTINGS) - 1);
	echo_world_until(w, is_readable, &silent[SILENT - 1]);
	assert_int_equal(w->n_refused, 0);
	echo_world_answers(w);
	for (int i = 0; i < SILENT; i++)
		(void)close(silent[i]);
}

static void connections_in_use_do_not_give_way(void **state)
{
	struct echo_world *w = *state;
	struct rpc_channel *channels[7];
	struct rpc_channel *ours = w->channel;

	echo_world_answers(w);
	for (size_t i = 0; i < ARRAY_SIZE(channels); i++) {
		assert_int_equal(rpc_channel_new_unix(w->loop, w->path, &channels[i]), 0);
		w->channel = channels[i];
		echo_world_answers(w);
	}
	CLEANUP_CLOSE int ninth = echo_world_connect(w);
	echo_world_until(w, is_ended, &ninth);
	assert_int_equal(w->n_refused, 1);
	for (size_t i = 0; i < ARRAY_SIZE(channels); i++) {
		w->channel = channels[i];
		echo_world_answers(w);
		rpc_channel_free(channels[i]);
	}
	w->channel = ours;
	echo_world_answers(w);
}

/* --- descriptors --- */

/* The lowest number that is free, which is also how many are needed below. */
static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	(void)close(fd);
	return fd;
}

static bool was_accepting(struct echo_world *w, void *userdata)
{
	(void)w;
	(void)userdata;
	return n_accepts > 0;
}

/* With no descriptor left, a connection in the backlog keeps the socket readable: accepting it again and again would
 * be a busy loop. */
static void no_descriptor_left_is_no_busy_loop(void **state)
{
	struct echo_world *w = *state;
	struct rlimit before, none;

	echo_world_run_for(w, 1000); /* the timer has its descriptor */
	CLEANUP_CLOSE int fd = echo_world_connect(w);
	raw_send(fd, PREFACE SETTINGS, sizeof(PREFACE SETTINGS) - 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)lowest_free();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	n_accepts = 0;
	echo_world_until(w, was_accepting, NULL);
	echo_world_run_for(w, 500 * USEC_PER_MSEC);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* it was tried, and tried again, but not all the time */
	assert_true(n_accepts <= 16);
	echo_world_until(w, is_readable, &fd);
	echo_world_answers(w);
}

static bool calls_are_live(struct echo_world *w, void *userdata)
{
	return rpc_server_live_calls(w->server) == *(size_t *)userdata;
}

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	(void)message;
	(void)userdata;
	rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	(void)status;
	(void)userdata;
}

/* A child gets none of them, whoever starts it and however. */
static void every_descriptor_is_close_on_exec(void **state)
{
	struct echo_world *w = *state;
	const struct rpc_stream_handlers handlers = { .on_message = on_message, .on_end = on_end };
	Bc__Test__EchoMessage m = BC__TEST__ECHO_MESSAGE__INIT;
	CLEANUP_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	int raw = echo_world_connect(w);
	size_t live = 1;
	int n = 0;

	echo_world_answers(w);
	m.behaviour = BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG;
	(void)rpc_stream(w->channel, ECHO(down), &m.base, UINT64_MAX, &handlers, w);
	echo_world_until(w, calls_are_live, &live);
	for (struct dirent *e; (e = readdir(dir));) {
		int fd = (int)strtol(e->d_name, NULL, 10);
		char path[64], target[256];

		if (e->d_name[0] == '.' || fd <= 2)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		n++;
		if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			fail_msg("descriptor %d, %s, would be inherited", fd, target);
	}
	(void)close(raw);
	assert_true(n >= 6); /* listener, lock, both ends, epoll, eventfd at least */
}

/* What a service cannot watch is an answer with words, and it ends as after any other failed start. */
static void a_start_that_fails_can_be_freed(void **state)
{
	struct err err = { 0 };
	struct rpc_server_options options = { .listen_fd = memfd_create("no socket", MFD_CLOEXEC) };
	struct rpc_server *server = NULL;
	struct loop *loop = NULL;

	(void)state;
	assert_true(options.listen_fd >= 0);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(rpc_server_new(loop, &options, &server, &err), 0);
	assert_int_equal(rpc_server_start(server, &err), -EPERM);
	assert_non_null(strstr(err.text, "cannot watch the socket: "));
	assert_null(rpc_server_free(server));
	assert_null(loop_free(loop));
}

TEST_SUITE(listener_test)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define SMALL(fn) cmocka_unit_test_setup_teardown(fn, setup_small, teardown)
	const struct CMUnitTest tests[] = {
		SMALL(a_uid_that_is_not_allowed_gets_nothing_but_clear_words),
		T(connections_that_say_little_delay_nobody),
		SMALL(silent_connections_give_way_at_the_limit),
		SMALL(connections_in_use_do_not_give_way),
		T(no_descriptor_left_is_no_busy_loop),
		T(every_descriptor_is_close_on_exec),
		cmocka_unit_test(a_start_that_fails_can_be_freed),
	};

	if (argc == 3 && strcmp(argv[1], "--stranger") == 0)
		return stranger_run(argv[2]);
	/* what whoever runs the tests left open is not ours */
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
