#include "cli/node_status.h"

#include "lib/base/ids.h"
#include "lib/base/quote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int instances_compare(const void *a, const void *b)
{
	return strcmp((*(Bc__V1__InstanceStatus *const *)a)->id, (*(Bc__V1__InstanceStatus *const *)b)->id);
}

static int volumes_compare(const void *a, const void *b)
{
	return strcmp((*(Bc__V1__VolumeStatus *const *)a)->id, (*(Bc__V1__VolumeStatus *const *)b)->id);
}

/* Two looks at the same things show them in the same order. */
static void node_status_sort(Bc__V1__NodeStatus *status)
{
	if (status->n_instances)
		qsort(status->instances, status->n_instances, sizeof(*status->instances), instances_compare);
	if (status->n_volumes)
		qsort(status->volumes, status->n_volumes, sizeof(*status->volumes), volumes_compare);
}

/* A status that came in a part of the whole. */
struct part {
	Bc__V1__InstanceStatus *status; /* owned */
	size_t order;
};

struct parts {
	struct part *items; /* owned */
	size_t n, n_room;
	bool no_memory, is_whole;
};

static void parts_done(struct parts *parts)
{
	for (size_t i = 0; i < parts->n; i++)
		if (parts->items[i].status)
			bc__v1__instance_status__free_unpacked(parts->items[i].status, NULL);
	free(parts->items);
}

/* A copy: the delta goes. */
static Bc__V1__InstanceStatus *status_copy(const Bc__V1__InstanceStatus *status)
{
	CLEANUP_FREE uint8_t *bytes = malloc(bc__v1__instance_status__get_packed_size(status) + 1);

	return bytes
	        ? bc__v1__instance_status__unpack(NULL, bc__v1__instance_status__pack(status, bytes), bytes)
	        : NULL;
}

static bool parts_add(struct parts *parts, const Bc__V1__InstanceStatus *status)
{
	if (parts->n == parts->n_room) {
		size_t n_room = parts->n_room ? 2 * parts->n_room : 1024;
		struct part *items = reallocarray(parts->items, n_room, sizeof(*items));

		if (!items)
			return false;
		parts->items = items;
		parts->n_room = n_room;
	}
	parts->items[parts->n] = (struct part){ .status = status_copy(status), .order = parts->n };
	return parts->items[parts->n++].status != NULL;
}

static bool on_part(const ProtobufCMessage *message, void *userdata)
{
	struct parts *parts = userdata;
	const Bc__V1__StatusDelta *delta = (const Bc__V1__StatusDelta *)message;

	for (size_t i = 0; i < delta->n_instances && !parts->no_memory; i++)
		parts->no_memory = !parts_add(parts, delta->instances[i]);
	parts->is_whole = delta->synced;
	return !parts->is_whole && !parts->no_memory;
}

/* By id, and of one instance the newest first. */
static int part_compare(const void *a, const void *b)
{
	const struct part *one = a, *other = b;
	int r = strcmp(one->status->id, other->status->id);

	return r ? r : (one->order < other->order) - (one->order > other->order);
}

/* What changed while the parts came stands in them twice, and what went is no part of the whole. */
static size_t parts_take(struct parts *parts, Bc__V1__InstanceStatus **ret)
{
	const char *last = "";
	size_t n = 0;

	qsort(parts->items, parts->n, sizeof(*parts->items), part_compare);
	for (size_t i = 0; i < parts->n; i++) {
		const Bc__V1__InstanceStatus *status = parts->items[i].status;
		bool is_newest = strcmp(status->id, last) != 0;

		last = status->id;
		if (is_newest && status->state != BC__V1__INSTANCE_STATUS__STATE__REMOVED)
			ret[n++] = parts->items[i].status;
	}
	return n;
}

/* Puts the parts in the place of the one instance that status is about. */
static int parts_join(struct parts *parts, Bc__V1__NodeStatus *status)
{
	Bc__V1__InstanceStatus **all = calloc(parts->n + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < status->n_instances; i++)
		bc__v1__instance_status__free_unpacked(status->instances[i], NULL);
	free(status->instances);
	status->instances = all;
	status->n_instances = parts_take(parts, all);
	for (size_t i = 0, k = 0; i < parts->n && k < status->n_instances; i++)
		if (parts->items[i].status == all[k]) {
			parts->items[i].status = NULL;
			k++;
		}
	return 0;
}

/* All instances are more than one message can hold: they come as a watcher gets them, the rest with one of them. */
static int node_status_get_in_parts(struct door *door, Bc__V1__NodeStatus **ret)
{
	struct parts parts __attribute__((cleanup(parts_done))) = { 0 };
	const struct door_stream stream = { .on_message = on_part, .userdata = &parts };
	Bc__V1__WatchStatusRequest watch = BC__V1__WATCH_STATUS_REQUEST__INIT;
	Bc__V1__GetStatusRequest one = BC__V1__GET_STATUS_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	struct rpc_status status = { 0 };
	int r = door_stream(door, DOOR_METHOD(Converger, watch_status), &watch.base, door->cli->timeout_usec,
	        &stream, &status);

	if (r != EXIT_OK)
		return door_failed(door, &status);
	if (!parts.is_whole || parts.n == 0)
		return cli_fail(door->cli, EXIT_FAILED, "%s",
		        parts.no_memory ? "out of memory" : "the converger did not tell all of its status");
	one.instance_id = parts.items[0].status->id;
	r = door_call(door, DOOR_METHOD(Converger, get_status), &one.base, &reply);
	if (r != EXIT_OK)
		return r;
	if (parts_join(&parts, (Bc__V1__NodeStatus *)reply) < 0)
		return cli_fail(door->cli, EXIT_FAILED, "out of memory");
	*ret = (Bc__V1__NodeStatus *)TAKE_PTR(reply);
	return EXIT_OK;
}

int node_status_get(struct door *door, const char *instance_id, Bc__V1__NodeStatus **ret)
{
	Bc__V1__GetStatusRequest request = BC__V1__GET_STATUS_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	struct rpc_status status = { 0 };
	int r = EXIT_OK;

	request.instance_id = (char *)(uintptr_t)instance_id;
	if (door_try(door, DOOR_METHOD(Converger, get_status), &request.base, door->cli->timeout_usec, &reply,
	            &status) == 0)
		*ret = (Bc__V1__NodeStatus *)reply;
	else if (status.code == GRPC_STATUS_RESOURCE_EXHAUSTED && !*instance_id)
		r = node_status_get_in_parts(door, ret);
	else
		r = door_failed(door, &status);
	if (r == EXIT_OK)
		node_status_sort(*ret);
	return r;
}

int node_get(struct door *door, bool with_spec, Bc__V1__GetNodeReply **ret)
{
	Bc__V1__GetNodeRequest request = BC__V1__GET_NODE_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;

	request.with_spec = with_spec;
	int r = door_call(door, DOOR_METHOD(Converger, get_node), &request.base, &reply);

	if (r == EXIT_OK)
		*ret = (Bc__V1__GetNodeReply *)reply;
	return r;
}

const Bc__V1__InstanceStatus *node_status_find(
        struct cli *cli, const Bc__V1__NodeStatus *status, const char *id, int *ret_code)
{
	const Bc__V1__InstanceStatus *found = NULL;
	size_t n_found = 0, n = strlen(id);

	for (size_t i = 0; i < status->n_instances; i++) {
		const Bc__V1__InstanceStatus *instance = status->instances[i];

		if (strcmp(instance->id, id) == 0)
			return instance;
		if (strncmp(instance->id, id, n) == 0) {
			found = instance;
			n_found++;
		}
	}
	if (n_found == 1)
		return found;
	if (n_found > 1)
		*ret_code = cli_fail(cli, EXIT_USAGE,
		        "'%s' begins the ids of %zu instances; write more of it", QUOTED(id), n_found);
	else
		*ret_code =
		        cli_fail(cli, EXIT_NOT_FOUND, "there is no instance '%s' on this node", QUOTED(id));
	return NULL;
}

int instance_id_resolve(struct door *door, const char *id, char *ret, size_t size)
{
	Bc__V1__NodeStatus *status = NULL;
	int r = EXIT_OK;

	if (uuid_is_valid(id)) {
		(void)snprintf(ret, size, "%s", id);
		return EXIT_OK;
	}
	r = node_status_get(door, "", &status);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__InstanceStatus *found = node_status_find(door->cli, status, id, &r);

	if (found)
		(void)snprintf(ret, size, "%s", found->id);
	bc__v1__node_status__free_unpacked(status, NULL);
	return r;
}
