#include "tests/libvirt/real.h"

#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "svc-runtime-libvirt/console.h"
#include "svc-runtime-libvirt/domain_request.h"
#include "tests/harness/timeout.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- waiting --- */

struct wait {
	struct real *real;
	bool (*holds)(struct real *real, void *arg);
	void *arg;
	uint64_t deadline_usec;
	bool held;
};

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct wait *wait = userdata;

	wait->held = wait->holds(wait->real, wait->arg);
	if (wait->held || usec > wait->deadline_usec) {
		loop_exit(wait->real->loop, 0);
		return 0;
	}
	(void)sd_event_source_set_time(source, usec + 2 * USEC_PER_MSEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static bool wait_until(struct real *real, bool (*holds)(struct real *real, void *arg), void *arg)
{
	uint64_t now = clock_monotonic_usec();
	struct wait wait = { .real = real,
		.holds = holds,
		.arg = arg,
		.deadline_usec = now + test_timeout_usec(TEST_GUEST_SEC) };
	sd_event_source *tick = NULL;

	if (holds(real, arg))
		return true;
	assert_true(sd_event_add_time(
	                    loop_event(real->loop), &tick, CLOCK_MONOTONIC, now, 1, on_tick, &wait) >= 0);
	(void)loop_run(real->loop);
	tick = sd_event_source_disable_unref(tick);
	return wait.held;
}

void real_wait(struct real *real, bool (*holds)(struct real *real, void *arg), void *arg)
{
	assert_true(wait_until(real, holds, arg));
}

static bool is_answered(struct real *real, void *arg)
{
	(void)arg;
	return real->answered;
}

static void on_answer(int r, const struct err *err, const struct domain_entry *entry, void *userdata)
{
	struct real *real = userdata;

	(void)entry;
	assert_false(real->answered); /* exactly once */
	real->answered = true;
	real->r = r;
	real->err = *err;
}

static int wait_answer(struct real *real)
{
	real_wait(real, is_answered, NULL);
	if (real->r < 0)
		print_message("%s\n", err_text(&real->err, real->r));
	return real->r;
}

/* --- the runtime --- */

static void on_connection(struct runtime *runtime, const struct err *lost, void *userdata)
{
	struct real *real = userdata;

	(void)runtime;
	real->connected = lost == NULL;
	if (lost)
		print_message("libvirt: %s\n", err_text(lost, lost->code));
}

static void on_host_known(struct runtime *runtime, void *userdata)
{
	(void)runtime;
	(void)userdata;
}

static bool is_ready(struct real *real, void *arg)
{
	(void)arg;
	return real->connected && real->runtime->host_known;
}

static void open_runtime(struct real *real)
{
	struct runtime_hooks hooks = {
		.on_connection = on_connection, .on_host_known = on_host_known, .userdata = real
	};
	struct err err = { 0 };

	assert_int_equal(loop_new(&real->loop), 0);
	int r = runtime_new(real->loop, &real->conf, &hooks, &real->runtime, &err);
	if (r < 0)
		print_message("%s\n", err_text(&err, r));
	assert_int_equal(r, 0);
	real_wait(real, is_ready, NULL);
}

bool real_is_idle(struct real *real, void *arg)
{
	(void)arg;
	return runtime_is_idle(real->runtime);
}

static void close_runtime(struct real *real)
{
	runtime_stop(real->runtime);
	real_wait(real, real_is_idle, NULL);
	real->runtime = runtime_free(real->runtime);
	real->loop = loop_free(real->loop);
	real->connected = false;
}

void real_restart(struct real *real)
{
	close_runtime(real);
	open_runtime(real);
}

int real_setup(void **state)
{
	struct real *real = calloc(1, sizeof(*real));
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	real->guest_dir = getenv("BC_GUEST_DIR");
	assert_non_null(real->guest_dir);
	root_make(&real->root);
	real->conf = (struct runtime_conf){
		.uri = real->root.uri,
		.instances_dir = real->root.instances,
		.emulator = (char *)"/usr/bin/qemu-system-x86_64",
		.sysfs = (char *)"/sys",
		.gpu_tree = (char *)"/nowhere",
		.firmware_code = (char *)"/usr/share/OVMF/OVMF_CODE_4M.fd",
		.firmware_vars = (char *)"/usr/share/OVMF/OVMF_VARS_4M.fd",
		.ready_marker = (char *)"GUEST-READY",
		.complete_marker = (char *)"GUEST-COMPLETE",
		.vmm_user = (char *)"",
		.grace_usec = test_timeout_usec(TEST_GUEST_SEC) /
		        2, /* a guest that is asked ends by itself, on a busy machine too */
		.jobs = 8,
		.log_keep_bytes = 64 << 10,
	};
	assert_int_equal(virt_start_events(), 0);
	open_runtime(real);
	*state = real;
	return 0;
}

static struct domain_entry *first_managed(struct real *real)
{
	struct domain_entry *entry = domains_next(real->runtime->domains, NULL);

	while (entry && !domain_entry_managed(entry))
		entry = domains_next(real->runtime->domains, entry);
	return entry;
}

int real_teardown(void **state)
{
	struct real *real = *state;
	struct domain_entry *entry;

	while ((entry = first_managed(real))) {
		char id[UUID_TEXT_MAX];
		(void)strcpy(id, entry->uuid);
		if (real_remove(real, id) < 0)
			break;
	}
	close_runtime(real);
	root_remove(&real->root);
	free(real);
	return 0;
}

/* --- requests --- */

static void request_begin(struct real *real, struct real_request *ret)
{
	*ret = (struct real_request){
		.ensure = BC__V1__ENSURE_REQUEST__INIT,
		.spec = BC__V1__INSTANCE_SPEC__INIT,
		.boot = BC__V1__BOOT__INIT,
		.image = BC__V1__IMAGE_BOOT__INIT,
		.kernel = BC__V1__KERNEL_BOOT__INIT,
	};
	(void)snprintf(ret->id, sizeof(ret->id), "00000000-0000-4000-8000-%012x", ++real->next_id);
	for (size_t i = 0; i < 2; i++) {
		ret->volumes[i] = (Bc__V1__VolumeAttachment)BC__V1__VOLUME_ATTACHMENT__INIT;
		ret->volume_paths[i] = (Bc__V1__VolumePath)BC__V1__VOLUME_PATH__INIT;
		ret->nics[i] = (Bc__V1__Nic)BC__V1__NIC__INIT;
		ret->prepared[i] = (Bc__V1__PreparedNic)BC__V1__PREPARED_NIC__INIT;
		ret->volume_list[i] = &ret->volumes[i];
		ret->volume_path_list[i] = &ret->volume_paths[i];
		ret->nic_list[i] = &ret->nics[i];
		ret->prepared_list[i] = &ret->prepared[i];
	}
	ret->bridge = (Bc__V1__BridgeAttachment)BC__V1__BRIDGE_ATTACHMENT__INIT;
	ret->macvtap = (Bc__V1__MacvtapAttachment)BC__V1__MACVTAP_ATTACHMENT__INIT;
	ret->user = (Bc__V1__UserAttachment)BC__V1__USER_ATTACHMENT__INIT;
	ret->ports = (Bc__V1__NicPorts)BC__V1__NIC_PORTS__INIT;
	ret->mapping = (Bc__V1__PortMapping)BC__V1__PORT_MAPPING__INIT;
	ret->balloon = (Bc__V1__Balloon)BC__V1__BALLOON__INIT;
	ret->placement = (Bc__V1__Placement)BC__V1__PLACEMENT__INIT;
	ret->ports_list[0] = &ret->ports;
	ret->mapping_list[0] = &ret->mapping;
	ret->spec.volumes = ret->volume_list;
	ret->ensure.volumes = ret->volume_path_list;
	ret->spec.nics = ret->nic_list;
	ret->ensure.nics = ret->prepared_list;
	ret->ensure.ports = ret->ports_list;
	ret->ports.mappings = ret->mapping_list;
	ret->ensure.spec = &ret->spec;
	ret->spec.id = ret->id;
	ret->spec.allocation_id = (char *)"allocation-1";
	ret->spec.runtime = (char *)"libvirt-kvm";
	ret->spec.desired_state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
	ret->spec.vcpus = 1;
	ret->spec.memory_bytes = UINT64_C(256) << 20;
	ret->spec.boot = &ret->boot;
}

static char *guest_path(const struct real *real, char *buf, size_t size, const char *name)
{
	(void)snprintf(buf, size, "%s/%s", real->guest_dir, name);
	return buf;
}

static void request_kernel(struct real *real, struct real_request *ret, const char *kernel)
{
	request_begin(real, ret);
	ret->boot.source_case = BC__V1__BOOT__SOURCE_KERNEL;
	ret->boot.kernel = &ret->kernel;
	ret->kernel.kernel = guest_path(real, ret->path[0], sizeof(ret->path[0]), kernel);
}

void real_request_kernel(struct real *real, struct real_request *ret, const char *cmdline)
{
	request_kernel(real, ret, "vmlinux");
	ret->kernel.initramfs = guest_path(real, ret->path[1], sizeof(ret->path[1]), "initramfs");
	(void)snprintf(ret->cmdline, sizeof(ret->cmdline), GUEST_CMDLINE " %s", cmdline);
	ret->kernel.cmdline = ret->cmdline;
}

void real_request_smallest(struct real *real, struct real_request *ret)
{
	request_kernel(real, ret, "smallest.elf");
	ret->spec.memory_bytes = UINT64_C(32) << 20;
}

void real_request_image(struct real *real, struct real_request *ret, const char *name)
{
	request_begin(real, ret);
	ret->boot.source_case = BC__V1__BOOT__SOURCE_IMAGE;
	ret->boot.image = &ret->image;
	ret->image.digest = (char *)"sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	ret->image.format =
	        strstr(name, ".qcow2") ? BC__V1__IMAGE_BOOT__FORMAT__QCOW2 : BC__V1__IMAGE_BOOT__FORMAT__RAW;
	ret->ensure.image_path = guest_path(real, ret->path[2], sizeof(ret->path[2]), name);
}

void real_request_volume(struct real *real, struct real_request *request, const char *id, uint64_t bytes)
{
	size_t i = request->spec.n_volumes++;

	request->ensure.n_volumes = request->spec.n_volumes;
	(void)snprintf(
	        request->volume_path[i], sizeof(request->volume_path[i]), "%s/%s.raw", real->root.path, id);
	int fd = open(request->volume_path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(close(fd), 0);
	request->volumes[i].volume_id = request->volume_paths[i].volume_id = (char *)id;
	request->volumes[i].serial = (char *)id;
	request->volume_paths[i].path = request->volume_path[i];
	request->volume_paths[i].size_bytes = bytes;
}

void real_request_nic(struct real_request *request, enum nic_kind kind, uint32_t queues)
{
	size_t i = request->spec.n_nics++;
	Bc__V1__Nic *nic = &request->nics[i];

	request->ensure.n_nics = request->spec.n_nics;
	switch (kind) {
	case NIC_TAP:
		nic->attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
		nic->bridge = &request->bridge;
		break;
	case NIC_MACVTAP:
		nic->attachment_case = BC__V1__NIC__ATTACHMENT_MACVTAP;
		nic->macvtap = &request->macvtap;
		break;
	case NIC_USER:
		nic->attachment_case = BC__V1__NIC__ATTACHMENT_USER;
		nic->user = &request->user;
		return;
	}
	assert_int_equal(tap_name(request->id, (unsigned)i, request->ifname[i]), 0);
	request->prepared[i].interface = request->ifname[i];
	request->prepared[i].queues = queues;
}

/* --- calls --- */

int real_ensure(struct real *real, const struct real_request *request)
{
	struct lifecycle_ensure ensure = { 0 };

	real->answered = false;
	real->err = (struct err){ 0 };
	int r = domain_def_from_request(&request->ensure, real->conf.instances_dir, &ensure.def, &real->err);
	if (r == 0)
		r = domain_xml_digest(ensure.def, &real->runtime->host, &real->err);
	if (r < 0) {
		print_message("%s\n", err_text(&real->err, r));
		(void)domain_def_free(ensure.def);
		return r;
	}
	struct secret *user_data = NULL;
	struct seed seed = { .instance_id = ensure.def->id, .allocation_id = ensure.def->allocation_id };
	if (request->ensure.user_data.len) {
		assert_int_equal(
		        secret_new(request->ensure.user_data.data, request->ensure.user_data.len, &user_data),
		        0);
		seed.user_data = user_data;
		seed.hostname = "seeded";
		ensure.seed = &seed;
	}
	const Bc__V1__RestoreFrom *restore = request->spec.restore_from;
	ensure.restore_path = request->ensure.restore_path[0] ? request->ensure.restore_path : NULL;
	ensure.restore_memory = restore && restore->with_memory;
	lifecycle_ensure(real->runtime, &ensure, on_answer, real);
	r = wait_answer(real);
	user_data = secret_free(user_data);
	return r;
}

static void on_client_more(struct console_client *client)
{
	(void)client;
}

static void on_client_over(struct console_client *client, int r, const char *why)
{
	(void)client;
	(void)r;
	(void)why;
}

void real_mark(struct real *real, const char *id)
{
	struct console_client client = {
		.on_more = on_client_more, .on_over = on_client_over, .name = "test"
	};
	const struct domain_entry *entry = real_find(real, id);
	size_t slot = real->n_runs++ % ARRAY_SIZE(real->runs);
	uint64_t backlog;

	if (!entry || !entry->console ||
	        console_open(entry->console, &client, false, true, &backlog, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(real->runs); i++)
		if (strcmp(real->runs[i].id, id) == 0)
			slot = i;
	(void)snprintf(real->runs[slot].id, sizeof(real->runs[slot].id), "%s", id);
	real->runs[slot].offset = client.offset;
	console_close(entry->console, &client);
}

int real_run(struct real *real, const char *id)
{
	const struct domain_entry *entry = real_find(real, id);

	/* a new run, unless it is only resumed */
	if (entry && !domain_state_is_active(entry->condition.state))
		real_mark(real, id);
	real->answered = false;
	lifecycle_run(real->runtime, id, false, on_answer, real);
	return wait_answer(real);
}

static void on_snapshot_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct real *real = userdata;

	assert_true(done_bytes <= total_bytes);
	if (real->at_progress)
		real->at_progress(real);
}

static void on_snapshot_end(int r, const struct err *err, const char *digest, uint64_t bytes, void *userdata)
{
	struct real *real = userdata;

	assert_false(real->answered);
	real->answered = true;
	real->r = r;
	real->err = *err;
	real->bytes = bytes;
	(void)snprintf(real->digest, sizeof(real->digest), "%s", digest);
}

void real_snapshot_begin(struct real *real, const char *id, bool with_memory, const char *path)
{
	static const struct snapshot_handlers handlers = { .on_progress = on_snapshot_progress,
		.on_end = on_snapshot_end };

	real->answered = false;
	real->snapshot = snapshot_begin(real->runtime, id, with_memory, path, &handlers, real);
	assert_non_null(real->snapshot);
}

int real_snapshot_end(struct real *real)
{
	return wait_answer(real);
}

int real_snapshot(struct real *real, const char *id, bool with_memory, const char *path)
{
	real_snapshot_begin(real, id, with_memory, path);
	return wait_answer(real);
}

int real_pause(struct real *real, const char *id)
{
	real->answered = false;
	lifecycle_run(real->runtime, id, true, on_answer, real);
	return wait_answer(real);
}

int real_stop(struct real *real, const char *id, uint64_t grace_usec)
{
	real->answered = false;
	lifecycle_stop(real->runtime, id, grace_usec, on_answer, real);
	return wait_answer(real);
}

int real_remove(struct real *real, const char *id)
{
	real->answered = false;
	lifecycle_remove(real->runtime, id, on_answer, real);
	return wait_answer(real);
}

static void on_memory(int r, const struct err *err, const struct domain_memory *memory, void *userdata)
{
	struct real *real = userdata;

	if (r == 0)
		real->memory = *memory;
	on_answer(r, err, NULL, userdata);
}

int real_get_memory(struct real *real, const char *id, struct domain_memory *ret)
{
	real->answered = false;
	guest_get_memory(real->runtime, id, on_memory, real);
	int r = wait_answer(real);
	*ret = real->memory;
	return r;
}

int real_set_memory(struct real *real, const char *id, uint64_t bytes, struct domain_memory *ret)
{
	real->answered = false;
	guest_set_memory(real->runtime, id, bytes, on_memory, real);
	int r = wait_answer(real);
	*ret = real->memory;
	return r;
}

static void on_bytes(int r, const struct err *err, uint64_t bytes, void *userdata)
{
	struct real *real = userdata;

	real->bytes = bytes;
	on_answer(r, err, NULL, userdata);
}

int real_grow_volume(struct real *real, const char *id, const char *volume_id, uint64_t bytes, uint64_t *ret)
{
	real->answered = false;
	guest_grow_volume(real->runtime, id, volume_id, bytes, on_bytes, real);
	int r = wait_answer(real);
	*ret = real->bytes;
	return r;
}

int real_rebind(
        struct real *real, const char *id, const char *ref, const char *payload, uint64_t timeout_usec)
{
	struct secret *secret = NULL;

	assert_int_equal(secret_new(payload, strlen(payload), &secret), 0);
	real->answered = false;
	assert_non_null(guest_rebind(real->runtime, id, ref, secret, timeout_usec, on_answer, real));
	int r = wait_answer(real);
	secret = secret_free(secret);
	return r;
}

/* --- looking --- */

struct domain_entry *real_find(struct real *real, const char *id)
{
	return domains_find(real->runtime->domains, id);
}

struct wished {
	const char *id;
	enum domain_state state;
	const char *text;
};

static bool has_state(struct real *real, void *arg)
{
	const struct wished *wished = arg;
	const struct domain_entry *entry = real_find(real, wished->id);

	return entry && entry->condition.state == wished->state;
}

void real_wait_state(struct real *real, const char *id, enum domain_state state)
{
	struct wished wished = { .id = id, .state = state };

	real_wait(real, has_state, &wished);
}

/* What the guest has written since it was started, as far as it is kept; returns its length. */
static size_t read_output(struct real *real, const char *id, char *buf, size_t size)
{
	const struct domain_entry *entry = real_find(real, id);
	struct console_client client = {
		.on_more = on_client_more, .on_over = on_client_over, .name = "test"
	};
	uint64_t backlog;
	size_t n_text = 0, n;

	if (!entry || !entry->console ||
	        console_open(entry->console, &client, false, false, &backlog, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(real->runs); i++)
		if (strcmp(real->runs[i].id, id) == 0 && real->runs[i].offset > client.offset)
			client.offset = real->runs[i].offset;
	while (n_text < size && (n = console_read(entry->console, &client, buf + n_text, size - n_text)) > 0)
		n_text += n;
	console_close(entry->console, &client);
	return n_text;
}

static bool has_output(struct real *real, void *arg)
{
	static char text[CONSOLE_RING_BYTES];
	const struct wished *wished = arg;
	size_t n_text = read_output(real, wished->id, text, sizeof(text));

	return memmem(text, n_text, wished->text, strlen(wished->text)) != NULL;
}

void real_wait_output(struct real *real, const char *id, const char *text)
{
	struct wished wished = { .id = id, .text = text };

	if (wait_until(real, has_output, &wished))
		return;
	const struct domain_entry *entry = real_find(real, id);
	static char said[CONSOLE_RING_BYTES];
	size_t n_said = read_output(real, id, said, sizeof(said));
	fail_msg("%s (%s, its port %s) never said '%s', but: %.*s", id,
	        entry ? domain_state_to_string(entry->condition.state) : "gone",
	        entry && entry->console && console_attached(entry->console) ? "open" : "closed", text,
	        (int)n_said, said);
}

static bool has_port(struct real *real, void *arg)
{
	const struct domain_entry *entry = real_find(real, arg);

	return entry && entry->console && console_attached(entry->console);
}

void real_type(struct real *real, const char *id, const char *text)
{
	real_wait(real, has_port, (void *)id);
	struct domain_entry *entry = real_find(real, id);
	assert_int_equal(console_write(entry->console, text, strlen(text)), (ssize_t)strlen(text));
}

bool real_port_is_closed(struct real *real, void *arg)
{
	const struct domain_entry *entry = real_find(real, arg);

	return entry && entry->console && !console_attached(entry->console);
}

void real_shell(const char *fmt, ...)
{
	char command[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	int status = system(command);
	if (status != 0)
		print_message("%s: status %d\n", command, status);
	assert_int_equal(status, 0);
}
