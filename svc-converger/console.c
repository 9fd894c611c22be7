#include "svc-converger/console.h"

#include "svc-converger/instance_view.h"
#include "svc-converger/runtimes.h"

#include <stdio.h>
#include <string.h>

enum { INPUT_QUEUED_MAX = 16 }; /* messages on their way to the runtime */

struct console {
	unsigned n_queued;                       /* sent since the stream was last empty */
	struct rpc_request *stream;              /* weak; to the runtime */
	const struct console_handlers *handlers; /* weak; NULL: closed by its owner */
	void *userdata;                          /* weak */
};

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct console *console = userdata;

	if (!console->handlers)
		return;
	if (console->handlers->on_output((const Bc__V1__ConsoleOutput *)message, console->userdata))
		rpc_request_read(stream);
}

static void on_writable(struct rpc_request *stream, void *userdata)
{
	struct console *console = userdata;

	(void)stream;
	console->n_queued = 0;
	if (console->handlers)
		console->handlers->on_writable(console->userdata);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct console *console = userdata;

	if (console->handlers)
		console->handlers->on_end(status, console->userdata);
	free(console);
}

static const struct rpc_stream_handlers stream_handlers = {
	.on_message = on_message,
	.on_writable = on_writable,
	.on_end = on_end,
};

static int find_runtime(
        struct converger *c, const char *id, struct runtime_link **ret, struct rpc_status *status)
{
	struct instance *instance;
	struct instance_view view;
	int r;

	if (!uuid_is_valid(id))
		return rpc_status_set(status, GRPC_STATUS_INVALID_ARGUMENT, "open.id: not a canonical UUID");
	r = instance_view_named(c, id, &instance, &view, status);
	if (r < 0)
		return r;
	if (!instance_has_domain(&view) || !domain_is_up(view.domain))
		return rpc_status_set(
		        status, GRPC_STATUS_FAILED_PRECONDITION, "instance %s is not running", id);
	if (!runtime_link_has(view.runtime, "console"))
		return rpc_status_set(status, GRPC_STATUS_UNIMPLEMENTED, "runtime %s has no consoles",
		        runtime_link_id(view.runtime));
	*ret = view.runtime;
	return 0;
}

int console_open(struct converger *c, const Bc__V1__ConsoleOpen *open,
        const struct console_handlers *handlers, void *userdata, struct console **ret,
        struct rpc_status *ret_status)
{
	Bc__V1__ConsoleInput first = BC__V1__CONSOLE_INPUT__INIT;
	struct runtime_link *runtime = NULL;
	struct console *console;
	int r = find_runtime(c, open->id, &runtime, ret_status);

	if (r < 0)
		return r;
	console = calloc(1, sizeof(*console));
	if (!console)
		return rpc_status_set(ret_status, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
	console->handlers = handlers;
	console->userdata = userdata;
	console->stream = rpc_stream(runtime_link_channel(runtime),
	        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, console), NULL, UINT64_MAX,
	        &stream_handlers, console);
	first.input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
	first.open = (Bc__V1__ConsoleOpen *)open;
	if (!console->stream || rpc_request_send(console->stream, &first.base) < 0) {
		console->handlers = NULL;
		if (console->stream)
			rpc_cancel(console->stream);
		else
			free(console);
		return rpc_status_set(ret_status, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
	}
	rpc_request_read(console->stream);
	*ret = console;
	return 0;
}

int console_input(struct console *console, const Bc__V1__ConsoleInput *input)
{
	console->n_queued++;
	return rpc_request_send(console->stream, &input->base);
}

bool console_has_room(const struct console *console)
{
	return console->n_queued < INPUT_QUEUED_MAX;
}

void console_resume(struct console *console)
{
	rpc_request_read(console->stream);
}

void console_close_input(struct console *console)
{
	rpc_request_close_send(console->stream);
}

void console_close(struct console *console)
{
	console->handlers = NULL;
	rpc_cancel(console->stream);
}
