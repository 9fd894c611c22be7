#include "lib/rpc/test/echo_service.h"

#include "lib/base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
__asm__(".section .rodata\n"
	".global echo_descriptor_set\n"
	"echo_descriptor_set: .incbin \"" BC_DESCRIPTOR_SET "\"\n"
	"echo_descriptor_set_end: .byte 0\n"
	".balign 8\n"
	".global echo_descriptor_set_size\n"
	"echo_descriptor_set_size: .quad echo_descriptor_set_end - echo_descriptor_set\n"
	".previous\n");
/* clang-format on */

typedef Bc__Test__EchoMessage echo_message;

static struct echo_service *echo_of(Bc__Test__Echo_Service *service)
{
	return CONTAINER_OF(service, struct echo_service, service);
}

static void on_cancel(struct rpc_call *call, void *userdata)
{
	(void)call;
	((struct echo_service *)userdata)->n_cancelled++;
}

static void on_end(struct rpc_call *call, void *userdata)
{
	(void)call;
	((struct echo_service *)userdata)->n_ended++;
}

static void echo__unary(Bc__Test__Echo_Service *service, const echo_message *req,
        Bc__Test__EchoMessage_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	rpc_call_on_cancel(call, on_cancel, echo_of(service));
	switch (req->behaviour) {
	case BC__TEST__ECHO_MESSAGE__BEHAVIOUR__FAIL:
		rpc_fail(call, (grpc_status_code)req->code, "%s", req->text);
		return;
	case BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG:
		echo_of(service)->n_hung++;
		return;
	default:
		reply(req, closure_data);
	}
}

struct down {
	struct echo_service *echo; /* weak */
	uint32_t sent, count;
	bool hang;
	ProtobufCBinaryData payload; /* owned; of each message */
};

static void down_fill(struct rpc_call *call, void *userdata)
{
	struct down *down = userdata;
	echo_message m = BC__TEST__ECHO_MESSAGE__INIT;

	while (down->sent < down->count) {
		m.count = down->sent;
		m.payload = down->payload;
		if (rpc_stream_send(call, &m.base) < 0)
			return; /* on_writable continues */
		down->sent++;
		down->echo->n_down++;
	}
	if (!down->hang)
		rpc_stream_finish(call);
}

static void down_end(struct rpc_call *call, void *userdata)
{
	struct down *down = userdata;

	on_end(call, down->echo);
	free(down->payload.data);
	free(down);
}

static void echo__down(Bc__Test__Echo_Service *service, const echo_message *req,
        Bc__Test__EchoMessage_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct down *down = calloc(1, sizeof(*down));

	(void)reply;
	if (!down)
		abort();
	*down = (struct down){ .echo = echo_of(service),
		.count = req->count,
		.hang = req->behaviour == BC__TEST__ECHO_MESSAGE__BEHAVIOUR__HANG };
	if (req->payload.len > 0) {
		down->payload = (ProtobufCBinaryData){ req->payload.len, malloc(req->payload.len) };
		if (!down->payload.data)
			abort();
		memcpy(down->payload.data, req->payload.data, req->payload.len);
	}
	rpc_call_on_cancel(call, on_cancel, echo_of(service));
	rpc_call_on_end(call, down_end, down);
	rpc_stream_on_writable(call, down_fill, down);
	down_fill(call, down);
}

struct up {
	uint32_t count;
};

static void up_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct up *up = userdata;
	echo_message m = BC__TEST__ECHO_MESSAGE__INIT;

	if (message) {
		up->count++;
		rpc_stream_read(call);
		return;
	}
	m.count = up->count;
	rpc_reply(call, &m.base);
}

static void up_end(struct rpc_call *call, void *userdata)
{
	(void)call;
	free(userdata);
}

static void echo__up(Bc__Test__Echo_Service *service, const echo_message *req,
        Bc__Test__EchoMessage_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct up *up = calloc(1, sizeof(*up));

	(void)req;
	(void)reply;
	(void)service;
	if (!up)
		abort();
	rpc_call_on_end(call, up_end, up);
	rpc_stream_on_message(call, up_message, up);
	rpc_stream_read(call);
}

static void both_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	(void)userdata;
	if (!message) {
		rpc_stream_finish(call);
		return;
	}
	/* reading goes on only while there is room: that is the flow control */
	if (rpc_stream_send(call, message) == 0 && rpc_stream_queued(call) < RPC_STREAM_QUEUE_MAX / 2)
		rpc_stream_read(call);
}

static void both_writable(struct rpc_call *call, void *userdata)
{
	(void)userdata;
	rpc_stream_read(call);
}

static void echo__both(Bc__Test__Echo_Service *service, const echo_message *req,
        Bc__Test__EchoMessage_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)req;
	(void)reply;
	rpc_call_on_cancel(call, on_cancel, echo_of(service));
	rpc_call_on_end(call, on_end, echo_of(service));
	rpc_stream_on_message(call, both_message, NULL);
	rpc_stream_on_writable(call, both_writable, NULL);
	rpc_stream_read(call);
}

void echo_service_init(struct echo_service *echo)
{
	*echo = (struct echo_service){ .service = BC__TEST__ECHO__INIT(echo__) };
}
