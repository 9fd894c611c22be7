#include "cli/test/stand_in.h"

#include "lib/base/cleanup.h"
#include "lib/rpc/server.h"
#include "lib/text/proto_read.h"
#include "lib/text/proto_write.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/intelligence.pb-c.h"
#include "bc/v1/netd.pb-c.h"
#include "bc/v1/runtime.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SCRIPTS_MAX = 16, HEARD_MAX = 32, SERVERS = 4 };

struct heard {
	char method[64];
	char *text; /* owned */
	unsigned n_calls;
};

struct stand_in {
	struct loop *loop; /* weak */
	struct rpc_server *servers[SERVERS];
	size_t n_draining;
	Bc__V1__Converger_Service converger;
	Bc__V1__Netd_Service netd;
	Bc__V1__Runtime_Service runtime;
	Bc__V1__Intelligence_Service intelligence;
	struct script scripts[SCRIPTS_MAX];
	unsigned n_used[SCRIPTS_MAX];
	struct heard heard[HEARD_MAX];
};

static struct heard *heard_of(struct stand_in *s, const char *method)
{
	size_t i = 0;

	while (s->heard[i].method[0] && strcmp(s->heard[i].method, method) != 0)
		assert_true(++i < HEARD_MAX);
	(void)snprintf(s->heard[i].method, sizeof(s->heard[i].method), "%s", method);
	return &s->heard[i];
}

static void hear(struct stand_in *s, const char *method, const ProtobufCMessage *message)
{
	struct heard *heard = heard_of(s, method);

	free(TAKE_PTR(heard->text));
	assert_int_equal(proto_write_json(message, PROTO_WRITE_COMPACT, &heard->text), 0);
}

static const struct script *script_take(struct stand_in *s, const char *method)
{
	for (size_t i = 0; s->scripts[i].method; i++)
		if (strcmp(s->scripts[i].method, method) == 0 &&
		        (s->scripts[i].uses == 0 || s->n_used[i] < s->scripts[i].uses)) {
			s->n_used[i]++;
			return &s->scripts[i];
		}
	return NULL;
}

static ProtobufCMessage *reply_of(const ProtobufCMethodDescriptor *method, const char *yaml)
{
	CLEANUP_PROBLEMS struct problems problems = { 0 };
	ProtobufCMessage *message = NULL;

	if (proto_read(yaml, strlen(yaml), method->output, &message, &problems) < 0)
		fail_msg("%s: %s", method->name, problems.texts[0]);
	return message;
}

static const ProtobufCMethodDescriptor *method_of(
        const ProtobufCService *service, const struct rpc_call *call)
{
	const char *name = strrchr(rpc_call_method(call), '/') + 1;

	for (unsigned i = 0; i < service->descriptor->n_methods; i++)
		if (strcmp(service->descriptor->methods[i].name, name) == 0)
			return &service->descriptor->methods[i];
	return NULL;
}

struct echo {
	struct stand_in *s;
	char method[64];
};

static void echo_free(struct rpc_call *call, void *userdata)
{
	(void)call;
	free(userdata);
}

static void on_input(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct echo *echo = userdata;
	Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;
	const Bc__V1__ConsoleInput *input = (const Bc__V1__ConsoleInput *)message;

	if (!message) {
		rpc_stream_finish(call);
		return;
	}
	hear(echo->s, echo->method, message);
	if (input->input_case == BC__V1__CONSOLE_INPUT__INPUT_DATA) {
		output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA;
		output.data = input->data;
		assert_int_equal(rpc_stream_send(call, &output.base), 0);
	}
	rpc_stream_read(call);
}

/* The node's side of a session: one question for a secret, then all is well. */
static void on_control(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	static const char *const ANSWERS[] = {
		"specResult: {revision: '8', accepted: true}",
		("status: {synced: true, acceptedRevision: '8', instances: "
		 "[{id: 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11, state: PENDING, reason: WaitingForUserData}]}"),
		"secretRequest: {requestId: q1, instanceId: 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11, allocationId: a, ref: web}",
		"status: {acceptedRevision: '8', instances: [{id: 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11, state: RUNNING}]}",
	};
	struct echo *echo = userdata;
	const Bc__V1__ControlMessage *control = (const Bc__V1__ControlMessage *)message;
	bool is_spec = control && control->message_case == BC__V1__CONTROL_MESSAGE__MESSAGE_NODE_SPEC;
	bool is_secret = control && control->message_case == BC__V1__CONTROL_MESSAGE__MESSAGE_SECRET_RESPONSE;

	if (!message) {
		rpc_stream_finish(call);
		return;
	}
	hear(echo->s, echo->method, message);
	for (size_t i = is_spec ? 0 : is_secret ? 3 : 4; i < (is_spec ? 3u : 4u); i++) {
		ProtobufCMessage *reply = reply_of(method_of(&echo->s->converger.base, call), ANSWERS[i]);

		assert_int_equal(rpc_stream_send(call, reply), 0);
		protobuf_c_message_free_unpacked(reply, NULL);
	}
	rpc_stream_read(call);
}

static void replies_send(struct stand_in *s, const ProtobufCService *service, const struct script *script,
        struct rpc_call *call, bool streams)
{
	for (size_t i = 0; i < SCRIPT_REPLIES_MAX && script->replies[i]; i++) {
		ProtobufCMessage *reply = reply_of(method_of(service, call), script->replies[i]);

		if (streams)
			assert_int_equal(rpc_stream_send(call, reply), 0);
		else
			rpc_reply(call, reply);
		protobuf_c_message_free_unpacked(reply, NULL);
	}
	(void)s;
}

/* Every method comes here. req is NULL for those whose client streams. */
static void answer(struct stand_in *s, const ProtobufCService *service, const ProtobufCMessage *req,
        void *closure_data, bool streams)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	const char *method = rpc_call_method(call);
	const struct script *script = script_take(s, method);

	heard_of(s, method)->n_calls++;
	if (req)
		hear(s, method, req);
	if (!script) {
		rpc_fail(call, GRPC_STATUS_UNIMPLEMENTED, "no script for %s", method);
		return;
	}
	if (!req) {
		struct echo *echo = calloc(1, sizeof(*echo));

		assert_non_null(echo);
		echo->s = s;
		(void)snprintf(echo->method, sizeof(echo->method), "%s", method);
		rpc_call_on_end(call, echo_free, echo);
		rpc_stream_on_message(call, script->echo ? on_input : on_control, echo);
		rpc_stream_read(call);
	}
	replies_send(s, service, script, call, streams);
	if (script->code != GRPC_STATUS_OK)
		rpc_fail(call, script->code, "%s", script->text ? script->text : "");
	else if (streams && !script->hang && req)
		rpc_stream_finish(call);
}

#define METHOD(type, member, name, request, output, streams)                                                 \
	static void member##__##name(Bc__V1__##type##_Service *service, const Bc__V1__##request *req,        \
	        Bc__V1__##output##_Closure reply, void *closure_data)                                        \
	{                                                                                                    \
		(void)reply;                                                                                 \
		answer(CONTAINER_OF(service, struct stand_in, member), &service->base,                       \
		        req ? &req->base : NULL, closure_data, streams);                                     \
	}
#define CONVERGER(name, request, output, streams) METHOD(Converger, converger, name, request, output, streams)
#define NETD(name, request, output, streams) METHOD(Netd, netd, name, request, output, streams)
#define RUNTIME(name, request, output, streams) METHOD(Runtime, runtime, name, request, output, streams)
#define INTELLIGENCE(name, request, output, streams)                                                         \
	METHOD(Intelligence, intelligence, name, request, output, streams)

CONVERGER(apply, ApplyRequest, ApplyReply, false)
CONVERGER(get_node, GetNodeRequest, GetNodeReply, false)
CONVERGER(get_status, GetStatusRequest, NodeStatus, false)
CONVERGER(watch_status, WatchStatusRequest, StatusDelta, true)
CONVERGER(session, ControlMessage, NodeMessage, true)
CONVERGER(snapshot, SnapshotCommand, SnapshotProgress, true)
CONVERGER(console, ConsoleInput, ConsoleOutput, true)
CONVERGER(retry, RetryRequest, RetryReply, false)
CONVERGER(events, EventsRequest, Event, true)
CONVERGER(drain, DrainRequest, DrainReply, false)
NETD(hello, NetdHelloRequest, NetdHelloReply, false)
NETD(prepare_bridge, PrepareBridgeRequest, PreparedNic, false)
NETD(prepare_macvtap, PrepareMacvtapRequest, PreparedNic, false)
NETD(check, NicRef, PreparedNic, false)
NETD(remove, NicRef, RemoveReply, false)
NETD(remove_instance, RemoveInstanceRequest, RemoveReply, false)
NETD(remove_interface, RemoveInterfaceRequest, RemoveReply, false)
NETD(list, NetdListRequest, NetdListReply, false)
NETD(watch, NetdWatchRequest, NetdEvent, true)
NETD(set_policy, SetPolicyRequest, PreparedNic, false)
RUNTIME(describe, DescribeRequest, DescribeReply, false)
RUNTIME(ensure, EnsureRequest, EnsureReply, false)
RUNTIME(set_state, SetStateRequest, Domain, false)
RUNTIME(remove, RuntimeRemoveRequest, RuntimeRemoveReply, false)
RUNTIME(get, RuntimeGetRequest, Domain, false)
RUNTIME(list, RuntimeListRequest, RuntimeListReply, false)
RUNTIME(watch, RuntimeWatchRequest, DomainEvent, true)
RUNTIME(snapshot, RuntimeSnapshotRequest, RuntimeSnapshotEvent, true)
RUNTIME(console, ConsoleInput, ConsoleOutput, true)
RUNTIME(rebind, RebindRequest, RebindReply, false)
RUNTIME(grow_volume, GrowVolumeRequest, GrowVolumeReply, false)
RUNTIME(get_balloon, BalloonRequest, BalloonReply, false)
RUNTIME(set_balloon, SetBalloonRequest, BalloonReply, false)
INTELLIGENCE(status, IntelligenceStatusRequest, IntelligenceStatus, false)
INTELLIGENCE(register, RegisterRequest, RegisterReply, false)
INTELLIGENCE(unregister, UnregisterRequest, UnregisterReply, false)
INTELLIGENCE(list_vms, ListVmsRequest, ListVmsReply, false)
INTELLIGENCE(get_vm, GetVmRequest, VmTelemetry, false)
INTELLIGENCE(watch, IntelligenceWatchRequest, VmTelemetry, true)
INTELLIGENCE(trace, TraceRequest, TraceEvent, true)

static struct rpc_server *serve(
        struct stand_in *s, const char *dir, const char *name, ProtobufCService *service)
{
	struct rpc_server *server = NULL;
	char path[108];
	struct err err = { 0 };

	(void)snprintf(path, sizeof(path), "%s/%s.sock", dir, name);
	const struct rpc_server_options options = { .path = path, .listen_fd = -EBADF };

	if (rpc_server_new(s->loop, &options, &server, &err) < 0 || rpc_server_add(server, service) < 0 ||
	        rpc_server_start(server, &err) < 0)
		fail_msg("%s: %s", path, err.text);
	return server;
}

struct stand_in *stand_in_new(struct loop *loop, const char *dir)
{
	struct stand_in *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->loop = loop;
	s->converger = (Bc__V1__Converger_Service)BC__V1__CONVERGER__INIT(converger__);
	s->netd = (Bc__V1__Netd_Service)BC__V1__NETD__INIT(netd__);
	s->runtime = (Bc__V1__Runtime_Service)BC__V1__RUNTIME__INIT(runtime__);
	s->intelligence = (Bc__V1__Intelligence_Service)BC__V1__INTELLIGENCE__INIT(intelligence__);
	s->servers[0] = serve(s, dir, "converger", &s->converger.base);
	s->servers[1] = serve(s, dir, "netd", &s->netd.base);
	s->servers[2] = serve(s, dir, "runtime-fake", &s->runtime.base);
	s->servers[3] = serve(s, dir, "intelligence", &s->intelligence.base);
	return s;
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	struct stand_in *s = userdata;

	(void)server;
	if (--s->n_draining == 0)
		loop_exit(s->loop, 0);
}

struct stand_in *stand_in_free(struct stand_in *s)
{
	s->n_draining = SERVERS;
	for (size_t i = 0; i < SERVERS; i++)
		rpc_server_drain(s->servers[i], 0, on_drained, s);
	(void)loop_run(s->loop);
	for (size_t i = 0; i < SERVERS; i++)
		(void)rpc_server_free(s->servers[i]);
	for (size_t i = 0; i < HEARD_MAX; i++)
		free(s->heard[i].text);
	free(s);
	return NULL;
}

void stand_in_play(struct stand_in *s, const struct script *scripts)
{
	memset(s->scripts, 0, sizeof(s->scripts));
	memset(s->n_used, 0, sizeof(s->n_used));
	for (size_t i = 0; scripts[i].method; i++) {
		assert_true(i + 1 < SCRIPTS_MAX);
		s->scripts[i] = scripts[i];
	}
	for (size_t i = 0; i < HEARD_MAX; i++) {
		free(s->heard[i].text);
		s->heard[i] = (struct heard){ 0 };
	}
}

const char *stand_in_heard(const struct stand_in *s, const char *method)
{
	const struct heard *heard = heard_of((struct stand_in *)(uintptr_t)s, method);

	return heard->text ? heard->text : "";
}

unsigned stand_in_calls(const struct stand_in *s, const char *method)
{
	return heard_of((struct stand_in *)(uintptr_t)s, method)->n_calls;
}
