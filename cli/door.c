#include "cli/door.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Of the runtimes only those of this tree have units of their own. */
static void unit_name(const char *name, char *buf, size_t size)
{
	static const char PREFIX[] = "runtime-";
	static const char *const OURS[] = { "libvirt", "ch", "fake" };
	const char *runtime = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : NULL;
	bool is_ours = !runtime;

	for (size_t i = 0; runtime && i < ARRAY_SIZE(OURS); i++)
		is_ours |= strcmp(runtime, OURS[i]) == 0;
	(void)snprintf(buf, size, is_ours ? "bc-%s" : "bc-runtime-plugin@%s", is_ours ? name : runtime);
}

int door_open(struct cli *cli, const char *name, struct door *ret)
{
	struct door door = { .cli = cli };
	int n = cli->socket ? snprintf(door.path, sizeof(door.path), "%s", cli->socket)
	                    : snprintf(door.path, sizeof(door.path), "%s/%s.sock", cli->run_dir, name);

	if (n < 0 || (size_t)n >= sizeof(door.path))
		return cli_fail(cli, EXIT_USAGE, "the socket's path is longer than %zu bytes: %s",
		        sizeof(door.path) - 1, cli->socket ? cli->socket : cli->run_dir);
	(void)snprintf(door.service, sizeof(door.service), "bc-%s", name);
	unit_name(name, door.unit, sizeof(door.unit));

	struct loop *loop = cli_loop(cli);

	if (!loop)
		return EXIT_FAILED;
	int r = rpc_channel_new_unix(loop, door.path, &door.channel);

	if (r < 0)
		return cli_fail(cli, EXIT_FAILED, "cannot use %s: %s", door.path, strerror(-r));
	*ret = door;
	return EXIT_OK;
}

void door_done(struct door *door)
{
	door->channel = rpc_channel_free(door->channel);
}

/* True when the service closes a new connection at once; whom it lets in it greets. */
static bool turns_away(const struct door *door)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t timeout_msec = door->cli->timeout_usec / USEC_PER_MSEC;
	char byte;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", door->path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return false;
	return poll(&ready, 1, timeout_msec < INT_MAX ? (int)timeout_msec : INT_MAX) > 0 &&
	        recv(fd, &byte, sizeof(byte), 0) == 0;
}

/* A connection that ended without a word was refused, or its service ended: which of them is asked here, once. A
 * refusal has errno_hint -EACCES then, and its reason in message. */
static void refusal_explain(const struct door *door, struct rpc_status *status)
{
	unsigned uid = geteuid();

	if (status->errno_hint == -EACCES && status->code == GRPC_STATUS_PERMISSION_DENIED) {
		(void)snprintf(
		        status->message, sizeof(status->message), "the socket's mode keeps uid %u out", uid);
	} else if (status->errno_hint == -ECONNRESET) {
		status->errno_hint = turns_away(door) ? -EACCES : 0;
		if (status->errno_hint == -EACCES)
			(void)snprintf(status->message, sizeof(status->message),
			        "uid %u is not among its allowed_uids, or its max_connections are taken",
			        uid);
	}
}

char *door_failure_text(const struct door *door, const struct rpc_status *status, char *buf, size_t size)
{
	if (rpc_status_absent(status))
		(void)snprintf(buf, size, "absent: nobody listens on %s", door->path);
	else if (status->errno_hint == -EACCES)
		(void)snprintf(buf, size, "refused: it runs, but %s", status->message);
	else if (status->code == GRPC_STATUS_DEADLINE_EXCEEDED)
		(void)snprintf(buf, size, "busy: no answer in time from %s", door->path);
	else
		(void)snprintf(buf, size, "%s",
		        status->message[0] ? status->message : rpc_code_to_string(status->code));
	return buf;
}

static int failure_say(const struct door *door, const struct rpc_status *status)
{
	struct cli *cli = door->cli;
	int code = exit_code_of(status);

	if (rpc_status_absent(status))
		return cli_fail(cli, code,
		        "%s does not run: nobody listens on %s\n"
		        "Start it with 'systemctl start %s', or say where it is with --run-dir.",
		        door->service, door->path, door->unit);
	if (status->errno_hint == -EACCES)
		return cli_fail(cli, code,
		        "%s runs, but you may not use %s: %s\n"
		        "Become root or one of its allowed users.",
		        door->service, door->path, status->message);
	if (status->code == GRPC_STATUS_DEADLINE_EXCEEDED)
		return cli_fail(cli, code,
		        "%s runs, but did not answer in time%s%s (--timeout gives it more)", door->service,
		        status->message[0] ? ": " : "", status->message);
	if (status->code == GRPC_STATUS_UNAVAILABLE)
		return cli_fail(cli, code, "%s is not available: %s", door->service,
		        status->message[0] ? status->message : "the connection broke");
	return cli_fail(
	        cli, code, "%s", status->message[0] ? status->message : rpc_code_to_string(status->code));
}

int door_failed(const struct door *door, const struct rpc_status *status)
{
	struct rpc_status explained = *status;

	refusal_explain(door, &explained);
	return failure_say(door, &explained);
}

int door_try(struct door *door, struct rpc_method method, const ProtobufCMessage *message,
        uint64_t timeout_usec, ProtobufCMessage **ret_reply, struct rpc_status *ret_status)
{
	int r = rpc_call_sync(
	        door->cli->loop, door->channel, method, message, timeout_usec, ret_reply, ret_status);

	refusal_explain(door, ret_status);
	return r;
}

int door_call(struct door *door, struct rpc_method method, const ProtobufCMessage *message,
        ProtobufCMessage **ret_reply)
{
	struct rpc_status status = { 0 };

	if (door_try(door, method, message, door->cli->timeout_usec, ret_reply, &status) < 0)
		return door_failed(door, &status);
	return EXIT_OK;
}

/* --- streams --- */

struct stream_run {
	struct loop *loop;                 /* weak */
	const struct door_stream *handler; /* weak */
	struct rpc_status *status;         /* weak */
	bool enough;                       /* the handler wants no more */
};

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct stream_run *run = userdata;

	if (run->enough)
		return;
	run->enough = !run->handler->on_message(message, run->handler->userdata);
	if (run->enough)
		rpc_cancel(stream);
	else
		rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct stream_run *run = userdata;

	*run->status = *status;
	loop_exit(run->loop, 0);
}

int door_stream(struct door *door, struct rpc_method method, const ProtobufCMessage *first,
        uint64_t timeout_usec, const struct door_stream *stream, struct rpc_status *ret_status)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_message, .on_end = on_end };
	struct stream_run run = { .loop = door->cli->loop, .handler = stream, .status = ret_status };
	struct rpc_request *request = rpc_stream(door->channel, method, first, timeout_usec, &HANDLERS, &run);

	if (!request)
		return cli_fail(door->cli, EXIT_FAILED, "cannot call %s: out of memory", door->service);
	rpc_request_read(request);
	int r = loop_run(door->cli->loop);

	refusal_explain(door, ret_status);
	if (r < 0)
		return cli_fail(door->cli, EXIT_FAILED, "the loop failed: %s", strerror(-r));
	return run.enough ? EXIT_OK : exit_code_of(ret_status);
}
