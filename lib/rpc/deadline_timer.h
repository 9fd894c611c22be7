/* One timer for many deadlines, of which nearly all are met: it is armed for the earliest ever noted, and only when it
 * fires does anybody look which deadlines are left. A deadline later than that one costs nothing. Private to
 * lib/rpc. */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

/* Acts on what expired by now_usec (CLOCK_MONOTONIC) and returns the earliest deadline left, UINT64_MAX for none. */
typedef uint64_t (*deadline_expire_fn)(uint64_t now_usec, void *userdata);

struct deadline_timer {
	sd_event *event;         /* weak */
	sd_event_source *source; /* owned; NULL until the first deadline */
	uint64_t armed_usec;     /* UINT64_MAX: not armed */
	deadline_expire_fn fn;
	void *userdata;
};

void deadline_timer_init(
        struct deadline_timer *timer, sd_event *event, deadline_expire_fn fn, void *userdata);
void deadline_timer_note(struct deadline_timer *timer, uint64_t deadline_usec);
void deadline_timer_done(struct deadline_timer *timer);
