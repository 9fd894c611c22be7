#include "lib/rpc/deadline_timer.h"

#include "lib/base/clock.h"

#include <stdlib.h>
#include <time.h>

static int on_time(sd_event_source *source, uint64_t usec, void *userdata);

void deadline_timer_init(struct deadline_timer *timer, sd_event *event, deadline_expire_fn fn, void *userdata)
{
	*timer = (struct deadline_timer){
		.event = event, .armed_usec = UINT64_MAX, .fn = fn, .userdata = userdata
	};
}

void deadline_timer_note(struct deadline_timer *timer, uint64_t deadline_usec)
{
	int r;

	if (deadline_usec >= timer->armed_usec)
		return;
	timer->armed_usec = deadline_usec;
	if (!timer->source) {
		r = sd_event_add_time(
		        timer->event, &timer->source, CLOCK_MONOTONIC, deadline_usec, 1, on_time, timer);
	} else {
		r = sd_event_source_set_time(timer->source, deadline_usec);
		if (r >= 0)
			r = sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
	}
	if (r < 0)
		abort(); /* out of memory; a call without its deadline could hang its caller for ever */
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct deadline_timer *timer = userdata;

	(void)source;
	(void)usec;
	timer->armed_usec = UINT64_MAX;
	deadline_timer_note(timer, timer->fn(clock_monotonic_usec(), timer->userdata));
	return 0;
}

void deadline_timer_done(struct deadline_timer *timer)
{
	timer->source = sd_event_source_disable_unref(timer->source);
	timer->armed_usec = UINT64_MAX;
}
