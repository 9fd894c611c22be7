#include "tests/property/plane.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "tests/harness/timeout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOARD_MAX = 4096, REOPEN_USEC = 20000 };

struct plane {
	struct set *set; /* weak */
	uint64_t seed;
	Bc__V1__InstanceStatus *board[BOARD_MAX]; /* owned */
	size_t n_board;
	struct rpc_request *watch, *session;                    /* weak */
	sd_event_source *reopen_watch, *reopen_session, *timer; /* owned */
	bool is_synced, is_closing, gives_secrets, waits_for_news;
	unsigned n_applies;   /* in flight */
	unsigned n_snapshots; /* calls in flight */
	bool has_session;     /* Hello was heard on it */
	void (*on_session)(void *userdata);
	void (*on_snapshot)(const Bc__V1__SnapshotProgress *progress, void *userdata);
	void *snapshots; /* weak */
	uint64_t accepted;
	char fault[512];
};

static struct rpc_channel *channel_of(const struct plane *plane)
{
	return plane->set->channels[SET_CONVERGER];
}

/* --- secrets --- */

/* Three times the same 48 bytes: whatever cuts or encodes it, one whole piece is left to be found. */
void plane_secret(const struct plane *plane, const char *ref, char ret[static PLANE_SECRET_SIZE + 1])
{
	char piece[49];

	(void)snprintf(piece, sizeof(piece), "TOPSECRET-%016" PRIx64 "-%-21.21s", plane->seed, ref);
	for (char *p = piece; *p; p++)
		if (*p == ' ')
			*p = '+';
	(void)snprintf(ret, PLANE_SECRET_SIZE + 1, "%s%s%s", piece, piece, piece);
}

static void secret_give(
        struct plane *plane, struct rpc_request *session, const Bc__V1__SecretRequest *request)
{
	Bc__V1__SecretResponse response = BC__V1__SECRET_RESPONSE__INIT;
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	char secret[PLANE_SECRET_SIZE + 1];

	plane_secret(plane, request->ref, secret);
	response.request_id = request->request_id;
	if (plane->gives_secrets)
		response.value = (ProtobufCBinaryData){ .data = (uint8_t *)secret, .len = PLANE_SECRET_SIZE };
	else
		response.error = (char *)(uintptr_t) "not now";
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE;
	message.secret_response = &response;
	(void)rpc_request_send(session, &message.base);
}

/* --- the session --- */

static void session_open(struct plane *plane);

static void hello_check(struct plane *plane, const Bc__V1__Hello *hello)
{
	if (hello->accepted_revision < plane->accepted)
		(void)snprintf(plane->fault, sizeof(plane->fault),
		        "the converger says that it last accepted revision %" PRIu64
		        ", but it acknowledged %" PRIu64,
		        hello->accepted_revision, plane->accepted);
}

static void on_session_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__NodeMessage *node = (const Bc__V1__NodeMessage *)message;
	struct plane *plane = userdata;

	switch (node->message_case) {
	case BC__V1__NODE_MESSAGE__MESSAGE_HELLO:
		hello_check(plane, node->hello);
		plane->has_session = true;
		if (plane->on_session)
			plane->on_session(plane->snapshots);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SECRET_REQUEST:
		secret_give(plane, request, node->secret_request);
		break;
	case BC__V1__NODE_MESSAGE__MESSAGE_SNAPSHOT_PROGRESS:
		if (plane->on_snapshot)
			plane->on_snapshot(node->snapshot_progress, plane->snapshots);
		break;
	default:
		break;
	}
	rpc_request_read(request);
}

static int on_reopen_session(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plane *plane = userdata;

	(void)source;
	(void)usec;
	session_open(plane);
	return 0;
}

static void reopen(struct plane *plane, sd_event_source **timer, sd_event_time_handler_t fn)
{
	*timer = sd_event_source_disable_unref(*timer);
	if (!plane->is_closing &&
	        sd_event_add_time_relative(
	                loop_event(plane->set->loop), timer, CLOCK_MONOTONIC, REOPEN_USEC, 1, fn, plane) < 0)
		set_die("no timer");
}

static void on_session_end(const struct rpc_status *status, void *userdata)
{
	struct plane *plane = userdata;

	(void)status;
	plane->session = NULL;
	plane->has_session = false;
	reopen(plane, &plane->reopen_session, on_reopen_session);
}

static void session_open(struct plane *plane)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_session_message,
		.on_end = on_session_end };

	plane->session =
	        rpc_stream(channel_of(plane), PLANE_CONVERGER(session), NULL, UINT64_MAX, &HANDLERS, plane);
	rpc_request_read(plane->session);
}

void plane_drop_session(struct plane *plane)
{
	rpc_cancel(plane->session);
}

void plane_give_secrets(struct plane *plane, bool gives)
{
	if (plane->gives_secrets == gives)
		return;
	plane->gives_secrets = gives;
	plane_drop_session(plane);
}

/* --- snapshots --- */

struct snapshot_call {
	struct plane *plane; /* weak */
	void (*on_progress)(const Bc__V1__SnapshotProgress *progress, void *userdata);
	void (*on_end)(const struct rpc_status *status, void *userdata);
	void *userdata; /* weak */
};

static void on_snapshot_message(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	const struct snapshot_call *call = userdata;

	call->on_progress((const Bc__V1__SnapshotProgress *)message, call->userdata);
	rpc_request_read(request);
}

static void on_snapshot_end(const struct rpc_status *status, void *userdata)
{
	CLEANUP_FREE struct snapshot_call *call = userdata;

	call->plane->n_snapshots--;
	call->on_end(status, call->userdata);
	if (call->plane->waits_for_news)
		loop_exit(call->plane->set->loop, 0);
}

void plane_snapshot(struct plane *plane, const Bc__V1__SnapshotCommand *command,
        void (*on_progress)(const Bc__V1__SnapshotProgress *progress, void *userdata),
        void (*on_end)(const struct rpc_status *status, void *userdata), void *userdata)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_snapshot_message,
		.on_end = on_snapshot_end };
	struct snapshot_call *call = malloc(sizeof(*call));

	if (!call)
		set_die("no memory");
	*call = (struct snapshot_call){
		.plane = plane, .on_progress = on_progress, .on_end = on_end, .userdata = userdata
	};
	plane->n_snapshots++;
	rpc_request_read(rpc_stream(
	        channel_of(plane), PLANE_CONVERGER(snapshot), &command->base, UINT64_MAX, &HANDLERS, call));
}

void plane_session_snapshot(struct plane *plane, const Bc__V1__SnapshotCommand *command)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;

	if (!plane->has_session)
		return;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_SNAPSHOT;
	message.snapshot = (Bc__V1__SnapshotCommand *)(uintptr_t)command;
	(void)rpc_request_send(plane->session, &message.base);
}

void plane_follow_snapshots(struct plane *plane, void (*on_session)(void *userdata),
        void (*on_progress)(const Bc__V1__SnapshotProgress *progress, void *userdata), void *userdata)
{
	plane->on_session = on_session;
	plane->on_snapshot = on_progress;
	plane->snapshots = userdata;
}

/* --- the watch --- */

static void watch_open(struct plane *plane);

static void board_clear(struct plane *plane)
{
	while (plane->n_board)
		bc__v1__instance_status__free_unpacked(plane->board[--plane->n_board], NULL);
	plane->is_synced = false;
}

static size_t board_find(const struct plane *plane, const char *id)
{
	size_t i = 0;

	while (i < plane->n_board && strcmp(plane->board[i]->id, id) != 0)
		i++;
	return i;
}

static void board_put(struct plane *plane, const Bc__V1__InstanceStatus *status)
{
	size_t at = board_find(plane, status->id), size = bc__v1__instance_status__get_packed_size(status);
	CLEANUP_FREE uint8_t *data = malloc(size + 1);

	if (at < plane->n_board) {
		bc__v1__instance_status__free_unpacked(plane->board[at], NULL);
		plane->board[at] = plane->board[--plane->n_board];
	}
	if (status->state == BC__V1__INSTANCE_STATUS__STATE__REMOVED)
		return;
	if (!data || plane->n_board == BOARD_MAX)
		set_die("too many instances on the board");
	plane->board[plane->n_board++] =
	        bc__v1__instance_status__unpack(NULL, bc__v1__instance_status__pack(status, data), data);
}

static void on_delta(struct rpc_request *request, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__StatusDelta *delta = (const Bc__V1__StatusDelta *)message;
	struct plane *plane = userdata;

	for (size_t i = 0; i < delta->n_instances; i++)
		board_put(plane, delta->instances[i]);
	plane->is_synced = plane->is_synced || delta->synced;
	rpc_request_read(request);
	if (plane->waits_for_news)
		loop_exit(plane->set->loop, 0);
}

static int on_reopen_watch(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	watch_open(userdata);
	return 0;
}

static void on_watch_end(const struct rpc_status *status, void *userdata)
{
	struct plane *plane = userdata;

	(void)status;
	plane->watch = NULL;
	board_clear(plane);
	reopen(plane, &plane->reopen_watch, on_reopen_watch);
}

static void watch_open(struct plane *plane)
{
	static const struct rpc_stream_handlers HANDLERS = { .on_message = on_delta, .on_end = on_watch_end };
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;

	plane->watch = rpc_stream(channel_of(plane), PLANE_CONVERGER(watch_status), &request.base, UINT64_MAX,
	        &HANDLERS, plane);
	rpc_request_read(plane->watch);
}

const Bc__V1__InstanceStatus *plane_status(const struct plane *plane, const char *id)
{
	size_t at = board_find(plane, id);

	return at < plane->n_board ? plane->board[at] : NULL;
}

const Bc__V1__InstanceStatus *plane_next(const struct plane *plane, size_t *cursor)
{
	return *cursor < plane->n_board ? plane->board[(*cursor)++] : NULL;
}

bool plane_is_synced(const struct plane *plane)
{
	return plane->is_synced;
}

/* --- specs --- */

struct sent {
	struct plane *plane; /* weak */
	uint64_t revision;
};

static void on_applied(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	CLEANUP_FREE struct sent *sent = userdata;
	struct plane *plane = sent->plane;

	(void)reply;
	plane->n_applies--;
	if (status->code == GRPC_STATUS_OK && sent->revision > plane->accepted)
		plane->accepted = sent->revision;
	/* All specs are good ones, in the order of their revisions. */
	if (status->code == GRPC_STATUS_INVALID_ARGUMENT || status->code == GRPC_STATUS_FAILED_PRECONDITION)
		(void)snprintf(plane->fault, sizeof(plane->fault), "revision %" PRIu64 " was refused: %.400s",
		        sent->revision, status->message);
	if (plane->waits_for_news)
		loop_exit(plane->set->loop, 0);
}

void plane_apply(struct plane *plane, const Bc__V1__NodeSpec *spec)
{
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	struct sent *sent = malloc(sizeof(*sent));

	if (!sent)
		set_die("no memory");
	*sent = (struct sent){ .plane = plane, .revision = spec->revision };
	request.spec = (Bc__V1__NodeSpec *)(uintptr_t)spec;
	plane->n_applies++;
	(void)rpc_unary(channel_of(plane), PLANE_CONVERGER(apply), &request.base,
	        test_timeout_usec(TEST_SERVICE_SEC), on_applied, sent);
}

bool plane_is_quiet(const struct plane *plane)
{
	return plane->n_applies == 0;
}

uint64_t plane_accepted(const struct plane *plane)
{
	return plane->accepted;
}

/* --- running --- */

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plane *plane = userdata;

	(void)source;
	(void)usec;
	loop_exit(plane->set->loop, 0);
	return 0;
}

void plane_run(struct plane *plane, uint64_t usec)
{
	if (sd_event_add_time_relative(loop_event(plane->set->loop), &plane->timer, CLOCK_MONOTONIC, usec, 1,
	            on_time, plane) < 0)
		set_die("no timer");
	(void)loop_run(plane->set->loop);
	plane->timer = sd_event_source_disable_unref(plane->timer);
}

void plane_wait(struct plane *plane, uint64_t usec)
{
	plane->waits_for_news = true;
	plane_run(plane, usec);
	plane->waits_for_news = false;
}

ProtobufCMessage *plane_call(struct plane *plane, enum set_service service, struct rpc_method method,
        const ProtobufCMessage *message, struct rpc_status *ret)
{
	ProtobufCMessage *reply = NULL;

	*ret = (struct rpc_status){ 0 };
	(void)rpc_call_sync(plane->set->loop, plane->set->channels[service], method, message,
	        test_timeout_usec(TEST_SERVICE_SEC), &reply, ret);
	return reply;
}

const char *plane_fault(const struct plane *plane)
{
	return plane->fault[0] ? plane->fault : NULL;
}

struct plane *plane_new(struct set *set, uint64_t seed)
{
	struct plane *plane = calloc(1, sizeof(*plane));

	if (!plane)
		set_die("no memory");
	plane->set = set;
	plane->seed = seed;
	plane->gives_secrets = true;
	watch_open(plane);
	session_open(plane);
	return plane;
}

struct plane *plane_free(struct plane *plane)
{
	plane->is_closing = true;
	rpc_cancel(plane->watch);
	rpc_cancel(plane->session);
	plane_follow_snapshots(plane, NULL, NULL, NULL);
	while (plane->watch || plane->session || plane->n_applies || plane->n_snapshots)
		plane_run(plane, 10 * USEC_PER_MSEC);
	plane->reopen_watch = sd_event_source_disable_unref(plane->reopen_watch);
	plane->reopen_session = sd_event_source_disable_unref(plane->reopen_session);
	board_clear(plane);
	free(plane);
	return NULL;
}
