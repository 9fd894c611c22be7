#include "svc-converger/converger.h"

#include "lib/base/clock.h"
#include "lib/base/tree.h"
#include "svc-converger/apply.h"
#include "svc-converger/balloons.h"
#include "svc-converger/housekeeping.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/intelligence_link.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/transfer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EVENTS_MAX = 2048, JOBS_WAITING_MAX = 16384, JOB_THREADS = 4 };

struct instance *converger_instance(const struct converger *c, const char *id)
{
	return id_map_get(c->instances, id);
}

struct instance *converger_instance_make(struct converger *c, const char *id)
{
	struct instance *instance = converger_instance(c, id);

	if (instance)
		return instance;
	instance = instance_new(id);
	if (!instance)
		return NULL;
	instance->converger = c;
	instance->status.kind = STATUS_INSTANCE;
	if (id_map_put(c->instances, instance) < 0)
		return instance_free(instance);
	return instance;
}

void converger_event(struct converger *c, enum event_severity severity, const char *instance_id,
        const char *reason, const char *fmt, ...)
{
	char message[EVENT_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	events_add(c->events, clock_realtime_usec(), severity, instance_id, reason, "%s", message);
}

/* --- what survived --- */

static int on_stored_instance(const struct store_instance *stored, void *userdata, struct err *err)
{
	struct converger *c = userdata;
	struct instance *instance;
	int r;

	if (!uuid_is_valid(stored->id))
		return err_set(err, -EBADMSG, "an instance has the id '%.40s', which is none", stored->id);
	instance = converger_instance_make(c, stored->id);
	if (!instance)
		return -ENOMEM;
	r = instance_spec_parse(stored->spec, stored->n_spec, &instance->spec);
	if (r < 0)
		return err_set(err, r, "the spec of instance %s cannot be read", stored->id);
	instance->revision = stored->revision;
	instance->facts = stored->facts;
	return 0;
}

static int on_stored_removal(const struct store_removal *stored, void *userdata, struct err *err)
{
	struct instance *instance = converger_instance_make(userdata, stored->id);
	struct removal *removal = calloc(1, sizeof(*removal));

	(void)err;
	if (!instance || !removal) {
		free(removal);
		return -ENOMEM;
	}
	(void)snprintf(removal->runtime, sizeof(removal->runtime), "%s", stored->runtime);
	(void)snprintf(removal->allocation_id, sizeof(removal->allocation_id), "%s", stored->allocation_id);
	removal->uses_netd = stored->uses_netd;
	removal->nics_gone = !removal->uses_netd;
	instance->removal = removal;
	return 0;
}

/* The host has booted since: what ran does not run any more. A job that ran will not run again by itself. */
static int judge_boot(struct converger *c, struct store *store, struct err *err)
{
	char stored[64];
	struct store_batch *batch;
	struct instance *instance;
	size_t cursor = 0;
	int r = store_get_boot_id(store, stored, err);

	if (r < 0 || strcmp(stored, c->boot_id) == 0)
		return r;
	batch = store_batch_new();
	if (!batch)
		return -ENOMEM;
	while (*stored && (instance = id_map_next(c->instances, &cursor))) {
		if (instance->facts.job == STORE_JOB_STARTED)
			instance->facts.job = STORE_JOB_FAILED;
		instance->facts.started_hash = instance->facts.nics_hash = 0;
		store_batch_set_facts(batch, instance->id, &instance->facts);
	}
	store_batch_set_boot_id(batch, c->boot_id);
	r = store_commit(store, &batch, 1, err);
	store_batch_free(batch);
	if (r == 0 && *stored)
		converger_event(
		        c, EVENT_INFO, "", "HostBooted", "a new boot: every domain is down and starts anew");
	return r;
}

static int converger_load(struct converger *c, struct store *store, struct err *err)
{
	static const struct store_handlers handlers = {
		.on_instance = on_stored_instance,
		.on_removal = on_stored_removal,
	};
	uint64_t has_instances, draining;
	int r = store_load(store, &handlers, c, err);

	if (r == 0)
		r = store_get_number(store, STORE_REVISION, &c->revision, err);
	if (r == 0)
		r = store_get_number(store, STORE_HAS_INSTANCES, &has_instances, err);
	if (r == 0)
		r = store_get_number(store, STORE_DRAINING, &draining, err);
	if (r == 0)
		r = store_get_node(store, &c->node, &c->n_node, err);
	if (r < 0)
		return r;
	c->has_instances = has_instances != 0;
	c->is_draining = draining > 0;
	c->drain_stops = draining > 1;
	return judge_boot(c, store, err);
}

static int converger_load_node(struct converger *c, struct err *err)
{
	Bc__V1__NodeSpec *node;
	int r;

	if (!c->n_node)
		return 0;
	node = bc__v1__node_spec__unpack(NULL, c->n_node, c->node);
	if (!node)
		return err_set(err, -EBADMSG, "state.db: the accepted spec of the node cannot be read");
	r = apply_node(c, node);
	bc__v1__node_spec__free_unpacked(node, NULL);
	return r;
}

/* --- what the stores say --- */

static void mark_waiting(struct converger *c, enum machine_action action)
{
	struct instance *instance;
	size_t cursor = 0;

	while ((instance = id_map_next(c->instances, &cursor)))
		if (instance->action == action)
			reconciler_mark(c, instance);
}

static void on_image_change(const char *digest, void *userdata)
{
	(void)digest;
	mark_waiting(userdata, ACTION_WAIT_IMAGE);
}

static void on_restore_change(const char *digest, void *userdata)
{
	(void)digest;
	mark_waiting(userdata, ACTION_WAIT_RESTORE);
}

static void touch_volume(struct converger *c, const char *id)
{
	struct volume_item *item = id_map_get(c->volume_items, id);

	if (!item && strlen(id) < sizeof(item->id)) {
		item = calloc(1, sizeof(*item));
		if (!item)
			return;
		strcpy(item->id, id);
		item->status.kind = STATUS_VOLUME;
		if (id_map_put(c->volume_items, item) < 0) {
			free(item);
			return;
		}
	}
	if (item)
		status_board_touch(c->board, &item->status);
}

static void on_volume_change(const char *volume_id, void *userdata)
{
	struct converger *c = userdata;

	touch_volume(c, volume_id);
	mark_waiting(c, ACTION_WAIT_VOLUME);
	reconciler_freed(c, FREED_VOLUME);
}

static void on_secret_change(const char *instance_id, void *userdata)
{
	reconciler_mark_id(userdata, instance_id);
}

static int converger_dir(const struct converger *c, const char *name, char *ret, size_t size, struct err *err)
{
	int r;

	(void)snprintf(ret, size, "%s/%s", c->options.data_dir, name);
	r = mkdir_p(ret, 0755);
	return r < 0 ? err_set(err, r, "cannot make the directory %s: %s", ret, strerror(-r)) : 0;
}

static const struct transfer_config preset_transfer;

static int converger_open_stores(struct converger *c, struct err *err)
{
	char images[512], volumes[512], snapshots[512];
	struct download_cache_options image_options = {
		.event = loop_event(c->loop),
		.dir = images,
		.transfer = c->options.transfer ? c->options.transfer : &preset_transfer,
		.on_change = on_image_change,
		.userdata = c,
	};
	struct snapshot_store_options snapshot_options = { .restore = image_options };
	struct volume_store_options volume_options = {
		.pool = c->pool,
		.dir = volumes,
		.file_gid = (gid_t)-1,
		.on_change = on_volume_change,
		.userdata = c,
	};
	int r = converger_dir(c, "images", images, sizeof(images), err);

	if (r == 0)
		r = converger_dir(c, "volumes", volumes, sizeof(volumes), err);
	if (r == 0)
		r = converger_dir(c, "snapshots", snapshots, sizeof(snapshots), err);
	if (r == 0)
		r = image_store_open(&image_options, &c->images, err);
	if (r == 0)
		r = volume_store_open(&volume_options, &c->volumes, err);
	if (r < 0)
		return r;
	snapshot_options.restore.dir = snapshots;
	snapshot_options.restore.on_change = on_restore_change;
	return snapshot_store_open(&snapshot_options, &c->snapshots, err);
}

static int converger_open_state(struct converger *c, struct err *err)
{
	char path[512];
	struct store *store = NULL;
	int r;

	(void)snprintf(path, sizeof(path), "%s/state.db", c->options.data_dir);
	r = store_open(path, &store, err);
	if (r == 0)
		r = converger_load(c, store, err);
	if (r == 0)
		r = store_lane_new(c->loop, store, &c->lane);
	if (r < 0)
		store_close(store);
	return r;
}

static bool is_named(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, name) == 0;
}

static void on_other_socket(const char *name, void *userdata)
{
	struct converger *c = userdata;

	if (is_named(c->options.netd_socket, name))
		netd_link_poke(c->netd);
	if (is_named(c->options.intelligence_socket, name))
		intelligence_link_poke(c->intelligence);
}

static int converger_connect(struct converger *c, struct err *err)
{
	const struct link_options link = {
		.call_timeout_usec = c->options.call_timeout_usec,
		.retry_min_usec = c->options.link_retry_min_usec,
		.retry_max_usec = c->options.link_retry_max_usec,
	};
	struct netd_link_options netd = {
		.link = link,
		.handlers = &reconciler_netd_handlers,
		.userdata = c,
	};
	struct runtimes_options runtimes = {
		.run_dir = c->options.run_dir,
		.link = { .link = link, .handlers = &reconciler_runtime_handlers, .userdata = c },
		.on_other = on_other_socket,
	};
	struct intelligence_link_options intelligence = {
		.link = link,
		.on_ready = reconciler_tell_intelligence,
		.on_state = reconciler_drivers_changed,
		.userdata = c,
	};
	int r;

	netd.link.path = c->options.netd_socket;
	intelligence.link.path = c->options.intelligence_socket;
	r = netd_link_new(c->loop, &netd, &c->netd);

	if (r == 0)
		r = intelligence_link_new(c->loop, &intelligence, &c->intelligence);
	if (r == 0)
		r = runtimes_new(c->loop, &runtimes, &c->runtimes, err);
	return r < 0 ? err_set(err, r, "cannot look for runtimes: %s", strerror(-r)) : 0;
}

static int copy_text(const char **text, const char *fallback)
{
	*text = strdup(*text ? *text : fallback);
	return *text ? 0 : -ENOMEM;
}

/* As the runtimes have it. */
static int instances_dir_complete(struct converger_options *o)
{
	char *dir = NULL;

	if (o->instances_dir)
		return copy_text(&o->instances_dir, "");
	if (asprintf(&dir, "%s/instances", o->data_dir ? o->data_dir : "") < 0)
		dir = NULL;
	o->instances_dir = dir;
	return dir ? 0 : -ENOMEM;
}

static int converger_copy_options(struct converger *c, const struct converger_options *options)
{
	struct converger_options *o = &c->options;
	int r = 0;

	*o = *options;
	r |= copy_text(&o->node_id, "");
	r |= copy_text(&o->data_dir, "");
	r |= copy_text(&o->run_dir, "");
	r |= copy_text(&o->netd_socket, "");
	r |= copy_text(&o->intelligence_socket, "");
	r |= instances_dir_complete(o);
	r |= copy_text(&o->boot_id_path, BOOT_ID_PATH);
	r |= copy_text(&o->proc, "/proc");
	r |= copy_text(&o->sys, "/sys");
	o->resync_usec = o->resync_usec ? o->resync_usec : 30 * USEC_PER_SEC;
	o->retry_min_usec = o->retry_min_usec ? o->retry_min_usec : USEC_PER_SEC;
	o->retry_max_usec = o->retry_max_usec ? o->retry_max_usec : 60 * USEC_PER_SEC;
	o->call_timeout_usec = o->call_timeout_usec ? o->call_timeout_usec : 10 * USEC_PER_SEC;
	o->snapshot_timeout_usec = o->snapshot_timeout_usec ? o->snapshot_timeout_usec : 3600 * USEC_PER_SEC;
	o->change_timeout_usec = o->change_timeout_usec ? o->change_timeout_usec : 120 * USEC_PER_SEC;
	o->stable_usec = o->stable_usec ? o->stable_usec : 60 * USEC_PER_SEC;
	o->image_keep_usec = o->image_keep_usec ? o->image_keep_usec : 24 * 3600 * USEC_PER_SEC;
	o->n_parallel = o->n_parallel ? o->n_parallel : 32;
	return r ? -ENOMEM : 0;
}

int converger_new(
        struct loop *loop, const struct converger_options *options, struct converger **ret, struct err *err)
{
	struct converger *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->loop = loop;
	admission_init(&c->admission, &c->host);
	r = converger_copy_options(c, options);
	c->applies = apply_queue_new();
	c->instances = id_map_new(offsetof(struct instance, id));
	c->foreigns = id_map_new(offsetof(struct foreign, key));
	c->volume_items = id_map_new(offsetof(struct volume_item, id));
	c->board = status_board_new();
	c->drivers.kind = STATUS_DRIVERS;
	c->events = events_new(EVENTS_MAX);
	c->secrets = secrets_new(on_secret_change, c);
	c->snapshot_tasks = snapshot_tasks_new(c);
	if (!c->applies || !c->instances || !c->foreigns || !c->volume_items || !c->board || !c->events ||
	        !c->secrets)
		r = -ENOMEM;
	if (r == 0) {
		r = boot_id_read(c->options.boot_id_path, c->boot_id);
		if (r < 0)
			err_set(err, r, "cannot read the boot id from %s: %s", c->options.boot_id_path,
			        strerror(-r));
	}
	if (r == 0)
		r = job_pool_new(loop, "bc-work", JOB_THREADS, JOBS_WAITING_MAX, &c->pool);
	if (r == 0)
		r = converger_open_state(c, err);
	if (r == 0)
		r = converger_open_stores(c, err);
	if (r == 0)
		r = converger_load_node(c, err);
	if (r == 0)
		r = converger_connect(c, err);
	if (r == 0)
		r = reconciler_start(c);
	if (r == 0)
		r = housekeeping_new(c, &c->housekeeping);
	if (r == 0)
		r = balloons_new(c, &c->balloons);
	if (r < 0) {
		converger_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void converger_stop(struct converger *c, void (*on_idle)(void *userdata), void *userdata)
{
	c->on_idle = on_idle;
	c->on_idle_userdata = userdata;
	reconciler_stop(c);
}

static void free_instances(struct converger *c)
{
	struct instance *instance;
	struct foreign *foreign;
	struct volume_item *volume;
	size_t cursor = 0;

	while (c->instances && (instance = id_map_next(c->instances, &cursor))) {
		if (c->board)
			status_board_remove(c->board, &instance->status, instance->id);
		instance_free(instance);
	}
	cursor = 0;
	while (c->foreigns && (foreign = id_map_next(c->foreigns, &cursor))) {
		status_board_remove(c->board, &foreign->status, foreign->key);
		free(foreign);
	}
	cursor = 0;
	while (c->volume_items && (volume = id_map_next(c->volume_items, &cursor))) {
		status_board_remove(c->board, &volume->status, volume->id);
		free(volume);
	}
	if (c->board)
		status_board_remove(c->board, &c->drivers, "");
	id_map_free(c->instances);
	id_map_free(c->foreigns);
	id_map_free(c->volume_items);
}

struct converger *converger_free(struct converger *c)
{
	if (!c)
		return NULL;
	sd_event_source_disable_unref(c->resync_timer);
	housekeeping_free(c->housekeeping);
	balloons_free(c->balloons);
	snapshot_tasks_free(c->snapshot_tasks);
	runtimes_free(c->runtimes);
	netd_link_free(c->netd);
	intelligence_link_free(c->intelligence);
	free_instances(c);
	secrets_free(c->secrets);
	snapshot_store_free(c->snapshots);
	volume_store_free(c->volumes);
	image_store_free(c->images);
	store_batch_free(c->facts_batch);
	store_lane_free(c->lane);
	job_pool_free(c->pool);
	status_board_free(c->board);
	events_free(c->events);
	apply_queue_free(c->applies);
	free(c->node);
	free((char *)c->options.node_id);
	free((char *)c->options.data_dir);
	free((char *)c->options.run_dir);
	free((char *)c->options.netd_socket);
	free((char *)c->options.intelligence_socket);
	free((char *)c->options.instances_dir);
	free((char *)c->options.boot_id_path);
	free((char *)c->options.proc);
	free((char *)c->options.sys);
	free(c);
	return NULL;
}
