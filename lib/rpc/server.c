#include "lib/rpc/call.h"
#include "lib/rpc/channel_arg.h"
#include "lib/rpc/deadline_timer.h"
#include "lib/rpc/descriptor_pool.h"
#include "lib/rpc/health.h"
#include "lib/rpc/intake.h"
#include "lib/rpc/listener.h"
#include "lib/rpc/reflection.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "protos/descriptor_set.h"

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <string.h>

enum {
	SERVICES_MAX = 16,
	CALLS_MAX_DEFAULT = 4096,
	ARMED_PER_METHOD = 4, /* requests that gRPC can hand over before the loop comes round */
	ARMED_UNKNOWN = 4,
	/* peers may ping a silent stream this often without being thrown out */
	PING_INTERVAL_MIN_MS = 1000,
};

struct rpc_server {
	struct loop *loop;                              /* weak */
	struct listener *listener;                      /* owned */
	grpc_server *grpc;                              /* owned */
	struct descriptor_pool *pool;                   /* owned */
	struct health *health;                          /* owned */
	struct reflection *reflection;                  /* owned */
	struct rpc_method_entry *methods[SERVICES_MAX]; /* owned; an array per service */
	size_t n_methods[SERVICES_MAX];
	const char *service_names[SERVICES_MAX + 1]; /* weak; NULL ends it */
	size_t n_services;
	struct rpc_call *calls; /* live, not yet over */
	size_t n_live, n_armed, n_calls_max;
	bool started, draining, shut_down, drained;
	void (*on_call_end)(const struct rpc_call_record *record, void *userdata);
	void *userdata;
	struct loop_tag on_shutdown;
	struct deadline_timer deadlines; /* of live calls that were not answered at once */
	sd_event_source *grace;          /* owned */
	void (*on_drained)(struct rpc_server *server, void *userdata);
	void *drained_userdata;
};

static grpc_server *grpc_server_make(struct rpc_server *server)
{
	grpc_arg args[] = {
		channel_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, RPC_WIRE_MAX),
		channel_arg_int(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MIN_MS),
		channel_arg_int(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0),
		/* a local socket has no bandwidth to discover, and nobody reads channelz here */
		channel_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0),
		/* nor is compression worth its time; and what a compressed message becomes has no bound */
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
		channel_arg_int(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
		/* our own timer watches deadlines: gRPC's costs each call a timer, also those answered at once */
		channel_arg_int(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0),
		channel_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0),
		channel_arg_int(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0),
	};
	grpc_channel_args channel_args = { ARRAY_SIZE(args), args };
	grpc_server *grpc = grpc_server_create(&channel_args, NULL);

	if (grpc)
		grpc_server_register_completion_queue(grpc, loop_queue(server->loop), NULL);
	return grpc;
}

static uint64_t calls_expire(uint64_t now_usec, void *userdata)
{
	struct rpc_server *server = userdata;
	uint64_t next = UINT64_MAX;

	for (struct rpc_call *call = server->calls; call; call = call->next) {
		if (call->expires_usec <= now_usec)
			call_expire(call);
		if (call->expires_usec < next)
			next = call->expires_usec;
	}
	return next;
}

void server_call_waits(struct rpc_server *server, struct rpc_call *call)
{
	call->expires_usec = call_deadline_usec(call);
	deadline_timer_note(&server->deadlines, call->expires_usec);
}

void server_quiet(struct rpc_server *server)
{
	if (!server->draining)
		loop_keep_armed(server->loop);
}

static void on_shutdown(struct loop_tag *tag, bool ok);

int rpc_server_new(
        struct loop *loop, const struct rpc_server_options *options, struct rpc_server **ret, struct err *err)
{
	struct rpc_server *server = calloc(1, sizeof(*server));
	const unsigned char *set = options->descriptor_set ? options->descriptor_set : bc_descriptor_set;
	size_t n_set = options->descriptor_set ? options->n_descriptor_set : bc_descriptor_set_size;

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->n_calls_max = options->n_calls_max ? options->n_calls_max : CALLS_MAX_DEFAULT;
	server->on_call_end = options->on_call_end;
	server->userdata = options->userdata;
	server->on_shutdown.on_done = on_shutdown;
	deadline_timer_init(&server->deadlines, loop_event(loop), calls_expire, server);
	int r = listener_new(loop_event(loop), options, &server->listener, err);
	if (r == 0)
		r = descriptor_pool_new(set, n_set, &server->pool);
	if (r == 0) {
		server->grpc = grpc_server_make(server);
		r = server->grpc ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = health_new(&server->health);
	if (r == 0)
		r = reflection_new(server->pool, server->service_names, &server->reflection);
	if (r < 0) {
		rpc_server_free(server);
		return err_set(err, r, "cannot make a server: %s", strerror(-r));
	}
	*ret = server;
	return 0;
}

static const char *service_name(const ProtobufCService *service)
{
	return service->descriptor->name;
}

/* Registers the methods of a service; internal ones are not in the audit trail. */
static int service_add(struct rpc_server *server, ProtobufCService *service, bool internal)
{
	size_t n = service->descriptor->n_methods;
	struct method_streams streams[64];

	if (server->started || server->n_services == SERVICES_MAX || n == 0 || n > ARRAY_SIZE(streams))
		return -EINVAL;
	if (descriptor_pool_streams(server->pool, service->descriptor, service_name(service), streams,
	            ARRAY_SIZE(streams)) < 0)
		return -EINVAL;
	struct rpc_method_entry *methods = calloc(n, sizeof(*methods));
	if (!methods)
		return -ENOMEM;
	server->methods[server->n_services] = methods;
	server->n_methods[server->n_services] = n;
	server->service_names[server->n_services++] = service_name(service);
	for (size_t i = 0; i < n; i++) {
		struct rpc_method_entry *m = &methods[i];
		*m = (struct rpc_method_entry){ .server = server,
			.service = service,
			.index = (unsigned)i,
			.client_streams = streams[i].client,
			.server_streams = streams[i].server,
			.internal = internal };
		if (snprintf(m->name, sizeof(m->name), "/%s/%s", service_name(service),
		            service->descriptor->methods[i].name) >= (int)sizeof(m->name))
			return -ENAMETOOLONG;
		m->handle = grpc_server_register_method(server->grpc, m->name, NULL,
		        m->client_streams ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
		        0);
		if (!m->handle)
			return -EEXIST;
	}
	return 0;
}

int rpc_server_add(struct rpc_server *server, ProtobufCService *service)
{
	return service_add(server, service, false);
}

int rpc_server_take_bytes(struct rpc_server *server, const char *method)
{
	for (size_t s = 0; s < server->n_services; s++)
		for (size_t i = 0; i < server->n_methods[s]; i++) {
			struct rpc_method_entry *m = &server->methods[s][i];

			if (strcmp(m->name + 1, method) != 0)
				continue;
			m->takes_bytes = !m->client_streams;
			return m->takes_bytes ? 0 : -EINVAL;
		}
	return -ENOENT;
}

static void on_request(struct loop_tag *tag, bool ok);

/* Asks gRPC for one more call of this method (NULL: of any that is not served). */
static void call_arm(struct rpc_server *server, const struct rpc_method_entry *method)
{
	struct rpc_call *call = call_new(server, method);
	grpc_completion_queue *queue = loop_queue(server->loop);
	grpc_call_error e;

	if (!call)
		return;
	call->on_request.on_done = on_request;
	if (method)
		e = grpc_server_request_registered_call(server->grpc, method->handle, &call->call,
		        &call->deadline, &call->metadata, method->client_streams ? NULL : &call->payload,
		        queue, queue, &call->on_request);
	else
		e = grpc_server_request_call(server->grpc, &call->call, &call->details, &call->metadata,
		        queue, queue, &call->on_request);
	if (e == GRPC_CALL_OK)
		server->n_armed++;
	else
		call_discard(call);
}

static void peer_read(struct rpc_call *call)
{
	char *text = grpc_call_get_peer(call->call); /* "fd:N" */
	const struct rpc_peer *peer = NULL;

	if (text && strncmp(text, "fd:", 3) == 0)
		peer = listener_peer(call->server->listener, atoi(text + 3)); // NOLINT: gRPC's own number
	gpr_free(text);
	call->peer = peer ? *peer : (struct rpc_peer){ (uid_t)-1, (gid_t)-1, 0 };
}

static void drain_check(struct rpc_server *server)
{
	if (!server->shut_down || server->n_live > 0 || server->n_armed > 0 || server->drained)
		return;
	server->drained = true;
	server->grace = sd_event_source_disable_unref(server->grace);
	if (server->on_drained)
		server->on_drained(server, server->drained_userdata);
}

static void call_refuse_unknown(struct rpc_call *call)
{
	char name[256];
	size_t n = GRPC_SLICE_LENGTH(call->details.method);

	if (n >= sizeof(name))
		n = sizeof(name) - 1;
	memcpy(name, GRPC_SLICE_START_PTR(call->details.method), n);
	name[n] = '\0';
	rpc_fail(call, GRPC_STATUS_UNIMPLEMENTED,
	        "method '%s' is not served here: 'grpcurl … list' shows what is", name);
}

static void on_request(struct loop_tag *tag, bool ok)
{
	struct rpc_call *call = CONTAINER_OF(tag, struct rpc_call, on_request);
	struct rpc_server *server = call->server;

	server->n_armed--;
	if (!ok) {
		call_discard(call);
		drain_check(server);
		return;
	}
	if (!server->draining)
		call_arm(server, call->method);
	if (!call->method)
		call->deadline = call->details.deadline;
	call->started_usec = clock_monotonic_usec();
	call->at_next = &server->calls;
	call->next = server->calls;
	if (call->next)
		call->next->at_next = &call->next;
	server->calls = call;
	server->n_live++;
	peer_read(call);

	call->in_handler = true;
	if (server->draining)
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "the service is shutting down: retry");
	else if (server->n_live > server->n_calls_max)
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED,
		        "%zu calls are under way, the limit: retry later", server->n_live - 1);
	else if (!call->method)
		call_refuse_unknown(call);
	else if (rpc_call_time_left_usec(call) == 0)
		rpc_fail(call, GRPC_STATUS_DEADLINE_EXCEEDED,
		        "the deadline passed before the call was looked at");
	call_begin(call);
}

void server_call_over(struct rpc_server *server, struct rpc_call *call)
{
	*call->at_next = call->next;
	if (call->next)
		call->next->at_next = call->at_next;
	if (!server->on_call_end || !call->method || call->method->internal)
		return;
	struct rpc_call_record record = { .method = rpc_call_method(call),
		.peer = call->peer,
		.subject = call->subject,
		.code = call->code,
		.message = call->message ? call->message : "",
		.duration_usec = clock_monotonic_usec() - call->started_usec };
	server->on_call_end(&record, server->userdata);
}

/* gRPC's shutdown waits for connections, and an idle client that does not look would hold it to the end of the
 * grace: with no call left there is nothing to be graceful about. */
static void idle_disconnect(struct rpc_server *server)
{
	if (server->draining && !server->shut_down && server->n_live == 0)
		grpc_server_cancel_all_calls(server->grpc);
}

void server_call_freed(struct rpc_server *server)
{
	server->n_live--;
	idle_disconnect(server);
	drain_check(server);
}

static void on_connection(int fd, void *userdata)
{
	struct rpc_server *server = userdata;
	grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

	grpc_server_add_channel_from_fd(server->grpc, fd, credentials);
	grpc_server_credentials_release(credentials);
}

int rpc_server_start(struct rpc_server *server, struct err *err)
{
	int r = service_add(server, health_service(server->health), true);

	for (size_t i = 0; r == 0 && i < REFLECTION_SERVICES; i++)
		r = service_add(server, reflection_service(server->reflection, i), true);
	if (r < 0)
		return err_set(err, r, "cannot serve health and reflection: %s", strerror(-r));
	/* First what may fail: a started server has to be drained. No connection comes before the loop turns. */
	r = listener_start(server->listener, on_connection, server);
	if (r < 0)
		return err_set(err, r, "cannot watch the socket: %s", strerror(-r));
	grpc_server_start(server->grpc);
	server->started = true;
	for (size_t s = 0; s < server->n_services; s++)
		for (size_t i = 0; i < server->n_methods[s]; i++)
			for (int k = 0; k < ARMED_PER_METHOD; k++)
				call_arm(server, &server->methods[s][i]);
	for (int k = 0; k < ARMED_UNKNOWN; k++)
		call_arm(server, NULL);
	health_start(server->health, server->service_names);
	return 0;
}

void rpc_server_set_serving(struct rpc_server *server, const char *service_name_, bool serving)
{
	health_set(server->health, service_name_, serving);
}

static void on_shutdown(struct loop_tag *tag, bool ok)
{
	struct rpc_server *server = CONTAINER_OF(tag, struct rpc_server, on_shutdown);

	(void)ok;
	/* the tag may come while calls are live: both must be over before the server may go */
	server->shut_down = true;
	drain_check(server);
}

static int on_grace_over(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct rpc_server *server = userdata;

	(void)s;
	(void)usec;
	grpc_server_cancel_all_calls(server->grpc);
	return 0;
}

void rpc_server_drain(struct rpc_server *server, uint64_t grace_usec,
        void (*on_drained)(struct rpc_server *server, void *userdata), void *userdata)
{
	if (server->draining)
		return;
	server->draining = true;
	server->on_drained = on_drained;
	server->drained_userdata = userdata;
	listener_stop(server->listener);
	health_shutdown(server->health);
	grpc_server_shutdown_and_notify(server->grpc, loop_queue(server->loop), &server->on_shutdown);
	if (sd_event_add_time_relative(loop_event(server->loop), &server->grace, CLOCK_MONOTONIC, grace_usec,
	            1, on_grace_over, server) < 0)
		grpc_server_cancel_all_calls(server->grpc);
	idle_disconnect(server);
}

size_t rpc_server_live_calls(const struct rpc_server *server)
{
	return server->n_live;
}

struct rpc_server *rpc_server_free(struct rpc_server *server)
{
	if (!server)
		return NULL;
	if (server->started && !server->drained)
		abort(); /* calls would outlive their server: drain first */
	sd_event_source_disable_unref(server->grace);
	deadline_timer_done(&server->deadlines);
	listener_free(server->listener);
	if (server->grpc)
		grpc_server_destroy(server->grpc);
	health_free(server->health);
	reflection_free(server->reflection);
	for (size_t i = 0; i < server->n_services; i++)
		free(server->methods[i]);
	descriptor_pool_free(server->pool);
	free(server);
	return NULL;
}
