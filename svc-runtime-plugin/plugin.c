#include "svc-runtime-plugin/plugin.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/base/tree.h"
#include "lib/log/log.h"
#include "svc-runtime-plugin/child.h"
#include "svc-runtime-plugin/record_file.h"

#include <string.h>
#include <sys/stat.h>

enum { KIND_RUNTIME, N_JOB_THREADS = 2, N_JOBS_MAX = 4096 };

static const struct conf_choice KINDS[] = { { "runtime", KIND_RUNTIME }, { 0 } };
/* Those of DescribeReply that a plugin can have. */
static const char *const FEATURES[] = { "self-admitting", "restores-on-normal-pages", "gpu", "macvtap",
	"user-nic", "placement" };

#define KEY(type_, name_, member_)                                                                           \
	.section = "plugin", .name = (name_), .type = (type_), .offset = offsetof(struct plugin_conf, member_)

const struct conf_key plugin_keys[] = {
	{ KEY(CONF_STRING, "id", id), .max = 32,
	        .help = "the runtime id that instances name: [a-z0-9-]{1,32}" },
	{ KEY(CONF_ENUM, "kind", kind), .preset = "runtime", .choices = KINDS, .help = "what it plugs into" },
	{ KEY(CONF_STRING, "version", version), .preset = "0", .max = 64, .help = "shown to people" },
	{ KEY(CONF_PATH, "socket", socket), .max = 107,
	        .help = "where it serves bc.v1.Plugin; an executable is told in BC_PLUGIN_SOCKET" },
	{ KEY(CONF_LIST, "executable", executable), .max = 16,
	        .help = "program and arguments that serve it, started and restarted here; empty: somebody else does" },
	{ KEY(CONF_LIST, "features", features), .max = PLUGIN_FEATURES_MAX,
	        .help = "what it can: self-admitting, restores-on-normal-pages, gpu, macvtap, user-nic, placement" },
	{ KEY(CONF_UIDS, "vmm_user", vmm_user), .max = 1,
	        .help = "user whose VMMs open the TAPs; empty: this service's own" },
	{ KEY(CONF_DURATION, "timeout", timeout_usec), .preset = "60s", .min = 100000,
	        .max = 600 * USEC_PER_SEC, .help = "of each call to it" },
	{ KEY(CONF_DURATION, "poll", poll_usec), .preset = "2s", .min = 10000, .max = 60 * USEC_PER_SEC,
	        .help = "how often it is asked what it has" },
	{ KEY(CONF_DURATION, "start_timeout", start_timeout_usec), .preset = "10s", .max = 60 * USEC_PER_SEC,
	        .help = "how long its executable may take until it answers" },
};
const size_t n_plugin_keys = ARRAY_SIZE(plugin_keys);

/* --- the manifest --- */

static int id_check(const char *id, struct err *err)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n && !id[n] ? 0
	                   : err_set(err, -EINVAL, "[plugin] id='%s': write the runtime id, [a-z0-9-]{1,32}",
	                             QUOTED(id));
}

/* What we run must be nobody else's to change. */
static int executable_check(const char *path, struct err *err)
{
	struct stat st;

	if (path[0] != '/')
		return err_set(
		        err, -EINVAL, "[plugin] executable='%s': write an absolute path", QUOTED(path));
	if (stat(path, &st) < 0)
		return err_set(err, -EINVAL, "[plugin] executable=%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		return err_set(err, -EINVAL, "[plugin] executable=%s: it is no program; chmod +x it", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return err_set(err, -EINVAL,
		        "[plugin] executable=%s: it belongs to uid %u with mode %o; it must be root's or this service's, "
		        "and writable by its owner only",
		        path, st.st_uid, st.st_mode & 07777);
	return 0;
}

static int features_check(const struct conf_list *features, struct err *err)
{
	for (size_t i = 0; i < features->n; i++) {
		bool is_known = false;

		for (size_t k = 0; k < ARRAY_SIZE(FEATURES); k++)
			is_known |= strcmp(features->items[i], FEATURES[k]) == 0;
		if (!is_known)
			return err_set(err, -EINVAL,
			        "[plugin] features: '%s' is none of self-admitting, restores-on-normal-pages, gpu, macvtap, "
			        "user-nic, placement",
			        QUOTED(features->items[i]));
	}
	return 0;
}

int plugin_check(const struct service *service, void *userdata, struct err *err)
{
	const struct plugin_conf *conf = &((struct plugin *)userdata)->conf;
	int r = id_check(conf->id, err);

	(void)service;
	if (r == 0 && !*conf->socket)
		r = err_set(err, -EINVAL,
		        "[plugin] socket=: write the path where the plugin serves bc.v1.Plugin");
	if (r == 0 && conf->executable.n)
		r = executable_check(conf->executable.items[0], err);
	return r < 0 ? r : features_check(&conf->features, err);
}

/* --- begin --- */

static void on_child_start(void *userdata)
{
	look_now(userdata);
}

static void on_child_exit(const char *how, void *userdata)
{
	struct plugin *plugin = userdata;
	char why[512];

	(void)snprintf(why, sizeof(why), "the plugin %s %s; it is started again", plugin->conf.id, how);
	look_lost(plugin, why);
}

static int on_record(Bc__V1__EnsureRequest *record, void *userdata)
{
	struct plugin *plugin = userdata;
	struct guest *guest = guests_add(&plugin->guests, record->spec->id);

	if (!guest) {
		bc__v1__ensure_request__free_unpacked(record, NULL);
		return -ENOMEM;
	}
	guest->is_loaded = true;
	return guest_define(guest, record);
}

static void on_bad_record(const char *path, const char *why, void *userdata)
{
	(void)userdata;
	(void)log_warning(0, "%s: a record that cannot be read was put aside: %s", path, why);
}

static int child_begin(struct plugin *plugin, struct err *err)
{
	struct child_options options = { .socket = plugin->conf.socket,
		.on_start = on_child_start,
		.on_exit = on_child_exit,
		.userdata = plugin };

	if (!plugin->conf.executable.n)
		return 0;
	plugin->argv = calloc(plugin->conf.executable.n + 1, sizeof(*plugin->argv));
	if (!plugin->argv)
		return -ENOMEM;
	for (size_t i = 0; i < plugin->conf.executable.n; i++)
		plugin->argv[i] = plugin->conf.executable.items[i];
	options.argv = plugin->argv;
	return child_new(loop_event(plugin->loop), &options, &plugin->child, err);
}

int plugin_start(struct service *service, void *userdata, struct err *err)
{
	struct plugin *plugin = userdata;
	int r;

	plugin->daemon = service;
	plugin->loop = service_loop(service);
	plugin->server = service_server(service);
	plugin->tap_use = tap_use;
	guests_init(&plugin->guests, watches_pump, plugin);
	LIST_INIT(&plugin->watches);
	if (snprintf(plugin->dir, sizeof(plugin->dir), "%s/plugins/%s", service_data_dir(service),
	            plugin->conf.id) >= (int)sizeof(plugin->dir))
		return err_set(err, -ENAMETOOLONG, "%s: the path is too long", service_data_dir(service));
	r = mkdir_p(plugin->dir, 0700);
	if (r < 0)
		return err_set(err, r, "%s: cannot be made: %s", plugin->dir, strerror(-r));
	r = record_files_load(plugin->dir, on_record, on_bad_record, plugin, err);
	if (r == 0)
		r = job_pool_new(plugin->loop, "bc-plugin", N_JOB_THREADS, N_JOBS_MAX, &plugin->jobs);
	if (r == 0)
		r = rpc_channel_new_unix(plugin->loop, plugin->conf.socket, &plugin->channel);
	if (r == 0)
		r = look_start(plugin);
	plugin_service_init(plugin);
	if (r == 0)
		r = rpc_server_add(plugin->server, &plugin->service.base);
	if (r == 0)
		r = child_begin(plugin, err);
	plugin->is_started = r == 0;
	return r;
}

/* --- end --- */

void plugin_drain(struct service *service, void *userdata)
{
	struct plugin *plugin = userdata;

	(void)service;
	plugin->is_draining = true;
	plugin->settle_usec = 0; /* what waits for the first answer waits no longer */
	if (!plugin->is_settled)
		look_lost(plugin, "the runtime is ending; call again");
	watches_drop(plugin, "the runtime is ending; call again");
}

static void plugin_done(struct plugin *plugin)
{
	plugin->channel = rpc_channel_free(plugin->channel);
	plugin->child = child_free(plugin->child);
	free(plugin->argv);
	plugin->argv = NULL;
	plugin->jobs = plugin->jobs ? job_pool_free(plugin->jobs) : NULL;
	guests_done(&plugin->guests);
}

void plugin_check_stopped(struct plugin *plugin)
{
	if (!plugin->is_stopping || !plugin->is_child_gone || plugin->n_ops || plugin->n_calls)
		return;
	plugin_done(plugin);
	service_stopped(plugin->daemon);
}

static void on_child_ended(void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->is_child_gone = true;
	plugin_check_stopped(plugin);
}

bool plugin_stop(struct service *service, void *userdata)
{
	struct plugin *plugin = userdata;

	(void)service;
	if (!plugin->is_started) {
		plugin->look_timer = sd_event_source_disable_unref(plugin->look_timer);
		plugin_done(plugin);
		return true;
	}
	look_stop(plugin);
	plugin->is_stopping = true;
	ops_give_up(plugin);
	if (plugin->child)
		child_end(plugin->child, on_child_ended);
	else
		on_child_ended(plugin);
	return false;
}
