/* DEFINE: a runtime is told all of an instance, with what the stores, netd and the control plane have for it. */
#include "svc-converger/operation_steps.h"

#include "lib/base/tap_name.h"
#include "lib/net/port_map.h"

#include <stdio.h>
#include <string.h>

static void on_defined(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct operation *op = owner;
	const Bc__V1__EnsureReply *ensured = (const Bc__V1__EnsureReply *)reply;

	secrets_forget(op->c->secrets, op->instance->id);
	if (status->code != GRPC_STATUS_OK) {
		operation_fail_status(op, status);
		return;
	}
	if (ensured->domain)
		runtime_link_learn(op->runtime, op->instance->id, ensured->domain);
	if (op->instance->attempt)
		op->instance->attempt->is_defined = true;
	operation_succeed(op);
}

/* Everything an Ensure rests on; texts point into the operation, the stores or these arrays. */
struct define {
	Bc__V1__EnsureRequest request;
	Bc__V1__NicPorts ports[TAP_INDEX_COUNT];
	Bc__V1__NicPorts *port_pointers[TAP_INDEX_COUNT];
	Bc__V1__PortMapping *mappings[256];
	Bc__V1__VolumePath volumes[USES_MAX];
	Bc__V1__VolumePath *volume_pointers[USES_MAX];
	char volume_paths[USES_MAX][512];
	Bc__V1__Gpu *gpus[64];
	Bc__V1__NodeSpec *node; /* owned; for the GPUs */
	char image_path[512], restore_path[512], key[80];
};

/* Which mappings are the VMM's to forward: those that resolve to a user-mode NIC. */
static void define_ports(struct define *d, const Bc__V1__InstanceSpec *spec)
{
	size_t n_mappings = 0;

	for (uint32_t nic = 0; nic < spec->n_nics && nic < TAP_INDEX_COUNT; nic++) {
		Bc__V1__NicPorts *ports = &d->ports[d->request.n_ports];

		if (spec->nics[nic]->attachment_case != BC__V1__NIC__ATTACHMENT_USER)
			continue;
		bc__v1__nic_ports__init(ports);
		ports->nic_index = nic;
		ports->mappings = &d->mappings[n_mappings];
		for (size_t i = 0; i < spec->n_port_mappings && n_mappings < ARRAY_SIZE(d->mappings); i++) {
			uint32_t resolved;

			if (port_map_resolve(spec, spec->port_mappings[i], &resolved, NULL) < 0 ||
			        resolved != nic)
				continue;
			d->mappings[n_mappings++] = spec->port_mappings[i];
			ports->n_mappings++;
		}
		if (ports->n_mappings)
			d->port_pointers[d->request.n_ports++] = ports;
	}
	d->request.ports = d->port_pointers;
}

static int define_volumes(struct define *d, struct operation *op, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = op->spec;

	for (size_t i = 0; i < spec->n_volumes && i < USES_MAX; i++) {
		Bc__V1__VolumePath *path = &d->volumes[i];
		struct volume_info info;

		if (volume_store_get(op->c->volumes, spec->volumes[i]->volume_id, &info) < 0 || !info.exists)
			return err_set(err, -ENOENT, "volume %s is gone", spec->volumes[i]->volume_id);
		bc__v1__volume_path__init(path);
		(void)snprintf(d->volume_paths[i], sizeof(d->volume_paths[i]), "%s", info.path);
		path->volume_id = spec->volumes[i]->volume_id;
		path->path = d->volume_paths[i];
		path->serial = spec->volumes[i]->serial;
		path->read_only = spec->volumes[i]->read_only;
		path->size_bytes = info.size_bytes;
		d->volume_pointers[i] = path;
		d->request.n_volumes = i + 1;
	}
	d->request.volumes = d->volume_pointers;
	return 0;
}

static int define_gpus(struct define *d, struct operation *op)
{
	const Bc__V1__InstanceSpec *spec = op->spec;

	if (!spec->n_gpu_device_ids || !op->c->n_node)
		return 0;
	d->node = bc__v1__node_spec__unpack(NULL, op->c->n_node, op->c->node);
	if (!d->node)
		return -ENOMEM;
	for (size_t i = 0; i < d->node->n_gpus; i++)
		for (size_t k = 0; k < spec->n_gpu_device_ids && d->request.n_gpus < ARRAY_SIZE(d->gpus); k++)
			if (strcmp(d->node->gpus[i]->id, spec->gpu_device_ids[k]) == 0)
				d->gpus[d->request.n_gpus++] = d->node->gpus[i];
	d->request.gpus = d->gpus;
	return 0;
}

static int define_sources(struct define *d, struct operation *op, bool is_new, struct err *err)
{
	const Bc__V1__InstanceSpec *spec = op->spec;

	if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE) {
		struct image image;
		int r = image_store_want(op->c->images, spec->boot->image, &image, err);

		if (r < 0)
			return err_set(err, r, "the image is not there any more");
		(void)snprintf(d->image_path, sizeof(d->image_path), "%s", image.download.path);
		d->request.image_path = d->image_path;
	}
	if (!spec->restore_from)
		return 0;
	d->request.restored_from = spec->restore_from->digest;
	if (is_new) {
		struct download_status status;
		struct download_source source = { .digest = spec->restore_from->digest,
			.url = spec->restore_from->url,
			.size_bytes = spec->restore_from->size_bytes };
		int r = snapshot_store_want(op->c->snapshots, &source, &status);

		if (r < 0)
			return err_set(err, r, "the snapshot is not there any more");
		(void)snprintf(d->restore_path, sizeof(d->restore_path), "%s", status.path);
		d->request.restore_path = d->restore_path;
	}
	return 0;
}

static int define_fill(struct define *d, struct operation *op, bool is_new, struct err *err)
{
	struct attempt *attempt = op->instance->attempt;
	int r;

	bc__v1__ensure_request__init(&d->request);
	(void)snprintf(d->key, sizeof(d->key), "instance:%s:apply:%s", op->instance->id,
	        operation_state_word(op->spec->desired_state));
	d->request.idempotency_key = d->key;
	d->request.spec = op->spec;
	d->request.nics = attempt->nics;
	d->request.n_nics = attempt->n_nics;
	define_ports(d, op->spec);
	r = define_sources(d, op, is_new, err);
	if (r == 0)
		r = define_volumes(d, op, err);
	if (r == 0)
		r = define_gpus(d, op);
	return r;
}

void operation_define(struct operation *op, bool is_new)
{
	struct define *d = calloc(1, sizeof(*d));
	struct err err = { 0 };
	struct secret *secret = secrets_take(
	        op->c->secrets, op->instance->id, op->spec->allocation_id, op->spec->user_data_ref);
	int r = d && op->instance->attempt ? define_fill(d, op, is_new, &err) : -ENOMEM;

	if (r == 0) {
		if (secret)
			d->request.user_data = (ProtobufCBinaryData){ .len = secret_size(secret),
				.data = (uint8_t *)secret_data(secret) };
		r = call_unary(&op->call, runtime_link_channel(op->runtime), RUNTIME(ensure),
		        &d->request.base, op->c->options.change_timeout_usec, on_defined, op);
	}
	secret_free(secret);
	if (d && d->node)
		bc__v1__node_spec__free_unpacked(d->node, NULL);
	free(d);
	if (r < 0)
		operation_fail_err(op, r, &err);
}
