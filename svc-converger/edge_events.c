/* Events: those that are kept, then each new one if wished. */
#include "svc-converger/edge_calls.h"
#include "svc-converger/event_message.h"

#include <stdio.h>

struct event_call {
	struct long_call live;
	struct rpc_call *call; /* weak */
	struct converger *c;   /* weak */
	struct event_follower follower;
	uint64_t seen;
	char instance_id[EVENT_ID_MAX];
	bool follows;
};

static int event_send(struct rpc_call *call, const struct event *event)
{
	struct event_message message;

	event_message_init(event, &message);
	return rpc_stream_send(call, &message.message.base);
}

static void event_call_run(struct event_call *ec)
{
	const struct event *event;

	while (rpc_stream_queued(ec->call) < RPC_STREAM_QUEUE_MAX / 2 &&
	        (event = events_next(ec->c->events, ec->seen, ec->instance_id))) {
		if (event_send(ec->call, event) < 0)
			return;
		ec->seen = event->sequence;
	}
	if (!ec->follows && !events_next(ec->c->events, ec->seen, ec->instance_id))
		rpc_stream_finish(ec->call);
}

static void on_event(void *userdata)
{
	event_call_run(userdata);
}

static void on_event_writable(struct rpc_call *call, void *userdata)
{
	(void)call;
	event_call_run(userdata);
}

static void on_event_end(struct rpc_call *call, void *userdata)
{
	struct event_call *ec = userdata;

	(void)call;
	long_call_end(&ec->live);
	events_unfollow(ec->c->events, &ec->follower);
	free(ec);
}

void edge__events(Bc__V1__Converger_Service *service, const Bc__V1__EventsRequest *request,
        Bc__V1__Event_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct event_call *ec = calloc(1, sizeof(*ec));

	(void)closure;
	if (!ec) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	ec->call = call;
	ec->c = edge_converger(service);
	ec->seen = request->after_sequence;
	ec->follows = request->follow;
	(void)snprintf(ec->instance_id, sizeof(ec->instance_id), "%s", request->instance_id);
	ec->follower = (struct event_follower){ .on_event = on_event, .userdata = ec };
	events_follow(ec->c->events, &ec->follower);
	rpc_stream_on_writable(call, on_event_writable, ec);
	rpc_call_on_end(call, on_event_end, ec);
	long_call_begin(edge_of(service), &ec->live, call);
	event_call_run(ec);
}
