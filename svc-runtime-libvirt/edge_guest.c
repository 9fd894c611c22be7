/* GetBalloon, SetBalloon, GrowVolume, Rebind. */
#include "svc-runtime-libvirt/edge.h"
#include "svc-runtime-libvirt/guest.h"

#include "lib/base/clock.h"
#include "lib/seed/rebind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REBIND_USEC_MAX (120 * USEC_PER_SEC)

/* --- memory --- */

static void on_memory(int r, const struct err *err, const struct domain_memory *memory, void *userdata)
{
	struct rpc_call *call = userdata;
	Bc__V1__BalloonReply answer = BC__V1__BALLOON_REPLY__INIT;

	if (r < 0) {
		rpc_fail_err(call, r, err);
	} else {
		answer.current_bytes = memory->current_bytes;
		answer.maximum_bytes = memory->maximum_bytes;
		answer.unused_bytes = memory->unused_bytes;
		answer.usage_known = memory->usage_known;
		rpc_reply(call, &answer.base);
	}
	(void)rpc_call_unref(call);
}

static void do_get_balloon(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__BalloonRequest *request = arg;

	if (edge_id(call, request->id) && edge_ready(runtime, call))
		guest_get_memory(runtime, request->id, on_memory, rpc_call_ref(call));
}

void edge_get_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__BalloonRequest *request,
        Bc__V1__BalloonReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_get_balloon, request);
}

static void do_set_balloon(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__SetBalloonRequest *request = arg;

	if (edge_id(call, request->id) && edge_ready(runtime, call))
		guest_set_memory(runtime, request->id, request->target_bytes, on_memory, rpc_call_ref(call));
}

void edge_set_balloon(Bc__V1__Runtime_Service *service, const Bc__V1__SetBalloonRequest *request,
        Bc__V1__BalloonReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_set_balloon, request);
}

/* --- volumes --- */

static void on_grown(int r, const struct err *err, uint64_t bytes, void *userdata)
{
	struct rpc_call *call = userdata;
	Bc__V1__GrowVolumeReply answer = BC__V1__GROW_VOLUME_REPLY__INIT;

	answer.size_bytes = bytes;
	if (r < 0)
		rpc_fail_err(call, r, err);
	else
		rpc_reply(call, &answer.base);
	(void)rpc_call_unref(call);
}

static void do_grow_volume(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__GrowVolumeRequest *request = arg;
	struct err err = { 0 };

	if (!edge_id(call, request->id))
		return;
	int r = volume_id_check("volume_id", request->volume_id, &err);
	if (r < 0)
		rpc_fail_err(call, r, &err);
	else if (edge_ready(runtime, call))
		guest_grow_volume(runtime, request->id, request->volume_id, request->size_bytes, on_grown,
		        rpc_call_ref(call));
}

void edge_grow_volume(Bc__V1__Runtime_Service *service, const Bc__V1__GrowVolumeRequest *request,
        Bc__V1__GrowVolumeReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_grow_volume, request);
}

/* --- identity --- */

struct rebind {
	struct rpc_call *call;  /* owned: a reference, which keeps the request */
	struct secret *payload; /* owned */
	struct slow *slow;      /* weak: until on_rebound() */
};

static void on_rebound(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct rebind *rebind = userdata;
	Bc__V1__RebindReply answer = BC__V1__REBIND_REPLY__INIT;

	if (r == 0 && (!entry || !domain_entry_managed(entry) || !entry->look.record.def->rebound_ref))
		r = -ENOENT;
	if (r < 0) {
		rpc_fail_err(rebind->call, r, err);
	} else {
		answer.identity_rebound_ref = entry->look.record.def->rebound_ref;
		rpc_reply(rebind->call, &answer.base);
	}
	rebind->slow = NULL;
	rebind->payload = secret_free(rebind->payload);
	(void)rpc_call_unref(rebind->call);
	free(rebind);
}

static void on_cancel(struct rpc_call *call, void *userdata)
{
	struct rebind *rebind = userdata;

	(void)call;
	if (rebind->slow)
		slow_cancel(rebind->slow);
}

static void do_rebind(struct runtime *runtime, struct rpc_call *call, const void *arg)
{
	const Bc__V1__RebindRequest *request = arg;

	if (!edge_id(call, request->id))
		return;
	if (!request->ref[0] || strlen(request->ref) > REBIND_REF_MAX || strpbrk(request->ref, "\r\n")) {
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "ref must be one line of 1..%d bytes",
		        REBIND_REF_MAX);
		return;
	}
	if (request->payload.len > REBIND_PAYLOAD_MAX) {
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "payload has %zu bytes; at most %d",
		        request->payload.len, REBIND_PAYLOAD_MAX);
		return;
	}
	if (!edge_ready(runtime, call))
		return;
	struct rebind *rebind = calloc(1, sizeof(*rebind));
	if (!rebind || secret_new_from(request->payload.data, request->payload.len, &rebind->payload) < 0) {
		free(rebind);
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	rebind->call = rpc_call_ref(call);
	uint64_t timeout = rpc_call_time_left_usec(call);
	rebind->slow = guest_rebind(runtime, request->id, request->ref, rebind->payload,
	        timeout < REBIND_USEC_MAX ? timeout : REBIND_USEC_MAX, on_rebound, rebind);
	if (rebind->slow)
		rpc_call_on_cancel(call, on_cancel, rebind);
	else
		on_rebound(-ENOMEM, &(struct err){ 0 }, NULL, rebind);
}

void edge_rebind(Bc__V1__Runtime_Service *service, const Bc__V1__RebindRequest *request,
        Bc__V1__RebindReply_Closure reply, void *closure_data)
{
	(void)reply;
	edge_when_settled(service, rpc_call_of(closure_data), do_rebind, request);
}
