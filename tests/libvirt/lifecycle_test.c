/* What happens to real guests on the embedded driver. */
#include "tests/libvirt/real.h"

#include "lib/base/clock.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool exists(const char *fmt, ...)
{
	char path[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return access(path, F_OK) == 0;
}

/* Nowhere below the test's directory: libvirt keeps files of its own. */
static void assert_no_file_of(const struct real *real, const char *id)
{
	char *const roots[] = { (char *)real->root.path, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);

	assert_non_null(tree);
	for (const FTSENT *entry; (entry = fts_read(tree));)
		if (strstr(entry->fts_name, id))
			fail_msg("%s is left", entry->fts_path);
	assert_int_equal(fts_close(tree), 0);
}

static void kernel_guest_lives_and_goes(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "bc.hostname=one");
	assert_int_equal(real_ensure(real, &request), 0);
	struct domain_entry *entry = real_find(real, request.id);
	assert_non_null(entry);
	assert_true(domain_entry_managed(entry));
	assert_int_equal(entry->condition.state, DOMAIN_STOPPED);

	assert_int_equal(real_run(real, request.id), 0);
	assert_int_equal(entry->condition.state, DOMAIN_RUNNING);
	assert_true(entry->look.pid > 0);
	real_wait_output(real, request.id, "GUEST-READY one");
	assert_true(entry->boot.prepared_usec > entry->boot.begun_usec);
	assert_true(entry->boot.started_usec >= entry->boot.prepared_usec);
	assert_true(entry->boot.first_output_usec > entry->boot.begun_usec);
	assert_true(entry->boot.ready_usec >= entry->boot.first_output_usec);

	real_type(real, request.id, "echo typed-$((40+2))\n");
	real_wait_output(real, request.id, "typed-42");

	assert_int_equal(real_pause(real, request.id), 0);
	assert_int_equal(entry->condition.state, DOMAIN_PAUSED);
	assert_int_equal(real_run(real, request.id), 0);
	assert_int_equal(entry->condition.state, DOMAIN_RUNNING);

	/* asked, and it does it itself */
	assert_int_equal(real_stop(real, request.id, 0), 0);
	assert_int_equal(entry->condition.state, DOMAIN_STOPPED);
	assert_string_equal(entry->condition.reason, "");
	real_wait_output(real, request.id, "GUEST-POWEROFF");
	assert_true(domain_entry_managed(entry));

	assert_int_equal(real_remove(real, request.id), 0);
	assert_null(real_find(real, request.id));
	assert_no_file_of(real, request.id);
	assert_int_equal(real_remove(real, request.id), 1); /* absent is success */
}

/* On a disk of its own: the image it began with is never written. And once it has gone, nothing of it is forgotten. */
static void image_guest_boots(void **state, const char *name)
{
	struct real *real = *state;
	struct real_request request;

	real_request_image(real, &request, name);
	real_shell("sha256sum %s >%s/sum", request.ensure.image_path, real->root.path);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY");
	real_type(real, request.id,
	        "echo scribble | dd of=/dev/vda bs=512 seek=20 conv=sync,fsync 2>/dev/null && poweroff -f\n");
	real_wait_state(real, request.id, DOMAIN_STOPPED);
	const struct domain_entry *entry = real_find(real, request.id);
	assert_string_equal(entry->condition.reason, "GuestShutdown");
	assert_true(domain_entry_managed(entry));
	assert_string_equal(entry->look.record.def->allocation_id, "allocation-1");
	assert_string_equal(entry->look.record.def->image_digest, request.image.digest);
	real_shell("grep -q scribble %s/%s/disk.qcow2", real->root.instances, request.id);
	real_shell("sha256sum --quiet -c %s/sum", real->root.path);
	assert_int_equal(real_remove(real, request.id), 0);
	assert_no_file_of(real, request.id);
}

static void raw_image_boots(void **state)
{
	image_guest_boots(state, "disk.raw");
}

static void qcow2_image_boots(void **state)
{
	image_guest_boots(state, "disk.qcow2");
}

static void ensure_twice_is_one(void **state)
{
	struct real *real = *state;
	struct real_request request;
	char digest[DIGEST_TEXT_MAX];

	real_request_smallest(real, &request);
	assert_int_equal(real_ensure(real, &request), 0);
	(void)strcpy(digest, real_find(real, request.id)->look.record.def->spec_digest);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_string_equal(real_find(real, request.id)->look.record.def->spec_digest, digest);
	request.spec.vcpus = 2;
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_find(real, request.id)->look.record.vcpus, 2);
	assert_string_not_equal(real_find(real, request.id)->look.record.def->spec_digest, digest);
	/* another placement of the instance is another incarnation */
	request.spec.allocation_id = (char *)"allocation-2";
	assert_int_equal(real_ensure(real, &request), -EBUSY);
	assert_int_equal(real_remove(real, request.id), 0);
}

static void guest_poweroff_is_told(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "bc.role=poweroff");
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_state(real, request.id, DOMAIN_STOPPED);
	struct domain_entry *entry = real_find(real, request.id);
	assert_string_equal(entry->condition.reason, "GuestShutdown");
	/* nothing of it is forgotten */
	assert_true(domain_entry_managed(entry));
	assert_string_equal(entry->look.record.def->allocation_id, "allocation-1");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void killed_qemu_is_told(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_image(real, &request, "smallest.raw");
	real_request_volume(real, &request, "locked", 1 << 20);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	struct domain_entry *entry = real_find(real, request.id);
	assert_int_equal(kill((pid_t)entry->look.pid, SIGKILL), 0);
	real_wait_state(real, request.id, DOMAIN_CRASHED);
	assert_string_equal(entry->condition.reason, "VmmDied");
	/* and it starts again at once, whatever locks on its images the dead one held */
	assert_int_equal(real_run(real, request.id), 0);
	assert_int_equal(entry->condition.state, DOMAIN_RUNNING);
	assert_int_equal(real_remove(real, request.id), 0);
}

static void undefine(struct real *real, const char *id)
{
	virConnectPtr conn = virt_ref(real->runtime->virt);
	virDomainPtr domain = virDomainLookupByUUIDString(conn, id);

	assert_non_null(domain);
	assert_int_equal(virDomainUndefine(domain), 0);
	(void)virDomainFree(domain);
	(void)virConnectClose(conn);
}

static bool is_gone(struct real *real, void *arg)
{
	return real_find(real, arg) == NULL;
}

/* Somebody undefines it: one that is off is gone, one that runs is so once it ends. */
static void what_vanished_is_removed_with_its_files(void **state)
{
	struct real *real = *state;
	struct real_request off, on;

	real_request_image(real, &off, "smallest.raw");
	assert_int_equal(real_ensure(real, &off), 0);
	undefine(real, off.id);
	real_wait(real, is_gone, off.id);
	assert_true(exists("%s/%s/disk.qcow2", real->root.instances, off.id));
	assert_int_equal(real_remove(real, off.id), 0);
	assert_false(exists("%s/%s", real->root.instances, off.id));
	assert_int_equal(real_remove(real, off.id), 1);

	real_request_image(real, &on, "smallest.raw");
	assert_int_equal(real_ensure(real, &on), 0);
	assert_int_equal(real_run(real, on.id), 0);
	undefine(real, on.id);
	assert_int_equal(real_find(real, on.id)->condition.state, DOMAIN_RUNNING);
	pid_t pid = (pid_t)real_find(real, on.id)->look.pid;
	assert_int_equal(real_remove(real, on.id), 0);
	assert_null(real_find(real, on.id));
	assert_int_equal(kill(pid, 0), -1);
	assert_false(exists("%s/%s", real->root.instances, on.id));
}

static void deaf_guest_is_ended_after_its_grace(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_smallest(real, &request);
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	assert_int_equal(real_stop(real, request.id, 300 * USEC_PER_MSEC), 0); /* runs out */
	assert_int_equal(real_find(real, request.id)->condition.state, DOMAIN_STOPPED);
	assert_string_equal(real_find(real, request.id)->condition.reason, "");
	assert_int_equal(real_stop(real, request.id, 0), 0); /* stopped already */
	assert_int_equal(real_remove(real, request.id), 0);
}

static void guests_outlive_the_runtime(void **state)
{
	struct real *real = *state;
	struct real_request request;

	real_request_kernel(real, &request, "bc.hostname=survivor");
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), 0);
	real_wait_output(real, request.id, "GUEST-READY survivor");
	int64_t pid = real_find(real, request.id)->look.pid;
	real_restart(real);
	struct domain_entry *entry = real_find(real, request.id);
	assert_non_null(entry);
	assert_int_equal(entry->condition.state, DOMAIN_RUNNING);
	assert_int_equal(entry->look.pid, pid);
	/* what it said before is still known, and it can be spoken to */
	real_wait_output(real, request.id, "GUEST-READY survivor");
	real_wait_state(real, request.id, DOMAIN_RUNNING);
	real_type(real, request.id, "echo still-$((1+1))\n");
	real_wait_output(real, request.id, "still-2");
	assert_int_equal(real_remove(real, request.id), 0);
}

static void a_gpu_that_is_not_there_fails_its_instance_alone(void **state)
{
	struct real *real = *state;
	struct real_request request;
	Bc__V1__Gpu gpu = BC__V1__GPU__INIT, *gpus[] = { &gpu };
	char *ids[] = { (char *)"GPU-9bd3c0a1-2d1f-4b1e-8f00-000000000001" };

	real_request_smallest(real, &request);
	gpu.id = ids[0];
	gpu.pci_address = (char *)"00ff:ff:1f.7";
	request.ensure.gpus = gpus;
	request.spec.gpu_device_ids = ids;
	request.ensure.n_gpus = request.spec.n_gpu_device_ids = 1;
	assert_int_equal(real_ensure(real, &request), 0);
	assert_int_equal(real_run(real, request.id), -EBUSY);
	assert_non_null(strstr(real->err.text, "00ff:ff:1f.7"));
	assert_int_equal(real_find(real, request.id)->condition.state, DOMAIN_STOPPED);
	assert_int_equal(real_remove(real, request.id), 0);
}

/* Refused for the words, and nobody has opened what it refers to. */
static void image_is_refused(struct real *real, const struct real_request *request, const char *words)
{
	CLEANUP_CLOSE int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char victim[128], event[4096];

	(void)snprintf(victim, sizeof(victim), "%s/victim", real->root.path);
	assert_true(inotify_add_watch(watch, victim, IN_OPEN | IN_ACCESS) >= 0);
	assert_int_equal(real_ensure(real, request), -EINVAL);
	if (!strstr(real->err.text, words))
		fail_msg("%s", real->err.text);
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_null(real_find(real, request->id));
	assert_false(exists("%s/%s", real->root.instances, request->id));
}

static void a_hostile_image_never_reaches_qemu(void **state)
{
	struct real *real = *state;
	struct real_request request;
	char image[128];

	(void)snprintf(image, sizeof(image), "%s/hostile.qcow2", real->root.path);
	real_shell("truncate -s 1M %s/victim", real->root.path);
	real_request_image(real, &request, "disk.qcow2");
	request.ensure.image_path = image;
	real_shell("qemu-img create -q -f qcow2 -u -b %s/victim -F raw %s 1M", real->root.path, image);
	image_is_refused(real, &request, "/victim'");
	real_shell("rm %s; qemu-img create -q -f qcow2 -o data_file=%s/victim %s 1M", image, real->root.path,
	        image);
	image_is_refused(real, &request, "external file");
}

TEST_SUITE(lifecycle_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_guest_lives_and_goes),
		cmocka_unit_test(raw_image_boots),
		cmocka_unit_test(qcow2_image_boots),
		cmocka_unit_test(ensure_twice_is_one),
		cmocka_unit_test(guest_poweroff_is_told),
		cmocka_unit_test(killed_qemu_is_told),
		cmocka_unit_test(what_vanished_is_removed_with_its_files),
		cmocka_unit_test(deaf_guest_is_ended_after_its_grace),
		cmocka_unit_test(guests_outlive_the_runtime),
		cmocka_unit_test(a_gpu_that_is_not_there_fails_its_instance_alone),
		cmocka_unit_test(a_hostile_image_never_reaches_qemu),
	};

	return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
