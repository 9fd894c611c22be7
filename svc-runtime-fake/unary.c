#include "svc-runtime-fake/unary.h"

#include "lib/base/clock.h"
#include "lib/log/log.h"
#include "lib/rpc/server.h"
#include "lib/snapshot/tar.h"

#include <string.h>

/* A call that is not answered at once. It holds a reference on the call, and with it the request. */
struct unary {
	struct fake *fake;               /* weak */
	const struct unary_op *op;       /* weak */
	struct rpc_call *call;           /* a reference */
	const ProtobufCMessage *request; /* weak: the call's */
	struct fault fault;
	sd_event_source *timer;   /* owned */
	ProtobufCMessage *answer; /* owned; waits for the timer */
	/* reading a snapshot's meta.json, off the loop */
	struct job job;
	bool job_runs, has_meta;
	char *path; /* owned */
	struct snapshot_meta meta;
	int result;
	struct err err;
};

static void unary_done(struct unary *u)
{
	(void)sd_event_source_disable_unref(u->timer);
	if (u->answer)
		protobuf_c_message_free_unpacked(u->answer, NULL);
	u->fake->n_held--;
	(void)rpc_call_unref(u->call);
	free(u->path);
	free(u);
}

static const char *id_of(const struct unary *u)
{
	return u->op->id_of ? u->op->id_of(u->request) : "";
}

static void fault_fail(struct unary *u)
{
	rpc_fail(u->call, u->fault.code, "%s", u->fault.message);
	unary_done(u);
}

static int on_answer_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct unary *u = userdata;

	(void)source;
	(void)usec;
	rpc_reply(u->call, u->answer);
	unary_done(u);
	return 0;
}

/* The caller went while nothing but the caller could end the wait. */
static void on_cancel(struct rpc_call *call, void *userdata)
{
	struct unary *u = userdata;

	(void)call;
	if (!u->job_runs)
		unary_done(u);
}

/* fn later, or never when the stall has no end; the caller's going ends either. */
static void unary_wait(struct unary *u, uint64_t usec, sd_event_time_handler_t fn)
{
	rpc_call_on_cancel(u->call, on_cancel, u);
	if (usec == UINT64_MAX)
		return;
	int r = sd_event_add_time_relative(
	        loop_event(u->fake->loop), &u->timer, CLOCK_MONOTONIC, usec, 1, fn, u);
	if (r < 0)
		(void)log_err(r, "no timer for %s: %m", u->op->method);
}

static void unary_finish(struct unary *u, ProtobufCMessage *answer)
{
	struct err err = { 0 };

	switch (u->fault.action) {
	case BC__FAKE__FAULT__ACTION__FAIL_AFTER:
		protobuf_c_message_free_unpacked(answer, NULL);
		fault_fail(u);
		return;
	case BC__FAKE__FAULT__ACTION__STALL_AFTER:
		u->answer = answer;
		unary_wait(u, u->fault.stall_usec, on_answer_time);
		return;
	case BC__FAKE__FAULT__ACTION__LOSE:
		if (u->op->changes && fake_remove(u->fake, id_of(u), &err) < 0)
			(void)log_warning(0, "%s", err.text);
		break;
	default:
		break;
	}
	rpc_reply(u->call, answer);
	protobuf_c_message_free_unpacked(answer, NULL);
	unary_done(u);
}

static void unary_run(struct unary *u)
{
	const struct unary_context context = { .fake = u->fake,
		.request = u->request,
		.restored = u->has_meta ? &u->meta : NULL,
		.keep = !u->op->changes || u->fault.action != BC__FAKE__FAULT__ACTION__LIE };
	ProtobufCMessage *answer = NULL;
	struct err err = { 0 };

	int r = u->op->run(&context, &answer, &err);
	if (r == 0) {
		unary_finish(u, answer);
		return;
	}
	if (answer)
		protobuf_c_message_free_unpacked(answer, NULL);
	rpc_fail_err(u->call, r, &err);
	unary_done(u);
}

/* --- a snapshot's own words, which lie on a disk --- */

static void meta_read(struct job *job)
{
	struct unary *u = CONTAINER_OF(job, struct unary, job);

	u->result = snapshot_read_meta(u->path, &u->meta, &u->err);
}

static void on_meta(struct job *job)
{
	struct unary *u = CONTAINER_OF(job, struct unary, job);

	u->job_runs = false;
	u->has_meta = u->result == 0;
	if (u->result == 0) {
		unary_run(u);
		return;
	}
	rpc_fail_err(u->call, u->result, &u->err);
	unary_done(u);
}

static void meta_fetch(struct unary *u, const char *path)
{
	u->job = (struct job){ .run = meta_read, .done = on_meta };
	(void)snprintf(u->job.key, sizeof(u->job.key), "%s", id_of(u));
	u->path = strdup(path);
	int r = u->path ? job_submit(u->fake->jobs, &u->job) : -ENOMEM;
	u->job_runs = r == 0;
	if (r < 0) {
		rpc_fail(u->call, rpc_code_from_errno(r), "the runtime is busy; call again");
		unary_done(u);
	}
}

static void unary_start(struct unary *u)
{
	const Bc__V1__EnsureRequest *ensure = (const Bc__V1__EnsureRequest *)u->request;
	bool is_ensure = u->request->descriptor == &bc__v1__ensure_request__descriptor;

	if (is_ensure && ensure->restore_path[0] && !domains_get(u->fake->domains, id_of(u)))
		meta_fetch(u, ensure->restore_path);
	else
		unary_run(u);
}

static int on_start_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct unary *u = userdata;

	(void)source;
	(void)usec;
	u->timer = sd_event_source_disable_unref(u->timer);
	rpc_call_on_cancel(u->call, NULL, NULL);
	unary_start(u);
	return 0;
}

/* --- what the configuration says starts and stops take --- */

static uint64_t delay_usec(const struct unary *u)
{
	const Bc__V1__SetStateRequest *request = (const Bc__V1__SetStateRequest *)u->request;

	if (u->request->descriptor != &bc__v1__set_state_request__descriptor)
		return 0;
	const record *r = domains_get(u->fake->domains, request->id);
	if (!r)
		return 0;
	bool wants_active = request->state != BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
	if (wants_active == record_is_active(r))
		return 0;
	return wants_active ? u->fake->conf.start_usec : u->fake->conf.stop_usec;
}

void unary_serve(
        struct fake *fake, const struct unary_op *op, const ProtobufCMessage *request, void *closure_data)
{
	struct unary *u = calloc(1, sizeof(*u));

	if (!u) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	*u = (struct unary){
		.fake = fake, .op = op, .request = request, .call = rpc_call_ref(rpc_call_of(closure_data))
	};
	fake->n_held++;
	if (uuid_is_valid(id_of(u)))
		rpc_call_set_subject(u->call, id_of(u));
	u->fault = control_judge(fake->control, op->method, id_of(u));
	uint64_t delay = delay_usec(u);
	if (u->fault.action == BC__FAKE__FAULT__ACTION__FAIL)
		fault_fail(u);
	else if (u->fault.action == BC__FAKE__FAULT__ACTION__STALL)
		unary_wait(u, u->fault.stall_usec, on_start_time);
	else if (delay)
		unary_wait(u, delay, on_start_time);
	else
		unary_start(u);
}

bool stream_is_faulted(struct fake *fake, const char *method, const char *id, struct rpc_call *call)
{
	struct fault fault = control_judge(fake->control, method, id);

	switch (fault.action) {
	case BC__FAKE__FAULT__ACTION__FAIL:
	case BC__FAKE__FAULT__ACTION__FAIL_AFTER:
		rpc_fail(call, fault.code, "%s", fault.message);
		return true;
	case BC__FAKE__FAULT__ACTION__STALL:
	case BC__FAKE__FAULT__ACTION__STALL_AFTER:
		/* Until the caller gives up: a stream that says nothing. */
		return true;
	default:
		return false;
	}
}
