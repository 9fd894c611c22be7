#include "svc-converger/reconciler.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/instance_view.h"
#include "svc-converger/intelligence_link.h"
#include "svc-converger/operation.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/trouble.h"

#include <stdio.h>
#include <string.h>

/* For operations in flight when the service ends. */
static const uint64_t STOP_PATIENCE_USEC = 5 * USEC_PER_SEC;

/* --- queues --- */

static void list_push(struct instance_list *list, struct instance *instance, enum instance_queue queue)
{
	instance->queue = queue;
	instance->next = NULL;
	instance->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = instance;
	list->last = instance;
}

static void list_remove(struct instance_list *list, struct instance *instance)
{
	*(instance->prev ? &instance->prev->next : &list->first) = instance->next;
	*(instance->next ? &instance->next->prev : &list->last) = instance->prev;
	instance->queue = QUEUE_NONE;
}

static struct instance *list_pop(struct instance_list *list)
{
	struct instance *instance = list->first;

	if (instance)
		list_remove(list, instance);
	return instance;
}

static void post_pass(struct converger *c)
{
	if (c->pass_is_posted)
		return;
	c->pass_is_posted = true;
	loop_post(c->loop, &c->pass_tag);
}

void reconciler_mark(struct converger *c, struct instance *instance)
{
	/* One that waits for a slot is looked at again before it gets one. */
	if (instance->queue != QUEUE_NONE)
		return;
	list_push(&c->dirty, instance, QUEUE_DIRTY);
	post_pass(c);
}

void reconciler_mark_changed(struct converger *c, struct instance *instance)
{
	if (instance->queue != QUEUE_NONE && instance->queue != QUEUE_DIRTY)
		list_remove(&c->lanes[instance->lane].queues[instance->queue], instance);
	reconciler_mark(c, instance);
}

void reconciler_mark_id(struct converger *c, const char *id)
{
	struct instance *instance = converger_instance(c, id);

	if (instance)
		reconciler_mark(c, instance);
}

void reconciler_mark_all(struct converger *c)
{
	struct instance *instance;
	size_t cursor = 0;

	while ((instance = id_map_next(c->instances, &cursor)))
		reconciler_mark(c, instance);
}

void reconciler_freed(struct converger *c, enum freed what)
{
	c->freed |= what;
	if (c->n_waiting)
		post_pass(c);
}

void reconciler_end_attempt(struct converger *c, struct instance *instance)
{
	if (!instance->attempt)
		return;
	instance_end_attempt(instance, &c->admission);
	reconciler_freed(c, FREED_CHARGE);
}

/* --- status --- */

void reconciler_refresh(struct converger *c, struct instance *instance)
{
	struct status_brief brief;
	bool is_new_state;

	instance_brief(c, instance, &brief);
	is_new_state = instance->state != (int)brief.state;
	if (!is_new_state && strcmp(instance->reason, brief.reason) == 0 && instance->status.change &&
	        !instance->is_news)
		return;
	if (is_new_state)
		instance->state_since_usec = clock_realtime_usec();
	instance->state = (int)brief.state;
	(void)snprintf(instance->reason, sizeof(instance->reason), "%s", brief.reason);
	instance->is_news = false;
	status_board_touch(c->board, &instance->status);
}

void reconciler_retry(struct converger *c, struct instance *instance)
{
	instance_forgive(instance);
	instance->crashes = 0;
	secrets_retry(c->secrets, instance->id);
	if (instance->spec && instance->spec->is_job &&
	        (instance->facts.job == STORE_JOB_FAILED || instance->facts.job == STORE_JOB_COMPLETED)) {
		instance->facts.job = STORE_JOB_NONE;
		reconciler_save_facts(c, instance);
	}
	if (instance->spec && (instance->spec->has_image || instance->spec->has_restore)) {
		Bc__V1__InstanceSpec *spec = instance_spec_unpack(instance->spec);

		if (spec && instance->spec->has_image)
			image_store_retry(c->images, spec->boot->image->digest);
		if (spec && instance->spec->has_restore)
			snapshot_store_retry(c->snapshots, spec->restore_from->digest);
		if (spec)
			bc__v1__instance_spec__free_unpacked(spec, NULL);
	}
	reconciler_mark(c, instance);
}

/* --- facts on disk --- */

void reconciler_save_facts(struct converger *c, struct instance *instance)
{
	if (!c->facts_batch)
		c->facts_batch = store_batch_new();
	if (c->facts_batch)
		store_batch_set_facts(c->facts_batch, instance->id, &instance->facts);
	post_pass(c);
}

static void on_facts_saved(int r, const struct err *err, void *userdata)
{
	struct converger *c = userdata;

	if (r == 0)
		return;
	c->facts_are_unsaved = true;
	converger_event(c, EVENT_ERROR, "", "StateNotSaved", "%s", err_text(err, r));
}

static void save_all_facts(struct converger *c)
{
	struct instance *instance;
	size_t cursor = 0;

	c->facts_are_unsaved = false;
	while ((instance = id_map_next(c->instances, &cursor)))
		reconciler_save_facts(c, instance);
}

static void flush_facts(struct converger *c)
{
	if (c->facts_batch && store_lane_commit(c->lane, TAKE_PTR(c->facts_batch), on_facts_saved, c) < 0)
		c->facts_are_unsaved = true;
}

/* --- a pass --- */

static bool waits_for_others(const struct instance *instance)
{
	return instance->action == ACTION_WAIT_CAPACITY || instance->action == ACTION_WAIT_VOLUME_BUSY ||
	        (instance->action == ACTION_WAIT_BACKOFF && instance->trouble &&
	                instance->trouble->kind == TROUBLE_CAPACITY);
}

/* A JOB that is down after it ran has ended; how, its runtime says, or else what was seen. */
static void judge_job(struct converger *c, struct instance *instance, const struct instance_view *view)
{
	bool is_over;

	if (!instance->spec->is_job || instance->facts.job != STORE_JOB_STARTED || instance->attempt ||
	        !view->domain || domain_is_up(view->domain) || view->facts & FACT_STALE)
		return;
	if (view->domain->is_completed)
		instance->facts.job = STORE_JOB_COMPLETED;
	else if (instance->was_stopped)
		instance->facts.job = STORE_JOB_NONE; /* by wish: it may run again when it is wished */
	else {
		is_over = instance->was_up || view->observed == OBSERVED_CRASHED ||
		        view->domain->was_started; /* else the start itself had failed */
		if (!is_over)
			return;
		instance->facts.job = STORE_JOB_FAILED;
	}
	instance->was_up = false;
	reconciler_save_facts(c, instance);
	converger_event(c, instance->facts.job == STORE_JOB_FAILED ? EVENT_ERROR : EVENT_INFO, instance->id,
	        instance->facts.job == STORE_JOB_COMPLETED
	                ? "JobCompleted"
	                : (instance->facts.job == STORE_JOB_FAILED ? "JobFailed" : "JobStopped"),
	        "the domain is down");
}

/* Went down, or is down at first sight, although it was to be up. */
static void judge_crash(struct converger *c, struct instance *instance, const struct instance_view *view)
{
	uint64_t now_usec = clock_monotonic_usec();
	Bc__V1__Domain *domain;

	if (!instance->was_up || !view->domain || domain_is_up(view->domain))
		return;
	instance->was_up = false;
	if (instance->was_stopped || instance->spec->is_job ||
	        (view->desired != DESIRED_RUNNING && view->desired != DESIRED_PAUSED)) {
		instance->was_stopped = false;
		return;
	}
	if (now_usec - instance->up_since_usec >= c->options.stable_usec)
		instance->crashes = 0;
	instance->crashes++;
	domain = domain_unpack(view->domain);
	instance_forgive(instance);
	/* The first time a guest that shut down by itself is started again at once. */
	if (instance->crashes > 1 || view->observed == OBSERVED_CRASHED)
		instance_fail(c, instance, TROUBLE_RETRIED, instance->crashes,
		        domain && *domain->reason ? domain->reason : "WentDown",
		        domain && *domain->message ? domain->message : "the domain went down by itself");
	else
		converger_event(c, EVENT_WARNING, instance->id,
		        domain && *domain->reason ? domain->reason : "WentDown",
		        "the domain went down by itself; it is started again");
	if (domain)
		bc__v1__domain__free_unpacked(domain, NULL);
}

/* A start that rests half way, for a reason that came up meanwhile, keeps no memory and no volumes from others. */
static void end_hindered(struct converger *c, struct instance *instance)
{
	if (machine_action_class(instance->action) == CLASS_REST)
		reconciler_end_attempt(c, instance);
}

/* Volumes stay claimed until the runtime itself says that the domain is down; one that is not ours and is up may be what
 * became of it. */
static void judge_volumes(
        struct converger *c, const struct instance *instance, const struct instance_view *view)
{
	if (instance->attempt || instance->removal || (view->domain && domain_is_up(view->domain)) ||
	        view->observed == OBSERVED_UNKNOWN)
		return;
	if (!volume_store_has_claim(c->volumes, instance->id))
		return;
	volume_store_release(c->volumes, instance->id);
}

/* Looks at an instance: what is seen becomes what is remembered, and the machine says what to do. */
static enum machine_action instance_decide(
        struct converger *c, struct instance *instance, struct instance_view *view)
{
	instance_view_take(c, instance, view);
	if (!instance->removal && instance->spec) {
		enum store_job job = instance->facts.job;
		uint32_t crashes = instance->crashes;

		judge_job(c, instance, view);
		judge_crash(c, instance, view);
		if (job != instance->facts.job || crashes != instance->crashes)
			instance_view_take(c, instance, view);
	}
	if (view->domain && domain_is_up(view->domain) && !(view->facts & FACT_STALE)) {
		if (!instance->was_up)
			instance->up_since_usec = clock_monotonic_usec();
		instance->was_up = true;
		if (view->observed != OBSERVED_STOPPING && view->desired != DESIRED_STOPPED)
			instance->was_stopped = false;
	}
	instance->is_decided = true;
	instance->action = machine_next(view->desired, view->observed, view->facts);
	instance->observed = view->observed;
	instance->absence = view->absence;
	/* It came about all the same. */
	if (instance->action == ACTION_NONE && instance->trouble && instance->trouble->is_due)
		instance_forgive(instance);
	end_hindered(c, instance);
	judge_volumes(c, instance, view);
	if (waits_for_others(instance) != instance->is_waiting) {
		instance->is_waiting = !instance->is_waiting;
		if (instance->is_waiting)
			c->n_waiting++;
		else
			c->n_waiting--;
	}
	if (view->words.text[0] ? !instance->words || strcmp(instance->words, view->words.text) != 0
	                        : instance->words != NULL) {
		instance_set_words(instance, view->words.text);
		instance->is_news = true;
	}
	return instance->action;
}

static struct foreign *foreign_find(struct converger *c, const struct runtime_link *link, const char *id,
        char key[static RUNTIME_ID_MAX + DOMAIN_ID_MAX])
{
	(void)snprintf(key, RUNTIME_ID_MAX + DOMAIN_ID_MAX, "%.32s/%s", runtime_link_id(link), id);
	return id_map_get(c->foreigns, key);
}

/* Who follows the statuses has just been told that nothing has this id any more. */
static void foreigns_tell_again(struct converger *c, const char *id)
{
	char key[RUNTIME_ID_MAX + DOMAIN_ID_MAX];
	const struct runtime_link *link;
	size_t cursor = 0;

	while ((link = runtimes_next(c->runtimes, &cursor))) {
		struct foreign *foreign = foreign_find(c, link, id, key);

		if (foreign)
			status_board_touch(c->board, &foreign->status);
	}
}

/* Nothing is left of it and nothing is wished. */
static void instance_forget(struct converger *c, struct instance *instance)
{
	if (instance->is_waiting)
		c->n_waiting--;
	secrets_forget(c->secrets, instance->id);
	reconciler_end_attempt(c, instance);
	status_board_remove(c->board, &instance->status, instance->id);
	foreigns_tell_again(c, instance->id);
	(void)id_map_remove(c->instances, instance->id);
	instance_free(instance);
}

static enum instance_queue queue_of(enum machine_action action)
{
	switch (machine_action_class(action)) {
	case CLASS_FREEING:
		return QUEUE_FREEING;
	case CLASS_OTHER:
		return QUEUE_OTHER;
	case CLASS_STARTING:
		return QUEUE_STARTING;
	case CLASS_REST:
		break;
	}
	return QUEUE_NONE;
}

/* What was prepared for a spec that is not the instance's any more is prepared anew. */
static void end_outdated(struct converger *c, struct instance *instance)
{
	if (instance->attempt && instance->attempt->is_outdated)
		reconciler_end_attempt(c, instance);
}

/* Looks once and either lets it rest, forgets it, or puts it where its turn comes. */
static void instance_look(struct converger *c, struct instance *instance)
{
	struct instance_view view;
	enum machine_action action;
	enum instance_queue queue;

	if (instance->operation || instance->is_changing || instance->is_snapshotting)
		return; /* the end of either brings it back */
	end_outdated(c, instance);
	action = instance_decide(c, instance, &view);
	if (action == ACTION_FORGET) {
		instance_forget(c, instance);
		return;
	}
	queue = queue_of(action);
	if (queue != QUEUE_NONE && !c->is_stopping) {
		instance->lane = view.runtime ? runtime_link_index(view.runtime) + 1 : 0;
		list_push(&c->lanes[instance->lane].queues[queue], instance, queue);
	}
	reconciler_refresh(c, instance);
}

/* Its turn has come; what was decided then may not be what is right now. */
static void instance_go(struct converger *c, struct instance *instance)
{
	struct instance_view view;
	enum machine_action action;

	if (instance->operation || instance->is_changing || instance->is_snapshotting)
		return;
	end_outdated(c, instance);
	action = instance_decide(c, instance, &view);
	if (action == ACTION_FORGET)
		instance_forget(c, instance);
	else if (machine_action_class(action) == CLASS_REST)
		reconciler_refresh(c, instance);
	else {
		operation_begin(c, instance, action, &view);
		reconciler_refresh(c, instance);
	}
}

static unsigned waits_for(const struct instance *instance)
{
	switch (instance->action) {
	case ACTION_WAIT_CAPACITY:
		return FREED_CHARGE | FREED_MEMORY;
	case ACTION_WAIT_VOLUME_BUSY:
		return FREED_VOLUME;
	default:
		return FREED_MEMORY;
	}
}

static void wake_waiting(struct converger *c)
{
	unsigned freed = c->freed;
	struct instance *instance;
	size_t cursor = 0;

	c->freed = 0;
	while (freed && c->n_waiting && (instance = id_map_next(c->instances, &cursor))) {
		if (!instance->is_waiting || !(waits_for(instance) & freed))
			continue;
		if (instance->trouble)
			trouble_end_pause(instance->trouble);
		reconciler_mark(c, instance);
	}
}

static void pass_run(struct converger *c)
{
	static const enum instance_queue order[] = { QUEUE_FREEING, QUEUE_OTHER, QUEUE_STARTING };
	struct instance *instance;

	c->host_is_fresh = false;
	wake_waiting(c);
	while ((instance = list_pop(&c->dirty)))
		instance_look(c, instance);
	for (size_t q = 0; q < ARRAY_SIZE(order); q++)
		for (size_t lane = 0; lane < LANES_MAX; lane++)
			while (c->lanes[lane].n_operations < c->options.n_parallel &&
			        (instance = list_pop(&c->lanes[lane].queues[order[q]])))
				instance_go(c, instance);
	flush_facts(c);
}

static bool is_idle(const struct converger *c)
{
	return c->n_operations == 0 && !c->pass_is_posted && store_lane_pending(c->lane) == 0 &&
	        job_pool_pending(c->pool) == 0;
}

/* Who does not answer in time is not waited for: the next start sees what became of it. */
static void give_up_all(struct converger *c)
{
	struct instance *instance;
	size_t cursor = 0;

	while ((instance = id_map_next(c->instances, &cursor)))
		if (instance->operation)
			operation_abort(instance->operation);
}

static int on_idle_check(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct converger *c = userdata;
	void (*on_idle)(void *userdata) = c->on_idle;

	(void)usec;
	if (!is_idle(c)) {
		if (clock_monotonic_usec() >= c->stop_patience_usec)
			give_up_all(c);
		/* Jobs of the stores end without telling us; at the end of a service a look now and then will do. */
		(void)sd_event_source_set_time_relative(source, 2 * USEC_PER_MSEC);
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
		return 0;
	}
	c->resync_timer = sd_event_source_disable_unref(c->resync_timer);
	on_idle(c->on_idle_userdata);
	return 0;
}

static void on_pass(struct loop_tag *tag, bool ok)
{
	struct converger *c = CONTAINER_OF(tag, struct converger, pass_tag);

	(void)ok;
	c->pass_is_posted = false;
	pass_run(c);
}

void reconciler_operation_ended(struct converger *c, struct instance *instance, unsigned lane)
{
	instance->operation = NULL;
	c->lanes[lane].n_operations--;
	c->n_operations--;
	reconciler_mark(c, instance);
	post_pass(c);
}

/* --- what wakes it --- */

static struct memory_charge charge_of(const struct runtime_link *link, const struct domain *domain)
{
	Bc__V1__Domain message = BC__V1__DOMAIN__INIT;

	if (!domain || runtime_link_has(link, "self-admitting"))
		return (struct memory_charge){ 0 };
	message.managed = domain->is_managed;
	message.state = domain->state;
	message.memory_bytes = domain->memory_bytes;
	message.huge_page_bytes = domain->huge_page_bytes;
	return memory_charge_domain(&message);
}

/* A domain that no instance stands for is listed all the same. */
static void foreign_learn(
        struct converger *c, struct runtime_link *link, const char *id, const struct domain *now)
{
	char key[RUNTIME_ID_MAX + DOMAIN_ID_MAX];
	struct foreign *foreign = foreign_find(c, link, id, key);

	if (now && now->is_managed && converger_instance(c, id))
		now = NULL;
	if (!now) {
		if (!foreign)
			return;
		status_board_remove(c->board, &foreign->status, id);
		(void)id_map_remove(c->foreigns, key);
		free(foreign);
		return;
	}
	if (!foreign) {
		foreign = calloc(1, sizeof(*foreign));
		if (!foreign)
			return;
		strcpy(foreign->key, key);
		foreign->status.kind = STATUS_FOREIGN;
		foreign->runtime = link;
		if (id_map_put(c->foreigns, foreign) < 0) {
			free(foreign);
			return;
		}
	}
	foreign->domain = now;
	status_board_touch(c->board, &foreign->status);
}

/* Seen with volumes that nobody claimed for it: our records are older than the domain. */
static void adopt_volumes(struct converger *c, const struct domain *now)
{
	Bc__V1__Domain *domain;
	struct volume_use uses[32];
	size_t n = 0;

	if (!now->has_volumes || !now->is_managed || !domain_is_up(now) ||
	        volume_store_has_claim(c->volumes, now->id))
		return;
	domain = domain_unpack(now);
	for (; domain && n < domain->n_volumes && n < ARRAY_SIZE(uses); n++)
		uses[n] = (struct volume_use){ .volume_id = domain->volumes[n]->volume_id,
			.read_only = domain->volumes[n]->read_only };
	if (n)
		(void)volume_store_adopt(c->volumes, now->id, uses, n);
	if (domain)
		bc__v1__domain__free_unpacked(domain, NULL);
}

static void tell_intelligence(struct converger *c, const struct domain *domain)
{
	Bc__V1__Domain *message = domain_unpack(domain);

	if (!message)
		return;
	intelligence_link_register(
	        c->intelligence, message->id, message->vmm_pids, message->n_vmm_pids, message->cgroup);
	bc__v1__domain__free_unpacked(message, NULL);
}

/* VMs of ours alone: of others' nothing is told. */
static void judge_vmm(struct converger *c, const struct domain *before, const struct domain *now)
{
	uint64_t was = before && before->is_managed && domain_is_up(before) ? before->vmm_hash : 0;
	uint64_t is = now && now->is_managed && domain_is_up(now) ? now->vmm_hash : 0;

	if (is && is != was)
		tell_intelligence(c, now);
	else if (was && !is)
		intelligence_link_unregister(c->intelligence, before->id);
}

void reconciler_tell_intelligence(void *userdata)
{
	struct converger *c = userdata;
	struct runtime_link *link;
	size_t links = 0;

	while ((link = runtimes_next(c->runtimes, &links))) {
		const struct domain *domain;
		size_t cursor = 0;

		while ((domain = runtime_link_next(link, &cursor)))
			judge_vmm(c, NULL, domain);
	}
}

static void on_domain(
        struct runtime_link *link, const struct domain *before, const struct domain *now, void *userdata)
{
	struct converger *c = userdata;
	const char *id = now ? now->id : before->id;
	struct instance *instance = converger_instance(c, id);
	struct memory_charge was = charge_of(link, before), is = charge_of(link, now);

	admission_sub(&c->admission, &was);
	admission_add(&c->admission, &is);
	if (before && domain_is_up(before) && !(now && domain_is_up(now)))
		reconciler_freed(c, FREED_MEMORY);
	/* Not in an accepted spec that speaks of instances: it is to be removed, once it is marked. */
	if (!instance && now && now->is_managed && c->has_instances && uuid_is_valid(id))
		instance = converger_instance_make(c, id);
	foreign_learn(c, link, id, now);
	judge_vmm(c, before, now);
	if (now)
		adopt_volumes(c, now);
	if (!instance)
		return;
	/* From here on the domain's own charge stands for the start's. */
	if (now && domain_is_up(now) && instance->attempt && instance->attempt->is_charged) {
		admission_sub(&c->admission, &instance->attempt->charge);
		instance->attempt->charge = (struct memory_charge){ 0 };
	}
	instance->is_news = true;
	reconciler_mark(c, instance);
}

static void on_runtime_state(struct runtime_link *link, void *userdata)
{
	struct converger *c = userdata;

	if (runtime_link_is_known(link))
		converger_event(c, EVENT_INFO, "", "RuntimeReady", "runtime %s answers at %s",
		        runtime_link_id(link), runtime_link_path(link));
	status_board_touch(c->board, &c->drivers);
	/* While not all was told nothing was concluded, and what no spec names was forgotten over that. */
	if (runtime_link_is_known(link) && c->has_instances)
		reconciler_judge_unlisted(c);
	reconciler_mark_all(c);
}

const struct runtime_link_handlers reconciler_runtime_handlers = {
	.on_domain = on_domain,
	.on_state = on_runtime_state,
};

static void on_netd_state(struct netd_link *link, void *userdata)
{
	struct converger *c = userdata;

	(void)link;
	status_board_touch(c->board, &c->drivers);
	reconciler_mark_all(c);
}

static void on_netd_instance(struct netd_link *link, const char *instance_id, void *userdata)
{
	(void)link;
	reconciler_mark_id(userdata, instance_id);
}

static void on_netd_event(struct netd_link *link, const Bc__V1__NetdEvent *event, void *userdata)
{
	static const char *const reasons[] = {
		[BC__V1__NETD_EVENT__TYPE__LOST] = "InterfaceLost",
		[BC__V1__NETD_EVENT__TYPE__MASTER_LOST] = "BridgeLost",
		[BC__V1__NETD_EVENT__TYPE__RULES_LOST] = "RulesLost",
		[BC__V1__NETD_EVENT__TYPE__RULES_RESTORED] = "RulesRestored",
	};
	const char *reason = (unsigned)event->type < ARRAY_SIZE(reasons) ? reasons[event->type] : NULL;
	char message[EVENT_MESSAGE_MAX];

	(void)link;
	if (!reason)
		return;
	quote_text(event->message, message, sizeof(message));
	converger_event(userdata,
	        event->type == BC__V1__NETD_EVENT__TYPE__RULES_RESTORED ? EVENT_WARNING : EVENT_ERROR,
	        event->instance_id, reason, "%s%s%s", event->interface, *event->interface ? ": " : "",
	        message);
}

const struct netd_link_handlers reconciler_netd_handlers = {
	.on_state = on_netd_state,
	.on_instance = on_netd_instance,
	.on_event = on_netd_event,
};

void reconciler_judge_unlisted(struct converger *c)
{
	struct runtime_link *link;
	size_t links = 0;

	while ((link = runtimes_next(c->runtimes, &links))) {
		const struct domain *domain;
		size_t cursor = 0;

		while ((domain = runtime_link_next(link, &cursor))) {
			struct instance *instance;

			if (!domain->is_managed || !uuid_is_valid(domain->id) ||
			        converger_instance(c, domain->id))
				continue;
			instance = converger_instance_make(c, domain->id);
			if (!instance)
				return;
			foreign_learn(c, link, domain->id, domain);
			reconciler_mark(c, instance);
		}
	}
}

void reconciler_drivers_changed(void *userdata)
{
	struct converger *c = userdata;

	status_board_touch(c->board, &c->drivers);
}

void reconciler_resync(struct converger *c)
{
	runtimes_resync(c->runtimes);
	netd_link_resync(c->netd);
	if (c->facts_are_unsaved)
		save_all_facts(c);
	reconciler_freed(c, FREED_ALL);
	reconciler_mark_all(c);
}

static int on_resync(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct converger *c = userdata;

	(void)usec;
	reconciler_resync(c);
	(void)sd_event_source_set_time_relative(source, c->options.resync_usec);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int reconciler_start(struct converger *c)
{
	int r;

	c->pass_tag.on_done = on_pass;
	r = sd_event_add_time_relative(loop_event(c->loop), &c->resync_timer, CLOCK_MONOTONIC,
	        c->options.resync_usec, 1, on_resync, c);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(c->resync_timer, "resync");
	reconciler_mark_all(c);
	return 0;
}

void reconciler_stop(struct converger *c)
{
	c->is_stopping = true;
	c->stop_patience_usec = clock_monotonic_usec() + STOP_PATIENCE_USEC;
	sd_event_source_disable_unref(c->resync_timer);
	c->resync_timer = NULL;
	flush_facts(c);
	if (sd_event_add_time_relative(
	            loop_event(c->loop), &c->resync_timer, CLOCK_MONOTONIC, 0, 1, on_idle_check, c) < 0)
		c->on_idle(c->on_idle_userdata);
}
