#include "svc-runtime-fake/console.h"

#include "svc-runtime-fake/fake.h"

#include <search.h>
#include <string.h>

static const char ECHO[] = "console: ";

/* Of one domain, from the first client on until the domain stops. */
struct console {
	char id[UUID_TEXT_MAX];  /* the key of the tree */
	struct session *session; /* weak; NULL while nobody is there */
	size_t n_backlog;
	char backlog[CONSOLE_BACKLOG_MAX];
};

/* Of one call. */
struct session {
	struct consoles *consoles; /* weak */
	struct rpc_call *call;     /* weak: until on_end */
	struct console *console;   /* weak; NULL before open and after the end */
	struct session *next;
	char *waiting; /* owned; output that had no room; NULL for none */
	size_t n_waiting;
};

struct consoles {
	struct fake *fake;        /* weak */
	void *tree;               /* owned; tsearch() of struct console */
	struct session *sessions; /* weak; every live call */
	bool draining;
};

static int console_compare(const void *a, const void *b)
{
	return strcmp(((const struct console *)a)->id, ((const struct console *)b)->id);
}

static struct console *console_find(const struct consoles *consoles, const char *id)
{
	struct console **found;
	struct console *key = calloc(1, sizeof(*key));

	if (!key)
		return NULL;
	(void)snprintf(key->id, sizeof(key->id), "%s", id);
	found = tfind(key, &consoles->tree, console_compare);
	free(key);
	return found ? *found : NULL;
}

static void backlog_add(struct console *console, const char *data, size_t n)
{
	if (n >= CONSOLE_BACKLOG_MAX) {
		data += n - CONSOLE_BACKLOG_MAX;
		n = CONSOLE_BACKLOG_MAX;
	}
	size_t n_kept = console->n_backlog;
	if (n_kept > CONSOLE_BACKLOG_MAX - n)
		n_kept = CONSOLE_BACKLOG_MAX - n;
	memmove(console->backlog, console->backlog + console->n_backlog - n_kept, n_kept);
	memcpy(console->backlog + n_kept, data, n);
	console->n_backlog = n_kept + n;
}

static struct console *console_get(struct consoles *consoles, const char *id)
{
	struct console *console = console_find(consoles, id);
	char boot[128];

	if (console)
		return console;
	console = calloc(1, sizeof(*console));
	if (!console)
		return NULL;
	(void)snprintf(console->id, sizeof(console->id), "%s", id);
	if (!tsearch(console, &consoles->tree, console_compare)) {
		free(console);
		return NULL;
	}
	int n = snprintf(boot, sizeof(boot), "fake guest %s is up\r\n", id);
	backlog_add(console, boot, (size_t)n);
	return console;
}

/* --- sessions --- */

static void session_leave(struct session *session)
{
	if (session->console && session->console->session == session)
		session->console->session = NULL;
	session->console = NULL;
}

static void data_send(struct session *session, const char *data, size_t n)
{
	Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;

	output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA;
	output.data = (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)(uintptr_t)data };
	(void)rpc_stream_send(session->call, &output.base);
}

static void opened_send(struct session *session, const struct console *console, bool backlog)
{
	Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;
	Bc__V1__ConsoleOpened opened = BC__V1__CONSOLE_OPENED__INIT;

	opened.backlog_bytes = backlog ? console->n_backlog : 0;
	output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED;
	output.opened = &opened;
	(void)rpc_stream_send(session->call, &output.base);
	if (opened.backlog_bytes)
		data_send(session, console->backlog, console->n_backlog);
}

/* Takes the place of who is there, or says who it is. */
static bool place_take(struct session *session, struct console *console, bool take_over)
{
	struct session *other = console->session;

	if (other && !take_over) {
		rpc_fail(session->call, GRPC_STATUS_FAILED_PRECONDITION,
		        "the console of '%s' is in use by pid %d of uid %u; set take_over to end that session",
		        console->id, rpc_call_peer(other->call)->pid, rpc_call_peer(other->call)->uid);
		return false;
	}
	if (other) {
		session_leave(other);
		rpc_fail(other->call, GRPC_STATUS_ABORTED, "the console was taken over by pid %d of uid %u",
		        rpc_call_peer(session->call)->pid, rpc_call_peer(session->call)->uid);
	}
	console->session = session;
	session->console = console;
	return true;
}

static int open_check(const struct fake *fake, const Bc__V1__ConsoleOpen *open, struct err *err)
{
	int r = uuid_check("open.id", open->id, err);

	if (r < 0)
		return r;
	const record *current = domains_get(fake->domains, open->id);
	if (!current)
		return err_set(err, -ENOENT, "there is no domain '%s'", open->id);
	if (!current->domain->managed)
		return err_set(err, -EBUSY, "domain '%s' was not made by bcd and is left alone", open->id);
	return rules_check_console(current, err);
}

static void session_open(struct session *session, const Bc__V1__ConsoleOpen *open)
{
	struct err err = { 0 };

	int r = open_check(session->consoles->fake, open, &err);
	if (r < 0) {
		rpc_fail_err(session->call, r, &err);
		return;
	}
	rpc_call_set_subject(session->call, open->id);
	struct console *console = console_get(session->consoles, open->id);
	if (!console) {
		rpc_fail(session->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	if (!place_take(session, console, open->take_over))
		return;
	opened_send(session, console, !open->no_backlog);
	rpc_stream_read(session->call);
}

static void session_echo(struct session *session, const ProtobufCBinaryData *input)
{
	if (input->len > CONSOLE_INPUT_MAX) {
		rpc_fail(session->call, GRPC_STATUS_INVALID_ARGUMENT, "data: has %zu bytes; at most %d",
		        input->len, CONSOLE_INPUT_MAX);
		return;
	}
	size_t n = sizeof(ECHO) - 1 + input->len;
	char *output = malloc(n + 1);
	if (!output) {
		rpc_fail(session->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	memcpy(output, ECHO, sizeof(ECHO) - 1);
	if (input->len)
		memcpy(output + sizeof(ECHO) - 1, input->data, input->len);
	backlog_add(session->console, output, n);
	/* A reader that does not read is not read from either. */
	if (rpc_stream_queued(session->call) == RPC_STREAM_QUEUE_MAX) {
		session->waiting = output;
		session->n_waiting = n;
		return;
	}
	data_send(session, output, n);
	free(output);
	rpc_stream_read(session->call);
}

static void on_input(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__ConsoleInput *input = (const Bc__V1__ConsoleInput *)message;
	struct session *session = userdata;

	if (!input) {
		session_leave(session);
		rpc_stream_finish(call);
		return;
	}
	bool is_open = input->input_case == BC__V1__CONSOLE_INPUT__INPUT_OPEN;
	bool is_data = input->input_case == BC__V1__CONSOLE_INPUT__INPUT_DATA;
	if (!session->console && is_open)
		session_open(session, input->open);
	else if (session->console && is_data)
		session_echo(session, &input->data);
	else
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "%s",
		        session->console ? "input: only data may follow open"
		                         : "input: the first message must be open");
}

static void on_writable(struct rpc_call *call, void *userdata)
{
	struct session *session = userdata;

	if (!session->waiting)
		return;
	data_send(session, session->waiting, session->n_waiting);
	free(session->waiting);
	session->waiting = NULL;
	rpc_stream_read(call);
}

static void on_end(struct rpc_call *call, void *userdata)
{
	struct session *session = userdata;

	(void)call;
	session_leave(session);
	for (struct session **s = &session->consoles->sessions; *s; s = &(*s)->next) {
		if (*s == session) {
			*s = session->next;
			break;
		}
	}
	free(session->waiting);
	free(session);
}

void consoles_serve(struct consoles *consoles, struct rpc_call *call)
{
	struct session *session = consoles->draining ? NULL : calloc(1, sizeof(*session));

	if (!session) {
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "the runtime is ending");
		return;
	}
	session->consoles = consoles;
	session->call = call;
	session->next = consoles->sessions;
	consoles->sessions = session;
	rpc_call_on_end(call, on_end, session);
	rpc_stream_on_message(call, on_input, session);
	rpc_stream_on_writable(call, on_writable, session);
	rpc_stream_read(call);
}

/* --- all of them --- */

int consoles_new(struct fake *fake, struct consoles **ret)
{
	struct consoles *consoles = calloc(1, sizeof(*consoles));

	if (!consoles)
		return -ENOMEM;
	consoles->fake = fake;
	*ret = consoles;
	return 0;
}

void consoles_domain_changed(struct consoles *consoles, const char *id, const record *r)
{
	struct console *console;

	if (r && record_is_active(r))
		return;
	/* Most domains never had a client. */
	if (!consoles->tree || !(console = console_find(consoles, id)))
		return;
	if (console->session) {
		struct session *session = console->session;

		session_leave(session);
		rpc_stream_finish(session->call);
	}
	(void)tdelete(console, &consoles->tree, console_compare);
	free(console);
}

void consoles_drain(struct consoles *consoles)
{
	consoles->draining = true;
	for (struct session *s = consoles->sessions; s; s = s->next) {
		session_leave(s);
		rpc_fail(s->call, GRPC_STATUS_UNAVAILABLE, "the runtime is ending; call again");
	}
}

struct consoles *consoles_free(struct consoles *consoles)
{
	if (!consoles)
		return NULL;
	tdestroy(consoles->tree, free);
	free(consoles);
	return NULL;
}
