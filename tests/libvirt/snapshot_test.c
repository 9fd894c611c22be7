/* Snapshots of real guests, and new instances that begin where those were. */
#include "tests/libvirt/real.h"

#include "lib/image/disk.h"
#include "lib/snapshot/tar.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)

/* A Linux guest with a disk of 1 GiB that it boots from and can write behind the image's end. */
static void guest_request(struct real *real, struct real_request *ret)
{
	real_request_image(real, ret, "disk.qcow2");
	ret->spec.root_disk_bytes = GIB;
}

static void guest_start(struct real *real, struct real_request *request)
{
	guest_request(real, request);
	assert_int_equal(real_ensure(real, request), 0);
	assert_int_equal(real_run(real, request->id), 0);
	real_wait_output(real, request->id, "GUEST-READY");
}

/* Words on the guest's disk, and read back. The answer is spelt so that the echo of the command is not taken for it. */
static void disk_write(struct real *real, const char *id, const char *word)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
	        "echo %s | dd of=/dev/vda bs=512 seek=1000000 conv=sync,fsync 2>/dev/null; echo wrote'-'%s\n",
	        word, word);
	real_type(real, id, text);
	(void)snprintf(text, sizeof(text), "wrote-%s", word);
	real_wait_output(real, id, text);
}

static void disk_has(struct real *real, const char *id, const char *word)
{
	char text[256];

	real_type(real, id,
	        "echo disk'-'$(dd if=/dev/vda bs=512 skip=1000000 count=1 2>/dev/null | head -n 1)\n");
	(void)snprintf(text, sizeof(text), "disk-%s", word);
	real_wait_output(real, id, text);
}

static char *tar_path(struct real *real, const char *name, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/%s.tar", real->root.path, name);
	return buf;
}
#define TAR(real, name) tar_path(real, name, (char[128]){ 0 }, 128)

/* Nothing of a snapshot is left beside the instance's own files. */
static void files_are_clean(struct real *real, const char *id)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", real->root.instances, id);
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (strstr(entry->d_name, "snapshot.") || strstr(entry->d_name, ".tmp") ||
		        strcmp(entry->d_name, "restore.memory") == 0)
			fail_msg("%s is left in %s", entry->d_name, path);
	const struct domain_entry *entry = real_find(real, id);
	assert_non_null(entry);
	assert_string_equal(strrchr(entry->look.record.def->disk_path, '/'), "/disk.qcow2");
}

static void restore_request(struct real *real, struct real_request *ret, const char *tar, bool with_memory)
{
	static Bc__V1__RestoreFrom restore;

	guest_request(real, ret);
	restore = (Bc__V1__RestoreFrom)BC__V1__RESTORE_FROM__INIT;
	restore.with_memory = with_memory;
	ret->spec.restore_from = &restore;
	ret->ensure.restore_path = (char *)tar;
	ret->ensure.restored_from = real->digest;
}

static void disk_of_a_running_guest_becomes_another(void **state)
{
	struct real *real = *state;
	struct real_request one, two;

	guest_start(real, &one);
	disk_write(real, one.id, "before");
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "disk")), 0);
	assert_int_equal(strncmp(real->digest, "sha256:", 7), 0);
	assert_true(real->bytes > 0);
	files_are_clean(real, one.id);
	/* It runs on, on its own disk. */
	disk_write(real, one.id, "after");
	restore_request(real, &two, TAR(real, "disk"), false);
	assert_int_equal(real_ensure(real, &two), 0);
	assert_string_equal(real_find(real, two.id)->look.record.def->restored_from, real->digest);
	assert_int_equal(real_run(real, two.id), 0);
	real_wait_output(real, two.id, "GUEST-READY");
	disk_has(real, two.id, "before");
	disk_has(real, one.id, "after");
	/* What was written on the layer is on the disk after a cold start. */
	assert_int_equal(real_stop(real, one.id, 0), 0);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY");
	disk_has(real, one.id, "after");
	assert_int_equal(real_remove(real, one.id), 0);
	assert_int_equal(real_remove(real, two.id), 0);
}

static void disk_of_one_that_is_off(void **state)
{
	struct real *real = *state;
	struct real_request one, two;

	guest_start(real, &one);
	disk_write(real, one.id, "cold");
	assert_int_equal(real_stop(real, one.id, 0), 0);
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "off")), 0);
	files_are_clean(real, one.id);
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "off-memory")), -EBUSY);
	assert_non_null(strstr(real->err.text, "is off"));
	assert_int_equal(access(TAR(real, "off-memory"), F_OK), -1);
	assert_int_equal(real_remove(real, one.id), 0);
	restore_request(real, &two, TAR(real, "off"), false);
	two.spec.root_disk_bytes = 2 * GIB;
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), 0);
	real_wait_output(real, two.id, "GUEST-READY");
	disk_has(real, two.id, "cold");
	real_type(real, two.id, "echo size'-'$(cat /sys/block/vda/size)\n");
	real_wait_output(real, two.id, "size-4194304");
	assert_int_equal(real_remove(real, two.id), 0);
}

/* What a restore elsewhere is compared with is the CPU that the guest has, not one that a spec names. */
static void cpu_model_is_the_one_in_use(struct real *real, const char *id, const char *tar)
{
	struct snapshot_meta meta;

	assert_int_equal(snapshot_read_meta(tar, &meta, NULL), 0);
	size_t n_model = strcspn(meta.cpu_model, " +");
	assert_true(n_model > 0);
	real_shell("tr '\\0' ' ' </proc/%d/cmdline | grep -q -e '-cpu %.*s[, ]'",
	        (int)real_find(real, id)->look.pid, (int)n_model, meta.cpu_model);
}

static void memory_goes_on_where_it_was(void **state)
{
	struct real *real = *state;
	struct real_request one, two;

	guest_start(real, &one);
	disk_write(real, one.id, "together");
	real_type(real, one.id, "kept=only-in-$((6*7)); echo set'-'it\n");
	real_wait_output(real, one.id, "set-it");
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "memory")), 0);
	files_are_clean(real, one.id);
	cpu_model_is_the_one_in_use(real, one.id, TAR(real, "memory"));
	/* The guest that was snapshotted has not noticed. */
	real_type(real, one.id, "echo still'-'$kept\n");
	real_wait_output(real, one.id, "still-only-in-42");
	disk_write(real, one.id, "later");

	restore_request(real, &two, TAR(real, "memory"), true);
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), 0);
	files_are_clean(real, two.id);
	real_type(real, two.id, "\necho again'-'$kept\n");
	real_wait_output(real, two.id, "again-only-in-42");
	disk_has(real, two.id, "together");
	disk_has(real, one.id, "later");
	/* Its own domain, which stops and starts as any other. */
	assert_string_equal(real_find(real, two.id)->uuid, two.id);
	assert_int_equal(real_stop(real, two.id, 0), 0);
	assert_int_equal(real_run(real, two.id), 0);
	real_wait_output(real, two.id, "GUEST-READY");
	disk_has(real, two.id, "together");
	assert_int_equal(real_remove(real, one.id), 0);
	assert_int_equal(real_remove(real, two.id), 0);
}

/* Two NICs, one of them with a published port, and a volume that is only read. */
static void equip(struct real *real, struct real_request *request, uint16_t port)
{
	real_request_nic(request, NIC_TAP, 1);
	/* with an address that no TAP's changes: a guest that wakes up knows it */
	real_shell(
	        "ip link show brs >/dev/null 2>&1 || { ip link add brs address 02:00:00:00:00:01 type bridge && "
	        "ip addr add 10.9.1.1/24 dev brs && ip link set brs up; }");
	real_shell("ip tuntap add dev %s mode tap && ip link set %s master brs up", request->ifname[0],
	        request->ifname[0]);
	real_request_nic(request, NIC_USER, 1);
	request->ensure.n_ports = request->ports.n_mappings = 1;
	request->ports.nic_index = 1;
	request->mapping.host_address = (char *)"127.0.0.1";
	request->mapping.host_port = port;
	request->mapping.guest_port = 80;
	real_request_volume(real, request, "shared", 1 << 20);
	request->volumes[0].read_only = request->volume_paths[0].read_only = true;
}

static void memory_moves_with_all_its_devices_and_takes_an_identity(void **state)
{
	struct real *real = *state;
	struct real_request one, two;
	char text[256];

	guest_request(real, &one);
	equip(real, &one, 18081);
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY");
	(void)snprintf(text, sizeof(text),
	        "nic=$(grep -l %s /sys/class/net/*/address | cut -d/ -f5); ip addr add 10.9.1.2/24 dev $nic; "
	        "ip link set $nic up; until ping -c 1 -W 5 10.9.1.1; do sleep 1; done; echo first'-'ping\n",
	        real_find(real, one.id)->look.record.def->nics[0].mac);
	real_type(real, one.id, text);
	real_wait_output(real, one.id, "first-ping");
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "devices")), 0);
	assert_int_equal(real_remove(real, one.id), 0);
	restore_request(real, &two, TAR(real, "devices"), true);
	equip(real, &two, 18082);
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), 0);
	/* Its NIC is on the new instance's interface, and works. */
	real_type(real, two.id, "\nuntil ping -c 1 -W 5 10.9.1.1; do sleep 1; done; echo second'-'ping\n");
	real_wait_output(real, two.id, "second-ping");
	real_type(real, two.id, "dd if=/dev/vdb of=/dev/null bs=64k && echo volume'-'read\n");
	real_wait_output(real, two.id, "volume-read");
	assert_int_equal(real_rebind(real, two.id, "identity/2", "hostname moved\n",
	                         test_timeout_usec(TEST_GUEST_SEC)),
	        0);
	assert_string_equal(real_find(real, two.id)->look.record.def->rebound_ref, "identity/2");
	real_type(real, two.id, "echo i-am'-'$(hostname)\n");
	real_wait_output(real, two.id, "i-am-moved");
	assert_int_equal(real_remove(real, two.id), 0);
	real_shell("ip link del %s; ip link del %s", one.ifname[0], two.ifname[0]);
}

static void memory_of_a_guest_without_a_disk(void **state)
{
	struct real *real = *state;
	struct real_request one, two;
	static Bc__V1__RestoreFrom restore;

	real_request_kernel(real, &one, "bc.hostname=diskless");
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY diskless");
	real_type(real, one.id, "kept=$((6*7)); echo set'-'it\n");
	real_wait_output(real, one.id, "set-it");
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "none")), 0);
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "diskless")), 0);
	real_request_kernel(real, &two, "bc.hostname=other");
	restore = (Bc__V1__RestoreFrom)BC__V1__RESTORE_FROM__INIT;
	restore.with_memory = true;
	two.spec.restore_from = &restore;
	two.ensure.restore_path = TAR(real, "diskless");
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), 0);
	real_type(real, two.id, "\necho again'-'$kept-$(hostname)\n");
	real_wait_output(real, two.id, "again-42-diskless");
	assert_int_equal(real_remove(real, one.id), 0);
	assert_int_equal(real_remove(real, two.id), 0);
}

/* Its firmware's variables are a file of their own; libvirt's internal snapshots would not take it. */
static void memory_of_a_guest_with_uefi(void **state)
{
	struct real *real = *state;
	struct real_request one, two;
	char nvram[160];

	guest_request(real, &one);
	one.image.firmware = BC__V1__IMAGE_BOOT__FIRMWARE__UEFI;
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "BdsDxe"); /* the disk boots by BIOS alone: the firmware says so */
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "uefi")), 0);
	files_are_clean(real, one.id);
	restore_request(real, &two, TAR(real, "uefi"), true);
	two.image.firmware = BC__V1__IMAGE_BOOT__FIRMWARE__UEFI;
	assert_int_equal(real_ensure(real, &two), 0);
	assert_int_equal(real_run(real, two.id), 0);
	assert_int_equal(real_find(real, two.id)->condition.state, DOMAIN_RUNNING);
	(void)snprintf(nvram, sizeof(nvram), "%s/%s/nvram.fd", real->root.instances, two.id);
	assert_int_equal(access(nvram, F_OK), 0);
	assert_int_equal(real_remove(real, one.id), 0);
	assert_int_equal(real_remove(real, two.id), 0);
	assert_int_equal(access(nvram, F_OK), -1);
}

static void what_cannot_be_restored_is_refused_and_nothing_is_left(void **state)
{
	struct real *real = *state;
	struct real_request one, two;
	char path[128];

	guest_request(real, &one);
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "small")), 0);
	assert_int_equal(real_remove(real, one.id), 0);
	/* Memory it does not hold; a smaller disk; another image; no tar at all; a tar that was cut. */
	restore_request(real, &two, TAR(real, "small"), true);
	assert_int_equal(real_ensure(real, &two), -EBUSY);
	assert_non_null(strstr(real->err.text, "holds a disk only"));
	(void)snprintf(path, sizeof(path), "%s/%s", real->root.instances, two.id);
	assert_int_equal(access(path, F_OK), -1);
	restore_request(real, &two, TAR(real, "small"), false);
	two.spec.root_disk_bytes = GIB / 2;
	assert_int_equal(real_ensure(real, &two), -EBUSY);
	restore_request(real, &two, TAR(real, "small"), false);
	two.image.digest = (char *)"sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	assert_int_equal(real_ensure(real, &two), -EBUSY);
	assert_non_null(strstr(real->err.text, "must boot from it"));
	restore_request(real, &two, TAR(real, "absent"), false);
	assert_int_equal(real_ensure(real, &two), -ENOENT);
	assert_int_equal(truncate(TAR(real, "small"), 3000), 0);
	restore_request(real, &two, TAR(real, "small"), false);
	assert_int_equal(real_ensure(real, &two), -EINVAL);
	assert_null(real_find(real, two.id));
	(void)snprintf(path, sizeof(path), "%s/%s", real->root.instances, two.id);
	assert_int_equal(access(path, F_OK), -1);
}

static void a_paused_guest_stays_paused(void **state)
{
	struct real *real = *state;
	struct real_request one;

	real_request_image(real, &one, "smallest.raw");
	assert_int_equal(real_ensure(real, &one), 0);
	assert_int_equal(real_pause(real, one.id), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "paused")), -EBUSY);
		assert_non_null(strstr(real->err.text, "is paused"));
		assert_int_equal(access(TAR(real, "paused"), F_OK), -1);
		assert_int_equal(
		        real_snapshot(real, one.id, false, TAR(real, i ? "paused-2" : "paused-1")), 0);
		files_are_clean(real, one.id);
		assert_int_equal(real_find(real, one.id)->condition.state, DOMAIN_PAUSED);
		assert_string_equal(real_find(real, one.id)->condition.reason, "");
	}
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY");
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "paused")), 0);
	assert_int_equal(real_remove(real, one.id), 0);
}

static void abandon(struct real *real)
{
	snapshot_abandon(real->snapshot);
}

/* One that nobody wants any more ends. */
static void a_snapshot_that_comes_to_nothing_leaves_the_guest_as_it_was(void **state)
{
	struct real *real = *state;
	struct real_request one;

	guest_start(real, &one);
	real->at_progress = abandon;
	int r = real_snapshot(real, one.id, true, TAR(real, "cancelled"));
	real->at_progress = NULL;
	/* It may have been over before the first word of it. */
	if (r < 0)
		assert_int_equal(r, -ECANCELED);
	assert_int_equal(access(TAR(real, "cancelled"), F_OK), -1);
	files_are_clean(real, one.id);
	/* One that cannot be written is found out when the guest is on the layer. */
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "nowhere/x")), -EBUSY);
	files_are_clean(real, one.id);
	real_shell(
	        "mkdir %s/full && mount -t tmpfs -o size=64k none %s/full", real->root.path, real->root.path);
	assert_int_equal(real_snapshot(real, one.id, true, TAR(real, "full/x")), -ENOSPC);
	real_shell("[ -z \"$(ls -A %s/full)\" ] && umount %s/full", real->root.path, real->root.path);
	files_are_clean(real, one.id);
	assert_int_equal(real_find(real, one.id)->condition.state, DOMAIN_RUNNING);
	disk_write(real, one.id, "goes-on");
	/* A file that is there is never written over. */
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "again")), 0);
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "again")), -EEXIST);
	disk_has(real, one.id, "goes-on");
	assert_int_equal(real_remove(real, one.id), 0);
}

static void kill_qemu(struct real *real)
{
	const struct domain_entry *entry = real_find(real, real->at_progress_id);

	if (entry && entry->look.pid > 0)
		(void)kill((pid_t)entry->look.pid, SIGKILL);
}

/* at NULL: before it begins in earnest. Else at each progress, so while the guest is on the layer. */
static void qemu_is_killed(struct real *real, void (*at)(struct real *real))
{
	struct real_request one;

	guest_start(real, &one);
	disk_write(real, one.id, "safe");
	real->at_progress_id = one.id;
	real->at_progress = at;
	real_snapshot_begin(real, one.id, true, TAR(real, at ? "killed-late" : "killed"));
	if (!at)
		kill_qemu(real);
	(void)real_snapshot_end(real);
	real->at_progress = NULL;
	real_wait_state(real, one.id, DOMAIN_CRASHED);
	assert_int_equal(real_run(real, one.id), 0);
	files_are_clean(real, one.id);
	real_wait_output(real, one.id, "GUEST-READY");
	disk_has(real, one.id, "safe");
	assert_int_equal(real_remove(real, one.id), 0);
}

static void qemu_killed_at_the_beginning_loses_nothing(void **state)
{
	qemu_is_killed(*state, NULL);
}

static void qemu_killed_on_the_layer_loses_nothing(void **state)
{
	qemu_is_killed(*state, kill_qemu);
}

/* Of a snapshot that this thread takes, so that at a moment of it the loop, and with it the guest's port, can be run. */
struct taken {
	struct real *real;
	const char *id;
	bool begun;
	struct snapshot_take take;
	int r;
};

static int write_and_die(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	struct taken *taken = userdata;

	(void)done_bytes;
	(void)total_bytes;
	if (taken->begun)
		return 0;
	taken->begun = true;
	disk_write(taken->real, taken->id, "on-the-layer");
	taken->real->at_progress_id = taken->id;
	kill_qemu(taken->real);
	real_wait_state(taken->real, taken->id, DOMAIN_CRASHED);
	return 0;
}

static void snapshot_take_here(struct taken *taken, progress_fn progress, const char *path)
{
	struct instance_files_conf files = runtime_files_conf(taken->real->runtime);
	struct slow slow = { .what = "a snapshot" };
	struct err err = { 0 };

	taken->take = (struct snapshot_take){
		.path = path,
		.runtime = RUNTIME_ID,
		.cpu_model = taken->real->runtime->cpu_model,
		.hypervisor_version = "",
		.progress = progress,
		.userdata = taken,
	};
	real_find(taken->real, taken->id)->slow = &slow;
	virConnectPtr conn = virt_ref(taken->real->runtime->virt);
	taken->r = domain_op_snapshot(conn, taken->id, &files, &taken->take, &err);
	(void)virConnectClose(conn);
	real_find(taken->real, taken->id)->slow = NULL;
	if (taken->r < 0)
		print_message("%s\n", err_text(&err, taken->r));
}

/* The disk below is in the tar already when QEMU ends: what the guest wrote since is on the layer alone. */
static void what_was_written_on_the_layer_outlives_its_qemu(void **state)
{
	struct real *real = *state;
	struct real_request one;

	guest_start(real, &one);
	disk_write(real, one.id, "below");
	struct taken taken = { .real = real, .id = one.id };
	snapshot_take_here(&taken, write_and_die, TAR(real, "died"));
	assert_true(taken.begun);
	assert_int_equal(taken.r, 0);
	assert_int_equal(real_run(real, one.id), 0);
	files_are_clean(real, one.id);
	real_wait_output(real, one.id, "GUEST-READY");
	disk_has(real, one.id, "on-the-layer");
	assert_int_equal(real_remove(real, one.id), 0);
}

static bool is_settled(struct real *real, void *arg)
{
	const struct domain_entry *entry = real_find(real, arg);

	return entry && !domain_is_unsettled(entry->look.record.def);
}

/* By the end of this service: the next one does it. */
static void settle_is_broken_off(struct real *real, virConnectPtr conn, const char *id)
{
	struct instance_files_conf files = runtime_files_conf(real->runtime);
	struct ending ending;
	struct err err = { 0 };

	assert_int_equal(ending_init(&ending), 0);
	ending_begin(&ending);
	files.ending = &ending;
	assert_int_equal(domain_op_settle(conn, id, &files, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "this service ends"));
	ending_done(&ending);
}

/* As after a kill of this service: a layer that nobody waits for. */
static void put_on_a_layer(struct real *real, const char *id)
{
	char disk[160], layer[160], xml[512];

	(void)snprintf(disk, sizeof(disk), "%s/%s/disk.qcow2", real->root.instances, id);
	(void)snprintf(layer, sizeof(layer), "%s/%s/snapshot.layer", real->root.instances, id);
	(void)snprintf(xml, sizeof(xml),
	        "<domainsnapshot><disks><disk name='vda' snapshot='external' type='file'><driver type='qcow2'/>"
	        "<source file='%s'/></disk></disks></domainsnapshot>",
	        layer);
	assert_int_equal(disk_create_layer(layer, disk, GIB, FILE_PERM(0660), NULL), 0);
	virConnectPtr conn = virt_ref(real->runtime->virt);
	virDomainPtr domain = virDomainLookupByUUIDString(conn, id);
	virDomainSnapshotPtr snapshot = virDomainSnapshotCreateXML(domain, xml,
	        VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA | VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY |
	                VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT);
	assert_non_null(snapshot);
	(void)virDomainSnapshotFree(snapshot);
	(void)virDomainFree(domain);
	(void)virConnectClose(conn);
}

static void a_layer_that_is_found_is_committed(void **state)
{
	struct real *real = *state;
	struct real_request one;
	char layer[160];

	guest_start(real, &one);
	put_on_a_layer(real, one.id);
	disk_write(real, one.id, "on-the-layer");
	virConnectPtr conn = virt_ref(real->runtime->virt);
	settle_is_broken_off(real, conn, one.id);
	(void)virConnectClose(conn);
	(void)snprintf(layer, sizeof(layer), "%s/%s/snapshot.layer", real->root.instances, one.id);
	assert_int_equal(access(layer, F_OK), 0);
	real_restart(real);
	real_wait(real, is_settled, one.id);
	disk_has(real, one.id, "on-the-layer");
	assert_int_equal(real_stop(real, one.id, 0), 0);
	files_are_clean(real, one.id);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY");
	disk_has(real, one.id, "on-the-layer");
	assert_int_equal(real_remove(real, one.id), 0);
}

/* The definition is all that says that there is one, of an instance that ended while nobody looked. */
static void another_spec_does_not_forget_a_layer(void **state)
{
	struct real *real = *state;
	struct real_request one;

	guest_request(real, &one);
	assert_int_equal(real_ensure(real, &one), 0);
	put_on_a_layer(real, one.id);
	real_shell("qemu-io -f qcow2 -c 'write -q -P 0x61 512000000 512' %s/%s/snapshot.layer",
	        real->root.instances, one.id);
	one.spec.vcpus = 2;
	assert_int_equal(real_ensure(real, &one), 0);
	files_are_clean(real, one.id);
	assert_int_equal(real_run(real, one.id), 0);
	real_wait_output(real, one.id, "GUEST-READY");
	disk_has(real, one.id, "aaaaaaaa");
	assert_int_equal(real_remove(real, one.id), 0);
}

/* A VMM that its guest got hold of can write to its disk's header too. */
static void a_layer_of_a_disk_whose_header_lies_is_not_committed(void **state)
{
	struct real *real = *state;
	struct real_request one;
	char layer[160];

	guest_request(real, &one);
	assert_int_equal(real_ensure(real, &one), 0);
	put_on_a_layer(real, one.id);
	real_shell("qemu-img rebase -u -f qcow2 -F raw -b /etc/passwd %s/%s/disk.qcow2", real->root.instances,
	        one.id);
	assert_int_equal(real_run(real, one.id), -EINVAL);
	assert_non_null(strstr(real->err.text, "/etc/passwd"));
	(void)snprintf(layer, sizeof(layer), "%s/%s/snapshot.layer", real->root.instances, one.id);
	assert_int_equal(access(layer, F_OK), 0);
	assert_true(domain_is_unsettled(real_find(real, one.id)->look.record.def));
	assert_int_equal(real_remove(real, one.id), 0);
}

/* Such as a rebind disk that its guest did not let go of: libvirt lays a layer over any disk that it is not told of. */
static void a_disk_that_no_definition_has_keeps_its_file(void **state)
{
	struct real *real = *state;
	struct real_request one;
	char xml[256];

	guest_start(real, &one);
	real_shell("truncate -s 1M %s/plugged.raw", real->root.path);
	(void)snprintf(xml, sizeof(xml),
	        "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='%s/plugged.raw'/>"
	        "<target dev='vdz' bus='virtio'/></disk>",
	        real->root.path);
	virConnectPtr conn = virt_ref(real->runtime->virt);
	virDomainPtr domain = virDomainLookupByUUIDString(conn, one.id);
	assert_int_equal(virDomainAttachDeviceFlags(domain, xml, VIR_DOMAIN_AFFECT_LIVE), 0);
	assert_int_equal(real_snapshot(real, one.id, false, TAR(real, "plugged")), 0);
	CLEANUP_FREE char *running = virDomainGetXMLDesc(domain, 0);
	(void)virDomainFree(domain);
	(void)virConnectClose(conn);
	assert_non_null(strstr(running, "/plugged.raw'"));
	files_are_clean(real, one.id);
	assert_int_equal(real_remove(real, one.id), 0);
}

TEST_SUITE(snapshot_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disk_of_a_running_guest_becomes_another),
		cmocka_unit_test(disk_of_one_that_is_off),
		cmocka_unit_test(memory_goes_on_where_it_was),
		cmocka_unit_test(memory_moves_with_all_its_devices_and_takes_an_identity),
		cmocka_unit_test(memory_of_a_guest_without_a_disk),
		cmocka_unit_test(memory_of_a_guest_with_uefi),
		cmocka_unit_test(what_cannot_be_restored_is_refused_and_nothing_is_left),
		cmocka_unit_test(a_paused_guest_stays_paused),
		cmocka_unit_test(a_snapshot_that_comes_to_nothing_leaves_the_guest_as_it_was),
		cmocka_unit_test(qemu_killed_at_the_beginning_loses_nothing),
		cmocka_unit_test(qemu_killed_on_the_layer_loses_nothing),
		cmocka_unit_test(what_was_written_on_the_layer_outlives_its_qemu),
		cmocka_unit_test(a_layer_that_is_found_is_committed),
		cmocka_unit_test(another_spec_does_not_forget_a_layer),
		cmocka_unit_test(a_layer_of_a_disk_whose_header_lies_is_not_committed),
		cmocka_unit_test(a_disk_that_no_definition_has_keeps_its_file),
	};
	return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
