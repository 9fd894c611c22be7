#include "lib/rpc/client.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "lib/rpc/channel_arg.h"
#include "lib/rpc/deadline_timer.h"
#include "lib/rpc/intake.h"
#include "lib/rpc/message.h"
#include "lib/rpc/wire_buffer.h"

#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	QUEUE_MAX = 64,
	METHOD_NAME_MAX = 128,
	METHODS_MAX = 64, /* of all services that one channel calls */
};

/* gRPC's own name for a method on one connection: made once, so that a call copies no strings. */
struct method_handle {
	struct rpc_method method;
	void *handle; /* weak; the grpc_channel's */
};

/* One connection of a channel. A channel gets a new one when the old broke; the old one lives until its last request
 * has ended. */
struct connection {
	struct rpc_channel *channel; /* weak */
	grpc_channel *grpc;          /* owned */
	int watch_fd; /* owned; a duplicate that tells whether the peer hung up; -EBADF for TLS */
	size_t n_requests;
	bool retired;
	bool answered; /* at least one call */
	size_t n_handles;
	struct method_handle handles[METHODS_MAX];
};

struct rpc_channel {
	struct loop *loop; /* weak */
	struct sockaddr_un address;
	char *target;                          /* owned; host:port, NULL for a Unix socket */
	grpc_channel_credentials *credentials; /* owned; with target */
	int ping_msec;                         /* with target */
	struct connection *current;            /* owned; NULL before the first call and after a break */
	struct rpc_request *requests;          /* all in flight */
	bool closing;
	size_t n_requests;
	struct deadline_timer deadlines;
};

/* What only a stream has. */
struct stream {
	struct rpc_request *request; /* weak */
	struct rpc_stream_handlers handlers;
	bool sending, reading, close_wanted, close_sent;
	grpc_byte_buffer *queue[QUEUE_MAX]; /* a ring; owned */
	size_t queue_first, n_queued;
	struct loop_tag on_start, on_sent, on_read;
};

struct rpc_request {
	struct rpc_channel *channel;         /* weak */
	struct connection *connection;       /* weak; NULL when it could not be made */
	struct rpc_request *next, **at_next; /* in the channel's list */
	struct rpc_method method;
	grpc_call *call; /* owned */
	unsigned n_batches;
	bool ended;            /* the status is in */
	uint64_t expires_usec; /* CLOCK_MONOTONIC; UINT64_MAX: never, or done */
	rpc_reply_fn reply_fn; /* of a unary call */
	struct stream *stream; /* owned; NULL for a unary call */
	void *userdata;
	int connect_error;          /* why there is no connection; 0 when there is one */
	grpc_byte_buffer *out, *in; /* owned; in flight, received */
	grpc_metadata_array initial, trailing;
	grpc_slice details;
	grpc_status_code code;
	struct loop_tag on_status;
};

static struct connection *connection_free(struct connection *c)
{
	if (!c)
		return NULL;
	if (c->grpc)
		grpc_channel_destroy(c->grpc);
	if (c->watch_fd >= 0)
		(void)close(c->watch_fd);
	free(c);
	return NULL;
}

/* No new request goes over it; it is freed with its last one. */
static void connection_retire(struct connection *c)
{
	if (!c)
		return;
	c->retired = true;
	if (c->channel->current == c)
		c->channel->current = NULL;
	if (c->n_requests == 0)
		connection_free(c);
}

static bool connection_broken(const struct connection *c)
{
	struct pollfd p = { .fd = c->watch_fd, .events = POLLRDHUP };

	return c->watch_fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static int socket_connect(const struct sockaddr_un *address, int *ret_fd)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* a local connect ends at once: EAGAIN is a full backlog, that is a busy service */
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int unix_open(const struct rpc_channel *channel, struct connection *c)
{
	CLEANUP_CLOSE int fd = -EBADF;
	grpc_arg args[] = {
		channel_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0),
		channel_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0),
		channel_arg_int(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0),
		channel_arg_int(GRPC_ARG_ENABLE_RETRIES, 0),
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
		/* ours watches them (channel->deadlines); the server still hears of each */
		channel_arg_int(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0),
		channel_arg_string(GRPC_ARG_DEFAULT_AUTHORITY, "localhost"),
	};
	grpc_channel_args channel_args = { ARRAY_SIZE(args), args };

	int r = socket_connect(&channel->address, &fd);
	if (r < 0)
		return r;
	c->watch_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (c->watch_fd < 0)
		return -errno;
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	c->grpc = grpc_channel_create_from_fd("unix", TAKE_FD(fd), credentials, &channel_args);
	grpc_channel_credentials_release(credentials);
	return 0;
}

/* What the other side allows is not known here: grpc-go and grpc-java, as they come, throw out who pings a silent stream
 * more often than this. */
_Static_assert(RPC_PING_MSEC > 5 * 60 * 1000, "no peer takes it for an attack");

static int tls_open(const struct rpc_channel *channel, struct connection *c)
{
	grpc_arg args[] = {
		channel_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_ENABLE_RETRIES, 0),
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
		/* A control plane that vanished behind a router must be noticed: at once by what is sent and not
		 * acknowledged, else by these; also when nothing was sent since the last two. */
		channel_arg_int(GRPC_ARG_KEEPALIVE_TIME_MS, channel->ping_msec),
		channel_arg_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000),
		channel_arg_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
		/* a connection made anew starts afresh, not in the middle of gRPC's own backoff of up to two minutes */
		channel_arg_int(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
	};
	grpc_channel_args channel_args = { ARRAY_SIZE(args), args };

	c->grpc = grpc_channel_create(channel->target, channel->credentials, &channel_args);
	return c->grpc ? 0 : -EINVAL;
}

/* The connection for a new request. */
static int connection_get(struct rpc_channel *channel, struct connection **ret)
{
	struct connection *c = channel->current;

	/* with calls under way gRPC looks at the connection itself */
	if (c && c->n_requests == 0 && connection_broken(c))
		connection_retire(c);
	if (!channel->current) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return -ENOMEM;
		c->channel = channel;
		c->watch_fd = -EBADF;
		int r = channel->target ? tls_open(channel, c) : unix_open(channel, c);
		if (r < 0) {
			connection_free(c);
			return r;
		}
		channel->current = c;
	}
	*ret = channel->current;
	return 0;
}

static void *method_handle_get(struct connection *c, struct rpc_method method)
{
	char name[METHOD_NAME_MAX];

	for (size_t i = 0; i < c->n_handles; i++)
		if (c->handles[i].method.service == method.service &&
		        c->handles[i].method.index == method.index)
			return c->handles[i].handle;
	(void)snprintf(name, sizeof(name), "/%s/%s", method.service->name,
	        method.service->methods[method.index].name);
	void *handle = grpc_channel_register_call(c->grpc, name, NULL, NULL);
	if (c->n_handles < METHODS_MAX) /* gRPC itself knows it again, only more slowly */
		c->handles[c->n_handles++] = (struct method_handle){ method, handle };
	return handle;
}

static uint64_t requests_expire(uint64_t now_usec, void *userdata)
{
	struct rpc_channel *channel = userdata;
	uint64_t next = UINT64_MAX;

	for (struct rpc_request *q = channel->requests; q; q = q->next) {
		if (q->expires_usec <= now_usec) {
			q->expires_usec = UINT64_MAX;
			(void)grpc_call_cancel_with_status(q->call, GRPC_STATUS_DEADLINE_EXCEEDED,
			        "the answer did not come in time", NULL);
		}
		if (q->expires_usec < next)
			next = q->expires_usec;
	}
	return next;
}

static void channel_destroy(struct rpc_channel *channel)
{
	deadline_timer_done(&channel->deadlines);
	connection_free(channel->current);
	if (channel->credentials)
		grpc_channel_credentials_release(channel->credentials);
	free(channel->target);
	free(channel);
}

static struct rpc_channel *channel_new(struct loop *loop)
{
	struct rpc_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->loop = loop;
	deadline_timer_init(&channel->deadlines, loop_event(loop), requests_expire, channel);
	return channel;
}

int rpc_channel_new_unix(struct loop *loop, const char *path, struct rpc_channel **ret)
{
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return -ENAMETOOLONG;
	struct rpc_channel *channel = channel_new(loop);
	if (!channel)
		return -ENOMEM;
	channel->address.sun_family = AF_UNIX;
	memcpy(channel->address.sun_path, path, n + 1);
	*ret = channel;
	return 0;
}

int rpc_channel_new_tls(struct loop *loop, const char *target, const struct rpc_tls *tls,
        struct rpc_channel **ret, struct err *err)
{
	grpc_ssl_pem_key_cert_pair pair = { tls->key_pem, tls->cert_pem };
	struct rpc_channel *channel = channel_new(loop);

	if (!channel)
		return -ENOMEM;
	channel->target = strdup(target);
	channel->ping_msec = tls->ping_usec ? (int)(tls->ping_usec / USEC_PER_MSEC) : RPC_PING_MSEC;
	channel->credentials =
	        grpc_ssl_credentials_create(tls->ca_pem, tls->cert_pem ? &pair : NULL, NULL, NULL);
	if (!channel->target || !channel->credentials) {
		channel_destroy(channel);
		return err_set(err, -EINVAL, "the TLS certificates for '%s' cannot be used: PEM is expected",
		        target);
	}
	*ret = channel;
	return 0;
}

static void channel_check_closed(struct rpc_channel *channel)
{
	if (channel->closing && channel->n_requests == 0)
		channel_destroy(channel);
}

struct rpc_channel *rpc_channel_free(struct rpc_channel *channel)
{
	if (!channel)
		return NULL;
	channel->closing = true;
	for (struct rpc_request *q = channel->requests; q; q = q->next)
		if (q->call)
			(void)grpc_call_cancel(q->call, NULL);
	channel_check_closed(channel); /* else with the last request, whose callback still runs */
	return NULL;
}

static void stream_free(struct stream *s)
{
	if (!s)
		return;
	for (; s->n_queued > 0; s->n_queued--) {
		grpc_byte_buffer_destroy(s->queue[s->queue_first]);
		s->queue_first = (s->queue_first + 1) % QUEUE_MAX;
	}
	free(s);
}

static void request_free(struct rpc_request *q)
{
	struct rpc_channel *channel = q->channel;
	struct connection *c = q->connection;

	*q->at_next = q->next;
	if (q->next)
		q->next->at_next = q->at_next;
	if (q->out)
		grpc_byte_buffer_destroy(q->out);
	if (q->in)
		grpc_byte_buffer_destroy(q->in);
	stream_free(q->stream);
	grpc_metadata_array_destroy(&q->initial);
	grpc_metadata_array_destroy(&q->trailing);
	grpc_slice_unref(q->details);
	if (q->call)
		grpc_call_unref(q->call);
	free(q);
	if (c && --c->n_requests == 0 && c->retired)
		connection_free(c);
	channel->n_requests--;
	channel_check_closed(channel);
}

static const ProtobufCMethodDescriptor *method_descriptor(const struct rpc_request *q)
{
	return &q->method.service->methods[q->method.index];
}

/* The words for a connection that could not be made. */
static void status_of_connect(const struct rpc_request *q, struct rpc_status *ret)
{
	int r = q->connect_error;

	ret->errno_hint = r;
	ret->code = r == -EACCES || r == -EPERM ? GRPC_STATUS_PERMISSION_DENIED : GRPC_STATUS_UNAVAILABLE;
	(void)snprintf(ret->message, sizeof(ret->message), "%s: %s",
	        q->channel->target ? q->channel->target : q->channel->address.sun_path,
	        r == -ENOENT                 ? "no such socket: the service is not running"
	                : r == -ECONNREFUSED ? "nobody listens: the service is not running"
	                : r == -EACCES       ? "the service is there, but its socket refuses this user"
	                : r == -EAGAIN       ? "the service is busy: its connections queue up"
	                                     : strerror(-r));
}

/* A service closes without a byte whom it does not let in; gRPC only knows that the socket closed. */
static void status_of_silent_end(const struct rpc_request *q, struct rpc_status *ret)
{
	ret->errno_hint = -ECONNRESET;
	(void)snprintf(ret->message, sizeof(ret->message),
	        "%s: the service closed the connection without a word: uid %u is not among its allowed_uids, its "
	        "max_connections are taken, or it just ended",
	        q->channel->address.sun_path, (unsigned)geteuid());
}

static void status_take(struct rpc_request *q, struct rpc_status *ret)
{
	size_t n = GRPC_SLICE_LENGTH(q->details);

	if (q->connect_error < 0) {
		status_of_connect(q, ret);
		return;
	}
	ret->errno_hint = 0;
	ret->code = q->code;
	if (n >= sizeof(ret->message))
		n = sizeof(ret->message) - 1;
	memcpy(ret->message, GRPC_SLICE_START_PTR(q->details), n);
	ret->message[n] = '\0';
	(void)utf8_mend(
	        ret->message); /* whoever answers may write any bytes; they go into messages of ours */
	if (q->code != GRPC_STATUS_UNAVAILABLE)
		q->connection->answered = true;
	else if (!q->connection->answered && connection_broken(q->connection))
		status_of_silent_end(q, ret);
	/* broken, or about to end (a service that drains takes no new calls): the next call gets a new one */
	if (q->code == GRPC_STATUS_UNAVAILABLE && !q->connection->retired)
		connection_retire(q->connection);
}

/* A reply that cannot be read is the server's fault, and an error to the caller. */
static ProtobufCMessage *reply_take(struct rpc_request *q, struct rpc_status *status)
{
	ProtobufCMessage *message = NULL;
	struct err err;

	if (status->code != GRPC_STATUS_OK)
		return NULL;
	err.code = 0;
	err.text[0] = '\0';
	int r = q->in ? wire_buffer_parse(q->in, method_descriptor(q)->output, &message, &err)
	              : err_set(&err, -EBADMSG, "the call ended without a reply");
	if (r < 0) {
		status->code = GRPC_STATUS_INTERNAL;
		(void)snprintf(status->message, sizeof(status->message), "%s", err_text(&err, r));
	}
	return message;
}

/* The status is in and nothing is in flight: tell the caller, and go. */
static void request_check_over(struct rpc_request *q)
{
	struct rpc_status status;

	if (!q->ended || q->n_batches > 0)
		return;
	q->expires_usec = UINT64_MAX;
	status_take(q, &status);
	if (q->stream) {
		q->stream->handlers.on_end(&status, q->userdata);
	} else {
		ProtobufCMessage *reply = reply_take(q, &status);
		q->reply_fn(&status, reply, q->userdata);
		if (reply)
			protobuf_c_message_free_unpacked(reply, NULL);
	}
	request_free(q);
}

static bool batch_start(struct rpc_request *q, const grpc_op *ops, size_t n, struct loop_tag *tag)
{
	if (grpc_call_start_batch(q->call, ops, n, tag, NULL) != GRPC_CALL_OK)
		return false;
	q->n_batches++;
	return true;
}

static void on_status(struct loop_tag *tag, bool ok)
{
	struct rpc_request *q = CONTAINER_OF(tag, struct rpc_request, on_status);

	(void)ok;
	q->ended = true;
	q->n_batches--;
	request_check_over(q);
}

static void on_start(struct loop_tag *tag, bool ok)
{
	struct rpc_request *q = CONTAINER_OF(tag, struct stream, on_start)->request;

	(void)ok;
	q->n_batches--;
	request_check_over(q);
}

/* A request that never reached a connection ends like any other, from the loop. */
static void on_failed(struct loop_tag *tag, bool ok)
{
	struct rpc_request *q = CONTAINER_OF(tag, struct rpc_request, on_status);

	(void)ok;
	q->ended = true;
	request_check_over(q);
}

static void request_fail(struct rpc_request *q, int r)
{
	q->connect_error = r;
	q->expires_usec = UINT64_MAX;
	q->on_status.on_done = on_failed;
	loop_post(q->channel->loop, &q->on_status);
}

static gpr_timespec deadline_of(uint64_t timeout_usec)
{
	if (timeout_usec >= (uint64_t)INT64_MAX / 2)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	return gpr_time_add(
	        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros((int64_t)timeout_usec, GPR_TIMESPAN));
}

static struct rpc_request *request_new(struct rpc_channel *channel, struct rpc_method method, void *userdata)
{
	struct rpc_request *q = calloc(1, sizeof(*q));

	if (!q)
		abort(); /* no answer could be given; a service this short of memory restarts */
	q->channel = channel;
	q->method = method;
	q->userdata = userdata;
	q->details = grpc_empty_slice();
	q->expires_usec = UINT64_MAX;
	q->on_status.on_done = on_status;
	grpc_metadata_array_init(&q->initial);
	grpc_metadata_array_init(&q->trailing);
	q->at_next = &channel->requests;
	q->next = channel->requests;
	if (q->next)
		q->next->at_next = &q->next;
	channel->requests = q;
	channel->n_requests++;
	return q;
}

static int request_open(struct rpc_request *q, uint64_t timeout_usec)
{
	struct rpc_channel *channel = q->channel;
	int r = connection_get(channel, &q->connection);

	if (r < 0)
		return r;
	q->connection->n_requests++;
	q->call = grpc_channel_create_registered_call(q->connection->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
	        loop_queue(channel->loop), method_handle_get(q->connection, q->method),
	        deadline_of(timeout_usec), NULL);
	if (timeout_usec < (uint64_t)INT64_MAX / 2) {
		q->expires_usec = clock_monotonic_usec() + timeout_usec;
		deadline_timer_note(&channel->deadlines, q->expires_usec);
	}
	return 0;
}

static grpc_op status_op(struct rpc_request *q)
{
	grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };

	op.data.recv_status_on_client.trailing_metadata = &q->trailing;
	op.data.recv_status_on_client.status = &q->code;
	op.data.recv_status_on_client.status_details = &q->details;
	return op;
}

static grpc_op message_op(grpc_byte_buffer *message)
{
	grpc_op op = { .op = GRPC_OP_SEND_MESSAGE };

	op.data.send_message.send_message = message;
	return op;
}

static grpc_op receive_op(struct rpc_request *q)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &q->in;
	return op;
}

static grpc_op initial_receive_op(struct rpc_request *q)
{
	grpc_op op = { .op = GRPC_OP_RECV_INITIAL_METADATA };

	op.data.recv_initial_metadata.recv_initial_metadata = &q->initial;
	return op;
}

struct rpc_request *rpc_unary(struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, rpc_reply_fn fn, void *userdata)
{
	struct rpc_request *q = request_new(channel, method, userdata);
	int r = request_open(q, timeout_usec);

	q->reply_fn = fn;
	if (r == 0) {
		q->out = wire_buffer_pack(message);
		grpc_op ops[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, message_op(q->out),
			{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, initial_receive_op(q), receive_op(q),
			status_op(q) };
		r = batch_start(q, ops, ARRAY_SIZE(ops), &q->on_status) ? 0 : -ECONNRESET;
	}
	if (r < 0)
		request_fail(q, r);
	return q;
}

void rpc_cancel(struct rpc_request *request)
{
	if (request && request->call)
		(void)grpc_call_cancel(request->call, NULL);
}

struct rpc_request *rpc_stream(struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *first, uint64_t timeout_usec, const struct rpc_stream_handlers *handlers,
        void *userdata)
{
	struct rpc_request *q = request_new(channel, method, userdata);
	int r = request_open(q, timeout_usec);

	q->stream = calloc(1, sizeof(*q->stream));
	if (!q->stream)
		abort(); /* as in request_new() */
	q->stream->request = q;
	q->stream->handlers = *handlers;
	q->stream->on_start.on_done = on_start;
	if (r < 0) {
		request_fail(q, r);
		return q;
	}
	/* the start of the call, its headers and its end are three batches that end at three times; a batch without a
	 * start op of its own would not be flushed, so the headers go first */
	grpc_op start[3] = { { .op = GRPC_OP_SEND_INITIAL_METADATA } };
	size_t n = 1;
	if (first) {
		q->out = wire_buffer_pack(first);
		start[n++] = message_op(q->out);
		start[n++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
		q->stream->close_sent = true;
	}
	grpc_op end[] = { status_op(q), initial_receive_op(q) };
	if (!batch_start(q, start, n, &q->stream->on_start) ||
	        !batch_start(q, &end[1], 1, &q->stream->on_start) ||
	        !batch_start(q, &end[0], 1, &q->on_status))
		abort(); /* these ops are always allowed on a new call */
	return q;
}

static void on_read(struct loop_tag *tag, bool ok)
{
	struct stream *s = CONTAINER_OF(tag, struct stream, on_read);
	struct rpc_request *q = s->request;
	ProtobufCMessage *message = NULL;
	struct err err = { 0 };

	s->reading = false;
	grpc_byte_buffer *in = TAKE_PTR(q->in);
	if (ok && in) {
		if (wire_buffer_parse(in, method_descriptor(q)->output, &message, &err) < 0)
			(void)grpc_call_cancel_with_status(
			        q->call, GRPC_STATUS_INTERNAL, err_text(&err, -EBADMSG), NULL);
		else
			s->handlers.on_message(q, message, q->userdata);
	}
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	if (in)
		grpc_byte_buffer_destroy(in);
	q->n_batches--;
	request_check_over(q);
}

void rpc_request_read(struct rpc_request *request)
{
	struct stream *s = request->stream;
	grpc_op op;

	if (s->reading || request->ended || !request->call)
		return;
	op = receive_op(request);
	s->on_read.on_done = on_read;
	s->reading = batch_start(request, &op, 1, &s->on_read);
}

static void on_sent(struct loop_tag *tag, bool ok);

static void send_step(struct rpc_request *q)
{
	struct stream *s = q->stream;
	grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };

	if (s->sending || q->ended || s->close_sent)
		return;
	if (s->n_queued > 0) {
		if (q->out)
			grpc_byte_buffer_destroy(q->out);
		q->out = s->queue[s->queue_first];
		s->queue_first = (s->queue_first + 1) % QUEUE_MAX;
		s->n_queued--;
		op = message_op(q->out);
	} else if (s->close_wanted) {
		s->close_sent = true;
	} else {
		return;
	}
	s->on_sent.on_done = on_sent;
	s->sending = batch_start(q, &op, 1, &s->on_sent);
}

static void on_sent(struct loop_tag *tag, bool ok)
{
	struct stream *s = CONTAINER_OF(tag, struct stream, on_sent);
	struct rpc_request *q = s->request;

	s->sending = false;
	if (ok && s->n_queued == 0 && !s->close_wanted && !q->ended && s->handlers.on_writable)
		s->handlers.on_writable(q, q->userdata);
	else if (!q->ended)
		loop_keep_armed(q->channel->loop);
	send_step(q);
	q->n_batches--;
	request_check_over(q);
}

int rpc_request_send(struct rpc_request *request, const ProtobufCMessage *message)
{
	struct stream *s = request->stream;

	if (request->ended || s->close_wanted || !request->call)
		return -EPIPE;
	if (s->n_queued == QUEUE_MAX)
		return -EAGAIN;
	s->queue[(s->queue_first + s->n_queued++) % QUEUE_MAX] = wire_buffer_pack(message);
	send_step(request);
	return 0;
}

void rpc_request_close_send(struct rpc_request *request)
{
	request->stream->close_wanted = true;
	if (request->call)
		send_step(request);
}

uint64_t rpc_backoff_next(struct rpc_backoff *backoff)
{
	uint32_t random = 0;

	if (backoff->next_usec < backoff->min_usec)
		backoff->next_usec = backoff->min_usec;
	uint64_t base = backoff->next_usec;
	backoff->next_usec = base > backoff->max_usec / 2 ? backoff->max_usec : base * 2;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = UINT32_MAX / 2;
	/* 75 % to 125 % */
	return base - base / 4 + (uint64_t)((double)base / 2 * random / UINT32_MAX);
}

void rpc_backoff_reset(struct rpc_backoff *backoff)
{
	backoff->next_usec = 0;
}

struct sync_call {
	struct loop *loop;
	struct rpc_status *status;
	ProtobufCMessage *reply;
	bool done;
};

static void on_sync_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct sync_call *sync = userdata;

	sync->done = true;
	*sync->status = *status;
	/* the reply is the request's: a copy outlives it */
	sync->reply = reply ? message_copy(reply) : NULL;
	loop_exit(sync->loop, 0);
}

int rpc_call_sync(struct loop *loop, struct rpc_channel *channel, struct rpc_method method,
        const ProtobufCMessage *message, uint64_t timeout_usec, ProtobufCMessage **ret_reply,
        struct rpc_status *ret_status)
{
	struct sync_call sync = { loop, ret_status, NULL, false };

	struct rpc_request *request = rpc_unary(channel, method, message, timeout_usec, on_sync_reply, &sync);
	int r = loop_run(loop);
	/* Somebody else ended the loop: the answer must not come to a frame that is gone. */
	if (!sync.done)
		rpc_cancel(request);
	while (!sync.done && r >= 0)
		r = loop_run(loop);
	if (r < 0)
		return r;
	if (ret_status->code != GRPC_STATUS_OK)
		return rpc_errno_from_code(ret_status->code);
	if (!sync.reply)
		return -ENOMEM;
	*ret_reply = sync.reply;
	return 0;
}
