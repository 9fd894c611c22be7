/* Console: one client's session at the serial port of an instance. */
#include "svc-runtime-libvirt/console.h"
#include "svc-runtime-libvirt/edge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CHUNK_BYTES = 16 * 1024,
	QUEUE = 4, /* messages; what does not fit waits in the ring, or is skipped there */
	INPUT_MAX = 64 * 1024,
};

struct session {
	struct console_client client;
	Bc__V1__Runtime_Service *service; /* weak */
	struct runtime *runtime;          /* weak */
	struct rpc_call *call;            /* weak: until on_end */
	char id[UUID_TEXT_MAX];
	bool take_over, no_backlog;
	bool asked;   /* the first message was read */
	bool was_off; /* when it was opened: there is only a backlog */
	bool open;
	char *input; /* owned; what the port did not take yet */
	size_t n_input;
};

/* The console of an instance goes with it, and tells its client: an open session has one. */
static struct console *console_of(struct session *session)
{
	struct domain_entry *entry = domains_find_any(session->runtime->domains, session->id);

	return entry ? entry->console : NULL;
}

static void send_output(struct session *session)
{
	char chunk[CHUNK_BYTES];

	while (session->open && rpc_stream_queued(session->call) < QUEUE) {
		size_t n = console_read(console_of(session), &session->client, chunk, sizeof(chunk));
		if (n == 0)
			return; /* over, perhaps: on_over() was called then */
		Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;
		output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA;
		output.data = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)chunk };
		(void)rpc_stream_send(session->call, &output.base);
	}
}

static void send_input(struct session *session)
{
	if (!session->n_input)
		return;
	ssize_t n = console_write(console_of(session), session->input, session->n_input);
	if (n < 0)
		return; /* the port is away: it comes back, or the session ends */
	session->n_input -= (size_t)n;
	memmove(session->input, session->input + n, session->n_input);
	if (!session->n_input)
		rpc_stream_read(session->call);
}

static void on_more(struct console_client *client)
{
	struct session *session = CONTAINER_OF(client, struct session, client);

	send_input(session);
	send_output(session);
}

static void on_over(struct console_client *client, int r, const char *why)
{
	struct session *session = CONTAINER_OF(client, struct session, client);

	session->open = false;
	if (r == 0 && session->was_off)
		rpc_fail(session->call, GRPC_STATUS_FAILED_PRECONDITION, "%s; this was its last output", why);
	else if (r == 0)
		rpc_stream_finish(session->call);
	else
		rpc_fail(
		        session->call, r == -EBUSY ? GRPC_STATUS_ABORTED : rpc_code_from_errno(r), "%s", why);
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	(void)call;
	send_output(userdata);
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct session *session = userdata;

	(void)call;
	if (session->open)
		console_close(console_of(session), &session->client);
	free(session->input);
	free(session);
}

static void open_session(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	struct session *session = (struct session *)arg;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct err err = { 0 };

	if (!edge_ready(runtime, call))
		return;
	struct domain_entry *entry = domains_find(runtime->domains, session->id);
	if (!entry) {
		rpc_fail(call, GRPC_STATUS_NOT_FOUND, "no domain %s", session->id);
		return;
	}
	if (!domain_entry_managed(entry) || !entry->console) {
		rpc_fail(call,
		        domain_entry_managed(entry) ? GRPC_STATUS_FAILED_PRECONDITION
		                                    : GRPC_STATUS_PERMISSION_DENIED,
		        "domain '%s' has no console here", entry->look.record.name);
		return;
	}
	(void)snprintf(
	        session->client.name, sizeof(session->client.name), "uid %u, pid %d", peer->uid, peer->pid);
	session->was_off = !domain_state_is_active(entry->condition.state);
	Bc__V1__ConsoleOpened opened = BC__V1__CONSOLE_OPENED__INIT;
	int r = console_open(entry->console, &session->client, session->take_over, session->no_backlog,
	        &opened.backlog_bytes, &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	session->open = true;
	Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;
	output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED;
	output.opened = &opened;
	(void)rpc_stream_send(call, &output.base);
	rpc_stream_read(call);
	send_output(session);
}

static void ask_session(struct session *session, const Bc__V1__ConsoleOpen *open)
{
	if (!edge_id(session->call, open->id))
		return;
	(void)snprintf(session->id, sizeof(session->id), "%s", open->id);
	session->take_over = open->take_over;
	session->no_backlog = open->no_backlog;
	session->asked = true;
	edge_when_settled(session->service, session->call, open_session, session);
}

static void take_input(struct session *session, const ProtobufCBinaryData *data)
{
	if (data->len > INPUT_MAX) {
		rpc_fail(session->call, GRPC_STATUS_INVALID_ARGUMENT, "data has %zu bytes; at most %d",
		        data->len, INPUT_MAX);
		return;
	}
	if (!session->input)
		session->input = malloc(INPUT_MAX);
	if (!session->input) {
		rpc_fail(session->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	/* the next message is read when this one has gone to the port */
	memcpy(session->input, data->data, data->len);
	session->n_input = data->len;
	if (data->len)
		send_input(session);
	else
		rpc_stream_read(session->call);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__ConsoleInput *input = (const Bc__V1__ConsoleInput *)message;
	struct session *session = userdata;

	if (!message) {
		/* the client has nothing more to type: it may still want to read */
		return;
	}
	switch (input->input_case) {
	case BC__V1__CONSOLE_INPUT__INPUT_OPEN:
		if (session->asked)
			rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "the console is open already");
		else
			ask_session(session, input->open);
		break;
	case BC__V1__CONSOLE_INPUT__INPUT_DATA:
		if (session->open)
			take_input(session, &input->data);
		else
			rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "the first message must be open");
		break;
	default:
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "a message must have open or data");
	}
}

void edge_console(Bc__V1__Runtime_Service *service, const Bc__V1__ConsoleInput *none,
        Bc__V1__ConsoleOutput_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct session *session = calloc(1, sizeof(*session));

	(void)none;
	(void)reply;
	if (!session) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	session->client = (struct console_client){ .on_more = on_more, .on_over = on_over };
	session->service = service;
	session->runtime = edge_runtime(service);
	session->call = call;
	rpc_call_on_end(call, on_end, session);
	rpc_stream_on_writable(call, on_writable, session);
	rpc_stream_on_message(call, on_message, session);
	rpc_stream_read(call);
}
