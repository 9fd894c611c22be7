#include "svc-converger/control_plane.h"

#include "lib/base/clock.h"
#include "svc-converger/node_report.h"
#include "svc-converger/test/control_peer.h"
#include "svc-converger/test/tls_door.h"
#include "svc-converger/test/world.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char A[] = "00000000-0000-4000-8000-00000000000a";

/* A control plane behind a TLS door, and the node that dials it. */
struct dialling {
	struct world *world;
	Bc__V1__ControlPlane_Service service;
	struct rpc_server *server;
	struct control_peer peer; /* of the session that stands */
	unsigned n_sessions;
	struct tls_door *door;
	struct tls_pem authority, other_authority, certificate, node;
	char ca_path[128], certificate_path[128], key_path[128], endpoint[64];
	struct control_plane *cp;
	uint64_t ping_usec; /* as options */
};

static struct dialling *dialling_of(Bc__V1__ControlPlane_Service *service)
{
	return CONTAINER_OF(service, struct dialling, service);
}

static void on_node_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct dialling *d = userdata;

	if (!message)
		return;
	control_peer_take(&d->peer, (const Bc__V1__NodeMessage *)message);
	rpc_stream_read(call);
}

static void on_session_end(struct rpc_call *call, void *userdata)
{
	struct dialling *d = userdata;

	if (d->peer.call != call)
		return;
	d->peer.call = NULL;
	d->peer.is_ended = true;
}

static void plane__session(Bc__V1__ControlPlane_Service *service, const Bc__V1__NodeMessage *request,
        Bc__V1__ControlMessage_Closure closure, void *closure_data)
{
	struct dialling *d = dialling_of(service);
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)request;
	(void)closure;
	d->n_sessions++;
	d->peer = (struct control_peer){ .call = call };
	rpc_stream_on_message(call, on_node_message, d);
	rpc_call_on_end(call, on_session_end, d);
	rpc_stream_read(call);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void use_node_certificate(struct dialling *d, const struct tls_pem *pem)
{
	write_file(d->certificate_path, pem->certificate);
	write_file(d->key_path, pem->key);
}

static int setup(void **state)
{
	static const Bc__V1__ControlPlane_Service service = BC__V1__CONTROL_PLANE__INIT(plane__);
	struct dialling *d = calloc(1, sizeof(*d));
	char path[128];
	struct rpc_server_options options = { .path = path, .listen_fd = -EBADF };
	void *world;

	assert_non_null(d);
	assert_int_equal(world_setup(&world), 0);
	d->world = world;
	d->service = service;
	(void)snprintf(path, sizeof(path), "%s/plane.sock", d->world->dir);
	(void)snprintf(d->ca_path, sizeof(d->ca_path), "%s/ca.pem", d->world->dir);
	(void)snprintf(d->certificate_path, sizeof(d->certificate_path), "%s/cert.pem", d->world->dir);
	(void)snprintf(d->key_path, sizeof(d->key_path), "%s/key.pem", d->world->dir);
	assert_int_equal(rpc_server_new(d->world->loop, &options, &d->server, NULL), 0);
	assert_int_equal(rpc_server_add(d->server, &d->service.base), 0);
	assert_int_equal(rpc_server_start(d->server, NULL), 0);
	/* An address, not a name: c-ares 1.18 leaks a few bytes for each name it looks up. */
	d->authority = tls_authority("test authority");
	d->other_authority = tls_authority("another authority");
	d->certificate = tls_certificate(&d->authority, "127.0.0.1", false);
	d->node = tls_certificate(&d->authority, "node-1", false);
	write_file(d->ca_path, d->authority.certificate);
	use_node_certificate(d, &d->node);
	d->door = tls_door_new(path, &d->certificate, d->authority.certificate);
	(void)snprintf(d->endpoint, sizeof(d->endpoint), "127.0.0.1:%u", tls_door_port(d->door));
	*state = d;
	return 0;
}

static void dial(struct dialling *d)
{
	struct control_plane_options options = {
		.endpoint = d->endpoint,
		.ca_path = d->ca_path,
		.certificate_path = d->certificate_path,
		.key_path = d->key_path,
		.retry_min_usec = 20 * 1000,
		.retry_max_usec = 100 * 1000,
		.ping_usec = d->ping_usec,
	};

	assert_int_equal(control_plane_new(d->world->converger, &options, &d->cp), 0);
}

/* How it stands with the control plane, as a person is told. */
static void says(struct dialling *d, Bc__V1__DriverStatus__Reachability reachability)
{
	struct driver_reports reports;
	const Bc__V1__DriverStatus *last;

	driver_reports_init(d->world->converger, &reports);
	last = reports.pointers[reports.n - 1];
	assert_string_equal(last->kind, "control-plane");
	assert_string_equal(last->id, d->endpoint);
	assert_int_equal(last->reachability, reachability);
	assert_true((last->reachability == BC__V1__DRIVER_STATUS__REACHABILITY__ERROR) == !!*last->message);
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(userdata, 0);
}

static int teardown(void **state)
{
	struct dialling *d = *state;
	void *world = d->world;

	d->cp = control_plane_free(d->cp);
	tls_door_free(d->door);
	rpc_server_drain(d->server, 0, on_drained, d->world->loop);
	(void)loop_run(d->world->loop);
	rpc_server_free(d->server);
	world_settle(d->world);
	tls_pem_done(&d->authority);
	tls_pem_done(&d->other_authority);
	tls_pem_done(&d->certificate);
	tls_pem_done(&d->node);
	free(d);
	return world_teardown(&world);
}

static void the_node_dials_and_dials_again(void **state)
{
	struct dialling *d = *state;
	struct world *w = d->world;
	Bc__V1__ControlMessage message = BC__V1__CONTROL_MESSAGE__INIT;
	Bc__V1__NodeSpec spec = BC__V1__NODE_SPEC__INIT;

	dial(d);
	says(d, BC__V1__DRIVER_STATUS__REACHABILITY__BUSY);
	WORLD_WAIT(w, d->peer.is_synced);
	assert_string_equal(d->peer.node_id, "node-1");
	assert_int_equal(d->peer.n_hellos, 1);
	spec.revision = 3;
	message.message_case = BC__V1__CONTROL_MESSAGE__MESSAGE_NODE_SPEC;
	message.node_spec = &spec;
	control_peer_send(&d->peer, &message);
	WORLD_WAIT(w, d->peer.n_results == 1);
	assert_true(d->peer.result_accepted);
	says(d, BC__V1__DRIVER_STATUS__REACHABILITY__READY);
	uint64_t event_last = d->peer.event_last;

	/* The line breaks; what happens meanwhile is told by the next session, the rest is not told again. */
	tls_door_cut(d->door);
	WORLD_WAIT(w, d->n_sessions == 2 && d->peer.is_synced);
	assert_int_equal(d->peer.hello_revision, 3);
	w->revision = 3;
	assert_int_equal(world_apply(w, (struct wish[]){ { .id = A }, { 0 } }), 0);
	WORLD_WAIT(w, strcmp(control_peer_status(&d->peer, A), "RUNNING") == 0);
	WORLD_WAIT(w, d->peer.event_last > event_last);
	assert_true(d->peer.n_events <= d->peer.event_last - event_last);
	/* The other side ends the session: the same. */
	control_peer_hang_up(&d->peer);
	WORLD_WAIT(w, d->n_sessions == 3 && d->peer.is_synced);
	assert_string_equal(control_peer_status(&d->peer, A), "RUNNING");
}

/* Nobody says anything: it is asked again and again whether it is there, not only until gRPC has enough of it. */
static void a_silent_one_is_asked_for_ever(void **state)
{
	struct dialling *d = *state;

	/* Nor does the node look at anything meanwhile, of which there could be news. */
	d->world->resync_usec = 3600 * USEC_PER_SEC;
	world_restart(d->world);
	d->ping_usec = 20 * 1000;
	dial(d);
	WORLD_WAIT(d->world, d->peer.is_synced);
	world_settle(d->world);
	unsigned n_messages = d->peer.n_messages, n_pings = tls_door_pings(d->door);
	WORLD_WAIT(d->world, tls_door_pings(d->door) >= n_pings + 5);
	assert_int_equal(d->peer.n_messages, n_messages);
	assert_int_equal(d->n_sessions, 1);
}

/* However often it is tried, and in whatever order the texts come. */
static void check_each_is_told_once(const struct world *w)
{
	const struct events *events = w->converger->events;
	const struct event *event, *other;

	for (uint64_t s = 0; (event = events_next(events, s, "")); s = event->sequence)
		for (uint64_t t = event->sequence; (other = events_next(events, t, "")); t = other->sequence)
			if (strcmp(event->reason, "ControlPlaneLost") == 0 &&
			        strcmp(other->reason, "ControlPlaneLost") == 0)
				assert_string_not_equal(event->message, other->message);
}

static void nobody_there_is_tried_for_ever(void **state)
{
	struct dialling *d = *state;

	(void)snprintf(d->endpoint, sizeof(d->endpoint), "127.0.0.1:1");
	dial(d);
	WORLD_WAIT(d->world, *d->world->converger->dialled.message);
	world_settle(d->world);
	check_each_is_told_once(d->world);
	says(d, BC__V1__DRIVER_STATUS__REACHABILITY__ERROR);
	assert_int_equal(d->n_sessions, 0);
}

/* Refused until the fault is mended, then let in: nothing of a session passes before. */
static void mend(struct dialling *d, const char *what)
{
	WORLD_WAIT(d->world, tls_door_refused(d->door) >= 2 || *d->world->converger->dialled.message);
	if (d->n_sessions || d->world->converger->dialled.is_connected)
		fail_msg("%s was let in", what);
	check_each_is_told_once(d->world);
	tls_door_change(d->door, &d->certificate, d->authority.certificate);
	WORLD_WAIT(d->world, d->n_sessions == 1 && d->peer.is_synced);
}

static void a_bad_name_is_refused(void **state)
{
	struct dialling *d = *state;
	struct tls_pem pem = tls_certificate(&d->authority, "elsewhere.example", false);

	tls_door_change(d->door, &pem, d->authority.certificate);
	dial(d);
	mend(d, "a certificate of another name");
	tls_pem_done(&pem);
}

static void an_expired_certificate_is_refused(void **state)
{
	struct dialling *d = *state;
	struct tls_pem pem = tls_certificate(&d->authority, "127.0.0.1", true);

	tls_door_change(d->door, &pem, d->authority.certificate);
	dial(d);
	mend(d, "an expired certificate");
	tls_pem_done(&pem);
}

static void an_unknown_authority_is_refused(void **state)
{
	struct dialling *d = *state;
	struct tls_pem pem = tls_certificate(&d->other_authority, "127.0.0.1", false);

	tls_door_change(d->door, &pem, d->authority.certificate);
	dial(d);
	mend(d, "a certificate of another authority");
	tls_pem_done(&pem);
}

/* The other side trusts us no more: no session, until the node has a certificate that it trusts. */
static void a_node_that_is_not_trusted_is_refused(void **state)
{
	struct dialling *d = *state;
	struct tls_pem pem = tls_certificate(&d->other_authority, "node-1", false);

	use_node_certificate(d, &pem);
	dial(d);
	WORLD_WAIT(d->world, tls_door_refused(d->door) >= 2);
	assert_int_equal(d->n_sessions, 0);
	assert_false(d->world->converger->dialled.is_connected);
	/* Renewed on disk: the next try has it. */
	use_node_certificate(d, &d->node);
	WORLD_WAIT(d->world, d->n_sessions == 1 && d->peer.is_synced);
	tls_pem_done(&pem);
}

static void a_missing_certificate_is_named(void **state)
{
	struct dialling *d = *state;

	assert_int_equal(unlink(d->key_path), 0);
	dial(d);
	WORLD_WAIT(d->world, strstr(d->world->converger->dialled.message, "key.pem"));
	use_node_certificate(d, &d->node);
	WORLD_WAIT(d->world, d->n_sessions == 1 && d->peer.is_synced);
}

TEST_SUITE(control_plane_test)
{
	/* gRPC takes proxies from here, even for the loopback. */
	(void)unsetenv("http_proxy");
	(void)unsetenv("https_proxy");
	(void)signal(SIGPIPE, SIG_IGN);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_node_dials_and_dials_again),
		TEST(a_silent_one_is_asked_for_ever),
		TEST(nobody_there_is_tried_for_ever),
		TEST(a_bad_name_is_refused),
		TEST(an_expired_certificate_is_refused),
		TEST(an_unknown_authority_is_refused),
		TEST(a_node_that_is_not_trusted_is_refused),
		TEST(a_missing_certificate_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
