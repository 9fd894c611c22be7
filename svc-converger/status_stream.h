/* A reader of statuses as deltas: everything first, in pieces that fit a message, then SYNCED, then what changes.
 * Of an instance only the newest status is ever waiting, so a reader that stalls costs nothing. */
#pragma once

#include "svc-converger/converger.h"

#include "bc/v1/converger.pb-c.h"

struct status_stream;

struct status_stream_handlers {
	/* A delta (valid during the call). false: not now; status_stream_resume() when there is room again. The same
	 * delta is not given again: false means that this one was taken and no other is. */
	bool (*on_delta)(const Bc__V1__StatusDelta *delta, void *userdata);
	/* It is too far behind to be told everything: it has to begin anew. */
	void (*on_lost)(void *userdata);
};

/* instance_id "": all. */
int status_stream_new(struct converger *converger, const char *instance_id,
        const struct status_stream_handlers *handlers, void *userdata, struct status_stream **ret);
struct status_stream *status_stream_free(struct status_stream *stream);
void status_stream_resume(struct status_stream *stream);
