/* What real guests say on their serial ports, who hears it, and when. */
#include "tests/libvirt/real.h"

#include "lib/base/clock.h"
#include "svc-runtime-libvirt/console.h"
#include "svc-runtime-libvirt/consoles.h"
#include "svc-runtime-libvirt/domain_ops.h"
#include "tests/harness/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct client {
	struct console_client client;
	int over; /* 1: not yet, else what on_over said */
	char why[128];
};

static void on_more(struct console_client *client)
{
	(void)client;
}

static void on_over(struct console_client *client, int r, const char *why)
{
	struct client *c = CONTAINER_OF(client, struct client, client);

	c->over = r;
	(void)snprintf(c->why, sizeof(c->why), "%s", why);
}

static void client_init(struct client *c, const char *name)
{
	*c = (struct client){ .client = { .on_more = on_more, .on_over = on_over }, .over = 1 };
	(void)snprintf(c->client.name, sizeof(c->client.name), "%s", name);
}

static struct console *console_of(struct real *real, const char *id)
{
	struct domain_entry *entry = real_find(real, id);

	assert_non_null(entry);
	assert_non_null(entry->console);
	return entry->console;
}

static void start_shell(struct real *real, struct real_request *request)
{
	real_request_kernel(real, request, "");
	assert_int_equal(real_ensure(real, request), 0);
	assert_int_equal(real_run(real, request->id), 0);
	real_wait_output(real, request->id, "GUEST-READY");
}

static void late_reader_gets_the_last_64_kib(void **state)
{
	static char text[CONSOLE_RING_BYTES + 1];
	struct real *real = *state;
	struct real_request request;
	struct client reader;
	uint64_t backlog;
	size_t n = 0, got;

	start_shell(real, &request);
	real_type(real, request.id, "seq 100000 120000; echo all-$((1+1))\n");
	real_wait_output(real, request.id, "all-2");
	client_init(&reader, "reader");
	assert_int_equal(
	        console_open(console_of(real, request.id), &reader.client, false, false, &backlog, NULL), 0);
	assert_int_equal(backlog, CONSOLE_RING_BYTES);
	while (n < backlog &&
	        (got = console_read(
	                 console_of(real, request.id), &reader.client, text + n, sizeof(text) - 1 - n)) > 0)
		n += got;
	assert_int_equal(n, backlog);
	/* its end, whole and in order */
	const char *last = strstr(text, "120000");
	assert_non_null(last);
	assert_non_null(strstr(last, "all-2"));
	for (unsigned i = 113000; i < 120000; i++) {
		char line[16];
		(void)snprintf(line, sizeof(line), "%u\r\n%u", i, i + 1);
		assert_non_null(strstr(text, line));
	}
	assert_null(strstr(text, "GUEST-READY"));
	console_close(console_of(real, request.id), &reader.client);
	/* QEMU's own log does not grow for ever either */
	char path[256];
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/%s/serial.log", real->root.instances, request.id);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 128 << 10);
	assert_true((uint64_t)st.st_blocks * 512 <= (64 << 10) + (64 << 10) / 4 + 8192);
	assert_int_equal(real_remove(real, request.id), 0);
}

static void console_outlives_a_reboot(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct client reader;
	uint64_t backlog;

	start_shell(real, &request);
	client_init(&reader, "reader");
	assert_int_equal(
	        console_open(console_of(real, request.id), &reader.client, false, true, &backlog, NULL), 0);
	int64_t pid = real_find(real, request.id)->look.pid;
	real_type(real, request.id, "echo before-$((1+1)); hostname again; reboot -f\n");
	console_close(console_of(real, request.id), &reader.client);
	real_wait_output(real, request.id, "before-2");
	real_mark(real, request.id);
	real_wait_output(real, request.id, "GUEST-READY");
	assert_int_equal(real_find(real, request.id)->look.pid, pid);
	assert_int_equal(real_find(real, request.id)->condition.state, DOMAIN_RUNNING);
	real_type(real, request.id, "echo after-$((1+1))\n");
	real_wait_output(real, request.id, "after-2");
	assert_int_equal(real_remove(real, request.id), 0);
}

static bool is_over(struct real *real, void *arg)
{
	const struct client *c = arg;

	(void)real;
	return c->over != 1;
}

static void one_client_at_a_time_is_told_why(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct client first, second;
	struct err err = { 0 };
	uint64_t backlog;
	char chunk[4096];

	real_request_smallest(real, &request);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	client_init(&first, "uid 1, pid 2");
	client_init(&second, "uid 3, pid 4");
	struct console *console = console_of(real, request.id);
	assert_int_equal(console_open(console, &first.client, false, false, &backlog, NULL), 0);
	assert_int_equal(console_open(console, &second.client, false, false, &backlog, &err), -EBUSY);
	assert_non_null(strstr(err.text, "uid 1, pid 2"));
	assert_int_equal(first.over, 1);
	assert_int_equal(console_open(console, &second.client, true, false, &backlog, NULL), 0);
	assert_int_equal(first.over, -EBUSY);
	assert_non_null(strstr(first.why, "uid 3, pid 4"));
	/* who has gone has gone: it disturbs nobody */
	console_close(console, &first.client);
	assert_int_equal(console_open(console, &first.client, false, false, &backlog, NULL), -EBUSY);
	/* the end of the guest is the end of the session, once it has all been read */
	assert_int_equal(real_stop(real, request.id, 1), 0);
	while (second.over == 1) {
		while (console_read(console, &second.client, chunk, sizeof(chunk)) > 0)
			;
		if (second.over == 1)
			real_wait(real, real_port_is_closed, request.id);
	}
	assert_true(is_over(real, &second));
	assert_int_equal(second.over, 0);
	/* and a removal ends one that is open on an instance that is off */
	assert_int_equal(console_open(console, &first.client, false, true, &backlog, NULL), 0);
	first.over = 1;
	assert_int_equal(real_remove(real, request.id), 0);
	assert_int_equal(first.over, -ENOENT);
}

static size_t count_fds(void)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n;
}

static bool is_attached(struct real *real, void *arg)
{
	return console_attached(console_of(real, arg)) && runtime_is_idle(real->runtime);
}

static void ports_opened_200_times_leave_no_descriptor(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_smallest(real, &request);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	real_wait(real, is_attached, request.id);
	size_t before = count_fds();
	for (int i = 0; i < 200; i++) {
		console_shut_down(console_of(real, request.id));
		consoles_attach_all(real->runtime);
		real_wait(real, is_attached, request.id);
	}
	assert_int_equal(count_fds(), before);
	assert_int_equal(real_remove(real, request.id), 0);
}

/* A job that waits until its pipe is closed. */
struct held {
	struct job job;
	int fd;
};

static void held_run(struct job *job)
{
	char c;

	assert_int_equal(read(CONTAINER_OF(job, struct held, job)->fd, &c, 1), 0);
}

static void held_done(struct job *job)
{
	(void)job;
}

static bool is_done(struct real *real, void *pool)
{
	(void)real;
	return job_pool_pending(pool) == 0;
}

static void a_port_is_closed_however_much_waits(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct serial_tap *tap = NULL;
	struct job_pool *pool;
	struct held held[3];
	int fds[2], r = 0;

	real_request_smallest(real, &request);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait(real, is_attached, request.id);
	console_shut_down(console_of(real, request.id));
	real_wait(real, real_is_idle, NULL);
	size_t before = count_fds();
	virConnectPtr conn = virt_ref(real->runtime->virt);
	assert_int_equal(domain_op_attach(conn, request.id, real->loop, &tap, NULL), 0);
	(void)virConnectClose(conn);
	assert_true(count_fds() > before);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(job_pool_new(real->loop, "held", 1, 1, &pool), 0);
	for (size_t i = 0; i < ARRAY_SIZE(held) && r == 0; i++) {
		held[i] = (struct held){ { .run = held_run, .done = held_done }, fds[0] };
		r = job_submit(pool, &held[i].job);
	}
	assert_int_equal(r, -EAGAIN);
	tap = serial_tap_close(tap, pool);
	(void)close(fds[1]);
	real_wait(real, is_done, pool);
	(void)close(fds[0]);
	pool = job_pool_free(pool);
	assert_int_equal(count_fds(), before);
	assert_int_equal(real_remove(real, request.id), 0);
}

static void port_taken_by_somebody_else_comes_back(void **state)
{
	struct real *real = *state;
	struct real_request request;

	start_shell(real, &request);
	real_wait(real, is_attached, request.id);
	/* as `virsh console --force` would */
	virConnectPtr conn = virt_ref(real->runtime->virt);
	virDomainPtr domain = virDomainLookupByUUIDString(conn, request.id);
	virStreamPtr stream = virStreamNew(conn, 0);
	assert_int_equal(virDomainOpenConsole(domain, NULL, stream, VIR_DOMAIN_CONSOLE_FORCE), 0);
	real_wait(real, real_port_is_closed, request.id);
	/* it is theirs while they want it */
	consoles_attach_all(real->runtime);
	real_wait(real, real_is_idle, NULL);
	assert_false(console_attached(console_of(real, request.id)));
	(void)virStreamAbort(stream);
	(void)virStreamFree(stream);
	(void)virDomainFree(domain);
	(void)virConnectClose(conn);
	real_wait(real, is_attached, request.id);
	real_type(real, request.id, "echo back-$((1+1))\n");
	real_wait_output(real, request.id, "back-2");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void panic_is_told(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "bc.role=panic");
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_state(real, request.id, DOMAIN_CRASHED);
	assert_string_equal(real_find(real, request.id)->condition.reason, "GuestPanicked");
	/* QEMU stops it before the console has the rest */
	real_wait_output(real, request.id, "Trigger a crash");
	/* started again it is a run of its own, and of the one before nothing is told */
	(void)strcpy(strstr(request.cmdline, "bc.role"), "bc.role=shell");
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	assert_int_equal(real_stop(real, request.id, 1), 0);
	assert_string_equal(real_find(real, request.id)->condition.reason, "");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void job_says_that_it_is_complete(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "");
	request.spec.kind = BC__V1__INSTANCE_SPEC__KIND__JOB;
	assert_int_equal(real_ensure(real, &request), 0);
	for (int complete = 1; complete >= 0; complete--) {
		assert_int_equal(real_run(real, request.id), 0);
		real_wait_output(real, request.id, "GUEST-READY");
		assert_false(real_find(real, request.id)->completed);
		real_type(real, request.id,
		        complete ? "echo GUEST-COMPLETE; poweroff -f\n"
		                 : "echo not GUEST-COMPLETE; poweroff -f\n");
		real_wait_state(real, request.id, DOMAIN_STOPPED);
		real_wait(real, real_port_is_closed, request.id);
		assert_int_equal(real_find(real, request.id)->completed, complete);
		real_restart(real);
		assert_int_equal(real_find(real, request.id)->completed, complete);
	}
	assert_int_equal(real_remove(real, request.id), 0);
}

TEST_SUITE(console_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_reader_gets_the_last_64_kib),
		cmocka_unit_test(console_outlives_a_reboot),
		cmocka_unit_test(one_client_at_a_time_is_told_why),
		cmocka_unit_test(ports_opened_200_times_leave_no_descriptor),
		cmocka_unit_test(a_port_is_closed_however_much_waits),
		cmocka_unit_test(port_taken_by_somebody_else_comes_back),
		cmocka_unit_test(panic_is_told),
		cmocka_unit_test(job_says_that_it_is_complete),
	};

	return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
