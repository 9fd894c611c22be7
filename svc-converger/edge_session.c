/* Session: the control plane's, on our socket. */
#include "svc-converger/edge_calls.h"
#include "svc-converger/session.h"

/* Messages waiting in a session before what can wait does; answers still find room behind them. */
enum { QUEUED_MAX = 16 };

struct session_call {
	struct long_call live;
	struct rpc_call *call;   /* weak: the call ends before this */
	struct session *session; /* owned */
	uint64_t event_seen;
};

static int session_call_send(const Bc__V1__NodeMessage *message, void *userdata)
{
	struct session_call *sc = userdata;
	int r = rpc_stream_send(sc->call, &message->base);

	if (r == -EAGAIN)
		rpc_fail(sc->call, GRPC_STATUS_ABORTED, "this session has fallen behind; begin anew");
	return r;
}

static bool session_call_has_room(void *userdata)
{
	struct session_call *sc = userdata;

	return rpc_stream_queued(sc->call) < QUEUED_MAX;
}

static void session_call_read(void *userdata)
{
	struct session_call *sc = userdata;

	rpc_stream_read(sc->call);
}

static void session_call_fail(grpc_status_code code, const char *message, void *userdata)
{
	struct session_call *sc = userdata;

	rpc_fail(sc->call, code, "%s", message);
}

static const struct session_transport session_call_transport = {
	.send = session_call_send,
	.has_room = session_call_has_room,
	.read = session_call_read,
	.fail = session_call_fail,
};

static void on_session_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct session_call *sc = userdata;

	if (message)
		session_receive(sc->session, (Bc__V1__ControlMessage *)message);
	else
		rpc_stream_finish(call); /* the control plane has nothing more to say */
}

static void on_session_writable(struct rpc_call *call, void *userdata)
{
	struct session_call *sc = userdata;

	(void)call;
	session_writable(sc->session);
}

static void on_session_end(struct rpc_call *call, void *userdata)
{
	struct session_call *sc = userdata;

	(void)call;
	long_call_end(&sc->live);
	session_free(sc->session);
	free(sc);
}

void edge__session(Bc__V1__Converger_Service *service, const Bc__V1__ControlMessage *request,
        Bc__V1__NodeMessage_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct converger *c = edge_converger(service);
	struct session_call *sc = calloc(1, sizeof(*sc));

	(void)request;
	(void)closure;
	if (!sc) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	sc->call = call;
	sc->event_seen = events_last(c->events); /* of what was before, the Events call tells */
	if (session_new(c, &session_call_transport, sc, &sc->event_seen, &sc->session) < 0) {
		free(sc);
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	rpc_stream_on_message(call, on_session_message, sc);
	rpc_stream_on_writable(call, on_session_writable, sc);
	rpc_call_on_end(call, on_session_end, sc);
	long_call_begin(edge_of(service), &sc->live, call);
	rpc_stream_read(call);
}
