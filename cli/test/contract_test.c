/* The real bcctl, as a program, against services that say what each case needs. */
#include "cli/exit_code.h"
#include "cli/test/stand_in.h"
#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/loop/job.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11"
#define ID_2 "7f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b12"
#define STATUS                                                                                                           \
	"{nodeId: n1, acceptedRevision: '7', capacity: {known: true, totalBytes: '8589934592', committedBytes: "         \
	"'1073741824'}, instances: [{id: " ID ", state: RUNNING, runtime: fake, memoryBytes: '536870912', "              \
	"allocationId: a1, nics: [{interface: bc0123456789n0, mac: '02:00:00:00:00:01', addresses: [10.0.0.2/24]}]},"    \
	"{id: " ID_2                                                                                                     \
	", state: FAILED, reason: ImageMissing, message: \"no\\e[2Jhost\", runtime: fake, restarts: 3}],"                \
	" volumes: [{id: data, sizeBytes: '1073741824', allocatedBytes: '4096', claimed: true, users: [{instanceId: " ID \
	"}]}], drivers: [{kind: runtime, id: fake, reachability: READY, features: [console]}, {kind: netd, id: netd, "   \
	"reachability: REFUSED, message: may not}], warnings: [the host is small]}"
#define NODE                                                                                                     \
	"{nodeId: n1, version: 1.2.3, acceptedRevision: '7', spec: {revision: '7', instances: {items: [{id: " ID \
	", vcpus: 1}]}}}"

struct fixture {
	void *dir;
	char bcctl[300];
	struct loop *loop;
	struct job_pool *pool;
	struct stand_in *services;
	struct process_output output;
	int code;
};

struct bcctl_job {
	struct job job;
	struct fixture *f;
	const char *command;
	char env[160], timeout_env[32];
	int r;
};

static void bcctl_run(struct job *job)
{
	struct bcctl_job *own = CONTAINER_OF(job, struct bcctl_job, job);
	const char *const argv[] = { "/bin/sh", "-c", own->command, NULL };
	const char *const env[] = { own->env, own->timeout_env, "TERM=dumb", "TZ=UTC", NULL };
	const struct process_options options = { .argv = argv, .env = env, .cwd = own->f->dir };

	/* bcctl's own time is over first, and it says so */
	own->r = process_capture(&options, 1 << 20, 2 * test_timeout_usec(TEST_SERVICE_SEC), &own->f->output);
}

static void bcctl_done(struct job *job)
{
	struct bcctl_job *own = CONTAINER_OF(job, struct bcctl_job, job);

	loop_exit(own->f->loop, 0);
}

/* The longest time that is given to bcctl where it is what bcctl ends by: a slow machine needs more than the usual second
 * until there is something to tell. */
static unsigned timeout_sec(void)
{
	return (unsigned)(test_timeout_usec(TEST_SERVICE_SEC) / USEC_PER_SEC);
}

/* Runs a line of shell with bcctl on PATH while the services answer; its exit code. */
static int sh(struct fixture *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int sh(struct fixture *f, const char *fmt, ...)
{
	struct bcctl_job job = { .job = { .run = bcctl_run, .done = bcctl_done }, .f = f };
	char command[2048], line[1500];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	(void)snprintf(command, sizeof(command), "PATH='%s':$PATH; %s", f->bcctl, line);
	(void)snprintf(job.env, sizeof(job.env), "BC_RUN_DIR=%s", (const char *)f->dir);
	(void)snprintf(job.timeout_env, sizeof(job.timeout_env), "TEST_TIMEOUT_SEC=%u", timeout_sec());
	job.command = command;
	process_output_done(&f->output);
	f->output = (struct process_output){ 0 };
	assert_int_equal(job_submit(f->pool, &job.job), 0);
	assert_int_equal(loop_run(f->loop), 0);
	assert_int_equal(job.r, 0);
	assert_true(WIFEXITED(f->output.status));
	f->code = WEXITSTATUS(f->output.status);
	return f->code;
}

static void check_code(const struct fixture *f, int code)
{
	if (f->code != code)
		fail_msg("%d, not %d:\n%s", f->code, code, f->output.text);
}

static void check_has(const struct fixture *f, const char *text)
{
	if (!strstr(f->output.text, text))
		fail_msg("'%s' is not in:\n%s", text, f->output.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	ssize_t n;

	assert_non_null(f);
	n = readlink("/proc/self/exe", f->bcctl, sizeof(f->bcctl) - 1);
	assert_true(n > 0);
	*strrchr(f->bcctl, '/') = '\0';
	assert_int_equal(sandbox_setup(&f->dir), 0);
	assert_int_equal(loop_new(&f->loop), 0);
	assert_int_equal(job_pool_new(f->loop, "bcctl", 1, 4, &f->pool), 0);
	f->services = stand_in_new(f->loop, f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	process_output_done(&f->output);
	(void)stand_in_free(f->services);
	(void)job_pool_free(f->pool);
	(void)loop_free(f->loop);
	(void)sandbox_teardown(&f->dir);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *name, const char *text)
{
	assert_int_equal(
	        atomic_file_write(AT_FDCWD, SANDBOX_PATH(&f->dir, name), text, strlen(text), 0644), 0);
}

/* --- looking --- */

static void tables_for_people(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/GetStatus", .replies = { STATUS } }, { 0 }
	};
	static const struct script REVERSED[] = {
		{ .method = "bc.v1.Converger/GetStatus",
		        .replies = { "{draining: true, reason: Odd, message: why, instances: [{id: " ID_2
		                     "}, {id: " ID "}]}" } },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl get 2>/dev/null");
	check_code(f, EXIT_OK);
	check_has(f,
	        "ID                                    STATE    RUNTIME   MEMORY  ADDRESS   RESTARTS  SINCE  NOTE\n");
	check_has(f, ID "  RUNNING  fake     512 MiB  10.0.0.2         0\n");
	check_has(
	        f, ID_2 "  FAILED   fake                               3         ImageMissing: no?[2Jhost\n");
	sh(f, "bcctl get 2>&1 >/dev/null");
	check_has(f, "warning: the host is small");
	sh(f, "bcctl get -o wide --no-headings");
	check_has(f, "a1");
	check_has(f, "bc0123456789n0");
	assert_null(strstr(f->output.text, "RUNTIME"));
	sh(f, "bcctl get -o name");
	assert_string_equal(f->output.text, ID "\n" ID_2 "\n");
	/* in the order of their ids, whatever the answer's is */
	stand_in_play(f->services, REVERSED);
	sh(f, "bcctl get -o name");
	assert_string_equal(f->output.text, ID "\n" ID_2 "\n");
	sh(f, "bcctl get nodes");
	check_has(f, "  Draining; Odd: why\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl get volumes");
	check_has(f, "data  1 GiB      4 KiB  yes      " ID "\n");
	sh(f, "bcctl get drivers");
	check_has(f, "netd     netd  REFUSED                may not\n");
	sh(f, "bcctl get nodes");
	check_has(f, "n1           7          2        1   8 GiB      1 GiB\n");
}

static void data_for_programs(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus",
		                                         .replies = { STATUS } },
		{ .method = "bc.v1.Converger/GetNode", .replies = { NODE } }, { 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl get -o json");
	check_code(f, EXIT_OK);
	assert_int_equal(f->output.text[0], '[');
	check_has(f, "\"memoryBytes\": \"536870912\"");
	sh(f, "bcctl get %s -o json", ID);
	assert_int_equal(f->output.text[0], '{');
	sh(f, "bcctl get 6f -o yaml");
	check_has(f, "state: RUNNING\n");
	sh(f, "bcctl get nodes -o json");
	check_has(f, "\"acceptedRevision\": \"7\"");
	sh(f, "bcctl describe 7f -o json");
	check_has(f, "\"reason\": \"ImageMissing\"");
	sh(f, "bcctl get drivres; echo exit $?");
	check_has(f, "there is no 'drivres' to get, did you mean 'drivers'?\nexit 3\n");
	/* a plugin's unit is an instance of a template */
	sh(f, "touch $BC_RUN_DIR/runtime-gone.sock; bcctl runtime domains gone; rm $BC_RUN_DIR/runtime-gone.sock");
	check_has(f, "systemctl start bc-runtime-plugin@gone'");
}

static void more_than_one_message_holds_is_shown_all_the_same(void **state)
{
	struct fixture *f = *state;
	const struct script scripts[] = {
		{ .method = "bc.v1.Converger/GetStatus",
		        .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
		        .text = "too large",
		        .uses = 1 },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { "{instances: [{id: " ID_2 ", state: STARTING}, {id: " ID
		                     ", state: RUNNING}]}",
		                "{instances: [{id: gone, state: STOPPED}, {id: " ID_2
		                ", state: FAILED, reason: ImageMissing}]}",
		                "{instances: [{id: gone, state: REMOVED}], synced: true}" },
		        .hang = true },
		{ .method = "bc.v1.Converger/GetStatus", .replies = { STATUS } },
		{ 0 },
	};

	stand_in_play(f->services, scripts);
	(void)sh(f, "bcctl get --no-headings 2>/dev/null | awk '{print $1, $2}'");
	check_code(f, 0);
	assert_string_equal(f->output.text, ID " RUNNING\n" ID_2 " FAILED\n");
}

static void an_instance_is_found_by_the_beginning_of_its_id(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/GetStatus",
		        .replies = { "{instances: [{id: ab1, state: RUNNING}, {id: ab2, state: STOPPED}]}" } },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl get ab2");
	check_has(f, "STOPPED");
	sh(f, "bcctl get ab");
	check_code(f, EXIT_USAGE);
	check_has(f, "begins the ids of 2 instances");
	sh(f, "bcctl get x");
	check_code(f, EXIT_NOT_FOUND);
}

static void all_of_one_instance(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus",
		                                         .replies = { STATUS } },
		{ .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Events",
		        .replies = { "{sequence: '1', reason: Started, message: by fake, severity: INFO}" } },
		{ 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl describe 6f1c");
	check_code(f, EXIT_OK);
	check_has(f, "Instance:     " ID);
	check_has(f, "NIC 0:        bc0123456789n0  02:00:00:00:00:01");
	check_has(f, "Events:        ago  Started: by fake");
}

/* What somebody has to look for in the spec otherwise. */
static void all_that_was_wished_of_one_instance(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus",
		                                         .replies = { STATUS } },
		{ .method = "bc.v1.Converger/GetNode",
		        .replies = { "{spec: {instances: {items: [{id: " ID
		                     ", vcpus: 2, desiredState: RUNNING, kind: JOB, memoryBytes: '1073741824', "
		                     "balloon: {minBytes: '536870912'}, sshFromHostOnly: true, placement: {cpuPins: [3, 5], "
		                     "emulatorCpus: [0], numaNodes: [1], hugePageBytes: '2097152'}, restoreFrom: {digest: 'sha256:ab', "
		                     "withMemory: true}, identityRebindRef: second}]}}}" } },
		{ .method = "bc.v1.Converger/Events" }, { 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl describe 6f1c");
	check_code(f, EXIT_OK);
	check_has(f, "Wanted:       a job, RUNNING, 2 vCPUs, 1 GiB");
	check_has(f, "At least:     512 MiB under pressure");
	check_has(f, "vCPUs on:     CPU 3,5");
	check_has(f, "VMM on:       CPU 0");
	check_has(f, "Memory on:    node 1");
	check_has(f, "Pages:        2 MiB");
	check_has(f, "Restored:     sha256:ab, with its memory");
	check_has(f, "To become:    second");
	check_has(f, "SSH:          from this host only");
}

/* --- answers that are errors --- */

static void every_kind_of_failure_has_its_exit_code(void **state)
{
	static const struct {
		grpc_status_code code;
		int want;
	} TABLE[] = {
		{ GRPC_STATUS_INVALID_ARGUMENT, EXIT_USAGE },
		{ GRPC_STATUS_NOT_FOUND, EXIT_NOT_FOUND },
		{ GRPC_STATUS_PERMISSION_DENIED, EXIT_REFUSED },
		{ GRPC_STATUS_FAILED_PRECONDITION, EXIT_CONFLICT },
		{ GRPC_STATUS_ALREADY_EXISTS, EXIT_CONFLICT },
		{ GRPC_STATUS_RESOURCE_EXHAUSTED, EXIT_NO_CAPACITY },
		{ GRPC_STATUS_UNIMPLEMENTED, EXIT_UNSUPPORTED },
		{ GRPC_STATUS_UNAVAILABLE, EXIT_ABSENT },
		{ GRPC_STATUS_INTERNAL, EXIT_FAILED },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		const struct script scripts[] = { { .method = "bc.v1.Converger/Retry",
			                                  .code = TABLE[i].code,
			                                  .text = "the words of it" },
			{ 0 } };

		stand_in_play(f->services, scripts);
		sh(f, "bcctl retry " ID);
		check_code(f, TABLE[i].want);
		check_has(f, "the words of it");
	}
}

static void a_service_that_does_not_answer_is_busy(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus", .hang = true },
		{ 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl get --timeout 1s"); /* runs out */
	check_code(f, EXIT_TIMEOUT);
	check_has(f, "runs, but did not answer in time");
}

static void absence_and_refusal_are_told_apart(void **state)
{
	/* a unary call, a stream, and rows of a table */
	static const char *const ASKS[] = { "get", "events", "watch", "netd list", "runtime list" };
	struct fixture *f = *state;

	sh(f, "bcctl --run-dir /nonexistent get");
	check_code(f, EXIT_ABSENT);
	check_has(f, "nobody listens on /nonexistent/converger.sock");
	if (geteuid() != 0)
		skip();
	/* the socket is root's; the directory lets anybody through to it */
	assert_int_equal(chmod(f->dir, 0711), 0);
	sh(f, "setpriv --reuid 65534 --regid 65534 --clear-groups \"$(command -v bcctl)\" get");
	check_code(f, EXIT_REFUSED);
	check_has(f, "runs, but you may not use");
	check_has(f, "the socket's mode keeps uid 65534 out\n");
	sh(f, "setpriv --reuid 65534 --regid 65534 --clear-groups \"$(command -v bcctl)\" runtime list");
	check_code(f, EXIT_REFUSED);
	check_has(f, "cannot look for runtimes in");
	assert_int_equal(chmod(f->dir, 0755), 0);
	/* the socket is everybody's; the service looks who comes, and says nothing to whom it does not let in */
	assert_int_equal(chmod(SANDBOX_PATH(&f->dir, "converger.sock"), 0666), 0);
	assert_int_equal(chmod(SANDBOX_PATH(&f->dir, "netd.sock"), 0666), 0);
	assert_int_equal(chmod(SANDBOX_PATH(&f->dir, "runtime-fake.sock"), 0666), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ASKS); i++) {
		sh(f, "setpriv --reuid 65534 --regid 65534 --clear-groups \"$(command -v bcctl)\" %s",
		        ASKS[i]);
		check_code(f, EXIT_REFUSED);
		check_has(f, "uid 65534 is not among its allowed_uids, or its max_connections are taken\n");
	}
}

/* What closes its first connection without a word, and then has ended, or greets the next as every gRPC server does. */
struct mute {
	struct sockaddr_un address;
	unsigned n_connections;
	bool lives;
	int greeted; /* owned */
};

static int on_mute_connect(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct mute *mute = userdata;
	CLEANUP_CLOSE int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	(void)source;
	(void)revents;
	if (mute->n_connections++ > 0) {
		assert_int_equal(write(connection, "hello", 5), 5);
		mute->greeted = TAKE_FD(connection);
	} else if (!mute->lives) {
		assert_int_equal(unlink(mute->address.sun_path), 0);
	}
	return 0;
}

static void a_service_that_ended_is_not_taken_for_a_refusal(void **state)
{
	struct fixture *f = *state;
	struct mute mutes[] = { { .lives = false }, { .lives = true } };

	for (size_t i = 0; i < ARRAY_SIZE(mutes); i++) {
		struct mute *mute = &mutes[i];
		CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		sd_event_source *source = NULL;

		mute->greeted = -EBADF;
		mute->address.sun_family = AF_UNIX;
		(void)snprintf(mute->address.sun_path, sizeof(mute->address.sun_path), "%s/mute-%zu.sock",
		        (const char *)f->dir, i);
		assert_int_equal(bind(fd, (const struct sockaddr *)&mute->address, sizeof(mute->address)), 0);
		assert_int_equal(listen(fd, 4), 0);
		assert_true(sd_event_add_io(
		                    loop_event(f->loop), &source, fd, EPOLLIN, on_mute_connect, mute) >= 0);
		sh(f, "bcctl --socket %s get", mute->address.sun_path);
		sd_event_source_disable_unref(source);
		if (mute->greeted >= 0)
			(void)close(mute->greeted);
		check_code(f, EXIT_ABSENT);
		check_has(f, "bc-converger is not available: ");
		assert_int_equal(mute->n_connections, mute->lives ? 2 : 1);
	}
}

/* --- applying --- */

#define APPLIED "{acceptedRevision: '8', changes: [{action: CREATE, id: " ID ", detail: fake}]}"

static void a_spec_is_compared_and_applied(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Apply", .replies = { APPLIED } }, { 0 } };

	put(f, "node.yaml", "instances: {items: [{id: " ID ", vcpus: 2}]}\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl apply -f node.yaml");
	check_code(f, EXIT_OK);
	check_has(f, "~ instance " ID "\n      vcpus: 1 → 2\n");
	check_has(f, "CREATE  " ID "  fake\n");
	check_has(f, "Revision 8 accepted, 1 change.");
	/* the next revision was filled in */
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Apply"), "\"revision\":\"8\""));
	assert_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Apply"), "dryRun"));
	sh(f, "bcctl apply -f - --dry-run -o json <node.yaml");
	check_code(f, EXIT_OK);
	check_has(f, "\"action\": \"CREATE\"");
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Apply"), "\"dryRun\":true"));
}

static void faults_of_a_spec_reach_the_person(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Apply",
		        .code = GRPC_STATUS_INVALID_ARGUMENT,
		        .text = "2 faults in the NodeSpec:\n  instances.items[0].vcpus: 0\n  more" },
		{ 0 } };

	put(f, "node.yaml", "instances: {items: [{id: " ID "}]}\n");
	put(f, "bad.yaml", "instances:\n  items:\n  - id: x\n    vcpus: many\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl apply -f node.yaml");
	check_code(f, EXIT_USAGE);
	check_has(f, "  instances.items[0].vcpus: 0\n  more");
	sh(f, "bcctl apply -f bad.yaml");
	check_code(f, EXIT_USAGE);
	check_has(f, "bad.yaml:4:");
	assert_int_equal(stand_in_calls(f->services, "bc.v1.Converger/Apply"), 1);
}

#define DELTA(state, more)                                                                                   \
	"{synced: true, acceptedRevision: '8', instances: [{id: " ID ", state: " state more "}]}"

static void a_wait_ends_when_all_is_as_wished(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Apply", .replies = { APPLIED } },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("STARTING", "") },
		        .code = GRPC_STATUS_UNAVAILABLE,
		        .text = "restarting",
		        .uses = 1 },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("STARTING", ""), DELTA("RUNNING", "") },
		        .hang = true },
		{ 0 } };

	put(f, "node.yaml", "instances: {items: [{id: " ID ", desiredState: RUNNING}]}\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl apply -f node.yaml --wait --wait-timeout %s", TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_OK);
	check_has(f, "0 of 1 as wished; 6f1c0d8e STARTING\nwaiting for the converger\n");
	check_has(f, "1 of 1 as wished\n");
	assert_int_equal(stand_in_calls(f->services, "bc.v1.Converger/WatchStatus"), 2);
}

static void a_wait_ends_with_a_final_failure_or_its_time(void **state)
{
	struct fixture *f = *state;
	static const struct script FAILED[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Apply", .replies = { APPLIED } },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("FAILED", ", reason: RuntimeNotInstalled") },
		        .hang = true },
		{ 0 } };
	static const struct script STARTING[] = { { .method = "bc.v1.Converger/GetNode",
		                                          .replies = { NODE } },
		{ .method = "bc.v1.Converger/Apply", .replies = { APPLIED } },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("STARTING", "") },
		        .hang = true },
		{ 0 } };

	put(f, "node.yaml", "instances: {items: [{id: " ID ", desiredState: RUNNING}]}\n");
	stand_in_play(f->services, FAILED);
	sh(f, "bcctl apply -f node.yaml --wait-timeout %s", TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_FAILED);
	check_has(f, "6f1c0d8e FAILED RuntimeNotInstalled");
	stand_in_play(f->services, STARTING);
	for (unsigned sec = 1; sec <= timeout_sec(); sec *= 4) {
		sh(f, "bcctl apply -f node.yaml --wait-timeout %us", sec);
		check_code(f, EXIT_TIMEOUT);
		if (strstr(f->output.text, "STARTING"))
			break;
	}
	check_has(f, "not reached in time: 0 of 1 as wished; 6f1c0d8e STARTING");
}

/* --- a small control plane --- */

#define HELLO "hello: {nodeId: n1, version: 1.2.3, acceptedRevision: '7'}"

static void secrets_are_answered_from_files(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Session", .replies = { HELLO } }, { 0 } };
	const char *heard;

	put(f, "node.yaml", "instances: {items: [{id: " ID ", desiredState: RUNNING}]}\n");
	assert_int_equal(mkdir(SANDBOX_PATH(&f->dir, "secrets"), 0700), 0);
	put(f, "secrets/web", "s3cret");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl apply -f node.yaml --secrets secrets --wait-timeout %s",
	        TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_OK);
	check_has(f, "Revision 8 accepted.");
	check_has(f, "PENDING    WaitingForUserData");
	check_has(f, "RUNNING");
	assert_null(strstr(f->output.text, "s3cret"));
	heard = stand_in_heard(f->services, "bc.v1.Converger/Session");
	assert_non_null(strstr(heard, "\"requestId\":\"q1\""));
	assert_non_null(strstr(heard, "\"value\":\"czNjcmV0\"")); /* s3cret */
}

static void a_secret_that_is_not_there_is_said_so(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetNode", .replies = { NODE } },
		{ .method = "bc.v1.Converger/Session", .replies = { HELLO } }, { 0 } };

	put(f, "node.yaml", "instances: {items: [{id: " ID ", desiredState: RUNNING}]}\n");
	assert_int_equal(mkdir(SANDBOX_PATH(&f->dir, "secrets"), 0700), 0);
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl apply -f node.yaml --secrets secrets --wait-timeout %s",
	        TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_has(f, "no secret 'web'");
	assert_non_null(
	        strstr(stand_in_heard(f->services, "bc.v1.Converger/Session"), "\"error\":\"no secret"));
	sh(f, "bcctl apply -f node.yaml --secrets none");
	check_code(f, EXIT_USAGE);
}

/* --- streams --- */

static void a_watch_outlives_a_restart(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("STARTING",
		                ", progress: {what: fetching image, doneBytes: '50', totalBytes: '100'}") },
		        .code = GRPC_STATUS_UNAVAILABLE,
		        .uses = 1 },
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("RUNNING", "") },
		        .hang = true },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl watch " ID " --until RUNNING --timeout %s", TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_OK);
	check_has(f, "STARTING   fetching image 50% of 100 B\n");
	check_has(f, "trying again");
	check_has(f, "RUNNING");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl watch " ID " --until RUNNING --timeout %s -o json 2>/dev/null",
	        TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_has(f, "\"state\":\"RUNNING\"");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl watch " ID " --until PAUSED --timeout 2s"); /* runs out */
	check_code(f, EXIT_TIMEOUT);
}

static void events_are_shown_and_followed(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/Events",
		        .replies = { "{sequence: '5', time: '2024-02-29T12:00:00Z', "
		                     "instanceId: " ID ", severity: WARNING, reason: "
		                     "Restarted, message: the guest was down}",
		                "{sequence: '6', severity: ERROR, reason: Bad}" } },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl events --after 4");
	check_code(f, EXIT_OK);
	check_has(f, "2024-02-29 12:00:00  " ID "  WARNING  Restarted: the guest was down\n");
	assert_non_null(
	        strstr(stand_in_heard(f->services, "bc.v1.Converger/Events"), "\"afterSequence\":\"4\""));
	sh(f, "bcctl logs " ID " -f -o json");
	check_has(f, "\"reason\":\"Bad\"}\n");
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Events"), "\"follow\":true"));
}

static void a_snapshot_shows_how_far_it_is(void **state)
{
	struct fixture *f = *state;
	static const struct script GOOD[] = {
		{ .method = "bc.v1.Converger/Snapshot",
		        .replies = { "{progress: {what: writing snapshot, doneBytes: '1'}}",
		                "{progress: {what: uploading snapshot, doneBytes: '1', totalBytes: '2'}}",
		                "{done: true, digest: 'sha256:abc', sizeBytes: '2048'}" } },
		{ 0 }
	};
	static const struct script BAD[] = { { .method = "bc.v1.Converger/Snapshot",
		                                     .replies = { "{progress: {what: writing snapshot}}" },
		                                     .code = GRPC_STATUS_FAILED_PRECONDITION,
		                                     .text = "a GPU is passed through" },
		{ 0 } };

	stand_in_play(f->services, GOOD);
	sh(f, "bcctl snapshot " ID " --memory --to out.tar 2>/dev/null");
	check_code(f, EXIT_OK);
	assert_string_equal(f->output.text, "sha256:abc  2 KiB\n");
	assert_non_null(
	        strstr(stand_in_heard(f->services, "bc.v1.Converger/Snapshot"), "\"withMemory\":true"));
	assert_non_null(
	        strstr(stand_in_heard(f->services, "bc.v1.Converger/Snapshot"), "\"uploadUrl\":\"file:///"));
	sh(f, "bcctl snapshot " ID " --to https://store.example/x --command-id nightly -o json");
	check_has(f, "\"digest\":\"sha256:abc\"");
	assert_non_null(
	        strstr(stand_in_heard(f->services, "bc.v1.Converger/Snapshot"), "\"id\":\"nightly\""));
	stand_in_play(f->services, BAD);
	sh(f, "bcctl snapshot " ID " --to out.tar");
	check_code(f, EXIT_CONFLICT);
	check_has(f, "a GPU is passed through");
}

/* --- the console --- */

#define OPENED "opened: {backlogBytes: '6'}"
#define BACKLOG "data: Ym9vdAo=" /* "boot\n" */

/* What is said into it by a pipe or a file, and what comes out. */
static void console_says(struct fixture *f, const char *in, const char *from, const char *out)
{
	for (unsigned sec = 1; sec <= timeout_sec(); sec *= 4) {
		sh(f, "%s bcctl console " ID " --linger %us %s", in, sec, from);
		if (strcmp(f->output.text, out) == 0)
			break;
	}
	check_code(f, EXIT_OK);
	assert_string_equal(f->output.text, out);
}

static void a_console_echoes_what_a_pipe_says(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/Console", .replies = { OPENED, BACKLOG }, .echo = true }, { 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	console_says(f, "printf 'hello\\n' |", "", "boot\nhello\n");
	/* much at once, from a file */
	sh(f, "head -c 300000 /dev/zero | tr '\\0' x >big");
	console_says(f, "", "<big >out; tail -c +6 out | cmp big && echo same", "same\n");
	/* all bytes pass, the escape too, when no person types */
	console_says(f, "printf 'a\\035b' |", "", "boot\na\035b");
}

static void a_console_is_left_when_a_text_was_seen(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/Console",
		                                         .replies = { OPENED, "data: Ym8=", "data: b3QK" },
		                                         .echo = true },
		{ 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl console " ID " --until boot --timeout %s </dev/null",
	        TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_OK);
	assert_string_equal(f->output.text, "boot\n");
	sh(f, "bcctl console " ID " --until login --timeout 1s </dev/null"); /* runs out */
	check_code(f, EXIT_TIMEOUT);
	/* nothing to say is listening */
	sh(f, "timeout 2 bcctl console " ID " </dev/null"); /* runs out */
	check_code(f, 124);
}

static void a_console_that_is_taken(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/Console",
		                                         .code = GRPC_STATUS_FAILED_PRECONDITION,
		                                         .text = "uid 7 has it; set take_over to end that",
		                                         .echo = true },
		{ 0 } };
	static const struct script STOPPED[] = { { .method = "bc.v1.Converger/Console",
		                                         .code = GRPC_STATUS_FAILED_PRECONDITION,
		                                         .text = "instance x is not running",
		                                         .echo = true },
		{ 0 } };
	static const struct script OPEN[] = {
		{ .method = "bc.v1.Converger/Console", .replies = { OPENED, BACKLOG }, .echo = true }, { 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl console " ID " </dev/null");
	check_code(f, EXIT_CONFLICT);
	check_has(f, "uid 7 has it");
	check_has(f, "--take-over ends the other session");
	stand_in_play(f->services, STOPPED);
	sh(f, "bcctl console " ID " </dev/null");
	check_code(f, EXIT_CONFLICT);
	assert_string_equal(f->output.text, "bcctl: instance x is not running\n");
	stand_in_play(f->services, OPEN);
	sh(f, "bcctl console " ID " --take-over --no-backlog --until boot --timeout %s </dev/null",
	        TEST_TIMEOUT_TEXT(TEST_SERVICE_SEC));
	check_code(f, EXIT_OK);
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Console"), "\"takeOver\":true"));
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Converger/Console"), "\"noBacklog\":true"));
}

/* A terminal is raw while connected and what it was afterwards; Ctrl-] leaves. */
static void a_terminal_is_given_back(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/Console", .replies = { OPENED, BACKLOG }, .echo = true }, { 0 }
	};

	put(f, "terminal.py",
	        "import os, pty, select, sys, termios\n"
	        "looked, go = os.pipe()\n"
	        "pid, fd = pty.fork()\n"
	        "if pid == 0:\n"
	        "    os.read(looked, 1)\n"
	        "    os.execvp('bcctl', ['bcctl', 'console', '" ID "'])\n"
	        "seen = b''\n"
	        "patience = int(os.environ['TEST_TIMEOUT_SEC'])\n"
	        "before = termios.tcgetattr(fd)\n"
	        "os.write(go, b'x')\n"
	        "def until(text):\n"
	        "    global seen\n"
	        "    while text not in seen:\n"
	        "        if not select.select([fd], [], [], patience)[0]: sys.exit('no ' + repr(text) + ' in ' + repr(seen))\n"
	        "        seen += os.read(fd, 4096)\n"
	        "until(b'boot')\n"
	        "assert not termios.tcgetattr(fd)[3] & termios.ICANON, 'not raw'\n"
	        "os.write(fd, b'\\x03typed')\n" /* Ctrl-C goes to the guest */
	        "until(b'\\x03typed')\n"
	        "os.write(fd, b'\\x1d')\n"
	        "_, status = os.waitpid(pid, 0)\n"
	        "assert termios.tcgetattr(fd) == before, 'not given back'\n"
	        "sys.exit(os.waitstatus_to_exitcode(status))\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "TERM=xterm /usr/bin/python3 terminal.py");
	check_code(f, EXIT_OK);
}

/* --- the others --- */

static void netd_is_looked_at_and_cleaned(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Netd/List",
		        .replies = { "{interfaces: [{name: bc0123456789n0, kind: TAP, instanceId: " ID
		                     ", master: br0, queues: 2, rules: 7, filtered: true, policy: PRIVATE, up: true, inUse: true, "
		                     "ports: [{hostPort: 8080, guestPort: 80}]}, {name: bcffffffffffn1, kind: TAP, disbelief: no "
		                     "record}], orphanRules: [{interface: bceeeeeeeeeen0, table: bridge bc, elements: 4}]}" } },
		{ .method = "bc.v1.Netd/Check",
		        .replies = { "{interface: bc0123456789n0, master: br0, queues: 2}" },
		        .uses = 1 },
		{ .method = "bc.v1.Netd/Check",
		        .code = GRPC_STATUS_FAILED_PRECONDITION,
		        .text = "its rules are gone" },
		{ .method = "bc.v1.Netd/RemoveInstance",
		        .replies = { "{interfaces: [bc0123456789n0], rules: 7, ports: 1}" } },
		{ .method = "bc.v1.Netd/RemoveInterface",
		        .code = GRPC_STATUS_NOT_FOUND,
		        .text = "no such interface" },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl netd list");
	check_code(f, EXIT_OK);
	check_has(f,
	        "bc0123456789n0  TAP   " ID
	        "    0  br0          2  PRIVATE         7  up, in use  tcp *:8080>80\n");
	check_has(f, "no record");
	check_has(f, "orphaned: 4 elements in table bridge bc for bceeeeeeeeeen0, which is not there\n");
	/* the beginning of an id is found among what netd holds */
	sh(f, "bcctl netd list 6f1c");
	check_code(f, EXIT_OK);
	assert_string_equal(stand_in_heard(f->services, "bc.v1.Netd/List"), "{\"instanceId\":\"" ID "\"}");
	sh(f, "bcctl netd list 7");
	check_code(f, EXIT_NOT_FOUND);
	check_has(f, "no interface of an instance '7'");
	sh(f, "bcctl netd check 6f1c 0");
	check_code(f, EXIT_OK);
	assert_non_null(strstr(stand_in_heard(f->services, "bc.v1.Netd/Check"), ID));
	check_has(f, "NIC 0  whole");
	sh(f, "bcctl netd check " ID);
	check_code(f, EXIT_CONFLICT);
	check_has(f, "broken  its rules are gone");
	sh(f, "bcctl netd check " ID " 100");
	check_code(f, EXIT_USAGE);
	sh(f, "bcctl netd remove-instance " ID);
	check_has(f, "removed bc0123456789n0\n1 interface, 7 rule elements and 1 published port removed\n");
	sh(f, "bcctl netd remove-interface bcnone");
	check_code(f, EXIT_NOT_FOUND);
	check_has(f, "no such interface");
}

static void runtimes_are_found_by_their_sockets(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Runtime/Describe",
		        .replies = { "{id: fake, version: 1.2.3, accel: tcg, accelReason: no vmx, features: [console]}" } },
		{ .method = "bc.v1.Runtime/List",
		        .replies = { "{domains: [{id: " ID
		                     ", managed: true, state: RUNNING, vcpus: 2}, {id: win, "
		                     "state: CRASHED, reason: GuestPanicked}]}" } },
		{ 0 }
	};

	put(f, "runtime-gone.sock", "");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl runtime list");
	check_code(f, EXIT_ABSENT);
	check_has(f, "fake     1.2.3                tcg    no vmx\n");
	check_has(f, "gone                                 absent: nobody listens on");
	sh(f, "bcctl runtime list libvirt");
	check_code(f, EXIT_NOT_FOUND);
	check_has(f, "no runtime 'libvirt' has a socket in");
	check_has(f, "; there are fake,gone\n");
	sh(f, "bcctl runtime list fake -o json");
	check_code(f, EXIT_OK);
	check_has(f, "\"accelReason\":\"no vmx\"");
	sh(f, "bcctl runtime domains fake");
	check_has(f,
	        "win                                   fake     no       CRASHED     0       0         GuestPanicked\n");
	sh(f, "bcctl runtime list nonesuch");
	check_code(f, EXIT_NOT_FOUND);
}

static void top_shows_what_has_no_source_as_such(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus",
		                                         .replies = { STATUS } },
		{ .method = "bc.v1.Intelligence/ListVms",
		        .replies = { "{vms: [{instanceId: " ID
		                     ", proc: {cpuUserNs: '1500000000', residentBytes: '1048576', readBytes: '4096'}}]}" } },
		{ 0 } };

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl top");
	check_code(f, EXIT_OK);
	check_has(f, "instances: 2, running: 1; memory committed: 1 GiB of 8 GiB\n");
	check_has(f, "RUNNING  1.50 s      -  512 MiB     1 MiB  4 KiB        0      -\n");
	check_has(f, "FAILED        -      -        0         -      -        -      -\n");
	sh(f, "bcctl top -o json");
	check_has(f, "\"residentBytes\":\"1048576\"");
}

static void top_stays_on_its_screen(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = { { .method = "bc.v1.Converger/GetStatus",
		                                         .replies = { STATUS } },
		{ .method = "bc.v1.Intelligence/ListVms", .replies = { "{}" } }, { 0 } };

	put(f, "screen.py",
	        "import fcntl, os, pty, select, struct, sys, termios\n"
	        "rows, shown = int(sys.argv[1]), sys.argv[2:]\n"
	        "pid, fd = pty.fork()\n"
	        "if pid == 0:\n"
	        "    sys.stdin.readline()\n"
	        "    os.execvp('bcctl', ['bcctl', 'top'])\n"
	        "fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, 40, 0, 0))\n"
	        "os.write(fd, b'go\\n')\n"
	        "seen = b''\n"
	        "patience = int(os.environ['TEST_TIMEOUT_SEC'])\n"
	        "while b'\\x1b[?7h' not in seen:\n"
	        "    if not select.select([fd], [], [], patience)[0]: sys.exit('only ' + repr(seen))\n"
	        "    seen += os.read(fd, 4096)\n"
	        "os.write(fd, b'\\x03')\n"
	        "os.waitpid(pid, 0)\n"
	        "screen = seen[seen.index(b'\\x1b[J'):].decode()\n"
	        "assert screen.count('\\n') <= max(rows - 1, 3), screen\n"
	        "for text in shown: assert text in screen, (text, screen)\n");
	stand_in_play(f->services, SCRIPTS);
	sh(f, "TERM=xterm /usr/bin/python3 screen.py 5 " ID " " ID_2);
	check_code(f, EXIT_OK);
	sh(f, "TERM=xterm /usr/bin/python3 screen.py 4 'and 2 more'");
	check_code(f, EXIT_OK);
	sh(f, "TERM=xterm /usr/bin/python3 screen.py 2 'and 2 more'");
	check_code(f, EXIT_OK);
}

static void a_drain_and_its_end(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/Drain", .replies = { "{running: 2}" } }, { 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl drain --stop");
	check_has(f, "still running: 2.");
	assert_string_equal(stand_in_heard(f->services, "bc.v1.Converger/Drain"),
	        "{\"drain\":true,\"stopInstances\":true}");
	sh(f, "bcctl drain --undo");
	assert_string_equal(stand_in_heard(f->services, "bc.v1.Converger/Drain"), "{}");
}

static void doctor_names_what_services_lack(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/GetNode",
		        .replies = { "{nodeId: n1, version: 1.2.3, drivers: [{kind: "
		                     "control-plane, id: 'cp:7443', reachability: "
		                     "ERROR, message: no route}, {kind: runtime, id: "
		                     "ch, reachability: BUSY}]}" } },
		{ .method = "bc.v1.Netd/Hello",
		        .replies = { "{version: 1.2.3, missing: ['filter: no nftables'], allowedBridges: [br0]}" } },
		{ .method = "bc.v1.Runtime/Describe", .replies = { "{id: fake, version: 1.2.3}" } },
		{ .method = "bc.v1.Runtime/List", .replies = { "{domains: [{id: a}]}" }, .uses = 1 },
		{ .method = "bc.v1.Runtime/List",
		        .code = GRPC_STATUS_UNAVAILABLE,
		        .text = "libvirtd is gone" },
		{ .method = "bc.v1.Intelligence/Status", .code = GRPC_STATUS_INTERNAL, .text = "broken" },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl doctor");
	check_has(f, "OK    converger");
	check_has(f, "WARN  converger     no session with the control plane at cp:7443: no route");
	check_has(f, "WARN  converger     it cannot use ch: no answer yet");
	check_has(f, "WARN  netd");
	check_has(f, "missing filter: no nftables");
	check_has(f, "mend: journalctl -u bc-netd");
	check_has(f, "OK    runtime       fake 1.2.3, 1 domain");
	check_has(f, "mend: journalctl -u bc-intelligence");
	sh(f, "bcctl doctor -o json");
	check_has(f, "\"detail\": \"missing filter: no nftables\"");
	check_has(f, "fake does not say what it holds: libvirtd is gone");
	check_has(f, "\"mend\": \"journalctl -u bc-runtime-fake\"");
}

static void ids_are_completed_by_asking(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/GetStatus", .replies = { STATUS } }, { 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	/* It asks for a second and no longer; a person who got nothing presses Tab again. */
	sh(f, "until bcctl __complete -- describe 7 | grep .; do :; done");
	assert_string_equal(f->output.text, ID_2 "\n");
	sh(f, "until bcctl __complete -- runtime list '' | grep .; do :; done");
	assert_string_equal(f->output.text, "fake\n");
	/* the script of a shell, in that shell */
	sh(f,
	        "bash -c 'source <(bcctl completion bash); COMP_WORDS=(bcctl console 6); COMP_CWORD=2; "
	        "until _bcctl; [ \"${COMPREPLY[*]}\" ]; do :; done; printf \"%%s,\" \"${COMPREPLY[@]}\"'");
	assert_string_equal(f->output.text, ID ",");
	/* nobody to ask is no noise */
	sh(f, "bcctl --run-dir /nonexistent __complete -- describe ''");
	check_code(f, EXIT_OK);
	assert_string_equal(f->output.text, "");
}

static void a_reader_that_went_away_is_no_noise(void **state)
{
	struct fixture *f = *state;
	static const struct script SCRIPTS[] = {
		{ .method = "bc.v1.Converger/WatchStatus",
		        .replies = { DELTA("RUNNING", ""), DELTA("PAUSED", "") },
		        .hang = true },
		{ 0 }
	};

	stand_in_play(f->services, SCRIPTS);
	sh(f, "bcctl watch 2>err | head -n 1; cat err");
	check_has(f, "RUNNING");
	assert_null(strstr(f->output.text, "bcctl:"));
}

TEST_SUITE(contract_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tables_for_people),
		TEST(data_for_programs),
		TEST(an_instance_is_found_by_the_beginning_of_its_id),
		TEST(more_than_one_message_holds_is_shown_all_the_same),
		TEST(all_of_one_instance),
		TEST(all_that_was_wished_of_one_instance),
		TEST(every_kind_of_failure_has_its_exit_code),
		TEST(a_service_that_does_not_answer_is_busy),
		TEST(absence_and_refusal_are_told_apart),
		TEST(a_service_that_ended_is_not_taken_for_a_refusal),
		TEST(a_spec_is_compared_and_applied),
		TEST(faults_of_a_spec_reach_the_person),
		TEST(a_wait_ends_when_all_is_as_wished),
		TEST(a_wait_ends_with_a_final_failure_or_its_time),
		TEST(secrets_are_answered_from_files),
		TEST(a_secret_that_is_not_there_is_said_so),
		TEST(a_watch_outlives_a_restart),
		TEST(events_are_shown_and_followed),
		TEST(a_snapshot_shows_how_far_it_is),
		TEST(a_console_echoes_what_a_pipe_says),
		TEST(a_console_is_left_when_a_text_was_seen),
		TEST(a_console_that_is_taken),
		TEST(a_terminal_is_given_back),
		TEST(netd_is_looked_at_and_cleaned),
		TEST(runtimes_are_found_by_their_sockets),
		TEST(top_shows_what_has_no_source_as_such),
		TEST(top_stays_on_its_screen),
		TEST(a_drain_and_its_end),
		TEST(doctor_names_what_services_lack),
		TEST(ids_are_completed_by_asking),
		TEST(a_reader_that_went_away_is_no_noise),
	};
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
