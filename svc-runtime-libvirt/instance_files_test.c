#include "svc-runtime-libvirt/instance_files.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sandbox_test.h"
#include "lib/snapshot/tar.h"
#include "svc-runtime-libvirt/domain_snapshot.h"
#include "svc-runtime-libvirt/ending.h"
#include "svc-runtime-libvirt/instance_restore.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ID "11111111-1111-4111-8111-111111111111"
#define DIGEST "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define MIB (UINT64_C(1) << 20)

/* An instance with a raw base image of 1 MiB; its directory is instances/ID below the sandbox. */
struct instance {
	char instances[128], image[128], disk[256], seed[256];
	struct instance_files_conf conf;
	struct domain_def def;
	atomic_bool is_over;
};

static void instance_fill(void **state, struct instance *x)
{
	*x = (struct instance){ 0 };
	(void)snprintf(x->instances, sizeof(x->instances), "%s/instances", (const char *)*state);
	(void)snprintf(x->image, sizeof(x->image), "%s/image", (const char *)*state);
	(void)snprintf(x->disk, sizeof(x->disk), "%s/" ID "/disk.qcow2", x->instances);
	(void)snprintf(x->seed, sizeof(x->seed), "%s/" ID "/seed.iso", x->instances);
	(void)mkdir(x->instances, 0700);
	CLEANUP_CLOSE int fd = open(x->image, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	x->conf = (struct instance_files_conf){ .instances_dir = x->instances, .vmm_gid = (gid_t)-1 };
	(void)strcpy(x->def.id, ID);
	(void)strcpy(x->def.image_digest, DIGEST);
	x->def.allocation_id = (char *)"a1";
	x->def.image_path = x->image;
	x->def.disk_path = x->disk;
	x->def.seed_path = x->seed;
}

static int instance_make(struct instance *x, const struct instance_restore *restore, struct err *err)
{
	struct instance_files_made made;

	return instance_files_make(&x->conf, &x->def, NULL, restore, false, &made, err);
}

static bool is_there(const struct instance *x, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/" ID "/%s", x->instances, name);
	return access(path, F_OK) == 0;
}

static void making_twice_changes_nothing(void **state)
{
	struct instance x;
	struct stat first, second;

	instance_fill(state, &x);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	assert_int_equal(stat(x.disk, &first), 0);
	assert_int_equal(first.st_mode & 07777, 0660);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	assert_int_equal(stat(x.disk, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
}

static uint64_t file_bytes(const char *path, char *buf, size_t size)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	ssize_t n = read(fd, buf, size);
	assert_true(n >= 0 && (size_t)n < size);
	return (uint64_t)n;
}

/* Whatever a call brings less of than the one before: what is there already stays, byte for byte. */
static void a_later_call_takes_nothing_away(void **state)
{
	static char first[1 << 20], later[1 << 20];
	CLEANUP(secret) struct secret *user_data = NULL, *other = NULL;
	struct instance x;
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	const struct seed *const poorer[] = { NULL, &seed };
	struct instance_files_made made;
	char nvram[256], vars[128];

	instance_fill(state, &x);
	(void)snprintf(nvram, sizeof(nvram), "%s/" ID "/nvram.fd", x.instances);
	(void)snprintf(vars, sizeof(vars), "%s/vars", (const char *)*state);
	CLEANUP_CLOSE int fd = open(vars, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(pwrite(fd, "template", 8, 0), 8);
	x.def.nvram_path = nvram;
	x.conf.firmware_vars = vars;
	assert_int_equal(secret_new("#!/bin/sh\necho one", 18, &user_data), 0);
	assert_int_equal(secret_new("#!/bin/sh\necho two", 18, &other), 0);
	seed.user_data = user_data;
	assert_int_equal(instance_files_make(&x.conf, &x.def, &seed, NULL, false, &made, NULL), 0);
	assert_true(made.dir && made.disk && made.seed && made.nvram);
	uint64_t n = file_bytes(x.seed, first, sizeof(first));
	assert_non_null(memmem(first, n, "echo one", 8));
	/* as guests have written to them since */
	CLEANUP_CLOSE int nvram_fd = open(nvram, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(nvram_fd, "guest's!", 8, 0), 8);
	seed.user_data = NULL;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(poorer); i++) {
		bool known = i % 2;
		assert_int_equal(
		        instance_files_make(&x.conf, &x.def, poorer[i / 2], NULL, known, &made, NULL), 0);
		assert_false(made.dir || made.disk || made.seed || made.nvram);
		assert_int_equal(file_bytes(x.seed, later, sizeof(later)), n);
		assert_memory_equal(first, later, n);
		assert_int_equal(file_bytes(nvram, later, sizeof(later)), 8);
		assert_memory_equal(later, "guest's!", 8);
	}
	seed.user_data = other;
	assert_int_equal(instance_files_make(&x.conf, &x.def, &seed, NULL, true, &made, NULL), 0);
	assert_false(made.seed); /* a failure after it must not take it away */
	assert_true(made.renewed);
	uint64_t n_later = file_bytes(x.seed, later, sizeof(later));
	assert_non_null(memmem(later, n_later, "echo two", 8));
	assert_null(memmem(later, n_later, "echo one", 8));
	/* … but puts the one before back */
	instance_files_undo(&x.conf, &x.def, &made);
	assert_int_equal(file_bytes(x.seed, later, sizeof(later)), n);
	assert_memory_equal(first, later, n);
	/* what the guest is to know of itself follows, with its user data */
	seed.user_data = NULL;
	seed.hostname = "another";
	assert_int_equal(instance_files_make(&x.conf, &x.def, &seed, NULL, true, &made, NULL), 0);
	assert_true(made.renewed);
	instance_files_made_done(&made);
	n_later = file_bytes(x.seed, later, sizeof(later));
	assert_non_null(memmem(later, n_later, "local-hostname: another\n", 24));
	assert_non_null(memmem(later, n_later, "echo one", 8));
	/* without any so far, one is made; then it is the same as above */
	assert_int_equal(unlink(x.seed), 0);
	assert_int_equal(instance_files_make(&x.conf, &x.def, NULL, NULL, true, &made, NULL), 0);
	assert_true(made.seed);
}

static void left_overs_of_another_allocation_are_cleared(void **state)
{
	struct instance x;
	struct stat first, second;

	instance_fill(state, &x);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	assert_int_equal(stat(x.disk, &first), 0);
	CLEANUP_CLOSE int keep = open(x.disk, O_RDONLY | O_CLOEXEC); /* so that its inode is not used again */
	x.def.allocation_id = (char *)"a2";
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	assert_int_equal(stat(x.disk, &second), 0);
	assert_int_not_equal(first.st_ino, second.st_ino);
}

/* Whatever is at the instance's place, and does not say that it is an instance's, is neither used nor removed. */
static void leaves_alone(void **state, struct instance *x, const char *what)
{
	const char *place = SANDBOX_PATH(state, "instances/" ID);
	struct stat before, after;
	struct err err = { 0 };
	bool existed;

	assert_int_equal(lstat(place, &before), 0);
	assert_int_equal(instance_make(x, NULL, &err), -EBUSY);
	assert_non_null(strstr(err.text, place));
	err = (struct err){ 0 };
	assert_int_equal(instance_files_remove(&x->conf, ID, &existed, &err), -EBUSY);
	assert_non_null(strstr(err.text, place));
	assert_int_equal(lstat(place, &after), 0);
	assert_int_equal(after.st_mode, before.st_mode);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(access(what, F_OK), 0);
	assert_int_equal(access(x->disk, F_OK), -1);
}

static void a_directory_that_is_not_ours_is_left_alone(void **state)
{
	struct instance x;

	instance_fill(state, &x);
	assert_int_equal(mkdir(SANDBOX_PATH(state, "instances/" ID), 0700), 0);
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, "instances/" ID "/thesis"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	leaves_alone(state, &x, SANDBOX_PATH(state, "instances/" ID "/thesis"));
}

static void a_file_in_the_place_of_a_directory_is_left_alone(void **state)
{
	struct instance x;

	instance_fill(state, &x);
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, "instances/" ID), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	leaves_alone(state, &x, SANDBOX_PATH(state, "instances/" ID));
}

static void a_link_to_a_directory_is_left_alone(void **state)
{
	static const char SAME[] = "elsewhere/allocation";
	struct instance x;

	instance_fill(state, &x);
	assert_int_equal(mkdir(SANDBOX_PATH(state, "elsewhere"), 0700), 0);
	assert_int_equal(symlink("../elsewhere", SANDBOX_PATH(state, "instances/" ID)), 0);
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, "elsewhere/thesis"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	leaves_alone(state, &x, SANDBOX_PATH(state, "elsewhere/thesis"));
	/* nor when what it leads to says the right thing */
	assert_int_equal(atomic_file_write(AT_FDCWD, SANDBOX_PATH(state, SAME), "a1", 2, 0600), 0);
	leaves_alone(state, &x, SANDBOX_PATH(state, "elsewhere/thesis"));
}

/* On file systems from 4 KiB upwards: made, or nothing is left but what was there. */
static void a_full_file_system_leaves_nothing(void **state)
{
	bool failed = false, made = false;
	struct instance x;

	instance_fill(state, &x);
	for (unsigned kib = 4; kib <= 256; kib += kib < 64 ? 4 : 64) {
		char options[32];
		struct err err = { 0 };

		(void)snprintf(options, sizeof(options), "size=%uk", kib);
		if (mount("none", x.instances, "tmpfs", 0, options) < 0)
			skip(); /* not root: cannot make a small file system */
		int r = instance_make(&x, NULL, &err);
		bool there = access(SANDBOX_PATH(state, "instances/" ID), F_OK) == 0;
		(void)umount2(x.instances, MNT_DETACH);
		if (r < 0) {
			assert_int_equal(r, -ENOSPC);
			assert_non_null(strstr(err.text, "No space left"));
			assert_false(there);
			failed = true;
		} else {
			made = true;
		}
	}
	assert_true(failed && made);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* As root with QEMU's user another: search on the way, and nothing else. */
static void the_way_is_opened_to_files_below_the_data_alone(void **state)
{
	struct instance x;
	struct domain_volume volumes[2] = { 0 };
	char volume[128], image[128], outside[] = "/tmp/bc-test-outside-XXXXXX", foreign[128];

	instance_fill(state, &x);
	(void)snprintf(image, sizeof(image), "%s/images", (const char *)*state);
	assert_int_equal(mkdir(image, 0700), 0);
	(void)snprintf(volume, sizeof(volume), "%s/volumes", (const char *)*state);
	assert_int_equal(mkdir(volume, 0750), 0);
	assert_non_null(mkdtemp(outside));
	(void)snprintf(foreign, sizeof(foreign), "%s/v.raw", outside);
	(void)strcat(image, "/x.img");
	(void)strcat(volume, "/v.raw");
	volumes[0].path = volume;
	volumes[1].path = foreign;
	for (size_t i = 0; i < 3; i++) {
		CLEANUP_CLOSE int fd = open(i == 0 ? image
		                : i == 1           ? volume
		                                   : foreign,
		        O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
	}
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	x.def.image_path = image;
	x.def.volumes = volumes;
	x.def.n_volumes = 2;
	/* not asked for: nothing changes */
	assert_int_equal(instance_files_open_way(&x.conf, &x.def, NULL), 0);
	assert_int_equal(mode_of(SANDBOX_PATH(state, "images")), 0700);
	x.conf.open_below = *state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(instance_files_open_way(&x.conf, &x.def, NULL), 0);
		assert_int_equal(mode_of(*state), 0701);
		assert_int_equal(mode_of(SANDBOX_PATH(state, "images")), 0701);
		assert_int_equal(mode_of(SANDBOX_PATH(state, "volumes")), 0751);
		assert_int_equal(mode_of(x.instances), 0701);
		assert_int_equal(mode_of(image), 0600);
		assert_int_equal(mode_of(volume), 0600);
		assert_int_equal(mode_of(x.disk), 0660);
		assert_int_equal(mode_of(x.seed), 0640);
		assert_int_equal(mode_of(outside), 0700);
	}
	assert_int_equal(unlink(foreign), 0);
	assert_int_equal(rmdir(outside), 0);
}

static void a_new_run_forgets_what_the_one_before_said(void **state)
{
	struct instance x;

	instance_fill(state, &x);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	instance_files_begin_run(&x.conf, ID); /* nothing was said */
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, "instances/" ID "/completed"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	instance_files_begin_run(&x.conf, ID);
	assert_false(is_there(&x, "completed"));
	assert_true(is_there(&x, "disk.qcow2") && is_there(&x, "seed.iso"));
}

static void a_stop_is_noted_until_it_is_told_to_run(void **state)
{
	struct instance x;

	instance_fill(state, &x);
	instance_files_mark_stop(&x.conf, ID); /* there is nothing of it: nothing is made */
	assert_false(is_there(&x, "stopping"));
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	instance_files_mark_stop(&x.conf, ID);
	instance_files_mark_stop(&x.conf, ID);
	assert_true(is_there(&x, "stopping"));
	instance_files_forget_stop(&x.conf, ID);
	instance_files_forget_stop(&x.conf, ID);
	assert_false(is_there(&x, "stopping"));
}

/* --- out of a snapshot --- */

static void snapshot_make(void **state, const struct instance *x, const char *name)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *w = NULL;
	char digest[SHA256_DIGEST_MAX];
	uint64_t bytes;
	struct snapshot_meta meta = { .runtime = "libvirt-kvm",
		.kind = SNAPSHOT_MEMORY,
		.cpu_model = "this",
		.vcpus = 1,
		.memory_bytes = MIB,
		.disk_format = IMAGE_QCOW2,
		.disk_bytes = MIB };

	(void)strcpy(meta.instance_id, ID);
	(void)strcpy(meta.image_digest, DIGEST);
	CLEANUP_CLOSE int disk = open(x->disk, O_RDONLY | O_CLOEXEC);
	assert_int_equal(snapshot_writer_new(SANDBOX_PATH(state, name), FILE_PERM(0600), &meta, &w, NULL), 0);
	assert_int_equal(snapshot_writer_add_bytes(w, SNAPSHOT_MEMORY_NAME, "memory", 6, NULL), 0);
	assert_int_equal(snapshot_writer_add_file(w, SNAPSHOT_DISK_NAME, disk, NULL, NULL, NULL), 0);
	assert_int_equal(snapshot_writer_add_bytes(w, SNAPSHOT_SEED_NAME, "old seed", 8, NULL), 0);
	assert_int_equal(snapshot_writer_finish(w, digest, &bytes, NULL), 0);
}

static void a_restore_is_made_once_and_keeps_its_seed(void **state)
{
	struct instance x;
	struct stat st;
	bool existed;

	instance_fill(state, &x);
	x.def.vcpus = 1;
	x.def.memory_bytes = MIB;
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	snapshot_make(state, &x, "tar");
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	struct instance_restore restore = { .path = SANDBOX_PATH(state, "tar"),
		.with_memory = true,
		.runtime = "libvirt-kvm",
		.cpu_model = "this" };
	assert_int_equal(instance_make(&x, &restore, NULL), 0);
	assert_true(instance_is_restored(&x.conf, ID));
	assert_true(is_there(&x, "restore.memory"));
	assert_int_equal(stat(x.seed, &st), 0);
	assert_int_equal(st.st_size, 8);
	/* Asked again, it is not extracted again: a memory that was used up stays away. */
	assert_int_equal(unlink(SANDBOX_PATH(state, "instances/" ID "/restore.memory")), 0);
	assert_int_equal(instance_make(&x, &restore, NULL), 0);
	assert_false(is_there(&x, "restore.memory"));
	assert_int_equal(stat(x.seed, &st), 0);
	assert_int_equal(st.st_size, 8);
	/* A crash before the mark: begun anew. */
	assert_int_equal(unlink(SANDBOX_PATH(state, "instances/" ID "/restored")), 0);
	assert_int_equal(instance_make(&x, &restore, NULL), 0);
	assert_true(is_there(&x, "restore.memory"));
}

static void a_restore_is_broken_off_when_the_service_ends(void **state)
{
	struct instance x;
	struct ending ending;
	struct err err = { 0 };
	bool existed;

	instance_fill(state, &x);
	x.def.vcpus = 1;
	x.def.memory_bytes = MIB;
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	snapshot_make(state, &x, "tar");
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	struct instance_restore restore = {
		.path = SANDBOX_PATH(state, "tar"), .runtime = "libvirt-kvm", .cpu_model = "this"
	};
	assert_int_equal(ending_init(&ending), 0);
	x.conf.ending = &ending;
	ending_begin(&ending);
	assert_int_equal(instance_make(&x, &restore, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "this service ends"));
	assert_int_equal(access(SANDBOX_PATH(state, "instances/" ID), F_OK), -1);
	ending_done(&ending);
	x.conf.ending = NULL;
	assert_int_equal(instance_make(&x, &restore, NULL), 0);
}

static void a_restore_that_is_refused_leaves_nothing(void **state)
{
	struct instance x;
	struct err err = { 0 };
	bool existed;

	instance_fill(state, &x);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	snapshot_make(state, &x, "tar");
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	struct instance_restore restore = {
		.path = SANDBOX_PATH(state, "tar"), .runtime = "another", .cpu_model = "this"
	};
	assert_int_equal(instance_make(&x, &restore, &err), -EBUSY);
	assert_non_null(strstr(err.text, "made by runtime 'libvirt-kvm'"));
	assert_int_equal(access(SANDBOX_PATH(state, "instances/" ID), F_OK), -1);
	/* Its disk fits no base that has become larger. */
	restore.runtime = "libvirt-kvm";
	CLEANUP_CLOSE int fd = open(x.image, O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 2 << 20), 0);
	assert_int_equal(instance_make(&x, &restore, NULL), -EBUSY);
	assert_int_equal(access(SANDBOX_PATH(state, "instances/" ID), F_OK), -1);
}

/* Killed before the directory said whose it is. */
static void a_directory_that_was_just_begun_is_removed(void **state)
{
	static const char TEMPORARY[] = "instances/" ID "/.allocation.0123456789abcdef.tmp";
	struct instance x;
	bool existed = false;

	instance_fill(state, &x);
	assert_int_equal(instance_make(&x, NULL, NULL), 0);
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	assert_int_equal(mkdir(SANDBOX_PATH(state, "instances/" ID), 0710), 0);
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, TEMPORARY), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	existed = false;
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	assert_true(existed);
	assert_int_equal(access(SANDBOX_PATH(state, "instances/" ID), F_OK), -1);
}

/* What comes late to an instance that goes neither keeps it nor stays. */
static void *mark_always(void *arg)
{
	const struct instance *x = arg;

	while (!atomic_load(&x->is_over))
		instance_files_mark_stop(&x->conf, ID);
	return NULL;
}

static void a_writer_that_is_late_keeps_nothing(void **state)
{
	struct instance x;
	pthread_t thread;

	instance_fill(state, &x);
	assert_int_equal(pthread_create(&thread, NULL, mark_always, &x), 0);
	for (int i = 0; i < 300; i++) {
		struct err err = { 0 };
		bool existed = false;

		assert_int_equal(instance_make(&x, NULL, NULL), 0);
		if (instance_files_remove(&x.conf, ID, &existed, &err) < 0)
			fail_msg("%s", err.text);
		assert_true(existed);
		assert_int_equal(access(SANDBOX_PATH(state, "instances/" ID), F_OK), -1);
	}
	atomic_store(&x.is_over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rmdir(x.instances), 0);
}

/* Killed while the directory went: that is nobody's, and goes with the next word of the instance. */
static void what_a_killed_removal_left_goes(void **state)
{
	struct instance x;
	bool existed = false;

	instance_fill(state, &x);
	for (int made = 0; made < 2; made++) {
		assert_int_equal(mkdir(SANDBOX_PATH(state, "instances/." ID ".gone"), 0710), 0);
		CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "instances/." ID ".gone/disk.qcow2"),
		        O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		if (made)
			assert_int_equal(instance_make(&x, NULL, NULL), 0);
		else
			assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
		assert_true(existed);
		assert_int_equal(access(SANDBOX_PATH(state, "instances/." ID ".gone"), F_OK), -1);
	}
	assert_int_equal(instance_files_remove(&x.conf, ID, &existed, NULL), 0);
	assert_int_equal(rmdir(x.instances), 0);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(instance_files_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(making_twice_changes_nothing),
		SANDBOXED(a_later_call_takes_nothing_away),
		SANDBOXED(left_overs_of_another_allocation_are_cleared),
		SANDBOXED(a_directory_that_is_not_ours_is_left_alone),
		SANDBOXED(a_file_in_the_place_of_a_directory_is_left_alone),
		SANDBOXED(a_link_to_a_directory_is_left_alone),
		SANDBOXED(a_directory_that_was_just_begun_is_removed),
		SANDBOXED(a_writer_that_is_late_keeps_nothing),
		SANDBOXED(what_a_killed_removal_left_goes),
		SANDBOXED(a_full_file_system_leaves_nothing),
		SANDBOXED(the_way_is_opened_to_files_below_the_data_alone),
		SANDBOXED(a_new_run_forgets_what_the_one_before_said),
		SANDBOXED(a_stop_is_noted_until_it_is_told_to_run),
		SANDBOXED(a_restore_is_made_once_and_keeps_its_seed),
		SANDBOXED(a_restore_is_broken_off_when_the_service_ends),
		SANDBOXED(a_restore_that_is_refused_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
