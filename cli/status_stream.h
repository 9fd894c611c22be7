/* The converger's status as it changes: one stream after another, because a converger may restart under us. */
#pragma once

#include "cli/node_status.h"

struct status_stream;

struct status_stream_handlers {
	/* Each delta, valid during the call. After a break the next ones bring everything anew, up to one with synced. */
	void (*on_delta)(const Bc__V1__StatusDelta *delta, void *userdata);
	/* The stream broke and is opened again after a pause; absent for the first time too when wait_for_service. NULL
	 * for silence. */
	void (*on_break)(const struct rpc_status *status, void *userdata);
	/* It cannot go on: wrong id, no permission, or the service is absent at the first try. */
	void (*on_end)(const struct rpc_status *status, void *userdata);
	void *userdata;
};

/* instance_id "": all. Nothing is called from inside. NULL, having said so, when it cannot be begun. */
struct status_stream *status_stream_new(
        struct door *door, const char *instance_id, const struct status_stream_handlers *handlers);
/* Ends it; nothing is called any more. Accepts NULL. */
struct status_stream *status_stream_free(struct status_stream *stream);
CLEANUP_DEFINE(status_stream, status_stream_free)
