#include "svc-runtime-libvirt/lifecycle.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "svc-runtime-libvirt/console.h"
#include "svc-runtime-libvirt/consoles.h"
#include "svc-runtime-libvirt/domain_ops.h"
#include "svc-runtime-libvirt/domain_snapshot.h"
#include "svc-runtime-libvirt/slow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STOP_PRESSES = 3, /* a guest that boots still, or is busy, hears the first one not */
	STOP_WAITERS_MAX = 16,
};

/* What every operation here carries. */
struct request {
	struct op op;
	lifecycle_fn fn;
	void *userdata;
	/* of one kind or another */
	struct lifecycle_ensure ensure;
	struct domain_start start;
	bool existed;
	bool counted; /* in n_ensures */
};

static struct request *request_of(struct op *op)
{
	return CONTAINER_OF(op, struct request, op);
}

static void request_free(struct request *request)
{
	(void)domain_def_free(request->ensure.def);
	free(request);
}

static void answer(struct op *op, struct domain_entry *entry)
{
	struct request *request = request_of(op);

	request->fn(op->r, &op->err, entry, request->userdata);
	request_free(request);
}

/* NULL for want of memory; then fn has been told. */
static struct request *request_new(struct runtime *runtime, const char *id, void (*work)(struct op *),
        void (*end)(struct op *, struct domain_entry *), lifecycle_fn fn, void *userdata)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request) {
		fn(-ENOMEM, &(struct err){ 0 }, NULL, userdata);
		return NULL;
	}
	op_init(&request->op, runtime, id, work, end);
	request->fn = fn;
	request->userdata = userdata;
	return request;
}

static void refuse(struct runtime *runtime, const char *id, int r, const struct err *err, lifecycle_fn fn,
        void *userdata)
{
	struct request *request = request_new(runtime, id, NULL, answer, fn, userdata);

	if (!request)
		return;
	request->op.err = *err;
	op_fail(&request->op, r);
}

/* --- ensure --- */

static void ensure_work(struct op *op)
{
	const struct lifecycle_ensure *ensure = &request_of(op)->ensure;
	struct instance_files_conf files = runtime_files_conf(op->runtime);
	struct instance_restore restore = {
		.path = ensure->restore_path,
		.with_memory = ensure->restore_memory,
		.runtime = RUNTIME_ID,
		.cpu_model = op->runtime->cpu_model,
	};

	op->r = domain_op_ensure(op->conn, ensure->def, &op->runtime->host, &files, ensure->seed,
	        restore.path ? &restore : NULL, &op->err);
}

static void ensure_end(struct op *op, struct domain_entry *entry)
{
	struct domain_entry *any = domains_find_any(op->runtime->domains, op->id);

	if (any && any->n_ensures > 0 && request_of(op)->counted)
		any->n_ensures--;
	answer(op, entry);
}

void lifecycle_ensure(
        struct runtime *runtime, const struct lifecycle_ensure *ensure, lifecycle_fn fn, void *userdata)
{
	struct err err = { 0 };
	struct domain_entry *entry = domains_find(runtime->domains, ensure->def->id);
	int r = slow_check(entry, &err);

	if (r < 0) {
		refuse(runtime, ensure->def->id, r, &err, fn, userdata);
		(void)domain_def_free(ensure->def);
		return;
	}
	struct request *request =
	        request_new(runtime, ensure->def->id, ensure_work, ensure_end, fn, userdata);

	if (!request) {
		(void)domain_def_free(ensure->def);
		return;
	}
	request->ensure = *ensure;
	if (op_submit(&request->op, runtime->ops) < 0 || !entry)
		return;
	request->counted = true;
	entry->n_ensures++;
}

/* --- run --- */

static void run_work(struct op *op)
{
	struct instance_files_conf files = runtime_files_conf(op->runtime);
	struct domain_start *start = &request_of(op)->start;
	CLEANUP_FREE char *memory = NULL;
	struct gpu_paths gpus;

	op->r = runtime_gpu_paths(op->runtime, &gpus, &memory);
	if (op->r < 0)
		return;
	start->files = &files;
	start->gpus = &gpus;
	op->r = domain_op_run(op->conn, op->id, start, &op->err);
}

static void run_end(struct op *op, struct domain_entry *entry)
{
	struct domain_start *start = &request_of(op)->start;
	struct domain_entry *any = domains_find_any(op->runtime->domains, op->id);

	if (any)
		any->starting = false;
	if (entry && start->started_usec) {
		entry->boot.prepared_usec = start->prepared_usec;
		entry->boot.started_usec = start->started_usec;
		entry->panicked = false;
	}
	if (entry && entry->console && start->tap && !op->runtime->stopping)
		console_attach(entry->console, TAKE_PTR(start->tap));
	else if (entry && entry->console && !domain_state_is_active(entry->condition.state))
		console_end(entry->console);
	start->tap = serial_tap_close(start->tap, op->runtime->looks);
	/* the port could not be had at once */
	if (entry && start->started_usec)
		consoles_attach(op->runtime, entry);
	if (entry)
		domains_touch(op->runtime->domains, entry);
	answer(op, entry);
}

static int check_gpus(const struct domain_def *def, const struct domain_entry *other, struct err *err)
{
	const struct domain_def *theirs = other->look.record.def;

	for (size_t i = 0; i < def->n_gpus; i++)
		for (size_t k = 0; k < theirs->n_gpus; k++)
			if (strcmp(def->gpus[i].uuid, theirs->gpus[k].uuid) == 0 ||
			        strcmp(def->gpus[i].address.text, theirs->gpus[k].address.text) == 0)
				return err_set(err, -EBUSY, "GPU %s is given to %s, which runs",
				        QUOTED(def->gpus[i].uuid), other->uuid);
	return 0;
}

/* A volume has one writer, and then no readers. QEMU's own lock comes too late to say who. */
static int check_volumes(const struct domain_def *def, const struct domain_entry *other, struct err *err)
{
	const struct domain_def *theirs = other->look.record.def;

	for (size_t i = 0; i < def->n_volumes; i++)
		for (size_t k = 0; k < theirs->n_volumes; k++) {
			if (strcmp(def->volumes[i].id, theirs->volumes[k].id) != 0 ||
			        (def->volumes[i].read_only && theirs->volumes[k].read_only))
				continue;
			return err_set(err, -EBUSY, "volume %s is open in %s, which runs", def->volumes[i].id,
			        other->uuid);
		}
	return 0;
}

/* What of entry is in use by others. */
static int check_shared(struct runtime *runtime, const struct domain_entry *entry, struct err *err)
{
	const struct domain_def *def = entry->look.record.def;
	int r = 0;

	for (struct domain_entry *other = domains_next(runtime->domains, NULL); r == 0 && other;
	        other = domains_next(runtime->domains, other)) {
		if (other == entry || !domain_entry_managed(other) ||
		        (!other->starting && !domain_state_is_active(other->condition.state)))
			continue;
		r = check_volumes(def, other, err);
		if (r == 0)
			r = check_gpus(def, other, err);
	}
	return r;
}

static int check_run(struct runtime *runtime, const char *id, struct err *err)
{
	const struct domain_entry *entry = domains_find(runtime->domains, id);

	if (!entry)
		return 0; /* the job will say so */
	if (entry->stop)
		return err_set(err, -EAGAIN, "%s is being stopped: try again", id);
	int r = slow_check(entry, err);
	if (r < 0)
		return r;
	if (!domain_entry_managed(entry) || domain_state_is_active(entry->condition.state))
		return 0;
	return check_shared(runtime, entry, err);
}

void lifecycle_run(struct runtime *runtime, const char *id, bool paused, lifecycle_fn fn, void *userdata)
{
	struct err err = { 0 };
	int r = check_run(runtime, id, &err);

	if (r < 0) {
		refuse(runtime, id, r, &err, fn, userdata);
		return;
	}
	struct request *request = request_new(runtime, id, run_work, run_end, fn, userdata);
	if (!request)
		return;
	request->start = (struct domain_start){ .paused = paused, .loop = runtime->loop };
	struct domain_entry *entry = domains_find(runtime->domains, id);
	uint64_t now = clock_monotonic_usec(); /* before the job can begin */
	if (op_submit(&request->op, runtime->ops) < 0 || !entry)
		return;
	if (domain_entry_managed(entry) && !domain_state_is_active(entry->condition.state)) {
		entry->starting = true;
		entry->boot = (struct domain_boot_times){ .begun_usec = now };
		entry->completed = false;
		if (entry->console)
			console_begin(entry->console);
	}
}

/* --- stop --- */

struct stop_waiter {
	lifecycle_fn fn;
	void *userdata;
};

/* Under way from the first request until the domain is off, or cannot be ended. */
struct stop {
	struct runtime *runtime; /* weak, as entry */
	struct domain_entry *entry;
	char id[UUID_TEXT_MAX];
	struct stop_waiter waiters[STOP_WAITERS_MAX];
	size_t n_waiters;
	uint64_t deadline_usec; /* monotonic */
	uint64_t step_usec;
	sd_event_source *timer; /* owned */
	unsigned n_jobs;        /* under way, that will come back to us */
	bool ending;            /* one of them ends QEMU */
	bool end_now;
};

static void stop_finish(struct stop *stop, int r, const struct err *err)
{
	struct domain_entry *entry = stop->entry;
	struct runtime *runtime = stop->runtime;
	struct stop_waiter waiters[STOP_WAITERS_MAX];
	size_t n_waiters = stop->n_waiters;

	memcpy(waiters, stop->waiters, sizeof(waiters));
	entry->stop = NULL;
	if (r < 0)
		entry->asked = false;
	stop->timer = sd_event_source_disable_unref(stop->timer);
	free(stop);
	domains_touch(runtime->domains, entry);
	for (size_t i = 0; i < n_waiters; i++)
		if (waiters[i].fn)
			waiters[i].fn(r, err, entry->look.present ? entry : NULL, waiters[i].userdata);
}

/* A press or an end on behalf of a stop, which outlives it. */
struct stop_op {
	struct op op;
	struct stop *stop; /* weak */
};

static bool stop_is_over(const struct stop *stop)
{
	const struct domain_entry *entry = stop->entry;

	return !entry->look.present || !domain_state_is_active(entry->condition.state);
}

static void stop_step(struct stop *stop);

static void note_stop(struct op *op)
{
	struct instance_files_conf files = runtime_files_conf(op->runtime);

	instance_files_mark_stop(&files, op->id);
}

static void press_work(struct op *op)
{
	note_stop(op);
	op->r = domain_op_press(op->conn, op->id, &op->err);
}

static void destroy_work(struct op *op)
{
	note_stop(op);
	op->r = domain_op_destroy(op->conn, op->id, &op->err);
}

/* Beside the instance's own lane: a call to a QEMU that answers nothing holds that, and ends only with the QEMU. */
static void leave_lane(struct op *op)
{
	(void)snprintf(op->job.key, sizeof(op->job.key), "%s/end", op->id);
}

static void stop_wake_at(struct stop *stop, uint64_t usec)
{
	(void)sd_event_source_set_time(stop->timer, usec);
	(void)sd_event_source_set_enabled(stop->timer, SD_EVENT_ONESHOT);
}

static void stop_end(struct op *op, struct domain_entry *entry)
{
	struct stop *stop = CONTAINER_OF(op, struct stop_op, op)->stop;
	uint64_t now = clock_monotonic_usec();
	bool ended = op->work == destroy_work;

	(void)entry;
	stop->n_jobs--;
	if (ended)
		stop->ending = false;
	if (stop->n_jobs > 0)
		; /* a button that was pressed in vain comes back when QEMU has ended */
	else if (stop_is_over(stop))
		stop_finish(stop, 0, &op->err);
	else if (op->runtime->stopping) /* not done, and nobody is here to do it */
		stop_finish(stop, ending_refuse(&op->err, stop->id), &op->err);
	else if (op->r < 0 && (ended || op->r == -ENOTCONN))
		stop_finish(stop, op->r, &op->err);
	else if (op->r == -EAGAIN) /* another call has the domain: perhaps for long */
		stop_wake_at(stop, stop->deadline_usec);
	else if (op->r < 0) {
		stop->end_now = true; /* no button to press */
		stop_step(stop);
	} else if (ended)
		stop_wake_at(stop, now + USEC_PER_SEC); /* not seen so yet: the event brings the look */
	else
		stop_wake_at(stop,
		        now + stop->step_usec < stop->deadline_usec ? now + stop->step_usec
		                                                    : stop->deadline_usec);
	free(CONTAINER_OF(op, struct stop_op, op));
}

static void stop_step(struct stop *stop)
{
	bool end = stop->end_now || clock_monotonic_usec() >= stop->deadline_usec;

	if (stop->ending || (stop->n_jobs > 0 && !end))
		return;
	struct stop_op *what = calloc(1, sizeof(*what));
	if (!what) {
		stop_wake_at(stop, clock_monotonic_usec() + USEC_PER_SEC);
		return;
	}
	what->stop = stop;
	op_init(&what->op, stop->runtime, stop->id, end ? destroy_work : press_work, stop_end);
	if (end)
		leave_lane(&what->op);
	else
		stop_wake_at(stop, stop->deadline_usec); /* a QEMU that answers nothing holds the press */
	stop->n_jobs++;
	stop->ending = end;
	(void)op_submit(&what->op, stop->runtime->ops);
}

static int on_stop_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	stop_step(userdata);
	return 0;
}

static int stop_new(
        struct runtime *runtime, struct domain_entry *entry, uint64_t grace_usec, struct stop **ret)
{
	struct stop *stop = calloc(1, sizeof(*stop));

	if (!stop)
		return -ENOMEM;
	*stop = (struct stop){
		.runtime = runtime,
		.entry = entry,
		.deadline_usec = clock_monotonic_usec() + grace_usec,
		.step_usec = grace_usec / STOP_PRESSES + 1,
	};
	(void)strcpy(stop->id, entry->uuid);
	int r = sd_event_add_time(loop_event(runtime->loop), &stop->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000,
	        on_stop_timer, stop);
	if (r < 0) {
		free(stop);
		return r;
	}
	(void)sd_event_source_set_description(stop->timer, "stop");
	(void)sd_event_source_set_enabled(stop->timer, SD_EVENT_OFF);
	*ret = stop;
	return 0;
}

/* A state that a job finds: for requests on what the table does not know, or what is off. */
static void nothing_work(struct op *op)
{
	op->r = 0;
}

static void nothing_end(struct op *op, struct domain_entry *entry)
{
	if (op->r < 0)
		;
	else if (!entry)
		op->r = err_set(&op->err, -ENOENT, "no domain %s", op->id);
	else if (!domain_entry_managed(entry))
		op->r = err_set(&op->err, -EACCES,
		        "domain '%s' (%s) is not managed: it is listed, and never touched",
		        entry->look.record.name, entry->uuid);
	else if (domain_state_is_active(entry->condition.state)) {
		/* it was started meanwhile, in the lane before us */
		lifecycle_stop(op->runtime, op->id, 0, request_of(op)->fn, request_of(op)->userdata);
		request_free(request_of(op));
		return;
	}
	answer(op, entry);
}

/* What is under way ends first: it may have the guest paused, or its disk on a layer. */
static bool refuse_slow(struct runtime *runtime, struct domain_entry *entry, lifecycle_fn fn, void *userdata)
{
	struct err err = { 0 };
	int r = slow_check(entry, &err);

	if (!entry || r == 0)
		return false;
	slow_cancel(entry->slow);
	refuse(runtime, entry->uuid, r, &err, fn, userdata);
	return true;
}

void lifecycle_stop(
        struct runtime *runtime, const char *id, uint64_t grace_usec, lifecycle_fn fn, void *userdata)
{
	struct domain_entry *entry = domains_find(runtime->domains, id);
	struct err err = { 0 };
	int r = 0;

	if (!entry || !domain_entry_managed(entry) || !domain_state_is_active(entry->condition.state)) {
		struct request *request = request_new(runtime, id, nothing_work, nothing_end, fn, userdata);
		if (request)
			(void)op_submit(&request->op, runtime->ops);
		return;
	}
	if (!grace_usec)
		grace_usec = runtime->conf->grace_usec;
	struct stop *stop = entry->stop;
	bool begin = !stop;
	if (begin && refuse_slow(runtime, entry, fn, userdata))
		return;
	if (begin) {
		r = stop_new(runtime, entry, grace_usec, &stop);
		entry->stop = stop;
	}
	if (r == 0 && stop->n_waiters == STOP_WAITERS_MAX)
		r = err_set(&err, -EAGAIN, "%d callers wait for %s to stop already", STOP_WAITERS_MAX, id);
	if (r < 0) {
		refuse(runtime, id, r, &err, fn, userdata);
		return;
	}
	stop->waiters[stop->n_waiters++] = (struct stop_waiter){ fn, userdata };
	uint64_t deadline = clock_monotonic_usec() + grace_usec;
	if (deadline < stop->deadline_usec) {
		stop->deadline_usec = deadline;
		(void)sd_event_source_set_time(stop->timer, deadline);
	}
	if (begin) {
		entry->asked = true;
		domains_touch(runtime->domains, entry);
		stop_step(stop);
	}
}

/* --- remove --- */

static void remove_work(struct op *op)
{
	struct instance_files_conf files = runtime_files_conf(op->runtime);

	op->r = domain_op_remove(op->conn, op->id, &files, &request_of(op)->existed, &op->err);
}

static void remove_end(struct op *op, struct domain_entry *entry)
{
	if (op->r == 0)
		op->r = request_of(op)->existed ? 0 : 1;
	else if (entry && !entry->stop)
		entry->asked = false;
	answer(op, entry);
}

static void remove_begin(struct request *request)
{
	struct runtime *runtime = request->op.runtime;
	struct domain_entry *entry = domains_find(runtime->domains, request->op.id);

	if (op_submit(&request->op, runtime->ops) == 0 && entry && domain_entry_managed(entry))
		entry->asked = true;
}

/* The end of the guest, before its removal. */
struct end_op {
	struct op op;
	struct request *removal; /* owned until it begins */
};

/* What fails is tried again by the removal itself. */
static void end_end(struct op *op, struct domain_entry *entry)
{
	struct end_op *end = CONTAINER_OF(op, struct end_op, op);

	(void)entry;
	remove_begin(end->removal);
	free(end);
}

/* Whatever the lane waits for ends with the guest, and only then does the removal join it: an end that came after that
 * would be another guest's. */
static void end_first(struct request *removal, struct domain_entry *entry)
{
	struct runtime *runtime = removal->op.runtime;
	struct end_op *end = calloc(1, sizeof(*end));

	if (!end) {
		remove_begin(removal);
		return;
	}
	op_init(&end->op, runtime, removal->op.id, destroy_work, end_end);
	leave_lane(&end->op);
	end->removal = removal;
	if (op_submit(&end->op, runtime->ops) == 0)
		entry->asked = true;
}

void lifecycle_remove(struct runtime *runtime, const char *id, lifecycle_fn fn, void *userdata)
{
	struct domain_entry *entry = domains_find(runtime->domains, id);

	if (refuse_slow(runtime, entry, fn, userdata))
		return;
	struct request *request = request_new(runtime, id, remove_work, remove_end, fn, userdata);

	if (!request)
		return;
	if (entry && domain_entry_managed(entry) && domain_state_is_active(entry->condition.state))
		end_first(request, entry);
	else
		remove_begin(request);
}

/* --- snapshots that were broken off --- */

static void settle_work(struct op *op)
{
	struct instance_files_conf files = runtime_files_conf(op->runtime);

	op->r = domain_op_settle(op->conn, op->id, &files, &op->err);
}

static void settle_end(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	(void)r;
	(void)err;
	(void)entry;
	(void)userdata;
}

/* Of a snapshot that is under way the layer is its own; its last look brings us here again. What fails is tried again
 * when the domain changes, and before it is started. */
static void settle(struct runtime *runtime, struct domain_entry *entry)
{
	if (runtime->stopping || !runtime->host_known || entry->slow || entry->starting || entry->stop ||
	        !domain_is_unsettled(entry->look.record.def))
		return;
	struct slow *slow = calloc(1, sizeof(*slow));
	if (!slow ||
	        slow_init(slow, runtime, entry->uuid, "the end of a snapshot", settle_work, settle_end,
	                NULL) < 0)
		free(slow);
	else
		slow_begin(slow);
}

void lifecycle_settle(struct runtime *runtime)
{
	for (struct domain_entry *entry = domains_next(runtime->domains, NULL); entry;
	        entry = domains_next(runtime->domains, entry))
		if (domain_entry_managed(entry) && domain_state_is_active(entry->condition.state))
			settle(runtime, entry);
}

/* --- what the table says --- */

void lifecycle_on_changed(struct runtime *runtime, struct domain_entry *entry)
{
	if (!domain_entry_managed(entry))
		return;
	if (!entry->console)
		consoles_make(runtime, entry);
	if (domain_state_is_active(entry->condition.state)) {
		if (entry->console)
			console_go_on(entry->console);
		consoles_attach(runtime, entry);
		settle(runtime, entry);
		return;
	}
	if (entry->console && !entry->starting)
		console_end(entry->console);
	if (entry->stop && entry->stop->n_jobs == 0)
		stop_finish(entry->stop, 0, &(struct err){ 0 });
}

void lifecycle_on_gone(struct runtime *runtime, struct domain_entry *entry)
{
	(void)runtime;
	entry->console = console_free(entry->console);
	entry->boot = (struct domain_boot_times){ 0 };
	entry->asked = entry->panicked = entry->completed = false;
	if (entry->stop && entry->stop->n_jobs == 0)
		stop_finish(entry->stop, 0, &(struct err){ 0 });
}

static void forget_waiters(struct stop *stop)
{
	struct stop_waiter waiters[STOP_WAITERS_MAX];
	size_t n_waiters = stop->n_waiters;
	struct err err = { 0 };

	(void)err_set(&err, -EAGAIN, "this service ends while %s shuts down: ask again", stop->id);
	memcpy(waiters, stop->waiters, sizeof(waiters));
	stop->n_waiters = 0;
	for (size_t i = 0; i < n_waiters; i++)
		if (waiters[i].fn)
			waiters[i].fn(-EAGAIN, &err, stop->entry, waiters[i].userdata);
}

void lifecycle_shut_down(struct runtime *runtime)
{
	for (struct domain_entry *entry = domains_next(runtime->domains, NULL); entry;
	        entry = domains_next(runtime->domains, entry)) {
		if (entry->console)
			console_shut_down(entry->console);
		if (entry->slow)
			slow_cancel(entry->slow);
		if (!entry->stop)
			continue;
		forget_waiters(entry->stop);
		entry->stop->timer = sd_event_source_disable_unref(entry->stop->timer);
		if (entry->stop->n_jobs == 0) {
			free(entry->stop);
			entry->stop = NULL;
		}
	}
}
