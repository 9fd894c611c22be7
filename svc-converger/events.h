/* What happened lately, for people: a bounded ring. The oldest go first; sequence numbers have no gaps. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { EVENT_MESSAGE_MAX = 256, EVENT_ID_MAX = 64, EVENT_REASON_MAX = 40 }; /* bytes with the NUL */

enum event_severity { EVENT_INFO, EVENT_WARNING, EVENT_ERROR };

struct event {
	uint64_t sequence;  /* from 1 */
	uint64_t time_usec; /* realtime */
	enum event_severity severity;
	char instance_id[EVENT_ID_MAX]; /* "": the node */
	char reason[EVENT_REASON_MAX];  /* CamelCase */
	char *message;                  /* owned by the ring; at most EVENT_MESSAGE_MAX */
};

struct events;

struct events *events_new(size_t n_max); /* NULL: no memory */
struct events *events_free(struct events *events);

/* Never fails: without memory for its words an event keeps its reason alone. */
void events_add(struct events *events, uint64_t now_usec, enum event_severity severity,
        const char *instance_id, const char *reason, const char *fmt, ...)
        __attribute__((format(printf, 6, 7)));

/* Hears that there is a new event, to be read with events_next(). Embedded in the listener; must not add events or
 * leave from inside on_event. */
struct event_follower {
	void (*on_event)(void *userdata);
	void *userdata;              /* weak */
	struct event_follower *next; /* weak; private */
};
void events_follow(struct events *events, struct event_follower *follower);
void events_unfollow(struct events *events, struct event_follower *follower);

/* The oldest kept event with a sequence above after, of instance_id unless that is ""; NULL: none. Valid until the
 * next events_add(). */
const struct event *events_next(const struct events *events, uint64_t after, const char *instance_id);
uint64_t events_last(const struct events *events); /* the newest sequence; 0: none yet */
