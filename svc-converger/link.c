#include "svc-converger/link.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/quote.h"

#include <stdio.h>
#include <string.h>

struct link {
	struct rpc_channel *channel; /* owned */
	sd_event_source *timer;      /* owned */
	struct rpc_backoff backoff;
	enum link_state state;
	enum link_state failure; /* the last one; READY once it stands */
	char *path;              /* owned */
	char message[ERR_TEXT_MAX];
	uint64_t call_timeout_usec;
	const struct link_handlers *handlers; /* weak */
	void *owner;                          /* weak */
};

static void link_try(struct link *link)
{
	link->state = LINK_TRYING;
	link->handlers->on_try(link->owner);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	link_try(userdata);
	return 0;
}

static void link_try_after(struct link *link, uint64_t pause_usec)
{
	(void)sd_event_source_set_time_relative(link->timer, pause_usec);
	(void)sd_event_source_set_enabled(link->timer, SD_EVENT_ONESHOT);
}

int link_new(struct loop *loop, const struct link_options *options, const struct link_handlers *handlers,
        void *owner, struct link **ret)
{
	struct link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->handlers = handlers;
	link->owner = owner;
	link->call_timeout_usec = options->call_timeout_usec ? options->call_timeout_usec : 10 * USEC_PER_SEC;
	link->backoff = (struct rpc_backoff){
		.min_usec = options->retry_min_usec ? options->retry_min_usec : 100 * USEC_PER_MSEC,
		.max_usec = options->retry_max_usec ? options->retry_max_usec : 10 * USEC_PER_SEC,
	};
	link->path = strdup(options->path);
	r = link->path ? rpc_channel_new_unix(loop, link->path, &link->channel) : -ENOMEM;
	if (r == 0)
		r = sd_event_add_time_relative(
		        loop_event(loop), &link->timer, CLOCK_MONOTONIC, 0, 1, on_timer, link);
	if (r < 0) {
		link_free(link);
		return r;
	}
	(void)sd_event_source_set_description(link->timer, "link-retry");
	*ret = link;
	return 0;
}

struct link *link_free(struct link *link)
{
	if (!link)
		return NULL;
	sd_event_source_disable_unref(link->timer);
	rpc_channel_free(link->channel);
	free(link->path);
	free(link);
	return NULL;
}

void link_poke(struct link *link)
{
	if (link->state == LINK_TRYING || link->state == LINK_READY)
		return;
	rpc_backoff_reset(&link->backoff);
	link_try_after(link, 0);
}

void link_ready(struct link *link)
{
	link->state = link->failure = LINK_READY;
	link->message[0] = 0;
	rpc_backoff_reset(&link->backoff);
}

static enum link_state state_of(const struct rpc_status *status)
{
	if (rpc_status_absent(status))
		return LINK_ABSENT;
	switch (status->code) {
	case GRPC_STATUS_PERMISSION_DENIED:
	case GRPC_STATUS_UNAUTHENTICATED:
		return LINK_REFUSED;
	case GRPC_STATUS_DEADLINE_EXCEEDED:
	case GRPC_STATUS_RESOURCE_EXHAUSTED:
		return LINK_BUSY;
	default:
		return status->errno_hint == -EACCES || status->errno_hint == -EPERM ? LINK_REFUSED
		                                                                     : LINK_ERROR;
	}
}

bool link_failed(struct link *link, const struct rpc_status *status)
{
	char message[sizeof(link->message)];
	bool is_new;

	link->state = state_of(status);
	quote_text(status->message, message, sizeof(message));
	is_new = link->state != link->failure || strcmp(message, link->message) != 0;
	link->failure = link->state;
	memcpy(link->message, message, sizeof(message));
	link_try_after(link, rpc_backoff_next(&link->backoff));
	return is_new;
}

const struct rpc_status link_no_memory = { .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
	.message = "out of memory" };

static void link_check_made(struct link *link, int r)
{
	if (r < 0)
		link->handlers->on_lost(link->owner, &link_no_memory);
}

void link_call_unary(struct link *link, struct call **slot, struct rpc_method method,
        const ProtobufCMessage *message, call_reply_fn fn)
{
	link_check_made(link,
	        call_unary(slot, link->channel, method, message, link->call_timeout_usec, fn, link->owner));
}

void link_call_stream(struct link *link, struct call **slot, struct rpc_method method,
        const ProtobufCMessage *first, const struct call_stream_handlers *handlers)
{
	link_check_made(
	        link, call_stream(slot, link->channel, method, first, UINT64_MAX, handlers, link->owner));
}

const struct rpc_status *link_broken_watch(const struct rpc_status *status, struct rpc_status *ret)
{
	*ret = *status;
	if (ret->code == GRPC_STATUS_OK) {
		ret->code = GRPC_STATUS_UNAVAILABLE;
		(void)snprintf(ret->message, sizeof(ret->message), "it ended its Watch stream");
	}
	return ret;
}

enum link_state link_state(const struct link *link)
{
	return link->state;
}

const char *link_message(const struct link *link)
{
	return link->message;
}

const char *link_path(const struct link *link)
{
	return link->path;
}

uint64_t link_call_timeout_usec(const struct link *link)
{
	return link->call_timeout_usec;
}

struct rpc_channel *link_channel(const struct link *link)
{
	return link->channel;
}
