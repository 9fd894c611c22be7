/* bc-runtime-libvirt: instances as QEMU domains of libvirt. Wires; what is done is in the other files. */
#include "svc-runtime-libvirt/accel.h"
#include "svc-runtime-libvirt/edge.h"
#include "svc-runtime-libvirt/runtime.h"

#include "lib/base/clock.h"
#include "lib/log/log.h"
#include "lib/service/service.h"
#include "lib/vfio/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size of OVMF's variable store has to match its code's: both or none. */
#define FIRMWARE_CODE "/usr/share/OVMF/OVMF_CODE_4M.fd"
#define FIRMWARE_VARS "/usr/share/OVMF/OVMF_VARS_4M.fd"

struct daemon {
	struct runtime_conf conf;
	struct service *service; /* weak */
	struct runtime *runtime; /* owned */
	struct edge edge;
	bool stopping; /* no call is live any more */
};

static const struct conf_choice accel_choices[] = { { "auto", ACCEL_AUTO }, { "kvm", ACCEL_KVM },
	{ "tcg", ACCEL_TCG }, { NULL, 0 } };
static const struct conf_choice cache_choices[] = { { "auto", DISK_CACHE_AUTO }, { "none", DISK_CACHE_NONE },
	{ "writeback", DISK_CACHE_WRITEBACK }, { NULL, 0 } };

#define KEY(s, n, t, m) .section = (s), .name = (n), .type = (t), .offset = offsetof(struct runtime_conf, m)
static const struct conf_key keys[] = {
	{ KEY("libvirt", "uri", CONF_STRING, uri), .preset = "qemu:///system",
	        .help = "qemu:///system, qemu:///session, or qemu:///embed?root=/DIR (needs no libvirtd)" },
	{ KEY("libvirt", "vmm_user", CONF_STRING, vmm_user),
	        .help = "user that QEMU runs as; unset: libvirt-qemu or qemu under the system's libvirtd, else our own" },
	{ KEY("libvirt", "emulator", CONF_PATH, emulator), .preset = "/usr/bin/qemu-system-x86_64",
	        .help = "QEMU" },
	{ KEY("libvirt", "accel", CONF_ENUM, accel), .preset = "auto", .choices = accel_choices,
	        .help = "auto takes KVM where it works, else TCG" },
	{ KEY("libvirt", "operations", CONF_UINT, jobs), .preset = "8", .min = 1, .max = 64,
	        .help = "how many instances are worked on at a time" },
	{ KEY("instances", "dir", CONF_PATH, instances_dir), .max = SERVICE_DIR_MAX,
	        .help = "where each instance has its directory; unset: instances/ in the data directory" },
	{ KEY("instances", "disk_cache", CONF_ENUM, disk_cache), .preset = "auto", .choices = cache_choices,
	        .help = "QEMU's cache mode of disks; auto: none where the file system knows O_DIRECT" },
	{ KEY("instances", "stop_grace", CONF_DURATION, grace_usec), .preset = "60s", .min = USEC_PER_MSEC,
	        .max = 3600 * USEC_PER_SEC,
	        .help = "how long a guest may take to shut down when the request does not say" },
	{ KEY("instances", "serial_log_keep", CONF_SIZE, log_keep_bytes), .preset = "4M", .min = 64 << 10,
	        .help = "how much of a serial log is kept on the embedded driver; the system's libvirt rotates its own" },
	{ KEY("instances", "ready_marker", CONF_STRING, ready_marker), .preset = "GUEST-READY", .max = 64,
	        .help = "what begins the line on the serial port by which a guest says that it is ready" },
	{ KEY("instances", "complete_marker", CONF_STRING, complete_marker), .preset = "GUEST-COMPLETE",
	        .max = 64,
	        .help = "the same for a job that has done what it was for; one that ends without it has failed" },
	{ KEY("gpu", "sysfs", CONF_PATH, sysfs), .preset = "/sys", .help = "where PCI devices are found" },
	{ KEY("gpu", "driver_tree", CONF_PATH, gpu_tree), .preset = GPU_PROC_GPUS,
	        .help = "where the GPUs' own driver tells which UUID has which PCI address" },
	{ KEY("firmware", "code", CONF_PATH, firmware_code),
	        .help = "UEFI for guests that want it; unset: OVMF's" },
	{ KEY("firmware", "vars", CONF_PATH, firmware_vars),
	        .help = "the variable store that belongs to it" },
};
#undef KEY

/* What depends on other keys, or on what is installed. */
static int complete_conf(struct runtime_conf *conf, const char *data_dir)
{
	conf->data_dir = data_dir;
	if (!conf->instances_dir[0]) {
		char *dir = NULL;
		if (asprintf(&dir, "%s/instances", data_dir) < 0)
			return -ENOMEM;
		free(conf->instances_dir);
		conf->instances_dir = dir;
	}
	if (!conf->firmware_code[0] && !conf->firmware_vars[0] && access(FIRMWARE_CODE, R_OK) == 0) {
		char *code = strdup(FIRMWARE_CODE), *vars = strdup(FIRMWARE_VARS);
		free(conf->firmware_code);
		free(conf->firmware_vars);
		conf->firmware_code = code;
		conf->firmware_vars = vars;
		if (!code || !vars)
			return -ENOMEM;
	}
	return 0;
}

static void on_connection(struct runtime *runtime, const struct err *lost, void *userdata)
{
	struct daemon *daemon = userdata;

	if (lost) {
		(void)log_warning(lost->code, "libvirt: %s", err_text(lost, lost->code));
		service_status(daemon->service, "%s is not at hand: %s", runtime->conf->uri,
		        err_text(lost, lost->code));
	} else {
		(void)log_info("libvirt: %s is open", runtime->conf->uri);
		service_status(daemon->service, "%s is open", runtime->conf->uri);
	}
	edge_settle(&daemon->edge);
}

static void on_host_known(struct runtime *runtime, void *userdata)
{
	struct daemon *daemon = userdata;

	if (runtime->host.kvm)
		(void)log_info("QEMU %s, guests under KVM, CPU model %s", runtime->hypervisor_version,
		        runtime->cpu_model);
	else
		(void)log_notice(
		        "QEMU %s, guests under TCG: %s", runtime->hypervisor_version, runtime->accel_reason);
	edge_settle(&daemon->edge);
}

static void on_idle(struct runtime *runtime, void *userdata)
{
	struct daemon *daemon = userdata;

	if (!daemon->stopping)
		return; /* calls are still to be answered: on_stop comes */
	daemon->runtime = runtime_free(runtime);
	service_stopped(daemon->service);
}

static int on_start(struct service *service, void *userdata, struct err *err)
{
	struct daemon *daemon = userdata;
	struct runtime_hooks hooks = {
		.on_connection = on_connection,
		.on_host_known = on_host_known,
		.on_idle = on_idle,
		.userdata = daemon,
	};

	daemon->service = service;
	int r = complete_conf(&daemon->conf, service_data_dir(service));
	if (r == 0)
		r = virt_start_events();
	if (r == 0)
		r = runtime_new(service_loop(service), &daemon->conf, &hooks, &daemon->runtime, err);
	if (r < 0)
		return r;
	edge_init(&daemon->edge, daemon->runtime);
	return rpc_server_add(service_server(service), &daemon->edge.service.base);
}

/* Watchers would wait for ever, and so would who waits for a guest. */
static void on_drain(struct service *service, void *userdata)
{
	struct daemon *daemon = userdata;

	(void)service;
	runtime_stop(daemon->runtime);
	edge_settle(&daemon->edge);
}

/* A call into libvirt that runs cannot be ended: it is waited for, as long as the service has patience. */
static bool on_stop(struct service *service, void *userdata)
{
	struct daemon *daemon = userdata;

	(void)service;
	if (!daemon->runtime)
		return true;
	daemon->stopping = true;
	runtime_stop(daemon->runtime);
	if (!runtime_is_idle(daemon->runtime))
		return false; /* on_idle comes */
	daemon->runtime = runtime_free(daemon->runtime);
	return true;
}

int main(int argc, char **argv)
{
	struct daemon daemon = { 0 };
	const struct conf_table table = { .keys = keys, .n_keys = ARRAY_SIZE(keys), .target = &daemon.conf };

	return service_main(argc, argv,
	        &(struct service_options){
	                .name = "runtime-libvirt",
	                .tables = &table,
	                .n_tables = 1,
	                .start = on_start,
	                .drain = on_drain,
	                .stop = on_stop,
	                .userdata = &daemon,
	        });
}
