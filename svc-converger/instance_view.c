#include "svc-converger/instance_view.h"

#include "svc-converger/placement.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/trouble.h"

#include <string.h>

enum { USES_MAX = 32 }; /* volumes of one instance; spec_check allows 24 */

enum machine_desired instance_desired(const struct converger *c, const struct instance *instance)
{
	if (!instance->spec)
		return DESIRED_ABSENT;
	if (c->is_draining && c->drain_stops)
		return DESIRED_STOPPED;
	switch (instance->spec->desired_state) {
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING:
		return DESIRED_RUNNING;
	case BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED:
		return DESIRED_PAUSED;
	default:
		return DESIRED_STOPPED;
	}
}

bool instance_is_drained(const struct converger *c, const struct instance *instance)
{
	return c->is_draining && c->drain_stops && instance->spec &&
	        instance->spec->desired_state != BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
}

bool instance_has_domain(const struct instance_view *view)
{
	return view->domain && view->domain->is_managed && !(view->facts & FACT_STALE);
}

size_t instance_volume_uses(const Bc__V1__InstanceSpec *spec, struct volume_use *ret, size_t n_max)
{
	size_t n = spec->n_volumes < n_max ? spec->n_volumes : n_max;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct volume_use){ .volume_id = spec->volumes[i]->volume_id,
			.read_only = spec->volumes[i]->read_only };
	return n;
}

void instance_charge(
        const struct runtime_link *runtime, const Bc__V1__InstanceSpec *spec, struct memory_charge *ret)
{
	if (runtime_link_has(runtime, "self-admitting"))
		*ret = (struct memory_charge){ 0 };
	else
		*ret = memory_charge_start(spec, runtime_link_has(runtime, "restores-on-normal-pages"));
}

static enum machine_observed observed_of(const struct domain *domain)
{
	if (!domain)
		return OBSERVED_ABSENT;
	if (!domain->is_managed)
		return OBSERVED_FOREIGN;
	if (domain->is_doubtful)
		return OBSERVED_UNKNOWN;
	switch (domain->state) {
	case BC__V1__DOMAIN__STATE__RUNNING:
		return OBSERVED_RUNNING;
	case BC__V1__DOMAIN__STATE__PAUSED:
		return OBSERVED_PAUSED;
	case BC__V1__DOMAIN__STATE__STOPPING:
		return OBSERVED_STOPPING;
	case BC__V1__DOMAIN__STATE__CRASHED:
		return OBSERVED_CRASHED;
	case BC__V1__DOMAIN__STATE__STOPPED:
		return OBSERVED_STOPPED;
	default:
		return OBSERVED_UNKNOWN; /* a state of a later version */
	}
}

/* A managed domain of this id in another runtime: an incarnation that nobody has marked yet. */
static struct runtime_link *find_elsewhere(
        const struct converger *c, const struct instance *instance, const struct runtime_link *home)
{
	struct runtime_link *link;
	size_t cursor = 0;

	while ((link = runtimes_next(c->runtimes, &cursor))) {
		if (link == home || !runtime_link_is_known(link))
			continue;
		const struct domain *domain = runtime_link_domain(link, instance->id);
		if (domain && domain->is_managed)
			return link;
	}
	return NULL;
}

static void view_look_at_absence(const struct converger *c, const char *runtime, struct instance_view *view)
{
	const struct runtime_link *nameless = runtimes_nameless(c->runtimes);

	if (nameless) {
		const char *why = runtime_link_message(nameless);

		view->absence = RUNTIME_AWAITED;
		err_set(&view->words, -EAGAIN, "runtime %s has not answered yet; it may be the one at %s%s%s",
		        runtime, runtime_link_path(nameless), *why ? ": " : "", why);
	} else if (runtimes_count_named(c->runtimes)) {
		view->absence = RUNTIME_NOT_INSTALLED;
		err_set(&view->words, -ENOENT, "runtime %s is not installed on this host", runtime);
	} else {
		view->absence = RUNTIME_NONE;
		err_set(&view->words, -ENOENT, "this host runs no instance runtime");
	}
}

static void view_observe(
        const struct converger *c, const struct instance *instance, struct instance_view *view)
{
	const char *runtime = instance->removal ? instance->removal->runtime
	                                        : (instance->spec ? instance->spec->runtime : "");
	struct runtime_link *elsewhere;

	view->runtime = runtimes_find(c->runtimes, runtime);
	view->observed = OBSERVED_UNKNOWN;
	if (view->runtime && runtime_link_is_known(view->runtime)) {
		view->domain = runtime_link_domain(view->runtime, instance->id);
		view->observed = observed_of(view->domain);
	} else if (!view->runtime && !instance->facts.recorded && !instance->removal) {
		view_look_at_absence(c, runtime, view);
	} else {
		err_set(&view->words, -EAGAIN, "runtime %s does not answer%s%s", runtime,
		        view->runtime && *runtime_link_message(view->runtime) ? ": " : "",
		        view->runtime ? runtime_link_message(view->runtime) : "");
	}
	if (instance->removal)
		return;
	elsewhere = find_elsewhere(c, instance, instance->spec ? view->runtime : NULL);
	if (elsewhere) {
		view->runtime = elsewhere;
		view->domain = runtime_link_domain(elsewhere, instance->id);
		view->observed = observed_of(view->domain);
		view->facts |= FACT_STALE;
	} else if (view->observed != OBSERVED_FOREIGN && view->domain &&
	        strcmp(view->domain->allocation_id, instance->spec->allocation_id) != 0) {
		view->facts |= FACT_STALE;
	}
	if (view->observed == OBSERVED_FOREIGN)
		err_set(&view->words, -EEXIST,
		        "runtime %s has a domain with this id that bcd did not make; it is left alone",
		        runtime);
}

static bool needs_netd(const struct instance *instance)
{
	return instance->removal ? instance->removal->uses_netd : instance->spec && instance->spec->uses_netd;
}

static void view_look_at_trouble(const struct instance *instance, struct instance_view *view)
{
	const struct trouble *trouble = instance->trouble;

	if (!trouble)
		return;
	if (trouble->kind == TROUBLE_TERMINAL)
		view->facts |= FACT_TERMINAL;
	else if (!trouble->is_due)
		view->facts |= FACT_BACKOFF;
	else
		return;
	err_set(&view->words, -EAGAIN, "%s", trouble->message ? trouble->message : trouble->reason);
}

static void look_at_host(struct converger *c)
{
	if (c->host_is_fresh)
		return;
	host_facts_read(c->options.proc, c->options.sys, &c->host);
	c->host_is_fresh = true;
	if (!c->host.memory_known && !c->host_is_blind)
		converger_event(c, EVENT_WARNING, "", "HostMemoryUnknown",
		        "%s/meminfo cannot be read: instances are started whether they fit or not",
		        c->options.proc);
	c->host_is_blind = !c->host.memory_known;
}

static void view_look_at_volumes(struct converger *c, const struct instance *instance,
        const Bc__V1__InstanceSpec *spec, struct instance_view *view)
{
	struct volume_use uses[USES_MAX];

	for (size_t i = 0; i < spec->n_volumes; i++) {
		struct volume_info info;
		const char *id = spec->volumes[i]->volume_id;

		if (volume_store_get(c->volumes, id, &info) < 0)
			err_set(&view->words, -ENOENT, "volume %s is not in the spec and not on this host",
			        id);
		else if (info.exists && info.size_bytes >= info.wished_bytes)
			continue;
		else if (info.error.text[0])
			err_set(&view->words, info.error.code, "volume %s: %s", id, info.error.text);
		else
			err_set(&view->words, -EAGAIN, "volume %s is being made", id);
		view->facts |= FACT_VOLUME_MISSING;
		return;
	}
	if (volume_store_check(c->volumes, instance->id, uses, instance_volume_uses(spec, uses, USES_MAX),
	            &view->words) < 0)
		view->facts |= FACT_VOLUME_BUSY;
}

static void view_look_at_memory(struct converger *c, const struct instance *instance,
        const Bc__V1__InstanceSpec *spec, struct instance_view *view)
{
	struct memory_charge charge;

	if (instance->attempt && instance->attempt->is_charged)
		return;
	instance_charge(view->runtime, spec, &charge);
	if (charge.memory_bytes == 0 && charge.huge_bytes == 0)
		return;
	look_at_host(c);
	if (admission_check(&c->admission, &charge, &view->words) < 0)
		view->facts |= FACT_NO_CAPACITY;
}

static void words_of_download(const char *what, const struct download_status *status, struct err *words)
{
	if (status->error.text[0])
		err_set(words, status->error.code, "%s: %s", what, status->error.text);
	else if (status->total_bytes)
		err_set(words, -EAGAIN, "%s: %llu of %llu MiB", what,
		        (unsigned long long)(status->done_bytes >> 20),
		        (unsigned long long)(status->total_bytes >> 20));
	else
		err_set(words, -EAGAIN, "%s", what);
}

/* What a new domain is made from; one that stands has it already, but for the base image its disk rests on. */
static void view_look_at_sources(
        struct converger *c, const Bc__V1__InstanceSpec *spec, struct instance_view *view)
{
	bool is_new = !instance_has_domain(view);

	if (spec->boot && spec->boot->source_case == BC__V1__BOOT__SOURCE_IMAGE) {
		struct image image = { 0 };
		int r = image_store_want(c->images, spec->boot->image, &image, &view->words);

		if (r == -EINVAL) {
			view->facts |= FACT_IMAGE_REFUSED;
		} else if (r < 0) {
			view->facts |= FACT_IMAGE_MISSING;
			words_of_download("fetching the image", &image.download, &view->words);
		}
	}
	if (spec->restore_from && is_new) {
		struct download_status status = { 0 };
		struct download_source source = {
			.digest = spec->restore_from->digest,
			.url = spec->restore_from->url,
			.size_bytes = spec->restore_from->size_bytes,
		};

		if (snapshot_store_want(c->snapshots, &source, &status) < 0) {
			view->facts |= FACT_RESTORE_MISSING;
			words_of_download("fetching the snapshot", &status, &view->words);
		}
	}
}

static void view_look_at_start(struct converger *c, struct instance *instance, struct instance_view *view)
{
	const struct attempt *attempt = instance->attempt;
	const struct instance_spec *brief = instance->spec;
	const char *why;

	if (attempt && attempt->nics_ready)
		view->facts |= FACT_NICS_READY;
	if (attempt && attempt->is_defined)
		view->facts |= FACT_DEFINED;
	if (!instance->facts.recorded || instance->facts.started_hash != brief->started_hash ||
	        (brief->uses_netd && !instance->facts.used_netd) ||
	        (brief->is_job && instance->facts.job != STORE_JOB_STARTED) ||
	        (brief->has_volumes && !(attempt && attempt->is_claimed)))
		view->facts |= FACT_UNRECORDED;

	Bc__V1__InstanceSpec *spec = instance_spec_unpack(brief);
	if (!spec) {
		view->facts |= FACT_NO_CAPACITY;
		err_set(&view->words, -ENOMEM, "bc-converger itself is out of memory");
		return;
	}
	if (brief->has_placement) {
		look_at_host(c);
		if (placement_check(&c->host, spec, &view->words) < 0)
			view->facts |= FACT_MISPLACED;
	}
	if (brief->has_volumes)
		view_look_at_volumes(c, instance, spec, view);
	view_look_at_memory(c, instance, spec, view);
	/* What does not fit now is not fetched for either. */
	if (!(view->facts & (FACT_MISPLACED | FACT_NO_CAPACITY)))
		view_look_at_sources(c, spec, view);
	if (brief->has_user_data && !brief->has_restore && !instance_has_domain(view) &&
	        !(attempt && attempt->is_defined) &&
	        !(view->facts &
	                (FACT_MISPLACED | FACT_NO_CAPACITY | FACT_VOLUME_BUSY | FACT_VOLUME_MISSING |
	                        FACT_IMAGE_MISSING | FACT_IMAGE_REFUSED | FACT_NETD_AWAY)) &&
	        !secrets_want(c->secrets, instance->id, brief->allocation_id, spec->user_data_ref, &why)) {
		view->facts |= FACT_SECRET_MISSING;
		err_set(&view->words, -EAGAIN, "user data %s: %s", spec->user_data_ref, why);
	}
	bc__v1__instance_spec__free_unpacked(spec, NULL);
}

/* Volumes that have grown under it. */
static void view_look_at_growth(
        struct converger *c, const struct instance *instance, struct instance_view *view)
{
	Bc__V1__Domain *domain;
	uint64_t known_bytes = view->domain->volume_bytes, bytes = 0;

	if (!runtime_link_has(view->runtime, "grow-volume"))
		return;
	if (instance->grown_bytes > known_bytes)
		known_bytes = instance->grown_bytes;
	/* Those it was started with: what the spec says now comes with the next start. */
	domain = domain_unpack(view->domain);
	for (size_t i = 0; domain && i < domain->n_volumes; i++) {
		struct volume_info info;

		if (volume_store_get(c->volumes, domain->volumes[i]->volume_id, &info) == 0)
			bytes += info.size_bytes;
	}
	if (domain)
		bc__v1__domain__free_unpacked(domain, NULL);
	if (bytes > known_bytes)
		view->facts |= FACT_GROW_DUE;
}

static void view_look_at_identity(
        struct converger *c, const struct instance *instance, struct instance_view *view)
{
	Bc__V1__InstanceSpec *spec;
	const char *why;

	if (!view->domain->is_restored || !runtime_link_has(view->runtime, "rebind") ||
	        view->domain->rebound_hash == instance->spec->rebind_hash ||
	        instance->rebound_hash == instance->spec->rebind_hash)
		return;
	spec = instance_spec_unpack(instance->spec);
	if (!spec)
		return;
	if (secrets_want(c->secrets, instance->id, spec->allocation_id, spec->identity_rebind_ref, &why)) {
		view->facts |= FACT_REBIND_DUE;
	} else {
		view->facts |= FACT_REBIND_WAITS;
		err_set(&view->words, -EAGAIN, "identity %s: %s", spec->identity_rebind_ref, why);
	}
	bc__v1__instance_spec__free_unpacked(spec, NULL);
}

/* What a domain that is up can be given. */
static void view_look_at_domain(
        struct converger *c, const struct instance *instance, struct instance_view *view)
{
	const struct instance_spec *brief = instance->spec;

	if (brief->uses_netd && instance->facts.nics_hash != brief->nics_hash && view->facts & FACT_NICS_HELD)
		view->facts |= FACT_NICS_DUE;
	if (view->facts & (FACT_STALE | FACT_BACKOFF))
		return;
	if (brief->has_volumes && view->domain->has_volumes)
		view_look_at_growth(c, instance, view);
	if (brief->rebind_hash && view->observed == OBSERVED_RUNNING)
		view_look_at_identity(c, instance, view);
}

static void view_look_at_spec(struct converger *c, struct instance *instance, struct instance_view *view)
{
	if (c->is_draining)
		view->facts |= FACT_DRAINING;
	if (instance->spec->is_job &&
	        (instance->facts.job == STORE_JOB_COMPLETED || instance->facts.job == STORE_JOB_FAILED))
		view->facts |= FACT_JOB_ENDED;
	if (machine_wants_start(view->desired, view->observed, view->facts))
		view_look_at_start(c, instance, view);
	else if (view->observed == OBSERVED_RUNNING || view->observed == OBSERVED_PAUSED)
		view_look_at_domain(c, instance, view);
}

void instance_view_take(struct converger *c, struct instance *instance, struct instance_view *ret)
{
	struct instance_view *view = ret;

	view->facts = 0;
	view->domain = NULL;
	view->words.code = 0;
	view->words.text[0] = 0;
	view->desired = instance_desired(c, instance);
	view_observe(c, instance, view);
	if (instance->removal) {
		view->facts |= FACT_REMOVAL;
		/* One that is there all the same, by a call that was late or for its runtime had lied, is not gone. */
		view->facts |= instance->removal->domain_gone && !(view->domain && view->domain->is_managed)
		        ? FACT_DOMAIN_GONE
		        : 0;
		view->facts |= instance->removal->nics_gone ? FACT_NICS_GONE : 0;
		view->facts |= instance->removal->files_gone ? FACT_FILES_GONE : 0;
	}
	if (needs_netd(instance) && !netd_link_is_known(c->netd))
		view->facts |= FACT_NETD_AWAY;
	if (netd_link_held(c->netd, instance->id))
		view->facts |= FACT_NICS_HELD;
	view_look_at_trouble(instance, view);
	if (!instance->removal && instance->spec)
		view_look_at_spec(c, instance, view);
	/* Words are kept for the first fact in the machine's order; this one is near its end. */
	if (view->facts & FACT_NETD_AWAY)
		err_set(&view->words, -EAGAIN, "netd does not answer%s%s",
		        *netd_link_message(c->netd) ? ": " : "", netd_link_message(c->netd));
}

int instance_view_named(struct converger *c, const char *id, struct instance **ret_instance,
        struct instance_view *ret, struct rpc_status *ret_status)
{
	struct instance *instance = converger_instance(c, id);

	if (!instance || !instance->spec)
		return rpc_status_set(
		        ret_status, GRPC_STATUS_NOT_FOUND, "no instance %s in the accepted spec", id);
	instance_view_take(c, instance, ret);
	if (ret->observed == OBSERVED_UNKNOWN)
		return rpc_status_set(ret_status, GRPC_STATUS_UNAVAILABLE, "%s", ret->words.text);
	*ret_instance = instance;
	return 0;
}
