#include "svc-converger/converger_conf.h"

#include "lib/base/cleanup.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#define MEMBER(name) offsetof(struct converger_conf, name)
#define HOURS UINT64_C(3600000000)

const struct conf_key converger_conf_keys[] = {
	{ .section = "node",
	        .name = "id",
	        .type = CONF_STRING,
	        .offset = MEMBER(node_id),
	        .max = 64,
	        .help = "the node's id; empty: the machine-id" },
	{ .section = "node",
	        .name = "run_dir",
	        .type = CONF_PATH,
	        .offset = MEMBER(run_dir),
	        .preset = "/run/bc",
	        .max = 90,
	        .help = "every runtime-*.sock in it is a runtime" },
	{ .section = "node",
	        .name = "netd_socket",
	        .type = CONF_PATH,
	        .offset = MEMBER(netd_socket),
	        .preset = "/run/bc/netd.sock",
	        .max = 107,
	        .help = "where netd listens" },
	{ .section = "node",
	        .name = "intelligence_socket",
	        .type = CONF_PATH,
	        .offset = MEMBER(intelligence_socket),
	        .preset = "/run/bc/intelligence.sock",
	        .max = 107,
	        .help = "where VMs are registered; its absence is harmless" },
	{ .section = "node",
	        .name = "instances_dir",
	        .type = CONF_PATH,
	        .offset = MEMBER(instances_dir),
	        .max = 256,
	        .help = "where runtimes keep a directory for each instance; a removal is over when it is gone; "
	                "unset: instances/ in the data directory" },
	{ .section = "node",
	        .name = "boot_id_file",
	        .type = CONF_PATH,
	        .offset = MEMBER(boot_id_file),
	        .preset = "/proc/sys/kernel/random/boot_id",
	        .help = "the id of this boot; another file in tests" },
	{ .section = "reconciler",
	        .name = "resync",
	        .type = CONF_DURATION,
	        .offset = MEMBER(resync_usec),
	        .preset = "30s",
	        .min = 10000,
	        .max = HOURS,
	        .help = "how often everything is looked at anew" },
	{ .section = "reconciler",
	        .name = "parallel",
	        .type = CONF_UINT,
	        .offset = MEMBER(n_parallel),
	        .preset = "32",
	        .min = 1,
	        .max = 1024,
	        .help = "instances of one runtime worked on at once" },
	{ .section = "reconciler",
	        .name = "retry_min",
	        .type = CONF_DURATION,
	        .offset = MEMBER(retry_min_usec),
	        .preset = "1s",
	        .min = 1000,
	        .max = HOURS,
	        .help = "pause after the first failure of an instance; it doubles" },
	{ .section = "reconciler",
	        .name = "retry_max",
	        .type = CONF_DURATION,
	        .offset = MEMBER(retry_max_usec),
	        .preset = "60s",
	        .min = 1000,
	        .max = 24 * HOURS,
	        .help = "longest pause" },
	{ .section = "reconciler",
	        .name = "stable",
	        .type = CONF_DURATION,
	        .offset = MEMBER(stable_usec),
	        .preset = "60s",
	        .min = 1000,
	        .max = 24 * HOURS,
	        .help = "up for so long, a crash counts as the first one again" },
	{ .section = "reconciler",
	        .name = "call_timeout",
	        .type = CONF_DURATION,
	        .offset = MEMBER(call_timeout_usec),
	        .preset = "10s",
	        .min = 10000,
	        .max = HOURS,
	        .help = "of calls that only ask" },
	{ .section = "reconciler",
	        .name = "change_timeout",
	        .type = CONF_DURATION,
	        .offset = MEMBER(change_timeout_usec),
	        .preset = "2min",
	        .min = 10000,
	        .max = 24 * HOURS,
	        .help = "of calls that change a domain or an interface" },
	{ .section = "reconciler",
	        .name = "snapshot_timeout",
	        .type = CONF_DURATION,
	        .offset = MEMBER(snapshot_timeout_usec),
	        .preset = "1h",
	        .min = 10000,
	        .max = 24 * HOURS,
	        .help = "of a runtime that writes a snapshot; one that takes longer is stuck" },
	{ .section = "reconciler",
	        .name = "stop_grace",
	        .type = CONF_DURATION,
	        .offset = MEMBER(stop_grace_usec),
	        .preset = "0s",
	        .max = 24 * HOURS,
	        .help = "for a guest to shut down by itself; 0: the runtime's default" },
	{ .section = "reconciler",
	        .name = "connect_retry_min",
	        .type = CONF_DURATION,
	        .offset = MEMBER(link_retry_min_usec),
	        .preset = "100ms",
	        .min = 1000,
	        .max = HOURS,
	        .help = "pause before another service is tried again; it doubles" },
	{ .section = "reconciler",
	        .name = "connect_retry_max",
	        .type = CONF_DURATION,
	        .offset = MEMBER(link_retry_max_usec),
	        .preset = "10s",
	        .min = 1000,
	        .max = HOURS,
	        .help = "longest pause" },
	{ .section = "control-plane",
	        .name = "endpoint",
	        .type = CONF_STRING,
	        .offset = MEMBER(control_plane),
	        .max = 256,
	        .help = "host:port to dial over mutual TLS; empty: only the socket is served" },
	{ .section = "control-plane",
	        .name = "ca",
	        .type = CONF_PATH,
	        .offset = MEMBER(control_plane_ca),
	        .help = "PEM of the authorities whose control plane is trusted" },
	{ .section = "control-plane",
	        .name = "certificate",
	        .type = CONF_PATH,
	        .offset = MEMBER(control_plane_certificate),
	        .help = "PEM of this node's certificate" },
	{ .section = "control-plane",
	        .name = "key",
	        .type = CONF_PATH,
	        .offset = MEMBER(control_plane_key),
	        .help = "PEM of its key" },
	{ .section = "control-plane",
	        .name = "retry_min",
	        .type = CONF_DURATION,
	        .offset = MEMBER(control_plane_retry_min_usec),
	        .preset = "1s",
	        .min = 1000,
	        .max = HOURS,
	        .help = "pause before it is dialled again; it doubles" },
	{ .section = "control-plane",
	        .name = "retry_max",
	        .type = CONF_DURATION,
	        .offset = MEMBER(control_plane_retry_max_usec),
	        .preset = "60s",
	        .min = 1000,
	        .max = 24 * HOURS,
	        .help = "longest pause" },
	{ .section = "images",
	        .name = "keep",
	        .type = CONF_DURATION,
	        .offset = MEMBER(image_keep_usec),
	        .preset = "24h",
	        .min = 60000000,
	        .max = 24 * 365 * HOURS,
	        .help = "how long an image that nothing uses is kept" },
	{ .section = "transfer",
	        .name = "ca",
	        .type = CONF_PATH,
	        .offset = MEMBER(transfer_ca),
	        .help = "PEM of the authorities whose https servers are trusted; empty: the system's" },
	{ .section = "transfer",
	        .name = "stall",
	        .type = CONF_DURATION,
	        .offset = MEMBER(transfer_stall_usec),
	        .preset = "60s",
	        .min = 1000000,
	        .max = HOURS,
	        .help = "a transfer slower than 1 KiB/s for so long is given up" },
};
const size_t n_converger_conf_keys = ARRAY_SIZE(converger_conf_keys);

struct converger_options converger_conf_options(
        struct converger_conf *conf, const char *data_dir, const char *node_id_fallback)
{
	conf->transfer = (struct transfer_config){
		.ca_path = *conf->transfer_ca ? conf->transfer_ca : NULL,
		.stall_sec = conf->transfer_stall_usec / 1000000,
	};
	return (struct converger_options){
		.node_id = *conf->node_id ? conf->node_id : node_id_fallback,
		.data_dir = data_dir,
		.run_dir = conf->run_dir,
		.netd_socket = conf->netd_socket,
		.intelligence_socket = conf->intelligence_socket,
		.instances_dir = *conf->instances_dir ? conf->instances_dir : NULL,
		.boot_id_path = conf->boot_id_file,
		.resync_usec = conf->resync_usec,
		.retry_min_usec = conf->retry_min_usec,
		.retry_max_usec = conf->retry_max_usec,
		.link_retry_min_usec = conf->link_retry_min_usec,
		.link_retry_max_usec = conf->link_retry_max_usec,
		.call_timeout_usec = conf->call_timeout_usec,
		.change_timeout_usec = conf->change_timeout_usec,
		.snapshot_timeout_usec = conf->snapshot_timeout_usec,
		.stop_grace_usec = conf->stop_grace_usec,
		.stable_usec = conf->stable_usec,
		.image_keep_usec = conf->image_keep_usec,
		.n_parallel = (unsigned)conf->n_parallel,
		.transfer = &conf->transfer,
	};
}

bool converger_conf_control_plane(const struct converger_conf *conf, struct control_plane_options *ret)
{
	*ret = (struct control_plane_options){
		.endpoint = conf->control_plane,
		.ca_path = conf->control_plane_ca,
		.certificate_path = conf->control_plane_certificate,
		.key_path = conf->control_plane_key,
		.retry_min_usec = conf->control_plane_retry_min_usec,
		.retry_max_usec = conf->control_plane_retry_max_usec,
	};
	return *conf->control_plane != 0;
}

int converger_conf_check(const struct converger_conf *conf, struct err *err)
{
	if (!*conf->control_plane)
		return 0;
	if (!*conf->control_plane_ca || !*conf->control_plane_certificate || !*conf->control_plane_key)
		return err_set(err, -EINVAL,
		        "[control-plane] endpoint=%s: ca=, certificate= and key= are needed with it; it is dialled over "
		        "mutual TLS only",
		        conf->control_plane);
	return 0;
}

void node_id_default(char ret[static 65])
{
	sd_id128_t id;

	if (sd_id128_get_machine(&id) >= 0) {
		(void)sd_id128_to_string(id, ret);
		return;
	}
	if (gethostname(ret, 64) < 0 || !*ret)
		strcpy(ret, "localhost");
	ret[64] = 0;
}
