#include "svc-converger/edge.h"

#include "lib/rpc/intake.h"
#include "svc-converger/apply.h"
#include "svc-converger/drain.h"
#include "svc-converger/edge_calls.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/node_report.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/status_stream.h"

#include <string.h>

void long_call_begin(struct edge *edge, struct long_call *lc, struct rpc_call *call)
{
	lc->call = call;
	lc->next = edge->long_calls;
	lc->at = &edge->long_calls;
	if (lc->next)
		lc->next->at = &lc->next;
	edge->long_calls = lc;
	if (edge->is_draining)
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "bc-converger is stopping");
}

void long_call_end(struct long_call *lc)
{
	*lc->at = lc->next;
	if (lc->next)
		lc->next->at = lc->at;
}

/* --- Apply --- */

static void on_applied(int r, const char *message, const Bc__V1__ApplyReply *reply, void *userdata)
{
	struct rpc_call *call = userdata;

	if (r == 0)
		rpc_reply(call, &reply->base);
	else
		rpc_fail(call, rpc_code_from_errno(r), "%s", message);
	rpc_call_unref(call);
}

static void edge__apply(Bc__V1__Converger_Service *service, const Bc__V1__ApplyRequest *request,
        Bc__V1__ApplyReply_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct spec_bytes bytes = { .form = SPEC_APPLY };

	(void)request; /* taken as bytes */
	(void)closure;
	bytes.data = rpc_call_bytes(call, &bytes.size);
	apply_submit(edge_converger(service), &bytes, on_applied, rpc_call_ref(call));
}

/* --- GetNode --- */

/* The spec as it was accepted, put together again. */
static Bc__V1__NodeSpec *spec_rebuild(struct converger *c)
{
	Bc__V1__NodeSpec *spec =
	        bc__v1__node_spec__unpack(NULL, c->n_node, c->n_node ? c->node : (uint8_t *)"");
	struct instance *instance;
	size_t cursor = 0;

	if (spec)
		spec->revision = c->revision;
	if (!spec || !c->has_instances)
		return spec;
	spec->instances = calloc(1, sizeof(*spec->instances));
	if (!spec->instances)
		return spec;
	bc__v1__instances__init(spec->instances);
	spec->instances->items = calloc(id_map_count(c->instances) + 1, sizeof(Bc__V1__InstanceSpec *));
	while (spec->instances->items && (instance = id_map_next(c->instances, &cursor))) {
		Bc__V1__InstanceSpec *item = instance->spec ? instance_spec_unpack(instance->spec) : NULL;

		if (item)
			spec->instances->items[spec->instances->n_items++] = item;
	}
	return spec;
}

static void edge__get_node(Bc__V1__Converger_Service *service, const Bc__V1__GetNodeRequest *request,
        Bc__V1__GetNodeReply_Closure closure, void *closure_data)
{
	struct converger *c = edge_converger(service);
	Bc__V1__GetNodeReply reply = BC__V1__GET_NODE_REPLY__INIT;
	CLEANUP_FREE struct node_inventory *inventory = calloc(1, sizeof(*inventory));
	CLEANUP_FREE struct driver_reports *drivers = calloc(1, sizeof(*drivers));
	char *features[NODE_FEATURES_MAX];

	if (!inventory || !drivers) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	node_inventory_init(c, inventory);
	driver_reports_init(c, drivers);
	reply.node_id = (char *)c->options.node_id;
	reply.boot_id = c->boot_id;
	reply.version = (char *)BC_VERSION;
	reply.inventory = &inventory->message;
	reply.accepted_revision = c->revision;
	reply.n_drivers = drivers->n;
	reply.drivers = drivers->pointers;
	reply.n_features = node_features(c, features);
	reply.features = features;
	if (request->with_spec)
		reply.spec = spec_rebuild(c);
	closure(&reply, closure_data);
	if (reply.spec)
		bc__v1__node_spec__free_unpacked(reply.spec, NULL);
	node_inventory_done(inventory);
}

/* --- GetStatus --- */

struct status_answer {
	Bc__V1__NodeStatus message;
	struct instance_report *reports;   /* owned */
	Bc__V1__InstanceStatus **pointers; /* owned */
	size_t n;
	struct volume_reports volumes;
	struct driver_reports drivers;
	Bc__V1__Capacity capacity;
	char *warnings[2];
};

static void answer_add_all(struct converger *c, struct status_answer *answer)
{
	struct instance *instance;
	struct foreign *foreign;
	size_t cursor = 0;

	while ((instance = id_map_next(c->instances, &cursor)))
		instance_report_init(c, instance, &answer->reports[answer->n++]);
	for (cursor = 0; (foreign = id_map_next(c->foreigns, &cursor));)
		foreign_report_init(foreign, &answer->reports[answer->n++]);
}

static void answer_add_one(struct converger *c, struct status_answer *answer, const char *id)
{
	struct instance *instance = converger_instance(c, id);
	struct foreign *foreign;
	size_t cursor = 0;

	if (instance)
		instance_report_init(c, instance, &answer->reports[answer->n++]);
	while ((foreign = id_map_next(c->foreigns, &cursor)))
		if (strcmp(foreign->domain->id, id) == 0)
			foreign_report_init(foreign, &answer->reports[answer->n++]);
}

static void answer_fill_node(struct converger *c, struct status_answer *answer)
{
	Bc__V1__NodeStatus *message = &answer->message;
	const char *words;

	message->node_id = (char *)c->options.node_id;
	message->boot_id = c->boot_id;
	message->accepted_revision = c->revision;
	message->draining = c->is_draining;
	message->reason = (char *)node_reason(c, &words);
	message->message = (char *)words;
	host_facts_read(c->options.proc, c->options.sys, &c->host);
	capacity_report(c, &answer->capacity);
	message->capacity = &answer->capacity;
	if (!c->host.memory_known)
		answer->warnings[message->n_warnings++] =
		        (char *)"/proc/meminfo cannot be read: domains are started without a check of memory";
	message->warnings = answer->warnings;
}

static void edge__get_status(Bc__V1__Converger_Service *service, const Bc__V1__GetStatusRequest *request,
        Bc__V1__NodeStatus_Closure closure, void *closure_data)
{
	struct converger *c = edge_converger(service);
	struct rpc_call *call = rpc_call_of(closure_data);
	size_t n_max = id_map_count(c->instances) + id_map_count(c->foreigns) + 1;
	CLEANUP_FREE struct status_answer *answer = calloc(1, sizeof(*answer));
	CLEANUP_FREE struct instance_report *reports = calloc(n_max, sizeof(*reports));
	CLEANUP_FREE Bc__V1__InstanceStatus **pointers = calloc(n_max, sizeof(Bc__V1__InstanceStatus *));

	if (!answer || !reports || !pointers) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	bc__v1__node_status__init(&answer->message);
	answer->reports = reports;
	if (*request->instance_id)
		answer_add_one(c, answer, request->instance_id);
	else
		answer_add_all(c, answer);
	if (*request->instance_id && answer->n == 0) {
		rpc_fail(call, GRPC_STATUS_NOT_FOUND,
		        "no instance %s, neither in the accepted spec nor on this host",
		        request->instance_id);
		return;
	}
	for (size_t i = 0; i < answer->n; i++)
		pointers[i] = &reports[i].status;
	answer->message.n_instances = answer->n;
	answer->message.instances = pointers;
	(void)volume_reports_init(c, "", &answer->volumes);
	answer->message.n_volumes = answer->volumes.n;
	answer->message.volumes = answer->volumes.pointers;
	driver_reports_init(c, &answer->drivers);
	answer->message.n_drivers = answer->drivers.n;
	answer->message.drivers = answer->drivers.pointers;
	answer_fill_node(c, answer);
	size_t size = bc__v1__node_status__get_packed_size(&answer->message);

	if (size <= RPC_WIRE_MAX)
		closure(&answer->message, closure_data);
	else
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED,
		        "the status of %zu instances has %zu bytes, and a message at most %d: ask for one instance, or for all with WatchStatus, which sends them in parts",
		        answer->n, size, RPC_WIRE_MAX);
	for (size_t i = 0; i < answer->n; i++)
		instance_report_done(&reports[i]);
	volume_reports_done(&answer->volumes);
}

/* --- WatchStatus --- */

/* Deltas waiting in one stream; what changes meanwhile waits on the board, once per instance. */
enum { DELTAS_QUEUED_MAX = 4 };

struct watch {
	struct long_call live;
	struct rpc_call *call;        /* weak: the call ends before the watch */
	struct status_stream *stream; /* owned */
};

static bool on_delta(const Bc__V1__StatusDelta *delta, void *userdata)
{
	struct watch *watch = userdata;

	if (rpc_stream_send(watch->call, &delta->base) == -EAGAIN)
		rpc_fail(watch->call, GRPC_STATUS_ABORTED, "this reader has fallen behind; watch anew");
	return rpc_stream_queued(watch->call) < DELTAS_QUEUED_MAX;
}

static void on_lost(void *userdata)
{
	struct watch *watch = userdata;

	rpc_fail(watch->call, GRPC_STATUS_ABORTED, "this reader has fallen behind; watch anew");
}

static const struct status_stream_handlers watch_handlers = { .on_delta = on_delta, .on_lost = on_lost };

static void on_watch_writable(struct rpc_call *call, void *userdata)
{
	struct watch *watch = userdata;

	(void)call;
	status_stream_resume(watch->stream);
}

static void on_watch_end(struct rpc_call *call, void *userdata)
{
	struct watch *watch = userdata;

	(void)call;
	long_call_end(&watch->live);
	status_stream_free(watch->stream);
	free(watch);
}

static void edge__watch_status(Bc__V1__Converger_Service *service, const Bc__V1__WatchStatusRequest *request,
        Bc__V1__StatusDelta_Closure closure, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);
	struct watch *watch = calloc(1, sizeof(*watch));

	(void)closure;
	if (!watch ||
	        status_stream_new(edge_converger(service), request->instance_id, &watch_handlers, watch,
	                &watch->stream) < 0) {
		free(watch);
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	watch->call = call;
	rpc_stream_on_writable(call, on_watch_writable, watch);
	rpc_call_on_end(call, on_watch_end, watch);
	long_call_begin(edge_of(service), &watch->live, call);
}

/* --- Retry --- */

static void edge__retry(Bc__V1__Converger_Service *service, const Bc__V1__RetryRequest *request,
        Bc__V1__RetryReply_Closure closure, void *closure_data)
{
	struct converger *c = edge_converger(service);
	struct instance *instance = converger_instance(c, request->instance_id);
	Bc__V1__RetryReply reply = BC__V1__RETRY_REPLY__INIT;
	struct instance_report report;

	if (!instance) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_NOT_FOUND, "no instance %s",
		        request->instance_id);
		return;
	}
	rpc_call_set_subject(rpc_call_of(closure_data), instance->id);
	reconciler_retry(c, instance);
	instance_report_init(c, instance, &report);
	reply.status = &report.status;
	closure(&reply, closure_data);
	instance_report_done(&report);
}

/* --- Drain --- */

static void on_drained(int r, const struct err *err, uint32_t n_running, void *userdata)
{
	struct rpc_call *call = userdata;
	Bc__V1__DrainReply reply = BC__V1__DRAIN_REPLY__INIT;

	reply.running = n_running;
	if (r == 0)
		rpc_reply(call, &reply.base);
	else
		rpc_fail_err(call, r, err);
	rpc_call_unref(call);
}

static void edge__drain(Bc__V1__Converger_Service *service, const Bc__V1__DrainRequest *request,
        Bc__V1__DrainReply_Closure closure, void *closure_data)
{
	(void)closure;
	drain_set(edge_converger(service), request->drain, request->stop_instances, on_drained,
	        rpc_call_ref(rpc_call_of(closure_data)));
}

int edge_new(struct converger *c, struct rpc_server *server, struct edge **ret)
{
	static const Bc__V1__Converger_Service service = BC__V1__CONVERGER__INIT(edge__);
	struct edge *edge = calloc(1, sizeof(*edge));
	int r;

	if (!edge)
		return -ENOMEM;
	edge->service = service;
	edge->c = c;
	r = rpc_server_add(server, &edge->service.base);
	if (r == 0)
		r = rpc_server_take_bytes(server, "bc.v1.Converger/Apply");
	if (r < 0) {
		free(edge);
		return r;
	}
	*ret = edge;
	return 0;
}

void edge_drain(struct edge *edge)
{
	struct long_call *next;

	edge->is_draining = true;
	for (struct long_call *lc = edge->long_calls; lc; lc = next) {
		next = lc->next;
		rpc_fail(lc->call, GRPC_STATUS_UNAVAILABLE, "bc-converger is stopping");
	}
}

struct edge *edge_free(struct edge *edge)
{
	free(edge);
	return NULL;
}
