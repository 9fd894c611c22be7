/* A whole service as systemd would start it: a child process with its own sockets. */
#include "bc/v1/runtime.pb-c.h"
#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/rpc/client.h"
#include "lib/service/audit.h"
#include "lib/service/service.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>

#include <cmocka.h>

#define RUNTIME(member) RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, member)

struct fixture {
	char *dir; /* owned */
	char config[128], socket[128], notify[128], notify_env[160];
	int notify_fd; /* what the service tells systemd */
	int log_fd;    /* its stderr */
	pid_t pid;
	int pidfd; /* -EBADF while none runs */
	struct loop *loop;
	char log[65536];
	size_t n_log;
};

static int unix_bind(const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (sandbox_setup((void **)&f->dir) < 0)
		return -1;
	(void)snprintf(f->config, sizeof(f->config), "%s/probe.conf", f->dir);
	(void)snprintf(f->socket, sizeof(f->socket), "%s/probe.sock", f->dir);
	(void)snprintf(f->notify, sizeof(f->notify), "%s/notify", f->dir);
	(void)snprintf(f->notify_env, sizeof(f->notify_env), "NOTIFY_SOCKET=%s", f->notify);
	f->notify_fd = unix_bind(f->notify, SOCK_DGRAM);
	f->log_fd = -EBADF;
	f->pidfd = -EBADF;
	assert_int_equal(loop_new(&f->loop), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->pidfd >= 0) {
		int status;

		(void)kill(f->pid, SIGKILL);
		(void)process_wait(f->pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status);
		(void)close(f->pidfd);
	}
	(void)close(f->notify_fd);
	if (f->log_fd >= 0)
		(void)close(f->log_fd);
	f->loop = loop_free(f->loop);
	(void)sandbox_teardown((void **)&f->dir);
	free(f);
	return 0;
}

static void configure(struct fixture *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void configure(struct fixture *f, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(atomic_file_write(AT_FDCWD, f->config, text, strlen(text), 0644), 0);
}

/* Starts the probe through a shell, which may set LISTEN_PID to what will be the probe's pid. */
static void start(struct fixture *f, const char *before_exec, int listen_fd)
{
	char script[512];
	int log_fds[2];

	(void)snprintf(script, sizeof(script), "%s exec %s --config %s --socket %s", before_exec, BC_PROBE,
	        f->config, f->socket);
	assert_int_equal(pipe2(log_fds, O_CLOEXEC), 0);
	const struct process_fd fds[] = { { .from = log_fds[1], .to = STDERR_FILENO },
		{ .from = listen_fd, .to = 3 } };
	const struct process_options options = { .argv = (const char *const[]){ "/bin/sh", "-c", script,
		                                         NULL },
		.env = (const char *const[]){ f->notify_env, NULL },
		.fds = fds,
		.n_fds = listen_fd >= 0 ? 2 : 1 };
	assert_int_equal(process_spawn(&options, &f->pid, &f->pidfd), 0);
	(void)close(log_fds[1]);
	f->log_fd = log_fds[0];
}

/* Waits for a message to systemd that has the line. */
static void notified(struct fixture *f, const char *line)
{
	struct pollfd p = { .fd = f->notify_fd, .events = POLLIN };
	char text[1024];

	for (;;) {
		if (poll(&p, 1, test_timeout_msec(TEST_SERVICE_SEC)) != 1)
			fail_msg("no %s", line);
		ssize_t n = recv(f->notify_fd, text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
		if (strstr(text, line))
			return;
	}
}

static int ended(struct fixture *f)
{
	int status;

	assert_int_equal(process_wait(f->pidfd, test_timeout_usec(TEST_SERVICE_SEC), &status), 0);
	(void)close(TAKE_FD(f->pidfd));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Reads the log until text is in it, or to its end when text is NULL. */
static const char *logged(struct fixture *f, const char *text)
{
	struct pollfd p = { .fd = f->log_fd, .events = POLLIN };

	while (!text || !strstr(f->log, text)) {
		if (poll(&p, 1, test_timeout_msec(TEST_SERVICE_SEC)) != 1)
			fail_msg("no %s in the log:\n%s", text ? text : "end", f->log);
		ssize_t n = read(f->log_fd, f->log + f->n_log, sizeof(f->log) - 1 - f->n_log);

		if (n <= 0 && text)
			fail_msg("'%s' is not in the log:\n%s", text, f->log);
		if (n <= 0)
			break;
		f->n_log += (size_t)n;
		f->log[f->n_log] = '\0';
	}
	return f->log;
}

static grpc_status_code call(
        struct fixture *f, struct rpc_method method, const ProtobufCMessage *request, char *ret_text)
{
	struct rpc_channel *channel;
	struct rpc_status status = { 0 };
	ProtobufCMessage *answer = NULL;

	assert_int_equal(rpc_channel_new_unix(f->loop, f->socket, &channel), 0);
	(void)rpc_call_sync(
	        f->loop, channel, method, request, test_timeout_usec(TEST_SERVICE_SEC), &answer, &status);
	if (answer && answer->descriptor == &bc__v1__describe_reply__descriptor)
		(void)snprintf(ret_text, 64, "%s", ((Bc__V1__DescribeReply *)answer)->version);
	if (answer)
		protobuf_c_message_free_unpacked(answer, NULL);
	(void)rpc_channel_free(channel);
	return status.code;
}

static grpc_status_code describe(struct fixture *f, char *ret_text)
{
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;

	return call(f, RUNTIME(describe), &request.base, ret_text);
}

static void run(const char *const *argv, int status, const char *said)
{
	struct process_output out;

	assert_int_equal(process_capture(&(struct process_options){ .argv = argv }, 65536,
	                         test_timeout_usec(TEST_SERVICE_SEC), &out),
	        0);
	if (!WIFEXITED(out.status) || WEXITSTATUS(out.status) != status || !strstr(out.text, said))
		fail_msg("status %#x: %s", out.status, out.text);
	process_output_done(&out);
}

#define RUN(status, said, ...) run((const char *const[]){ BC_PROBE, __VA_ARGS__, NULL }, status, said)

static const char *path_of_bytes(size_t n, char buf[static PATH_MAX])
{
	(void)snprintf(buf, PATH_MAX, "/%0*d", (int)n - 1, 0);
	return buf;
}

static void the_command_line_is_checked(void **state)
{
	char path[PATH_MAX];

	(void)state;
	RUN(0, "usage: bc-probe", "--help");
	RUN(0, "bc-probe " BC_VERSION, "--version");
	RUN(EX_USAGE, "unrecognized option", "--frobnicate");
	RUN(EX_USAGE, "unexpected argument 'x'", "x");
	RUN(EX_USAGE, "--socket 'here': write an absolute path", "--socket", "here");
	RUN(EX_USAGE, "at most 107 bytes", "--socket", path_of_bytes(108, path));
	/* longer, and what is below it would be cut somewhere */
	RUN(EX_USAGE, "at most 256 bytes", "--data-dir", path_of_bytes(257, path));
	RUN(0, path, "--data-dir", path_of_bytes(256, path), "--print-config");
	RUN(EX_USAGE, "requires an argument", "--config");
}

static void a_bad_configuration_is_refused_with_78(void **state)
{
	struct fixture *f = *state;

	RUN(EX_CONFIG, "probe.conf: cannot be read: No such file", "--config", f->config);
	configure(f, "[probe]\nnumber=11\n");
	RUN(EX_CONFIG, "probe.conf:2: [probe] number=11: write a whole number from 0 to 10", "--config",
	        f->config);
	configure(f, "[probe]\nnumber=9\n");
	RUN(EX_CONFIG, "[probe] number=9: write another one", "--config", f->config);
	configure(f, "[service]\nsocket_mode=680\n");
	RUN(EX_CONFIG, "[service] socket_mode=680: write octal digits such as 660", "--config", f->config,
	        "--socket", f->socket);
	configure(f, "[probe]\nnumber=8\n");
	RUN(EXIT_FAILURE, "cannot start with 8", "--config", f->config, "--socket", f->socket);
}

static void the_configuration_in_effect_is_printed(void **state)
{
	struct fixture *f = *state;

	configure(f, "[probe]\nnumber=3\nnumbre=4\n[service]\ndrain_timeout=2min\n");
	RUN(0, "#number=3\n", "--config", f->config, "--print-config");
	RUN(0, "#drain_timeout=2min\n", "--config", f->config, "--print-config");
	RUN(0, "unknown key 'numbre' in [probe] is ignored, did you mean 'number'?", "--config", f->config,
	        "--print-config");
}

static void it_says_ready_serves_and_ends_with_0(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char text[64];

	configure(f, "[service]\nsocket_mode=600\n");
	start(f, "", -EBADF);
	notified(f, "READY=1");
	assert_int_equal(stat(f->socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(describe(f, text), GRPC_STATUS_OK);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	notified(f, "STOPPING=1");
	assert_int_equal(ended(f), 0);
}

static void a_socket_from_systemd_is_taken(void **state)
{
	struct fixture *f = *state;
	int fd = unix_bind(f->socket, SOCK_STREAM);
	char text[64] = "";

	configure(f, "[service]\n");
	assert_int_equal(listen(fd, 16), 0);
	start(f, "LISTEN_FDS=1 LISTEN_FDNAMES=probe.socket LISTEN_PID=$$", fd);
	notified(f, "READY=1");
	assert_int_equal(describe(f, text), GRPC_STATUS_OK);
	assert_string_equal(text, "LISTEN_FDS unset");
	assert_int_equal(kill(f->pid, SIGINT), 0);
	assert_int_equal(ended(f), 0);
	(void)close(fd);
	/* The path is systemd's: it stays. */
	assert_int_equal(access(f->socket, F_OK), 0);
}

static void another_processes_sockets_are_left_alone(void **state)
{
	struct fixture *f = *state;
	int fd = unix_bind(SANDBOX_PATH(&f->dir, "other.sock"), SOCK_STREAM);
	char text[64];

	configure(f, "[service]\n");
	assert_int_equal(listen(fd, 16), 0);
	start(f, "LISTEN_FDS=1 LISTEN_PID=1", fd);
	notified(f, "READY=1");
	assert_int_equal(describe(f, text), GRPC_STATUS_OK); /* on the path it bound itself */
	(void)close(fd);
}

static void a_second_copy_is_refused_and_the_first_lives_on(void **state)
{
	struct fixture *f = *state;
	char text[64];

	configure(f, "[service]\n");
	start(f, "", -EBADF);
	notified(f, "READY=1");
	RUN(EXIT_FAILURE, f->socket, "--config", f->config, "--socket", f->socket);
	assert_int_equal(describe(f, text), GRPC_STATUS_OK);
}

static void the_watchdog_is_fed(void **state)
{
	struct fixture *f = *state;

	configure(f, "[service]\n");
	start(f, "WATCHDOG_USEC=200000 WATCHDOG_PID=$$", -EBADF);
	notified(f, "READY=1");
	for (int i = 0; i < 3; i++)
		notified(f, "WATCHDOG=1");
}

static void calls_that_change_something_are_audited(void **state)
{
	struct fixture *f = *state;
	Bc__V1__RuntimeRemoveRequest request = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;
	char text[64], peer[128];

	configure(f, "[service]\nlog_level=warning\n");
	start(f, "", -EBADF);
	notified(f, "READY=1");
	request.id = (char[]){ "i1" };
	assert_int_equal(call(f, RUNTIME(remove), &request.base, text), GRPC_STATUS_NOT_FOUND);
	/* That was below the level; SIGHUP reads the level again. */
	configure(f, "[service]\nlog_level=info\n");
	assert_int_equal(kill(f->pid, SIGHUP), 0);
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);
	do {
		assert_true(clock_monotonic_usec() < until_usec);
		assert_int_equal(call(f, RUNTIME(remove), &request.base, text), GRPC_STATUS_NOT_FOUND);
	} while (poll(&(struct pollfd){ .fd = f->log_fd, .events = POLLIN }, 1, 0) == 0);
	assert_int_equal(describe(f, text), GRPC_STATUS_OK);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(ended(f), 0);
	const char *log = logged(f, NULL);
	assert_non_null(strstr(log,
	        "bc.v1.Runtime/Remove NOT_FOUND: no domain 'i1' (BC_METHOD=bc.v1.Runtime/Remove "
	        "BC_INSTANCE=i1"));
	(void)snprintf(peer, sizeof(peer), "BC_PEER_UID=%u BC_PEER_GID=%u BC_PEER_PID=%d ", getuid(),
	        getgid(), getpid());
	assert_non_null(strstr(log, peer));
	assert_null(strstr(log, "Describe"));
}

/* The one connection there may be is in use. */
static void a_refused_connection_is_told_to_both_sides(void **state)
{
	struct fixture *f = *state;
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	ProtobufCMessage *answer = NULL;
	struct rpc_channel *first, *second;
	struct rpc_status status;
	char who[64];

	configure(f, "[service]\nmax_connections=1\n");
	start(f, "", -EBADF);
	notified(f, "READY=1");
	assert_int_equal(rpc_channel_new_unix(f->loop, f->socket, &first), 0);
	assert_int_equal(rpc_call_sync(f->loop, first, RUNTIME(describe), &request.base,
	                         test_timeout_usec(TEST_SERVICE_SEC), &answer, &status),
	        0);
	protobuf_c_message_free_unpacked(answer, NULL);
	assert_int_equal(rpc_channel_new_unix(f->loop, f->socket, &second), 0);
	for (int i = 0; i < 3; i++) {
		(void)rpc_call_sync(f->loop, second, RUNTIME(describe), &request.base,
		        test_timeout_usec(TEST_SERVICE_SEC), &answer, &status);
		assert_int_equal(status.code, GRPC_STATUS_UNAVAILABLE);
		assert_non_null(strstr(status.message, "max_connections are taken"));
	}
	(void)snprintf(who, sizeof(who), "of process %d, uid %u, was refused: ", getpid(), getuid());
	assert_non_null(strstr(logged(f, "max_connections already"), who));
	(void)rpc_channel_free(second);
	(void)rpc_channel_free(first);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(ended(f), 0);
}

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct fixture *f = userdata;

	(void)message;
	/* The stream is live: now the service may end. */
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct fixture *f = userdata;

	assert_int_not_equal(status->code, GRPC_STATUS_OK);
	loop_exit(f->loop, 0);
}

static void end_with_a_stream(struct fixture *f, const char *config)
{
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	const struct rpc_stream_handlers handlers = { .on_message = on_message, .on_end = on_end };
	struct rpc_channel *channel;

	configure(f, "%s", config);
	start(f, "", -EBADF);
	notified(f, "READY=1");
	assert_int_equal(rpc_channel_new_unix(f->loop, f->socket, &channel), 0);
	struct rpc_request *stream =
	        rpc_stream(channel, RUNTIME(watch), &request.base, UINT64_MAX, &handlers, f);
	assert_non_null(stream);
	rpc_request_read(stream);
	assert_int_equal(loop_run(f->loop), 0);
	(void)rpc_channel_free(channel);
	assert_int_equal(ended(f), 0);
}

static void a_stream_that_never_ends_does_not_hold_it(void **state)
{
	end_with_a_stream(*state, "[service]\ndrain_timeout=50ms\n");
}

/* The call is over for its caller, and something of the service's is still at it. */
static void work_that_never_ends_does_not_hold_it(void **state)
{
	end_with_a_stream(*state, "[service]\ndrain_timeout=50ms\n[probe]\nnumber=7\n");
}

static void an_idle_client_does_not_hold_it(void **state)
{
	struct fixture *f = *state;
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	ProtobufCMessage *answer = NULL;
	struct rpc_channel *channel;
	struct rpc_status status;

	configure(f, "[service]\ndrain_timeout=1h\n");
	start(f, "", -EBADF);
	notified(f, "READY=1");
	assert_int_equal(rpc_channel_new_unix(f->loop, f->socket, &channel), 0);
	assert_int_equal(rpc_call_sync(f->loop, channel, RUNTIME(describe), &request.base,
	                         test_timeout_usec(TEST_SERVICE_SEC), &answer, &status),
	        0);
	protobuf_c_message_free_unpacked(answer, NULL);
	/* The connection stands and nobody looks at it: this loop does not run. */
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(ended(f), 0);
	(void)rpc_channel_free(channel);
}

static void methods_that_only_look_are_known(void **state)
{
	static const char *const LOOKING[] = { "bc.v1.Netd/List", "bc.v1.Netd/Hello", "bc.v1.Netd/Check",
		"bc.v1.Converger/GetNode", "bc.v1.Converger/WatchStatus", "bc.v1.Converger/Events",
		"bc.v1.Runtime/GetBalloon", "bc.v1.Runtime/Describe", "bc.v1.Intelligence/ListVms",
		"bc.v1.Intelligence/Trace", "bc.v1.Intelligence/Status" };
	static const char *const CHANGING[] = { "bc.v1.Converger/Apply", "bc.v1.Converger/Session",
		"bc.v1.Converger/Drain", "bc.v1.Runtime/Console", "bc.v1.Runtime/SetBalloon",
		"bc.v1.Runtime/GrowVolume", "bc.v1.Runtime/Snapshot", "bc.v1.Netd/RemoveInstance",
		"bc.v1.Netd/SetPolicy", "bc.v1.Intelligence/Register", "x.Y/Getaway", "NoSlash" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(LOOKING); i++)
		assert_false(audit_concerns(LOOKING[i]));
	for (size_t i = 0; i < ARRAY_SIZE(CHANGING); i++)
		assert_true(audit_concerns(CHANGING[i]));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

TEST_SUITE(service_test)
{
	const struct CMUnitTest tests[] = {
		TEST(the_command_line_is_checked),
		TEST(a_bad_configuration_is_refused_with_78),
		TEST(the_configuration_in_effect_is_printed),
		TEST(it_says_ready_serves_and_ends_with_0),
		TEST(a_socket_from_systemd_is_taken),
		TEST(another_processes_sockets_are_left_alone),
		TEST(a_second_copy_is_refused_and_the_first_lives_on),
		TEST(the_watchdog_is_fed),
		TEST(calls_that_change_something_are_audited),
		TEST(a_refused_connection_is_told_to_both_sides),
		TEST(a_stream_that_never_ends_does_not_hold_it),
		TEST(work_that_never_ends_does_not_hold_it),
		TEST(an_idle_client_does_not_hold_it),
		cmocka_unit_test(methods_that_only_look_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
