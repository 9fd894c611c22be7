#include "svc-converger/status_stream.h"

#include "svc-converger/instance_status.h"
#include "svc-converger/node_report.h"

#include <string.h>

enum { ITEMS_MAX = 128 }; /* in one delta */

struct status_stream {
	struct converger *c;                           /* weak */
	struct status_reader *reader;                  /* owned */
	const struct status_stream_handlers *handlers; /* weak */
	void *userdata;                                /* weak */
	char instance_id[DOMAIN_ID_MAX];
	struct loop_tag tag;
	bool is_posted, is_full, is_synced, is_dead, has_begun;
};

/* A delta being put together. */
struct delta {
	Bc__V1__StatusDelta message;
	struct instance_report reports[ITEMS_MAX];
	Bc__V1__InstanceStatus gone[ITEMS_MAX];
	char gone_ids[ITEMS_MAX][STATUS_ID_MAX];
	Bc__V1__InstanceStatus *pointers[ITEMS_MAX];
	size_t n_reports, n_gone, n_items;
	struct volume_reports volumes;
	struct driver_reports drivers;
};

static void delta_add_gone(struct delta *delta, const char *id)
{
	Bc__V1__InstanceStatus *status = &delta->gone[delta->n_gone];

	bc__v1__instance_status__init(status);
	status->id = strncpy(delta->gone_ids[delta->n_gone], id, STATUS_ID_MAX - 1);
	status->state = BC__V1__INSTANCE_STATUS__STATE__REMOVED;
	delta->n_gone++;
	delta->pointers[delta->n_items++] = status;
}

static bool stream_wants(const struct status_stream *stream, const char *id)
{
	return !*stream->instance_id || strcmp(stream->instance_id, id) == 0;
}

static void delta_add(struct status_stream *stream, struct delta *delta, const struct status_change *change)
{
	struct instance_report *report = &delta->reports[delta->n_reports];

	switch (change->kind) {
	case STATUS_INSTANCE:
		if (change->item) {
			struct instance *instance = CONTAINER_OF(change->item, struct instance, status);

			if (!stream_wants(stream, instance->id))
				return;
			instance_report_init(stream->c, instance, report);
			break;
		}
		if (stream_wants(stream, change->id))
			delta_add_gone(delta, change->id);
		return;
	case STATUS_FOREIGN:
		if (change->item) {
			struct foreign *foreign = CONTAINER_OF(change->item, struct foreign, status);

			if (!stream_wants(stream, foreign->domain->id))
				return;
			foreign_report_init(foreign, report);
			break;
		}
		/* One that became an instance of ours has a status of its own already. */
		if (stream_wants(stream, change->id) && !converger_instance(stream->c, change->id))
			delta_add_gone(delta, change->id);
		return;
	case STATUS_DRIVERS:
		driver_reports_init(stream->c, &delta->drivers);
		return;
	case STATUS_VOLUME:
		return; /* all of them go with the next delta */
	default:
		return;
	}
	delta->pointers[delta->n_items++] = &report->status;
	delta->n_reports++;
}

static void delta_done(struct delta *delta)
{
	for (size_t i = 0; i < delta->n_reports; i++)
		instance_report_done(&delta->reports[i]);
	volume_reports_done(&delta->volumes);
	free(delta);
}

/* One delta. false: nothing was left to say, or there is no room for more. */
static bool stream_say(struct status_stream *stream)
{
	struct delta *delta = calloc(1, sizeof(*delta));
	struct status_change change;
	bool is_all = false;

	if (!delta)
		return false;
	bc__v1__status_delta__init(&delta->message);
	if (!stream->has_begun && !*stream->instance_id) {
		driver_reports_init(stream->c, &delta->drivers);
		(void)volume_reports_init(stream->c, "", &delta->volumes);
	}
	while (delta->n_items < ITEMS_MAX && !is_all) {
		if (!status_reader_next(stream->reader, &change))
			is_all = true;
		else if (change.kind == STATUS_VOLUME && change.item && !*stream->instance_id &&
		        !delta->volumes.n)
			(void)volume_reports_init(stream->c,
			        CONTAINER_OF(change.item, struct volume_item, status)->id, &delta->volumes);
		else
			delta_add(stream, delta, &change);
		/* One changed volume to a delta keeps this simple; they change rarely. */
		if (stream->has_begun && delta->volumes.n)
			break;
	}
	stream->has_begun = true;
	delta->message.n_instances = delta->n_items;
	delta->message.instances = delta->pointers;
	delta->message.n_volumes = delta->volumes.n;
	delta->message.volumes = delta->volumes.pointers;
	delta->message.n_drivers = delta->drivers.n;
	delta->message.drivers = delta->drivers.pointers;
	delta->message.accepted_revision = stream->c->revision;
	delta->message.synced = is_all && !stream->is_synced;
	if (delta->n_items || delta->volumes.n || delta->drivers.n || delta->message.synced)
		stream->is_full = !stream->handlers->on_delta(&delta->message, stream->userdata);
	stream->is_synced = stream->is_synced || is_all;
	delta_done(delta);
	return !is_all && !stream->is_full;
}

static void stream_run(struct status_stream *stream)
{
	while (!stream->is_full && !stream->is_dead) {
		if (status_reader_is_lost(stream->reader)) {
			stream->handlers->on_lost(stream->userdata);
			return;
		}
		if (!stream_say(stream))
			return;
	}
}

static void on_posted(struct loop_tag *tag, bool ok)
{
	struct status_stream *stream = CONTAINER_OF(tag, struct status_stream, tag);

	(void)ok;
	stream->is_posted = false;
	if (stream->is_dead)
		free(stream);
	else
		stream_run(stream);
}

static void stream_post(struct status_stream *stream)
{
	if (stream->is_posted)
		return;
	stream->is_posted = true;
	loop_post(stream->c->loop, &stream->tag);
}

static void on_news(void *userdata)
{
	stream_post(userdata);
}

int status_stream_new(struct converger *c, const char *instance_id,
        const struct status_stream_handlers *handlers, void *userdata, struct status_stream **ret)
{
	struct status_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->c = c;
	stream->handlers = handlers;
	stream->userdata = userdata;
	stream->tag.on_done = on_posted;
	strncpy(stream->instance_id, instance_id, sizeof(stream->instance_id) - 1);
	stream->reader = status_reader_new(c->board, on_news, stream);
	if (!stream->reader) {
		free(stream);
		return -ENOMEM;
	}
	stream_post(stream);
	*ret = stream;
	return 0;
}

struct status_stream *status_stream_free(struct status_stream *stream)
{
	if (!stream)
		return NULL;
	status_reader_free(stream->reader);
	stream->is_dead = true;
	if (!stream->is_posted)
		free(stream);
	return NULL;
}

void status_stream_resume(struct status_stream *stream)
{
	stream->is_full = false;
	stream_post(stream);
}
