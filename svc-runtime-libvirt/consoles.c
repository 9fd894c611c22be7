#include "svc-runtime-libvirt/consoles.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "svc-runtime-libvirt/console.h"
#include "svc-runtime-libvirt/domain_ops.h"
#include "svc-runtime-libvirt/instance_path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_first_output(uint64_t usec, void *userdata)
{
	struct domain_entry *entry = userdata;

	entry->boot.first_output_usec = usec;
	domains_touch(entry->runtime->domains, entry);
}

static void on_ready(uint64_t usec, void *userdata)
{
	struct domain_entry *entry = userdata;

	entry->boot.ready_usec = usec;
	domains_touch(entry->runtime->domains, entry);
}

/* What a job said outlives this process: a file in its directory, written by a job of ours. */
struct complete_job {
	struct job job;
	char *path; /* owned */
};

static void complete_run(struct job *job)
{
	struct complete_job *c = CONTAINER_OF(job, struct complete_job, job);

	(void)atomic_file_write(AT_FDCWD, c->path, "", 0, 0600);
}

static void complete_done(struct job *job)
{
	struct complete_job *c = CONTAINER_OF(job, struct complete_job, job);

	free(c->path);
	free(c);
}

static void on_complete(void *userdata)
{
	struct domain_entry *entry = userdata;
	struct runtime *runtime = entry->runtime;
	struct complete_job *c = calloc(1, sizeof(*c));

	entry->completed = true;
	domains_touch(runtime->domains, entry);
	if (!c)
		return;
	c->job = (struct job){ .run = complete_run, .done = complete_done };
	c->path = instance_path(runtime->conf->instances_dir, entry->uuid, INSTANCE_COMPLETED);
	if (!c->path || job_submit(runtime->looks, &c->job) < 0)
		complete_done(&c->job);
}

/* The guest is off, which a look tells; or libvirtd is, which the next sync mends; or somebody else took the port. */
static void on_detached(void *userdata)
{
	struct domain_entry *entry = userdata;
	struct runtime *runtime = entry->runtime;

	domains_touch(runtime->domains, entry); /* a job's end waited for this */
	domains_look(runtime->domains, entry->uuid);
	consoles_attach_later(runtime);
}

static const struct console_handlers console_handlers = {
	.on_first_output = on_first_output,
	.on_ready = on_ready,
	.on_complete = on_complete,
	.on_detached = on_detached,
};

struct attach_job {
	struct job job;
	struct runtime *runtime; /* weak */
	virConnectPtr conn;      /* owned */
	char id[UUID_TEXT_MAX];
	struct serial_tap *tap; /* owned; out */
};

static void attach_run(struct job *job)
{
	struct attach_job *a = CONTAINER_OF(job, struct attach_job, job);

	(void)domain_op_attach(a->conn, a->id, a->runtime->loop, &a->tap, NULL);
	(void)virConnectClose(a->conn);
}

static void attach_done(struct job *job)
{
	struct attach_job *a = CONTAINER_OF(job, struct attach_job, job);
	struct domain_entry *entry = domains_find(a->runtime->domains, a->id);

	if (entry)
		entry->attaching = false;
	if (entry && entry->console && a->tap && !a->runtime->stopping && !console_attached(entry->console))
		console_attach(entry->console, TAKE_PTR(a->tap));
	else if (entry && !a->tap && domain_state_is_active(entry->condition.state))
		consoles_attach_later(a->runtime);
	a->tap = serial_tap_close(a->tap, a->runtime->looks);
	free(a);
}

void consoles_attach(struct runtime *runtime, struct domain_entry *entry)
{
	if (runtime->stopping || !entry->console || entry->starting || entry->attaching ||
	        console_attached(entry->console) || !domain_state_is_active(entry->condition.state))
		return;
	struct attach_job *a = calloc(1, sizeof(*a));
	if (!a)
		return;
	a->runtime = runtime;
	(void)strcpy(a->id, entry->uuid);
	a->conn = virt_ref(runtime->virt);
	a->job = (struct job){ .run = attach_run, .done = attach_done };
	if (a->conn && job_submit(runtime->looks, &a->job) == 0) {
		entry->attaching = true;
		return;
	}
	if (a->conn)
		(void)virConnectClose(a->conn);
	free(a);
}

void consoles_attach_all(struct runtime *runtime)
{
	for (struct domain_entry *entry = domains_next(runtime->domains, NULL); entry;
	        entry = domains_next(runtime->domains, entry))
		consoles_attach(runtime, entry);
}

void consoles_attach_later(struct runtime *runtime)
{
	int enabled = SD_EVENT_OFF;

	if (!runtime->attach_timer || sd_event_source_get_enabled(runtime->attach_timer, &enabled) > 0)
		return;
	(void)sd_event_source_set_time(runtime->attach_timer, clock_monotonic_usec() + 2 * USEC_PER_SEC);
	(void)sd_event_source_set_enabled(runtime->attach_timer, SD_EVENT_ONESHOT);
}

void consoles_make(struct runtime *runtime, struct domain_entry *entry)
{
	const char *dir = runtime->conf->instances_dir;
	CLEANUP_FREE char *ring = instance_path(dir, entry->uuid, INSTANCE_CONSOLE_RING);
	CLEANUP_FREE char *log = instance_path(dir, entry->uuid, INSTANCE_SERIAL_LOG);
	CLEANUP_FREE char *completed = instance_path(dir, entry->uuid, INSTANCE_COMPLETED);
	struct console_options options = {
		.pool = runtime->looks,
		.ring_path = ring,
		/* the system's libvirt has a daemon that rotates it */
		.log_path = runtime->embed_lock_fd >= 0 ? log : NULL,
		.log_keep_bytes = runtime->conf->log_keep_bytes,
		.ready_marker = runtime->conf->ready_marker,
		.complete_marker = runtime->conf->complete_marker,
	};

	if (!ring || !log || !completed)
		return;
	entry->runtime = runtime;
	entry->completed = access(completed, F_OK) == 0;
	/* no directory: a definition that was made by hand, or another instances_dir; it has no console then */
	if (console_new(&options, &console_handlers, entry, &entry->console) < 0)
		entry->console = NULL;
}
