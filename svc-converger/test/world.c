#include "svc-converger/test/world.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "lib/rpc/client.h"
#include "svc-converger/apply.h"
#include "svc-converger/balloons.h"
#include "svc-converger/edge.h"
#include "svc-converger/instance_status.h"
#include "svc-converger/runtimes.h"
#include "tests/harness/timeout.h"

#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char volume_id[65];
static uint64_t volume_mib;

static void write_boot_id(const struct world *world, const char *boot_id)
{
	FILE *f = fopen(world->boot_id_path, "we");

	assert_non_null(f);
	(void)fprintf(f, "%s\n", boot_id);
	(void)fclose(f);
}

/* What it has; 0: that cannot be read. */
static void memory_write(const struct world *world, unsigned mib)
{
	char path[160], text[96];

	(void)snprintf(path, sizeof(path), "%s/meminfo", world->proc_dir);
	(void)snprintf(text, sizeof(text), "MemTotal: %u kB\nMemAvailable: %u kB\n", mib << 10, mib << 10);
	if (mib)
		assert_int_equal(atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644), 0);
	else
		assert_int_equal(unlink(path), 0);
}

void world_start(struct world *world)
{
	struct err err = { 0 };
	char netd[128], instances[128], intelligence[128];
	struct converger_options options = {
		.node_id = "node-1",
		.data_dir = world->data_dir,
		.run_dir = world->run_dir,
		.boot_id_path = world->boot_id_path,
		.retry_min_usec = 20 * USEC_PER_MSEC,
		.retry_max_usec = 80 * USEC_PER_MSEC,
		.link_retry_min_usec = 5 * USEC_PER_MSEC,
		.link_retry_max_usec = 20 * USEC_PER_MSEC,
		.call_timeout_usec =
		        world->call_timeout_usec ? world->call_timeout_usec : 3600 * USEC_PER_SEC,
		.change_timeout_usec = 3600 * USEC_PER_SEC,
		.resync_usec = world->resync_usec ? world->resync_usec : 200 * USEC_PER_MSEC,
		.stable_usec = 3600 * USEC_PER_SEC,
	};

	(void)snprintf(netd, sizeof(netd), "%s/netd.sock", world->run_dir);
	(void)snprintf(instances, sizeof(instances), "%s/instances", world->dir);
	(void)snprintf(intelligence, sizeof(intelligence), "%s/intelligence.sock", world->run_dir);
	options.transfer = world->transfer;
	options.proc = world->proc_dir;
	options.n_parallel = world->n_parallel;
	options.intelligence_socket = intelligence;
	options.netd_socket = netd;
	options.instances_dir = instances;
	if (converger_new(world->loop, &options, &world->converger, &err) < 0)
		fail_msg("%s", err_text(&err, err.code));
}

static void on_idle(void *userdata)
{
	loop_exit(userdata, 0);
}

static void on_drained(struct rpc_server *server, void *userdata)
{
	(void)server;
	loop_exit(userdata, 0);
}

void world_serve(struct world *world)
{
	char path[128];
	struct rpc_server_options options = { .path = path, .listen_fd = -EBADF };

	(void)snprintf(path, sizeof(path), "%s/converger.sock", world->run_dir);
	assert_int_equal(rpc_server_new(world->loop, &options, &world->server, NULL), 0);
	assert_int_equal(edge_new(world->converger, world->server, &world->edge), 0);
	assert_int_equal(rpc_server_start(world->server, NULL), 0);
	assert_int_equal(rpc_channel_new_unix(world->loop, path, &world->channel), 0);
}

static void world_unserve(struct world *world)
{
	if (!world->server)
		return;
	world->channel = rpc_channel_free(world->channel);
	edge_drain(world->edge);
	rpc_server_drain(world->server, 0, on_drained, world->loop);
	(void)loop_run(world->loop);
	world->server = rpc_server_free(world->server);
	world->edge = edge_free(world->edge);
}

void world_stop(struct world *world)
{
	if (!world->converger)
		return;
	world->asker = secret_asker_free(world->asker);
	world_unserve(world);
	converger_stop(world->converger, on_idle, world->loop);
	(void)loop_run(world->loop);
	world->converger = converger_free(world->converger);
}

void world_restart(struct world *world)
{
	world_stop(world);
	world_start(world);
}

struct stub_runtime *world_runtime(struct world *world, const char *name, const char *id)
{
	char path[128];

	assert_true(world->n_runtimes < WORLD_RUNTIMES_MAX);
	(void)snprintf(path, sizeof(path), "%s/runtime-%s.sock", world->run_dir, name);
	return world->runtimes[world->n_runtimes++] = stub_runtime_new(world->loop, path, id);
}

struct stub_intelligence *world_intelligence(struct world *world)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/intelligence.sock", world->run_dir);
	return world->intelligence = stub_intelligence_new(world->loop, path);
}

void world_ask(struct world *world, bool (*ask)(const struct secret_request *request, void *userdata),
        void *userdata)
{
	world->asker = secret_asker_new(world->converger->secrets, ask, userdata);
	assert_non_null(world->asker);
}

int world_setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char path[128];
	sigset_t set;

	assert_non_null(world);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)snprintf(world->dir, sizeof(world->dir), "/tmp/bc-world-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	(void)snprintf(world->run_dir, sizeof(world->run_dir), "%s/run", world->dir);
	(void)snprintf(world->data_dir, sizeof(world->data_dir), "%s/data", world->dir);
	(void)snprintf(world->boot_id_path, sizeof(world->boot_id_path), "%s/boot_id", world->dir);
	assert_int_equal(mkdir(world->run_dir, 0755), 0);
	assert_int_equal(mkdir(world->data_dir, 0755), 0);
	(void)snprintf(world->proc_dir, sizeof(world->proc_dir), "%s/proc", world->dir);
	assert_int_equal(mkdir(world->proc_dir, 0755), 0);
	memory_write(world, WORLD_MEMORY_MIB);
	write_boot_id(world, "11111111-1111-4111-8111-111111111111");
	assert_int_equal(loop_new(&world->loop), 0);
	(void)snprintf(path, sizeof(path), "%s/netd.sock", world->run_dir);
	world->netd = stub_netd_new(world->loop, path);
	world->runtime = world_runtime(world, "stub", "stub");
	volume_id[0] = 0;
	world_start(world);
	*state = world;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int world_teardown(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < world->n_runtimes; i++) {
		stub_runtime_release(world->runtimes[i]);
		memset(world->runtimes[i]->hangs, 0, sizeof(world->runtimes[i]->hangs));
	}
	world_stop(world);
	for (size_t i = 0; i < world->n_runtimes; i++)
		stub_runtime_free(world->runtimes[i]);
	stub_intelligence_free(world->intelligence);
	stub_netd_free(world->netd);
	loop_free(world->loop);
	(void)nftw(world->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(world);
	return 0;
}

/* --- time --- */

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(userdata, 0);
	return 0;
}

/* Runs the loop for a moment: there is no event for "anything has happened". */
static void run_briefly(struct world *world, uint64_t usec)
{
	sd_event_source *timer = NULL;

	assert_true(sd_event_add_time_relative(loop_event(world->loop), &timer, CLOCK_MONOTONIC, usec, 1,
	                    on_tick, world->loop) >= 0);
	(void)loop_run(world->loop);
	sd_event_source_disable_unref(timer);
}

void world_tick(struct world *world, struct world_wait *wait, const char *what, const char *file, int line)
{
	uint64_t now_usec = clock_monotonic_usec();

	if (!wait->until_usec)
		wait->until_usec = now_usec + test_timeout_usec(TEST_SERVICE_SEC);
	if (now_usec > wait->until_usec) {
		print_error("%s:%d: never came true: %s\nthe runtime was asked: %s\n", file, line, what,
		        world->runtime->log);
		_fail(file, line);
	}
	run_briefly(world, USEC_PER_MSEC);
}

void world_settle(struct world *world)
{
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	for (int calm = 0; calm < 30;) {
		struct converger *c = world->converger;

		if (clock_monotonic_usec() > until_usec)
			fail_msg("it never settles; the runtime was asked: %s", world->runtime->log);
		run_briefly(world, USEC_PER_MSEC);
		calm = c->n_operations || c->dirty.first || c->pass_is_posted ||
		                balloons_are_busy(c->balloons)
		        ? 0
		        : calm + 1;
	}
}

/* --- specs --- */

struct spec_messages {
	Bc__V1__NodeSpec node;
	Bc__V1__Instances instances;
	Bc__V1__InstanceSpec items[WORLD_INSTANCES_MAX];
	Bc__V1__InstanceSpec *item_pointers[WORLD_INSTANCES_MAX];
	Bc__V1__Boot boots[WORLD_INSTANCES_MAX];
	Bc__V1__KernelBoot kernels[WORLD_INSTANCES_MAX];
	Bc__V1__ImageBoot images[WORLD_INSTANCES_MAX];
	Bc__V1__Balloon balloons[WORLD_INSTANCES_MAX];
	Bc__V1__RestoreFrom restores[WORLD_INSTANCES_MAX];
	Bc__V1__PortMapping ports[WORLD_INSTANCES_MAX];
	Bc__V1__PortMapping *port_pointers[WORLD_INSTANCES_MAX];
	Bc__V1__UserAttachment user;
	Bc__V1__Nic nics[WORLD_INSTANCES_MAX][4];
	Bc__V1__Nic *nic_pointers[WORLD_INSTANCES_MAX][4];
	Bc__V1__BridgeAttachment bridge;
	Bc__V1__VolumeAttachment attachments[WORLD_INSTANCES_MAX];
	Bc__V1__VolumeAttachment *attachment_pointers[WORLD_INSTANCES_MAX];
	Bc__V1__Volume volume;
	Bc__V1__Volume *volume_pointer;
	Bc__V1__Hold hold, *hold_pointer;
};

static void spec_add(struct spec_messages *m, const struct wish *wish)
{
	size_t i = m->instances.n_items++;
	Bc__V1__InstanceSpec *item = &m->items[i];

	assert_true(i < WORLD_INSTANCES_MAX);
	bc__v1__instance_spec__init(item);
	bc__v1__boot__init(&m->boots[i]);
	bc__v1__kernel_boot__init(&m->kernels[i]);
	item->id = (char *)wish->id;
	item->allocation_id = (char *)(wish->allocation ? wish->allocation : "a1");
	item->runtime = (char *)(wish->runtime ? wish->runtime : "stub");
	item->desired_state = wish->state ? wish->state : BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	item->kind = wish->is_job ? BC__V1__INSTANCE_SPEC__KIND__JOB : BC__V1__INSTANCE_SPEC__KIND__SERVER;
	item->vcpus = 1;
	item->memory_bytes = (wish->memory_mib ? wish->memory_mib : 64) << 20;
	item->user_data_ref = (char *)(wish->user_data_ref ? wish->user_data_ref : "");
	m->kernels[i].kernel = (char *)(wish->kernel ? wish->kernel : "/boot/k");
	m->boots[i].source_case = BC__V1__BOOT__SOURCE_KERNEL;
	m->boots[i].kernel = &m->kernels[i];
	item->boot = &m->boots[i];
	if (wish->image_digest) {
		bc__v1__image_boot__init(&m->images[i]);
		m->images[i].digest = (char *)wish->image_digest;
		m->images[i].source_url = (char *)wish->image_url;
		m->images[i].format = BC__V1__IMAGE_BOOT__FORMAT__RAW;
		m->boots[i].source_case = BC__V1__BOOT__SOURCE_IMAGE;
		m->boots[i].image = &m->images[i];
	}
	if (wish->balloon_min_mib) {
		bc__v1__balloon__init(&m->balloons[i]);
		m->balloons[i].min_bytes = wish->balloon_min_mib << 20;
		item->balloon = &m->balloons[i];
	}
	for (unsigned n = 0; n < wish->n_bridge_nics; n++) {
		Bc__V1__Nic *nic = &m->nics[i][n];

		bc__v1__nic__init(nic);
		nic->attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
		nic->bridge = &m->bridge;
		nic->policy = wish->policy;
		nic->vhost = wish->vhost;
		m->nic_pointers[i][n] = nic;
	}
	item->n_nics = wish->n_bridge_nics;
	if (wish->has_user_nic) {
		Bc__V1__Nic *nic = &m->nics[i][item->n_nics];

		bc__v1__user_attachment__init(&m->user);
		bc__v1__nic__init(nic);
		nic->attachment_case = BC__V1__NIC__ATTACHMENT_USER;
		nic->user = &m->user;
		m->nic_pointers[i][item->n_nics++] = nic;
	}
	if (wish->host_port) {
		bc__v1__port_mapping__init(&m->ports[i]);
		m->ports[i].host_port = wish->host_port;
		m->ports[i].guest_port = 22;
		m->port_pointers[i] = &m->ports[i];
		item->n_port_mappings = 1;
		item->port_mappings = &m->port_pointers[i];
	}
	if (wish->restore_digest) {
		bc__v1__restore_from__init(&m->restores[i]);
		m->restores[i].digest = (char *)wish->restore_digest;
		m->restores[i].url = (char *)wish->restore_url;
		m->restores[i].with_memory = true;
		item->restore_from = &m->restores[i];
		item->identity_rebind_ref = (char *)(wish->rebind_ref ? wish->rebind_ref : "");
	}
	item->nics = m->nic_pointers[i];
	if (wish->volume) {
		bc__v1__volume_attachment__init(&m->attachments[i]);
		m->attachments[i].volume_id = (char *)wish->volume;
		m->attachments[i].serial = (char *)wish->volume;
		m->attachments[i].read_only = wish->volume_read_only;
		m->attachment_pointers[i] = &m->attachments[i];
		item->n_volumes = 1;
		item->volumes = &m->attachment_pointers[i];
	}
	m->item_pointers[i] = item;
}

static void on_applied(int r, const char *message, const Bc__V1__ApplyReply *reply, void *userdata)
{
	struct world *world = userdata;

	world->is_answered = true;
	world->answer = r;
	world->n_planned = reply ? reply->n_changes : 0;
	(void)snprintf(world->message, sizeof(world->message), "%s", message);
}

static int spec_send(struct world *world, struct spec_messages *m)
{
	uint8_t *data;

	m->node.revision = ++world->revision;
	if (volume_id[0]) {
		bc__v1__volume__init(&m->volume);
		m->volume.id = volume_id;
		m->volume.size_bytes = volume_mib << 20;
		m->volume_pointer = &m->volume;
		m->node.n_volumes = 1;
		m->node.volumes = &m->volume_pointer;
	}
	if (world->hold_mib) {
		bc__v1__hold__init(&m->hold);
		m->hold.id = (char *)"hold";
		m->hold.memory_bytes = world->hold_mib << 20;
		m->hold.bound = true;
		m->hold_pointer = &m->hold;
		m->node.n_holds = 1;
		m->node.holds = &m->hold_pointer;
	}
	world->is_answered = false;
	data = malloc(bc__v1__node_spec__get_packed_size(&m->node));
	assert_non_null(data);
	apply_submit(world->converger,
	        &(struct spec_bytes){
	                .data = data, .size = bc__v1__node_spec__pack(&m->node, data), .form = SPEC_NODE },
	        on_applied, world);
	WORLD_WAIT(world, world->is_answered);
	free(data);
	return world->answer;
}

int world_apply(struct world *world, const struct wish *wishes)
{
	struct spec_messages *m = calloc(1, sizeof(*m));
	int r;

	assert_non_null(m);
	bc__v1__node_spec__init(&m->node);
	bc__v1__instances__init(&m->instances);
	bc__v1__bridge_attachment__init(&m->bridge);
	m->bridge.name = (char *)"br0";
	m->instances.items = m->item_pointers;
	m->node.instances = &m->instances;
	for (; wishes->id; wishes++)
		spec_add(m, wishes);
	r = spec_send(world, m);
	free(m);
	return r;
}

int world_apply_no_opinion(struct world *world)
{
	struct spec_messages *m = calloc(1, sizeof(*m));
	int r;

	assert_non_null(m);
	bc__v1__node_spec__init(&m->node);
	r = spec_send(world, m);
	free(m);
	return r;
}

void world_volume(struct world *world, const char *id, uint64_t mib)
{
	(void)world;
	(void)snprintf(volume_id, sizeof(volume_id), "%s", id);
	volume_mib = mib;
}

/* --- statuses --- */

static const char *name_of(Bc__V1__InstanceStatus__State state)
{
	const ProtobufCEnumValue *value =
	        protobuf_c_enum_descriptor_get_value(&bc__v1__instance_status__state__descriptor, (int)state);

	return value ? value->name : "?";
}

const char *world_status(struct world *world, const char *id)
{
	static char text[80];
	struct instance *instance = converger_instance(world->converger, id);
	struct instance_report report;

	if (!instance)
		return "none";
	instance_report_init(world->converger, instance, &report);
	(void)snprintf(text, sizeof(text), "%s%s%s", name_of(report.status.state),
	        *report.status.reason ? "/" : "", report.status.reason);
	instance_report_done(&report);
	return text;
}

const char *world_words(struct world *world, const char *id)
{
	static char text[512];
	struct instance *instance = converger_instance(world->converger, id);
	struct instance_report report;

	text[0] = 0;
	if (!instance)
		return text;
	instance_report_init(world->converger, instance, &report);
	(void)snprintf(text, sizeof(text), "%s", report.status.message);
	instance_report_done(&report);
	return text;
}

bool world_is(struct world *world, const char *id, const char *status)
{
	return strcmp(world_status(world, id), status) == 0;
}

bool world_domain_is(struct world *world, const char *id, Bc__V1__Domain__State state)
{
	struct stub_domain *domain = stub_runtime_domain(world->runtime, id);

	return domain && domain->state == state;
}

bool world_has_heard(struct world *world, const char *id)
{
	const struct stub_domain *domain = stub_runtime_domain(world->runtime, id);
	const struct runtime_link *link = runtimes_find(world->converger->runtimes, world->runtime->id);
	const struct domain *heard = link ? runtime_link_domain(link, id) : NULL;

	return domain ? heard && heard->state == domain->state : !heard;
}

bool world_said(struct world *world, const char *reason)
{
	const struct event *event;

	for (uint64_t seen = 0; (event = events_next(world->converger->events, seen, ""));
	        seen = event->sequence)
		if (strcmp(event->reason, reason) == 0)
			return true;
	return false;
}

void world_has_memory(struct world *world, unsigned mib)
{
	bool is_first = !world->memory_was_set;

	memory_write(world, mib);
	world->memory_was_set = true;
	if (is_first)
		world_restart(world);
}
