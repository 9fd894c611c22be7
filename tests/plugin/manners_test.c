/* What bc-runtime-plugin makes of manifests that are none, and of plugins that lie, stall, talk nonsense or die. */
#include "tests/contract/contract.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/process.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define RUNNING BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING
#define STOPPED BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED
#define IS(name) BC__V1__DOMAIN__STATE__##name

/* --- the liar --- */

/* Owned by the caller; "" for none. */
static char *file_get(const struct contract *c, const char *name)
{
	char path[512], *text = NULL;

	(void)snprintf(path, sizeof(path), "%s/%s", c->dir, name);
	if (file_read(AT_FDCWD, path, 1 << 20, &text, NULL) < 0)
		text = strdup("");
	assert_non_null(text);
	return text;
}

/* In force from the next call on. */
static void manners(const struct contract *c, const char *json)
{
	contract_put(c, "liar/how.json", json);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

static size_t calls_with(const struct contract *c, const char *what)
{
	CLEANUP_FREE char *calls = file_get(c, "liar/calls");

	return count(calls, what);
}

/* What is not meant to run out is as long as it may be. */
static void liar_prepare(struct contract *c)
{
	contract_configure(c,
	        "[service]\nlog_level=error\n"
	        "[plugin]\nid=liar\nsocket=%s/plugin.sock\nexecutable=%s %s/liar\n"
	        "poll=50ms\ntimeout=10min\nstart_timeout=60s\n",
	        c->dir, BC_LIAR, c->dir);
}

static const struct contract_runtime LIAR = { .program = BC_RUNTIME, .prepare = liar_prepare };

static void domain_is(struct contract *c, const char *id, Bc__V1__Domain__State state, const char *reason,
        const char *words)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	Bc__V1__Domain *domain = contract_call(c, RUNTIME(get), &request, NULL);
	if (domain->state != state || strcmp(domain->reason, reason) != 0 || !strstr(domain->message, words))
		fail_msg("state %d, %s: %s", domain->state, domain->reason, domain->message);
	bc__v1__domain__free_unpacked(domain, NULL);
}

/* Reads the stream until it tells of the domain in that state. */
static void watched(struct stream *watch, const char *id, Bc__V1__Domain__State state)
{
	bool found = false;

	while (!found) {
		Bc__V1__DomainEvent *event = stream_next(watch);

		if (!event)
			fail_msg("the stream ended where state %d was awaited", state);
		found = event->domain && strcmp(event->domain->id, id) == 0 && event->domain->state == state;
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
}

/* A Watch that stands, however long the plugin takes to come back. */
static struct stream *watch_synced(struct contract *c)
{
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();

	for (;;) {
		struct stream *watch = stream_open(c, RUNTIME(watch), &request);
		Bc__V1__DomainEvent *event;
		bool is_synced = false;

		while (!is_synced && (event = stream_next(watch))) {
			is_synced = event->type == BC__V1__DOMAIN_EVENT__TYPE__SYNCED;
			bc__v1__domain_event__free_unpacked(event, NULL);
		}
		if (is_synced)
			return watch;
		stream_close(watch);
		assert_true(clock_monotonic_usec() < until_usec);
		(void)usleep(20000); /* runs out: as the converger's pauses between tries */
	}
}

/* One NIC on a bridge, prepared as tap. */
static void ensure_add_nic(Bc__V1__EnsureRequest *request, const char *tap, Bc__V1__Nic__Policy policy)
{
	Bc__V1__InstanceSpec *spec = request->spec;
	Bc__V1__Nic *nic = message_make(&bc__v1__nic__descriptor);
	Bc__V1__PreparedNic *prepared = message_make(&bc__v1__prepared_nic__descriptor);

	nic->attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	nic->bridge = message_make(&bc__v1__bridge_attachment__descriptor);
	nic->policy = policy;
	text_replace(&prepared->interface, tap);
	spec->nics = calloc(1, sizeof(nic));
	request->nics = calloc(1, sizeof(prepared));
	assert_true(spec->nics && request->nics);
	spec->nics[spec->n_nics++] = nic;
	request->nics[request->n_nics++] = prepared;
}

/* --- interfaces --- */

static void only_prepared_interfaces_may_be_used(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;

	ensure_add_nic(request, "bc0123456789n0", BC__V1__NIC__POLICY__PUBLIC);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	manners(c, "{\"apply\": {\"taps\": [\"bc0123456789n0\", \"eth7\"]}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_FAILED_PRECONDITION,
	        "runtime liar uses interface eth7, which was not prepared");
	/* It was ended, and that is told. */
	assert_int_equal(calls_with(c, ":apply:STOPPED"), 1);
	domain_is(c, id, IS(CRASHED), "TapNotPrepared", "eth7");
	manners(c, "{\"apply\": {\"taps\": [\"bc0123456789n0\"]}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_OK, "");
	domain_is(c, id, IS(RUNNING), "", "");
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void guarded_instances_use_their_taps(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;

	ensure_add_nic(request, "bc0123456789n0", BC__V1__NIC__POLICY__PRIVATE);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_FAILED_PRECONDITION,
	        "runtime liar did not create taps bc0123456789n0: its network rules cannot apply");
	domain_is(c, id, IS(CRASHED), "TapMissing", "cannot apply");
	assert_int_equal(calls_with(c, ":apply:STOPPED"), 1);
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void an_interface_taken_later_ends_it_too(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	struct stream *watch = watch_synced(c);
	manners(c, "{\"list\": {\"taps\": [\"eth7\"]}}");
	watched(watch, id, IS(CRASHED));
	domain_is(c, id, IS(CRASHED), "TapNotPrepared", "eth7");
	stream_close(watch);
	assert_true(contract_remove(c, id));
}

/* --- what it says --- */

static void a_list_that_is_none_is_no_empty_list(void **state)
{
	static const char *const LISTS[] = { "nonsense", "{}",
		"[{\\\"id\\\": \\\"x\\\", \\\"state\\\": \\\"RUNNING\\\"}]",
		"[{\\\"id\\\": \\\"c0de0000-0000-4000-8000-000000000001\\\"}]",
		("[{\\\"id\\\": \\\"c0de0000-0000-4000-8000-000000000001\\\", \\\"state\\\": \\\"RUNNING\\\", "
		 "\\\"surprise\\\": 1}]") };
	struct contract *c = *state;
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	char id[UUID_TEXT_MAX], json[512];

	contract_start_instance(c, 1, id);
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++) {
		struct stream *watch = watch_synced(c);
		Bc__V1__DomainEvent *event;

		(void)snprintf(json, sizeof(json), "{\"list\": {\"result\": \"%s\"}}", LISTS[i]);
		manners(c, json);
		/* Nothing is gone: nobody can tell. */
		while ((event = stream_next(watch))) {
			assert_int_not_equal(event->type, BC__V1__DOMAIN_EVENT__TYPE__GONE);
			bc__v1__domain_event__free_unpacked(event, NULL);
		}
		assert_int_equal(stream_end(watch), GRPC_STATUS_UNAVAILABLE);
		stream_close(watch);
		contract_refused(c, RUNTIME(list), &request, GRPC_STATUS_UNAVAILABLE);
		contract_set_state_is(c, id, STOPPED, GRPC_STATUS_UNAVAILABLE,
		        "the plugin liar answers list with what is none");
		manners(c, "{}");
		stream_close(watch_synced(c));
		domain_is(c, id, IS(RUNNING), "", "");
	}
	assert_true(contract_remove(c, id));
}

static void an_answer_that_is_none_is_an_error(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	manners(c, "{\"apply\": {\"result\": \"[]\"}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_INTERNAL, "plugin liar: apply");
	manners(c,
	        "{\"apply\": {\"result\": \"{\\\"id\\\": \\\"c0de0000-0000-4000-8000-00000000ffff\\\", "
	        "\\\"state\\\": \\\"RUNNING\\\"}\"}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_INTERNAL, "answers for instance");
	manners(c, "{\"apply\": {\"error\": [\"RESOURCE_EXHAUSTED\", \"full\"]}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_RESOURCE_EXHAUSTED, "plugin liar: full");
	manners(c, "{\"remove\": {\"error\": [\"UNAVAILABLE\", \"not now\"]}}");
	Bc__V1__RuntimeRemoveRequest remove = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;
	remove.id = request->spec->id;
	contract_refused(c, RUNTIME(remove), &remove, GRPC_STATUS_UNAVAILABLE);
	manners(c, "{}");
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* --- time --- */

static void set_state_begin(struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state,
        const char *key, struct pending *ret)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;

	request.id = (char *)(uintptr_t)id;
	request.state = state;
	request.idempotency_key = (char *)(uintptr_t)key;
	contract_begin(c, RUNTIME(set_state), &request, contract_timeout_usec(), ret);
}

static grpc_status_code set_state_end(struct pending *pending)
{
	grpc_status_code code = contract_await(pending);

	if (pending->answer)
		protobuf_c_message_free_unpacked(pending->answer, NULL);
	return code;
}

static void a_stalled_plugin_is_given_up(void **state)
{
	struct contract *c = *state;
	char stalled[UUID_TEXT_MAX], other[UUID_TEXT_MAX], json[128];
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	struct pending pending;

	contract_configure(c,
	        "[plugin]\nid=liar\nsocket=%s/plugin.sock\nexecutable=%s %s/liar\n"
	        "poll=50ms\ntimeout=5s\nstart_timeout=60s\n",
	        c->dir, BC_LIAR, c->dir);
	contract_end(c);
	contract_start(c);
	(void)snprintf(stalled, sizeof(stalled), "%s", request->spec->id);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	(void)snprintf(json, sizeof(json), "{\"apply\": {\"hold\": \"%s\"}}", stalled);
	manners(c, json);
	contract_set_state_is(
	        c, stalled, RUNNING, GRPC_STATUS_DEADLINE_EXCEEDED, "plugin liar"); /* runs out */
	/* Nobody else waits, for whom there is time enough. */
	liar_prepare(c);
	contract_end(c);
	contract_start(c);
	set_state_begin(c, stalled, RUNNING, "", &pending);
	contract_start_instance(c, 2, other);
	assert_true(contract_remove(c, other));
	assert_false(pending.done);
	manners(c, "{}");
	assert_int_equal(set_state_end(&pending), GRPC_STATUS_OK);
	assert_true(contract_remove(c, stalled));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* One that somebody else runs, so that its end is not ours to bring about. */
static void a_stalled_plugin_does_not_hold_up_the_end(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX], dir[256], env[256], socket_path[256];
	const char *const argv[] = { BC_LIAR, dir, NULL }, *const envs[] = { env, NULL };
	int lifeline[2], pidfd, status;
	bool is_judged = false;
	pid_t pid;

	contract_configure(c,
	        "[service]\nlog_level=error\n"
	        "[plugin]\nid=liar\nsocket=%s/plugin.sock\npoll=50ms\ntimeout=10min\n",
	        c->dir);
	contract_end(c);
	(void)snprintf(dir, sizeof(dir), "%s/liar", c->dir);
	(void)snprintf(env, sizeof(env), "BC_PLUGIN_SOCKET=%s/plugin.sock", c->dir);
	(void)snprintf(socket_path, sizeof(socket_path), "%s/plugin.sock", c->dir);
	(void)unlink(socket_path);
	assert_int_equal(pipe2(lifeline, O_CLOEXEC), 0);
	const struct process_fd stdin_fd = { .from = lifeline[0], .to = STDIN_FILENO };
	assert_int_equal(
	        process_spawn(
	                &(struct process_options){ .argv = argv, .env = envs, .fds = &stdin_fd, .n_fds = 1 },
	                &pid, &pidfd),
	        0);
	(void)close(lifeline[0]);
	contract_start(c);
	stream_close(watch_synced(c));
	contract_start_instance(c, 1, id);
	struct stream *watch = watch_synced(c);
	manners(c, "{\"list\": {\"taps\": [\"foreign0\"]}, \"apply\": {\"hold\": \"\"}}");
	while (!is_judged) {
		Bc__V1__DomainEvent *event = stream_next(watch);

		assert_non_null(event);
		is_judged = event->domain && strcmp(event->domain->reason, "TapNotPrepared") == 0;
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
	stream_close(watch);
	contract_end(c);
	(void)close(lifeline[1]);
	assert_int_equal(process_wait(pidfd, contract_timeout_usec(), &status), 0);
	(void)close(pidfd);
	liar_prepare(c);
	contract_start(c);
}

static void the_same_call_twice_is_one(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	const char *id = request->spec->id;
	struct pending twins[2], other;
	char key[96];

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	manners(c, "{\"apply\": {\"hold\": \"\"}}");
	(void)snprintf(key, sizeof(key), "instance:%s:apply:RUNNING", id);
	set_state_begin(c, id, RUNNING, key, &twins[0]);
	set_state_begin(c, id, RUNNING, key, &twins[1]);
	/* the last one wishes for something else, and has to wait */
	set_state_begin(c, id, STOPPED, "", &other);
	assert_int_equal(set_state_end(&other), GRPC_STATUS_UNAVAILABLE);
	manners(c, "{}");
	assert_int_equal(set_state_end(&twins[0]), GRPC_STATUS_OK);
	assert_int_equal(set_state_end(&twins[1]), GRPC_STATUS_OK);
	assert_int_equal(calls_with(c, key), 1);
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* Neither is up yet when the other is asked for. */
static void two_starts_at_once_do_not_share_a_volume(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *requests[2];
	struct pending twins[2];

	for (size_t i = 0; i < ARRAY_SIZE(twins); i++) {
		requests[i] = ensure_new(c, (unsigned)i + 1);
		ensure_add_volume(requests[i], c, "volume-1", false);
		bc__v1__domain__free_unpacked(contract_ensure(c, requests[i]), NULL);
	}
	manners(c, "{\"apply\": {\"hold\": \"\"}}");
	for (size_t i = 0; i < ARRAY_SIZE(twins); i++)
		set_state_begin(c, requests[i]->spec->id, RUNNING, "", &twins[i]);
	assert_int_equal(set_state_end(&twins[1]), GRPC_STATUS_FAILED_PRECONDITION);
	manners(c, "{}");
	assert_int_equal(set_state_end(&twins[0]), GRPC_STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(twins); i++) {
		assert_true(contract_remove(c, requests[i]->spec->id));
		bc__v1__ensure_request__free_unpacked(requests[i], NULL);
	}
}

/* Cut off before it was answered: it may come about all the same, and here it does. */
static void a_start_without_an_answer_holds_its_volumes(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *requests[2];
	struct pending cut;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		requests[i] = ensure_new(c, (unsigned)i + 1);
		ensure_add_volume(requests[i], c, "volume-1", false);
		bc__v1__domain__free_unpacked(contract_ensure(c, requests[i]), NULL);
	}
	const char *first = requests[0]->spec->id, *second = requests[1]->spec->id;
	/* No list tells of it before it is up. */
	manners(c, "{\"apply\": {\"hold\": \"\"}, \"list\": {\"hold\": \"\"}}");
	set_state_begin(c, first, RUNNING, "", &cut);
	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();
	while (calls_with(c, ":apply:RUNNING") == 0) {
		assert_true(clock_monotonic_usec() < until_usec);
		(void)contract_state(c, first);
	}
	assert_int_equal(contract_give_up(&cut), GRPC_STATUS_CANCELLED);
	contract_set_state_is(c, second, RUNNING, GRPC_STATUS_FAILED_PRECONDITION, "is open in instance");
	manners(c, "{}");
	struct stream *watch = watch_synced(c);
	if (contract_state(c, first) != IS(RUNNING))
		watched(watch, first, IS(RUNNING));
	stream_close(watch);
	contract_set_state_is(c, second, RUNNING, GRPC_STATUS_FAILED_PRECONDITION, "which writes to it");
	contract_set_state_is(c, first, STOPPED, GRPC_STATUS_OK, "");
	contract_set_state_is(c, second, RUNNING, GRPC_STATUS_OK, "");
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		assert_true(contract_remove(c, requests[i]->spec->id));
		bc__v1__ensure_request__free_unpacked(requests[i], NULL);
	}
}

static void a_writer_is_alone(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *requests[3];
	const char *ids[3];

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		requests[i] = ensure_new(c, (unsigned)i + 1);
		ids[i] = requests[i]->spec->id;
		ensure_add_volume(requests[i], c, "volume-1", i > 0);
		bc__v1__domain__free_unpacked(contract_ensure(c, requests[i]), NULL);
	}
	contract_set_state_is(c, ids[0], RUNNING, GRPC_STATUS_OK, "");
	contract_set_state_is(c, ids[1], RUNNING, GRPC_STATUS_FAILED_PRECONDITION, "which writes to it");
	contract_set_state_is(c, ids[0], STOPPED, GRPC_STATUS_OK, "");
	contract_set_state_is(c, ids[1], RUNNING, GRPC_STATUS_OK, "");
	contract_set_state_is(c, ids[2], RUNNING, GRPC_STATUS_OK, "");
	contract_set_state_is(
	        c, ids[0], RUNNING, GRPC_STATUS_FAILED_PRECONDITION, "this one would write to it");
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		assert_true(contract_remove(c, ids[i]));
		bc__v1__ensure_request__free_unpacked(requests[i], NULL);
	}
}

/* --- secrets --- */

static Bc__V1__EnsureRequest *ensure_with_secret(struct contract *c)
{
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);

	text_replace(&request->spec->user_data_ref, "secret-1");
	request->user_data.data = (uint8_t *)strdup("hush hush");
	request->user_data.len = strlen("hush hush");
	return request;
}

static void user_data_goes_with_the_first_apply_alone(void **state)
{
	static const char BASE64[] = "aHVzaCBodXNo";
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_with_secret(c);
	const char *id = request->spec->id;
	char name[128];

	text_replace(&request->restore_path, "/var/lib/bc/snapshots/a b.tar");
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	(void)snprintf(name, sizeof(name), "plugins/liar/%s.record", id);
	CLEANUP_FREE char *record = file_get(c, name);
	assert_true(record[0] != '\0' && !strstr(record, "hush"));
	/* A start that came to nothing has not taken it. */
	manners(c, "{\"apply\": {\"error\": [\"UNAVAILABLE\", \"not now\"]}}");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_UNAVAILABLE, "not now");
	manners(c, "{}");
	stream_close(watch_synced(c));
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_OK, "");
	assert_int_equal(calls_with(c, BASE64), 2);
	assert_int_equal(calls_with(c, "\"file:///var/lib/bc/snapshots/a b.tar\"]"), 2);
	contract_set_state_is(c, id, STOPPED, GRPC_STATUS_OK, "");
	contract_set_state_is(c, id, RUNNING, GRPC_STATUS_OK, "");
	assert_int_equal(calls_with(c, BASE64), 2);
	assert_int_equal(calls_with(c, "null,null]"), 2);
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void a_definition_whose_secret_was_lost_is_none(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_with_secret(c);

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_kill(c);
	contract_start(c);
	assert_int_equal(contract_state(c, request->spec->id), IS(STATE_UNSPECIFIED));
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_set_state_is(c, request->spec->id, RUNNING, GRPC_STATUS_OK, "");
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* --- death --- */

static void a_plugin_that_dies_is_started_again(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;

	contract_start_instance(c, 1, id);
	struct stream *watch = watch_synced(c);
	CLEANUP_FREE char *pid = file_get(c, "liar/pid");
	assert_int_equal(kill((pid_t)atoi(pid), SIGKILL), 0);
	while (true) {
		Bc__V1__DomainEvent *event = stream_next(watch);

		if (!event)
			break;
		bc__v1__domain_event__free_unpacked(event, NULL);
	}
	assert_int_equal(stream_end(watch), GRPC_STATUS_UNAVAILABLE);
	stream_close(watch);
	stream_close(watch_synced(c));
	CLEANUP_FREE char *next = file_get(c, "liar/pid");
	assert_string_not_equal(pid, next);
	/* Its domains were in its memory: they are gone, and that is what it says. */
	Bc__V1__RuntimeListReply *reply = contract_call(c, RUNTIME(list), &request, NULL);
	assert_int_equal(reply->n_domains, 0);
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
	assert_false(contract_remove(c, id));
}

/* --- manifests --- */

static void manifests_are_checked(void **state)
{
	static const struct {
		const char *text, *words;
	} WRONG[] = {
		{ "socket=/x", "id=''" },
		{ "id=Liar\nsocket=/x", "id='Liar': write the runtime id" },
		{ "id=liar", "socket=: write the path" },
		{ "id=liar\nsocket=x", "socket" },
		{ "id=liar\nsocket=/x\nkind=filter", "runtime" },
		{ "id=liar\nsocket=/x\nexecutable=liar", "write an absolute path" },
		{ "id=liar\nsocket=/x\nexecutable=/nowhere/liar", "/nowhere/liar: No such file" },
		{ "id=liar\nsocket=/x\nexecutable=/etc/passwd", "it is no program" },
		{ "id=liar\nsocket=/x\nexecutable=@/open", "writable by its owner only" },
		{ "id=liar\nsocket=/x\nfeatures=snapshot", "'snapshot' is none of self-admitting" },
		{ "id=liar\nsocket=/x\ntimeout=11min", "timeout" },
	};
	struct contract *c = *state;
	const char *argv[] = { BC_RUNTIME, "--config", c->config, "--print-config", NULL };

	contract_end(c);
	contract_put(c, "open", "#!/bin/sh\n");
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/open", c->dir);
	assert_int_equal(chmod(path, 0777), 0);
	for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++) {
		struct process_output output = { 0 };
		const char *at = strchr(WRONG[i].text, '@');

		contract_configure(c, "[plugin]\n%.*s%s%s\n", at ? (int)(at - WRONG[i].text) : 256,
		        WRONG[i].text, at ? c->dir : "", at ? at + 1 : "");
		assert_int_equal(process_capture(&(struct process_options){ .argv = argv }, 65536,
		                         contract_timeout_usec(), &output),
		        0);
		if (WEXITSTATUS(output.status) != 78 || !strstr(output.text, WRONG[i].words))
			fail_msg("manifest %zu: status %d, %s", i, WEXITSTATUS(output.status), output.text);
		process_output_done(&output);
	}
	liar_prepare(c);
	contract_start(c);
}

TEST_SUITE(manners_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(only_prepared_interfaces_may_be_used, &LIAR),
		CONTRACT_TEST(guarded_instances_use_their_taps, &LIAR),
		CONTRACT_TEST(an_interface_taken_later_ends_it_too, &LIAR),
		CONTRACT_TEST(a_list_that_is_none_is_no_empty_list, &LIAR),
		CONTRACT_TEST(an_answer_that_is_none_is_an_error, &LIAR),
		CONTRACT_TEST(a_stalled_plugin_is_given_up, &LIAR),
		CONTRACT_TEST(a_stalled_plugin_does_not_hold_up_the_end, &LIAR),
		CONTRACT_TEST(the_same_call_twice_is_one, &LIAR),
		CONTRACT_TEST(two_starts_at_once_do_not_share_a_volume, &LIAR),
		CONTRACT_TEST(a_start_without_an_answer_holds_its_volumes, &LIAR),
		CONTRACT_TEST(a_writer_is_alone, &LIAR),
		CONTRACT_TEST(user_data_goes_with_the_first_apply_alone, &LIAR),
		CONTRACT_TEST(a_definition_whose_secret_was_lost_is_none, &LIAR),
		CONTRACT_TEST(a_plugin_that_dies_is_started_again, &LIAR),
		CONTRACT_TEST(manifests_are_checked, &LIAR),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
