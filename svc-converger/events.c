#include "svc-converger/events.h"

#include "lib/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct events {
	struct event *ring; /* owned; event s is at (s - 1) % n_max */
	size_t n_max;
	uint64_t last;
	struct event_follower *followers; /* weak; a list */
};

struct events *events_new(size_t n_max)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	events->ring = calloc(n_max, sizeof(*events->ring));
	if (!events->ring) {
		free(events);
		return NULL;
	}
	events->n_max = n_max;
	return events;
}

struct events *events_free(struct events *events)
{
	if (!events)
		return NULL;
	for (size_t i = 0; i < events->n_max; i++)
		free(events->ring[i].message);
	free(events->ring);
	free(events);
	return NULL;
}

void events_follow(struct events *events, struct event_follower *follower)
{
	follower->next = events->followers;
	events->followers = follower;
}

void events_unfollow(struct events *events, struct event_follower *follower)
{
	struct event_follower **at = &events->followers;

	while (*at && *at != follower)
		at = &(*at)->next;
	if (*at)
		*at = follower->next;
}

void events_add(struct events *events, uint64_t now_usec, enum event_severity severity,
        const char *instance_id, const char *reason, const char *fmt, ...)
{
	struct event *event = &events->ring[events->last++ % events->n_max];
	char message[EVENT_MESSAGE_MAX];
	va_list ap;

	free(event->message);
	*event = (struct event){ .sequence = events->last, .time_usec = now_usec, .severity = severity };
	(void)snprintf(event->instance_id, sizeof(event->instance_id), "%s", instance_id);
	(void)snprintf(event->reason, sizeof(event->reason), "%s", reason);
	(void)utf8_mend(event->instance_id);
	(void)utf8_mend(event->reason);
	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	(void)utf8_mend(message); /* it may have been cut */
	event->message = strdup(message);
	for (struct event_follower *f = events->followers; f; f = f->next)
		f->on_event(f->userdata);
}

const struct event *events_next(const struct events *events, uint64_t after, const char *instance_id)
{
	uint64_t oldest = events->last > events->n_max ? events->last - events->n_max + 1 : 1;

	if (after == UINT64_MAX)
		return NULL;
	for (uint64_t s = after + 1 > oldest ? after + 1 : oldest; s <= events->last; s++) {
		const struct event *event = &events->ring[(s - 1) % events->n_max];

		if (!*instance_id || strcmp(event->instance_id, instance_id) == 0)
			return event;
	}
	return NULL;
}

uint64_t events_last(const struct events *events)
{
	return events->last;
}
