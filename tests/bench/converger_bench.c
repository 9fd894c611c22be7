/* What the converger costs: it runs beside the fake runtime, both as they are installed, and is measured from
 * outside (CPU time of its threads, resident memory) and from a client of both sockets.
 *
 *   converger_bench BIN_DIR     ends with noop_1000_cpu_ms= change_ms= growth_100_10000= rss_mib_10000= storm_mib=
 *
 * storm_mib is what the converger grows by while every one of 1,000 instances changes 20 times under the eyes of a
 * watcher that does not read. */
#include "tests/bench/measure.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/tree.h"
#include "lib/rpc/client.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/runtime.pb-c.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { INSTANCES_MAX = 10000, CHANGES = 41, STORM_ROUNDS = 20, PATIENCE_SEC = 300, RESYNC_MSEC = 250 };

#define STATE(name) BC__V1__INSTANCE_SPEC__DESIRED_STATE__##name

struct bench {
	struct loop *loop;
	char dir[64];
	const char *bin_dir;
	pid_t converger, fake;
	int converger_pidfd, fake_pidfd;
	struct rpc_channel *to_converger, *to_fake;
	uint64_t revision;

	/* what the Watch of the fake says */
	struct rpc_request *watch;
	size_t n_running;
	unsigned char states[INSTANCES_MAX]; /* of Domain */
	uint64_t changed_usec;               /* when the instance that is waited for changed */
	size_t wait_for;                     /* its number */
	size_t n_wanted;                     /* running */

	/* the spec */
	Bc__V1__InstanceSpec items[INSTANCES_MAX];
	Bc__V1__InstanceSpec *pointers[INSTANCES_MAX];
	char ids[INSTANCES_MAX][40];
	Bc__V1__Boot boot;
	Bc__V1__KernelBoot kernel;
	Bc__V1__Nic nic;
	Bc__V1__Nic *nic_pointer;
	Bc__V1__UserAttachment user;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "converger_bench: %s\n", what);
	exit(1);
}

/* --- the two services --- */

static void write_file(const struct bench *b, const char *name, const char *fmt)
{
	char path[160];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", b->dir, name);
	f = fopen(path, "we");
	if (!f)
		die("cannot write its configuration");
	for (const char *p = fmt; *p; p++)
		if (*p == '@')
			(void)fputs(b->dir, f);
		else
			(void)fputc(*p, f);
	(void)fclose(f);
}

static pid_t spawn(
        const struct bench *b, const char *program, const char *conf, const char *log, int *ret_pidfd)
{
	char path[512], conf_path[160], log_path[160];
	const char *argv[] = { path, "--config", conf_path, NULL };
	CLEANUP_CLOSE int log_fd = -EBADF;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/%s", b->bin_dir, program);
	(void)snprintf(conf_path, sizeof(conf_path), "%s/%s", b->dir, conf);
	(void)snprintf(log_path, sizeof(log_path), "%s/%s", b->dir, log);
	log_fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct process_fd fds[] = { { .from = log_fd, .to = 2 } };
	struct process_options options = { .argv = argv, .fds = fds, .n_fds = 1 };
	if (process_spawn(&options, &pid, ret_pidfd) < 0)
		die("cannot start a service");
	return pid;
}

static void services_start(struct bench *b)
{
	char path[160];

	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/bc-bench-XXXXXX");
	if (!mkdtemp(b->dir))
		die("cannot make a directory");
	(void)snprintf(path, sizeof(path), "%s/run", b->dir);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/data", b->dir);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/fake", b->dir);
	(void)mkdir(path, 0755);
	write_file(b, "fake.conf",
	        "[service]\nsocket=@/run/runtime-fake.sock\ndata_dir=@/fake\nlog_level=error\n");
	write_file(b, "converger.conf",
	        "[service]\nsocket=@/run/converger.sock\ndata_dir=@/data\nlog_level=info\n"
	        "[node]\nid=bench\nrun_dir=@/run\nnetd_socket=@/run/netd.sock\n"
	        "intelligence_socket=@/run/intelligence.sock\ninstances_dir=@/instances\n"
	        "[reconciler]\nresync=250ms\n");
	b->fake = spawn(b, "bc-runtime-fake", "fake.conf", "fake.log", &b->fake_pidfd);
	b->converger = spawn(b, "bc-converger", "converger.conf", "converger.log", &b->converger_pidfd);
}

static void service_end(pid_t pid, int pidfd)
{
	int status;

	(void)kill(pid, SIGTERM);
	if (process_wait(pidfd, 20 * USEC_PER_SEC, &status) < 0) {
		(void)kill(pid, SIGKILL);
		(void)process_wait(pidfd, UINT64_MAX, &status);
	}
	(void)close(pidfd);
}

/* --- measuring --- */

/* CPU time of the whole process, in nanoseconds. */
static uint64_t cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec t;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		die("cannot read a process's CPU time");
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* --- running the loop until something is so --- */

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	(void)userdata;
	die("it did not come true in time");
	return 0;
}

static void run_until_exit(struct bench *b)
{
	sd_event_source *timer = NULL;

	(void)sd_event_add_time_relative(loop_event(b->loop), &timer, CLOCK_MONOTONIC,
	        PATIENCE_SEC * USEC_PER_SEC, USEC_PER_SEC, on_patience, NULL);
	(void)loop_run(b->loop);
	sd_event_source_disable_unref(timer);
}

static int on_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(userdata, 0);
	return 0;
}

static void run_for(struct bench *b, uint64_t usec)
{
	sd_event_source *timer = NULL;

	(void)sd_event_add_time_relative(
	        loop_event(b->loop), &timer, CLOCK_MONOTONIC, usec, 1, on_pause, b->loop);
	(void)loop_run(b->loop);
	sd_event_source_disable_unref(timer);
}

/* --- the Watch of the fake --- */

static void on_event(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	struct bench *b = userdata;
	const Bc__V1__DomainEvent *event = (const Bc__V1__DomainEvent *)message;
	unsigned long number;

	rpc_request_read(stream);
	if (!event->domain)
		return;
	number = strtoul(event->domain->id + 24, NULL, 16);
	if (number >= INSTANCES_MAX)
		return;
	unsigned char state =
	        event->type == BC__V1__DOMAIN_EVENT__TYPE__GONE ? 0 : (unsigned char)event->domain->state;
	b->n_running += state == BC__V1__DOMAIN__STATE__RUNNING;
	b->n_running -= b->states[number] == BC__V1__DOMAIN__STATE__RUNNING;
	bool is_waited_for = number == b->wait_for && state != b->states[number];
	b->states[number] = state;
	if (is_waited_for) {
		b->changed_usec = clock_monotonic_usec();
		loop_exit(b->loop, 0);
	} else if (b->wait_for == SIZE_MAX && b->n_wanted != SIZE_MAX && b->n_running == b->n_wanted) {
		loop_exit(b->loop, 0);
	}
}

static void on_watch_end(const struct rpc_status *status, void *userdata)
{
	struct bench *b = userdata;

	if (b->watch && status->code != GRPC_STATUS_CANCELLED)
		die(status->message);
	b->watch = NULL;
}

static void watch_start(struct bench *b)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_event, .on_end = on_watch_end };
	Bc__V1__RuntimeWatchRequest request = BC__V1__RUNTIME_WATCH_REQUEST__INIT;

	b->watch = rpc_stream(b->to_fake,
	        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, watch), &request.base,
	        UINT64_MAX, &handlers, b);
	rpc_request_read(b->watch);
}

/* --- specs --- */

static void spec_make(struct bench *b)
{
	bc__v1__boot__init(&b->boot);
	bc__v1__kernel_boot__init(&b->kernel);
	bc__v1__nic__init(&b->nic);
	bc__v1__user_attachment__init(&b->user);
	b->kernel.kernel = (char *)"/boot/vmlinux";
	b->kernel.cmdline = (char *)"console=ttyS0 quiet";
	b->boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	b->boot.kernel = &b->kernel;
	b->nic.attachment_case = BC__V1__NIC__ATTACHMENT_USER;
	b->nic.user = &b->user;
	b->nic_pointer = &b->nic;
	for (size_t i = 0; i < INSTANCES_MAX; i++) {
		Bc__V1__InstanceSpec *item = &b->items[i];

		bc__v1__instance_spec__init(item);
		(void)snprintf(b->ids[i], sizeof(b->ids[i]), "00000000-0000-4000-8000-%012zx", i);
		item->id = b->ids[i];
		item->allocation_id = b->ids[i];
		item->runtime = (char *)"fake";
		item->desired_state = STATE(RUNNING);
		item->vcpus = 1;
		item->memory_bytes = 64 << 20;
		item->boot = &b->boot;
		item->n_nics = 1;
		item->nics = &b->nic_pointer;
		b->pointers[i] = item;
	}
}

struct applied {
	struct bench *bench;
	bool is_done;
};

static void on_applied(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct applied *applied = userdata;

	(void)reply;
	if (status->code != GRPC_STATUS_OK)
		die(status->message);
	applied->is_done = true;
}

static struct applied last_apply;

/* Sends the first n of them; the answer is not waited for. */
static void apply(struct bench *b, size_t n)
{
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	Bc__V1__NodeSpec spec = BC__V1__NODE_SPEC__INIT;
	Bc__V1__Instances instances = BC__V1__INSTANCES__INIT;

	instances.n_items = n;
	instances.items = b->pointers;
	spec.revision = ++b->revision;
	spec.instances = &instances;
	request.spec = &spec;
	last_apply = (struct applied){ .bench = b };
	(void)rpc_unary(b->to_converger,
	        RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, apply), &request.base,
	        60 * USEC_PER_SEC, on_applied, &last_apply);
}

/* Brings the host to n running instances; returns what the converger paid for each that is new, in ns. */
static double grow_to(struct bench *b, size_t n)
{
	size_t n_before = b->n_running;
	uint64_t begun_ns = cpu_ns(b->converger), begun_usec = clock_monotonic_usec();

	b->wait_for = SIZE_MAX;
	b->n_wanted = n;
	apply(b, n);
	if (b->n_running != n)
		run_until_exit(b);
	b->n_wanted = SIZE_MAX;
	while (!last_apply.is_done)
		run_for(b, 1000);
	run_for(b, 100 * USEC_PER_MSEC);
	double each = (double)(cpu_ns(b->converger) - begun_ns) /
	        (double)(n > n_before ? n - n_before : n_before - n);
	(void)printf("%zu instances running, %.0f ms after the Apply; %.1f us of CPU each\n", n,
	        (double)(clock_monotonic_usec() - begun_usec) / 1000 - 100, each / 1000);
	return each;
}

static double measure_noop(struct bench *b, unsigned rounds)
{
	uint64_t begun_ns, begun_usec;

	run_for(b, USEC_PER_SEC);
	begun_ns = cpu_ns(b->converger);
	begun_usec = clock_monotonic_usec();
	run_for(b, rounds * RESYNC_MSEC * USEC_PER_MSEC);
	return (double)(cpu_ns(b->converger) - begun_ns) / 1e6 /
	        ((double)(clock_monotonic_usec() - begun_usec) / (RESYNC_MSEC * 1000.0));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void on_set(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	(void)reply;
	(void)userdata;
	if (status->code != GRPC_STATUS_OK)
		die(status->message);
}

/* The same change asked of the runtime itself: what it and the way to us cost, in ms. The converger sees it, and
 * puts it right. */
static double change_directly(struct bench *b, size_t number)
{
	Bc__V1__SetStateRequest request = BC__V1__SET_STATE_REQUEST__INIT;
	uint64_t begun_usec;
	double ms;

	request.id = b->ids[number];
	request.state = STATE(PAUSED);
	b->wait_for = number;
	(void)rpc_unary(b->to_fake,
	        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, set_state), &request.base,
	        60 * USEC_PER_SEC, on_set, b);
	begun_usec = clock_monotonic_usec();
	run_until_exit(b);
	ms = (double)(b->changed_usec - begun_usec) / 1000;
	run_until_exit(b); /* put right */
	b->wait_for = SIZE_MAX;
	return ms;
}

/* The same change by way of an Apply of all n instances. */
static double change_by_apply(struct bench *b, size_t number, size_t n)
{
	Bc__V1__InstanceSpec *item = &b->items[number];
	uint64_t begun_usec;
	double ms;

	item->desired_state = item->desired_state == STATE(RUNNING) ? STATE(PAUSED) : STATE(RUNNING);
	b->wait_for = number;
	apply(b, n);
	begun_usec = clock_monotonic_usec(); /* packed and on its way */
	run_until_exit(b);
	ms = (double)(b->changed_usec - begun_usec) / 1000;
	b->wait_for = SIZE_MAX;
	while (!last_apply.is_done)
		run_for(b, 1000);
	return ms;
}

/* What the disk takes for a commit of a few pages, in ms: nothing is accepted before. */
static double sync_once(int fd)
{
	static const char pages[8240];
	uint64_t begun_usec = clock_monotonic_usec();

	if (write(fd, pages, sizeof(pages)) != sizeof(pages) || fdatasync(fd) < 0)
		die("cannot write to the disk");
	return (double)(clock_monotonic_usec() - begun_usec) / 1000;
}

/* From the Apply to the change reaching the runtime: the one less the other, of medians, in ms. */
static double measure_change(struct bench *b, size_t n)
{
	double applied[CHANGES], direct[CHANGES], synced[CHANGES];
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/synced", b->dir);
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (size_t i = 0; i < CHANGES; i++) {
		synced[i] = sync_once(fd);
		direct[i] = change_directly(b, n / 3);
		run_for(b, 10 * USEC_PER_MSEC);
		applied[i] = change_by_apply(b, n / 2, n);
		run_for(b, 10 * USEC_PER_MSEC);
	}
	qsort(applied, CHANGES, sizeof(applied[0]), compare);
	qsort(direct, CHANGES, sizeof(direct[0]), compare);
	qsort(synced, CHANGES, sizeof(synced[0]), compare);
	b->items[n / 2].desired_state = STATE(RUNNING);
	(void)printf("one change by Apply: %.2f ms at best, %.2f in the middle; asked directly: %.2f, %.2f; "
	             "the disk alone: %.2f, %.2f\n",
	        applied[0], applied[CHANGES / 2], direct[0], direct[CHANGES / 2], synced[0],
	        synced[CHANGES / 2]);
	return applied[CHANGES / 2] - direct[CHANGES / 2];
}

/* --- a storm, and a reader that stalls --- */

struct stalled {
	struct loop *loop;
	struct rpc_request *watch; /* weak; NULL: ended */
	bool reads;
	size_t n_statuses;
	Bc__V1__InstanceStatus__State last[INSTANCES_MAX]; /* as told */
	size_t n_running;                                  /* of them */
	size_t n_wanted;                                   /* running; the loop ends then */
};

static void on_stalled_delta(struct rpc_request *stream, const ProtobufCMessage *message, void *userdata)
{
	const Bc__V1__StatusDelta *delta = (const Bc__V1__StatusDelta *)message;
	struct stalled *stalled = userdata;

	if (stalled->reads)
		rpc_request_read(stream);
	for (size_t i = 0; i < delta->n_instances; i++) {
		unsigned long number = strtoul(delta->instances[i]->id + 24, NULL, 16);

		if (number >= INSTANCES_MAX)
			continue;
		stalled->n_statuses++;
		stalled->n_running -= stalled->last[number] == BC__V1__INSTANCE_STATUS__STATE__RUNNING;
		stalled->last[number] = delta->instances[i]->state;
		stalled->n_running += stalled->last[number] == BC__V1__INSTANCE_STATUS__STATE__RUNNING;
	}
	if (stalled->reads && stalled->n_running == stalled->n_wanted)
		loop_exit(stalled->loop, 0);
}

static void on_stalled_end(const struct rpc_status *status, void *userdata)
{
	struct stalled *stalled = userdata;

	if (stalled->watch && status->code != GRPC_STATUS_CANCELLED)
		die(status->message);
	stalled->watch = NULL;
}

static void change_all(struct bench *b, size_t n, Bc__V1__InstanceSpec__DesiredState state, size_t n_running)
{
	for (size_t i = 0; i < n; i++)
		b->items[i].desired_state = state;
	b->n_wanted = n_running;
	apply(b, n);
	run_until_exit(b);
	b->n_wanted = SIZE_MAX;
	while (!last_apply.is_done)
		run_for(b, 1000);
}

/* MiB of growth. */
static double measure_storm(struct bench *b, size_t n)
{
	static const struct rpc_stream_handlers handlers = { .on_message = on_stalled_delta,
		.on_end = on_stalled_end };
	struct stalled *stalled = calloc(1, sizeof(*stalled));
	Bc__V1__WatchStatusRequest request = BC__V1__WATCH_STATUS_REQUEST__INIT;
	struct rpc_channel *channel = NULL;
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/run/converger.sock", b->dir);
	if (!stalled || rpc_channel_new_unix(b->loop, path, &channel) < 0)
		die("no reader");
	stalled->loop = b->loop;
	stalled->n_wanted = n;
	b->wait_for = SIZE_MAX;
	/* Once without it: what any storm costs is there already. */
	change_all(b, n, STATE(PAUSED), 0);
	change_all(b, n, STATE(RUNNING), n);
	run_for(b, 100 * USEC_PER_MSEC);
	double before = measure_rss_mib(b->converger);
	uint64_t begun_ns = cpu_ns(b->converger);
	stalled->watch = rpc_stream(channel,
	        RPC_METHOD(Bc__V1__Converger_Service, bc__v1__converger__descriptor, watch_status),
	        &request.base, UINT64_MAX, &handlers, stalled);
	for (int i = 0; i < STORM_ROUNDS; i += 2) {
		change_all(b, n, STATE(PAUSED), 0);
		change_all(b, n, STATE(RUNNING), n);
	}
	double each_us = (double)(cpu_ns(b->converger) - begun_ns) / 1e3 / (double)(n * STORM_ROUNDS);
	double after = measure_rss_mib(b->converger);
	stalled->reads = true;
	rpc_request_read(stalled->watch);
	run_until_exit(b); /* it knows what is true now */
	(void)printf(
	        "%zu changes of %zu instances past a reader that stalls: %.1f us of CPU each, %.1f MiB before, "
	        "%.1f after; it was told %zu statuses\n",
	        n * STORM_ROUNDS, n, each_us, before, after, stalled->n_statuses);
	stalled->watch = NULL;
	rpc_channel_free(channel);
	run_for(b, 50 * USEC_PER_MSEC);
	free(stalled);
	return after - before;
}

int main(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	char path[160];
	sigset_t set;

	if (argc != 2 || !b)
		die("usage: converger_bench BIN_DIR");
	b->bin_dir = argv[1];
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	services_start(b);
	if (loop_new(&b->loop) < 0)
		die("no loop");
	spec_make(b);
	(void)snprintf(path, sizeof(path), "%s/run/converger.sock", b->dir);
	(void)rpc_channel_new_unix(b->loop, path, &b->to_converger);
	(void)snprintf(path, sizeof(path), "%s/run/runtime-fake.sock", b->dir);
	(void)rpc_channel_new_unix(b->loop, path, &b->to_fake);
	run_for(b, USEC_PER_SEC); /* both are up */
	watch_start(b);
	(void)printf("idle: %.1f MiB\n", measure_rss_mib(b->converger));

	/* Warm: the first few pay for what is made once. */
	(void)grow_to(b, 100);
	(void)grow_to(b, 0);
	double each_100 = 0;
	for (int i = 0; i < 5; i++) {
		each_100 += grow_to(b, 100) / 5;
		(void)grow_to(b, 0);
	}
	(void)grow_to(b, 1000);
	(void)printf("with 1000: %.1f MiB\n", measure_rss_mib(b->converger));
	double noop_ms = measure_noop(b, 40);
	double change_ms = measure_change(b, 1000);
	double storm_mib = measure_storm(b, 1000);
	(void)grow_to(b, 0);
	double each_10000 = grow_to(b, 10000);
	run_for(b, USEC_PER_SEC);
	double rss = measure_rss_mib(b->converger);
	(void)printf("no-op resync of 10000: %.2f ms of CPU\n", measure_noop(b, 10));

	b->watch = NULL;
	rpc_channel_free(b->to_converger);
	rpc_channel_free(b->to_fake);
	run_for(b, 50 * USEC_PER_MSEC);
	service_end(b->converger, b->converger_pidfd);
	service_end(b->fake, b->fake_pidfd);
	(void)remove_tree(AT_FDCWD, b->dir);
	(void)loop_free(b->loop);
	free(b);
	(void)printf("noop_1000_cpu_ms=%.2f change_ms=%.2f growth_100_10000=%.2f rss_mib_10000=%.1f "
	             "storm_mib=%.1f\n",
	        noop_ms, change_ms, each_10000 / each_100, rss, storm_mib);
	return 0;
}
