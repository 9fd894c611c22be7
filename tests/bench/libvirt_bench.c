/* What bc-runtime-libvirt costs beside libvirt alone: a guest created by two calls of bc.v1.Runtime (Ensure, SetState)
 * and the same definition started by virDomainCreateXML, one after the other on the same libvirtd, each timed until the
 * guest's first byte is in the log of its serial port. Libvirt alone finds the overlay and the seed made already, and
 * keeps one connection, which a `virsh create` would not have.
 *
 *   libvirt_bench BIN_DIR GUEST_DIR     ends with overhead_ms= parallel_speedup= rss_mib= rss_mib_200= */
#include "tests/bench/measure.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/base/tree.h"
#include "lib/rpc/client.h"

#include "bc/v1/runtime.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	PAIRS = 31,
	INSTANCES = 50,
	RESIDENT = 30, /* how many run when the service's memory is looked at */
	MANY = 200,    /* the same, on libvirt's test driver */
	PLAIN = 1000,  /* the number of the instance whose files libvirt alone uses */
	PATIENCE_SEC = 120,
	SETTLED_SEC = 9,
	LOOK_USEC = 200,
};

#define METHOD(member) RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, member)
#define PLAIN_UUID "00000000-0000-4000-8000-ffffffffffff"

struct bench {
	struct loop *loop;
	struct rpc_channel *channel;
	virConnectPtr conn;
	char dir[32];
	const char *bin_dir, *guest_dir;
	pid_t pid;
	int pidfd;
	size_t n_pending; /* of those created in parallel */
	double rss_mib;   /* with RESIDENT guests running */
};

static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "libvirt_bench: %s: %s\n", what, why);
	exit(1);
}

/* --- the service --- */

static void dir_make(struct bench *b)
{
	(void)strcpy(b->dir, "/tmp/bc-bench-XXXXXX");
	if (!mkdtemp(b->dir) || chmod(b->dir, 0755) < 0)
		die("directory", strerror(errno));
}

static void service_start(struct bench *b, const char *uri)
{
	char path[64], program[512], conf_path[64];
	const char *argv[] = { program, "--config", conf_path, NULL };

	(void)snprintf(path, sizeof(path), "%s/data", b->dir);
	(void)mkdir(path, 0755);
	(void)snprintf(conf_path, sizeof(conf_path), "%s/conf", b->dir);
	FILE *f = fopen(conf_path, "we");
	if (!f)
		die(conf_path, strerror(errno));
	(void)fprintf(f,
	        "[service]\nsocket=%s/sock\ndata_dir=%s/data\nlog_level=warning\n[libvirt]\nuri=%s\n", b->dir,
	        b->dir, uri);
	(void)fclose(f);
	(void)snprintf(program, sizeof(program), "%s/bc-runtime-libvirt", b->bin_dir);
	struct process_options options = { .argv = argv };
	if (process_spawn(&options, &b->pid, &b->pidfd) < 0)
		die(program, "cannot be started");
	(void)snprintf(path, sizeof(path), "%s/sock", b->dir);
	if (loop_new(&b->loop) < 0 || rpc_channel_new_unix(b->loop, path, &b->channel) < 0)
		die(path, "no channel");
	for (int i = 0; access(path, F_OK) < 0; i++) {
		if (i == PATIENCE_SEC * 100)
			die(path, "the service does not come up");
		(void)usleep(10000);
	}
}

static void service_end(struct bench *b)
{
	int status;

	b->channel = rpc_channel_free(b->channel);
	(void)kill(b->pid, SIGTERM);
	if (process_wait(b->pidfd, PATIENCE_SEC * USEC_PER_SEC, &status) < 0)
		die("service", "does not end");
	(void)close(b->pidfd);
	b->loop = loop_free(b->loop);
}

/* --- calls --- */

static ProtobufCMessage *call(struct bench *b, struct rpc_method method, const ProtobufCMessage *message)
{
	ProtobufCMessage *reply = NULL;
	struct rpc_status status;

	if (rpc_call_sync(
	            b->loop, b->channel, method, message, PATIENCE_SEC * USEC_PER_SEC, &reply, &status) < 0)
		die(method.service->methods[method.index].name, status.message);
	return reply;
}

static void call_and_forget(struct bench *b, struct rpc_method method, const ProtobufCMessage *message)
{
	protobuf_c_message_free_unpacked(call(b, method, message), NULL);
}

/* A request and all it points to. */
struct instance {
	Bc__V1__EnsureRequest ensure;
	Bc__V1__InstanceSpec spec;
	Bc__V1__Boot boot;
	Bc__V1__ImageBoot image;
	Bc__V1__KernelBoot kernel;
	Bc__V1__SetStateRequest run;
	char id[40], path[256];
	struct bench *bench; /* weak */
};

static void instance_begin(struct bench *b, struct instance *x, unsigned number, const char *file)
{
	*x = (struct instance){
		.ensure = BC__V1__ENSURE_REQUEST__INIT,
		.spec = BC__V1__INSTANCE_SPEC__INIT,
		.boot = BC__V1__BOOT__INIT,
		.image = BC__V1__IMAGE_BOOT__INIT,
		.kernel = BC__V1__KERNEL_BOOT__INIT,
		.run = BC__V1__SET_STATE_REQUEST__INIT,
		.bench = b,
	};
	(void)snprintf(x->id, sizeof(x->id), "00000000-0000-4000-8000-%012x", number);
	(void)snprintf(x->path, sizeof(x->path), "%s/%s", b->guest_dir, file);
	x->ensure.spec = &x->spec;
	x->spec.id = x->run.id = x->id;
	x->spec.allocation_id = (char *)"bench";
	x->spec.desired_state = x->run.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	x->spec.vcpus = 1;
	x->spec.memory_bytes = 32 << 20;
	x->spec.boot = &x->boot;
}

/* With a disk and a seed, as instances have them. */
static void image_instance(struct bench *b, struct instance *x, unsigned number)
{
	instance_begin(b, x, number, "smallest.raw");
	x->boot.source_case = BC__V1__BOOT__SOURCE_IMAGE;
	x->boot.image = &x->image;
	x->image.digest = (char *)"sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	x->image.format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
	x->ensure.image_path = x->path;
}

static void kernel_instance(struct bench *b, struct instance *x, unsigned number)
{
	instance_begin(b, x, number, "smallest.elf");
	x->boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	x->boot.kernel = &x->kernel;
	x->kernel.kernel = x->path;
}

static void instance_create(struct bench *b, struct instance *x)
{
	call_and_forget(b, METHOD(ensure), &x->ensure.base);
	call_and_forget(b, METHOD(set_state), &x->run.base);
}

static void instance_remove(struct bench *b, const struct instance *x)
{
	Bc__V1__RuntimeRemoveRequest request = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;

	request.id = (char *)x->id;
	call_and_forget(b, METHOD(remove), &request.base);
}

/* --- the first byte --- */

struct watcher {
	pthread_t thread;
	char path[256];
	uint64_t seen_usec;
};

static void *watcher_run(void *arg)
{
	struct watcher *w = arg;
	struct timespec pause = { .tv_nsec = LOOK_USEC * 1000 };
	uint64_t deadline = clock_monotonic_usec() + PATIENCE_SEC * USEC_PER_SEC;
	struct stat st;

	while (stat(w->path, &st) < 0 || st.st_size == 0) {
		if (clock_monotonic_usec() > deadline)
			die(w->path, "the guest says nothing");
		(void)nanosleep(&pause, NULL);
	}
	w->seen_usec = clock_monotonic_usec();
	return NULL;
}

static void watcher_start(const struct bench *b, struct watcher *w, const char *id)
{
	*w = (struct watcher){ 0 };
	(void)snprintf(w->path, sizeof(w->path), "%s/data/instances/%s/serial.log", b->dir, id);
	(void)unlink(w->path);
	if (pthread_create(&w->thread, NULL, watcher_run, w) != 0)
		die("thread", "cannot be started");
}

static double watcher_end(struct watcher *w, uint64_t begun_usec)
{
	(void)pthread_join(w->thread, NULL);
	return (double)(w->seen_usec - begun_usec) / 1000;
}

/* --- one guest, both ways --- */

static double create_ours(struct bench *b, unsigned number, double *ret_ensure_ms)
{
	struct instance x;
	struct watcher w;

	image_instance(b, &x, number);
	watcher_start(b, &w, x.id);
	uint64_t begun = clock_monotonic_usec();
	call_and_forget(b, METHOD(ensure), &x.ensure.base);
	*ret_ensure_ms = (double)(clock_monotonic_usec() - begun) / 1000;
	call_and_forget(b, METHOD(set_state), &x.run.base);
	double ms = watcher_end(&w, begun);
	instance_remove(b, &x);
	return ms;
}

static double create_plain(struct bench *b, const char *id, const char *xml)
{
	struct watcher w;

	watcher_start(b, &w, id);
	uint64_t begun = clock_monotonic_usec();
	virDomainPtr domain = virDomainCreateXML(b->conn, xml, 0);
	if (!domain)
		die("virDomainCreateXML", virGetLastErrorMessage());
	double ms = watcher_end(&w, begun);
	(void)virDomainDestroy(domain);
	(void)virDomainFree(domain);
	return ms;
}

/* Overwrites the id that follows key. */
static void rename_at(char *xml, const char *key)
{
	char *at = strstr(xml, key);

	if (!at)
		die("definition", key);
	memcpy(at + strlen(key), PLAIN_UUID, strlen(PLAIN_UUID));
}

/* What an instance is defined as, once its files are there. */
static char *definition_of(struct bench *b, struct instance *x)
{
	call_and_forget(b, METHOD(ensure), &x->ensure.base);
	x->ensure.dry_run = true;
	Bc__V1__EnsureReply *reply = (Bc__V1__EnsureReply *)call(b, METHOD(ensure), &x->ensure.base);
	char *xml = strdup(reply->definition);
	bc__v1__ensure_reply__free_unpacked(reply, NULL);
	if (!xml)
		die("definition", "no memory");
	x->ensure.dry_run = false;
	return xml;
}

/* The definition of an instance whose files are there, under a name and a UUID that are nobody's. */
static char *plain_definition(struct bench *b, struct instance *x)
{
	image_instance(b, x, PLAIN);
	char *xml = definition_of(b, x);
	rename_at(xml, "<name>bc-");
	rename_at(xml, "<uuid>");
	return xml;
}

static double measure_overhead(struct bench *b)
{
	double ours[PAIRS], plain[PAIRS], more[PAIRS], ensure[PAIRS];
	struct instance x;
	CLEANUP_FREE char *xml = plain_definition(b, &x);

	/* the first of each asks QEMU what it can */
	(void)create_plain(b, x.id, xml);
	(void)create_ours(b, 1, ensure);
	for (unsigned i = 0; i < PAIRS; i++) {
		if (i % 2)
			ours[i] = create_ours(b, i + 2, &ensure[i]);
		plain[i] = create_plain(b, x.id, xml);
		if (i % 2 == 0)
			ours[i] = create_ours(b, i + 2, &ensure[i]);
		more[i] = ours[i] - plain[i];
	}
	instance_remove(b, &x);
	double ms = measure_median(more, PAIRS);
	(void)printf(
	        "to the first byte: %.1f ms, of it Ensure %.1f ms; libvirt alone %.1f ms; pair by pair %.1f ms more\n",
	        measure_median(ours, PAIRS), measure_median(ensure, PAIRS), measure_median(plain, PAIRS), ms);
	return ms;
}

/* --- many guests --- */

static void on_running(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct instance *x = userdata;

	(void)reply;
	if (status->code != GRPC_STATUS_OK)
		die("SetState", status->message);
	if (--x->bench->n_pending == 0)
		loop_exit(x->bench->loop, 0);
}

static void on_ensured(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct instance *x = userdata;

	(void)reply;
	if (status->code != GRPC_STATUS_OK)
		die("Ensure", status->message);
	(void)rpc_unary(x->bench->channel, METHOD(set_state), &x->run.base, PATIENCE_SEC * USEC_PER_SEC,
	        on_running, x);
}

static double create_many(struct bench *b, struct instance *instances, bool in_parallel)
{
	uint64_t begun = clock_monotonic_usec();

	for (unsigned i = 0; i < INSTANCES; i++) {
		kernel_instance(b, &instances[i], 2000 + i);
		if (!in_parallel) {
			instance_create(b, &instances[i]);
			if (i + 1 == RESIDENT)
				b->rss_mib = measure_rss_mib(b->pid);
			continue;
		}
		b->n_pending++;
		(void)rpc_unary(b->channel, METHOD(ensure), &instances[i].ensure.base,
		        PATIENCE_SEC * USEC_PER_SEC, on_ensured, &instances[i]);
	}
	if (in_parallel)
		(void)loop_run(b->loop);
	double ms = (double)(clock_monotonic_usec() - begun) / 1000;
	(void)printf("%d guests defined and started %s: %.0f ms; %.1f MiB resident\n", INSTANCES,
	        in_parallel ? "in parallel" : "one by one", ms, measure_rss_mib(b->pid));
	return ms;
}

/* --- very many, of which none is real: the test driver runs whatever it is given --- */

/* The service defines them; as the test driver begins nothing paused, it finds them running when it begins anew. */
static void many_define(struct bench *b, const char *path)
{
	FILE *f = fopen(path, "we");
	struct instance x;

	if (!f)
		die(path, strerror(errno));
	(void)fputs("<node>", f);
	for (unsigned i = 0; i < MANY; i++) {
		image_instance(b, &x, 3000 + i);
		CLEANUP_FREE char *xml = definition_of(b, &x);
		const char *domain = strstr(xml, "<domain");
		(void)fputs(domain ? domain : "", f);
	}
	(void)fputs("</node>", f);
	if (fclose(f) < 0)
		die(path, strerror(errno));
}

/* Every one is paused and resumed once, so that nothing is counted that was never used. */
static void many_use(struct bench *b)
{
	Bc__V1__RuntimeListRequest list = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	struct instance x;

	for (unsigned i = 0; i < MANY; i++) {
		image_instance(b, &x, 3000 + i);
		call_and_forget(b, METHOD(ensure), &x.ensure.base);
		x.run.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED;
		call_and_forget(b, METHOD(set_state), &x.run.base);
		x.run.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
		call_and_forget(b, METHOD(set_state), &x.run.base);
	}
	Bc__V1__RuntimeListReply *reply = (Bc__V1__RuntimeListReply *)call(b, METHOD(list), &list.base);
	for (size_t i = 0; i < reply->n_domains; i++)
		if (!reply->domains[i]->managed || reply->domains[i]->state != BC__V1__DOMAIN__STATE__RUNNING)
			die(reply->domains[i]->id, "does not run");
	if (reply->n_domains != MANY)
		die("List", "another number of domains");
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
}

static double measure_many(struct bench *b)
{
	char uri[64], path[48];

	service_start(b, "test:///default");
	(void)snprintf(path, sizeof(path), "%s/node.xml", b->dir);
	many_define(b, path);
	service_end(b);
	(void)snprintf(uri, sizeof(uri), "test://%s", path);
	service_start(b, uri);
	(void)sleep(SETTLED_SEC); /* what its start needed is given back: then only use counts */
	many_use(b);
	double running = measure_rss_mib(b->pid);
	service_end(b);
	(void)printf(
	        "%d domains running on the test driver, whose own memory of them is in it: %.1f MiB resident\n",
	        MANY, running);
	return running;
}

int main(int argc, char **argv)
{
	static struct bench bench;
	static struct instance instances[INSTANCES];
	struct bench *b = &bench;
	sigset_t set;

	if (argc != 3)
		die("usage", "libvirt_bench BIN_DIR GUEST_DIR");
	b->bin_dir = argv[1];
	b->guest_dir = argv[2];
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	dir_make(b);
	service_start(b, "qemu:///system");
	b->conn = virConnectOpen("qemu:///system");
	if (!b->conn)
		die("qemu:///system", virGetLastErrorMessage());

	double overhead_ms = measure_overhead(b);
	double one_by_one_ms = create_many(b, instances, false);
	for (unsigned i = 0; i < INSTANCES; i++)
		instance_remove(b, &instances[i]);
	double in_parallel_ms = create_many(b, instances, true);
	for (unsigned i = 0; i < INSTANCES; i++)
		instance_remove(b, &instances[i]);

	(void)virConnectClose(b->conn);
	service_end(b);
	double many_mib = measure_many(b);
	(void)remove_tree(AT_FDCWD, b->dir);
	(void)printf("overhead_ms=%.1f parallel_speedup=%.2f rss_mib=%.1f rss_mib_200=%.1f\n", overhead_ms,
	        one_by_one_ms / in_parallel_ms, b->rss_mib, many_mib);
	return 0;
}
