#include "cli/status_stream.h"

#include <string.h>

#define RETRY_MIN_USEC UINT64_C(250000)
#define RETRY_MAX_USEC UINT64_C(5000000)

/* The request's userdata, which outlives the stream until the request has ended. */
struct attempt {
	struct status_stream *stream; /* weak; NULL when nobody listens any more */
};

struct status_stream {
	struct door *door; /* weak */
	char *instance_id; /* owned */
	struct status_stream_handlers handlers;
	struct rpc_request *request; /* weak */
	struct attempt *attempt;     /* owned by the request */
	sd_event_source *retry;      /* owned */
	struct rpc_backoff backoff;
	bool was_there; /* some attempt got an answer */
};

static void stream_open(struct status_stream *stream);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct status_stream *stream = userdata;

	(void)source;
	(void)usec;
	stream->retry = sd_event_source_disable_unref(stream->retry);
	stream_open(stream);
	return 0;
}

static void on_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	struct attempt *attempt = userdata;

	if (!attempt->stream)
		return;
	attempt->stream->was_there = true;
	rpc_backoff_reset(&attempt->stream->backoff);
	attempt->stream->handlers.on_delta(
	        (const Bc__V1__StatusDelta *)message, attempt->stream->handlers.userdata);
	rpc_request_read(request);
}

static bool is_final(const struct status_stream *stream, const struct rpc_status *status)
{
	if (status->code == GRPC_STATUS_OK || status->code == GRPC_STATUS_RESOURCE_EXHAUSTED)
		return false;
	return status->code != GRPC_STATUS_UNAVAILABLE || !stream->was_there;
}

static void on_end(const struct rpc_status *status, void *userdata)
{
	struct attempt *attempt = userdata;
	struct status_stream *stream = attempt->stream;

	free(attempt);
	if (!stream)
		return;
	stream->request = NULL;
	stream->attempt = NULL;
	if (is_final(stream, status)) {
		stream->handlers.on_end(status, stream->handlers.userdata);
		return;
	}
	if (stream->handlers.on_break)
		stream->handlers.on_break(status, stream->handlers.userdata);
	(void)sd_event_add_time_relative(loop_event(stream->door->cli->loop), &stream->retry, CLOCK_MONOTONIC,
	        rpc_backoff_next(&stream->backoff), 1000, on_retry, stream);
}

static void stream_open(struct status_stream *stream)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_message, .on_end = on_end };
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;

	stream->attempt = calloc(1, sizeof(*stream->attempt));
	if (!stream->attempt)
		abort(); /* a tool this short of memory has nothing better to do */
	stream->attempt->stream = stream;
	request.instance_id = stream->instance_id;
	stream->request = rpc_stream(stream->door->channel, DOOR_METHOD(Converger, watch_status),
	        &request.base, UINT64_MAX, &HANDLERS, stream->attempt);
	rpc_request_read(stream->request);
}

struct status_stream *status_stream_new(
        struct door *door, const char *instance_id, const struct status_stream_handlers *handlers)
{
	struct status_stream *stream = calloc(1, sizeof(*stream));
	char *id = strdup(instance_id);

	if (!stream || !id) {
		free(stream);
		free(id);
		(void)cli_fail(door->cli, EXIT_FAILED, "out of memory");
		return NULL;
	}
	stream->door = door;
	stream->instance_id = id;
	stream->handlers = *handlers;
	stream->backoff = (struct rpc_backoff){ .min_usec = RETRY_MIN_USEC, .max_usec = RETRY_MAX_USEC };
	stream_open(stream);
	return stream;
}

struct status_stream *status_stream_free(struct status_stream *stream)
{
	if (!stream)
		return NULL;
	if (stream->attempt)
		stream->attempt->stream = NULL;
	rpc_cancel(stream->request);
	sd_event_source_disable_unref(stream->retry);
	free(stream->instance_id);
	free(stream);
	return NULL;
}
