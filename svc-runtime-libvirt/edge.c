#include "svc-runtime-libvirt/edge.h"

#include "svc-runtime-libvirt/domain_message.h"
#include "svc-runtime-libvirt/lifecycle.h"

#include "lib/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- before libvirt is open --- */

enum { PARKED_MAX = 1024 };

struct edge_parked {
	TAILQ_ENTRY(edge_parked) all;
	struct rpc_call *call; /* owned: a reference */
	edge_fn fn;
	const void *arg;
};

static bool is_settled(const struct runtime *runtime)
{
	return (domains_synced(runtime->domains) && runtime->host_known) || virt_failed(runtime->virt) ||
	        runtime->stopping;
}

void edge_when_settled(Bc__V1__Runtime_Service *service, struct rpc_call *call, edge_fn fn, const void *arg)
{
	struct edge *edge = (struct edge *)service;

	if (is_settled(edge->runtime)) {
		fn(edge->runtime, call, arg);
		return;
	}
	struct edge_parked *parked = edge->n_parked < PARKED_MAX ? calloc(1, sizeof(*parked)) : NULL;
	if (!parked) {
		rpc_fail(
		        call, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many calls wait for libvirt to be opened");
		return;
	}
	*parked = (struct edge_parked){ .call = rpc_call_ref(call), .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&edge->parked, parked, all);
	edge->n_parked++;
}

void edge_settle(struct edge *edge)
{
	struct edge_parked *parked;

	while (is_settled(edge->runtime) && (parked = TAILQ_FIRST(&edge->parked))) {
		TAILQ_REMOVE(&edge->parked, parked, all);
		edge->n_parked--;
		if (!rpc_call_is_cancelled(parked->call))
			parked->fn(edge->runtime, parked->call, parked->arg);
		(void)rpc_call_unref(parked->call);
		free(parked);
	}
}

/* --- checks --- */

bool edge_ready(struct runtime *runtime, struct rpc_call *call)
{
	if (domains_synced(runtime->domains) && runtime->host_known)
		return true;
	const char *trouble = virt_trouble(runtime->virt);
	if (runtime->stopping)
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "this service ends");
	else if (trouble[0])
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "%s", trouble);
	else
		rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "%s: what it has is still being read",
		        runtime->conf->uri);
	return false;
}

bool edge_id(struct rpc_call *call, const char *id)
{
	struct err err = { 0 };

	int r = uuid_check("id", id, &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return false;
	}
	rpc_call_set_subject(call, id);
	return true;
}

bool edge_key(struct rpc_call *call, const char *id, const char *key, const char *what)
{
	char wanted[128];

	(void)snprintf(wanted, sizeof(wanted), "instance:%s:%s", id, what);
	if (!key[0] || strcmp(key, wanted) == 0)
		return true;
	rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT,
	        "idempotency_key: '%s' is not of this call; write '%s' or leave it empty", QUOTED(key),
	        wanted);
	return false;
}

const char *edge_apply_key(Bc__V1__InstanceSpec__DesiredState state)
{
	switch (state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return "apply:RUNNING";
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return "apply:PAUSED";
	default:
		return "apply:STOPPED";
	}
}

/* --- describe --- */

static void do_describe(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	static char *features[] = { (char *)"console", (char *)"macvtap", (char *)"user-nic",
		(char *)"placement", (char *)"dry-run", (char *)"balloon", (char *)"grow-volume",
		(char *)"rebind", (char *)"gpu", (char *)"snapshot", (char *)"snapshot.memory" };
	Bc__V1__DescribeReply answer = BC__V1__DESCRIBE_REPLY__INIT;

	(void)arg;
	answer.id = (char *)RUNTIME_ID;
	answer.version = (char *)BC_VERSION;
	answer.features = features;
	answer.n_features = ARRAY_SIZE(features);
	answer.vmm_uid = runtime->host.vmm_uid;
	answer.vmm_gid = runtime->host.vmm_gid;
	if (runtime->host_known) {
		answer.accel = (char *)(runtime->host.kvm ? "kvm" : "tcg");
		answer.accel_reason = runtime->accel_reason;
		answer.cpu_model = runtime->cpu_model;
		answer.hypervisor_version = runtime->hypervisor_version;
	}
	rpc_reply(call, &answer.base);
}

static void edge_describe(Bc__V1__Runtime_Service *service, const Bc__V1__DescribeRequest *request,
        Bc__V1__DescribeReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_describe, request);
}

/* --- answers with a domain --- */

static void reply_domain(struct rpc_call *call, const struct domain_entry *entry)
{
	Bc__V1__Domain *message = domain_message_new(entry);

	if (message)
		rpc_reply(call, &message->base);
	else
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
	domain_message_free(message);
}

static void on_domain(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct rpc_call *call = userdata;

	if (r < 0)
		rpc_fail_err(call, r, err);
	else if (!entry)
		rpc_fail(call, GRPC_STATUS_ABORTED, "the domain was removed meanwhile");
	else
		reply_domain(call, entry);
	(void)rpc_call_unref(call);
}

/* --- state --- */

static void do_set_state(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__SetStateRequest *request = arg;

	if (!edge_id(call, request->id) ||
	        !edge_key(call, request->id, request->idempotency_key, edge_apply_key(request->state)) ||
	        !edge_ready(runtime, call))
		return;
	switch (request->state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		lifecycle_run(runtime, request->id,
		        request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED, on_domain,
		        rpc_call_ref(call));
		break;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED:
		lifecycle_stop(runtime, request->id,
		        request->grace_ns / 1000 + (request->grace_ns % 1000 != 0), on_domain,
		        rpc_call_ref(call));
		break;
	default:
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "state must be RUNNING, PAUSED or STOPPED");
	}
}

static void edge_set_state(Bc__V1__Runtime_Service *service, const Bc__V1__SetStateRequest *request,
        Bc__V1__Domain_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_set_state, request);
}

static void on_removed(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct rpc_call *call = userdata;
	Bc__V1__RuntimeRemoveReply answer = BC__V1__RUNTIME_REMOVE_REPLY__INIT;

	(void)entry;
	answer.existed = r == 0;
	if (r < 0)
		rpc_fail_err(call, r, err);
	else
		rpc_reply(call, &answer.base);
	(void)rpc_call_unref(call);
}

static void do_remove(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__RuntimeRemoveRequest *request = arg;

	if (edge_id(call, request->id) && edge_key(call, request->id, request->idempotency_key, "remove") &&
	        edge_ready(runtime, call))
		lifecycle_remove(runtime, request->id, on_removed, rpc_call_ref(call));
}

static void edge_remove(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeRemoveRequest *request,
        Bc__V1__RuntimeRemoveReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_remove, request);
}

/* --- looks --- */

static void do_get(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__RuntimeGetRequest *request = arg;

	if (!edge_id(call, request->id) || !edge_ready(runtime, call))
		return;
	const struct domain_entry *entry = domains_find(runtime->domains, request->id);
	if (entry)
		reply_domain(call, entry);
	else
		rpc_fail(call, GRPC_STATUS_NOT_FOUND, "no domain %s", request->id);
}

static void edge_get(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeGetRequest *request,
        Bc__V1__Domain_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_get, request);
}

static void do_list(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	Bc__V1__RuntimeListReply answer = BC__V1__RUNTIME_LIST_REPLY__INIT;
	size_t n = 0;
	bool whole = true;

	(void)arg;
	if (!edge_ready(runtime, call))
		return;
	for (struct domain_entry *e = domains_next(runtime->domains, NULL); e;
	        e = domains_next(runtime->domains, e))
		n++;
	answer.domains = calloc(n + 1, sizeof(*answer.domains));
	whole = answer.domains != NULL;
	for (struct domain_entry *e = domains_next(runtime->domains, NULL); e && whole;
	        e = domains_next(runtime->domains, e)) {
		Bc__V1__Domain *message = domain_message_new(e);
		whole = message != NULL;
		if (message)
			answer.domains[answer.n_domains++] = message;
	}
	if (whole)
		rpc_reply(call, &answer.base);
	else
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a list of %zu domains", n);
	for (size_t i = 0; i < answer.n_domains; i++)
		domain_message_free(answer.domains[i]);
	free(answer.domains);
}

static void edge_list(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeListRequest *request,
        Bc__V1__RuntimeListReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_list, request);
}

void edge_init(struct edge *edge, struct runtime *runtime)
{
	edge->service = (Bc__V1__Runtime_Service)BC__V1__RUNTIME__INIT(edge_);
	TAILQ_INIT(&edge->parked);
	edge->n_parked = 0;
	edge->runtime = runtime;
}
