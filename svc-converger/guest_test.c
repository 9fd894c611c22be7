/* What the converger does for guests that are up, and what it says of them: grown volumes, new identities, published
 * ports, telemetry, progress. */
#include "lib/base/sha256.h"
#include "lib/rpc/client.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/secrets.h"
#include "svc-converger/snapshot_task.h"
#include "svc-converger/test/stub_intelligence.h"
#include "svc-converger/test/world.h"
#include "svc-converger/transfer.h"
#include "svc-converger/transfer/https_server_test.h"

#include "bc/v1/converger.pb-c.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static const char A[] = "00000000-0000-4000-8000-00000000000a";
static const char B[] = "00000000-0000-4000-8000-00000000000b";

static void runtime_with(struct world *w, const char *feature)
{
	w->runtime->features[w->runtime->n_features++] = feature;
	world_restart(w); /* which asks what it can do */
}

static void digest_of(const void *data, size_t n, char digest[static SHA256_DIGEST_MAX])
{
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_MAX];

	assert_int_equal(sha256(data, n, sum), 0);
	sha256_to_hex(sum, hex);
	(void)snprintf(digest, SHA256_DIGEST_MAX, "sha256:%s", hex);
}

/* --- volumes --- */

static uint64_t guest_knows(struct world *w, const char *id)
{
	return stub_runtime_domain(w->runtime, id)->volume_bytes[0];
}

static void a_guest_hears_that_its_volume_grew(void **state)
{
	struct world *w = *state;

	runtime_with(w, "grow-volume");
	world_volume(w, "data", 1);
	APPLY(w, { .id = A, .volume = "data" });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(guest_knows(w, A), MIB);
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 0);
	/* The first try fails; the guest runs on. */
	w->runtime->fail[STUB_GROW_VOLUME] = 1;
	world_volume(w, "data", 3);
	APPLY(w, { .id = A, .volume = "data" });
	WORLD_WAIT(w, guest_knows(w, A) == 3 * MIB);
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 2);
	assert_string_equal(w->runtime->log, "ensure 000a;run 000a;grow 000a;grow 000a;");
	/* It is not told what it knows, after a restart neither. */
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 2);
	/* One that is down learns it when it starts. */
	APPLY(w, { .id = A, .volume = "data", .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	world_volume(w, "data", 4);
	APPLY(w, { .id = A, .volume = "data" });
	WAIT_STATUS(w, A, "RUNNING");
	assert_int_equal(guest_knows(w, A), 4 * MIB);
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 2);
}

/* A volume that the spec has given it since comes with the next start; those it has grow on. */
static void only_volumes_it_has_are_grown(void **state)
{
	struct world *w = *state;

	runtime_with(w, "grow-volume");
	world_volume(w, "data", 1);
	APPLY(w, { .id = A, .volume = "data" });
	WAIT_STATUS(w, A, "RUNNING");
	world_volume(w, "other", 5);
	APPLY(w, { .id = A, .volume = "other" });
	WAIT_STATUS(w, A, "RUNNING/RestartNeeded");
	world_settle(w);
	assert_true(world_is(w, A, "RUNNING/RestartNeeded"));
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 0);
}

static void a_runtime_that_cannot_grow_is_not_asked(void **state)
{
	struct world *w = *state;
	struct volume_info info;

	world_volume(w, "data", 1);
	APPLY(w, { .id = A, .volume = "data" });
	WAIT_STATUS(w, A, "RUNNING");
	world_volume(w, "data", 2);
	APPLY(w, { .id = A, .volume = "data" });
	WORLD_WAIT(
	        w, volume_store_get(w->converger->volumes, "data", &info) == 0 && info.size_bytes == 2 * MIB);
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_GROW_VOLUME], 0);
	assert_true(world_is(w, A, "RUNNING"));
}

/* --- identities --- */

static bool on_secret_wanted(const struct secret_request *request, void *userdata)
{
	strcpy(userdata, request->request_id);
	return true;
}

static bool is_said_to_be(struct world *w, const char *id, const char *ref)
{
	struct instance_report report;
	bool is_said;

	instance_report_init(w->converger, converger_instance(w->converger, id), &report);
	is_said = strcmp(report.status.identity_rebound_ref, ref) == 0;
	instance_report_done(&report);
	return is_said;
}

static void a_restored_guest_takes_on_its_identity(void **state)
{
	static const char tar[] = "what a runtime wrote";
	struct world *w = *state;
	char path[160], url[192], digest[SHA256_DIGEST_MAX], request[SECRET_REQUEST_MAX] = "";

	(void)snprintf(path, sizeof(path), "%s/snapshot.tar", w->dir);
	(void)snprintf(url, sizeof(url), "file://%s", path);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	(void)fputs(tar, f);
	(void)fclose(f);
	digest_of(tar, strlen(tar), digest);
	struct wish wishes[] = {
		{ .id = A, .restore_digest = digest, .restore_url = url, .rebind_ref = "who" }, { 0 }
	};

	runtime_with(w, "rebind");
	assert_int_equal(world_apply(w, wishes), 0);
	WAIT_STATUS(w, A, "RUNNING/WaitingForIdentity"); /* it runs meanwhile */
	assert_int_equal(w->runtime->n_calls[STUB_REBIND], 0);
	/* The first try fails, and the payload is asked for again. */
	w->runtime->fail[STUB_REBIND] = 1;
	world_ask(w, on_secret_wanted, request);
	for (unsigned n = 1; n <= 2; n++) {
		WORLD_WAIT(w, request[0]);
		assert_int_equal(secrets_answer(w->converger->secrets, request, "I am", 4, ""), SECRET_TAKEN);
		request[0] = 0;
		WORLD_WAIT(w, w->runtime->n_calls[STUB_REBIND] == n);
	}
	WAIT_STATUS(w, A, "RUNNING");
	assert_string_equal(stub_runtime_domain(w->runtime, A)->rebind_payload, "I am");
	WORLD_WAIT(w, is_said_to_be(w, A, "who")); /* its runtime's word, which comes by the stream */
	/* Once is enough. */
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	assert_int_equal(w->runtime->n_calls[STUB_REBIND], 2);
}

/* --- ports --- */

/* "HOST->GUEST@NIC" of the one published port, or "". */
static const char *published(struct world *w, const char *id, char buf[static 64])
{
	struct instance_report report;

	buf[0] = 0;
	instance_report_init(w->converger, converger_instance(w->converger, id), &report);
	assert_true(report.status.n_ports <= 1);
	if (report.status.n_ports)
		(void)snprintf(buf, 64, "%u->%u@%u", report.status.ports[0]->mapping->host_port,
		        report.status.ports[0]->mapping->guest_port, report.status.ports[0]->nic_index);
	instance_report_done(&report);
	return buf;
}

static void ports_are_said_to_be_published_once_they_are(void **state)
{
	struct world *w = *state;
	char buf[64];

	APPLY(w, { .id = A, .n_bridge_nics = 1, .host_port = 2222 },
	        { .id = B, .n_bridge_nics = 1, .has_user_nic = true, .host_port = 2223 });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	assert_string_equal(published(w, A, buf), "2222->22@0"); /* by netd */
	assert_string_equal(published(w, B, buf), "2223->22@1"); /* by the VMM: the user-mode NIC takes it */
	assert_int_equal(w->netd->nics[0].n_ports + w->netd->nics[1].n_ports, 1);
	world_restart(w);
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	WORLD_WAIT(w, strcmp(published(w, A, buf), "2222->22@0") == 0); /* as netd lists it */
	assert_string_equal(published(w, B, buf), "2223->22@1");
	/* One that is down publishes nothing, although it is wished. */
	APPLY(w, { .id = A, .n_bridge_nics = 1, .host_port = 2222, .state = STATE(STOPPED) },
	        { .id = B,
	                .n_bridge_nics = 1,
	                .has_user_nic = true,
	                .host_port = 2223,
	                .state = STATE(STOPPED) });
	WAIT_STATUS(w, A, "STOPPED");
	WAIT_STATUS(w, B, "STOPPED");
	WORLD_WAIT(w, w->netd->n_nics == 0);
	world_settle(w);
	assert_string_equal(published(w, A, buf), "");
	assert_string_equal(published(w, B, buf), "");
}

/* At once, not when everything is looked at anew. */
static void a_port_is_gone_with_what_published_it(void **state)
{
	struct world *w = *state;
	char buf[64];

	w->resync_usec = UINT64_C(3600000000);
	world_restart(w);
	APPLY(w, { .id = A, .n_bridge_nics = 2, .host_port = 2222 },
	        { .id = B, .n_bridge_nics = 1, .host_port = 2223 });
	WAIT_STATUS(w, A, "RUNNING");
	WAIT_STATUS(w, B, "RUNNING");
	stub_netd_lose(w->netd, A, 0);
	WAIT_STATUS(w, A, "RUNNING/InterfaceLost");
	assert_string_equal(published(w, A, buf), "");
	/* The same policy with other addresses may leave a port nowhere to lead to. */
	w->netd->drops_ports = true;
	APPLY(w, { .id = A, .n_bridge_nics = 2, .host_port = 2222 },
	        { .id = B, .n_bridge_nics = 1, .host_port = 2223, .policy = BC__V1__NIC__POLICY__NONE });
	WORLD_WAIT(w, w->netd->n_policies == 1);
	world_settle(w);
	assert_string_equal(published(w, B, buf), "");
}

/* --- telemetry --- */

static void intelligence_knows_every_vm_of_ours(void **state)
{
	struct world *w = *state;

	stub_runtime_add(w->runtime, "foreign", "", false, DOMAIN(RUNNING))->vmm_pid = 99;
	stub_runtime_tell(w->runtime, stub_runtime_domain(w->runtime, "foreign"));
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING"); /* nobody waits for it */
	struct stub_intelligence *intelligence = world_intelligence(w);
	WORLD_WAIT(w, stub_intelligence_vm(intelligence, A));
	APPLY(w, { .id = A }, { .id = B });
	WORLD_WAIT(w, stub_intelligence_vm(intelligence, B));
	assert_int_equal(
	        stub_intelligence_vm(intelligence, B)->pid, stub_runtime_domain(w->runtime, B)->vmm_pid);
	assert_int_equal(intelligence->n_vms, 2);
	/* A VM that was started again is another process. */
	stub_runtime_change(w->runtime, stub_runtime_domain(w->runtime, B), DOMAIN(STOPPED));
	WORLD_WAIT(w,
	        stub_runtime_domain(w->runtime, B)->vmm_pid && stub_intelligence_vm(intelligence, B) &&
	                stub_intelligence_vm(intelligence, B)->pid ==
	                        stub_runtime_domain(w->runtime, B)->vmm_pid);
	assert_int_equal(stub_intelligence_vm(intelligence, B)->pid, 3);
	/* It dies, and what ends meanwhile it never hears of again. */
	stub_intelligence_kill(intelligence);
	APPLY(w, { .id = B });
	WAIT_STATUS(w, A, "none");
	stub_intelligence_revive(intelligence);
	WORLD_WAIT(w, stub_intelligence_vm(intelligence, B));
	assert_int_equal(intelligence->n_vms, 1);
	assert_int_equal(world_apply(w, (struct wish[]){ { 0 } }), 0);
	WORLD_WAIT(w, intelligence->n_vms == 0);
}

/* --- progress --- */

struct watched {
	const char *what;
	uint64_t done_bytes, total_bytes; /* of what A is made from, as last told */
};

static void on_delta(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__StatusDelta *delta = (const Bc__V1__StatusDelta *)message;
	struct watched *watched = userdata;

	rpc_request_read(stream);
	for (size_t i = 0; i < delta->n_instances; i++) {
		const Bc__V1__Progress *progress = delta->instances[i]->progress;

		if (strcmp(delta->instances[i]->id, A) != 0 || !progress)
			continue;
		assert_string_equal(progress->what, watched->what);
		watched->done_bytes = progress->done_bytes;
		watched->total_bytes = progress->total_bytes;
	}
}

static void on_watch_end(const struct rpc_status *status, void *userdata)
{
	(void)status;
	(void)userdata;
}

static void watch_come_in(struct world *w, const char *what, bool is_restore)
{
	enum { SIZE = 1 << 20 };
	static const struct rpc_stream_handlers handlers = { .on_message = on_delta, .on_end = on_watch_end };
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;
	struct watched watched = { .what = what };
	uint8_t *image = calloc(1, SIZE);
	char ca[160], url[256], digest[SHA256_DIGEST_MAX];
	struct transfer_config transfer = { .ca_path = ca };

	(void)snprintf(ca, sizeof(ca), "%s/ca.pem", w->dir);
	struct https_server *server = https_server_new(CERTIFICATE_GOOD, ca);
	https_server_serve(server, "image", image, SIZE);
	https_server_set_faults(server, &(struct https_faults){ .hold = true, .cut_bytes = SIZE / 2 });
	(void)snprintf(url, sizeof(url), "%s", https_server_url(server, "image"));
	digest_of(image, SIZE, digest);
	w->transfer = &transfer;
	world_restart(w);
	world_serve(w);
	struct rpc_request *watch = rpc_stream(w->channel,
	        RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, watch_status),
	        &request.base, UINT64_MAX, &handlers, &watched);
	rpc_request_read(watch);
	if (is_restore)
		APPLY(w, { .id = A, .restore_digest = digest, .restore_url = url });
	else
		APPLY(w, { .id = A, .image_digest = digest, .image_url = url });
	WAIT_STATUS(w, A, is_restore ? "PENDING/FetchingSnapshot" : "PENDING/FetchingImage");
	WORLD_WAIT(w, watched.done_bytes > 0 && watched.done_bytes <= SIZE / 2);
	assert_int_equal(watched.total_bytes, SIZE);
	https_server_set_faults(server, &(struct https_faults){ 0 });
	WAIT_STATUS(w, A, "RUNNING");
	world_stop(w);
	(void)https_server_free(server);
	free(image);
}

static void a_watcher_sees_an_image_come_in(void **state)
{
	watch_come_in(*state, "fetching image", false);
}

static void a_watcher_sees_a_snapshot_come_in(void **state)
{
	watch_come_in(*state, "fetching snapshot", true);
}

/* The server is away: who waits is told why, and when it is tried again. */
static void a_snapshot_that_is_delayed_says_so(void **state)
{
	struct world *w = *state;
	Bc__V1__SnapshotCommand command = BC__V1__SNAPSHOT_COMMAND__INIT;
	char ca[160], url[256];
	struct transfer_config transfer = { .ca_path = ca };
	struct rpc_status status = { 0 };

	(void)snprintf(ca, sizeof(ca), "%s/ca.pem", w->dir);
	struct https_server *server = https_server_new(CERTIFICATE_GOOD, ca);
	https_server_set_faults(server, &(struct https_faults){ .refusals = 1000, .status = 503 });
	(void)snprintf(url, sizeof(url), "%s", https_server_url(server, "snapshot"));
	w->transfer = &transfer;
	runtime_with(w, "snapshot");
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
	world_settle(w);
	command.id = (char *)"nightly";
	command.instance_id = (char *)(uintptr_t)A;
	command.upload_url = url;
	if (snapshot_tasks_begin(w->converger->snapshot_tasks, &command, &status) < 0)
		fail_msg("%s", status.message);
	WORLD_WAIT(w, world_said(w, "SnapshotDelayed"));
	assert_int_equal(snapshot_tasks_running(w->converger->snapshot_tasks), 1);
	world_stop(w);
	(void)https_server_free(server);
}

static void an_image_that_is_something_else_is_a_final_failure(void **state)
{
	struct world *w = *state;
	char image[4096] = "QFI\xfb"; /* stated to be raw */
	char path[160], url[192], digest[SHA256_DIGEST_MAX];

	(void)snprintf(path, sizeof(path), "%s/image", w->dir);
	(void)snprintf(url, sizeof(url), "file://%s", path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(image, 1, sizeof(image), file), sizeof(image));
	assert_int_equal(fclose(file), 0);
	digest_of((uint8_t *)image, sizeof(image), digest);
	APPLY(w, { .id = A, .image_digest = digest, .image_url = url });
	WAIT_STATUS(w, A, "FAILED/ImageRefused");
	assert_non_null(strstr(world_words(w, A), "stated to be raw but is"));
	assert_int_equal(w->runtime->n_calls[STUB_ENSURE], 0);
	/* It is the same file however often it is looked at; another spec is another matter. */
	APPLY(w, { .id = A });
	WAIT_STATUS(w, A, "RUNNING");
}

TEST_SUITE(guest_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_guest_hears_that_its_volume_grew),
		TEST(only_volumes_it_has_are_grown),
		TEST(a_runtime_that_cannot_grow_is_not_asked),
		TEST(a_restored_guest_takes_on_its_identity),
		TEST(ports_are_said_to_be_published_once_they_are),
		TEST(a_port_is_gone_with_what_published_it),
		TEST(intelligence_knows_every_vm_of_ours),
		TEST(a_watcher_sees_an_image_come_in),
		TEST(a_watcher_sees_a_snapshot_come_in),
		TEST(a_snapshot_that_is_delayed_says_so),
		TEST(an_image_that_is_something_else_is_a_final_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
