#include "cli/control_session.h"

#include "cli/instance_view.h"
#include "cli/progress.h"
#include "cli/secret_dir.h"
#include "cli/settle.h"

#include "bc/v1/converger.pb-c.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

struct session {
	struct door *door;           /* weak */
	Bc__V1__NodeSpec *spec;      /* weak */
	struct settle *settle;       /* owned; NULL: nothing is waited for */
	struct rpc_request *request; /* weak */
	int secrets_fd;              /* owned */
	bool accepted;
	bool over; /* we have what we came for */
	int code;
};

static void session_end(struct session *session, int code)
{
	session->over = true;
	session->code = code;
	rpc_request_close_send(session->request);
	rpc_cancel(session->request);
}

static void session_send(struct session *session, Bc__V1__ControlMessage__MessageCase kind, void *message)
{
	Bc__V1__ControlMessage envelope = BC__V1__CONTROL_MESSAGE__INIT;

	envelope.message_case = kind;
	envelope.node_spec = message; /* the members of a oneof share their place */
	if (rpc_request_send(session->request, &envelope.base) < 0 && !session->over) {
		(void)cli_fail(session->door->cli, EXIT_FAILED, "the converger does not take our messages");
		session_end(session, EXIT_FAILED);
	}
}

static void on_hello(struct session *session, const Bc__V1__Hello *hello)
{
	struct cli *cli = session->door->cli;

	if (session->spec->revision == 0)
		session->spec->revision = hello->accepted_revision + 1;
	(void)fprintf(cli->err, "Session with node %s (bcd %s, revision %llu); sending revision %llu.\n",
	        hello->node_id, hello->version, (unsigned long long)hello->accepted_revision,
	        (unsigned long long)session->spec->revision);
	session_send(session, BC__V1__CONTROL_MESSAGE__MESSAGE_NODE_SPEC, session->spec);
}

static void on_spec_result(struct session *session, const Bc__V1__SpecResult *result)
{
	struct cli *cli = session->door->cli;

	if (result->revision != session->spec->revision)
		return;
	if (!result->accepted) {
		session_end(session, cli_fail(cli, EXIT_CONFLICT, "the spec was refused: %s", result->error));
		return;
	}
	session->accepted = true;
	(void)fprintf(cli->out, "Revision %llu accepted.\n", (unsigned long long)result->revision);
	(void)fflush(cli->out);
}

static void status_print(struct session *session, const Bc__V1__InstanceStatus *status)
{
	struct cli *cli = session->door->cli;
	enum style style = instance_state_style(status->state);
	CLEANUP_FREE char *note = instance_note(status, time(NULL));
	CLEANUP_FREE char *safe = note ? style_safe(note) : NULL;
	char state[ENUM_TEXT_MAX];

	(void)fprintf(cli->out, "%.36s  %s%-9s%s  %s\n", status->id, style_begin(style, cli->color),
	        instance_state_text(status->state, state), style_end(style, cli->color), safe ? safe : "");
	(void)fflush(cli->out);
}

static void on_status(struct session *session, const Bc__V1__StatusDelta *delta)
{
	struct cli *cli = session->door->cli;

	if (cli_output_is_data(cli))
		(void)answer_print_next(cli, &delta->base);
	else
		for (size_t i = 0; i < delta->n_instances; i++)
			status_print(session, delta->instances[i]);
	if (!session->settle)
		return;
	settle_delta(session->settle, delta);
	if (!session->accepted)
		return;
	switch (settle_check(session->settle)) {
	case SETTLE_WAITS:
		return;
	case SETTLE_DONE:
		session_end(session, EXIT_OK);
		return;
	case SETTLE_FAILED:
		session_end(session, cli_fail(cli, EXIT_FAILED, "an instance failed"));
		return;
	}
}

/* Refs are no secrets, what they name is. */
static void on_secret_request(struct session *session, const Bc__V1__SecretRequest *request)
{
	CLEANUP(secret) struct secret *secret = NULL;
	Bc__V1__SecretResponse response = BC__V1__SECRET_RESPONSE__INIT;
	struct cli *cli = session->door->cli;
	struct err err = { 0 };
	int r = secret_dir_read(session->secrets_fd, request->ref, &secret, &err);

	response.request_id = request->request_id;
	if (r < 0) {
		response.error = (char *)(uintptr_t)err_text(&err, r);
		(void)cli_fail(cli, EXIT_OK, "%s", err_text(&err, r));
	} else {
		response.value.data = (uint8_t *)secret_data(secret);
		response.value.len = secret_size(secret);
		(void)fprintf(
		        cli->err, "Secret %s given for instance %s.\n", request->ref, request->instance_id);
	}
	session_send(session, BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE, &response);
}

static void on_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	struct session *session = userdata;
	const Bc__V1__NodeMessage *node = (const Bc__V1__NodeMessage *)message;

	if (session->over)
		return;
	switch (node->message_case) {
	case BC__V1__NODE_MESSAGE__MESSAGE_HELLO:
		on_hello(session, node->hello);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SPEC_RESULT:
		on_spec_result(session, node->spec_result);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_STATUS:
		on_status(session, node->status);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SECRET_REQUEST:
		on_secret_request(session, node->secret_request);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SNAPSHOT_PROGRESS:
	case BC__V1__NODE_MESSAGE__MESSAGE_CONSOLE:
	case BC__V1__NODE_MESSAGE__MESSAGE_EVENT:
	case BC__V1__NODE_MESSAGE__MESSAGE__NOT_SET:
	default:
		break; /* nothing we asked for */
	}
	rpc_request_read(request);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct session *session = userdata;

	if (!session->over)
		session->code = status->code == GRPC_STATUS_OK
		        ? cli_fail(session->door->cli, EXIT_ABSENT, "the converger ended the session")
		        : door_failed(session->door, status);
	loop_exit(session->door->cli->loop, 0);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	char text[256];

	(void)source;
	(void)usec;
	settle_text(session->settle, text, sizeof(text));
	session_end(session, cli_fail(session->door->cli, EXIT_TIMEOUT, "not reached in time: %s", text));
	return 0;
}

static int session_run(struct session *session, uint64_t wait_usec)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_message, .on_end = on_end };
	sd_event_source *timer = NULL;

	session->request = rpc_stream(session->door->channel, DOOR_METHOD(Converger, session), NULL,
	        UINT64_MAX, &HANDLERS, session);
	rpc_request_read(session->request);
	if (wait_usec)
		(void)sd_event_add_time_relative(loop_event(session->door->cli->loop), &timer,
		        CLOCK_MONOTONIC, wait_usec, 1000, on_late, session);
	(void)loop_run(session->door->cli->loop);
	sd_event_source_disable_unref(timer);
	return session->code;
}

int control_session_run(
        struct door *door, Bc__V1__NodeSpec *spec, const char *secrets_dir, uint64_t wait_usec)
{
	CLEANUP_CLOSE int secrets_fd = open(secrets_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(settle) struct settle *settle = wait_usec ? settle_new(spec, spec->revision) : NULL;
	struct session session = { .door = door, .spec = spec, .settle = settle, .secrets_fd = secrets_fd };

	if (secrets_fd < 0)
		return cli_fail(door->cli, EXIT_USAGE, "cannot open %s: %s", secrets_dir, strerror(errno));
	if (wait_usec && !settle)
		return cli_fail(door->cli, EXIT_FAILED, "out of memory");
	return session_run(&session, wait_usec);
}
