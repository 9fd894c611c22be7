/* Requests to the fake's own words and back: the handlers of bc.v1.Runtime. */
#include "svc-runtime-fake/console.h"
#include "svc-runtime-fake/fake.h"
#include "svc-runtime-fake/snapshot.h"
#include "svc-runtime-fake/unary.h"
#include "svc-runtime-fake/watch.h"

#include "lib/base/quote.h"
#include "lib/rpc/intake.h"
#include "lib/text/proto_write.h"

#include <string.h>
#include <unistd.h>

/* An answer on the heap, with its defaults. It is the caller's even when what follows fails. */
static int answer_new(const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret)
{
	*ret = message_new(type);
	return *ret ? 0 : -ENOMEM;
}

/* --- Describe --- */

static int texts_add(size_t *n, char ***texts, const char *const *from, size_t n_from)
{
	char **grown = reallocarray(*texts, *n + n_from, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*texts = grown;
	for (size_t i = 0; i < n_from; i++, (*n)++) {
		grown[*n] = strdup(from[i]);
		if (!grown[*n])
			return -ENOMEM;
	}
	return 0;
}

static int describe_fill(const struct fake *fake, Bc__V1__DescribeReply *reply)
{
	static const char *const FEATURES[] = { "snapshot", "snapshot.memory", "console", "rebind",
		"grow-volume", "balloon", "gpu", "macvtap", "user-nic", "placement", "dry-run",
		"self-admitting" };
	size_t n_features = ARRAY_SIZE(FEATURES) - !fake->conf.self_admitting;

	reply->vmm_uid = getuid();
	reply->vmm_gid = getgid();
	if (message_text_set(&reply->id, fake->conf.id) < 0 ||
	        message_text_set(&reply->version, BC_VERSION) < 0 ||
	        message_text_set(&reply->accel_reason, "the fake runs no VM") < 0 ||
	        message_text_set(&reply->cpu_model, fake->conf.cpu_model) < 0 ||
	        message_text_set(&reply->hypervisor_version, BC_VERSION) < 0)
		return -ENOMEM;
	return texts_add(&reply->n_features, &reply->features, FEATURES, n_features);
}

static int run_describe(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	int r = answer_new(&bc__v1__describe_reply__descriptor, ret);

	(void)err;
	return r < 0 ? r : describe_fill(c->fake, (Bc__V1__DescribeReply *)*ret);
}

/* --- what changes a domain: the rules say how, and it is kept unless the answer is to be a lie --- */

/* Empties *next. */
static int record_keep(const struct unary_context *c, record **next, struct err *err)
{
	return c->keep ? fake_put(c->fake, TAKE_PTR(*next), err) : 0;
}

static const char *ensure_id(const ProtobufCMessage *request)
{
	const Bc__V1__EnsureRequest *ensure = (const Bc__V1__EnsureRequest *)request;

	return ensure->spec ? ensure->spec->id : "";
}

static int ensure_fill(const record *next, bool dry_run, Bc__V1__EnsureReply *reply)
{
	char *definition;

	reply->domain = (Bc__V1__Domain *)message_copy(&next->domain->base);
	if (!reply->domain)
		return -ENOMEM;
	if (!dry_run)
		return 0;
	int r = proto_write_json(&next->base, PROTO_WRITE_INDENT, &definition);
	if (r == 0)
		reply->definition = definition;
	return r;
}

static int run_ensure(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__EnsureRequest *request = (const Bc__V1__EnsureRequest *)c->request;
	struct rules rules = fake_rules(c->fake);
	CLEANUP_RECORD record *next = NULL;

	int r = rules_ensure(&rules, domains_get(c->fake->domains, ensure_id(c->request)), request,
	        c->restored, &next, err);
	if (r == 0)
		r = answer_new(&bc__v1__ensure_reply__descriptor, ret);
	if (r == 0)
		r = ensure_fill(next, request->dry_run, (Bc__V1__EnsureReply *)*ret);
	return r < 0 || request->dry_run ? r : record_keep(c, &next, err);
}

static const char *set_state_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__SetStateRequest *)request)->id;
}

static int run_set_state(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__SetStateRequest *request = (const Bc__V1__SetStateRequest *)c->request;
	struct rules rules = fake_rules(c->fake);
	CLEANUP_RECORD record *next = NULL;

	int r = rules_set_state(
	        &rules, c->fake->domains, domains_get(c->fake->domains, request->id), request, &next, err);
	if (r < 0)
		return r;
	*ret = message_copy(&next->domain->base);
	return *ret ? record_keep(c, &next, err) : -ENOMEM;
}

static const char *remove_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__RuntimeRemoveRequest *)request)->id;
}

static int run_remove(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__RuntimeRemoveRequest *request = (const Bc__V1__RuntimeRemoveRequest *)c->request;
	const record *current = domains_get(c->fake->domains, request->id);

	int r = rules_check_remove(current, request, err);
	if (r == 0)
		r = answer_new(&bc__v1__runtime_remove_reply__descriptor, ret);
	if (r < 0 || !current)
		return r;
	((Bc__V1__RuntimeRemoveReply *)*ret)->existed = true;
	return c->keep ? fake_remove(c->fake, request->id, err) : 0;
}

static const char *rebind_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__RebindRequest *)request)->id;
}

static int run_rebind(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__RebindRequest *request = (const Bc__V1__RebindRequest *)c->request;
	CLEANUP_RECORD record *next = NULL;

	int r = rules_rebind(domains_get(c->fake->domains, request->id), request, &next, err);
	if (r == 0)
		r = answer_new(&bc__v1__rebind_reply__descriptor, ret);
	if (r == 0)
		r = message_text_set(&((Bc__V1__RebindReply *)*ret)->identity_rebound_ref, request->ref);
	return r < 0 ? r : record_keep(c, &next, err);
}

static const char *grow_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__GrowVolumeRequest *)request)->id;
}

static int run_grow_volume(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__GrowVolumeRequest *request = (const Bc__V1__GrowVolumeRequest *)c->request;
	CLEANUP_RECORD record *next = NULL;

	int r = rules_grow_volume(domains_get(c->fake->domains, request->id), request, &next, err);
	if (r == 0)
		r = answer_new(&bc__v1__grow_volume_reply__descriptor, ret);
	if (r < 0)
		return r;
	((Bc__V1__GrowVolumeReply *)*ret)->size_bytes = request->size_bytes;
	return record_keep(c, &next, err);
}

static const char *set_balloon_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__SetBalloonRequest *)request)->id;
}

static int run_set_balloon(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const Bc__V1__SetBalloonRequest *request = (const Bc__V1__SetBalloonRequest *)c->request;
	CLEANUP_RECORD record *next = NULL;

	int r = rules_set_balloon(domains_get(c->fake->domains, request->id), request, &next, err);
	if (r == 0)
		r = answer_new(&bc__v1__balloon_reply__descriptor, ret);
	if (r < 0)
		return r;
	rules_balloon(next, (Bc__V1__BalloonReply *)*ret);
	return record_keep(c, &next, err);
}

/* --- what only looks --- */

static const char *get_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__RuntimeGetRequest *)request)->id;
}

static int run_get(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const char *id = get_id(c->request);
	const record *current = domains_get(c->fake->domains, id);
	Bc__V1__Domain *domain = NULL;

	/* The id of an unmanaged domain may be any name. */
	if (!id[0])
		return err_set(err, -EINVAL, "id: is missing");
	int r = current ? fake_tell(c->fake, "Get.domain", current, &domain) : 0;
	if (r < 0)
		return r;
	if (!domain)
		return err_set(err, -ENOENT, "there is no domain '%s'", QUOTED(id));
	*ret = &domain->base;
	return 0;
}

static int list_fill(struct fake *fake, Bc__V1__RuntimeListReply *reply)
{
	struct change_cursor cursor;
	const record *current;
	const char *id;
	int r = 0;

	reply->domains = calloc(domains_count(fake->domains) + 1, sizeof(*reply->domains));
	if (!reply->domains)
		return -ENOMEM;
	change_cursor_init(&cursor, fake->domains);
	while (r == 0 && change_cursor_next(&cursor, &id, &current)) {
		Bc__V1__Domain *domain = NULL;

		if (current)
			r = fake_tell(fake, "List.domain", current, &domain);
		if (domain)
			reply->domains[reply->n_domains++] = domain;
	}
	change_cursor_done(&cursor);
	return r;
}

static int run_list(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	int r = answer_new(&bc__v1__runtime_list_reply__descriptor, ret);

	if (r == 0)
		r = list_fill(c->fake, (Bc__V1__RuntimeListReply *)*ret);
	if (r == 0 && protobuf_c_message_get_packed_size(*ret) > RPC_WIRE_MAX)
		return err_set(err, -ENOSPC, "%zu domains do not fit in one answer; use Watch",
		        domains_count(c->fake->domains));
	return r;
}

static const char *balloon_id(const ProtobufCMessage *request)
{
	return ((const Bc__V1__BalloonRequest *)request)->id;
}

static int run_get_balloon(const struct unary_context *c, ProtobufCMessage **ret, struct err *err)
{
	const char *id = balloon_id(c->request);
	const record *current = domains_get(c->fake->domains, id);

	int r = rules_check_running(current, id, err);
	if (r == 0)
		r = answer_new(&bc__v1__balloon_reply__descriptor, ret);
	if (r == 0)
		rules_balloon(current, (Bc__V1__BalloonReply *)*ret);
	return r;
}

/* --- the table --- */

static const struct unary_op DESCRIBE = { .method = "Describe", .run = run_describe };
static const struct unary_op ENSURE = {
	.method = "Ensure", .id_of = ensure_id, .run = run_ensure, .changes = true
};
static const struct unary_op SET_STATE = {
	.method = "SetState", .id_of = set_state_id, .run = run_set_state, .changes = true
};
static const struct unary_op REMOVE = {
	.method = "Remove", .id_of = remove_id, .run = run_remove, .changes = true
};
static const struct unary_op GET = { .method = "Get", .id_of = get_id, .run = run_get };
static const struct unary_op LIST = { .method = "List", .run = run_list };
static const struct unary_op REBIND = {
	.method = "Rebind", .id_of = rebind_id, .run = run_rebind, .changes = true
};
static const struct unary_op GROW_VOLUME = {
	.method = "GrowVolume", .id_of = grow_id, .run = run_grow_volume, .changes = true
};
static const struct unary_op GET_BALLOON = {
	.method = "GetBalloon", .id_of = balloon_id, .run = run_get_balloon
};
static const struct unary_op SET_BALLOON = {
	.method = "SetBalloon", .id_of = set_balloon_id, .run = run_set_balloon, .changes = true
};

#define FAKE_OF(service) CONTAINER_OF(service, struct fake, service)

/* Each handler has a type of its own; all do the same. */
#define UNARY(name, request_type, reply_type, op)                                                            \
	static void runtime__##name(Bc__V1__Runtime_Service *service, const request_type *request,           \
	        reply_type##_Closure reply, void *closure_data)                                              \
	{                                                                                                    \
		(void)reply;                                                                                 \
		unary_serve(FAKE_OF(service), &(op), &request->base, closure_data);                          \
	}

UNARY(describe, Bc__V1__DescribeRequest, Bc__V1__DescribeReply, DESCRIBE)
UNARY(ensure, Bc__V1__EnsureRequest, Bc__V1__EnsureReply, ENSURE)
UNARY(set_state, Bc__V1__SetStateRequest, Bc__V1__Domain, SET_STATE)
UNARY(remove, Bc__V1__RuntimeRemoveRequest, Bc__V1__RuntimeRemoveReply, REMOVE)
UNARY(get, Bc__V1__RuntimeGetRequest, Bc__V1__Domain, GET)
UNARY(list, Bc__V1__RuntimeListRequest, Bc__V1__RuntimeListReply, LIST)
UNARY(rebind, Bc__V1__RebindRequest, Bc__V1__RebindReply, REBIND)
UNARY(grow_volume, Bc__V1__GrowVolumeRequest, Bc__V1__GrowVolumeReply, GROW_VOLUME)
UNARY(get_balloon, Bc__V1__BalloonRequest, Bc__V1__BalloonReply, GET_BALLOON)
UNARY(set_balloon, Bc__V1__SetBalloonRequest, Bc__V1__BalloonReply, SET_BALLOON)

static void runtime__watch(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeWatchRequest *request,
        Bc__V1__DomainEvent_Closure reply, void *closure_data)
{
	struct fake *fake = FAKE_OF(service);
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)request;
	(void)reply;
	if (!stream_is_faulted(fake, "Watch", "", call))
		watchers_add(fake->watchers, call);
}

static void runtime__snapshot(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeSnapshotRequest *request,
        Bc__V1__RuntimeSnapshotEvent_Closure reply, void *closure_data)
{
	struct fake *fake = FAKE_OF(service);
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)reply;
	if (uuid_is_valid(request->id))
		rpc_call_set_subject(call, request->id);
	if (!stream_is_faulted(fake, "Snapshot", request->id, call))
		snapshot_serve(fake, request, call);
}

static void runtime__console(Bc__V1__Runtime_Service *service, const Bc__V1__ConsoleInput *request,
        Bc__V1__ConsoleOutput_Closure reply, void *closure_data)
{
	struct fake *fake = FAKE_OF(service);
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)request;
	(void)reply;
	if (!stream_is_faulted(fake, "Console", "", call))
		consoles_serve(fake->consoles, call);
}

void fake_service_init(struct fake *fake)
{
	fake->service = (Bc__V1__Runtime_Service)BC__V1__RUNTIME__INIT(runtime__);
}
