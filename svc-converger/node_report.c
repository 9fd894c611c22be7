#include "svc-converger/node_report.h"

#include "lib/base/atomic_file.h"
#include "lib/base/quote.h"
#include "svc-converger/intelligence_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static Bc__V1__DriverStatus__Reachability reachability_of(enum link_state state)
{
	switch (state) {
	case LINK_READY:
		return BC__V1__DRIVER_STATUS__REACHABILITY__READY;
	case LINK_WAITING:
	case LINK_TRYING:
	case LINK_BUSY:
		return BC__V1__DRIVER_STATUS__REACHABILITY__BUSY;
	case LINK_ABSENT:
		return BC__V1__DRIVER_STATUS__REACHABILITY__ABSENT;
	case LINK_REFUSED:
		return BC__V1__DRIVER_STATUS__REACHABILITY__REFUSED;
	case LINK_ERROR:
		break;
	}
	return BC__V1__DRIVER_STATUS__REACHABILITY__ERROR;
}

static Bc__V1__DriverStatus *reports_add(struct driver_reports *reports, const char *kind, const char *id,
        enum link_state state, const char *message)
{
	Bc__V1__DriverStatus *item = &reports->items[reports->n];

	bc__v1__driver_status__init(item);
	item->kind = (char *)kind;
	item->id = (char *)id;
	item->reachability = reachability_of(state);
	item->message = (char *)message;
	reports->pointers[reports->n++] = item;
	return item;
}

void driver_reports_init(const struct converger *c, struct driver_reports *ret)
{
	const Bc__V1__NetdHelloReply *hello = netd_link_hello(c->netd);
	const struct runtime_link *link;
	Bc__V1__DriverStatus *item;
	size_t cursor = 0;

	ret->n = 0;
	while ((link = runtimes_next(c->runtimes, &cursor))) {
		const Bc__V1__DescribeReply *description = runtime_link_description(link);
		const char *path = strrchr(runtime_link_path(link), '/') + 1;

		item = reports_add(ret, "runtime", description ? description->id : path,
		        runtime_link_state(link), runtime_link_message(link));
		if (!description)
			continue;
		item->version = description->version;
		item->n_features = description->n_features;
		item->features = description->features;
	}
	item = reports_add(ret, "netd", "netd", netd_link_state(c->netd), netd_link_message(c->netd));
	if (hello) {
		item->version = hello->version;
		item->n_features = hello->n_features;
		item->features = hello->features;
	}
	item = reports_add(ret, "intelligence", "intelligence", intelligence_link_state(c->intelligence),
	        intelligence_link_message(c->intelligence));
	item->version = (char *)intelligence_link_version(c->intelligence);
	if (c->dialled.endpoint)
		reports_add(ret, "control-plane", c->dialled.endpoint,
		        c->dialled.is_connected       ? LINK_READY
		                : *c->dialled.message ? LINK_ERROR
		                                      : LINK_TRYING,
		        c->dialled.message);
}

/* --- volumes --- */

struct volume_report {
	Bc__V1__VolumeStatus status;
	Bc__V1__VolumeUser *users; /* owned */
	char id[VOLUME_ID_MAX];
	char message[ERR_TEXT_MAX];
};

static void add_volume(const struct volume_info *info, void *userdata)
{
	struct volume_reports *reports = userdata;
	struct volume_report *report = calloc(1, sizeof(*report));

	if (reports->n == reports->n_max) {
		size_t n_max = reports->n_max ? reports->n_max * 2 : 8;
		Bc__V1__VolumeStatus **grown = reallocarray(reports->pointers, n_max, sizeof(*grown));

		if (!grown) {
			free(report);
			return;
		}
		reports->pointers = grown;
		reports->n_max = n_max;
	}
	if (!report)
		return;
	bc__v1__volume_status__init(&report->status);
	(void)snprintf(report->id, sizeof(report->id), "%s", info->id);
	quote_text(info->error.text, report->message, sizeof(report->message));
	report->status.id = report->id;
	report->status.message = report->message;
	report->status.reason =
	        (char *)(info->error.text[0] ? "VolumeFailed" : (info->busy ? "Working" : ""));
	report->status.size_bytes = info->size_bytes;
	report->status.allocated_bytes = info->allocated_bytes;
	report->status.claimed = info->wish != VOLUME_NO_OPINION;
	report->users = calloc(info->n_users + 1, sizeof(*report->users));
	report->status.users = calloc(info->n_users + 1, sizeof(Bc__V1__VolumeUser *));
	for (size_t i = 0; report->users && report->status.users && i < info->n_users; i++) {
		bc__v1__volume_user__init(&report->users[i]);
		report->users[i].instance_id = strdup(info->users[i].instance_id);
		report->users[i].read_only = info->users[i].read_only;
		report->status.users[report->status.n_users++] = &report->users[i];
	}
	reports->pointers[reports->n++] = &report->status;
}

int volume_reports_init(struct converger *c, const char *id, struct volume_reports *ret)
{
	struct volume_info info;

	*ret = (struct volume_reports){ 0 };
	if (!*id)
		volume_store_each(c->volumes, add_volume, ret);
	else if (volume_store_get(c->volumes, id, &info) == 0)
		add_volume(&info, ret);
	return 0;
}

void volume_reports_done(struct volume_reports *reports)
{
	for (size_t i = 0; i < reports->n; i++) {
		struct volume_report *report =
		        CONTAINER_OF(reports->pointers[i], struct volume_report, status);

		for (size_t k = 0; k < report->status.n_users; k++)
			free(report->users[k].instance_id);
		free(report->users);
		free(report->status.users);
		free(report);
	}
	free(reports->pointers);
	*reports = (struct volume_reports){ 0 };
}

/* --- the host --- */

void capacity_report(const struct converger *c, Bc__V1__Capacity *ret)
{
	bc__v1__capacity__init(ret);
	admission_capacity(&c->admission, ret);
}

const char *node_reason(const struct converger *c, const char **ret_message)
{
	*ret_message = "";
	if (runtimes_nameless(c->runtimes) || runtimes_count_named(c->runtimes) ||
	        id_map_count(c->instances) == 0)
		return "";
	*ret_message = "this host runs no instance runtime";
	return "NoInstanceRuntime";
}

size_t node_features(const struct converger *c, char *ret[static NODE_FEATURES_MAX])
{
	static const char *const always[] = { "spec.dry-run", "secrets", "volumes", "drain", "events" };
	static const char *const with_runtime[] = { "instance.placement", "instance.snapshot",
		"instance.console", "instance.restore" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		ret[n++] = (char *)always[i];
	if (runtimes_count_named(c->runtimes))
		for (size_t i = 0; i < ARRAY_SIZE(with_runtime); i++)
			ret[n++] = (char *)with_runtime[i];
	return n;
}

static void read_cpu_model(const char *proc, char *buf, size_t size)
{
	char path[300];
	CLEANUP_FREE char *text = NULL;
	char *line, *end;

	(void)snprintf(path, sizeof(path), "%s/cpuinfo", proc);
	if (file_read(AT_FDCWD, path, 4 << 20, &text, NULL) < 0)
		return;
	line = strstr(text, "model name");
	line = line ? strchr(line, ':') : NULL;
	if (!line)
		return;
	line += 1 + strspn(line + 1, " \t");
	end = strchrnul(line, '\n');
	*end = 0;
	quote_text(line, buf, size);
}

void node_inventory_init(struct converger *c, struct node_inventory *ret)
{
	Bc__V1__NodeInventory *message = &ret->message;
	struct utsname names;

	*ret = (struct node_inventory){ 0 };
	bc__v1__node_inventory__init(message);
	host_facts_read(c->options.proc, c->options.sys, &c->host);
	message->cpus = (uint32_t)c->host.n_cpus;
	message->memory_bytes = c->host.memory_known ? c->host.memory_total_bytes : 0;
	message->numa_nodes = ret->numa_nodes;
	for (uint32_t node = 0; node < HOST_NODES_MAX; node++)
		if (node_set_has(&c->host.nodes, node))
			ret->numa_nodes[message->n_numa_nodes++] = node;
	read_cpu_model(c->options.proc, ret->cpu_model, sizeof(ret->cpu_model));
	if (uname(&names) == 0) {
		quote_text(names.release, ret->kernel, sizeof(ret->kernel));
		quote_text(names.nodename, ret->hostname, sizeof(ret->hostname));
	}
	message->cpu_model = ret->cpu_model;
	message->kernel = ret->kernel;
	message->hostname = ret->hostname;
	ret->node = c->n_node ? bc__v1__node_spec__unpack(NULL, c->n_node, c->node) : NULL;
	if (ret->node) {
		message->n_gpus = ret->node->n_gpus;
		message->gpus = ret->node->gpus;
	}
}

void node_inventory_done(struct node_inventory *inventory)
{
	if (inventory->node)
		bc__v1__node_spec__free_unpacked(inventory->node, NULL);
	inventory->node = NULL;
}
