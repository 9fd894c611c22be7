#include "svc-netd/netd.h"

#include "svc-netd/listener.h"
#include "svc-netd/netlink.h"
#include "svc-netd/reaper.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/tap_name.h"
#include "lib/log/log.h"

#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define KEY(type_, name_, member)                                                                            \
	.section = "netd", .name = (name_), .type = (type_), .offset = offsetof(struct netd_conf, member)

enum { THREADS = 8, QUEUED_MAX = 4096 };
#define RULES_FD_NAME "rules"

static const struct conf_choice keeps[] = {
	{ "auto", RULES_KEEP_AUTO },
	{ "persist", RULES_KEEP_PERSIST },
	{ "owner", RULES_KEEP_OWNER },
	{ "nothing", RULES_KEEP_NOTHING },
	{ NULL, 0 },
};

static const struct conf_key keys[] = {
	{ KEY(CONF_LIST, "allowed_bridges", allowed_bridges),
	        .help = "bridges, and parents of macvtaps, that NICs may be attached to" },
	{ KEY(CONF_UINT, "max_queues", max_queues), .preset = "16", .min = 1, .max = QUEUES_MAX,
	        .help = "most queue pairs of a NIC that names no number" },
	{ KEY(CONF_BOOL, "default_vhost", default_vhost), .preset = "no",
	        .help = "vhost-net for NICs that leave it open" },
	{ KEY(CONF_ENUM, "keep_rules", keep_rules), .preset = "auto", .choices = keeps,
	        .help = "how rules are kept from a foreign flush: by a persistent owner (Linux 6.9), an owner, or not" },
	{ KEY(CONF_PATH, "record_dir", record_dir),
	        .help = "directory, in /run, for what the kernel could not tell after a foreign flush; empty: systemd's" },
};

struct request_policy netd_policy(const struct netd *netd)
{
	return (struct request_policy){ .bridges = netd->conf.allowed_bridges.items,
		.n_bridges = netd->conf.allowed_bridges.n,
		.queues_max = (uint32_t)netd->conf.max_queues,
		.default_vhost = netd->conf.default_vhost,
		.vhost_possible = access("/dev/vhost-net", F_OK) == 0 };
}

void netd_lane(const char *ifname, char ret[static JOB_KEY_MAX])
{
	char hash[TAP_HASH_MAX];

	(void)snprintf(ret, JOB_KEY_MAX, "%s", tap_name_parse(ifname, hash, NULL) ? hash : ifname);
}

static void netd_release(struct netd *netd)
{
	struct err err = { 0 };

	netd->guard = guard_free(netd->guard);
	if (netd->nics && nics_leave(netd->nics, &err) < 0)
		(void)log_err(err.code, "the rules will go with this process: %s", err.text);
	netd->jobs = job_pool_free(netd->jobs);
	netd->nics = nics_free(netd->nics);
	netd->watch = watch_free(netd->watch);
}

void netd_released(struct netd *netd)
{
	if (!netd->stopping || netd->reap || !guard_stop(netd->guard))
		return;
	netd_release(netd);
	service_stopped(netd->host);
}

/* --- the reaper's job --- */

struct reap_job {
	struct job job;
	struct netd *netd; /* weak */
	int result;
};

static void reap_run(struct job *job)
{
	struct reap_job *reap = CONTAINER_OF(job, struct reap_job, job);
	struct netlink *nl = NULL;

	reap->result = netlink_open(NETLINK_ROUTE, &nl);
	if (reap->result == 0)
		reap->result = reaper_run(nics_reaper(reap->netd->nics), nl);
	netlink_free(nl);
}

static void reap_done(struct job *job)
{
	struct reap_job *reap = CONTAINER_OF(job, struct reap_job, job);
	struct netd *netd = reap->netd;
	bool again = netd->reap_again || (reap->result > 0 && reaper_pending(nics_reaper(netd->nics)) > 0);

	if (reap->result < 0)
		(void)log_warning(reap->result, "cannot delete interfaces that were removed: %m");
	netd->reap = NULL;
	free(reap);
	if (again && !netd->stopping)
		netd_reap(netd);
	netd_released(netd);
}

void netd_reap(struct netd *netd)
{
	struct reap_job *reap;

	netd->reap_again = netd->reap != NULL;
	if (netd->reap || reaper_pending(nics_reaper(netd->nics)) == 0)
		return;
	reap = calloc(1, sizeof(*reap));
	if (!reap)
		return;
	reap->netd = netd;
	reap->job.run = reap_run;
	reap->job.done = reap_done;
	if (job_submit(netd->jobs, &reap->job) < 0)
		free(reap); /* busy with others: the next removal asks again */
	else
		netd->reap = &reap->job;
}

/* --- the service --- */

/* systemd keeps the tables' socket from here on: while we are down they are still owned. It has room for one, and does
 * not look whether it has that already. */
static void rules_store(struct netd *netd, bool stored)
{
	bool wanted = rules_kept(nics_rules(netd->nics)) != RULES_KEEP_NOTHING;
	int fd = rules_fd(nics_rules(netd->nics));

	if (!getenv("NOTIFY_SOCKET") || wanted == stored)
		return;
	if (wanted)
		(void)sd_pid_notify_with_fds(0, false, "FDSTORE=1\nFDPOLL=0\nFDNAME=" RULES_FD_NAME, &fd, 1);
	else
		(void)sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" RULES_FD_NAME);
}

static int bridges_check(const struct conf_list *bridges, struct err *err)
{
	for (size_t i = 0; i < bridges->n; i++) {
		if (!ifname_is_valid(bridges->items[i]))
			return err_set(err, -EINVAL, "[netd] allowed_bridges: '%s' is no interface name",
			        QUOTED(bridges->items[i]));
	}
	return 0;
}

static int netd_start(struct service *service, void *userdata, struct err *err)
{
	struct netd *netd = userdata;
	struct nics_options options = {
		/* systemd's, which lasts from one start to the next (RuntimeDirectoryPreserve=) */
		.record_dir = netd->conf.record_dir[0] ? netd->conf.record_dir : getenv("RUNTIME_DIRECTORY"),
		.rules = { .keep = (enum rules_keep)netd->conf.keep_rules,
		        .stored_fd = service_take_fd(service, RULES_FD_NAME),
		        .socket_kept = getenv("NOTIFY_SOCKET") != NULL },
		.before_step = netd->before_step,
		.userdata = netd->step_userdata,
	};
	bool stored = options.rules.stored_fd >= 0;
	int r;

	netd->host = service;
	r = bridges_check(&netd->conf.allowed_bridges, err);
	if (r < 0)
		return r;
	netd->watch = watch_new();
	if (!netd->watch)
		return -ENOMEM;
	r = job_pool_new(service_loop(service), "netd", THREADS, QUEUED_MAX, &netd->jobs);
	if (r == 0)
		r = nics_open(&options, &netd->nics, err);
	if (r < 0)
		return r;
	rules_store(netd, stored);
	r = guard_new(netd, &netd->guard, err);
	if (r < 0)
		return r;
	if (!rules_can_filter(nics_rules(netd->nics))) {
		struct err missing = { 0 };
		rules_missing_filter(nics_rules(netd->nics), &missing);
		(void)log_warning(0, "filtered NICs are refused: %s", err_text(&missing, -EOPNOTSUPP));
	}
	netd->knows_listeners = listener_find(NULL, 0, NULL, NULL) != -ENOENT;
	netd_edge_init(netd);
	r = rpc_server_add(service_server(service), &netd->service.base);
	netd_reap(netd);
	return r < 0 ? err_set(err, r, "cannot serve bc.v1.Netd") : 0;
}

static void netd_drain(struct service *service, void *userdata)
{
	struct netd *netd = userdata;

	(void)service;
	watch_end(netd->watch);
}

static bool netd_stop(struct service *service, void *userdata)
{
	struct netd *netd = userdata;

	(void)service;
	netd->stopping = true;
	if (!guard_stop(netd->guard) || netd->reap)
		return false; /* the last of their jobs releases the rest */
	netd_release(netd);
	return true;
}

int netd_main(struct netd *netd, int argc, char **argv)
{
	const struct conf_table table = { .keys = keys, .n_keys = ARRAY_SIZE(keys), .target = &netd->conf };

	return service_main(argc, argv,
	        &(struct service_options){
	                .name = "netd",
	                .tables = &table,
	                .n_tables = 1,
	                .start = netd_start,
	                .drain = netd_drain,
	                .stop = netd_stop,
	                .userdata = netd,
	        });
}
