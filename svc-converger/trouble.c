#include "svc-converger/trouble.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "svc-converger/reconciler.h"

#include <stdlib.h>
#include <string.h>

struct trouble *trouble_free(struct trouble *trouble)
{
	if (!trouble)
		return NULL;
	sd_event_source_disable_unref(trouble->timer);
	free(trouble->message);
	free(trouble);
	return NULL;
}

void trouble_end_pause(struct trouble *trouble)
{
	trouble->is_due = true;
	trouble->retry_usec = clock_realtime_usec();
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct instance *instance = userdata;

	(void)source;
	(void)usec;
	trouble_end_pause(instance->trouble);
	reconciler_mark(instance->converger, instance);
	return 0;
}

static uint64_t pause_after(const struct converger *c, uint32_t failures)
{
	uint64_t pause_usec = c->options.retry_min_usec;

	while (failures-- > 1 && pause_usec < c->options.retry_max_usec)
		pause_usec *= 2;
	if (pause_usec > c->options.retry_max_usec)
		pause_usec = c->options.retry_max_usec;
	/* So that what failed together does not try together. */
	return pause_usec * 3 / 4 + (uint64_t)random() % (pause_usec / 2 + 1);
}

static void trouble_begin_pause(struct trouble *trouble, struct instance *instance, uint64_t pause_usec)
{
	int r = 0;

	trouble->is_due = false;
	trouble->retry_usec = clock_realtime_usec() + pause_usec;
	if (!trouble->timer)
		r = sd_event_add_time_relative(loop_event(instance->converger->loop), &trouble->timer,
		        CLOCK_MONOTONIC, pause_usec, 1, on_due, instance);
	if (r >= 0)
		r = sd_event_source_set_time_relative(trouble->timer, pause_usec);
	if (r >= 0)
		r = sd_event_source_set_enabled(trouble->timer, SD_EVENT_ONESHOT);
	if (r < 0)
		trouble_end_pause(trouble);
}

void instance_fail(struct converger *c, struct instance *instance, enum trouble_kind kind, uint32_t failures,
        const char *reason, const char *message)
{
	struct trouble *trouble = instance->trouble;
	char words[512]; /* as many as a status has room for */

	converger_event(c, kind == TROUBLE_CAPACITY ? EVENT_WARNING : EVENT_ERROR, instance->id, reason, "%s",
	        message);
	if (!trouble)
		trouble = instance->trouble = calloc(1, sizeof(*trouble));
	if (!trouble)
		return;
	trouble->kind = kind;
	trouble->failures = failures ? failures : trouble->failures + 1;
	quote_text(reason, trouble->reason, sizeof(trouble->reason));
	free(trouble->message);
	trouble->message = strdup(quote_text(message, words, sizeof(words)));
	instance->is_news = true;
	if (kind == TROUBLE_TERMINAL) {
		trouble->timer = sd_event_source_disable_unref(trouble->timer);
		trouble->is_due = false;
		trouble->retry_usec = 0;
	} else {
		trouble_begin_pause(trouble, instance, pause_after(c, trouble->failures));
	}
}
