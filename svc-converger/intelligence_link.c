#include "svc-converger/intelligence_link.h"

#include "bc/v1/intelligence.pb-c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Registrations that wait for an answer; more are dropped until some have come: they are told again when it is
 * asked for everybody, and none is worth a queue. */
enum { TOLD_MAX = 256 };

struct told {
	struct intelligence_link *link; /* weak; NULL: freed */
	struct told *next;              /* weak */
};

struct intelligence_link {
	struct link *link;                        /* owned */
	struct intelligence_link_options options; /* its link's path is unused after the start */
	struct call *status;                      /* owned while in flight */
	struct told *told;                        /* owned while in flight; a list */
	size_t n_told;
	char version[64];
};

#define METHOD(member) RPC_METHOD(Bc__V1__Intelligence_Service, bc__v1__intelligence__descriptor, member)

static void link_lose(void *owner, const struct rpc_status *status)
{
	struct intelligence_link *link = owner;
	bool was_ready = link_state(link->link) == LINK_READY;

	call_drop(&link->status);
	if (link_failed(link->link, status) || was_ready)
		link->options.on_state(link->options.userdata);
}

static void on_told(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct told *told = userdata;
	struct intelligence_link *link = told->link;

	(void)reply;
	if (link) {
		struct told **at = &link->told;

		while (*at != told)
			at = &(*at)->next;
		*at = told->next;
		link->n_told--;
		if ((status->code == GRPC_STATUS_UNAVAILABLE ||
		            status->code == GRPC_STATUS_DEADLINE_EXCEEDED) &&
		        link_state(link->link) == LINK_READY)
			link_lose(link, status);
	}
	free(told);
}

static void on_status(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct intelligence_link *link = owner;

	if (status->code != GRPC_STATUS_OK) {
		link_lose(link, status);
		return;
	}
	(void)snprintf(link->version, sizeof(link->version), "%.60s",
	        ((const Bc__V1__IntelligenceStatus *)reply)->version);
	link_ready(link->link);
	link->options.on_state(link->options.userdata);
	link->options.on_ready(link->options.userdata);
}

static void on_try(void *owner)
{
	struct intelligence_link *link = owner;
	Bc__V1__IntelligenceStatusRequest request = BC__V1__INTELLIGENCE_STATUS_REQUEST__INIT;

	link_call_unary(link->link, &link->status, METHOD(status), &request.base, on_status);
}

static const struct link_handlers link_handlers = { .on_try = on_try, .on_lost = link_lose };

int intelligence_link_new(
        struct loop *loop, const struct intelligence_link_options *options, struct intelligence_link **ret)
{
	struct intelligence_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->options = *options;
	r = link_new(loop, &options->link, &link_handlers, link, &link->link);
	if (r < 0) {
		free(link);
		return r;
	}
	*ret = link;
	return 0;
}

struct intelligence_link *intelligence_link_free(struct intelligence_link *link)
{
	if (!link)
		return NULL;
	call_drop(&link->status);
	for (struct told *told = link->told; told; told = told->next)
		told->link = NULL;
	link_free(link->link);
	free(link);
	return NULL;
}

void intelligence_link_poke(struct intelligence_link *link)
{
	link_poke(link->link);
}

enum link_state intelligence_link_state(const struct intelligence_link *link)
{
	return link_state(link->link);
}

const char *intelligence_link_message(const struct intelligence_link *link)
{
	return link_message(link->link);
}

const char *intelligence_link_version(const struct intelligence_link *link)
{
	return link->version;
}

static void link_tell(
        struct intelligence_link *link, struct rpc_method method, const ProtobufCMessage *message)
{
	struct told *told;

	if (link_state(link->link) != LINK_READY || link->n_told == TOLD_MAX)
		return;
	told = calloc(1, sizeof(*told));
	if (!told)
		return;
	told->link = link;
	told->next = link->told;
	link->told = told;
	link->n_told++;
	(void)rpc_unary(
	        link_channel(link->link), method, message, link_call_timeout_usec(link->link), on_told, told);
}

void intelligence_link_register(struct intelligence_link *link, const char *instance_id, const int64_t *pids,
        size_t n_pids, const char *cgroup)
{
	Bc__V1__RegisterRequest request = BC__V1__REGISTER_REQUEST__INIT;

	if (!n_pids)
		return;
	request.instance_id = (char *)instance_id;
	request.pids = (int64_t *)pids;
	request.n_pids = n_pids < INTELLIGENCE_PIDS_MAX ? n_pids : INTELLIGENCE_PIDS_MAX;
	request.cgroup = (char *)cgroup;
	link_tell(link, METHOD(register_), &request.base);
}

void intelligence_link_unregister(struct intelligence_link *link, const char *instance_id)
{
	Bc__V1__UnregisterRequest request = BC__V1__UNREGISTER_REQUEST__INIT;

	request.instance_id = (char *)instance_id;
	link_tell(link, METHOD(unregister), &request.base);
}
