#include "svc-runtime-libvirt/runtime.h"

#include "lib/base/tree.h"
#include "svc-runtime-libvirt/checks.h"
#include "svc-runtime-libvirt/consoles.h"
#include "svc-runtime-libvirt/embed_root.h"
#include "svc-runtime-libvirt/embed_sweep.h"
#include "svc-runtime-libvirt/host_facts.h"
#include "svc-runtime-libvirt/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LOOK_THREADS = 2,
	CHECK_THREADS = 2,
	SLOW_THREADS = 4,
	SLOW_QUEUED_MAX = 256,
	OPS_QUEUED_MAX = 4096,
	LOOKS_QUEUED_MAX = 65536,
};

static bool is_uri(const char *uri, const char *prefix)
{
	return strncmp(uri, prefix, strlen(prefix)) == 0;
}

/* QEMU's user under the system's libvirtd; itself otherwise. */
static int find_vmm_user(const struct runtime_conf *conf, struct domain_host *host, struct err *err)
{
	static const char *const usual[] = { "libvirt-qemu", "qemu" };
	const struct passwd *user = NULL;

	host->vmm_uid = geteuid();
	host->vmm_gid = getegid();
	if (conf->vmm_user[0]) {
		user = getpwnam(conf->vmm_user);
		if (!user)
			return err_set(
			        err, -EINVAL, "[libvirt] vmm_user: there is no user '%s'", conf->vmm_user);
	} else if (is_uri(conf->uri, "qemu:///system")) {
		for (size_t i = 0; i < ARRAY_SIZE(usual) && !user; i++)
			user = getpwnam(usual[i]);
	}
	if (user) {
		/* the group of its own, where it has one: the user's first may be shared with half of the host ("kvm") */
		const struct group *group = getgrnam(user->pw_name);
		host->vmm_uid = user->pw_uid;
		host->vmm_gid = group ? group->gr_gid : user->pw_gid;
	}
	host->keep_owners = is_uri(conf->uri, "qemu:///system");
	return 0;
}

/* Can the file system of the instances do without the page cache? */
static const char *choose_cache(const struct runtime_conf *conf)
{
	bool direct = conf->disk_cache == DISK_CACHE_NONE;

	if (conf->disk_cache == DISK_CACHE_AUTO) {
		CLEANUP_CLOSE int fd =
		        open(conf->instances_dir, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
		direct = fd >= 0;
	}
	return direct ? "none" : "writeback";
}

static int find_paths(struct runtime *runtime, const char *embed_root)
{
	const char *uri = runtime->conf->uri, *run_dir = getenv("XDG_RUNTIME_DIR");
	int n;

	if (embed_root && asprintf(&runtime->vmm_log_dir, "%s/log/qemu", embed_root) < 0) {
		runtime->vmm_log_dir = NULL;
		return -ENOMEM;
	}
	if (embed_root)
		n = asprintf(&runtime->pid_dir, "%s/run/qemu", embed_root);
	else if (is_uri(uri, "qemu:///session") && run_dir)
		n = asprintf(&runtime->pid_dir, "%s/libvirt/qemu/run", run_dir);
	else
		n = asprintf(&runtime->pid_dir, "/run/libvirt/qemu");
	if (n < 0)
		return -ENOMEM;
	runtime->look_paths = (struct look_paths){
		.instances_dir = runtime->conf->instances_dir,
		.pid_dir = runtime->pid_dir,
		.proc_dir = "/proc",
	};
	return 0;
}

/* --- what libvirt's connection says --- */

static void on_facts(const struct host_facts *facts, void *userdata)
{
	struct runtime *runtime = userdata;

	runtime->host.kvm = facts->kvm;
	(void)snprintf(runtime->accel_reason, sizeof(runtime->accel_reason), "%s", facts->accel_reason);
	(void)snprintf(
	        runtime->hypervisor_version, sizeof(runtime->hypervisor_version), "%s", facts->version);
	(void)snprintf(runtime->cpu_model, sizeof(runtime->cpu_model), "%s", facts->cpu_model);
	runtime->host_known = true;
	lifecycle_settle(runtime);
	checks_begin(runtime);
	runtime->hooks.on_host_known(runtime, runtime->hooks.userdata);
}

static void on_open(struct domain_look *looks, size_t n_looks, void *userdata)
{
	struct runtime *runtime = userdata;

	domains_sync(runtime->domains, looks, n_looks);
	consoles_attach_all(runtime);
	lifecycle_settle(runtime);
	if (runtime->host_known)
		checks_begin(runtime);
	else
		(void)host_facts_find(runtime->looks, runtime->virt, runtime->conf, on_facts, runtime);
	runtime->hooks.on_connection(runtime, NULL, runtime->hooks.userdata);
}

static void on_event(const struct virt_event *event, void *userdata)
{
	struct runtime *runtime = userdata;

	domains_on_event(runtime->domains, event);
}

static void on_lost(const struct err *why, void *userdata)
{
	struct runtime *runtime = userdata;

	domains_unsync(runtime->domains);
	runtime->hooks.on_connection(runtime, why, runtime->hooks.userdata);
}

static const struct virt_handlers virt_handlers = {
	.on_open = on_open,
	.on_event = on_event,
	.on_lost = on_lost,
};

static void on_changed(struct domain_entry *entry, void *userdata)
{
	lifecycle_on_changed(userdata, entry);
}

static void on_gone(struct domain_entry *entry, void *userdata)
{
	lifecycle_on_gone(userdata, entry);
}

static const struct domains_handlers domains_handlers = { .on_changed = on_changed, .on_gone = on_gone };

static int on_attach_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	consoles_attach_all(userdata);
	return 0;
}

static void on_idle_post(struct loop_tag *tag, bool ok)
{
	struct runtime *runtime = CONTAINER_OF(tag, struct runtime, idle_tag);

	(void)ok;
	runtime->idle_posted = false;
	if (runtime_is_idle(runtime))
		runtime->hooks.on_idle(runtime, runtime->hooks.userdata);
}

/* Not at once: a pool, or an op, is on the stack that would be freed. */
void runtime_check_idle(struct runtime *runtime)
{
	if (!runtime->stopping || !runtime->hooks.on_idle || runtime->idle_posted ||
	        !runtime_is_idle(runtime))
		return;
	runtime->idle_posted = true;
	runtime->idle_tag.on_done = on_idle_post;
	loop_post(runtime->loop, &runtime->idle_tag);
}

static void on_pool_idle(void *userdata)
{
	runtime_check_idle(userdata);
}

static int make_parts(struct runtime *runtime)
{
	int r = job_pool_new(runtime->loop, "bc-op", runtime->conf->jobs, OPS_QUEUED_MAX, &runtime->ops);

	if (r == 0)
		r = job_pool_new(runtime->loop, "bc-slow", SLOW_THREADS, SLOW_QUEUED_MAX, &runtime->slow);
	if (r == 0)
		r = job_pool_new(runtime->loop, "bc-look", LOOK_THREADS, LOOKS_QUEUED_MAX, &runtime->looks);
	if (r == 0)
		r = job_pool_new(
		        runtime->loop, "bc-check", CHECK_THREADS, LOOKS_QUEUED_MAX, &runtime->checks);
	if (r == 0) {
		job_pool_set_idle(runtime->ops, on_pool_idle, runtime);
		job_pool_set_idle(runtime->slow, on_pool_idle, runtime);
		job_pool_set_idle(runtime->looks, on_pool_idle, runtime);
		job_pool_set_idle(runtime->checks, on_pool_idle, runtime);
	}
	if (r == 0)
		r = domains_new(
		        runtime->looks, &runtime->look_paths, &domains_handlers, runtime, &runtime->domains);
	if (r == 0)
		r = sd_event_add_time(loop_event(runtime->loop), &runtime->attach_timer, CLOCK_MONOTONIC,
		        UINT64_MAX, 1000, on_attach_timer, runtime);
	if (r >= 0)
		r = sd_event_source_set_enabled(runtime->attach_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = virt_new(runtime->loop, runtime->looks, runtime->conf->uri, &runtime->look_paths,
		        &virt_handlers, runtime, &runtime->virt);
	if (r == 0)
		domains_set_virt(runtime->domains, runtime->virt);
	return r;
}

int runtime_new(struct loop *loop, const struct runtime_conf *conf, const struct runtime_hooks *hooks,
        struct runtime **ret, struct err *err)
{
	CLEANUP_FREE char *embed_root = NULL;
	struct runtime *runtime = calloc(1, sizeof(*runtime));

	if (!runtime)
		return -ENOMEM;
	*runtime = (struct runtime){
		.loop = loop, .conf = conf, .hooks = *hooks, .embed_lock_fd = -EBADF, .ending.fd = -EBADF
	};
	int r = ending_init(&runtime->ending);
	if (r == 0)
		r = embed_root_parse(conf->uri, &embed_root, err);
	if (r == 0 && embed_root)
		r = embed_root_prepare(embed_root, &runtime->embed_lock_fd, err);
	if (r == 0 && embed_root)
		embed_sweep(embed_root);
	if (r == 0)
		r = mkdir_p(conf->instances_dir, 0711);
	if (r < 0 && err && !err->code)
		(void)err_set(err, r, "%s: %s", conf->instances_dir, strerror(-r));
	if (r == 0)
		r = find_vmm_user(conf, &runtime->host, err);
	if (r == 0)
		r = find_paths(runtime, embed_root);
	if (r == 0) {
		runtime->host.emulator = conf->emulator;
		runtime->host.disk_cache = choose_cache(conf);
		runtime->host.firmware_code = conf->firmware_code[0] ? conf->firmware_code : NULL;
		r = make_parts(runtime);
	}
	if (r < 0) {
		(void)runtime_free(runtime);
		return r;
	}
	*ret = runtime;
	return 0;
}

int runtime_gpu_paths(const struct runtime *runtime, struct gpu_paths *ret, char **ret_memory)
{
	if (asprintf(ret_memory, "%s/gpus.json", runtime->conf->instances_dir) < 0) {
		*ret_memory = NULL;
		return -ENOMEM;
	}
	*ret = (struct gpu_paths){
		.sysfs = runtime->conf->sysfs,
		.proc = "/proc",
		.driver_tree = runtime->conf->gpu_tree,
		.memory = *ret_memory,
	};
	return 0;
}

struct instance_files_conf runtime_files_conf(const struct runtime *runtime)
{
	return (struct instance_files_conf){
		.instances_dir = runtime->conf->instances_dir,
		.firmware_vars = runtime->conf->firmware_vars[0] ? runtime->conf->firmware_vars : NULL,
		.vmm_gid = runtime->host.vmm_gid,
		.open_below = geteuid() == 0 && runtime->host.vmm_uid != 0 ? runtime->conf->data_dir : NULL,
		.ending = &runtime->ending,
		.vmm_log_dir = runtime->vmm_log_dir,
	};
}

void runtime_stop(struct runtime *runtime)
{
	runtime->stopping = true;
	ending_begin(&runtime->ending);
	if (runtime->virt)
		virt_stop(runtime->virt);
	domains_unsync(runtime->domains);
	runtime->attach_timer = sd_event_source_disable_unref(runtime->attach_timer);
	lifecycle_shut_down(runtime);
}

bool runtime_is_idle(const struct runtime *runtime)
{
	return !runtime->idle_posted && runtime->n_late == 0 && job_pool_pending(runtime->ops) == 0 &&
	        job_pool_pending(runtime->slow) == 0 && job_pool_pending(runtime->looks) == 0 &&
	        job_pool_pending(runtime->checks) == 0;
}

struct runtime *runtime_free(struct runtime *runtime)
{
	if (!runtime)
		return NULL;
	runtime->attach_timer = sd_event_source_disable_unref(runtime->attach_timer);
	runtime->domains = domains_free(runtime->domains);
	runtime->ops = job_pool_free(runtime->ops);
	runtime->slow = job_pool_free(runtime->slow);
	runtime->looks = job_pool_free(runtime->looks);
	runtime->checks = job_pool_free(runtime->checks);
	runtime->virt = virt_free(runtime->virt);
	ending_done(&runtime->ending);
	free(runtime->pid_dir);
	free(runtime->vmm_log_dir);
	if (runtime->embed_lock_fd >= 0)
		(void)close(runtime->embed_lock_fd);
	free(runtime);
	return NULL;
}
