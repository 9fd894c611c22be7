/* What happens around bc-runtime-libvirt, over its socket, with real guests: a QEMU that answers nothing, or is killed
 * meanwhile; a full disk; a second service on the same root; a root that is too long. */
#include "tests/libvirt/service.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Its instances on a file system of a megabyte, in the mount namespace of this test's own: see in-pidns. */
static void small_prepare(struct contract *c)
{
	service_prepare(c);
	assert_int_equal(mkdir(service_root(c)->instances, 0711), 0);
	assert_int_equal(mount("none", service_root(c)->instances, "tmpfs", 0, "size=1m,mode=0711"), 0);
}

static void small_cleanup(struct contract *c)
{
	(void)umount(service_root(c)->instances);
	service_cleanup(c);
}

static const struct contract_runtime SMALL = {
	.program = BC_RUNTIME, .prepare = small_prepare, .adapt = service_adapt, .cleanup = small_cleanup
};

static void await_state(struct stream *watch, const char *id, Bc__V1__Domain__State state)
{
	for (;;) {
		Bc__V1__DomainEvent *event = stream_next(watch);

		assert_non_null(event);
		bool found =
		        event->domain && strcmp(event->domain->id, id) == 0 && event->domain->state == state;
		bc__v1__domain_event__free_unpacked(event, NULL);
		if (found)
			return;
	}
}

static void set_state(struct contract *c, const char *id, Bc__V1__InstanceSpec__DesiredState state)
{
	Bc__V1__Domain *domain = contract_set_state(c, id, state);

	bc__v1__domain__free_unpacked(domain, NULL);
}

/* Its call ends at the deadline; nobody else's is held up, and what happens meanwhile is told. */
static void a_qemu_that_answers_nothing_is_nobody_elses_trouble(void **state)
{
	struct contract *c = *state;
	Bc__V1__RuntimeListRequest list = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	Bc__V1__RuntimeWatchRequest watch_request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;
	char stuck[UUID_TEXT_MAX], other[UUID_TEXT_MAX];

	contract_start_instance(c, 1, stuck);
	contract_start_instance(c, 2, other);
	pid_t pid = service_qemu(c, stuck);
	struct stream *watch = stream_open(c, RUNTIME(watch), &watch_request);
	await_state(watch, other, BC__V1__DOMAIN__STATE__RUNNING);
	assert_int_equal(service_ask_qemu(c, stuck, contract_timeout_usec()).code, GRPC_STATUS_OK);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	struct rpc_status status = service_ask_qemu(c, stuck, 2 * USEC_PER_SEC); /* runs out */
	assert_int_equal(status.code, GRPC_STATUS_DEADLINE_EXCEEDED);
	assert_true(status.message[0] != '\0');

	/* the call to it is still under way */
	assert_true(contract_has(c, "console"));
	Bc__V1__RuntimeListReply *reply = contract_call(c, RUNTIME(list), &list, NULL);
	assert_int_equal(reply->n_domains, 2);
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
	assert_int_equal(contract_state(c, stuck), BC__V1__DOMAIN__STATE__RUNNING);
	assert_int_equal(service_ask_qemu(c, other, contract_timeout_usec()).code, GRPC_STATUS_OK);
	assert_int_equal(kill(service_qemu(c, other), SIGKILL), 0);
	await_state(watch, other, BC__V1__DOMAIN__STATE__CRASHED);
	set_state(c, other, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING);
	await_state(watch, other, BC__V1__DOMAIN__STATE__RUNNING);

	/* it goes on as if nothing had been */
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(service_ask_qemu(c, stuck, contract_timeout_usec()).code, GRPC_STATUS_OK);
	assert_int_equal(service_qemu(c, stuck), pid);
	stream_close(watch);
	assert_true(contract_remove(c, stuck));
	assert_true(contract_remove(c, other));
}

static void start_deaf(struct contract *c, unsigned n, char id[UUID_TEXT_MAX])
{
	contract_start_instance(c, n, id);
	assert_int_equal(kill(service_qemu(c, id), SIGSTOP), 0);
	assert_int_equal(service_ask_qemu(c, id, USEC_PER_SEC).code, GRPC_STATUS_DEADLINE_EXCEEDED);
}

/* Neither for a stop nor for a removal is it asked in vain: it is ended, and the call that waited for it too. Both at
 * once, for libvirt waits ten seconds before it kills. */
static void a_qemu_that_answers_nothing_can_be_ended(void **state)
{
	struct contract *c = *state;
	Bc__V1__SetStateRequest stop = BC__V1__SET_STATE_REQUEST__INIT;
	char stopped[UUID_TEXT_MAX], removed[UUID_TEXT_MAX];
	struct pending pending;

	start_deaf(c, 1, stopped);
	start_deaf(c, 2, removed);
	stop.id = stopped;
	stop.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
	contract_begin(c, RUNTIME(set_state), &stop, UINT64_MAX, &pending);
	assert_true(contract_remove(c, removed));
	assert_int_equal(contract_state(c, removed), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	assert_int_equal(contract_await(&pending), GRPC_STATUS_OK);
	assert_int_equal(contract_state(c, stopped), BC__V1__DOMAIN__STATE__STOPPED);
	set_state(c, stopped, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING);
	assert_true(contract_remove(c, stopped));
}

/* Everything but so many bytes of the instances' file system. */
static void fill(struct contract *c, const char *name, size_t leave)
{
	char path[128];
	static char block[4096];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", service_root(c)->instances, name);
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	do
		n = write(fd, block, sizeof(block));
	while (n > 0);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(fd, st.st_size - (off_t)leave), 0);
}

static void a_full_disk_leaves_nothing_half_made(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	char path[160];

	ensure_give_disk(request, c);
	for (size_t leave = 0; leave <= 64 * 1024; leave += 16 * 1024) {
		fill(c, "full", leave);
		contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_RESOURCE_EXHAUSTED);
		(void)snprintf(path, sizeof(path), "%s/%s", service_root(c)->instances, request->spec->id);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(
		        contract_state(c, request->spec->id), BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED);
	}
	(void)snprintf(path, sizeof(path), "%s/full", service_root(c)->instances);
	assert_int_equal(unlink(path), 0);
	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* QEMU, but for guests while "how" is there. */
static void treacherous_prepare(struct contract *c)
{
	char path[160], script[512];

	service_prepare(c);
	(void)snprintf(script, sizeof(script),
	        "#!/bin/sh\ncase \"$*\" in *guest=*) [ ! -e %s/how ] || . %s/how ;; esac\n"
	        "exec qemu-system-x86_64 \"$@\"\n",
	        c->dir, c->dir);
	contract_put(c, "qemu", script);
	(void)snprintf(path, sizeof(path), "%s/qemu", c->dir);
	assert_int_equal(chmod(path, 0755), 0);
	contract_configure(c,
	        "[service]\nlog_level=warning\n[libvirt]\nuri=%s\nemulator=%s\n[instances]\ndir=%s\n"
	        "stop_grace=1ms\n",
	        service_root(c)->uri, path, service_root(c)->instances);
}

static const struct contract_runtime TREACHEROUS = { .program = BC_RUNTIME,
	.prepare = treacherous_prepare,
	.adapt = service_adapt,
	.cleanup = service_cleanup };

/* That a start fails so. Once in a while libvirt comes before it can know why, which is no answer: one asks again. */
static void start_fails(struct contract *c, const char *id, grpc_status_code code, const char *words)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;
	struct rpc_status status;

	request.id = (char *)(uintptr_t)id;
	request.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();

	do {
		assert_true(clock_monotonic_usec() < until_usec);
		assert_null(contract_call(c, RUNTIME(set_state), &request, &status));
	} while (status.code == GRPC_STATUS_UNAVAILABLE &&
	        strstr(status.message, "libvirt did not wait for its last words: try again"));
	if (status.code != code || !strstr(status.message, words))
		fail_msg("%s: %s", rpc_code_to_string(status.code), status.message);
}

/* One that is killed is asked for again; one that cannot be says why. */
static void a_qemu_that_does_not_come_up_is_told_with_the_reason(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	char path[160];
	const char *id = request->spec->id;

	bc__v1__domain__free_unpacked(contract_ensure(c, request), NULL);
	contract_put(c, "how", "kill -9 $$\n");
	start_fails(c, id, GRPC_STATUS_UNAVAILABLE, "QEMU was killed");
	contract_put(c, "how", "echo 'it wants another host' >&2; exit 1\n");
	start_fails(c, id, GRPC_STATUS_INTERNAL, "it wants another host");
	(void)snprintf(path, sizeof(path), "%s/how", c->dir);
	assert_int_equal(unlink(path), 0);
	set_state(c, id, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING);
	assert_int_equal(contract_state(c, id), BC__V1__DOMAIN__STATE__RUNNING);
	assert_true(contract_remove(c, id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

/* A service that must not get ready; what it says is owned by the caller. */
static char *refused_start(struct contract *c, const char *root)
{
	char config[192], socket[192];

	(void)snprintf(config, sizeof(config), "%s/other.conf", c->dir);
	(void)snprintf(socket, sizeof(socket), "%s/other.sock", c->dir);
	FILE *f = fopen(config, "we");
	assert_non_null(f);
	assert_true(fprintf(f, "[libvirt]\nuri=qemu:///embed?root=%s\n", root) > 0);
	assert_int_equal(fclose(f), 0);
	const char *argv[] = { BC_RUNTIME, "--config", config, "--socket", socket, "--data-dir", c->dir,
		NULL };
	struct process_options options = { .argv = argv };
	struct process_output output = { 0 };
	assert_int_equal(process_capture(&options, 16384, contract_timeout_usec(), &output), 0);
	assert_true(WIFEXITED(output.status) && WEXITSTATUS(output.status) != 0);
	return output.text;
}

static void what_cannot_be_is_refused_at_the_start(void **state)
{
	struct contract *c = *state;
	char wanted[128], root[64];

	CLEANUP_FREE char *second = refused_start(c, service_root(c)->path);
	(void)snprintf(wanted, sizeof(wanted), "the root %s is in use by another runtime, pid %d",
	        service_root(c)->path, c->pid);
	if (!strstr(second, wanted))
		fail_msg("%s", second);
	assert_true(contract_has(c, "console")); /* the first one goes on */
	(void)snprintf(root, sizeof(root), "/tmp/%046d", 0);
	CLEANUP_FREE char *too_long = refused_start(c, root);
	if (!strstr(too_long, "has 51 bytes; at most 50"))
		fail_msg("%s", too_long);
	assert_int_equal(access(root, F_OK), -1);
}

TEST_SUITE(faults_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(a_qemu_that_answers_nothing_is_nobody_elses_trouble, &libvirt_service),
		CONTRACT_TEST(a_qemu_that_answers_nothing_can_be_ended, &libvirt_service),
		CONTRACT_TEST(a_qemu_that_does_not_come_up_is_told_with_the_reason, &TREACHEROUS),
		CONTRACT_TEST(a_full_disk_leaves_nothing_half_made, &SMALL),
		CONTRACT_TEST(what_cannot_be_is_refused_at_the_start, &libvirt_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
