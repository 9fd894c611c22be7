/* The service's one object: what its parts share. Loop thread only, but for what never changes after the start. */
#pragma once

#include "svc-runtime-libvirt/domain_xml.h"
#include "svc-runtime-libvirt/domains.h"
#include "svc-runtime-libvirt/ending.h"
#include "svc-runtime-libvirt/gpus.h"
#include "svc-runtime-libvirt/virt.h"

#include "lib/loop/job.h"
#include "svc-runtime-libvirt/instance_files.h"

#define RUNTIME_ID "libvirt-kvm"

enum disk_cache { DISK_CACHE_AUTO, DISK_CACHE_NONE, DISK_CACHE_WRITEBACK };

struct runtime_conf {
	char *uri;            /* owned, as every char * here; never NULL */
	const char *data_dir; /* weak */
	char *instances_dir;
	char *emulator;
	char *firmware_code;   /* "": none */
	char *firmware_vars;   /* "": none */
	char *ready_marker;    /* "": none */
	char *complete_marker; /* "": none */
	char *vmm_user;        /* "": as libvirt's driver has it */
	char *sysfs;           /* where GPUs are looked for, as the next */
	char *gpu_tree;
	int accel;               /* enum accel_wish */
	int disk_cache;          /* enum disk_cache */
	uint64_t grace_usec;     /* of a stop that states none */
	uint64_t log_keep_bytes; /* of a serial log that nobody else rotates */
	uint64_t jobs;           /* operations at a time */
};

struct runtime;

/* For the daemon: what is to be logged, and told to systemd. Loop thread. */
struct runtime_hooks {
	void (*on_connection)(
	        struct runtime *runtime, const struct err *lost, void *userdata); /* NULL: it is there */
	void (*on_host_known)(struct runtime *runtime, void *userdata);
	/* After runtime_stop(), which found some: no job is under way any more. May free the runtime; may be NULL. */
	void (*on_idle)(struct runtime *runtime, void *userdata);
	void *userdata;
};

struct runtime {
	struct loop *loop;               /* weak */
	const struct runtime_conf *conf; /* weak */
	struct job_pool *ops;            /* owned; operations, one at a time per instance */
	struct job_pool *slow;   /* owned; what waits for guests or moves disks: not to hold up the others */
	size_t n_late;           /* ops that end without having been jobs */
	struct job_pool *checks; /* owned; what waits for libvirt to be done with a domain */
	struct job_pool *looks;  /* owned; short things that must not wait behind those */
	struct virt *virt;       /* owned */
	struct domains *domains; /* owned */
	struct look_paths look_paths;
	char *pid_dir;     /* owned */
	char *vmm_log_dir; /* owned; NULL: not ours to keep tidy */
	int embed_lock_fd; /* owned; -EBADF: another driver */
	struct runtime_hooks hooks;
	bool stopping;            /* nothing new begins */
	struct ending ending;     /* the same, for jobs */
	struct loop_tag idle_tag; /* of the post that looks whether it is idle */
	bool idle_posted;
	sd_event_source *attach_timer; /* owned; of consoles_attach_later() */
	/* known once libvirt was opened, then for good */
	struct domain_host host;
	bool host_known;
	char accel_reason[160]; /* why not kvm; "" with kvm */
	char hypervisor_version[32];
	char cpu_model[128]; /* as guests get it */
};

/* conf must outlive it; virt_start_events() was called. Opens libvirt at once and for ever. -EINVAL and -EBUSY, with
 * words, for a configuration that cannot be. */
int runtime_new(struct loop *loop, const struct runtime_conf *conf, const struct runtime_hooks *hooks,
        struct runtime **ret, struct err *err);
/* Any thread; *ret_memory is owned by the caller and must outlive the paths. -ENOMEM. */
int runtime_gpu_paths(const struct runtime *runtime, struct gpu_paths *ret, char **ret_memory);
/* Nothing new comes from libvirt, jobs that have not begun end at once and long ones soon, who waits for a guest to stop
 * is told to ask again. VMs run on. */
void runtime_stop(struct runtime *runtime);
/* An op ended that was no job: is it idle now? */
void runtime_check_idle(struct runtime *runtime);
/* No job is under way, and on_idle is not about to be called. */
bool runtime_is_idle(const struct runtime *runtime);
/* After runtime_stop(), with every call answered, when idle. */
struct runtime *runtime_free(struct runtime *runtime);
/* For jobs; points into the configuration. */
struct instance_files_conf runtime_files_conf(const struct runtime *runtime);
