/* Console: passed on to the runtime, both ways. */
#include "svc-converger/console.h"
#include "svc-converger/edge_calls.h"

struct console_call {
	struct long_call live;
	struct rpc_call *call;   /* weak: it ends before this */
	struct converger *c;     /* weak */
	struct console *console; /* weak; NULL before the open and after its end */
	bool is_waiting;         /* for room towards the runtime */
};

static bool on_console_output(const Bc__V1__ConsoleOutput *output, void *userdata)
{
	struct console_call *cc = userdata;

	(void)rpc_stream_send(cc->call, &output->base);
	return rpc_stream_queued(cc->call) < RPC_STREAM_QUEUE_MAX / 2;
}

static void on_console_writable(void *userdata)
{
	struct console_call *cc = userdata;

	if (!cc->is_waiting)
		return;
	cc->is_waiting = false;
	rpc_stream_read(cc->call);
}

static void on_console_end(const struct rpc_status *status, void *userdata)
{
	struct console_call *cc = userdata;

	cc->console = NULL;
	if (status->code == GRPC_STATUS_OK)
		rpc_stream_finish(cc->call);
	else
		rpc_fail(cc->call, status->code, "%s", status->message);
}

static const struct console_handlers console_handlers = {
	.on_output = on_console_output,
	.on_writable = on_console_writable,
	.on_end = on_console_end,
};

static void on_console_drained(struct rpc_call *call, void *userdata)
{
	struct console_call *cc = userdata;

	(void)call;
	if (cc->console)
		console_resume(cc->console);
}

static void console_begin(struct console_call *cc, const Bc__V1__ConsoleInput *input)
{
	struct rpc_status status = { 0 };

	if (input->input_case != BC__V1__CONSOLE_INPUT__INPUT_OPEN) {
		rpc_fail(cc->call, GRPC_STATUS_INVALID_ARGUMENT, "the first message must be open {id}");
		return;
	}
	rpc_call_set_subject(cc->call, input->open->id);
	if (console_open(cc->c, input->open, &console_handlers, cc, &cc->console, &status) < 0)
		rpc_fail(cc->call, status.code, "%s", status.message);
	else
		rpc_stream_read(cc->call);
}

static void on_console_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct console_call *cc = userdata;
	const Bc__V1__ConsoleInput *input = (const Bc__V1__ConsoleInput *)message;

	if (!input) {
		if (cc->console)
			console_close_input(cc->console);
		else
			rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "the first message must be open {id}");
		return;
	}
	if (!cc->console) {
		console_begin(cc, input);
		return;
	}
	if (input->input_case == BC__V1__CONSOLE_INPUT__INPUT_OPEN) {
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "open comes once, first");
		return;
	}
	if (console_input(cc->console, input) == 0 && console_has_room(cc->console))
		rpc_stream_read(call);
	else
		cc->is_waiting = true;
}

static void on_console_call_end(struct rpc_call *call, void *userdata)
{
	struct console_call *cc = userdata;

	(void)call;
	long_call_end(&cc->live);
	if (cc->console)
		console_close(cc->console);
	free(cc);
}

void edge__console(Bc__V1__Converger_Service *service, const Bc__V1__ConsoleInput *request,
        Bc__V1__ConsoleOutput_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct console_call *cc = calloc(1, sizeof(*cc));

	(void)request;
	(void)closure;
	if (!cc) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	cc->call = call;
	cc->c = edge_converger(service);
	rpc_stream_on_message(call, on_console_message, cc);
	rpc_stream_on_writable(call, on_console_drained, cc);
	rpc_call_on_end(call, on_console_call_end, cc);
	long_call_begin(edge_of(service), &cc->live, call);
	rpc_stream_read(call);
}
