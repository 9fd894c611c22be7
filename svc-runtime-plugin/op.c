/* One change of one instance, from the call that asks for it through the plugin and the record to its answer. An instance
 * has one at a time; a call that asks for the same again meanwhile gets the same answer. */
#include "svc-runtime-plugin/ensure_check.h"
#include "svc-runtime-plugin/plugin.h"
#include "svc-runtime-plugin/plugin_json.h"
#include "svc-runtime-plugin/record_file.h"

#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/log/log.h"

#include <stdio.h>
#include <string.h>

enum { WAITERS_MAX = 64 };

enum op_kind { OP_ENSURE, OP_APPLY, OP_REMOVE, OP_HALT, OP_FORGET };

struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct op *op;         /* weak */
	struct rpc_call *call; /* a reference */
};

struct op {
	struct plugin *plugin; /* weak */
	struct guest *guest;   /* weak; NULL: OP_FORGET */
	enum op_kind kind;
	Bc__V1__InstanceSpec__DesiredState state; /* OP_APPLY */
	TAILQ_HEAD(, waiter) waiters;
	size_t n_waiters;
	struct rpc_request *request; /* weak; in flight */
	uint64_t timeout_usec;       /* of its calls to the plugin */
	/* the record, off the loop */
	struct job job;
	char id[UUID_TEXT_MAX];
	Bc__V1__EnsureRequest *record; /* owned; OP_ENSURE */
	struct secret *user_data;      /* owned; OP_ENSURE */
	void *data;                    /* owned; packed */
	size_t n_data;
	int result;
	struct err err;
};

/* --- beginning and end --- */

static void waiter_free(struct waiter *waiter)
{
	TAILQ_REMOVE(&waiter->op->waiters, waiter, link);
	waiter->op->n_waiters--;
	(void)rpc_call_unref(waiter->call);
	free(waiter);
}

static void op_end(struct op *op)
{
	struct plugin *plugin = op->plugin;

	if (op->guest)
		op->guest->op = NULL;
	if (op->record)
		bc__v1__ensure_request__free_unpacked(op->record, NULL);
	secret_free(op->user_data);
	free(op->data);
	free(op);
	plugin->n_ops--;
	plugin_check_stopped(plugin);
}

static void op_fail(struct op *op, grpc_status_code code, const char *message)
{
	while (!TAILQ_EMPTY(&op->waiters)) {
		rpc_fail(TAILQ_FIRST(&op->waiters)->call, code, "%s", message);
		waiter_free(TAILQ_FIRST(&op->waiters));
	}
	/* A definition that came to nothing leaves nothing. */
	if (op->guest && !op->guest->record && !op->guest->seen) {
		struct guest *guest = op->guest;

		op->guest = NULL;
		guest->op = NULL;
		guests_drop(&op->plugin->guests, guest);
	}
	op_end(op);
}

static void op_fail_err(struct op *op, int r, const struct err *err)
{
	op_fail(op, rpc_code_from_errno(r), err_text(err, r));
}

static void op_reply(struct op *op, const ProtobufCMessage *message)
{
	while (!TAILQ_EMPTY(&op->waiters)) {
		rpc_reply(TAILQ_FIRST(&op->waiters)->call, message);
		waiter_free(TAILQ_FIRST(&op->waiters));
	}
}

static void op_reply_domain(struct op *op)
{
	Bc__V1__EnsureReply ensured = BC__V1__ENSURE_REPLY__INIT;
	Bc__V1__Domain *domain = guest_message(op->guest);

	ensured.domain = domain;
	if (!domain) {
		op_fail_err(op, -ENOMEM, NULL);
		return;
	}
	op_reply(op, op->kind == OP_ENSURE ? &ensured.base : &domain->base);
	bc__v1__domain__free_unpacked(domain, NULL);
	op_end(op);
}

/* Nobody waits any more: the plugin is told to give up. What came of it, the next list says. */
static void on_cancel(struct rpc_call *call, void *userdata)
{
	struct waiter *waiter = userdata;
	struct op *op = waiter->op;

	(void)call;
	waiter_free(waiter);
	if (op->n_waiters == 0)
		rpc_cancel(op->request);
}

void ops_give_up(struct plugin *plugin)
{
	const struct guest *guest;

	TAILQ_FOREACH(guest, &plugin->guests.list, link)
	{
		if (guest->op)
			rpc_cancel(guest->op->request);
	}
}

static int op_wait(struct op *op, struct rpc_call *call)
{
	struct waiter *waiter = op->n_waiters < WAITERS_MAX ? calloc(1, sizeof(*waiter)) : NULL;

	if (!waiter)
		return -ENOMEM;
	*waiter = (struct waiter){ .op = op, .call = rpc_call_ref(call) };
	TAILQ_INSERT_TAIL(&op->waiters, waiter, link);
	op->n_waiters++;
	rpc_call_on_cancel(call, on_cancel, waiter);
	return 0;
}

static struct op *op_new(struct plugin *plugin, enum op_kind kind, const char *id)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->plugin = plugin;
	op->kind = kind;
	op->timeout_usec = plugin->conf.timeout_usec;
	TAILQ_INIT(&op->waiters);
	(void)snprintf(op->id, sizeof(op->id), "%s", id);
	plugin->n_ops++;
	return op;
}

/* For a call; NULL when it is answered already. */
static struct op *op_begin(
        struct plugin *plugin, enum op_kind kind, const char *id, struct guest *guest, struct rpc_call *call)
{
	struct op *op = op_new(plugin, kind, id);
	uint64_t left = rpc_call_time_left_usec(call);

	if (!op || op_wait(op, call) < 0) {
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory");
		if (op)
			op_end(op);
		return NULL;
	}
	op->guest = guest;
	guest->op = op;
	if (left < op->timeout_usec)
		op->timeout_usec = left ? left : 1;
	return op;
}

/* True when the call was answered or joined what is under way. */
static bool op_joined(struct guest *guest, enum op_kind kind, Bc__V1__InstanceSpec__DesiredState state,
        struct rpc_call *call)
{
	struct op *op = guest->op;

	if (!op)
		return false;
	if (op->kind == kind && kind != OP_ENSURE && op->state == state && op_wait(op, call) == 0)
		return true;
	rpc_fail(call, GRPC_STATUS_UNAVAILABLE, "instance %s is being changed; call again", guest->id);
	return true;
}

/* --- calls to the plugin --- */

static bool op_may_start(const struct op *op)
{
	return op->kind == OP_APPLY && op->state != BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
}

/* fn gets the op. arguments may be secret. */
static void op_invoke(struct op *op, const char *method, char *arguments, const char *what, rpc_reply_fn fn)
{
	Bc__V1__InvokeRequest request = BC__V1__INVOKE_REQUEST__INIT;
	char key[80];

	(void)snprintf(key, sizeof(key), "instance:%s:%s", op->id, what);
	request.method = (char *)(uintptr_t)method;
	request.arguments = arguments;
	request.idempotency_key = key;
	op->request = rpc_unary(op->plugin->channel, PLUGIN_INVOKE, &request.base, op->timeout_usec, fn, op);
	if (!op->request) {
		op_fail_err(op, -ENOMEM, NULL);
		return;
	}
	op->plugin->n_calls++;
	if (op->plugin->is_stopping) /* begun by an answer that came after ops_give_up() */
		rpc_cancel(op->request);
}

static void op_invoked(struct op *op)
{
	op->request = NULL;
	op->plugin->n_calls--;
	op->guest->answered = ++op->plugin->guests.clock;
}

/* What it did all the same a look will show, one that begins now. */
static void op_doubt(struct op *op)
{
	op->guest->is_doubtful |= op_may_start(op);
	look_now(op->plugin);
}

static void op_fail_status(struct op *op, const struct rpc_status *status)
{
	char message[RPC_MESSAGE_MAX];

	(void)snprintf(message, sizeof(message), "plugin %s: %s", op->plugin->conf.id,
	        *status->message ? status->message : rpc_code_to_string(status->code));
	op_doubt(op);
	op_fail(op, status->code, message);
}

static void op_apply_state(struct op *op, Bc__V1__InstanceSpec__DesiredState state, rpc_reply_fn fn)
{
	struct guest *guest = op->guest;
	Bc__V1__InstanceSpec bare_spec = BC__V1__INSTANCE_SPEC__INIT;
	Bc__V1__EnsureRequest bare = BC__V1__ENSURE_REQUEST__INIT;
	CLEANUP(secret) struct secret *arguments = NULL;
	struct err err = { 0 };
	char what[16];
	int r;

	/* What nobody defined here can still be stopped. */
	bare_spec.id = guest->id;
	bare_spec.desired_state = state;
	bare.spec = &bare_spec;
	r = plugin_apply_arguments(guest->record ? guest->record : &bare, state,
	        guest->seen ? NULL : guest->user_data,
	        guest->seen || !guest->record ? NULL : guest->record->restore_path, &arguments, &err);
	if (r < 0) {
		op_fail_err(op, r, &err);
		return;
	}
	(void)snprintf(what, sizeof(what), "apply:%s", plugin_state_word(state));
	op_invoke(op, "apply", secret_data(arguments), what, fn);
}

/* --- records --- */

static void on_record_run(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	op->result = op->kind == OP_ENSURE
	        ? record_file_write(op->plugin->dir, op->id, op->data, op->n_data, &op->err)
	        : record_file_remove(op->plugin->dir, op->id, &op->err);
}

static int op_submit(struct op *op, void (*done)(struct job *job))
{
	op->job = (struct job){ .run = on_record_run, .done = done };
	(void)snprintf(op->job.key, sizeof(op->job.key), "%s", op->id);
	return job_submit(op->plugin->jobs, &op->job);
}

static void on_forgotten(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);

	if (op->result < 0)
		(void)log_warning(0, "%s", op->err.text);
	op_end(op);
}

void op_forget(struct plugin *plugin, const char *id)
{
	struct op *op = op_new(plugin, OP_FORGET, id);

	/* One that stays is read at the next start, and forgotten then. */
	if (op && op_submit(op, on_forgotten) < 0)
		op_end(op);
}

/* --- Ensure --- */

static void on_defined(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);
	struct guest *guest = op->guest;
	int r = op->result < 0 ? op->result : guest_define(guest, TAKE_PTR(op->record));

	if (r < 0) {
		op_fail_err(op, r, &op->err);
		return;
	}
	if (!guest->seen) {
		secret_free(guest->user_data);
		guest->user_data = TAKE_PTR(op->user_data);
	}
	guest->is_loaded = false;
	guest->verdict[0] = 0;
	guest->answered = ++op->plugin->guests.clock;
	guest_touch(&op->plugin->guests, guest);
	op_reply_domain(op);
}

/* A copy to keep, without what is secret. */
static int op_take_record(struct op *op, const Bc__V1__EnsureRequest *request)
{
	Bc__V1__EnsureRequest plain = *request;
	int r = request->user_data.len
	        ? secret_new_from(request->user_data.data, request->user_data.len, &op->user_data)
	        : 0;

	if (r < 0)
		return r;
	plain.user_data = (ProtobufCBinaryData){ 0 };
	op->n_data = bc__v1__ensure_request__get_packed_size(&plain);
	op->data = malloc(op->n_data + 1);
	if (!op->data)
		return -ENOMEM;
	(void)bc__v1__ensure_request__pack(&plain, op->data);
	op->record = bc__v1__ensure_request__unpack(NULL, op->n_data, op->data);
	return op->record ? 0 : -ENOMEM;
}

static void dry_run(struct rpc_call *call, const Bc__V1__EnsureRequest *request)
{
	Bc__V1__EnsureReply reply = BC__V1__ENSURE_REPLY__INIT;
	CLEANUP_FREE char *text = NULL;
	int r = plugin_instance_text(request, &text);

	if (r < 0) {
		rpc_fail_err(call, r, NULL);
		return;
	}
	reply.definition = text;
	rpc_reply(call, &reply.base);
}

void op_ensure(struct plugin *plugin, struct rpc_call *call, const Bc__V1__EnsureRequest *request)
{
	const char *id = request->spec ? request->spec->id : "";
	struct guest *guest = guests_find(&plugin->guests, id);
	struct err err = { 0 };
	struct op *op;
	int r = ensure_check(request, guest ? guest->record : NULL, &err);

	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (request->dry_run) {
		dry_run(call, request);
		return;
	}
	if (guest && op_joined(guest, OP_ENSURE, 0, call))
		return;
	if (!guest)
		guest = guests_add(&plugin->guests, id);
	if (!guest) {
		rpc_fail_err(call, -ENOMEM, NULL);
		return;
	}
	op = op_begin(plugin, OP_ENSURE, guest->id, guest, call);
	if (!op) {
		if (!guest->record && !guest->seen)
			guests_drop(&plugin->guests, guest);
		return;
	}
	r = op_take_record(op, request);
	if (r == 0)
		r = op_submit(op, on_defined);
	if (r < 0)
		op_fail_err(op, r, NULL);
}

/* --- SetState --- */

static void on_halted(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct op *op = userdata;
	const Bc__V1__InvokeReply *answer = (const Bc__V1__InvokeReply *)reply;
	Bc__V1__PluginDomain *seen = NULL;
	struct err err = { 0 };

	op_invoked(op);
	if (status->code == GRPC_STATUS_OK && plugin_read_domain(answer->result, &seen, &err) == 0 &&
	        strcmp(seen->id, op->guest->id) == 0) {
		(void)guest_see(op->guest, TAKE_PTR(seen));
		guest_touch(&op->plugin->guests, op->guest);
	}
	if (seen)
		bc__v1__plugin_domain__free_unpacked(seen, NULL);
	if (guest_is_up(op->guest))
		(void)log_err(0, "instance %s breaks the rules and could not be stopped: %s", op->id,
		        *status->message ? status->message : err_text(&err, -EIO));
	op_fail(op, GRPC_STATUS_FAILED_PRECONDITION, op->guest->verdict);
}

void op_halt(struct plugin *plugin, struct guest *guest)
{
	struct op *op = op_new(plugin, OP_HALT, guest->id);

	if (!op)
		return; /* the next look sees it again */
	op->guest = guest;
	guest->op = op;
	op_apply_state(op, BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED, on_halted);
}

/* True when it keeps to its interfaces; else it is ended. */
static bool op_judge(struct op *op)
{
	struct guest *guest = op->guest;
	struct err err = { 0 };

	if (!guest_is_up(guest) ||
	        tap_check(op->plugin->conf.id, guest->record, guest->seen, op->plugin->tap_use,
	                &guest->verdict_reason, &err) == 0)
		return true;
	(void)snprintf(guest->verdict, sizeof(guest->verdict), "%s", err.text);
	guest_touch(&op->plugin->guests, guest);
	op->timeout_usec = op->plugin->conf.timeout_usec;
	op_apply_state(op, BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED, on_halted);
	return false;
}

static void on_applied(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct op *op = userdata;
	const Bc__V1__InvokeReply *answer = (const Bc__V1__InvokeReply *)reply;
	Bc__V1__PluginDomain *seen = NULL;
	struct err err = { 0 };
	int r;

	op_invoked(op);
	if (status->code != GRPC_STATUS_OK) {
		op_fail_status(op, status);
		return;
	}
	r = plugin_read_domain(answer->result, &seen, &err);
	if (r == 0 && strcmp(seen->id, op->guest->id) != 0) {
		r = err_set(&err, -EBADMSG, "it answers for instance %s", seen->id);
		bc__v1__plugin_domain__free_unpacked(seen, NULL);
	}
	if (r < 0) {
		err_wrap(&err, "plugin %s: apply", op->plugin->conf.id);
		op_doubt(op);
		op_fail(op, GRPC_STATUS_INTERNAL, err_text(&err, r));
		return;
	}
	op->guest->is_doubtful = false;
	if (guest_see(op->guest, seen))
		guest_touch(&op->plugin->guests, op->guest);
	if (op_judge(op))
		op_reply_domain(op);
}

/* A VMM may have its volumes open, or is being asked to open them. */
static bool guest_has_volumes(const struct guest *guest)
{
	return guest->record &&
	        (guest_is_up(guest) || guest->is_doubtful || (guest->op && op_may_start(guest->op)));
}

/* A writer is alone. */
static int volume_check(const Bc__V1__VolumePath *volume, const struct guest *other, struct err *err)
{
	for (size_t i = 0; i < other->record->n_volumes; i++) {
		const Bc__V1__VolumePath *held = other->record->volumes[i];

		if (strcmp(volume->volume_id, held->volume_id) == 0 &&
		        (!volume->read_only || !held->read_only))
			return err_set(err, -EBUSY, "volume %s is open in instance %s, %s", volume->volume_id,
			        other->id,
			        held->read_only ? "and this one would write to it" : "which writes to it");
	}
	return 0;
}

static int volumes_check(const struct plugin *plugin, const struct guest *guest, struct err *err)
{
	const struct guest *other;

	TAILQ_FOREACH(other, &plugin->guests.list, link)
	{
		if (other == guest || other->is_gone || !guest_has_volumes(other))
			continue;
		for (size_t i = 0; i < guest->record->n_volumes; i++) {
			int r = volume_check(guest->record->volumes[i], other, err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int apply_check(const struct plugin *plugin, const Bc__V1__SetStateRequest *request,
        const struct guest *guest, struct err *err)
{
	const char *word = plugin_state_word(request->state);
	char what[16];
	int r = uuid_check("id", request->id, err);

	if (r == 0 && !word)
		r = err_set(err, -EINVAL, "state: write RUNNING, STOPPED or PAUSED");
	if (r < 0)
		return r;
	(void)snprintf(what, sizeof(what), "apply:%s", word);
	r = key_check(request->id, request->idempotency_key, what, err);
	if (r < 0 || request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED)
		return r;
	if (guest && !guest->record)
		return err_set(
		        err, -EBUSY, "instance %s was never defined here; call Ensure first", guest->id);
	return guest && !guest_is_up(guest) ? volumes_check(plugin, guest, err) : 0;
}

void op_apply(struct plugin *plugin, struct rpc_call *call, const Bc__V1__SetStateRequest *request)
{
	struct guest *guest = guests_find(&plugin->guests, request->id);
	struct err err = { 0 };
	struct op *op;
	int r = apply_check(plugin, request, guest, &err);

	if (r == 0 && !guest)
		r = err_set(&err, -ENOENT, "there is no domain %s", QUOTED(request->id));
	if (r < 0 || !guest) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (op_joined(guest, OP_APPLY, request->state, call))
		return;
	op = op_begin(plugin, OP_APPLY, guest->id, guest, call);
	if (!op)
		return;
	op->state = request->state;
	if (*guest->verdict) {
		guest->verdict[0] = 0;
		guest_touch(&plugin->guests, guest);
	}
	/* What the plugin never heard of is down. */
	if (request->state == BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED && !guest->seen)
		op_reply_domain(op);
	else
		op_apply_state(op, request->state, on_applied);
}

/* --- Remove --- */

static void on_record_removed(struct job *job)
{
	struct op *op = CONTAINER_OF(job, struct op, job);
	Bc__V1__RuntimeRemoveReply reply = BC__V1__RUNTIME_REMOVE_REPLY__INIT;
	struct guest *guest = op->guest;

	if (op->result < 0) {
		op_fail_err(op, op->result, &op->err);
		return;
	}
	reply.existed = true;
	op_reply(op, &reply.base);
	op->guest = NULL;
	guest->op = NULL;
	guests_drop(&op->plugin->guests, guest);
	op_end(op);
}

static void on_removed(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct op *op = userdata;
	int r;

	(void)reply;
	op_invoked(op);
	if (status->code != GRPC_STATUS_OK && status->code != GRPC_STATUS_NOT_FOUND) {
		op_fail_status(op, status);
		return;
	}
	r = op_submit(op, on_record_removed);
	if (r < 0)
		op_fail_err(op, r, NULL);
}

void op_remove(struct plugin *plugin, struct rpc_call *call, const Bc__V1__RuntimeRemoveRequest *request)
{
	Bc__V1__RuntimeRemoveReply reply = BC__V1__RUNTIME_REMOVE_REPLY__INIT;
	struct guest *guest = guests_find(&plugin->guests, request->id);
	char arguments[UUID_TEXT_MAX + 8];
	struct err err = { 0 };
	struct op *op;
	int r = uuid_check("id", request->id, &err);

	if (r == 0)
		r = key_check(request->id, request->idempotency_key, "remove", &err);
	if (r < 0) {
		rpc_fail_err(call, r, &err);
		return;
	}
	if (!guest) {
		rpc_reply(call, &reply.base);
		return;
	}
	if (op_joined(guest, OP_REMOVE, 0, call))
		return;
	op = op_begin(plugin, OP_REMOVE, guest->id, guest, call);
	if (!op)
		return;
	(void)snprintf(arguments, sizeof(arguments), "[\"%s\"]", guest->id);
	op_invoke(op, "remove", arguments, "remove", on_removed);
}
