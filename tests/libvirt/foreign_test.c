/* Domains that are somebody else's, one that runs among them: listed as unmanaged, refused by every call that would
 * change or look into them, and afterwards what they were. */
#include "tests/libvirt/service.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/tree.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WANTED "6f1d2c3e-0000-4000-8000-0000000000aa"

struct foreign {
	const char *name, *uuid;
	const char *in_the_way_of; /* the instance that cannot be made */
	Bc__V1__Domain__State state;
};

static const struct foreign foreigns[] = {
	/* the UUID of an instance, under another name */
	{ "web", "6f1d2c3e-0000-4000-8000-000000000001", "6f1d2c3e-0000-4000-8000-000000000001",
	        BC__V1__DOMAIN__STATE__RUNNING },
	{ "idle", "6f1d2c3e-0000-4000-8000-000000000002", "6f1d2c3e-0000-4000-8000-000000000002",
	        BC__V1__DOMAIN__STATE__STOPPED },
	/* the name of an instance, with another UUID */
	{ "bc-" WANTED, "6f1d2c3e-0000-4000-8000-000000000003", WANTED, BC__V1__DOMAIN__STATE__STOPPED },
};

static void definition_path(const struct contract *c, const struct foreign *f, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/etc/qemu/%s.xml", service_root(c)->path, f->name);
}

/* They are there when the service first opens libvirt, which starts what it was asked to. */
static void foreign_prepare(struct contract *c)
{
	char path[192], link[192], xml[1024];

	service_prepare(c);
	(void)snprintf(path, sizeof(path), "%s/etc/qemu/autostart", service_root(c)->path);
	assert_int_equal(mkdir_p(path, 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(foreigns); i++) {
		const struct foreign *f = &foreigns[i];

		(void)snprintf(xml, sizeof(xml),
		        "<domain type='qemu'><name>%s</name><uuid>%s</uuid><memory>32768</memory><vcpu>1</vcpu>"
		        "<os><type arch='x86_64' machine='q35'>hvm</type><kernel>%s/smallest.elf</kernel></os>"
		        "<devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices></domain>\n",
		        f->name, f->uuid, getenv("BC_GUEST_DIR"));
		definition_path(c, f, path, sizeof(path));
		assert_int_equal(atomic_file_write(AT_FDCWD, path, xml, strlen(xml), 0600), 0);
		(void)snprintf(
		        link, sizeof(link), "%s/etc/qemu/autostart/%s.xml", service_root(c)->path, f->name);
		if (f->state == BC__V1__DOMAIN__STATE__RUNNING)
			assert_int_equal(symlink(path, link), 0);
	}
}

static const struct contract_runtime FOREIGN = {
	.program = BC_RUNTIME, .prepare = foreign_prepare, .adapt = service_adapt, .cleanup = service_cleanup
};

/* What there is of one to see. */
struct sight {
	char digest[SHA256_DIGEST_MAX]; /* of its definition */
	Bc__V1__Domain__State state;
	int64_t pid;
};

static struct sight look(struct contract *c, const struct foreign *f)
{
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	Bc__V1__RuntimeListReply *reply = contract_call(c, RUNTIME(list), &request, NULL);
	struct sight sight = { 0 };
	char path[192];
	uint64_t size;
	unsigned n = 0;

	for (size_t i = 0; i < reply->n_domains; i++) {
		const Bc__V1__Domain *domain = reply->domains[i];

		if (strcmp(domain->id, f->uuid) != 0)
			continue;
		n++;
		assert_false(domain->managed);
		assert_string_equal(domain->name, f->name);
		sight.state = domain->state;
		sight.pid = domain->n_vmm_pids == 1 ? (int64_t)domain->vmm_pids[0] : 0;
	}
	assert_int_equal(n, 1);
	assert_int_equal(reply->n_domains, ARRAY_SIZE(foreigns));
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
	definition_path(c, f, path, sizeof(path));
	file_digest(path, sight.digest, &size);
	return sight;
}

static void state_is_refused(struct contract *c, const struct foreign *f)
{
	static const Bc__V1__InstanceSpec__DesiredState wishes[] = {
		BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING, BC__V1__INSTANCE_SPEC__DESIRED_STATE__PAUSED,
		BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED
	};

	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
		contract_set_state_is(c, f->uuid, wishes[i], GRPC_STATUS_PERMISSION_DENIED, f->name);
}

static void guest_is_not_touched(struct contract *c, char *id)
{
	Bc__V1__BalloonRequest get = BC__V1__BALLOON_REQUEST__INIT;
	Bc__V1__SetBalloonRequest set = BC__V1__SET_BALLOON_REQUEST__INIT;
	Bc__V1__GrowVolumeRequest grow = BC__V1__GROW_VOLUME_REQUEST__INIT;
	Bc__V1__RebindRequest rebind = BC__V1__REBIND_REQUEST__INIT;
	Bc__V1__RuntimeRemoveRequest remove = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;

	get.id = set.id = grow.id = rebind.id = remove.id = id;
	set.target_bytes = UINT64_C(16) << 20;
	grow.volume_id = (char[]){ "volume-1" };
	grow.size_bytes = UINT64_C(1) << 30;
	rebind.ref = (char[]){ "identity-1" };
	contract_refused(c, RUNTIME(get_balloon), &get, GRPC_STATUS_PERMISSION_DENIED);
	contract_refused(c, RUNTIME(set_balloon), &set, GRPC_STATUS_PERMISSION_DENIED);
	contract_refused(c, RUNTIME(grow_volume), &grow, GRPC_STATUS_PERMISSION_DENIED);
	contract_refused(c, RUNTIME(rebind), &rebind, GRPC_STATUS_PERMISSION_DENIED);
	contract_refused(c, RUNTIME(remove), &remove, GRPC_STATUS_PERMISSION_DENIED);
}

static void stream_is_refused(struct stream *stream)
{
	assert_int_equal(stream_end(stream), GRPC_STATUS_PERMISSION_DENIED);
	stream_close(stream);
}

static void streams_are_refused(struct contract *c, char *id)
{
	Bc__V1__RuntimeSnapshotRequest snapshot = BC__V1__RUNTIME_SNAPSHOT_REQUEST__INIT;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/theirs.tar", c->dir);
	snapshot.path = path;
	snapshot.id = id;
	for (int with_memory = 0; with_memory < 2; with_memory++) {
		snapshot.with_memory = with_memory;
		stream_is_refused(stream_open(c, RUNTIME(snapshot), &snapshot));
	}
	assert_int_equal(access(path, F_OK), -1);
	stream_is_refused(contract_console_open(c, id, true));
}

/* No instance takes its place, and the refusal says what is there. */
static void place_is_taken(struct contract *c, const struct foreign *f)
{
	Bc__V1__EnsureRequest *request = ensure_new(c, 1);
	struct rpc_status status;
	char path[192];

	text_replace(&request->spec->id, f->in_the_way_of);
	assert_null(contract_call(c, RUNTIME(ensure), request, &status));
	assert_int_equal(status.code, GRPC_STATUS_ALREADY_EXISTS);
	if (!strstr(status.message, f->name))
		fail_msg("the refusal does not name %s: %s", f->name, status.message);
	(void)snprintf(path, sizeof(path), "%s/%s", service_root(c)->instances, f->in_the_way_of);
	assert_int_equal(access(path, F_OK), -1);
	bc__v1__ensure_request__free_unpacked(request, NULL);
}

static void every_call_is_refused_and_nothing_changes(void **state)
{
	struct contract *c = *state;

	for (size_t i = 0; i < ARRAY_SIZE(foreigns); i++) {
		const struct foreign *f = &foreigns[i];
		char id[UUID_TEXT_MAX];
		struct sight before = look(c, f);

		print_message("%s\n", f->name);
		assert_int_equal(before.state, f->state);
		assert_int_equal(before.pid > 0, f->state == BC__V1__DOMAIN__STATE__RUNNING);
		(void)strcpy(id, f->uuid);
		place_is_taken(c, f);
		state_is_refused(c, f);
		guest_is_not_touched(c, id);
		streams_are_refused(c, id);
		struct sight after = look(c, f);
		assert_string_equal(after.digest, before.digest);
		assert_int_equal(after.state, before.state);
		assert_int_equal(after.pid, before.pid);
	}
}

TEST_SUITE(foreign_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(every_call_is_refused_and_nothing_changes, &FOREIGN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
