/* What bc-runtime-libvirt does beside the contract, over its socket. */
#include "tests/libvirt/service.h"

#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"
#include "lib/seed/iso.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* On a host whose libvirt cannot be had. */
static void nowhere_prepare(struct contract *c)
{
	contract_configure(c,
	        "[service]\nlog_level=error\n[libvirt]\nuri=qemu+unix:///system?socket=%s/nobody\n"
	        "[instances]\ndir=%s/i\n",
	        c->dir, c->dir);
}

static const struct contract_runtime NOWHERE = { .program = BC_RUNTIME, .prepare = nowhere_prepare };

static void seed_digest(const struct contract *c, const char *id, char ret[static SHA256_DIGEST_MAX])
{
	char path[512];
	uint64_t size;

	(void)snprintf(path, sizeof(path), "%s/%s/seed.iso", service_root(c)->instances, id);
	file_digest(path, ret, &size);
}

static void seed_says(const struct contract *c, const char *id, const char *name, const char *words)
{
	char path[512], text[4096] = "";
	uint64_t offset, bytes;

	(void)snprintf(path, sizeof(path), "%s/%s/seed.iso", service_root(c)->instances, id);
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(iso_find(fd, name, &offset, &bytes), 0);
	assert_true(bytes < sizeof(text));
	assert_int_equal(pread(fd, text, bytes, (off_t)offset), (ssize_t)bytes);
	if (!strstr(text, words))
		fail_msg("%s says '%s', not '%s'", name, text, words);
}

static void ensure(struct contract *c, const Bc__V1__EnsureRequest *request)
{
	Bc__V1__Domain *domain = contract_ensure(c, request);

	bc__v1__domain__free_unpacked(domain, NULL);
}

static void give_user_data(Bc__V1__EnsureRequest *request, const char *text)
{
	text_replace(&request->spec->user_data_ref, "secret/1");
	request->user_data.data = (uint8_t *)strdup(text);
	request->user_data.len = strlen(text);
}

/* The next NIC of it, on a TAP of its own. */
static void add_nic(Bc__V1__EnsureRequest *request, const char *v4, const char *v6, const char *gateway)
{
	Bc__V1__InstanceSpec *spec = request->spec;
	Bc__V1__PreparedNic *prepared = message_make(&bc__v1__prepared_nic__descriptor);
	Bc__V1__Nic *nic = message_make(&bc__v1__nic__descriptor);
	char name[IFNAME_MAX], command[128];

	assert_int_equal(tap_name(spec->id, (unsigned)spec->n_nics, name), 0);
	(void)snprintf(
	        command, sizeof(command), "ip tuntap add dev %s mode tap && ip link set %s up", name, name);
	assert_int_equal(system(command), 0);
	nic->attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	nic->bridge = message_make(&bc__v1__bridge_attachment__descriptor);
	text_replace(&nic->bridge->name, "br0");
	nic->n_addresses = 2;
	nic->addresses = calloc(2, sizeof(char *));
	nic->addresses[0] = strdup(v4);
	nic->addresses[1] = strdup(v6);
	if (gateway) {
		nic->n_gateways = 1;
		nic->gateways = calloc(1, sizeof(char *));
		nic->gateways[0] = strdup(gateway);
	}
	text_replace(&prepared->interface, name);
	prepared->queues = 1;
	spec->nics = reallocarray(spec->nics, spec->n_nics + 1, sizeof(*spec->nics));
	request->nics = reallocarray(request->nics, request->n_nics + 1, sizeof(*request->nics));
	spec->nics[spec->n_nics++] = nic;
	request->nics[request->n_nics++] = prepared;
}

/* User data comes with the call that makes the instance. Later ones carry none: also after this service began anew,
 * and with a spec that has changed. */
static void user_data_stays_when_later_calls_bring_none(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 2);
	char first[SHA256_DIGEST_MAX], later[SHA256_DIGEST_MAX];
	static const char USER_DATA[] = "#cloud-config\nhostname: x\n";

	give_user_data(request, USER_DATA);
	ensure(c, request);
	seed_digest(c, request->spec->id, first);
	free(request->user_data.data);
	request->user_data = (ProtobufCBinaryData){ 0 };
	ensure(c, request);
	seed_digest(c, request->spec->id, later);
	assert_string_equal(first, later);
	contract_kill(c);
	contract_start(c);
	request->spec->memory_bytes *= 2;
	ensure(c, request);
	seed_digest(c, request->spec->id, later);
	assert_string_equal(first, later);
	/* but for what the guest has now */
	add_nic(request, "10.7.0.2/24", "fd07::2/64", NULL);
	ensure(c, request);
	seed_says(c, request->spec->id, "user-data", USER_DATA);
	seed_says(c, request->spec->id, "network-config", "10.7.0.2/24");
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void add_label(Bc__V1__InstanceSpec *spec, const char *key, const char *value)
{
	Bc__V1__InstanceSpec__LabelsEntry *label =
	        message_make(&bc__v1__instance_spec__labels_entry__descriptor);

	text_replace(&label->key, key);
	text_replace(&label->value, value);
	spec->labels = reallocarray(spec->labels, spec->n_labels + 1, sizeof(*spec->labels));
	spec->labels[spec->n_labels++] = label;
}

static void use_linux(Bc__V1__EnsureRequest *request)
{
	Bc__V1__KernelBoot *boot = request->spec->boot->kernel;
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/vmlinux", getenv("BC_GUEST_DIR"));
	text_replace(&boot->kernel, path);
	(void)snprintf(path, sizeof(path), "%s/initramfs", getenv("BC_GUEST_DIR"));
	text_replace(&boot->initramfs, path);
	text_replace(&boot->cmdline, GUEST_CMDLINE);
	request->spec->memory_bytes = UINT64_C(256) << 20;
}

/* It has said the text since it was started, or says it yet; typed is typed before. */
static void guest_says(struct contract *c, const char *id, const char *typed, const char *text)
{
	struct stream *console = contract_console_open(c, id, false);

	contract_console_opened(console);
	if (typed[0])
		contract_console_type(console, typed);
	contract_console_says(console, text);
	stream_close(console);
}

/* All of it reaches a real guest: who it is, what it is called, each NIC's addresses by its MAC, a gateway. */
static void a_guest_finds_itself_in_its_seed(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	char said[64];

	use_linux(request);
	give_user_data(request, "#!/bin/sh\necho said-by-user-data\n");
	add_label(request->spec, "hostname", "web-7");
	add_nic(request, "10.9.0.2/24", "fd00:9::2/64", "10.9.0.1");
	add_nic(request, "10.8.0.2/16", "fd00:8::2/80", NULL);
	ensure(c, request);
	Bc__V1__Domain *domain =
	        contract_set_state(c, request->spec->id, BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING);
	bc__v1__domain__free_unpacked(domain, NULL);
	(void)snprintf(said, sizeof(said), "GUEST-SEED %s-", request->spec->id);
	guest_says(c, request->spec->id, "", said);
	guest_says(c, request->spec->id, "", "GUEST-NET eth0 10.9.0.2/24 fd00:9::2/64");
	guest_says(c, request->spec->id, "", "GUEST-NET eth1 10.8.0.2/16 fd00:8::2/80");
	guest_says(c, request->spec->id, "", "said-by-user-data");
	guest_says(c, request->spec->id, "", "GUEST-READY web-7");
	guest_says(c, request->spec->id, "ip route | grep default\n", "default via 10.9.0.1 dev eth0");
	assert_true(contract_remove(c, request->spec->id));
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void a_dry_run_needs_no_libvirt(void **state)
{
	struct contract *c = *state;
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	Bc__V1__RuntimeListRequest list = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	char dir[512];

	request->dry_run = true;
	Bc__V1__EnsureReply *reply = contract_call(c, RUNTIME(ensure), request, NULL);
	assert_non_null(strstr(reply->definition, request->spec->id));
	assert_non_null(strstr(reply->definition, "<domain type=\"qemu\">"));
	assert_string_equal(reply->domain->id, request->spec->id);
	bc__v1__ensure_reply__free_unpacked(reply, NULL);
	/* what it would be refused for is said here too */
	request->spec->n_gpu_device_ids = 1;
	request->spec->gpu_device_ids = calloc(1, sizeof(char *));
	request->spec->gpu_device_ids[0] = strdup("GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000001");
	contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_FAILED_PRECONDITION);
	/* anything else is no empty answer, and leaves nothing behind */
	contract_refused(c, RUNTIME(list), &list, GRPC_STATUS_UNAVAILABLE);
	request->dry_run = false;
	request->spec->n_gpu_device_ids = 0;
	contract_refused(c, RUNTIME(ensure), request, GRPC_STATUS_UNAVAILABLE);
	(void)snprintf(dir, sizeof(dir), "%s/i/%s", c->dir, request->spec->id);
	assert_int_equal(access(dir, F_OK), -1);
	request->spec->n_gpu_device_ids = 1; /* to be freed with it */
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

TEST_SUITE(service_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(user_data_stays_when_later_calls_bring_none, &libvirt_service),
		CONTRACT_TEST(a_guest_finds_itself_in_its_seed, &libvirt_service),
		CONTRACT_TEST(a_dry_run_needs_no_libvirt, &NOWHERE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
