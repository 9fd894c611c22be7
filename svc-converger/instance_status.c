#include "svc-converger/instance_status.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/domain/state.h"
#include "lib/net/port_map.h"
#include "svc-converger/balloons.h"
#include "svc-converger/instance_view.h"
#include "svc-converger/operation.h"
#include "svc-converger/runtimes.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/trouble.h"

#include <stdio.h>
#include <string.h>

#define STATE(name) BC__V1__INSTANCE_STATUS__STATE__##name

static void brief_of_wait(const struct instance *instance, struct status_brief *ret)
{
	const struct trouble *trouble = instance->trouble;

	if (trouble) {
		ret->reason = trouble->reason;
		ret->words = trouble->message ? trouble->message : "";
	}
}

static void brief_of_removal(const struct instance *instance, struct status_brief *ret)
{
	ret->state = STATE(REMOVING);
	ret->words = instance->words ? instance->words : "";
	switch (instance->action) {
	case ACTION_WAIT_RUNTIME:
		ret->reason = "WaitingForRuntime";
		break;
	case ACTION_WAIT_NETD:
		ret->reason = "WaitingForNetd";
		break;
	case ACTION_WAIT_BACKOFF:
		brief_of_wait(instance, ret);
		break;
	default:
		break;
	}
}

/* No answer from its runtime. */
static void brief_of_silence(const struct instance *instance, struct status_brief *ret)
{
	if (!instance->spec || instance->facts.recorded) {
		ret->state = STATE(UNKNOWN);
		ret->reason = "RuntimeUnreachable";
		return;
	}
	/* as decided, not as it is by now: the words beside it are of that moment */
	switch (instance->absence) {
	case RUNTIME_AWAITED:
		ret->state = STATE(PENDING);
		ret->reason = "WaitingForRuntime";
		return;
	case RUNTIME_NOT_INSTALLED:
		ret->state = STATE(FAILED);
		ret->reason = "RuntimeNotInstalled";
		return;
	case RUNTIME_NONE:
		ret->state = STATE(FAILED);
		ret->reason = "NoInstanceRuntime";
		return;
	}
}

static void brief_of_down(
        const struct converger *c, const struct instance *instance, struct status_brief *ret)
{
	ret->state = STATE(STOPPED);
	if (instance->observed == OBSERVED_CRASHED) {
		ret->reason = "Crashed";
	} else if (instance_is_drained(c, instance)) {
		ret->reason = "Draining";
		ret->words = "the node is drained: its instances are stopped";
	}
}

static void brief_of_job(const struct instance *instance, struct status_brief *ret)
{
	if (instance->facts.job == STORE_JOB_COMPLETED) {
		ret->state = STATE(COMPLETED);
	} else {
		ret->state = STATE(FAILED);
		ret->reason = "JobFailed";
		ret->words = "the job ended without reporting COMPLETE";
	}
}

static void brief_of_start(const struct instance *instance, struct status_brief *ret)
{
	ret->state = STATE(PENDING);
	switch (instance->action) {
	case ACTION_WAIT_DRAINING:
		ret->state = STATE(STOPPED);
		ret->reason = "Draining";
		ret->words = "the node is drained: nothing is started";
		return;
	case ACTION_WAIT_BACKOFF:
		ret->state = instance->trouble && instance->trouble->kind == TROUBLE_CAPACITY ? STATE(STOPPED)
		                                                                              : STATE(FAILED);
		brief_of_wait(instance, ret);
		return;
	case ACTION_REFUSE_TERMINAL:
		ret->state = STATE(FAILED);
		brief_of_wait(instance, ret);
		return;
	case ACTION_REFUSE_MISPLACED:
		ret->state = STATE(FAILED);
		ret->reason = "PlacementImpossible";
		break;
	case ACTION_REFUSE_IMAGE:
		ret->state = STATE(FAILED);
		ret->reason = "ImageRefused";
		break;
	case ACTION_WAIT_CAPACITY:
		ret->state = STATE(STOPPED);
		ret->reason = "ResourcesExhausted";
		break;
	case ACTION_WAIT_VOLUME:
		ret->reason = "WaitingForVolume";
		break;
	case ACTION_WAIT_VOLUME_BUSY:
		ret->reason = "VolumeInUse";
		break;
	case ACTION_WAIT_IMAGE:
		ret->reason = "FetchingImage";
		break;
	case ACTION_WAIT_RESTORE:
		ret->reason = "FetchingSnapshot";
		break;
	case ACTION_WAIT_NETD:
		ret->reason = "WaitingForNetd";
		break;
	case ACTION_RELEASE_NICS:
		break; /* why it waits is said next */
	case ACTION_WAIT_SECRET:
		ret->reason = "WaitingForUserData";
		break;
	default:
		if (instance->operation || instance->attempt)
			ret->state = STATE(STARTING);
		else
			ret->reason = "WaitingForTurn";
		break;
	}
	ret->words = instance->words ? instance->words : "";
}

/* A VM does not get an interface back that was taken from under it: at its next start it has a new one. */
static bool has_lost_interface(const struct converger *c, const struct instance *instance)
{
	const struct runtime_link *link =
	        instance->spec ? runtimes_find(c->runtimes, instance->spec->runtime) : NULL;
	const struct domain *domain = link ? runtime_link_domain(link, instance->id) : NULL;

	return domain && domain->n_interfaces && netd_link_is_known(c->netd) &&
	        netd_link_held(c->netd, instance->id) < domain->n_interfaces;
}

static void brief_of_up(const struct converger *c, const struct instance *instance, struct status_brief *ret)
{
	ret->state = instance->observed == OBSERVED_PAUSED ? STATE(PAUSED) : STATE(RUNNING);
	if (instance->operation && operation_action(instance->operation) == ACTION_STOP)
		ret->state = STATE(STOPPING);
	else if (instance->action == ACTION_WAIT_BACKOFF)
		brief_of_wait(instance, ret);
	else if (instance->action == ACTION_WAIT_REBIND_SECRET)
		ret->reason = "WaitingForIdentity";
	else if (has_lost_interface(c, instance)) {
		ret->reason = "InterfaceLost";
		ret->words = "an interface of it is gone from the host; it gets a new one at its next start";
	} else if (instance->spec && instance->facts.started_hash &&
	        instance->facts.started_hash != instance->spec->started_hash) {
		ret->reason = "RestartNeeded";
		ret->words = "changes of its spec take effect at the next start";
	}
	if (!*ret->words && instance->words)
		ret->words = instance->words;
}

void instance_brief(const struct converger *c, const struct instance *instance, struct status_brief *ret)
{
	enum machine_desired desired = instance_desired(c, instance);

	*ret = (struct status_brief){ .state = STATE(PENDING), .reason = "", .words = "" };
	if (instance->removal || !instance->spec) {
		brief_of_removal(instance, ret);
		return;
	}
	if (!instance->is_decided)
		return;
	switch (instance->observed) {
	case OBSERVED_UNKNOWN:
		ret->words = instance->words ? instance->words : "";
		brief_of_silence(instance, ret);
		return;
	case OBSERVED_FOREIGN:
		ret->state = STATE(FAILED);
		ret->reason = "ForeignDomain";
		ret->words = instance->words ? instance->words : "";
		return;
	case OBSERVED_STOPPING:
		ret->state = STATE(STOPPING);
		return;
	case OBSERVED_RUNNING:
	case OBSERVED_PAUSED:
		brief_of_up(c, instance, ret);
		return;
	case OBSERVED_ABSENT:
	case OBSERVED_STOPPED:
	case OBSERVED_CRASHED:
	case OBSERVED_MAX:
		break;
	}
	if (instance->spec->is_job &&
	        (instance->facts.job == STORE_JOB_COMPLETED || instance->facts.job == STORE_JOB_FAILED))
		brief_of_job(instance, ret);
	else if (desired == DESIRED_STOPPED)
		brief_of_down(c, instance, ret);
	else
		brief_of_start(instance, ret);
}

static Google__Protobuf__Timestamp timestamp_of(uint64_t usec)
{
	Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

	t.seconds = (int64_t)(usec / USEC_PER_SEC);
	t.nanos = (int32_t)(usec % USEC_PER_SEC * NSEC_PER_USEC);
	return t;
}

static void report_add_port(struct instance_report *report, Bc__V1__PortMapping *mapping, uint32_t nic_index)
{
	Bc__V1__PublishedPort *port = &report->ports[report->status.n_ports];

	bc__v1__published_port__init(port);
	port->mapping = mapping;
	port->nic_index = nic_index;
	report->port_pointers[report->status.n_ports++] = port;
}

/* What is really published: by netd for bridge NICs, by the VMM, while there is one, for user-mode ones. */
static void report_ports(
        const struct converger *c, struct instance_report *report, const struct instance *instance)
{
	const Bc__V1__Domain *domain = report->domain;
	const struct held_port *held;
	size_t n_held = netd_link_ports(c->netd, instance->id, &held);
	size_t n_forwarded = domain_state_is_up(domain->state) ? domain->n_ports : 0;
	size_t n = n_held + n_forwarded;
	Bc__V1__InstanceSpec *spec;

	if (!n || !instance->spec)
		return;
	spec = instance_spec_unpack(instance->spec);
	report->ports = calloc(n, sizeof(*report->ports));
	report->port_pointers = calloc(n, sizeof(*report->port_pointers));
	report->status.ports = report->port_pointers;
	for (size_t i = 0; report->ports && report->port_pointers && i < n_held; i++)
		report_add_port(report, held[i].mapping, held[i].nic_index);
	for (size_t i = 0; spec && report->ports && report->port_pointers && i < n_forwarded; i++) {
		uint32_t nic_index;

		if (port_map_resolve(spec, domain->ports[i], &nic_index, NULL) == 0 &&
		        nic_index < spec->n_nics &&
		        spec->nics[nic_index]->attachment_case == BC__V1__NIC__ATTACHMENT_USER)
			report_add_port(report, domain->ports[i], nic_index);
	}
	if (spec)
		bc__v1__instance_spec__free_unpacked(spec, NULL);
}

/* Of what it waits to be made from; false: of nothing. */
static bool download_of(
        const struct converger *c, const struct instance *instance, struct download_status *ret)
{
	bool is_image = instance->action == ACTION_WAIT_IMAGE;
	Bc__V1__InstanceSpec *spec;
	struct image image;

	if (!instance->spec ||
	        !(is_image ? instance->spec->has_image
	                   : instance->action == ACTION_WAIT_RESTORE && instance->spec->has_restore))
		return false;
	spec = instance_spec_unpack(instance->spec);
	if (!spec)
		return false;
	if (is_image) {
		image_store_get(c->images, spec->boot->image->digest, &image);
		*ret = image.download;
	} else {
		snapshot_store_get(c->snapshots, spec->restore_from->digest, ret);
	}
	bc__v1__instance_spec__free_unpacked(spec, NULL);
	return true;
}

/* A download or a snapshot under way. */
static void report_progress(
        const struct converger *c, struct instance_report *report, const struct instance *instance)
{
	struct download_status download;

	bc__v1__progress__init(&report->progress);
	if (instance->is_snapshotting &&
	        snapshot_tasks_progress(c->snapshot_tasks, instance->id, &report->progress)) {
		report->status.progress = &report->progress;
		return;
	}
	if (!download_of(c, instance, &download) || download.state != DOWNLOAD_RUNNING)
		return;
	report->progress.what =
	        (char *)(instance->action == ACTION_WAIT_IMAGE ? "fetching image" : "fetching snapshot");
	report->progress.done_bytes = download.done_bytes;
	report->progress.total_bytes = download.total_bytes;
	report->status.progress = &report->progress;
}

static void report_domain(struct instance_report *report, const struct domain *domain)
{
	Bc__V1__InstanceStatus *status = &report->status;

	report->domain = domain_unpack(domain);
	if (!report->domain)
		return;
	status->n_nics = report->domain->n_nics;
	status->nics = report->domain->nics;
	status->boot = report->domain->boot;
	status->identity_rebound_ref = report->domain->identity_rebound_ref;
	status->accel = report->domain->accel;
	status->n_vmm_pids = report->domain->n_vmm_pids;
	status->vmm_pids = report->domain->vmm_pids;
	if (domain_is_up(domain))
		status->memory_bytes = domain->memory_bytes;
}

void instance_report_init(
        const struct converger *c, const struct instance *instance, struct instance_report *ret)
{
	Bc__V1__InstanceStatus *status = &ret->status;
	const char *runtime = instance->removal ? instance->removal->runtime
	                                        : (instance->spec ? instance->spec->runtime : "");
	const struct runtime_link *link = runtimes_find(c->runtimes, runtime);
	const struct domain *domain = link ? runtime_link_domain(link, instance->id) : NULL;
	struct status_brief brief;

	*ret = (struct instance_report){ 0 };
	bc__v1__instance_status__init(status);
	instance_brief(c, instance, &brief);
	status->id = (char *)instance->id;
	status->allocation_id =
	        (char *)(instance->spec ? instance->spec->allocation_id
	                                : (instance->removal ? instance->removal->allocation_id : ""));
	status->runtime = (char *)runtime;
	status->state = brief.state;
	status->reason = (char *)brief.reason;
	if (domain && domain->is_managed) {
		report_domain(ret, domain);
		if (ret->domain)
			report_ports(c, ret, instance);
		status->balloon_bytes = balloons_current_bytes(c->balloons, instance->id);
		/* What the runtime says of a domain that went down by itself is worth more than our own words. */
		if (ret->domain && *ret->domain->reason && !domain_is_up(domain) && !*brief.words) {
			brief.words = ret->domain->message;
			if (!*status->reason && brief.state == STATE(STOPPED))
				status->reason = ret->domain->reason;
		}
	}
	quote_text(brief.words, ret->message, sizeof(ret->message));
	status->message = ret->message;
	report_progress(c, ret, instance);
	status->observed_revision = c->revision;
	status->restarts = instance->facts.restarts;
	ret->since = timestamp_of(instance->state_since_usec);
	status->last_transition = &ret->since;
	if (instance->trouble) {
		status->failures = instance->trouble->failures;
		/* Until the try begins that is due: FAILED without a next attempt is for good. */
		if (instance->trouble->retry_usec &&
		        (!instance->trouble->is_due || brief.state == STATE(FAILED))) {
			ret->next_attempt = timestamp_of(instance->trouble->retry_usec);
			status->next_attempt = &ret->next_attempt;
		}
	}
}

void instance_report_done(struct instance_report *report)
{
	if (report->domain)
		bc__v1__domain__free_unpacked(report->domain, NULL);
	free(report->ports);
	free(report->port_pointers);
	*report = (struct instance_report){ 0 };
}

void foreign_report_init(const struct foreign *foreign, struct instance_report *ret)
{
	Bc__V1__InstanceStatus *status = &ret->status;

	*ret = (struct instance_report){ 0 };
	bc__v1__instance_status__init(status);
	status->id = (char *)foreign->domain->id;
	status->runtime = (char *)runtime_link_id(foreign->runtime);
	status->allocation_id = (char *)foreign->domain->allocation_id;
	status->state = STATE(UNMANAGED);
	report_domain(ret, foreign->domain);
	(void)snprintf(ret->message, sizeof(ret->message), "%s%s",
	        foreign->domain->is_managed ? "made by bcd, but no accepted spec has said anything about it"
	                                    : "not made by bcd, and left alone",
	        domain_is_up(foreign->domain) ? "; it is up" : "");
	status->reason = (char *)(foreign->domain->is_managed ? "NotInSpec" : "");
	status->message = ret->message;
}
