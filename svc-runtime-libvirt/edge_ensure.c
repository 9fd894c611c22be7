/* Ensure: what is asked for becomes a definition, then a dry run or the instance. */
#include "svc-runtime-libvirt/domain_message.h"
#include "svc-runtime-libvirt/domain_request.h"
#include "svc-runtime-libvirt/edge.h"
#include "svc-runtime-libvirt/lifecycle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ensure {
	struct rpc_call *call; /* owned: a reference, which keeps the request */
	struct seed seed;
	struct secret *user_data;   /* owned */
	struct seed_nic *seed_nics; /* owned */
};

static void ensure_free(struct ensure *ensure)
{
	ensure->user_data = secret_free(ensure->user_data);
	free(ensure->seed_nics);
	(void)rpc_call_unref(ensure->call);
	free(ensure);
}

/* Points into the request, but for the user data and the MACs, which come from the definition. */
static int make_seed(
        struct ensure *ensure, const Bc__V1__EnsureRequest *request, const struct domain_def *def)
{
	const Bc__V1__InstanceSpec *spec = request->spec;
	int r = secret_new_from(request->user_data.data, request->user_data.len, &ensure->user_data);

	if (r < 0)
		return r;
	ensure->seed_nics = calloc(def->n_nics + 1, sizeof(*ensure->seed_nics));
	if (!ensure->seed_nics)
		return -ENOMEM;
	for (size_t i = 0; i < def->n_nics; i++)
		ensure->seed_nics[i] = (struct seed_nic){
			.mac = def->nics[i].mac,
			.addresses = (const char *const *)spec->nics[i]->addresses,
			.n_addresses = spec->nics[i]->n_addresses,
			.gateways = (const char *const *)spec->nics[i]->gateways,
			.n_gateways = spec->nics[i]->n_gateways,
			.nameservers = (const char *const *)spec->nics[i]->nameservers,
			.n_nameservers = spec->nics[i]->n_nameservers,
		};
	ensure->seed = (struct seed){
		.instance_id = def->id,
		.allocation_id = def->allocation_id,
		/* it comes with the first call alone: later ones, without it, leave the seed as it is */
		.user_data = request->user_data.len || !spec->user_data_ref[0] ? ensure->user_data : NULL,
		.nics = ensure->seed_nics,
		.n_nics = def->n_nics,
	};
	for (size_t i = 0; i < spec->n_labels; i++)
		if (strcmp(spec->labels[i]->key, "hostname") == 0)
			ensure->seed.hostname = spec->labels[i]->value;
	return 0;
}

static void on_ensured(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct ensure *ensure = userdata;
	Bc__V1__EnsureReply answer = BC__V1__ENSURE_REPLY__INIT;

	if (r < 0 || !entry) {
		rpc_fail_err(ensure->call, r < 0 ? r : -ENOENT, err);
	} else {
		answer.domain = domain_message_new(entry);
		if (answer.domain)
			rpc_reply(ensure->call, &answer.base);
		else
			rpc_fail(ensure->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		domain_message_free(answer.domain);
	}
	ensure_free(ensure);
}

/* On a host that could not run it too: nothing is asked of libvirt. */
static void dry_run(struct runtime *runtime, const struct domain_def *def, struct rpc_call *call)
{
	CLEANUP_FREE char *xml = NULL;
	Bc__V1__EnsureReply answer = BC__V1__ENSURE_REPLY__INIT;
	Bc__V1__Domain domain = BC__V1__DOMAIN__INIT;
	struct err err = { 0 };
	char name[DOMAIN_NAME_MAX];

	int r = domain_xml_write(def, &runtime->host, &xml, &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	domain_name(def->id, name);
	domain.id = (char *)def->id;
	domain.name = name;
	domain.allocation_id = def->allocation_id;
	domain.managed = true;
	domain.state = BC__V1__DOMAIN__STATE__STOPPED;
	domain.vcpus = def->vcpus;
	domain.memory_bytes = def->memory_bytes;
	domain.huge_page_bytes = def->huge_page_bytes;
	domain.accel = (char *)(runtime->host.kvm ? "kvm" : "tcg");
	domain.spec_digest = (char *)def->spec_digest;
	answer.domain = &domain;
	answer.definition = xml;
	rpc_reply(call, &answer.base);
}

/* Consumes def. */
static void ensure_def(struct runtime *runtime, struct rpc_call *call, const Bc__V1__EnsureRequest *request,
        struct domain_def *def_consume)
{
	CLEANUP(domain_def) struct domain_def *def = def_consume;
	struct err err = { 0 };

	int r = domain_xml_digest(def, &runtime->host, &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (request->dry_run) {
		dry_run(runtime, def, call);
		return;
	}
	if (!edge_ready(runtime, call))
		return;
	struct ensure *ensure = calloc(1, sizeof(*ensure));
	if (!ensure) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	ensure->call = rpc_call_ref(call);
	r = make_seed(ensure, request, def);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		ensure_free(ensure);
		return;
	}
	const Bc__V1__RestoreFrom *restore = request->spec->restore_from;
	struct lifecycle_ensure what = {
		.def = TAKE_PTR(def),
		.seed = &ensure->seed,
		.restore_path = request->restore_path[0] ? request->restore_path : NULL,
		.restore_memory = restore && restore->with_memory,
	};
	lifecycle_ensure(runtime, &what, on_ensured, ensure);
}

/* --- GPUs whose address is to be found first: drivers are asked, so not on the loop --- */

struct gpu_job {
	struct job job;
	struct runtime *runtime;              /* weak */
	struct rpc_call *call;                /* owned: a reference, which keeps the request */
	const Bc__V1__EnsureRequest *request; /* weak */
	struct domain_def *def;               /* owned */
	int r;
	struct err err;
};

static void gpu_job_run(struct job *job)
{
	struct gpu_job *g = CONTAINER_OF(job, struct gpu_job, job);
	CLEANUP_FREE char *memory = NULL;
	struct gpu_paths paths;

	g->r = runtime_gpu_paths(g->runtime, &paths, &memory);
	if (g->r == 0)
		g->r = gpus_resolve(g->def, &paths, &g->err);
}

static void gpu_job_done(struct job *job)
{
	struct gpu_job *g = CONTAINER_OF(job, struct gpu_job, job);

	if (g->r < 0)
		rpc_fail_err(g->call, g->r, &g->err);
	else if (!rpc_call_is_cancelled(g->call))
		ensure_def(g->runtime, g->call, g->request, TAKE_PTR(g->def));
	(void)domain_def_free(g->def);
	(void)rpc_call_unref(g->call);
	free(g);
}

/* Consumes def. */
static void find_gpus(struct runtime *runtime, struct rpc_call *call, const Bc__V1__EnsureRequest *request,
        struct domain_def *def_consume)
{
	CLEANUP(domain_def) struct domain_def *def = def_consume;
	struct gpu_job *g = calloc(1, sizeof(*g));

	/* one key for all: the memory has one writer */
	if (g)
		*g = (struct gpu_job){ .job = { .run = gpu_job_run, .done = gpu_job_done, .key = "gpus" },
			.runtime = runtime,
			.call = call,
			.request = request,
			.def = def };
	if (!g || job_submit(runtime->looks, &g->job) < 0) {
		free(g);
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no room for another look at the GPUs");
		return;
	}
	(void)rpc_call_ref(call);
	(void)TAKE_PTR(def);
}

static void do_ensure(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__EnsureRequest *request = arg;
	CLEANUP(domain_def) struct domain_def *def = NULL;
	struct err err = { 0 };

	int r = domain_def_from_request(request, runtime->conf->instances_dir, &def, &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (!edge_key(call, def->id, request->idempotency_key, edge_apply_key(request->spec->desired_state)))
		return;
	rpc_call_set_subject(call, def->id);
	if (gpus_unresolved(def))
		find_gpus(runtime, call, request, TAKE_PTR(def));
	else
		ensure_def(runtime, call, request, TAKE_PTR(def));
}

void edge_ensure(Bc__V1__Runtime_Service *service, const Bc__V1__EnsureRequest *request,
        Bc__V1__EnsureReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_ensure, request);
}
