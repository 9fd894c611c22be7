#include "svc-converger/test/stub_runtime.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/sha256.h"
#include "svc-converger/test/stub_door.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct stub_runtime *stub_of(Bc__V1__Runtime_Service *service)
{
	return CONTAINER_OF(service, struct stub_runtime, service);
}

static void stub_log(struct stub_runtime *stub, const char *what, const char *id)
{
	size_t n = strlen(stub->log);
	size_t n_id = strlen(id);

	(void)snprintf(stub->log + n, sizeof(stub->log) - n, "%s %s;", what, n_id > 4 ? id + n_id - 4 : id);
}

struct stub_domain *stub_runtime_domain(struct stub_runtime *stub, const char *id)
{
	for (size_t i = 0; i < stub->n_domains; i++)
		if (strcmp(stub->domains[i].id, id) == 0)
			return &stub->domains[i];
	return NULL;
}

struct stub_domain *stub_runtime_add(struct stub_runtime *stub, const char *id, const char *allocation_id,
        bool is_managed, Bc__V1__Domain__State state)
{
	struct stub_domain *domain = stub_runtime_domain(stub, id);

	if (!domain) {
		assert(stub->n_domains < STUB_DOMAINS_MAX);
		domain = &stub->domains[stub->n_domains++];
	}
	*domain = (struct stub_domain){ .is_managed = is_managed, .state = state, .memory_bytes = 64 << 20 };
	domain->since_usec = clock_realtime_usec();
	(void)snprintf(domain->id, sizeof(domain->id), "%s", id);
	(void)snprintf(domain->allocation_id, sizeof(domain->allocation_id), "%s", allocation_id);
	return domain;
}

/* A message that points into the stub and these arrays. */
struct domain_message {
	Bc__V1__Domain domain;
	Bc__V1__BootTimings boot;
	Google__Protobuf__Timestamp since;
	Bc__V1__VolumePath volumes[STUB_VOLUMES_MAX];
	Bc__V1__VolumePath *pointers[STUB_VOLUMES_MAX];
	Bc__V1__PortMapping port, *port_pointer;
	int64_t pid;
	Bc__V1__NicStatus nics[STUB_NICS_OF_ONE_MAX], *nic_pointers[STUB_NICS_OF_ONE_MAX];
};

static Bc__V1__Domain *message_fill(struct domain_message *m, const struct stub_domain *domain)
{
	bc__v1__domain__init(&m->domain);
	m->domain.id = (char *)domain->id;
	m->domain.name = (char *)domain->id;
	m->domain.allocation_id = (char *)domain->allocation_id;
	m->domain.managed = domain->is_managed;
	m->domain.completed = domain->is_completed;
	m->domain.state = domain->state;
	m->domain.reason = (char *)domain->reason;
	m->domain.memory_bytes = domain->memory_bytes;
	bc__v1__boot_timings__init(&m->boot);
	m->boot.vmm_started_ns = domain->was_started;
	m->domain.boot = &m->boot;
	google__protobuf__timestamp__init(&m->since);
	m->since.seconds = (int64_t)(domain->since_usec / USEC_PER_SEC);
	m->since.nanos = (int32_t)(domain->since_usec % USEC_PER_SEC * NSEC_PER_USEC);
	m->domain.since = &m->since;
	for (size_t i = 0; i < domain->n_volumes; i++) {
		bc__v1__volume_path__init(&m->volumes[i]);
		m->volumes[i].volume_id = (char *)domain->volumes[i];
		m->volumes[i].read_only = domain->read_only[i];
		m->volumes[i].size_bytes = domain->volume_bytes[i];
		m->pointers[i] = &m->volumes[i];
	}
	for (size_t i = 0; i < domain->n_nics; i++) {
		bc__v1__nic_status__init(&m->nics[i]);
		m->nics[i].index = (uint32_t)i;
		m->nics[i].interface = (char *)"tap";
		m->nic_pointers[i] = &m->nics[i];
	}
	m->domain.n_nics = domain->n_nics;
	m->domain.nics = m->nic_pointers;
	m->domain.n_volumes = domain->n_volumes;
	m->domain.volumes = m->pointers;
	m->domain.restored_from = (char *)domain->restored_from;
	m->domain.identity_rebound_ref = (char *)domain->rebound_ref;
	m->pid = domain->vmm_pid;
	m->domain.n_vmm_pids = domain->vmm_pid != 0;
	m->domain.vmm_pids = &m->pid;
	bc__v1__port_mapping__init(&m->port);
	m->port.host_port = domain->host_port;
	m->port.guest_port = domain->guest_port;
	m->port_pointer = &m->port;
	m->domain.n_ports = domain->host_port != 0; /* as it is defined, up or not */
	m->domain.ports = &m->port_pointer;
	return &m->domain;
}

static void stub_send(struct rpc_call *call, Bc__V1__DomainEvent__Type type, const struct stub_domain *domain)
{
	Bc__V1__DomainEvent event = BC__V1__DOMAIN_EVENT__INIT;
	struct domain_message message;

	event.type = type;
	if (domain)
		event.domain = message_fill(&message, domain);
	(void)rpc_stream_send(call, &event.base);
}

void stub_runtime_change(struct stub_runtime *stub, struct stub_domain *domain, Bc__V1__Domain__State state)
{
	domain->state = state;
	domain->since_usec = clock_realtime_usec();
	if (state == BC__V1__DOMAIN__STATE__STOPPED || state == BC__V1__DOMAIN__STATE__CRASHED)
		domain->vmm_pid = 0;
	stub_runtime_tell(stub, domain);
}

void stub_runtime_tell(struct stub_runtime *stub, const struct stub_domain *domain)
{
	for (size_t i = 0; i < stub->n_watchers && !stub->is_mute; i++)
		stub_send(stub->watchers[i], BC__V1__DOMAIN_EVENT__TYPE__CHANGED, domain);
}

static void stub_drop(struct stub_runtime *stub, struct stub_domain *domain)
{
	for (size_t i = 0; i < stub->n_watchers && !stub->is_mute; i++)
		stub_send(stub->watchers[i], BC__V1__DOMAIN_EVENT__TYPE__GONE, domain);
	*domain = stub->domains[--stub->n_domains];
}

static void stub_count(struct stub_runtime *stub, const char *id)
{
	unsigned n = 1;

	for (size_t i = 0; i < stub->n_held; i++)
		n += strcmp(stub->held_ids[i], id) == 0 && !rpc_call_is_cancelled(stub->held[i]);
	if (*id && n > stub->n_in_flight_max)
		stub->n_in_flight_max = n;
}

/* True when the call goes wrong here. id is that of the instance it changes, or "". */
static bool stub_intercept(
        struct stub_runtime *stub, enum stub_method method, struct rpc_call *call, const char *id)
{
	stub->n_calls[method]++;
	stub_count(stub, id);
	if (stub->raises[method])
		*stub->raises[method] = true;
	if (stub->hangs[method]) {
		assert(stub->n_held < ARRAY_SIZE(stub->held));
		(void)snprintf(stub->held_ids[stub->n_held], sizeof(stub->held_ids[0]), "%s", id);
		stub->held_methods[stub->n_held] = method;
		stub->held[stub->n_held++] = rpc_call_ref(call);
		return true;
	}
	if (!stub->fail[method])
		return false;
	stub->fail[method]--;
	rpc_fail(call, stub->code, "made to fail");
	return true;
}

static void stub__describe(Bc__V1__Runtime_Service *service, const Bc__V1__DescribeRequest *request,
        Bc__V1__DescribeReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	Bc__V1__DescribeReply reply = BC__V1__DESCRIBE_REPLY__INIT;

	(void)request;
	if (stub_intercept(stub, STUB_DESCRIBE, rpc_call_of(closure_data), ""))
		return;
	reply.id = stub->id;
	reply.version = (char *)"1";
	reply.n_features = stub->n_features;
	reply.features = (char **)stub->features;
	reply.vmm_uid = 107;
	reply.vmm_gid = 108;
	closure(&reply, closure_data);
}

static void stub__ensure(Bc__V1__Runtime_Service *service, const Bc__V1__EnsureRequest *request,
        Bc__V1__EnsureReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	Bc__V1__EnsureReply reply = BC__V1__ENSURE_REPLY__INIT;
	struct stub_domain *domain = stub_runtime_domain(stub, request->spec->id);
	struct domain_message message;

	stub_log(stub, "ensure", request->spec->id);
	if (stub_intercept(stub, STUB_ENSURE, rpc_call_of(closure_data), request->spec->id))
		return;
	if (domain && !domain->is_managed) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_ALREADY_EXISTS, "foreign");
		return;
	}
	if (!domain)
		domain = stub_runtime_add(stub, request->spec->id, request->spec->allocation_id, true,
		        BC__V1__DOMAIN__STATE__STOPPED);
	domain->memory_bytes = request->spec->memory_bytes;
	domain->n_nics = 0;
	for (size_t i = 0; i < request->n_nics && domain->n_nics < STUB_NICS_OF_ONE_MAX; i++)
		domain->n_nics += request->nics[i]->interface[0] != 0;
	domain->n_volumes = 0;
	for (size_t i = 0; i < request->n_volumes && i < STUB_VOLUMES_MAX; i++) {
		strcpy(domain->volumes[i], request->volumes[i]->volume_id);
		domain->read_only[i] = request->volumes[i]->read_only;
		domain->volume_bytes[i] = request->volumes[i]->size_bytes;
		domain->n_volumes++;
	}
	(void)snprintf(domain->restored_from, sizeof(domain->restored_from), "%s", request->restored_from);
	domain->host_port = request->n_ports ? request->ports[0]->mappings[0]->host_port : 0;
	domain->guest_port = request->n_ports ? request->ports[0]->mappings[0]->guest_port : 0;
	if (request->user_data.len)
		(void)snprintf(domain->user_data, sizeof(domain->user_data), "%.*s",
		        (int)request->user_data.len, (char *)request->user_data.data);
	reply.domain = message_fill(&message, domain);
	closure(&reply, closure_data);
	stub_runtime_tell(stub, domain);
}

static void stub__get(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeGetRequest *request,
        Bc__V1__Domain_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct stub_domain *domain = stub_runtime_domain(stub, request->id);
	struct domain_message message;

	if (stub_intercept(stub, STUB_GET, rpc_call_of(closure_data), ""))
		return;
	if (!domain)
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_NOT_FOUND, "no domain");
	else
		closure(message_fill(&message, domain), closure_data);
}

static void stub__set_state(Bc__V1__Runtime_Service *service, const Bc__V1__SetStateRequest *request,
        Bc__V1__Domain_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct stub_domain *domain = stub_runtime_domain(stub, request->id);
	struct domain_message message;

	stub_log(stub,
	        request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING
	                ? "run"
	                : (request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED ? "pause" : "stop"),
	        request->id);
	if (domain && stub->fails_after && stub->fail[STUB_SET_STATE])
		domain->state = request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING
		        ? BC__V1__DOMAIN__STATE__RUNNING
		        : BC__V1__DOMAIN__STATE__STOPPED;
	if (stub_intercept(stub, STUB_SET_STATE, rpc_call_of(closure_data), request->id))
		return;
	if (!domain) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_NOT_FOUND, "no domain");
		return;
	}
	domain->since_usec = clock_realtime_usec();
	switch (request->state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		if (stub->starts_nothing)
			break;
		domain->state = BC__V1__DOMAIN__STATE__RUNNING;
		domain->was_started = true;
		if (!domain->vmm_pid)
			domain->vmm_pid = ++stub->last_pid;
		break;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		domain->state = BC__V1__DOMAIN__STATE__PAUSED;
		break;
	default:
		domain->state = BC__V1__DOMAIN__STATE__STOPPED;
		domain->vmm_pid = 0;
		break;
	}
	closure(message_fill(&message, domain), closure_data);
	stub_runtime_tell(stub, domain);
}

static void stub__remove(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeRemoveRequest *request,
        Bc__V1__RuntimeRemoveReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct stub_domain *domain = stub_runtime_domain(stub, request->id);
	Bc__V1__RuntimeRemoveReply reply = BC__V1__RUNTIME_REMOVE_REPLY__INIT;

	stub_log(stub, "remove", request->id);
	if (stub_intercept(stub, STUB_REMOVE, rpc_call_of(closure_data), request->id))
		return;
	reply.existed = domain != NULL;
	if (domain)
		stub_drop(stub, domain);
	closure(&reply, closure_data);
}

static void list_answer(struct stub_runtime *stub, struct rpc_call *call)
{
	Bc__V1__RuntimeListReply reply = BC__V1__RUNTIME_LIST_REPLY__INIT;
	static struct domain_message messages[STUB_DOMAINS_MAX];
	Bc__V1__Domain *pointers[STUB_DOMAINS_MAX];

	for (size_t i = 0; i < stub->n_domains; i++)
		pointers[i] = message_fill(&messages[i], &stub->domains[i]);
	reply.n_domains = stub->n_domains;
	reply.domains = pointers;
	rpc_reply(call, &reply.base);
}

static void stub__list(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeListRequest *request,
        Bc__V1__RuntimeListReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);

	(void)request;
	(void)closure;
	if (!stub_intercept(stub, STUB_LIST, rpc_call_of(closure_data), ""))
		list_answer(stub, rpc_call_of(closure_data));
}

static void on_watch_end(struct rpc_call *call, void *userdata)
{
	struct stub_runtime *stub = userdata;

	for (size_t i = 0; i < stub->n_watchers; i++)
		if (stub->watchers[i] == call) {
			stub->watchers[i] = stub->watchers[--stub->n_watchers];
			return;
		}
}

static void stub__watch(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeWatchRequest *request,
        Bc__V1__DomainEvent_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)request;
	(void)closure;
	if (stub_intercept(stub, STUB_WATCH, call, ""))
		return;
	assert(stub->n_watchers < ARRAY_SIZE(stub->watchers));
	stub->watchers[stub->n_watchers++] = call;
	rpc_call_on_end(call, on_watch_end, stub);
	for (size_t i = 0; i < stub->n_domains; i++)
		stub_send(call, BC__V1__DOMAIN_EVENT__TYPE__PRESENT, &stub->domains[i]);
	if (!stub->syncs_never)
		stub_send(call, BC__V1__DOMAIN_EVENT__TYPE__SYNCED, NULL);
}

void stub_runtime_sync(struct stub_runtime *stub)
{
	stub->syncs_never = false;
	for (size_t i = 0; i < stub->n_watchers; i++)
		stub_send(stub->watchers[i], BC__V1__DOMAIN_EVENT__TYPE__SYNCED, NULL);
}

/* Writes a small file and says so. */
static void stub__snapshot(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeSnapshotRequest *request,
        Bc__V1__RuntimeSnapshotEvent_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct rpc_call *call = rpc_call_of(closure_data);
	Bc__V1__RuntimeSnapshotEvent event = BC__V1__RUNTIME_SNAPSHOT_EVENT__INIT;
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX], digest[SHA256_DIGEST_MAX];
	FILE *f;

	(void)closure;
	stub_log(stub, "snapshot", request->id);
	if (stub_intercept(stub, STUB_SNAPSHOT, call, ""))
		return;
	f = fopen(request->path, "wxe");
	if (!f) {
		rpc_fail(call, GRPC_STATUS_INTERNAL, "cannot write %s", request->path);
		return;
	}
	(void)fputs("snapshot", f);
	(void)fclose(f);
	assert(sha256("snapshot", 8, sum) == 0);
	sha256_to_hex(sum, hex);
	(void)snprintf(digest, sizeof(digest), "sha256:%s", hex);
	event.digest = digest;
	event.size_bytes = 8;
	(void)rpc_stream_send(call, &event.base);
	rpc_stream_finish(call);
}

static void on_console_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__ConsoleInput *input = (const Bc__V1__ConsoleInput *)message;
	Bc__V1__ConsoleOutput output = BC__V1__CONSOLE_OUTPUT__INIT;
	Bc__V1__ConsoleOpened opened = BC__V1__CONSOLE_OPENED__INIT;
	char echo[256];

	(void)userdata;
	if (!input) {
		rpc_stream_finish(call);
		return;
	}
	if (input->input_case == BC__V1__CONSOLE_INPUT__INPUT_OPEN) {
		output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_OPENED;
		output.opened = &opened;
	} else {
		int n = snprintf(
		        echo, sizeof(echo), "console: %.*s", (int)input->data.len, (char *)input->data.data);

		output.output_case = BC__V1__CONSOLE_OUTPUT__OUTPUT_DATA;
		output.data = (ProtobufCBinaryData){ .data = (uint8_t *)echo, .len = (size_t)n };
	}
	(void)rpc_stream_send(call, &output.base);
	rpc_stream_read(call);
}

static void stub__console(Bc__V1__Runtime_Service *service, const Bc__V1__ConsoleInput *request,
        Bc__V1__ConsoleOutput_Closure closure, void *closure_data)
{
	(void)service;
	(void)request;
	(void)closure;
	rpc_stream_on_message(rpc_call_of(closure_data), on_console_message, NULL);
	rpc_stream_read(rpc_call_of(closure_data));
}

static void stub__grow_volume(Bc__V1__Runtime_Service *service, const Bc__V1__GrowVolumeRequest *request,
        Bc__V1__GrowVolumeReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct stub_domain *domain = stub_runtime_domain(stub, request->id);
	Bc__V1__GrowVolumeReply reply = BC__V1__GROW_VOLUME_REPLY__INIT;

	stub_log(stub, "grow", request->id);
	if (stub_intercept(stub, STUB_GROW_VOLUME, rpc_call_of(closure_data), request->id))
		return;
	assert(domain);
	for (size_t i = 0; i < domain->n_volumes; i++)
		if (strcmp(domain->volumes[i], request->volume_id) == 0)
			domain->volume_bytes[i] = request->size_bytes;
	reply.size_bytes = request->size_bytes;
	closure(&reply, closure_data);
	stub_runtime_tell(stub, domain);
}

static void stub__rebind(Bc__V1__Runtime_Service *service, const Bc__V1__RebindRequest *request,
        Bc__V1__RebindReply_Closure closure, void *closure_data)
{
	struct stub_runtime *stub = stub_of(service);
	struct stub_domain *domain = stub_runtime_domain(stub, request->id);
	Bc__V1__RebindReply reply = BC__V1__REBIND_REPLY__INIT;

	stub_log(stub, "rebind", request->id);
	if (stub_intercept(stub, STUB_REBIND, rpc_call_of(closure_data), request->id))
		return;
	assert(domain);
	(void)snprintf(domain->rebound_ref, sizeof(domain->rebound_ref), "%s", request->ref);
	(void)snprintf(domain->rebind_payload, sizeof(domain->rebind_payload), "%.*s",
	        (int)request->payload.len, (char *)request->payload.data);
	reply.identity_rebound_ref = domain->rebound_ref;
	closure(&reply, closure_data);
	stub_runtime_tell(stub, domain);
}

#define NOT_SERVED(method, Request, Reply)                                                                   \
	static void stub__##method(Bc__V1__Runtime_Service *service, const Bc__V1__##Request *request,       \
	        Bc__V1__##Reply##_Closure closure, void *closure_data)                                       \
	{                                                                                                    \
		(void)service;                                                                               \
		(void)request;                                                                               \
		(void)closure;                                                                               \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED, "not in the stub");           \
	}
NOT_SERVED(get_balloon, BalloonRequest, BalloonReply)
NOT_SERVED(set_balloon, SetBalloonRequest, BalloonReply)

void stub_runtime_revive(struct stub_runtime *stub)
{
	assert(!stub->server);
	stub->server = stub_door_open(stub->loop, stub->path, &stub->service.base);
}

struct stub_runtime *stub_runtime_new(struct loop *loop, const char *path, const char *id)
{
	static const Bc__V1__Runtime_Service service = BC__V1__RUNTIME__INIT(stub__);
	struct stub_runtime *stub = calloc(1, sizeof(*stub));

	assert(stub);
	stub->service = service;
	stub->loop = loop;
	stub->code = GRPC_STATUS_INTERNAL;
	(void)snprintf(stub->path, sizeof(stub->path), "%s", path);
	(void)snprintf(stub->id, sizeof(stub->id), "%s", id);
	stub_runtime_revive(stub);
	return stub;
}

void stub_runtime_release(struct stub_runtime *stub)
{
	while (stub->n_held) {
		struct rpc_call *call = stub->held[--stub->n_held];

		if (stub->held_methods[stub->n_held] == STUB_LIST)
			list_answer(stub, call);
		else
			rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "released");
		rpc_call_unref(call);
	}
}

void stub_runtime_kill(struct stub_runtime *stub)
{
	if (!stub->server)
		return;
	stub_runtime_release(stub);
	stub->server = stub_door_close(stub->loop, stub->path, stub->server);
}

struct stub_runtime *stub_runtime_free(struct stub_runtime *stub)
{
	if (!stub)
		return NULL;
	stub_runtime_kill(stub);
	free(stub);
	return NULL;
}
