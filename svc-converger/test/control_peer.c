#include "svc-converger/test/control_peer.h"

#include "lib/rpc/server.h"

#include <stdio.h>
#include <string.h>

static void take_hello(struct control_peer *peer, const Bc__V1__Hello *hello)
{
	peer->n_hellos++;
	peer->hello_revision = hello->accepted_revision;
	(void)snprintf(peer->node_id, sizeof(peer->node_id), "%s", hello->node_id);
	peer->features[0] = peer->drivers[0] = 0;
	for (size_t i = 0; i < hello->n_features; i++)
		(void)snprintf(peer->features + strlen(peer->features),
		        sizeof(peer->features) - strlen(peer->features), "%s ", hello->features[i]);
	for (size_t i = 0; i < hello->n_drivers; i++)
		(void)snprintf(peer->drivers + strlen(peer->drivers),
		        sizeof(peer->drivers) - strlen(peer->drivers), "%s:%s ", hello->drivers[i]->kind,
		        hello->drivers[i]->id);
}

static void take_delta(struct control_peer *peer, const Bc__V1__StatusDelta *delta)
{
	peer->n_deltas++;
	peer->is_synced = peer->is_synced || delta->synced;
	for (size_t i = 0; i < delta->n_instances; i++) {
		const Bc__V1__InstanceStatus *status = delta->instances[i];
		const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		        &bc__v1__instance_status__state__descriptor, (int)status->state);
		size_t at = 0;

		while (at < peer->n_statuses &&
		        strncmp(peer->statuses[at], status->id, strlen(status->id)) != 0)
			at++;
		if (at == peer->n_statuses && peer->n_statuses < 16)
			peer->n_statuses++;
		if (at < 16)
			(void)snprintf(peer->statuses[at], sizeof(peer->statuses[at]), "%s %s%s%s",
			        status->id, value ? value->name : "?", *status->reason ? "/" : "",
			        status->reason);
	}
}

static void take_console(struct control_peer *peer, const Bc__V1__SessionConsoleOutput *output)
{
	size_t n = strlen(peer->console);

	if (output->output && output->output->output_case == BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA)
		(void)snprintf(peer->console + n, sizeof(peer->console) - n, "%.*s",
		        (int)output->output->data.len, (const char *)output->output->data.data);
	peer->console_closed = peer->console_closed || output->closed;
	if (output->closed)
		(void)snprintf(peer->console_reason, sizeof(peer->console_reason), "%.200s", output->reason);
}

void control_peer_take(struct control_peer *peer, const Bc__V1__NodeMessage *message)
{
	peer->n_messages++;
	switch (message->message_case) {
	case BC__V1__NODE_MESSAGE__MESSAGE_HELLO:
		take_hello(peer, message->hello);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_STATUS:
		take_delta(peer, message->status);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SPEC_RESULT:
		peer->n_results++;
		peer->result_revision = message->spec_result->revision;
		peer->result_accepted = message->spec_result->accepted;
		(void)snprintf(peer->result_error, sizeof(peer->result_error), "%.500s",
		        message->spec_result->error);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SECRET_REQUEST:
		peer->n_secret_requests++;
		(void)snprintf(peer->secret_request, sizeof(peer->secret_request), "%s",
		        message->secret_request->request_id);
		(void)snprintf(
		        peer->secret_ref, sizeof(peer->secret_ref), "%s", message->secret_request->ref);
		(void)snprintf(peer->secret_allocation, sizeof(peer->secret_allocation), "%s",
		        message->secret_request->allocation_id);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_CONSOLE:
		take_console(peer, message->console);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SNAPSHOT_PROGRESS:
		if (!message->snapshot_progress->done)
			break;
		peer->n_snapshots_done++;
		(void)snprintf(peer->snapshot_error, sizeof(peer->snapshot_error), "%.200s",
		        message->snapshot_progress->error);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_EVENT:
		peer->n_events++;
		peer->event_last = message->event->sequence;
		break;
	default:
		break;
	}
}

static void on_message(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct control_peer *peer = userdata;

	control_peer_take(peer, (const Bc__V1__NodeMessage *)message);
	if (!peer->is_stalled)
		rpc_request_read(stream);
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct control_peer *peer = userdata;

	peer->is_ended = true;
	peer->ended_with = status->code;
	peer->request = NULL;
}

void control_peer_dial(struct control_peer *peer, struct rpc_channel *channel)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_message, .on_end = on_end };

	peer->is_ended = false;
	peer->request = rpc_stream(channel,
	        RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, session), NULL,
	        UINT64_MAX, &handlers, peer);
	rpc_request_read(peer->request);
}

void control_peer_hang_up(struct control_peer *peer)
{
	if (peer->request)
		rpc_cancel(peer->request);
	if (peer->call)
		rpc_fail(peer->call, GRPC_STATUS_UNAVAILABLE, "hung up");
}

void control_peer_send(struct control_peer *peer, const Bc__V1__ControlMessage *message)
{
	if (peer->request)
		(void)rpc_request_send(peer->request, &message->base);
	if (peer->call)
		(void)rpc_stream_send(peer->call, &message->base);
}

void control_peer_send_secret(struct control_peer *peer, const char *request_id, const char *value)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__SecretResponse response = BC__V1__SECRET_RESPONSE__INIT;

	response.request_id = (char *)request_id;
	response.value = (ProtobufCBinaryData){ .data = (uint8_t *)value, .len = strlen(value) };
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE;
	message.secret_response = &response;
	control_peer_send(peer, &message);
}

void control_peer_refuse_secret(struct control_peer *peer, const char *request_id, const char *error)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__SecretResponse response = BC__V1__SECRET_RESPONSE__INIT;

	response.request_id = (char *)request_id;
	response.error = (char *)error;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE;
	message.secret_response = &response;
	control_peer_send(peer, &message);
}

const char *control_peer_status(const struct control_peer *peer, const char *id)
{
	for (size_t i = 0; i < peer->n_statuses; i++)
		if (strncmp(peer->statuses[i], id, strlen(id)) == 0)
			return peer->statuses[i] + strlen(id) + 1;
	return "";
}
