/* What real guests see of their devices. */
#include "tests/libvirt/real.h"

#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void start(struct real *real, const struct real_request *request)
{
	assert_int_equal(real_ensure(real, request), 0);
	assert_int_equal(real_run(real, request->id), 0);
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void volume_is_seen_and_grows(void **state)
{
	struct real *real = *state;
	struct real_request request;
	uint64_t bytes = 0;

	real_request_kernel(real, &request, "");
	real_request_volume(real, &request, "data", GIB);
	start(real, &request);
	real_wait_output(real, request.id, "GUEST-READY");
	/* by its serial, with its size in sectors */
	real_type(real, request.id,
	        "for d in /sys/block/vd*; do echo \"disk $(cat $d/serial) $(cat $d/size)\"; done\n");
	real_wait_output(real, request.id, "disk data 2097152");

	assert_int_equal(real_grow_volume(real, request.id, "data", 3 * GIB, &bytes), 0);
	assert_int_equal(bytes, 3 * GIB);
	assert_int_equal(size_of(request.volume_path[0]), 3 * GIB);
	real_type(real, request.id, "echo now $(cat /sys/block/vd*/size)\n");
	real_wait_output(real, request.id, "now 6291456");
	assert_int_equal(real_find(real, request.id)->look.record.def->volumes[0].size_bytes, 3 * GIB);

	assert_int_equal(real_grow_volume(real, request.id, "data", 3 * GIB, &bytes), 0); /* as it is */
	assert_int_equal(real_grow_volume(real, request.id, "data", 2 * GIB, &bytes), -EBUSY);
	assert_int_equal(real_grow_volume(real, request.id, "data", 4 * GIB + 100, &bytes), -EINVAL);
	assert_int_equal(real_grow_volume(real, request.id, "data", 65536 * GIB + 512, &bytes), -EINVAL);
	assert_int_equal(real_grow_volume(real, request.id, "other", 4 * GIB, &bytes), -ENOENT);
	assert_int_equal(size_of(request.volume_path[0]), 3 * GIB);
	/* the file was grown by its store first: the guest is told */
	assert_int_equal(truncate(request.volume_path[0], 4 * GIB), 0);
	assert_int_equal(real_grow_volume(real, request.id, "data", 4 * GIB, &bytes), 0);
	real_type(real, request.id, "echo then $(cat /sys/block/vd*/size)\n");
	real_wait_output(real, request.id, "then 8388608");

	assert_int_equal(real_stop(real, request.id, 1), 0);
	assert_int_equal(
	        real_grow_volume(real, request.id, "data", 4 * GIB, &bytes), 0); /* off, and so it is */
	assert_int_equal(real_grow_volume(real, request.id, "data", 5 * GIB, &bytes), -EBUSY);
	assert_int_equal(real_remove(real, request.id), 0);
	assert_int_equal(size_of(request.volume_path[0]), 4 * GIB); /* a volume outlives its instance */
}

static void volume_has_one_writer(void **state)
{
	struct real *real = *state;
	struct real_request one, two;

	real_request_smallest(real, &one);
	real_request_volume(real, &one, "shared", GIB);
	start(real, &one);
	real_request_smallest(real, &two);
	real_request_volume(real, &two, "shared", GIB);
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), -EBUSY);
	assert_non_null(strstr(real->err.text, one.id));
	/* nor one that only reads beside it */
	two.volumes[0].read_only = two.volume_paths[0].read_only = true;
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), -EBUSY);
	assert_int_equal(real_stop(real, one.id, 1), 0);
	assert_int_equal(real_run(real, two.id), 0);
	/* two that read are fine */
	one.volumes[0].read_only = one.volume_paths[0].read_only = true;
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_run(real, one.id), 0);
	assert_int_equal(real_remove(real, one.id), 0);
	assert_int_equal(real_remove(real, two.id), 0);
}

/* A spec that comes while it runs is for the next start: until then calls are about what it runs with. */
static void a_later_spec_moves_nothing_under_a_running_guest(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct domain_memory memory;
	char path[128];
	uint64_t bytes = 0;

	real_request_image(real, &request, "smallest.raw");
	request.spec.memory_bytes = 64 * MIB;
	real_request_volume(real, &request, "first", MIB);
	real_request_volume(real, &request, "second", MIB);
	start(real, &request);
	real_wait_output(real, request.id, "GUEST-READY");
	/* the first goes, so that the second takes its name; and there is more memory */
	request.volume_list[0] = &request.volumes[1];
	request.volume_path_list[0] = &request.volume_paths[1];
	request.spec.n_volumes = request.ensure.n_volumes = 1;
	request.volumes[1].read_only = request.volume_paths[1].read_only = true;
	request.spec.memory_bytes = 128 * MIB;
	assert_int_equal(real_ensure(real, &request), 0);

	assert_int_equal(real_grow_volume(real, request.id, "second", 3 * MIB, &bytes), 0);
	assert_int_equal(size_of(request.volume_path[0]), MIB);
	assert_int_equal(size_of(request.volume_path[1]), 3 * MIB);
	assert_int_equal(real_grow_volume(real, request.id, "first", 2 * MIB, &bytes), 0);
	assert_int_equal(size_of(request.volume_path[0]), 2 * MIB);
	assert_int_equal(real_set_memory(real, request.id, 96 * MIB, &memory), -EINVAL);
	(void)snprintf(path, sizeof(path), "%s/both.tar", real->root.path);
	assert_int_equal(real_snapshot(real, request.id, true, path), -EBUSY);
	assert_int_equal(real_snapshot(real, request.id, false, path), 0);
	assert_string_equal(
	        strrchr(real_find(real, request.id)->look.record.def->disk_path, '/'), "/disk.qcow2");

	assert_int_equal(real_stop(real, request.id, 1), 0);
	assert_int_equal(real_grow_volume(real, request.id, "first", 2 * MIB, &bytes), -ENOENT);
	assert_int_equal(real_run(real, request.id), 0);
	assert_int_equal(real_find(real, request.id)->look.record.memory_bytes, 128 * MIB);
	assert_int_equal(real_remove(real, request.id), 0);
}

static void root_disk_grows_and_never_shrinks(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_image(real, &request, "disk.raw");
	off_t base = size_of(request.ensure.image_path);
	request.spec.root_disk_bytes = 64 * MIB;
	start(real, &request);
	real_wait_output(real, request.id, "GUEST-READY");
	real_type(real, request.id, "echo root $(cat /sys/block/vda/size)\n");
	real_wait_output(real, request.id, "root 131072");
	/* while it runs a wish for more waits for the next start */
	request.spec.root_disk_bytes = 128 * MIB;
	assert_int_equal(real_ensure(real, &request), 0);
	request.spec.root_disk_bytes = 96 * MIB;
	assert_int_equal(real_ensure(real, &request), -EBUSY);
	assert_int_equal(real_stop(real, request.id, 1), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	real_type(real, request.id, "echo grown $(cat /sys/block/vda/size)\n");
	real_wait_output(real, request.id, "grown 262144");
	assert_int_equal(real_remove(real, request.id), 0);
	assert_int_equal(size_of(request.ensure.image_path), base);
}

static struct domain_memory memory_of(struct real *real, const char *id)
{
	struct domain_memory memory = { 0 };
	virConnectPtr conn = virt_ref(real->runtime->virt);

	assert_non_null(conn);
	(void)domain_op_get_memory(conn, id, &memory, NULL);
	(void)virConnectClose(conn);
	return memory;
}

static bool memory_is_known(struct real *real, void *arg)
{
	return memory_of(real, arg).usage_known;
}

static bool memory_is_down(struct real *real, void *arg)
{
	return memory_of(real, arg).current_bytes == 248 * MIB;
}

static bool memory_is_back(struct real *real, void *arg)
{
	return memory_of(real, arg).current_bytes == 256 * MIB;
}

static void balloon_is_read_and_set(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct domain_memory memory;

	real_request_kernel(real, &request, "");
	request.spec.balloon = &request.balloon;
	request.balloon.min_bytes = 96 * MIB;
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_get_memory(real, request.id, &memory), -EBUSY); /* off */
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	real_wait(real, memory_is_known, request.id);
	assert_int_equal(real_get_memory(real, request.id, &memory), 0);
	assert_int_equal(memory.current_bytes, 256 * MIB);
	assert_int_equal(memory.maximum_bytes, 256 * MIB);
	assert_true(memory.unused_bytes > 16 * MIB);
	assert_true(memory.unused_bytes < 256 * MIB);

	assert_int_equal(real_set_memory(real, request.id, 512 * MIB, &memory), -EINVAL);
	assert_int_equal(real_set_memory(real, request.id, 64 * MIB, &memory), -EINVAL);
	/* a little: an emulated guest gives pages back one by one */
	assert_int_equal(real_set_memory(real, request.id, 248 * MIB, &memory), 0);
	real_wait(real, memory_is_down, request.id);
	assert_int_equal(real_set_memory(real, request.id, 256 * MIB, &memory), 0);
	real_wait(real, memory_is_back, request.id);
	assert_int_equal(real_remove(real, request.id), 0);
}

static bool has_device(struct real *real, const char *id, const char *target)
{
	virConnectPtr conn = virt_ref(real->runtime->virt);
	virDomainPtr domain = virDomainLookupByUUIDString(conn, id);
	CLEANUP_FREE char *xml = virDomainGetXMLDesc(domain, 0);

	assert_non_null(xml);
	(void)virDomainFree(domain);
	(void)virConnectClose(conn);
	return strstr(xml, target) != NULL;
}

static void restored_guest_takes_an_identity(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "");
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_rebind(real, request.id, "id/1", "payload", USEC_PER_SEC), -EBUSY); /* off */
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	assert_int_equal(
	        real_rebind(real, request.id, "id/1", "hostname reborn\n", test_timeout_usec(TEST_GUEST_SEC)),
	        0);
	struct domain_entry *entry = real_find(real, request.id);
	assert_string_equal(entry->look.record.def->rebound_ref, "id/1");
	real_shell("! ls %s/%s/rebind* 2>/dev/null", real->root.instances, request.id);
	assert_false(has_device(real, request.id, "vdz"));
	/* and once more: what was plugged in is gone */
	assert_int_equal(
	        real_rebind(real, request.id, "id/2", "hostname again\n", test_timeout_usec(TEST_GUEST_SEC)),
	        0);
	/* known after a restart, with another spec, and after a stop */
	real_restart(real);
	assert_string_equal(real_find(real, request.id)->look.record.def->rebound_ref, "id/2");
	request.spec.vcpus = 2;
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_stop(real, request.id, 1), 0);
	assert_string_equal(real_find(real, request.id)->look.record.def->rebound_ref, "id/2");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void deaf_guest_keeps_no_payload(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_smallest(real, &request);
	start(real, &request);
	assert_int_equal(real_rebind(real, request.id, "id/1", "told-to-nobody", 300 * USEC_PER_MSEC),
	        -ETIMEDOUT); /* runs out */
	assert_null(real_find(real, request.id)->look.record.def->rebound_ref);
	/* it still has the disk, but nothing is on it */
	real_shell("grep -q ref=id/1 %s/%s/rebind.raw", real->root.instances, request.id);
	real_shell("! grep -rqs told-to-nobody %s", real->root.instances);
	assert_int_equal(real_remove(real, request.id), 0);
	real_shell("[ ! -e %s/%s ]", real->root.instances, request.id);
}

static void user_data_reaches_the_guest(void **state)
{
	static char script[] = "#!/bin/sh\necho said-by-user-data\n";
	struct real *real = *state;
	struct real_request request;
	char seen[64];

	real_request_kernel(real, &request, "");
	request.spec.user_data_ref = (char *)"ref";
	request.ensure.user_data = (ProtobufCBinaryData){ .len = strlen(script), .data = (uint8_t *)script };
	start(real, &request);
	real_wait_output(real, request.id, "said-by-user-data");
	real_wait_output(real, request.id, "GUEST-READY seeded");
	(void)snprintf(seen, sizeof(seen), "GUEST-SEED %.30s", request.id);
	real_wait_output(real, request.id, seen);
	real_shell("[ $(stat -c %%a %s/%s/seed.iso) = 640 ]", real->root.instances, request.id);
	real_shell("[ $(stat -c %%a %s/%s) = 710 ]", real->root.instances, request.id);
	assert_int_equal(real_remove(real, request.id), 0);
	real_shell("! grep -rls said-by-user-data %s", real->root.path);
}

static void make_tap(const struct real_request *request, size_t nic, const char *mode)
{
	real_shell(
	        "ip link show brt >/dev/null 2>&1 || { ip link add brt type bridge && ip addr add 10.9.0.1/24 dev brt "
	        "&& ip link set brt up; }");
	real_shell("ip tuntap add dev %s mode tap %s && ip link set %s master brt up", request->ifname[nic],
	        mode, request->ifname[nic]);
}

static void tap_guest_pings(struct real *real, uint32_t queues)
{
	struct real_request request;

	real_request_kernel(real, &request, "bc.ip=10.9.0.2/24 bc.peer=10.9.0.1");
	request.spec.vcpus = 2;
	real_request_nic(&request, NIC_TAP, queues);
	make_tap(&request, 0, queues > 1 ? "multi_queue" : "");
	start(real, &request);
	real_wait_output(real, request.id, "PING-OK 10.9.0.1");
	real_type(real, request.id, "echo queues $(ls -d /sys/class/net/eth0/queues/rx-* | wc -l)\n");
	real_wait_output(real, request.id, queues > 1 ? "queues 2" : "queues 1");
	assert_int_equal(real_remove(real, request.id), 0);
	/* it is netd's: it stays */
	real_shell("ip link show %s >/dev/null && ip link del %s", request.ifname[0], request.ifname[0]);
}

static void tap_with_one_queue(void **state)
{
	tap_guest_pings(*state, 1);
}

static void tap_with_two_queues(void **state)
{
	tap_guest_pings(*state, 2);
}

static void missing_tap_is_said(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_smallest(real, &request);
	real_request_nic(&request, NIC_TAP, 1);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), -EBUSY);
	assert_non_null(strstr(real->err.text, request.ifname[0]));
	assert_int_equal(real_find(real, request.id)->condition.state, DOMAIN_CRASHED);
	assert_string_equal(real_find(real, request.id)->condition.reason, "StartFailed");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void macvtap_guest_pings(void **state)
{
	struct real *real = *state;
	struct real_request request;
	struct mac mac;
	char text[MAC_TEXT_MAX];

	real_request_kernel(real, &request, "bc.ip=10.8.0.2/24 bc.peer=10.8.0.1");
	real_request_nic(&request, NIC_MACVTAP, 1);
	request.prepared[0].device = (char *)"/dev/tap0";
	assert_int_equal(tap_mac(request.id, 0, &mac), 0);
	mac_format(&mac, text);
	/* the peer is the other end of a veth pair */
	real_shell("ip link add vm0 type veth peer name vm1 && ip link set vm0 up && ip link set vm1 up && "
	           "ip addr add 10.8.0.1/24 dev vm1");
	real_shell("ip link add link vm0 name %s address %s type macvtap mode bridge && ip link set %s up",
	        request.ifname[0], text, request.ifname[0]);
	start(real, &request);
	real_wait_output(real, request.id, "PING-OK 10.8.0.1");
	assert_int_equal(real_remove(real, request.id), 0);
	real_shell("ip link del vm0");
}

static int connect_and_read(uint16_t port, char *buf, size_t size)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	struct timeval timeout = { .tv_sec = 2 }; /* runs out: of one try */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	ssize_t n =
	        connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -1 : read(fd, buf, size - 1);
	(void)close(fd);
	if (n < 0)
		return -1;
	buf[n] = '\0';
	return (int)n;
}

static bool port_answers(struct real *real, void *arg)
{
	char text[64];

	(void)real;
	(void)arg;
	return connect_and_read(18080, text, sizeof(text)) > 0 && strncmp(text, "hello", 5) == 0;
}

static void user_nic_publishes_a_port(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "bc.ip=10.0.2.15/24 bc.hostname=hello");
	real_request_nic(&request, NIC_USER, 1);
	request.ensure.n_ports = request.ports.n_mappings = 1;
	request.mapping.host_address = (char *)"127.0.0.1";
	request.mapping.host_port = 18080;
	request.mapping.guest_port = 80;
	start(real, &request);
	real_wait_output(real, request.id, "GUEST-READY");
	real_type(real, request.id, "nc -ll -p 80 -e hostname\n");
	real_wait(real, port_answers, NULL);
	assert_int_equal(real_remove(real, request.id), 0);
}

/* Whether a process, or its thread of that name, has the text in a file of its own in /proc. */
static bool proc_says(int64_t pid, const char *thread, const char *file, const char *text)
{
	char command[256];

	if (thread)
		(void)snprintf(command, sizeof(command),
		        "grep -q '%s' $(grep -lx '%s' /proc/%d/task/*/comm | sed 's/comm$/%s/')", text,
		        thread, (int)pid, file);
	else
		(void)snprintf(command, sizeof(command), "grep -q '%s' /proc/%d/%s", text, (int)pid, file);
	return system(command) == 0;
}

static void a_guest_is_where_it_was_placed(void **state)
{
	struct real *real = *state;
	struct real_request request;
	uint32_t pins[2], n_pins = 0, node = 0;
	char wanted[64];
	cpu_set_t usable;

	assert_int_equal(sched_getaffinity(0, sizeof(usable), &usable), 0);
	for (uint32_t cpu = 0; n_pins < 2 && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &usable))
			pins[n_pins++] = cpu;
	if (n_pins == 1)
		pins[1] = pins[0];
	real_request_smallest(real, &request);
	request.spec.vcpus = 2;
	request.spec.placement = &request.placement;
	request.placement.cpu_pins = pins;
	request.placement.n_cpu_pins = 2;
	request.placement.emulator_cpus = &pins[1];
	request.placement.n_emulator_cpus = 1;
	request.placement.numa_nodes = &node;
	request.placement.n_numa_nodes = 1;
	start(real, &request);
	int64_t pid = real_find(real, request.id)->look.pid;
	for (int i = 0; i < 2; i++) {
		char thread[16];
		(void)snprintf(thread, sizeof(thread), "CPU %d/.*", i);
		(void)snprintf(wanted, sizeof(wanted), "^Cpus_allowed_list:\t%u$", pins[i]);
		assert_true(proc_says(pid, thread, "status", wanted));
	}
	(void)snprintf(wanted, sizeof(wanted), "^Cpus_allowed_list:\t%u$", pins[1]);
	assert_true(proc_says(pid, NULL, "status", wanted));
	assert_true(proc_says(pid, NULL, "numa_maps", " bind:0 "));
	assert_int_equal(real_remove(real, request.id), 0);
}

static void memory_that_is_not_there_is_said(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_smallest(real, &request);
	request.spec.memory_bytes = UINT64_C(8) << 40;
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), -ENOMEM);
	request.spec.memory_bytes = UINT64_C(64) << 30;
	request.spec.placement = &request.placement;
	request.placement.huge_page_bytes = 2 * MIB;
	assert_int_equal(real_ensure(real, &request), 0);
	int r = real_run(real, request.id);
	assert_true(r == -ENOMEM || r == -EBUSY); /* no such pages, or no pool of them at all */
	assert_int_equal(real_remove(real, request.id), 0);
}

TEST_SUITE(devices_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(volume_is_seen_and_grows),
		cmocka_unit_test(volume_has_one_writer),
		cmocka_unit_test(a_later_spec_moves_nothing_under_a_running_guest),
		cmocka_unit_test(root_disk_grows_and_never_shrinks),
		cmocka_unit_test(balloon_is_read_and_set),
		cmocka_unit_test(restored_guest_takes_an_identity),
		cmocka_unit_test(deaf_guest_keeps_no_payload),
		cmocka_unit_test(user_data_reaches_the_guest),
		cmocka_unit_test(tap_with_one_queue),
		cmocka_unit_test(tap_with_two_queues),
		cmocka_unit_test(missing_tap_is_said),
		cmocka_unit_test(macvtap_guest_pings),
		cmocka_unit_test(user_nic_publishes_a_port),
		cmocka_unit_test(a_guest_is_where_it_was_placed),
		cmocka_unit_test(memory_that_is_not_there_is_said),
	};

	return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
