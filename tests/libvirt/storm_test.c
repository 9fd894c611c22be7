/* bc-runtime-libvirt is killed, or told to end, again and again while many calls make, start, stop and remove real
 * guests. Whatever it was at, the next one says the truth about what is there, and once the calls have been made again
 * nothing is left over: no domain, no process, no file, no half-made disk.
 *
 * BC_STORM_KILLS says how often (20), BC_STORM_SEED repeats a run. */
#include "tests/libvirt/service.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	SLOTS = 5,
	KILLS = 20,
};

#define KILL_AFTER_USEC_MAX (3 * USEC_PER_SEC)

enum act { ACT_ENSURE, ACT_RUN, ACT_STOP, ACT_REMOVE };

static const char *const act_names[] = { "ensure", "run", "stop", "remove" };

/* One instance that somebody wants this today and that tomorrow. */
struct slot {
	struct storm *storm;            /* weak */
	Bc__V1__EnsureRequest *request; /* owned */
	const char *id;                 /* weak: of the request */
	enum act act;                   /* under way, or the last one */
	bool busy;                      /* a call is */
	struct rpc_status status;       /* of the last one */
};

struct storm {
	struct contract *c;
	struct slot slots[SLOTS];
	unsigned seed;
	unsigned n_done[4], n_cut;
	uint64_t kill_usec; /* a round lasts at most this long */
	bool over;          /* no new calls */
};

/* --- the storm --- */

static bool is_idle(const struct storm *storm)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (storm->slots[i].busy)
			return false;
	return true;
}

/* What somebody would want next, mostly. */
static enum act act_next(struct storm *storm, enum act last)
{
	static const enum act likely[][4] = {
		[ACT_ENSURE] = { ACT_RUN, ACT_RUN, ACT_RUN, ACT_REMOVE },
		[ACT_RUN] = { ACT_STOP, ACT_STOP, ACT_REMOVE, ACT_ENSURE },
		[ACT_STOP] = { ACT_RUN, ACT_REMOVE, ACT_REMOVE, ACT_ENSURE },
		[ACT_REMOVE] = { ACT_ENSURE, ACT_ENSURE, ACT_ENSURE, ACT_ENSURE },
	};

	return likely[last][(unsigned)rand_r(&storm->seed) % 4];
}

static void act_begin(struct slot *slot, enum act act);

/* It was killed, ends, or has just begun. gRPC cancels what arrives at the last moment. */
static bool is_cut_off(const struct rpc_status *status)
{
	return status->code == GRPC_STATUS_UNAVAILABLE || status->code == GRPC_STATUS_CANCELLED;
}

static void on_done(const struct rpc_status *status, const ProtobufCMessage *reply, void *userdata)
{
	struct slot *slot = userdata;
	struct storm *storm = slot->storm;

	(void)reply;
	slot->busy = false;
	slot->status = *status;
	if (status->code == GRPC_STATUS_OK)
		storm->n_done[slot->act]++;
	else if (is_cut_off(status))
		storm->n_cut++;
	else if (status->code != GRPC_STATUS_NOT_FOUND) /* its ensure was cut off */
		fail_msg("%s of %s: %s: %s", act_names[slot->act], slot->id, rpc_code_to_string(status->code),
		        status->message);
	if (!storm->over)
		act_begin(slot, act_next(storm, slot->act));
	else if (is_idle(storm))
		loop_exit(storm->c->loop, 0);
}

static void act_begin(struct slot *slot, enum act act)
{
	Bc__V1__SetStateRequest set = BC__V1__SET_STATE_REQUEST__INIT;
	Bc__V1__RuntimeRemoveRequest remove = BC__V1__RUNTIME_REMOVE_REQUEST__INIT;
	struct rpc_method method = RUNTIME(set_state);
	const ProtobufCMessage *request = &set.base;

	slot->act = act;
	slot->busy = true;
	set.id = remove.id = (char *)(uintptr_t)slot->id;
	switch (act) {
	case ACT_ENSURE:
		/* mostly another spec than the last, also for one that runs */
		slot->request->spec->memory_bytes = (64 + (uint64_t)rand_r(&slot->storm->seed) % 4 * 4) << 20;
		method = RUNTIME(ensure);
		request = &slot->request->base;
		break;
	case ACT_RUN:
		set.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__RUNNING;
		break;
	case ACT_STOP:
		set.state = BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
		break;
	case ACT_REMOVE:
		method = RUNTIME(remove);
		request = &remove.base;
		break;
	}
	(void)rpc_unary(slot->storm->c->channel, method, request, contract_timeout_usec(), on_done, slot);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	loop_exit(((struct storm *)userdata)->c->loop, 0);
	return 0;
}

/* Calls for a while, then an end in the middle of them. */
static void storm_round(struct storm *storm)
{
	uint64_t usec = (uint64_t)rand_r(&storm->seed) % storm->kill_usec;
	sd_event_source *timer = NULL;

	storm->over = false;
	for (size_t i = 0; i < SLOTS; i++)
		act_begin(&storm->slots[i], act_next(storm, storm->slots[i].act));
	assert_true(sd_event_add_time_relative(loop_event(storm->c->loop), &timer, CLOCK_MONOTONIC, usec, 1,
	                    on_time, storm) >= 0);
	(void)loop_run(storm->c->loop);
	timer = sd_event_source_disable_unref(timer);
	storm->over = true;
	if (rand_r(&storm->seed) % 2)
		contract_kill(storm->c);
	else
		contract_end(storm->c);
	while (!is_idle(storm))
		(void)loop_run(storm->c->loop);
}

/* --- the truth --- */

/* The process that has text among its arguments; 0 when there is none, -1 when there are several. */
static pid_t process_with(const char *text)
{
	CLEANUP_CLOSEDIR DIR *proc = opendir("/proc");
	char path[300], cmdline[8192];
	pid_t found = 0;

	assert_non_null(proc);
	for (const struct dirent *entry; (entry = readdir(proc));) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
		CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, cmdline, sizeof(cmdline));
		if (n > 0 && memmem(cmdline, (size_t)n, text, strlen(text)))
			found = found ? -1 : (pid_t)strtol(entry->d_name, NULL, 10);
	}
	return found;
}

static pid_t qemu_of(const char *id)
{
	char guest[128];

	(void)snprintf(guest, sizeof(guest), "guest=bc-%s,", id);
	return process_with(guest);
}

static bool is_active(Bc__V1__Domain__State state)
{
	return state == BC__V1__DOMAIN__STATE__RUNNING || state == BC__V1__DOMAIN__STATE__PAUSED ||
	        state == BC__V1__DOMAIN__STATE__STOPPING;
}

static Bc__V1__RuntimeListReply *list(struct storm *storm)
{
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;

	return contract_call(storm->c, RUNTIME(list), &request, NULL);
}

/* "" or what is wrong: each domain is listed once, with the process that it has, and none that nobody made. */
static void list_compare(struct storm *storm, char *buf, size_t size)
{
	Bc__V1__RuntimeListReply *reply = list(storm);

	buf[0] = '\0';
	if (reply->n_domains > SLOTS)
		(void)snprintf(buf, size, "%zu domains are listed", reply->n_domains);
	for (size_t i = 0; i < SLOTS; i++) {
		const char *id = storm->slots[i].id;
		unsigned n = 0;
		pid_t listed = 0, pid = qemu_of(id);

		for (size_t d = 0; d < reply->n_domains; d++) {
			const Bc__V1__Domain *domain = reply->domains[d];
			if (strcmp(domain->id, id) != 0)
				continue;
			n++;
			listed = is_active(domain->state) && domain->n_vmm_pids == 1
			        ? (pid_t)domain->vmm_pids[0]
			        : 0;
		}
		if (n > 1 || listed != pid)
			(void)snprintf(buf, size, "%s is listed %u times, last with pid %d, but runs as %d",
			        id, n, listed, pid);
	}
	bc__v1__runtime_list_reply__free_unpacked(reply, NULL);
}

/* A QEMU that was being started or ended when the service was killed takes its time, and libvirt to find out. */
static void list_is_true(struct storm *storm)
{
	char wrong[256];

	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();

	for (;;) {
		list_compare(storm, wrong, sizeof(wrong));
		if (!wrong[0])
			return;
		if (clock_monotonic_usec() > until_usec)
			fail_msg("%s", wrong);
		(void)usleep(20000); /* runs out: nothing tells when another process's child is gone */
	}
}

static void run_wait(struct storm *storm)
{
	while (!is_idle(storm))
		(void)loop_run(storm->c->loop);
}

/* As whoever wanted it would: again, until it is so. */
static void act_fully(struct slot *slot, enum act act)
{
	struct storm *storm = slot->storm;

	uint64_t until_usec = clock_monotonic_usec() + contract_timeout_usec();

	do {
		assert_true(clock_monotonic_usec() < until_usec);
		act_begin(slot, act);
		run_wait(storm);
	} while (is_cut_off(&slot->status));
	if (slot->status.code != GRPC_STATUS_OK)
		fail_msg("%s of %s: %s", act_names[act], slot->id, slot->status.message);
}

/* Everything of an instance that is there, and nothing else. */
static void files_are_known(struct storm *storm, const struct slot *slot)
{
	static const char *const known[] = { ".", "..", "allocation", "completed", "console.ring",
		"disk.qcow2", "seed.iso", "serial.log", "stopping" };
	char path[512], command[700];
	bool has_disk = false;

	(void)snprintf(path, sizeof(path), "%s/%s", service_root(storm->c)->instances, slot->id);
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		size_t i = 0;

		while (i < ARRAY_SIZE(known) && strcmp(known[i], entry->d_name) != 0)
			i++;
		if (i == ARRAY_SIZE(known))
			fail_msg("%s/%s: what is that?", path, entry->d_name);
		has_disk |= strcmp(entry->d_name, "disk.qcow2") == 0;
	}
	if (has_disk != (slot->request->image_path[0] != '\0'))
		fail_msg("%s: %s", path, has_disk ? "a disk that nobody wanted" : "where is the disk?");
	if (!has_disk)
		return;
	(void)snprintf(command, sizeof(command), "qemu-img check -q -U %s/disk.qcow2", path);
	int status = system(command);
	if (status)
		fail_msg("%s: status %#x", command, (unsigned)status);
}

/* How many files below dir have text in their names. */
static unsigned count_named(const char *path, const char *text)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);
	unsigned n = 0;

	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		char below[1024];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		(void)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (strstr(entry->d_name, text)) {
			print_message("%s\n", below);
			n++;
		} else if (entry->d_type == DT_DIR) {
			n += count_named(below, text);
		}
	}
	return n;
}

/* The root holds what libvirt keeps of a domain; its logs stay, as they do everywhere. */
static void nothing_is_named(const struct storm *storm, const char *text)
{
	static const char *const places[] = { "i", "etc", "lib", "run" };
	char path[512];

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", service_root(storm->c)->path, places[i]);
		unsigned n = count_named(path, text);
		if (n)
			fail_msg("%u files below %s still have %s in their names", n, path, text);
	}
}

static void nothing_is_left(const struct storm *storm, const struct slot *slot)
{
	pid_t pid = qemu_of(slot->id);

	if (pid)
		fail_msg("%s was removed, and still runs as %d", slot->id, pid);
	nothing_is_named(storm, slot->id);
}

/* Off, it is as it was last wished. */
static void definition_is_the_last(struct storm *storm, const struct slot *slot)
{
	Bc__V1__RuntimeGetRequest request = BC__V1__RUNTIME_GET_REQUEST__INIT;

	request.id = (char *)(uintptr_t)slot->id;
	Bc__V1__Domain *domain = contract_call(storm->c, RUNTIME(get), &request, NULL);
	assert_int_equal(domain->memory_bytes, slot->request->spec->memory_bytes);
	bc__v1__domain__free_unpacked(domain, NULL);
}

static void converge(struct storm *storm)
{
	pid_t pids[SLOTS] = { 0 };

	for (size_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &storm->slots[i];

		if (i % 3 == 2) {
			act_fully(slot, ACT_REMOVE);
			Bc__V1__Domain__State state = contract_state(storm->c, slot->id);
			if (state != BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED)
				fail_msg("%s was removed, and is in state %d", slot->id, (int)state);
			nothing_is_left(storm, slot);
			continue;
		}
		act_fully(slot, ACT_ENSURE);
		act_fully(slot, i % 3 == 0 ? ACT_RUN : ACT_STOP);
		files_are_known(storm, slot);
		if (i % 3 != 0)
			definition_is_the_last(storm, slot);
		pids[i] = qemu_of(slot->id);
		if (i % 3 == 0 ? pids[i] <= 0 : pids[i] != 0)
			fail_msg("%s of %s, and it runs as %d", act_names[slot->act], slot->id, pids[i]);
	}
	list_is_true(storm);
	/* A service that begins anew finds it all as it was. */
	contract_end(storm->c);
	contract_start(storm->c);
	list_is_true(storm);
	for (size_t i = 0; i < SLOTS; i++) {
		const char *id = storm->slots[i].id;
		pid_t pid = qemu_of(id);

		if (pid != pids[i])
			fail_msg("%s ran as %d, and as %d once the service began anew", id, pids[i], pid);
	}
}

static unsigned number_from(const char *variable, unsigned otherwise)
{
	const char *text = getenv(variable);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void whatever_it_was_at_the_next_one_makes_it_true(void **state)
{
	struct storm storm = { .c = *state, .over = true };
	unsigned kills = number_from("BC_STORM_KILLS", KILLS);
	char image[256];

	storm.seed = number_from("BC_STORM_SEED", (unsigned)getpid() ^ (unsigned)clock_realtime_usec());
	print_message("BC_STORM_SEED=%u BC_STORM_KILLS=%u\n", storm.seed, kills);
	(void)snprintf(image, sizeof(image), "%s/smallest.raw", getenv("BC_GUEST_DIR"));
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *slot = &storm.slots[i];

		*slot = (struct slot){ .storm = &storm, .act = ACT_REMOVE };
		slot->request = ensure_new(storm.c, i);
		slot->id = slot->request->spec->id;
		if (i % 2 == 0) { /* boots from a disk, and has a volume */
			char volume[8];
			(void)snprintf(volume, sizeof(volume), "v%u", i);
			ensure_give_disk(slot->request, storm.c);
			text_replace(&slot->request->image_path, image);
			ensure_add_volume(slot->request, storm.c, volume, false);
		}
	}
	/* a start is what takes longest: most kills come in the middle of one */
	uint64_t begun = clock_monotonic_usec();
	act_fully(&storm.slots[0], ACT_ENSURE);
	act_fully(&storm.slots[0], ACT_RUN);
	storm.kill_usec = 2 * (clock_monotonic_usec() - begun);
	if (storm.kill_usec > KILL_AFTER_USEC_MAX)
		storm.kill_usec = KILL_AFTER_USEC_MAX;
	for (unsigned i = 0; i < kills; i++) {
		storm_round(&storm);
		contract_start(storm.c);
		list_is_true(&storm);
	}
	print_message("made %u, started %u, stopped %u, removed %u; cut off %u\n", storm.n_done[ACT_ENSURE],
	        storm.n_done[ACT_RUN], storm.n_done[ACT_STOP], storm.n_done[ACT_REMOVE], storm.n_cut);
	converge(&storm);
	for (size_t i = 0; i < SLOTS; i++) {
		act_fully(&storm.slots[i], ACT_REMOVE);
		nothing_is_left(&storm, &storm.slots[i]);
	}
	contract_end(storm.c);
	contract_start(storm.c);
	nothing_is_named(&storm, "c0de"); /* libvirt cuts names in some places */
	nothing_is_named(&storm, "qmp-");
	pid_t pid = process_with(service_root(storm.c)->path);
	if (pid)
		fail_msg("process %d still has %s in its command line", pid, service_root(storm.c)->path);
	for (size_t i = 0; i < SLOTS; i++)
		bc__v1__ensure_request__free_unpacked(storm.slots[i].request, NULL);
}

TEST_SUITE(storm_test)
{
	const struct CMUnitTest tests[] = {
		CONTRACT_TEST(whatever_it_was_at_the_next_one_makes_it_true, &libvirt_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
