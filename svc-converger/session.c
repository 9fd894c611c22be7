#include "svc-converger/session.h"

#include "lib/base/clock.h"
#include "svc-converger/apply.h"
#include "svc-converger/console.h"
#include "svc-converger/drain.h"
#include "svc-converger/event_message.h"
#include "svc-converger/node_report.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/status_stream.h"

#include <stdio.h>
#include <string.h>

enum { TUNNEL_ID_MAX = 129 };

struct tunnel {
	struct session *session; /* weak */
	char id[TUNNEL_ID_MAX];
	struct console *console; /* owned */
	struct tunnel *next;
};

/* A spec on its way through apply; it outlives its session when that ends first. */
struct session_spec {
	struct session *session; /* weak; NULL: the session has ended */
	uint64_t revision;
	uint8_t data[]; /* packed */
};

struct session {
	struct converger *c; /* weak */
	struct session_transport transport;
	void *userdata;                 /* weak */
	uint64_t *event_seen;           /* weak */
	struct status_stream *statuses; /* owned */
	struct secret_asker *asker;     /* owned */
	struct snapshot_follower snapshots;
	struct event_follower events;
	struct tunnel *tunnels; /* owned; a list */
	size_t n_tunnels;
	struct session_spec *spec; /* weak; the one being applied */
	bool is_over;              /* a send has failed */
};

static bool session_send(struct session *session, Bc__V1__NodeMessage *message)
{
	if (!session->is_over && session->transport.send(message, session->userdata) < 0)
		session->is_over = true;
	return !session->is_over;
}

static bool session_has_room(const struct session *session)
{
	return !session->is_over && session->transport.has_room(session->userdata);
}

/* --- going out --- */

static void session_say_hello(struct session *session)
{
	struct converger *c = session->c;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__Hello hello = BC__V1__HELLO__INIT;
	Bc__V1__Driver drivers[RUNTIMES_MAX];
	Bc__V1__Driver *pointers[RUNTIMES_MAX];
	char *features[NODE_FEATURES_MAX];
	CLEANUP_FREE struct node_inventory *inventory = calloc(1, sizeof(*inventory));
	const struct runtime_link *link;
	size_t cursor = 0;

	if (!inventory)
		return;
	node_inventory_init(c, inventory);
	while ((link = runtimes_next(c->runtimes, &cursor))) {
		const Bc__V1__DescribeReply *description = runtime_link_description(link);
		Bc__V1__Driver *driver = &drivers[hello.n_drivers];

		if (!description || runtime_link_is_refused(link))
			continue;
		bc__v1__driver__init(driver);
		driver->kind = (char *)"runtime";
		driver->id = description->id;
		driver->version = description->version;
		driver->n_features = description->n_features;
		driver->features = description->features;
		pointers[hello.n_drivers++] = driver;
	}
	hello.node_id = (char *)c->options.node_id;
	hello.boot_id = c->boot_id;
	hello.version = (char *)BC_VERSION;
	hello.drivers = pointers;
	hello.n_features = node_features(c, features);
	hello.features = features;
	hello.inventory = &inventory->message;
	hello.accepted_revision = c->revision;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_HELLO;
	message.hello = &hello;
	(void)session_send(session, &message);
	node_inventory_done(inventory);
}

static bool on_delta(const Bc__V1__StatusDelta *delta, void *userdata)
{
	struct session *session = userdata;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;

	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_STATUS;
	message.status = (Bc__V1__StatusDelta *)delta;
	(void)session_send(session, &message);
	return session_has_room(session);
}

static void on_lost(void *userdata)
{
	struct session *session = userdata;

	session->transport.fail(
	        GRPC_STATUS_ABORTED, "this session has fallen too far behind; begin anew", session->userdata);
}

static const struct status_stream_handlers status_handlers = { .on_delta = on_delta, .on_lost = on_lost };

static bool on_ask(const struct secret_request *request, void *userdata)
{
	struct session *session = userdata;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__SecretRequest ask = BC__V1__SECRET_REQUEST__INIT;

	if (!session_has_room(session))
		return false;
	ask.request_id = (char *)request->request_id;
	ask.instance_id = (char *)request->instance_id;
	ask.allocation_id = (char *)request->allocation_id;
	ask.ref = (char *)request->ref;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_SECRET_REQUEST;
	message.secret_request = &ask;
	return session_send(session, &message);
}

static void on_snapshot(
        const Bc__V1__SnapshotProgress *progress, const struct rpc_status *status, void *userdata)
{
	struct session *session = userdata;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;

	(void)status;
	/* Numbers on the way may be left out; the end may not. */
	if (!progress->done && !session_has_room(session))
		return;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_SNAPSHOT_PROGRESS;
	message.snapshot_progress = (Bc__V1__SnapshotProgress *)progress;
	(void)session_send(session, &message);
}

static void session_send_events(struct session *session)
{
	const struct event *event;

	while (session_has_room(session) &&
	        (event = events_next(session->c->events, *session->event_seen, ""))) {
		Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
		struct event_message em;

		event_message_init(event, &em);
		message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_EVENT;
		message.event = &em.message;
		if (!session_send(session, &message))
			return;
		*session->event_seen = event->sequence;
	}
}

static void session_take_events_since(struct session *session, const Bc__V1__EventsSince *since)
{
	if (since->after_sequence >= *session->event_seen)
		return;
	*session->event_seen = since->after_sequence;
	session_send_events(session);
}

static void on_event(void *userdata)
{
	session_send_events(userdata);
}

/* --- consoles --- */

static struct tunnel *tunnel_find(struct session *session, const char *id)
{
	for (struct tunnel *tunnel = session->tunnels; tunnel; tunnel = tunnel->next)
		if (strcmp(tunnel->id, id) == 0)
			return tunnel;
	return NULL;
}

static void tunnel_free(struct tunnel *tunnel)
{
	struct tunnel **at = &tunnel->session->tunnels;

	while (*at != tunnel)
		at = &(*at)->next;
	*at = tunnel->next;
	tunnel->session->n_tunnels--;
	if (tunnel->console)
		console_close(tunnel->console);
	free(tunnel);
}

static void session_say_closed(struct session *session, const char *tunnel_id, const char *reason)
{
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__SessionConsoleOutput output = BC__V1__SESSION_CONSOLE_OUTPUT__INIT;

	output.tunnel_id = (char *)tunnel_id;
	output.closed = true;
	output.reason = (char *)reason;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_CONSOLE;
	message.console = &output;
	(void)session_send(session, &message);
}

static bool on_console_output(const Bc__V1__ConsoleOutput *output, void *userdata)
{
	struct tunnel *tunnel = userdata;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__SessionConsoleOutput out = BC__V1__SESSION_CONSOLE_OUTPUT__INIT;

	out.tunnel_id = tunnel->id;
	out.output = (Bc__V1__ConsoleOutput *)output;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_CONSOLE;
	message.console = &out;
	(void)session_send(tunnel->session, &message);
	return session_has_room(tunnel->session);
}

static void on_console_writable(void *userdata)
{
	(void)userdata; /* a session cannot stop one tunnel alone: what is too fast is closed */
}

static void on_console_end(const struct rpc_status *status, void *userdata)
{
	struct tunnel *tunnel = userdata;

	tunnel->console = NULL;
	session_say_closed(
	        tunnel->session, tunnel->id, status->code == GRPC_STATUS_OK ? "" : status->message);
	tunnel_free(tunnel);
}

static const struct console_handlers console_handlers = {
	.on_output = on_console_output,
	.on_writable = on_console_writable,
	.on_end = on_console_end,
};

static void session_open_tunnel(struct session *session, const Bc__V1__SessionConsoleInput *input)
{
	struct rpc_status status = { 0 };
	struct tunnel *tunnel;

	if (!input->input || input->input->input_case != BC__V1__CONSOLE_INPUT__INPUT_OPEN) {
		session_say_closed(
		        session, input->tunnel_id, "there is no such tunnel; the first input must be open");
		return;
	}
	if (session->n_tunnels == SESSION_TUNNELS_MAX || strlen(input->tunnel_id) >= TUNNEL_ID_MAX) {
		session_say_closed(
		        session, input->tunnel_id, "too many tunnels, or an id of more than 128 bytes");
		return;
	}
	tunnel = calloc(1, sizeof(*tunnel));
	if (!tunnel) {
		session_say_closed(session, input->tunnel_id, "out of memory");
		return;
	}
	tunnel->session = session;
	strcpy(tunnel->id, input->tunnel_id);
	if (console_open(session->c, input->input->open, &console_handlers, tunnel, &tunnel->console,
	            &status) < 0) {
		session_say_closed(session, tunnel->id, status.message);
		free(tunnel);
		return;
	}
	tunnel->next = session->tunnels;
	session->tunnels = tunnel;
	session->n_tunnels++;
}

static void session_take_console(struct session *session, const Bc__V1__SessionConsoleInput *input)
{
	struct tunnel *tunnel = tunnel_find(session, input->tunnel_id);

	if (!tunnel) {
		if (!input->close)
			session_open_tunnel(session, input);
		return;
	}
	if (input->close) {
		tunnel_free(tunnel);
		return;
	}
	if (!input->input || console_input(tunnel->console, input->input) == 0)
		return;
	session_say_closed(session, tunnel->id, "input comes faster than the guest reads it");
	tunnel_free(tunnel);
}

/* --- coming in --- */

static void on_applied(int r, const char *text, const Bc__V1__ApplyReply *reply, void *userdata)
{
	struct session_spec *spec = userdata;
	struct session *session = spec->session;
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__SpecResult result = BC__V1__SPEC_RESULT__INIT;

	(void)reply;
	result.revision = spec->revision;
	result.accepted = r == 0;
	result.error = (char *)text;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_SPEC_RESULT;
	message.spec_result = &result;
	if (session) {
		session->spec = NULL;
		(void)session_send(session, &message);
		session->transport.read(session->userdata);
	}
	free(spec);
}

/* The next message is read once this one is answered: specs are taken in order. */
static void session_take_spec(struct session *session, const Bc__V1__NodeSpec *message)
{
	size_t size = bc__v1__node_spec__get_packed_size(message);
	struct session_spec *spec = malloc(sizeof(*spec) + size);

	if (!spec) {
		session->transport.fail(GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory", session->userdata);
		return;
	}
	*spec = (struct session_spec){ .session = session, .revision = message->revision };
	session->spec = spec;
	apply_submit(session->c,
	        &(struct spec_bytes){ .data = spec->data,
	                .size = bc__v1__node_spec__pack(message, spec->data),
	                .form = SPEC_NODE },
	        on_applied, spec);
}

static void session_take_secret(struct session *session, Bc__V1__SecretResponse *response)
{
	(void)secrets_answer(session->c->secrets, response->request_id, response->value.data,
	        response->value.len, response->error);
	if (response->value.len)
		explicit_bzero(response->value.data, response->value.len);
}

static void session_take_snapshot(struct session *session, const Bc__V1__SnapshotCommand *command)
{
	Bc__V1__NodeMessage message = BC__V1__NODE_MESSAGE__INIT;
	Bc__V1__SnapshotProgress progress = BC__V1__SNAPSHOT_PROGRESS__INIT;
	struct rpc_status status = { 0 };

	if (snapshot_tasks_begin(session->c->snapshot_tasks, command, &status) == 0) {
		(void)snapshot_tasks_tell(session->c->snapshot_tasks, command->id, &session->snapshots);
		return;
	}
	progress.id = command->id;
	progress.done = true;
	progress.error = status.message;
	message.message_case = BC__V1__NODE_MESSAGE__MESSAGE_SNAPSHOT_PROGRESS;
	message.snapshot_progress = &progress;
	(void)session_send(session, &message);
}

static void on_drained(int r, const struct err *err, uint32_t n_running, void *userdata)
{
	struct converger *c = userdata;

	(void)n_running;
	if (r < 0)
		converger_event(c, EVENT_ERROR, "", "DrainFailed", "%s", err_text(err, r));
}

void session_receive(struct session *session, Bc__V1__ControlMessage *message)
{
	struct instance *instance;

	switch (message->message_case) {
	case BC__V1__CONTROL_MESSAGE__MESSAGE_NODE_SPEC:
		session_take_spec(session, message->node_spec);
		return;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE:
		session_take_secret(session, message->secret_response);
		break;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_SNAPSHOT:
		session_take_snapshot(session, message->snapshot);
		break;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_CONSOLE:
		session_take_console(session, message->console);
		break;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_RETRY:
		instance = converger_instance(session->c, message->retry->instance_id);
		if (instance)
			reconciler_retry(session->c, instance);
		break;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_DRAIN:
		drain_set(session->c, message->drain->drain, message->drain->stop_instances, on_drained,
		        session->c);
		break;
	case BC__V1__CONTROL_MESSAGE__MESSAGE_EVENTS_SINCE:
		session_take_events_since(session, message->events_since);
		break;
	default:
		break; /* a word of a later version */
	}
	if (!session->is_over)
		session->transport.read(session->userdata);
}

void session_writable(struct session *session)
{
	struct tunnel *next;

	secret_asker_resume(session->asker);
	session_send_events(session);
	for (struct tunnel *tunnel = session->tunnels; tunnel; tunnel = next) {
		next = tunnel->next;
		console_resume(tunnel->console);
	}
	status_stream_resume(session->statuses);
}

int session_new(struct converger *c, const struct session_transport *transport, void *userdata,
        uint64_t *event_seen, struct session **ret)
{
	struct session *session = calloc(1, sizeof(*session));
	int r;

	if (!session)
		return -ENOMEM;
	session->c = c;
	session->transport = *transport;
	session->userdata = userdata;
	session->event_seen = event_seen;
	session_say_hello(session);
	r = status_stream_new(c, "", &status_handlers, session, &session->statuses);
	if (r < 0) {
		free(session);
		return r;
	}
	session->asker = secret_asker_new(c->secrets, on_ask, session);
	if (!session->asker) {
		status_stream_free(session->statuses);
		free(session);
		return -ENOMEM;
	}
	session->events = (struct event_follower){ .on_event = on_event, .userdata = session };
	events_follow(c->events, &session->events);
	session->snapshots = (struct snapshot_follower){ .on_progress = on_snapshot, .userdata = session };
	snapshot_tasks_follow(c->snapshot_tasks, &session->snapshots);
	snapshot_tasks_tell_unheard(c->snapshot_tasks, &session->snapshots);
	session_send_events(session);
	*ret = session;
	return 0;
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	if (session->spec)
		session->spec->session = NULL;
	while (session->tunnels)
		tunnel_free(session->tunnels);
	snapshot_tasks_unfollow(session->c->snapshot_tasks, &session->snapshots);
	events_unfollow(session->c->events, &session->events);
	secret_asker_free(session->asker);
	status_stream_free(session->statuses);
	free(session);
	return NULL;
}
