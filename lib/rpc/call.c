#include "lib/rpc/call.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "lib/rpc/intake.h"
#include "lib/rpc/wire_buffer.h"

#include <assert.h>
#include <errno.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <string.h>

/* Starts a batch that holds a reference until its tag comes. If gRPC refuses it, no tag will come. */
static bool batch_start(struct rpc_call *call, const grpc_op *ops, size_t n_ops, struct loop_tag *tag)
{
	if (grpc_call_start_batch(call->call, ops, n_ops, tag, NULL) != GRPC_CALL_OK)
		return false;
	call->n_batches++;
	rpc_call_ref(call);
	return true;
}

static void queue_drop(struct rpc_call *call)
{
	for (; call->n_queued > 0; call->n_queued--) {
		grpc_byte_buffer_destroy(call->queue[call->queue_first]);
		call->queue_first = (call->queue_first + 1) % RPC_STREAM_QUEUE_MAX;
	}
}

static void call_check_over(struct rpc_call *call)
{
	if (call->over || !call->closed || call->n_batches > 0)
		return;
	call->over = true;
	server_call_over(call->server, call);
	if (call->end_fn)
		call->end_fn(call, call->end_userdata);
	rpc_call_unref(call);
}

/* The end of every completion: the batch's reference goes, and perhaps the call. */
static void batch_end(struct rpc_call *call)
{
	call->n_batches--;
	call_check_over(call);
	rpc_call_unref(call);
}

static void close_op(struct rpc_call *call, grpc_op *op)
{
	*op = (grpc_op){ .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	op->data.recv_close_on_server.cancelled = &call->cancelled;
	call->close_armed = true;
}

static void call_answer(struct rpc_call *call, grpc_status_code code, const char *message)
{
	if (call->answered)
		return;
	call->answered = true;
	call->code = code;
	call->message = message[0] ? strdup(message) : NULL;
}

static void call_closed(struct rpc_call *call)
{
	call->closed = true;
	queue_drop(call);
	if (call->answered)
		return;
	/* the caller is gone or out of time: whatever the handler says from now on goes nowhere */
	call_answer(call, GRPC_STATUS_CANCELLED, "the caller gave up");
	if (call->cancel_fn)
		call->cancel_fn(call, call->cancel_userdata);
}

static void on_close(struct loop_tag *tag, bool ok)
{
	struct rpc_call *call = CONTAINER_OF(tag, struct rpc_call, on_close);

	(void)ok;
	call_closed(call);
	batch_end(call);
}

static void on_final(struct loop_tag *tag, bool ok)
{
	struct rpc_call *call = CONTAINER_OF(tag, struct rpc_call, on_final);

	(void)ok;
	if (!call->end_fn)
		server_quiet(call->server);
	if (!call->on_close.on_done) /* the close was part of this batch */
		call_closed(call);
	batch_end(call);
}

static void initial_op(struct rpc_call *call, grpc_op *ops, size_t *n)
{
	if (call->initial_sent)
		return;
	ops[(*n)++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
	call->initial_sent = true;
}

static void call_abandon(struct rpc_call *call)
{
	(void)grpc_call_cancel(call->call, NULL);
}

static void final_send(struct rpc_call *call)
{
	grpc_op ops[4];
	size_t n = 0;

	initial_op(call, ops, &n);
	if (call->answer) {
		ops[n] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
		ops[n++].data.send_message.send_message = call->answer;
	}
	call->details_slice = grpc_slice_from_copied_string(call->message ? call->message : "");
	ops[n] = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
	ops[n].data.send_status_from_server.status = call->code;
	ops[n++].data.send_status_from_server.status_details = call->message ? &call->details_slice : NULL;
	if (!call->close_armed)
		close_op(call, &ops[n++]);
	call->status_started = true;
	if (!batch_start(call, ops, n, &call->on_final))
		call_abandon(call);
}

static void on_sent(struct loop_tag *tag, bool ok);

static void message_send(struct rpc_call *call)
{
	grpc_op ops[2];
	size_t n = 0;

	call->in_flight = call->queue[call->queue_first];
	call->queue_first = (call->queue_first + 1) % RPC_STREAM_QUEUE_MAX;
	call->n_queued--;
	initial_op(call, ops, &n);
	ops[n] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
	ops[n++].data.send_message.send_message = call->in_flight;
	call->on_sent.on_done = on_sent;
	call->sending = true;
	if (!batch_start(call, ops, n, &call->on_sent)) {
		call->sending = false;
		call_abandon(call);
	}
}

static void close_arm(struct rpc_call *call)
{
	grpc_op ops[2];
	size_t n = 0;

	call->on_close.on_done = on_close;
	close_op(call, &ops[n++]);
	if (!batch_start(call, ops, n, &call->on_close))
		call_abandon(call);
	server_call_waits(call->server, call);
}

/* A caller of a stream may wait for the headers before it believes that the stream stands. */
static void initial_send(struct rpc_call *call)
{
	grpc_op op;
	size_t n = 0;

	initial_op(call, &op, &n);
	call->sending = true;
	call->on_sent.on_done = on_sent;
	if (!batch_start(call, &op, n, &call->on_sent)) {
		call->sending = false;
		call_abandon(call);
	}
}

/* The one place that decides what to start next. */
static void call_step(struct rpc_call *call)
{
	if (call->in_handler || call->closed)
		return;
	if (!call->answered && !call->close_armed)
		close_arm(call);
	if (call->sending)
		return;
	if (call->n_queued > 0)
		message_send(call);
	else if (call->answered && !call->status_started)
		final_send(call);
	else if (!call->answered && !call->initial_sent && call->method && call->method->server_streams)
		initial_send(call);
}

static void on_sent(struct loop_tag *tag, bool ok)
{
	struct rpc_call *call = CONTAINER_OF(tag, struct rpc_call, on_sent);

	bool was_message = call->in_flight != NULL;

	call->sending = false;
	if (call->in_flight)
		grpc_byte_buffer_destroy(call->in_flight);
	call->in_flight = NULL;
	if (!ok)
		queue_drop(call); /* the close tag follows */
	if (ok && was_message && call->n_queued == 0 && !call->answered && call->writable_fn)
		call->writable_fn(call, call->writable_userdata);
	else if (!call->end_fn)
		server_quiet(call->server);
	call_step(call);
	batch_end(call);
}

struct rpc_call *rpc_call_of(void *closure_data)
{
	return closure_data;
}

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
	return &call->peer;
}

const char *rpc_call_method(const struct rpc_call *call)
{
	return call->method ? call->method->name + 1 : "";
}

const void *rpc_call_bytes(const struct rpc_call *call, size_t *ret_size)
{
	*ret_size = GRPC_SLICE_LENGTH(call->bytes);
	return GRPC_SLICE_START_PTR(call->bytes);
}

void rpc_call_set_subject(struct rpc_call *call, const char *subject)
{
	(void)snprintf(call->subject, sizeof(call->subject), "%s", subject);
}

uint64_t call_deadline_usec(const struct rpc_call *call)
{
	if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0)
		return UINT64_MAX;
	gpr_timespec t = gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC);
	if (t.tv_sec < 0)
		return 0;
	return (uint64_t)t.tv_sec * USEC_PER_SEC + (uint64_t)t.tv_nsec / NSEC_PER_USEC;
}

uint64_t rpc_call_time_left_usec(const struct rpc_call *call)
{
	uint64_t deadline = call_deadline_usec(call);
	uint64_t now = clock_monotonic_usec();

	if (deadline == UINT64_MAX)
		return UINT64_MAX;
	return deadline > now ? deadline - now : 0;
}

void call_expire(struct rpc_call *call)
{
	call->expires_usec = UINT64_MAX;
	(void)grpc_call_cancel_with_status(
	        call->call, GRPC_STATUS_DEADLINE_EXCEEDED, "the deadline passed before the answer", NULL);
}

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
	call->refs++;
	return call;
}

static void call_free(struct rpc_call *call)
{
	if (call->request)
		protobuf_c_message_free_unpacked(call->request, NULL);
	grpc_slice_unref(call->bytes);
	if (call->payload)
		grpc_byte_buffer_destroy(call->payload);
	if (call->answer)
		grpc_byte_buffer_destroy(call->answer);
	if (call->in_flight)
		grpc_byte_buffer_destroy(call->in_flight);
	queue_drop(call);
	free(call->queue);
	free(call->message);
	if (call->status_started)
		grpc_slice_unref(call->details_slice);
	grpc_metadata_array_destroy(&call->metadata);
	if (!call->method)
		grpc_call_details_destroy(&call->details);
	if (call->call)
		grpc_call_unref(call->call);
	free(call);
}

struct rpc_call *rpc_call_unref(struct rpc_call *call)
{
	if (--call->refs > 0)
		return NULL;
	struct rpc_server *server = call->server;
	call_free(call);
	server_call_freed(server);
	return NULL;
}

void rpc_fail(struct rpc_call *call, grpc_status_code code, const char *fmt, ...)
{
	char text[RPC_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)utf8_mend(text);
	call_answer(call, code, text);
	call_step(call);
}

void rpc_fail_err(struct rpc_call *call, int r, const struct err *err)
{
	call_answer(call, rpc_code_from_errno(r), err_text(err, r));
	call_step(call);
}

void rpc_call_on_cancel(
        struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata)
{
	call->cancel_fn = fn;
	call->cancel_userdata = userdata;
}

bool rpc_call_is_cancelled(const struct rpc_call *call)
{
	return call->closed && call->cancelled;
}

#ifndef NDEBUG
/* A text that is no UTF-8 makes the whole answer unreadable to every client. Builds for tests look at each. */
static bool answer_is_sound(const ProtobufCMessageDescriptor *descriptor, grpc_byte_buffer *buffer)
{
	struct err err = { 0 };
	grpc_slice slice;
	int r = wire_buffer_bytes(buffer, &slice, &err);

	if (r < 0)
		return false;
	r = rpc_message_check(descriptor, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice), &err);
	grpc_slice_unref(slice);
	if (r == -EINVAL || r == -EBADMSG)
		(void)fprintf(stderr, "answer %s: %s\n", descriptor->name, err.text);
	return r != -EINVAL && r != -EBADMSG;
}
#endif

static grpc_byte_buffer *answer_pack(const ProtobufCMessage *message)
{
	grpc_byte_buffer *buffer = wire_buffer_pack(message);

	assert(answer_is_sound(message->descriptor, buffer));
	return buffer;
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	if (call->answered)
		return;
	call->answer = answer_pack(message);
	call_answer(call, GRPC_STATUS_OK, "");
	call_step(call);
}

int rpc_stream_send(struct rpc_call *call, const ProtobufCMessage *message)
{
	if (call->answered)
		return -ECANCELED;
	if (call->n_queued == RPC_STREAM_QUEUE_MAX)
		return -EAGAIN;
	if (!call->queue)
		call->queue = calloc(RPC_STREAM_QUEUE_MAX, sizeof(grpc_byte_buffer *));
	if (!call->queue)
		return -ENOMEM;
	call->queue[(call->queue_first + call->n_queued++) % RPC_STREAM_QUEUE_MAX] = answer_pack(message);
	call_step(call);
	return 0;
}

size_t rpc_stream_queued(const struct rpc_call *call)
{
	return call->n_queued;
}

void rpc_stream_on_writable(
        struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata)
{
	call->writable_fn = fn;
	call->writable_userdata = userdata;
}

void rpc_stream_on_message(struct rpc_call *call,
        void (*fn)(struct rpc_call *call, const ProtobufCMessage *message, void *userdata), void *userdata)
{
	call->message_fn = fn;
	call->message_userdata = userdata;
}

static void message_deliver(struct rpc_call *call)
{
	ProtobufCMessage *message = NULL;
	struct err err = { 0 };
	int r = 0;

	if (call->payload) {
		r = wire_buffer_parse(call->payload,
		        call->method->service->descriptor->methods[call->method->index].input, &message,
		        &err);
		grpc_byte_buffer_destroy(call->payload);
		call->payload = NULL;
	} else {
		call->half_closed = true;
	}
	if (r < 0)
		rpc_fail_err(call, r, &err);
	else if (call->message_fn)
		call->message_fn(call, message, call->message_userdata);
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

static void on_read(struct loop_tag *tag, bool ok)
{
	struct rpc_call *call = CONTAINER_OF(tag, struct rpc_call, on_read);

	call->reading = false;
	if (ok && !call->answered && !call->closed)
		message_deliver(call);
	batch_end(call);
}

void rpc_stream_read(struct rpc_call *call)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	if (call->reading || call->half_closed || call->answered || call->closed)
		return;
	if (call->payload)
		grpc_byte_buffer_destroy(call->payload);
	call->payload = NULL;
	op.data.recv_message.recv_message = &call->payload;
	call->on_read.on_done = on_read;
	call->reading = true;
	if (!batch_start(call, &op, 1, &call->on_read)) {
		call->reading = false;
		call_abandon(call);
	}
}

void rpc_stream_finish(struct rpc_call *call)
{
	call_answer(call, GRPC_STATUS_OK, "");
	call_step(call);
}

void rpc_call_on_end(struct rpc_call *call, void (*fn)(struct rpc_call *call, void *userdata), void *userdata)
{
	call->end_fn = fn;
	call->end_userdata = userdata;
}

/* What the generated code calls with a handler's reply: NULL would be a handler without an answer. */
static void on_reply(const ProtobufCMessage *message, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	if (!message)
		rpc_fail(call, GRPC_STATUS_INTERNAL, "%s gave no answer", rpc_call_method(call));
	else
		rpc_reply(call, message);
}

static void request_handle(struct rpc_call *call)
{
	const struct rpc_method_entry *m = call->method;
	struct err err = { 0 };

	if (!m->client_streams) {
		if (!call->payload) {
			rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "%s: no request was sent", m->name + 1);
			return;
		}
		int r = m->takes_bytes
		        ? wire_buffer_bytes(call->payload, &call->bytes, &err)
		        : wire_buffer_parse(call->payload, m->service->descriptor->methods[m->index].input,
		                  &call->request, &err);
		grpc_byte_buffer_destroy(call->payload);
		call->payload = NULL;
		if (r < 0) {
			rpc_fail_err(call, r, &err);
			return;
		}
	}
	m->service->invoke(m->service, m->index, call->request, on_reply, call);
}

void call_begin(struct rpc_call *call)
{
	rpc_call_ref(call); /* the handler may end the call under our feet */
	call->in_handler = true;
	if (!call->answered)
		request_handle(call);
	call->in_handler = false;
	call_step(call);
	rpc_call_unref(call);
}

struct rpc_call *call_new(struct rpc_server *server, const struct rpc_method_entry *method)
{
	struct rpc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->server = server;
	call->method = method;
	call->refs = 1;
	call->expires_usec = UINT64_MAX;
	call->on_final.on_done = on_final;
	grpc_metadata_array_init(&call->metadata);
	if (!method)
		grpc_call_details_init(&call->details);
	return call;
}

void call_discard(struct rpc_call *call)
{
	call_free(call);
}
