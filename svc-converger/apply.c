#include "svc-converger/apply.h"

#include "lib/rpc/intake.h"
#include "svc-converger/operation.h"
#include "svc-converger/reconciler.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/spec_check.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* What GetNode says beside the spec has room in the same message. */
enum { SPEC_WHOLE_MAX = RPC_WIRE_MAX - (64 << 10) };

enum change_kind { CHANGE_NEW, CHANGE_SPEC, CHANGE_INCARNATION, CHANGE_DROP };

/* One instance that this spec changes. */
struct change {
	enum change_kind kind;
	struct instance *instance;  /* weak; NULL for a new one */
	const char *id;             /* weak; of the spec or the instance */
	struct instance_spec *spec; /* owned until it is the instance's; NULL for a drop */
	struct removal *removal;    /* owned likewise; NULL: nothing to remove */
};

struct apply {
	struct apply *next;      /* weak; waiting */
	struct converger *c;     /* weak */
	struct spec_bytes bytes; /* weak */
	struct spec_intake intake;
	const Bc__V1__NodeSpec *spec; /* weak, in intake */
	apply_fn fn;
	void *userdata;         /* weak */
	struct change *changes; /* owned */
	size_t n_changes;
	void *node; /* owned; packed, without instances */
	size_t n_node;
	Bc__V1__ApplyReply reply;
	Bc__V1__PlannedChange *plan;           /* owned */
	Bc__V1__PlannedChange **plan_pointers; /* owned */
};

struct apply_queue {
	struct apply *running;      /* owned; being written */
	struct apply *first, *last; /* owned; waiting */
	size_t n_waiting;
	uint64_t n_named; /* counts applies; what the last one named carries its number */
};

struct apply_queue *apply_queue_new(void)
{
	return calloc(1, sizeof(struct apply_queue));
}

struct apply_queue *apply_queue_free(struct apply_queue *queue)
{
	free(queue);
	return NULL;
}

static void apply_free(struct apply *apply)
{
	for (size_t i = 0; i < apply->n_changes; i++) {
		instance_spec_free(apply->changes[i].spec);
		free(apply->changes[i].removal);
	}
	free(apply->changes);
	free(apply->node);
	free(apply->plan);
	free(apply->plan_pointers);
	spec_intake_done(&apply->intake);
	free(apply);
}

static void apply_answer(struct apply *apply, int r, const char *message)
{
	bool is_large = apply->n_changes > 256;

	apply->fn(r, message, r == 0 ? &apply->reply : NULL, apply->userdata);
	apply_free(apply);
	/* A large spec leaves as much garbage behind: the heap gives it back. */
	if (is_large)
		malloc_trim(0);
}

/* --- comparing --- */

static bool may_have_left_something(const struct instance *instance)
{
	return instance->facts.recorded || instance->attempt ||
	        (instance->operation &&
	                machine_action_class(operation_action(instance->operation)) == CLASS_STARTING);
}

static struct removal *removal_of(const struct converger *c, const struct instance *instance)
{
	struct removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return NULL;
	(void)snprintf(removal->runtime, sizeof(removal->runtime), "%s", instance->spec->runtime);
	(void)snprintf(
	        removal->allocation_id, sizeof(removal->allocation_id), "%s", instance->spec->allocation_id);
	removal->uses_netd = instance->facts.used_netd || instance->spec->uses_netd ||
	        netd_link_held(c->netd, instance->id);
	removal->nics_gone = !removal->uses_netd;
	return removal;
}

static struct change *apply_add(
        struct apply *apply, enum change_kind kind, struct instance *instance, const char *id)
{
	struct change *change = &apply->changes[apply->n_changes++];

	*change = (struct change){ .kind = kind, .instance = instance, .id = id };
	return change;
}

/* Instances that are accepted already, but came in other bytes: their fields may stand in any order. */
static void apply_find_known(struct apply *apply)
{
	const Bc__V1__Instances *instances = apply->spec->instances;
	size_t n = instances ? instances->n_items : 0;
	CLEANUP_FREE uint8_t *scratch = NULL;
	size_t n_scratch = 0;

	for (size_t i = 0; i < n; i++) {
		const struct instance *instance;

		if (apply->intake.is_known[i])
			continue;
		instance = converger_instance(apply->c, instances->items[i]->id);
		apply->intake.is_known[i] = instance && instance->spec &&
		        instance_spec_equals(instance->spec, instances->items[i], &scratch, &n_scratch);
	}
}

static int apply_compare_one(struct apply *apply, const Bc__V1__InstanceSpec *message)
{
	struct converger *c = apply->c;
	struct instance *instance = converger_instance(c, message->id);
	struct change *change;
	enum change_kind kind = CHANGE_NEW;
	int r;

	if (instance && instance->spec)
		kind = strcmp(instance->spec->allocation_id, message->allocation_id) != 0 ||
		                strcmp(instance->spec->runtime, message->runtime) != 0
		        ? CHANGE_INCARNATION
		        : CHANGE_SPEC;
	change = apply_add(apply, kind, instance, message->id);
	r = instance_spec_new(message, &change->spec);
	if (r < 0)
		return r;
	if (kind == CHANGE_INCARNATION && !instance->removal && may_have_left_something(instance)) {
		change->removal = removal_of(c, instance);
		if (!change->removal)
			return -ENOMEM;
	}
	return 0;
}

static int apply_compare(struct apply *apply)
{
	const bool *is_known = apply->intake.is_known;
	const Bc__V1__Instances *instances = apply->spec->instances;
	struct converger *c = apply->c;
	struct instance *instance;
	size_t cursor = 0;

	if (!instances)
		return 0; /* no opinion: every instance stays as it is */
	apply->changes = calloc(instances->n_items + id_map_count(c->instances) + 1, sizeof(*apply->changes));
	if (!apply->changes)
		return -ENOMEM;
	c->applies->n_named++;
	for (size_t i = 0; i < instances->n_items; i++) {
		int r = is_known[i] ? 0 : apply_compare_one(apply, instances->items[i]);

		if (r < 0)
			return r;
		instance = converger_instance(c, instances->items[i]->id);
		if (instance)
			instance->named = c->applies->n_named;
	}
	while ((instance = id_map_next(c->instances, &cursor))) {
		struct change *change;

		if (!instance->spec || instance->named == c->applies->n_named)
			continue;
		change = apply_add(apply, CHANGE_DROP, instance, instance->id);
		if (instance->removal || !may_have_left_something(instance))
			continue;
		change->removal = removal_of(c, instance);
		if (!change->removal)
			return -ENOMEM;
	}
	return 0;
}

static int apply_pack_node(struct apply *apply)
{
	Bc__V1__NodeSpec node = *apply->spec;

	node.instances = NULL;
	node.revision = 0; /* kept apart: what does not change is not written anew */
	apply->n_node = bc__v1__node_spec__get_packed_size(&node);
	apply->node = malloc(apply->n_node + 1);
	if (!apply->node)
		return -ENOMEM;
	(void)bc__v1__node_spec__pack(&node, apply->node);
	return 0;
}

/* --- the plan, for people --- */

#define PLAN(name) BC__V1__PLANNED_CHANGE__ACTION__##name

static void plan_add(
        struct apply *apply, Bc__V1__PlannedChange__Action action, const char *id, const char *detail)
{
	Bc__V1__PlannedChange *planned = &apply->plan[apply->reply.n_changes];

	bc__v1__planned_change__init(planned);
	planned->action = action;
	planned->id = (char *)id;
	planned->detail = (char *)detail;
	apply->plan_pointers[apply->reply.n_changes++] = planned;
}

static bool wants_up(const struct instance_spec *spec)
{
	return spec->desired_state != BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
}

static const struct domain *domain_of(const struct apply *apply, const struct change *change)
{
	const struct runtime_link *link =
	        change->spec ? runtimes_find(apply->c->runtimes, change->spec->runtime) : NULL;

	return link && runtime_link_is_known(link) ? runtime_link_domain(link, change->id) : NULL;
}

static void plan_spec_change(struct apply *apply, const struct change *change)
{
	const struct instance_spec *old = change->instance->spec, *new = change->spec;
	const struct domain *domain = domain_of(apply, change);
	bool is_up = domain && domain_is_up(domain);

	if (is_up && old->started_hash != new->started_hash)
		plan_add(apply, PLAN(REDEFINE), change->id, "takes effect at its next start");
	if (!is_up && wants_up(new))
		plan_add(apply, domain ? PLAN(START) : PLAN(CREATE), change->id, new->runtime);
	else if (is_up && domain->state == BC__V1__DOMAIN__STATE__PAUSED &&
	        new->desired_state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING)
		plan_add(apply, PLAN(RESUME), change->id, "");
	else if (is_up && domain->state == BC__V1__DOMAIN__STATE__RUNNING &&
	        new->desired_state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED)
		plan_add(apply, PLAN(PAUSE), change->id, "");
}

/* In the order in which things are begun: what gives back, then what is in place, then what takes. */
static void plan_instances(struct apply *apply)
{
	for (size_t i = 0; i < apply->n_changes; i++) {
		const struct change *change = &apply->changes[i];
		const struct domain *domain = domain_of(apply, change);

		if (change->kind == CHANGE_DROP)
			plan_add(apply, PLAN(REMOVE), change->id, "");
		else if (change->kind == CHANGE_INCARNATION && change->removal)
			plan_add(apply, PLAN(REMOVE), change->id, "its earlier incarnation");
		else if (change->kind == CHANGE_SPEC && !wants_up(change->spec) && domain &&
		        domain_is_up(domain))
			plan_add(apply, PLAN(STOP), change->id, "");
	}
	for (size_t i = 0; i < apply->n_changes; i++)
		if (apply->changes[i].kind == CHANGE_SPEC)
			plan_spec_change(apply, &apply->changes[i]);
	for (size_t i = 0; i < apply->n_changes; i++) {
		const struct change *change = &apply->changes[i];

		if ((change->kind == CHANGE_NEW || change->kind == CHANGE_INCARNATION) &&
		        wants_up(change->spec))
			plan_add(apply, PLAN(CREATE), change->id, change->spec->runtime);
	}
}

static void plan_volumes(struct apply *apply)
{
	for (size_t i = 0; i < apply->spec->n_volumes; i++) {
		const Bc__V1__Volume *volume = apply->spec->volumes[i];
		struct volume_info info = { 0 };
		bool exists = volume_store_get(apply->c->volumes, volume->id, &info) == 0 && info.exists;

		if (volume->state == BC__V1__VOLUME__STATE__ABSENT) {
			if (exists)
				plan_add(apply, PLAN(DESTROY_VOLUME), volume->id, "");
		} else if (!exists) {
			plan_add(apply, PLAN(CREATE_VOLUME), volume->id, "");
		} else if (info.size_bytes < volume->size_bytes) {
			plan_add(apply, PLAN(GROW_VOLUME), volume->id, "");
		}
	}
}

static int apply_plan(struct apply *apply)
{
	size_t n_max = 3 * apply->n_changes + apply->spec->n_volumes + 1;

	apply->plan = calloc(n_max, sizeof(*apply->plan));
	apply->plan_pointers = calloc(n_max, sizeof(Bc__V1__PlannedChange *));
	if (!apply->plan || !apply->plan_pointers)
		return -ENOMEM;
	apply->reply.changes = apply->plan_pointers;
	plan_instances(apply);
	plan_volumes(apply);
	return 0;
}

/* --- making it true --- */

static struct store_batch *apply_batch(const struct apply *apply)
{
	struct store_batch *batch = store_batch_new();

	for (size_t i = 0; batch && i < apply->n_changes; i++) {
		const struct change *change = &apply->changes[i];

		if (change->spec)
			store_batch_put_instance(batch,
			        &(struct store_instance){ .id = change->id,
			                .spec = change->spec->data,
			                .n_spec = change->spec->size,
			                .revision = apply->spec->revision });
		else
			store_batch_drop_instance(batch, change->id);
		if (change->kind == CHANGE_INCARNATION)
			store_batch_set_facts(batch, change->id, &(struct store_facts){ 0 });
		if (change->removal)
			store_batch_put_removal(batch,
			        &(struct store_removal){ .id = change->id,
			                .runtime = change->removal->runtime,
			                .allocation_id = change->removal->allocation_id,
			                .uses_netd = change->removal->uses_netd });
	}
	if (batch) {
		if (apply->n_node != apply->c->n_node ||
		        (apply->n_node && memcmp(apply->node, apply->c->node, apply->n_node) != 0))
			store_batch_set_node(batch, apply->node, apply->n_node);
		store_batch_set_number(batch, STORE_REVISION, apply->spec->revision);
		if (apply->spec->instances)
			store_batch_set_number(batch, STORE_HAS_INSTANCES, 1);
	}
	return batch;
}

static void change_take_effect(struct apply *apply, struct change *change)
{
	struct converger *c = apply->c;
	struct instance *instance = change->instance;

	if (!instance)
		instance = converger_instance_make(c, change->id);
	if (!instance)
		return; /* it is in the store: the next start of this service will know it */
	instance->is_changing = false;
	instance_spec_free(instance->spec);
	instance->spec = TAKE_PTR(change->spec);
	instance->revision = apply->spec->revision;
	instance->is_news = true;
	if (change->removal)
		instance->removal = TAKE_PTR(change->removal);
	if (change->kind == CHANGE_INCARNATION || change->kind == CHANGE_DROP) {
		instance->facts = (struct store_facts){ 0 };
		instance->was_up = instance->was_stopped = false;
		secrets_forget(c->secrets, instance->id);
	}
	/* What failed before failed for another wish. */
	instance_forgive(instance);
	instance->crashes = 0;
	if (instance->attempt)
		instance->attempt->is_outdated = true;
	if (instance->is_snapshotting &&
	        (!instance->spec || change->kind == CHANGE_INCARNATION || !wants_up(instance->spec)))
		snapshot_tasks_cancel(c->snapshot_tasks, instance->id);
	if (instance->operation &&
	        (!instance->spec || change->kind == CHANGE_INCARNATION || !wants_up(instance->spec)))
		operation_give_up(instance->operation);
	reconciler_mark_changed(c, instance);
}

int apply_node(struct converger *c, const Bc__V1__NodeSpec *node)
{
	int first_failure = 0;

	admission_set_held(&c->admission, admission_held_bytes(node->holds, node->n_holds));
	reconciler_freed(c, FREED_CHARGE);
	for (size_t i = 0; i < node->n_volumes; i++) {
		const Bc__V1__Volume *volume = node->volumes[i];
		int r = volume_store_want(c->volumes, volume->id,
		        volume->state == BC__V1__VOLUME__STATE__ABSENT ? VOLUME_ABSENT : VOLUME_PRESENT,
		        volume->size_bytes);

		if (r < 0 && first_failure == 0)
			first_failure = r;
	}
	return first_failure;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Volumes the last spec named and this one does not: kept, and reported as unclaimed. */
static void disclaim_volumes(struct converger *c, const Bc__V1__NodeSpec *spec)
{
	Bc__V1__NodeSpec *old = c->n_node ? bc__v1__node_spec__unpack(NULL, c->n_node, c->node) : NULL;
	CLEANUP_FREE char **ids = calloc(spec->n_volumes + 1, sizeof(char *));

	for (size_t i = 0; ids && i < spec->n_volumes; i++)
		ids[i] = spec->volumes[i]->id;
	if (ids)
		qsort(ids, spec->n_volumes, sizeof(char *), compare_texts);
	for (size_t i = 0; ids && old && i < old->n_volumes; i++)
		if (!bsearch(&old->volumes[i]->id, ids, spec->n_volumes, sizeof(char *), compare_texts))
			(void)volume_store_want(c->volumes, old->volumes[i]->id, VOLUME_NO_OPINION, 0);
	if (old)
		bc__v1__node_spec__free_unpacked(old, NULL);
}

static void apply_take_effect(struct apply *apply)
{
	struct converger *c = apply->c;
	bool is_first = !c->has_instances && apply->spec->instances;

	disclaim_volumes(c, apply->spec);
	free(c->node);
	c->node = TAKE_PTR(apply->node);
	c->n_node = apply->n_node;
	c->revision = apply->spec->revision;
	c->has_instances = c->has_instances || apply->spec->instances;
	(void)apply_node(c, apply->spec);
	for (size_t i = 0; i < apply->n_changes; i++)
		change_take_effect(apply, &apply->changes[i]);
	if (is_first)
		reconciler_judge_unlisted(c);
	converger_event(c, EVENT_INFO, "", "SpecAccepted", "revision %llu, %zu %s",
	        (unsigned long long)c->revision, apply->n_changes,
	        apply->n_changes == 1 ? "instance changes" : "instances change");
}

static void apply_run(struct apply *apply);

static void queue_next(struct converger *c)
{
	struct apply_queue *queue = c->applies;
	struct apply *apply;

	while (!queue->running && (apply = queue->first)) {
		queue->first = apply->next;
		if (!queue->first)
			queue->last = NULL;
		queue->n_waiting--;
		apply_run(apply);
	}
}

static void apply_mark_changing(const struct apply *apply, bool is_changing)
{
	for (size_t i = 0; i < apply->n_changes; i++) {
		struct instance *instance = apply->changes[i].instance;

		if (!instance)
			continue;
		instance->is_changing = is_changing;
		if (!is_changing)
			reconciler_mark(apply->c, instance);
	}
}

static void on_written(int r, const struct err *err, void *userdata)
{
	struct apply *apply = userdata;
	struct converger *c = apply->c;

	c->applies->running = NULL;
	if (r == 0)
		apply_take_effect(apply);
	else
		apply_mark_changing(apply, false);
	apply_answer(apply, r, r == 0 ? "" : err_text(err, r));
	queue_next(c);
}

/* Bytes on the wire of the whole desired state once this is accepted. */
static size_t apply_whole_size(const struct apply *apply)
{
	size_t size = apply->n_node;
	const struct instance *instance;
	size_t cursor = 0;

	if (apply->spec->instances)
		return apply->bytes.size;
	while ((instance = id_map_next(apply->c->instances, &cursor)))
		if (instance->spec) /* with its tag and its length, of seven bits a byte */
			size += instance->spec->size + 2 + (instance->spec->size >= 1 << 7) +
			        (instance->spec->size >= 1 << 14) + (instance->spec->size >= 1 << 21);
	return size;
}

/* What it would change, and whether it may be accepted at all. */
static int apply_judge(struct apply *apply, char *message, size_t size)
{
	struct converger *c = apply->c;
	CLEANUP_FREE struct spec_report *report = malloc(sizeof(*report));
	int r;

	if (apply->spec->revision <= c->revision && apply->spec->revision) {
		(void)snprintf(message, size,
		        "revision: %llu is not above the last accepted one, %llu; nothing has changed",
		        (unsigned long long)apply->spec->revision, (unsigned long long)c->revision);
		return -EBUSY;
	}
	apply_find_known(apply);
	r = report ? spec_check_rest(apply->spec, c->options.node_id, apply->intake.is_known, report)
	           : -ENOMEM;
	if (r == -EINVAL) {
		(void)spec_report_text(report, message, size);
		return r;
	}
	if (r == 0)
		r = apply_compare(apply);
	if (r == 0)
		r = apply_pack_node(apply);
	if (r == 0 && apply_whole_size(apply) > SPEC_WHOLE_MAX) {
		(void)snprintf(message, size,
		        "the whole desired state would have %zu bytes on the wire, at most %d are taken: shorten texts, or spread the instances over more nodes",
		        apply_whole_size(apply), SPEC_WHOLE_MAX);
		return -E2BIG;
	}
	if (r == 0)
		r = apply_plan(apply);
	if (r < 0)
		(void)snprintf(message, size, "%s", strerror(-r));
	return r;
}

static void apply_run(struct apply *apply)
{
	struct converger *c = apply->c;
	CLEANUP_FREE char *message = malloc(SPEC_REPORT_TEXT_MAX);
	struct err err = { 0 };
	int r;

	bc__v1__apply_reply__init(&apply->reply);
	if (!message || c->is_stopping) {
		apply_answer(apply, -EAGAIN, message ? "bc-converger is stopping" : "out of memory");
		return;
	}
	message[0] = 0;
	r = spec_intake_read(&apply->bytes, c->instances, &apply->intake, &err);
	if (r < 0) {
		apply_answer(apply, r, err_text(&err, r));
		return;
	}
	apply->spec = apply->intake.spec;
	apply->reply.accepted_revision = apply->intake.is_dry_run ? c->revision : apply->spec->revision;
	r = apply_judge(apply, message, SPEC_REPORT_TEXT_MAX);
	if (r < 0 || apply->intake.is_dry_run) {
		apply_answer(apply, r, message);
		return;
	}
	apply_mark_changing(apply, true);
	c->applies->running = apply;
	r = store_lane_commit(c->lane, apply_batch(apply), on_written, apply);
	if (r < 0) {
		c->applies->running = NULL;
		apply_mark_changing(apply, false);
		apply_answer(apply, r, strerror(-r));
	}
}

void apply_submit(struct converger *c, const struct spec_bytes *bytes, apply_fn fn, void *userdata)
{
	struct apply_queue *queue = c->applies;
	struct apply *apply = calloc(1, sizeof(*apply));

	if (!apply) {
		fn(-ENOMEM, "out of memory", NULL, userdata);
		return;
	}
	*apply = (struct apply){ .c = c, .bytes = *bytes, .fn = fn, .userdata = userdata };
	if (!queue->running) {
		apply_run(apply);
		return;
	}
	if (queue->n_waiting == APPLIES_WAITING_MAX) {
		apply_answer(apply, -EAGAIN, "too many specs wait to be accepted; send this one again");
		return;
	}
	if (queue->last)
		queue->last->next = apply;
	else
		queue->first = apply;
	queue->last = apply;
	queue->n_waiting++;
}
