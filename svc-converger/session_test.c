#include "svc-converger/session.h"

#include "svc-converger/drain.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/test/control_peer.h"
#include "svc-converger/test/world.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

#define WAIT_PEER(world, peer, id, status)                                                                   \
	WORLD_WAIT((world), strcmp(control_peer_status((peer), (id)), (status)) == 0)

/* A spec with one instance, by session. */
static void send_spec(struct control_peer *peer, uint64_t revision, const char *id, const char *user_data_ref)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__NodeSpec spec = BC__V1__NODE_SPEC__INIT;
	Bc__V1__Instances instances = BC__V1__INSTANCES__INIT;
	Bc__V1__InstanceSpec item = BC__V1__INSTANCE_SPEC__INIT, *pointer = &item;
	Bc__V1__Boot boot = BC__V1__BOOT__INIT;
	Bc__V1__KernelBoot kernel = BC__V1__KERNEL_BOOT__INIT;

	kernel.kernel = (char *)"/boot/k";
	boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	boot.kernel = &kernel;
	item.id = (char *)id;
	item.allocation_id = (char *)"a1";
	item.runtime = (char *)"stub";
	item.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	item.vcpus = 1;
	item.memory_bytes = 64 << 20;
	item.boot = &boot;
	item.user_data_ref = (char *)user_data_ref;
	instances.n_items = 1;
	instances.items = &pointer;
	spec.revision = revision;
	spec.instances = &instances;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_NODE_SPEC;
	message.node_spec = &spec;
	control_peer_send(peer, &message);
}

static void send_console(
        struct control_peer *peer, const char *tunnel, const char *open_id, const char *data, bool close)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__SessionConsoleInput input = BC__V1__SESSION_CONSOLE_INPUT__INIT;
	Bc__V1__ConsoleInput in = BC__V1__CONSOLE_INPUT__INIT;
	Bc__V1__ConsoleOpen open = BC__V1__CONSOLE_OPEN__INIT;

	if (open_id) {
		open.id = (char *)open_id;
		in.input_case = BC__V1__CONSOLE_INPUT__INPUT_OPEN;
		in.open = &open;
	} else {
		in.input_case = BC__V1__CONSOLE_INPUT__INPUT_DATA;
		in.data = (ProtobufCBinaryData){ .data = (uint8_t *)data, .len = data ? strlen(data) : 0 };
	}
	input.tunnel_id = (char *)tunnel;
	input.input = close ? NULL : &in;
	input.close = close;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_CONSOLE;
	message.console = &input;
	control_peer_send(peer, &message);
}

static void send_snapshot(struct control_peer *peer, const char *id, const char *instance_id, const char *url)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__SnapshotCommand command = BC__V1__SNAPSHOT_COMMAND__INIT;

	command.id = (char *)id;
	command.instance_id = (char *)instance_id;
	command.upload_url = (char *)url;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_SNAPSHOT;
	message.snapshot = &command;
	control_peer_send(peer, &message);
}

static void the_node_speaks_first(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 };

	WORLD_WAIT(w, w->runtime->n_watchers == 1);
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	WORLD_WAIT(w, peer.is_synced);
	assert_int_equal(peer.n_hellos, 1);
	assert_string_equal(peer.node_id, "node-1");
	assert_int_equal(peer.hello_revision, 0);
	assert_string_equal(peer.drivers, "runtime:stub ");
	assert_non_null(strstr(peer.features, "instance.placement"));
	/* A spec, its ack, and what comes of it. */
	send_spec(&peer, 5, A, "");
	WORLD_WAIT(w, peer.n_results == 1);
	assert_true(peer.result_accepted);
	assert_int_equal(peer.result_revision, 5);
	WAIT_PEER(w, &peer, A, "RUNNING");
	assert_true(peer.n_events > 0);
	/* A stale one, and a wrong one: refused with the reason, and nothing changes. */
	send_spec(&peer, 5, B, "");
	WORLD_WAIT(w, peer.n_results == 2);
	assert_false(peer.result_accepted);
	assert_non_null(strstr(peer.result_error, "not above"));
	send_spec(&peer, 6, "no-uuid", "");
	WORLD_WAIT(w, peer.n_results == 3);
	assert_false(peer.result_accepted);
	assert_non_null(strstr(peer.result_error, "instances.items[0].id"));
	send_spec(&peer, 6, B, "");
	WAIT_PEER(w, &peer, A, "REMOVED");
	WAIT_PEER(w, &peer, B, "RUNNING");
	assert_int_equal(peer.n_hellos, 1);
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
}

static void a_host_without_a_runtime_promises_nothing(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 };

	world_stop(w);
	stub_runtime_kill(w->runtime);
	world_start(w);
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	WORLD_WAIT(w, peer.n_hellos == 1);
	assert_null(strstr(peer.features, "instance."));
	assert_string_equal(peer.drivers, "");
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
}

static void secrets_come_over_a_session(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 }, second = { 0 };

	world_serve(w);
	APPLY(w, { .id = A, .user_data_ref = "ref-1" });
	WAIT_STATUS(w, A, "PENDING/WaitingForUserData");
	control_peer_dial(&peer, w->channel);
	WORLD_WAIT(w, peer.n_secret_requests == 1);
	assert_string_equal(peer.secret_ref, "ref-1");
	assert_string_equal(peer.secret_allocation, "a1");
	/* The session drops before it answers: the next one is asked again. */
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
	control_peer_dial(&second, w->channel);
	WORLD_WAIT(w, second.n_secret_requests == 1);
	control_peer_send_secret(&second, "nobody", "wrong");
	control_peer_send_secret(&second, second.secret_request, "#cloud-config");
	WAIT_PEER(w, &second, A, "RUNNING");
	assert_string_equal(stub_runtime_domain(w->runtime, A)->user_data, "#cloud-config");
	assert_int_equal(second.n_secret_requests, 1);
	control_peer_hang_up(&second);
	WORLD_WAIT(w, second.is_ended);
}

/* Words of others are cut to what a status has room for; it stays readable wherever that is. */
static void a_refusal_may_have_any_words(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 };
	char words[2048];

	world_serve(w);
	control_peer_dial(&peer, w->channel);
	for (size_t pad = 0; pad < 4; pad++) {
		const char *allocation = (const char *[]){ "a0", "a1", "a2", "a3" }[pad];
		unsigned n_before = peer.n_secret_requests;

		APPLY(w, { .id = A, .allocation = allocation, .user_data_ref = "ref" });
		WORLD_WAIT(w, peer.n_secret_requests > n_before);
		memset(words, 'x', pad);
		words[pad] = '\0';
		while (strlen(words) + strlen("😀") < sizeof(words))
			strcat(words, "😀");
		control_peer_refuse_secret(&peer, peer.secret_request, words);
		WORLD_WAIT(w, strstr(world_words(w, A), "refused"));
		assert_non_null(strstr(world_words(w, A), "😀"));
		/* What was told until here has been read. */
		world_settle(w);
		assert_false(peer.is_ended);
	}
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
}

static void send_events_since(struct control_peer *peer, uint64_t sequence)
{
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__EventsSince since = BC__V1__EVENTS_SINCE__INIT;

	since.after_sequence = sequence;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_EVENTS_SINCE;
	message.events_since = &since;
	control_peer_send(peer, &message);
}

/* What was on its way when the line broke is told again to who says what it has. */
static void events_go_on_after_the_last_that_was_heard(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 };

	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	world_settle(w);
	uint64_t last = events_last(w->converger->events);
	assert_true(last > 2);
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	WORLD_WAIT(w, peer.is_synced);
	assert_int_equal(peer.n_events, 0);
	send_events_since(&peer, last - 2);
	WORLD_WAIT(w, peer.n_events == 2);
	assert_int_equal(peer.event_last, last);
	/* Of what it may have from an earlier process, nothing is known: nothing is left out for it. */
	send_events_since(&peer, UINT64_MAX);
	send_events_since(&peer, 0);
	WORLD_WAIT(w, peer.n_events == 2 + last);
	assert_int_equal(peer.event_last, last);
	converger_event(w->converger, EVENT_INFO, "", "Test", "one more");
	WORLD_WAIT(w, peer.event_last == last + 1);
	assert_int_equal(peer.n_events, 3 + last);
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
}

/* A drop loses nothing and repeats nothing: what is true then is said again. */
static void a_session_resumes(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 }, second = { 0 };

	world_serve(w);
	control_peer_dial(&peer, w->channel);
	send_spec(&peer, 1, A, "");
	WAIT_PEER(w, &peer, A, "RUNNING");
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
	w->revision = 1;
	APPLY(w, { .id = B });
	WAIT_STATUS(w, B, "RUNNING");
	WAIT_STATUS(w, A, "none");
	control_peer_dial(&second, w->channel);
	WORLD_WAIT(w, second.is_synced);
	assert_int_equal(second.hello_revision, 2);
	assert_string_equal(control_peer_status(&second, B), "RUNNING");
	assert_string_equal(control_peer_status(&second, A), "");
	assert_int_equal(w->runtime->n_calls[STUB_SET_STATE], 2);
	control_peer_hang_up(&second);
	WORLD_WAIT(w, second.is_ended);
}

/* Nobody reads, and a storm goes on: nothing piles up, and the newest of each is there in the end. */
static void a_stalled_reader_costs_nothing(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { .is_stalled = true };

	APPLY(w, { .id = A }, { .id = B });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	WORLD_WAIT(w, peer.n_messages == 1);
	for (int i = 0; i < 5000; i++) {
		struct stub_domain *domain = stub_runtime_domain(w->runtime, A);
		uint64_t changes = w->converger->admission.committed_bytes;

		domain->memory_bytes = (64u + (unsigned)i % 2) << 20;
		stub_runtime_tell(w->runtime, domain);
		if (i)
			WORLD_WAIT(w, w->converger->admission.committed_bytes != changes);
	}
	world_settle(w);
	assert_int_equal(peer.n_messages, 1);
	assert_false(peer.is_ended);
	peer.is_stalled = false;
	rpc_request_read(peer.request);
	WORLD_WAIT(w, peer.is_synced);
	world_settle(w);
	/* What fits the stream's windows, a few in queues, and one for all that changed since. */
	assert_true(peer.n_deltas < 2000);
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
}

static void consoles_are_tunnelled(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 };

	w->runtime->features[0] = "console";
	w->runtime->n_features = 1;
	world_restart(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	send_console(&peer, "t1", NULL, "too early", false);
	WORLD_WAIT(w, peer.console_closed);
	assert_non_null(strstr(peer.console_reason, "no such tunnel"));
	peer.console_closed = false;
	send_console(&peer, "t1", A, NULL, false);
	send_console(&peer, "t1", NULL, "hello", false);
	WORLD_WAIT(w, strcmp(peer.console, "console: hello") == 0);
	send_console(&peer, "t2", B, NULL, false);
	WORLD_WAIT(w, peer.console_closed);
	assert_non_null(strstr(peer.console_reason, "no instance"));
	peer.console_closed = false;
	send_console(&peer, "t1", NULL, NULL, true);
	send_console(&peer, "t1", NULL, "after", false);
	WORLD_WAIT(w, peer.console_closed);
	/* Still open when the session goes. */
	send_console(&peer, "t3", A, NULL, false);
	send_console(&peer, "t3", NULL, "x", false);
	WORLD_WAIT(w, strstr(peer.console, "console: x"));
	control_peer_hang_up(&peer);
	WORLD_WAIT(w, peer.is_ended);
	world_settle(w);
}

static void snapshots_are_commanded(void **state)
{
	struct world *w = *state;
	struct control_peer peer = { 0 }, second = { 0 };
	char url[160], path[128];

	w->runtime->features[0] = "snapshot";
	w->runtime->n_features = 1;
	world_restart(w);
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_serve(w);
	control_peer_dial(&peer, w->channel);
	send_snapshot(&peer, "c0", B, "file:///x");
	WORLD_WAIT(w, peer.n_snapshots_done == 1);
	assert_non_null(strstr(peer.snapshot_error, "no instance"));

	(void)snprintf(path, sizeof(path), "%s/out.tar", w->dir);
	(void)snprintf(url, sizeof(url), "file://%s", path);
	send_snapshot(&peer, "c1", A, url);
	WORLD_WAIT(w, peer.n_snapshots_done == 2);
	assert_string_equal(peer.snapshot_error, "");
	assert_int_equal(access(path, R_OK), 0);
	/* The same command again: its result, not another snapshot. */
	send_snapshot(&peer, "c1", A, url);
	WORLD_WAIT(w, peer.n_snapshots_done == 3);
	assert_int_equal(w->runtime->n_calls[STUB_SNAPSHOT], 1);
	/* Its id for another instance is a mistake, and nobody's result. */
	send_snapshot(&peer, "c1", B, url);
	WORLD_WAIT(w, peer.n_snapshots_done == 4);
	assert_non_null(strstr(peer.snapshot_error, "give this one another id"));

	/* The session drops while one is under way; its end is told to the next. */
	w->runtime->hangs[STUB_SNAPSHOT] = true;
	send_snapshot(&peer, "c2", A, url);
	WORLD_WAIT(w, w->runtime->n_held == 1);
	control_peer_hang_up(&peer);
	/* The other side may hear of it later, and until then tells the end to whom it believes to be there. */
	WORLD_WAIT(w, peer.is_ended && rpc_server_live_calls(w->server) == 0);
	stub_runtime_release(w->runtime);
	WORLD_WAIT(w, snapshot_tasks_running(w->converger->snapshot_tasks) == 0);
	control_peer_dial(&second, w->channel);
	WORLD_WAIT(w, second.n_snapshots_done == 1);
	assert_non_null(strstr(second.snapshot_error, "released"));
	/* A stop ends one that is under way. */
	send_snapshot(&second, "c3", A, url);
	WORLD_WAIT(w, w->runtime->n_held == 1);
	APPLY(w, { .id = A, .state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED });
	WAIT_STATUS(w, A, "STOPPED");
	WORLD_WAIT(w, second.n_snapshots_done == 2);
	stub_runtime_release(w->runtime);
	control_peer_hang_up(&second);
	WORLD_WAIT(w, second.is_ended);
}

TEST_SUITE(session_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_node_speaks_first),
		TEST(a_host_without_a_runtime_promises_nothing),
		TEST(secrets_come_over_a_session),
		TEST(a_refusal_may_have_any_words),
		TEST(a_session_resumes),
		TEST(events_go_on_after_the_last_that_was_heard),
		TEST(a_stalled_reader_costs_nothing),
		TEST(consoles_are_tunnelled),
		TEST(snapshots_are_commanded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
