/* bc-runtime-libvirt is told to end (SIGTERM) in the middle of what takes long: it ends before systemd loses patience, who
 * waited is told to ask again, every VM runs on, and the next service finds everything as it should be. */
#include "tests/libvirt/service.h"

#include "lib/base/tree.h"
#include "lib/snapshot/tar.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STUCK = 3 }; /* more than there are threads that wait for a QEMU at the start */

/* A stop waits for an hour here, and calls that libvirt does not end are cut off soon. */
static void prepare(struct contract *c)
{
	service_prepare(c);
	contract_configure(c,
	        "[service]\nlog_level=warning\ndrain_timeout=1s\n[libvirt]\nuri=%s\n[instances]\ndir=%s\n"
	        "stop_grace=1h\n",
	        service_root(c)->uri, service_root(c)->instances);
}

static const struct contract_runtime PATIENT = {
	.program = BC_RUNTIME, .prepare = prepare, .adapt = service_adapt, .cleanup = service_cleanup
};

static void runs_as(struct contract *c, const char *id, pid_t pid)
{
	assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__RUNNING);
	assert_int_equal(service_qemu(c, id), pid);
	assert_int_equal(service_ask_qemu(c, id, contract_timeout_usec()).code, GRPC_STATUS_OK);
}

static void a_stop_that_waits_for_its_guest(void **state)
{
	struct contract *c = *state;
	Bc__V1__SetStateRequest stop = BC__V1__SET_STATE_REQUEST__INIT;
	char id[UUID_TEXT_MAX];
	struct pending pending;

	contract_start_instance(c, 1, id);
	pid_t pid = service_qemu(c, id);
	stop.id = id;
	stop.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
	contract_begin(c, RUNTIME(set_state), &stop, UINT64_MAX, &pending);
	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();
	while (contract_state(c, id) != BC__V1__DOMAIN__STATE__STOPPING) {
		assert_false(pending.done);
		assert_true(clock_monotonic_usec() < until_usec);
	}
	contract_end(c);
	assert_int_equal(contract_await(&pending), GRPC_STATUS_UNAVAILABLE);
	assert_non_null(strstr(pending.status.message, "this service ends"));
	contract_start(c);
	runs_as(c, id, pid);
	assert_true(contract_remove(c, id));
}

static void a_console(void **state)
{
	struct contract *c = *state;
	char id[UUID_TEXT_MAX];

	contract_start_instance(c, 1, id);
	pid_t pid = service_qemu(c, id);
	struct stream *stream = contract_console_open(c, id, false);
	contract_console_opened(stream);
	contract_end(c);
	assert_int_equal(stream_end(stream), GRPC_STATUS_UNAVAILABLE);
	stream_close(stream);
	contract_start(c);
	runs_as(c, id, pid);
	assert_true(contract_remove(c, id));
}

/* --- QEMUs that answer nothing --- */

static void stuck_start(struct contract *c, char ids[STUCK][UUID_TEXT_MAX], pid_t pids[STUCK])
{
	for (unsigned i = 0; i < STUCK; i++) {
		contract_start_instance(c, i, ids[i]);
		pids[i] = service_qemu(c, ids[i]);
	}
	for (unsigned i = 0; i < STUCK; i++)
		assert_int_equal(kill(pids[i], SIGSTOP), 0);
}

static void stuck_go_on(struct contract *c, char ids[STUCK][UUID_TEXT_MAX], const pid_t pids[STUCK])
{
	for (unsigned i = 0; i < STUCK; i++)
		assert_int_equal(kill(pids[i], SIGCONT), 0);
	contract_start(c);
	for (unsigned i = 0; i < STUCK; i++) {
		runs_as(c, ids[i], pids[i]);
		assert_true(contract_remove(c, ids[i]));
	}
}

/* Two calls to each: one that is with QEMU, and one that waits behind it. */
static void calls_that_qemu_does_not_answer(void **state)
{
	struct contract *c = *state;
	Bc__V1__BalloonRequest request = BC__V1__BALLOON_REQUEST__INIT;
	char ids[STUCK][UUID_TEXT_MAX];
	struct pending pending[2 * STUCK];
	pid_t pids[STUCK];

	stuck_start(c, ids, pids);
	for (unsigned i = 0; i < ARRAY_SIZE(pending); i++) {
		request.id = ids[i % STUCK];
		contract_begin(c, RUNTIME(get_balloon), &request, UINT64_MAX, &pending[i]);
	}
	assert_true(contract_has(c, "console")); /* after them on the same connection: they have arrived */
	contract_end(c);
	for (unsigned i = 0; i < ARRAY_SIZE(pending); i++)
		assert_int_not_equal(contract_await(&pending[i]), GRPC_STATUS_OK);
	stuck_go_on(c, ids, pids);
}

/* It looks again at what ran before it began, once libvirt is done with that: here that would take half a minute each. */
static void looks_that_qemu_does_not_answer(void **state)
{
	struct contract *c = *state;
	char ids[STUCK][UUID_TEXT_MAX];
	pid_t pids[STUCK];

	stuck_start(c, ids, pids);
	contract_kill(c);
	contract_start(c);
	for (unsigned i = 0; i < STUCK; i++)
		assert_int_equal(contract_state(c, ids[i]), BC__V1__DOMAIN__STATE__RUNNING);
	contract_end(c);
	stuck_go_on(c, ids, pids);
}

/* --- snapshots --- */

struct snapshot_try {
	unsigned n_messages; /* that are read before the end */
	bool with_memory;
	bool stuck; /* its QEMU answers nothing from that moment */
};

static struct rpc_status snapshot_end(struct contract *c, const char *id, const char *path,
        const struct snapshot_try *try, void (*end)(struct contract *c))
{
	Bc__V1__RuntimeSnapshotRequest request = BC__V1__RUNTIME_SNAPSHOT_REQUEST__INIT;
	pid_t pid = service_qemu(c, id);

	request.id = (char *)(uintptr_t)id;
	request.path = (char *)(uintptr_t)path;
	request.with_memory = try->with_memory;
	struct stream *stream = stream_open(c, RUNTIME(snapshot), &request);
	for (unsigned i = 0; i < try->n_messages; i++) {
		Bc__V1__RuntimeSnapshotEvent *event = stream_next(stream);
		if (event)
			bc__v1__runtime_snapshot_event__free_unpacked(event, NULL);
	}
	if (try->stuck)
		assert_int_equal(kill(pid, SIGSTOP), 0);
	if (end)
		end(c);
	(void)stream_end(stream);
	struct rpc_status status = *stream_status(stream);
	stream_close(stream);
	assert_int_equal(kill(pid, SIGCONT), 0);
	return status;
}

/* What the one before left is put right first. */
static void snapshot_whole(struct contract *c, const char *id, const char *path)
{
	static const struct snapshot_try whole = { 0 };
	grpc_status_code code;

	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();

	do {
		assert_true(clock_monotonic_usec() < until_usec);
		code = snapshot_end(c, id, path, &whole, NULL).code;
	} while (code == GRPC_STATUS_UNAVAILABLE);
	assert_int_equal(code, GRPC_STATUS_OK);
	assert_int_equal(unlink(path), 0);
}

/* What is refused leaves nothing. Else the connection broke, and a good answer may have been lost on it. Of a call that
 * does not end it is as after a kill. */
static void snapshot_left(const char *path, const struct snapshot_try *try, const struct rpc_status *status)
{
	struct snapshot_meta meta;

	if (status->code != GRPC_STATUS_OK && !try->stuck)
		assert_int_equal(status->code, GRPC_STATUS_UNAVAILABLE);
	if (strstr(status->message, "this service ends")) {
		assert_int_equal(access(path, F_OK), -1);
		return;
	}
	if (status->code == GRPC_STATUS_OK || access(path, F_OK) == 0) {
		assert_int_equal(snapshot_read_meta(path, &meta, NULL), 0);
		assert_int_equal(unlink(path), 0);
	}
}

static void snapshots_at_each_moment(void **state)
{
	static const struct snapshot_try tries[] = {
		{ .n_messages = 0 },
		{ .n_messages = 1 },
		{ .n_messages = 2 },
		{ .n_messages = 0, .with_memory = true },
		{ .n_messages = 1, .with_memory = true },
		{ .n_messages = 2, .with_memory = true },
		{ .n_messages = 0, .stuck = true },
		{ .n_messages = 1, .stuck = true },
		{ .n_messages = 1, .with_memory = true, .stuck = true },
	};
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	char path[192], image[256], layer[192];
	const char *id = request->spec->id;

	(void)snprintf(image, sizeof(image), "%s/smallest.raw", getenv("BC_GUEST_DIR"));
	(void)snprintf(path, sizeof(path), "%s/x.tar", c->dir);
	(void)snprintf(layer, sizeof(layer), "%s/%s/snapshot.layer", service_root(c)->instances, id);
	ensure_give_disk(request, c);
	text_replace(&request->image_path, image);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	bc__v1__domain__free_unpacked(
	        contract_set_state(c, id, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING), NULL);
	pid_t pid = service_qemu(c, id);
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		struct rpc_status status = snapshot_end(c, id, path, &tries[i], contract_end);

		snapshot_left(path, &tries[i], &status);
		contract_start(c);
		runs_as(c, id, pid);
		snapshot_whole(c, id, path);
		assert_int_equal(access(layer, F_OK), -1);
	}
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

TEST_SUITE(end_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(a_stop_that_waits_for_its_guest, &PATIENT),
		CONTRACT_TEST(a_console, &PATIENT),
		CONTRACT_TEST(calls_that_qemu_does_not_answer, &PATIENT),
		CONTRACT_TEST(looks_that_qemu_does_not_answer, &PATIENT),
		CONTRACT_TEST(snapshots_at_each_moment, &PATIENT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
