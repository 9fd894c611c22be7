/* The handlers of bc.v1.Runtime. What a plugin never has is answered here. */
#include "svc-runtime-plugin/plugin.h"

#include "lib/base/quote.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN_OF(service_) ((struct plugin *)(service_))

/* --- Describe --- */

static gid_t gid_of(uid_t uid)
{
	const struct passwd *user = uid == getuid() ? NULL : getpwuid(uid);

	return user ? user->pw_gid : getgid();
}

static void runtime__describe(Bc__V1__Runtime_Service *service, const Bc__V1__DescribeRequest *request,
        Bc__V1__DescribeReply_Closure reply, void *closure_data)
{
	struct plugin *plugin = PLUGIN_OF(service);
	Bc__V1__DescribeReply answer = BC__V1__DESCRIBE_REPLY__INIT;
	char *features[PLUGIN_FEATURES_MAX + 1];

	(void)request;
	for (size_t i = 0; i < plugin->conf.features.n && i < PLUGIN_FEATURES_MAX; i++)
		features[answer.n_features++] = plugin->conf.features.items[i];
	features[answer.n_features++] = (char[]){ "dry-run" };
	answer.features = features;
	answer.id = plugin->conf.id;
	answer.version = plugin->conf.version;
	answer.vmm_uid = plugin->conf.vmm_user.n ? plugin->conf.vmm_user.items[0] : getuid();
	answer.vmm_gid = gid_of(answer.vmm_uid);
	answer.accel_reason = (char[]){ "a plugin" };
	answer.cpu_model = (char[]){ "unknown" };
	answer.hypervisor_version = plugin->conf.version;
	reply(&answer, closure_data);
}

/* --- what needs the plugin --- */

static bool plugin_answers(struct plugin *plugin, struct rpc_call *call)
{
	if (plugin->is_known)
		return true;
	rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "%s", plugin->why);
	return false;
}

static void do_ensure(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	if (plugin_answers(plugin, call))
		op_ensure(plugin, call, request);
}

static void do_set_state(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	if (plugin_answers(plugin, call))
		op_apply(plugin, call, request);
}

static void do_remove(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	if (plugin_answers(plugin, call))
		op_remove(plugin, call, request);
}

static void do_get(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	const Bc__V1__RuntimeGetRequest *get = request;
	struct guest *guest = guests_find(&plugin->guests, get->id);
	Bc__V1__Domain *domain;
	struct err err = { 0 };
	int r = uuid_check("id", get->id, &err);

	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (!plugin_answers(plugin, call))
		return;
	if (!guest || !guest->version) {
		rpc_fail(call, GRPC_STATUS_NOT_FOUND, "there is no domain %s", get->id);
		return;
	}
	domain = guest_message(guest);
	if (!domain) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	rpc_reply(call, &domain->base);
	bc__v1__domain__free_unpacked(domain, NULL);
}

/* What is known now; the plugin is asked often enough. */
static void do_list(struct plugin *plugin, struct rpc_call *call, const void *request)
{
	Bc__V1__RuntimeListReply reply = BC__V1__RUNTIME_LIST_REPLY__INIT;
	struct guest *guest;
	bool is_whole = true;

	(void)request;
	if (!plugin_answers(plugin, call))
		return;
	reply.domains = calloc(plugin->guests.n + 1, sizeof(*reply.domains));
	TAILQ_FOREACH(guest, &plugin->guests.list, link)
	{
		if (guest->is_gone || !guest->version || !reply.domains)
			continue;
		reply.domains[reply.n_domains] = guest_message(guest);
		is_whole &= reply.domains[reply.n_domains] != NULL;
		reply.n_domains += reply.domains[reply.n_domains] != NULL;
	}
	if (reply.domains && is_whole)
		rpc_reply(call, &reply.base);
	else
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
	for (size_t i = 0; i < reply.n_domains; i++)
		bc__v1__domain__free_unpacked(reply.domains[i], NULL);
	free(reply.domains);
}

static void serve(Bc__V1__Runtime_Service *service, void *closure_data, const char *subject,
        void (*fn)(struct plugin *plugin, struct rpc_call *call, const void *request), const void *request)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	if (uuid_is_valid(subject))
		rpc_call_set_subject(call, subject);
	look_when_settled(PLUGIN_OF(service), call, fn, request);
}

#define SERVE(name_, request_, reply_, subject_, fn_)                                                        \
	static void runtime__##name_(Bc__V1__Runtime_Service *service, const request_ *request,              \
	        reply_##_Closure reply, void *closure_data)                                                  \
	{                                                                                                    \
		(void)reply;                                                                                 \
		serve(service, closure_data, (subject_), (fn_), request);                                    \
	}
SERVE(ensure, Bc__V1__EnsureRequest, Bc__V1__EnsureReply, request->spec ? request->spec->id : NULL, do_ensure)
SERVE(set_state, Bc__V1__SetStateRequest, Bc__V1__Domain, request->id, do_set_state)
SERVE(remove, Bc__V1__RuntimeRemoveRequest, Bc__V1__RuntimeRemoveReply, request->id, do_remove)
SERVE(get, Bc__V1__RuntimeGetRequest, Bc__V1__Domain, request->id, do_get)
SERVE(list, Bc__V1__RuntimeListRequest, Bc__V1__RuntimeListReply, NULL, do_list)
SERVE(watch, Bc__V1__RuntimeWatchRequest, Bc__V1__DomainEvent, NULL, watch_add)

/* --- what plugins do not have --- */

#define LACKS(name_, request_, reply_, what_)                                                                \
	static void runtime__##name_(Bc__V1__Runtime_Service *service, const request_ *request,              \
	        reply_##_Closure reply, void *closure_data)                                                  \
	{                                                                                                    \
		(void)request;                                                                               \
		(void)reply;                                                                                 \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED,                               \
		        "runtime %s is a plugin: it has no " what_, PLUGIN_OF(service)->conf.id);            \
	}
LACKS(snapshot, Bc__V1__RuntimeSnapshotRequest, Bc__V1__RuntimeSnapshotEvent, "snapshots")
LACKS(console, Bc__V1__ConsoleInput, Bc__V1__ConsoleOutput, "console")
LACKS(rebind, Bc__V1__RebindRequest, Bc__V1__RebindReply, "rebind disk")
LACKS(grow_volume, Bc__V1__GrowVolumeRequest, Bc__V1__GrowVolumeReply, "live growth of volumes")
LACKS(get_balloon, Bc__V1__BalloonRequest, Bc__V1__BalloonReply, "balloon")
LACKS(set_balloon, Bc__V1__SetBalloonRequest, Bc__V1__BalloonReply, "balloon")

void plugin_service_init(struct plugin *plugin)
{
	plugin->service = (Bc__V1__Runtime_Service)BC__V1__RUNTIME__INIT(runtime__);
}
