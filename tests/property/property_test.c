/* Whatever happens to a host, in the end it is as it is wished.
 *
 * The services run as they are installed, over the fake runtime, in a network namespace of their own. Random steps
 * change what is wished, make the runtimes misbehave, kill and freeze services, plant what is not ours, and reboot the
 * host. Now and then the faults stop, and all has to come true: see truth.h. What is to be true at every moment is
 * looked at then too: no volume had two writers, no secret was written down, nothing of others was touched, no
 * acknowledged spec was forgotten.
 *
 *   property_test BIN_DIR     PROPERTY_SEED and PROPERTY_STEPS in the environment; both are printed */
#include "tests/property/fault.h"
#include "tests/property/meddle.h"
#include "tests/property/snapshot.h"
#include "tests/property/truth.h"

#include "lib/base/clock.h"
#include "lib/base/sha256.h"
#include "lib/base/tap_name.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	STEPS_DEFAULT = 250,
	TRACE_SHOWN = 40,
	TRACE_LINE_MAX = 512,
	LOG_LINES_SHOWN = 15,
	MAX_VCPUS = 16,
	PAUSE_MAX_USEC = 25000,
	APPLY_PAUSE_USEC = 20000,
};

struct run {
	uint64_t seed;
	unsigned n_steps, step;
	const char *program;
	bool lies; /* runtimes tell what is not so; what rests on their words may then go wrong for a time */
	struct random random;
	struct set set;
	struct wish wish;
	struct history *history; /* owned, as all below */
	struct plane *plane;
	struct snapshots *snapshots;
	struct strangers strangers;
	struct meddler meddler;
	struct truth truth;
	bool is_draining, drain_stops; /* as it was asked for last */
	unsigned settle_in;            /* steps */
	char awaited[1024];            /* what had not come true yet when it was looked at last */
	char (*trace)[TRACE_LINE_MAX];
	uint64_t begun_usec;
	uint64_t patience_usec; /* 0: as a guest has, for the whole set is to come to rest */
};

/* --- the trace --- */

static void __attribute__((format(printf, 2, 3))) trace(struct run *run, const char *fmt, ...)
{
	char *line = run->trace[run->step];
	int n = snprintf(line, TRACE_LINE_MAX, "%6u %9.3f  ", run->step,
	        (double)(clock_monotonic_usec() - run->begun_usec) / (double)USEC_PER_SEC);
	va_list ap;

	va_start(ap, fmt);
	n += vsnprintf(line + n, (size_t)(TRACE_LINE_MAX - n), fmt, ap);
	va_end(ap);
	while (n > 0 && n < TRACE_LINE_MAX && line[n - 1] == '\n')
		line[--n] = 0;
	if (getenv("PROPERTY_VERBOSE"))
		(void)fprintf(stderr, "%s\n", line);
}

static void trace_print(const struct run *run)
{
	unsigned first = run->step > TRACE_SHOWN ? run->step - TRACE_SHOWN : 0;

	(void)fprintf(stderr, "\nThe last steps:\n");
	for (unsigned i = first; i <= run->step && i < run->n_steps; i++)
		(void)fprintf(stderr, "%s\n", run->trace[i]);
}

/* What the words are about: their instance, if they name one of the spec. */
static void subject_print(struct run *run, const char *words)
{
	for (size_t i = 0; i < WISH_INSTANCES; i++)
		if (strstr(words, run->wish.instances[i].id))
			truth_print_instance(&run->truth, run->wish.instances[i].id);
}

static void logs_print(const struct run *run)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++) {
		(void)fprintf(stderr, "\nbc-%s is %s. The end of its log:\n", set_name(s),
		        !set_is_up(&run->set, s)                  ? "down"
		                : run->set.processes[s].is_frozen ? "frozen"
		                                                  : "up");
		set_print_log(&run->set, s, LOG_LINES_SHOWN);
	}
}

static void again_print(const struct run *run)
{
	(void)fprintf(stderr,
	        "Logs and files are kept in %s.\nAgain: PROPERTY_SEED=%" PRIu64 " PROPERTY_STEPS=%u %s %s\n",
	        run->set.dir, run->seed, run->n_steps, run->program, run->set.options.bin_dir);
}

static void __attribute__((noreturn)) failed(struct run *run, const char *why)
{
	trace_print(run);
	logs_print(run);
	subject_print(run, why);
	(void)fprintf(stderr, "\nFAILED at step %u of %u, seed %" PRIu64 ": %s\n", run->step, run->n_steps,
	        run->seed, why);
	again_print(run);
	set_close(&run->set, true);
	exit(1);
}

/* Also what ends the test by set_die() can be had again. */
static void on_end(int status, void *userdata)
{
	const struct run *run = userdata;

	if (status != SET_DIED || !run->trace)
		return;
	trace_print(run);
	logs_print(run);
	again_print(run);
}

/* --- steps --- */

static const enum set_service FAKES[] = { SET_FAKE, SET_FAKE_TWO };

static enum set_service any_fake(struct run *run)
{
	return FAKES[random_below(&run->random, ARRAY_SIZE(FAKES))];
}

/* What a fake wrote is read before it starts anew, for it then forgets what was. */
static void start(struct run *run, enum set_service service)
{
	history_read(run->history);
	set_start(&run->set, service);
}

static void apply(struct run *run)
{
	struct wish_message *message = calloc(1, sizeof(*message));

	if (!message)
		set_die("no memory");
	wish_fill(&run->wish, message);
	plane_apply(run->plane, &message->spec);
	free(message);
}

static void step_change(struct run *run)
{
	unsigned n = 1 + random_below(&run->random, 3);
	char what[WISH_TEXT_MAX], all[TRACE_LINE_MAX] = "";
	int n_all = 0;

	for (unsigned i = 0; i < n; i++) {
		wish_change(&run->wish, what);
		if (n_all < TRACE_LINE_MAX - 1)
			n_all += snprintf(
			        all + n_all, (size_t)(TRACE_LINE_MAX - n_all), "%s%s", i ? "; " : "", what);
	}
	apply(run);
	trace(run, "revision %" PRIu64 "%s: %.400s", run->wish.revision,
	        run->wish.without_instances ? " without instances" : "", all);
}

static void step_fault(struct run *run)
{
	enum set_service fake = any_fake(run);
	char what[WISH_TEXT_MAX];

	if (random_chance(&run->random, 25)) {
		fault_none(&run->set, fake);
		trace(run, "%s behaves", set_name(fake));
		return;
	}
	fault_random(&run->set, fake, &run->wish, run->lies, what);
	trace(run, "%s misbehaves: %s", set_name(fake), what);
}

static void step_event(struct run *run)
{
	static const char *const EVENTS[] = { "CRASH", "SHUTDOWN", "COMPLETE", "VANISH", "DROP_WATCHERS" };
	const char *event = EVENTS[random_below(&run->random, ARRAY_SIZE(EVENTS))];
	const char *id = run->wish.instances[random_below(&run->random, WISH_INSTANCES)].id;
	enum set_service fake = any_fake(run);

	/* Who planted a stranger removes it. */
	if (strangers_have(&run->strangers, STRANGER_IMPOSTOR, id))
		id = "";
	fault_event(&run->set, fake, event, id);
	trace(run, "%s: %s %s", set_name(fake), event, id);
}

static void step_service(struct run *run)
{
	enum set_service service = random_below(&run->random, SET_SERVICES);
	unsigned how = random_below(&run->random, 10);

	if (!set_is_up(&run->set, service)) {
		start(run, service);
		trace(run, "%s starts", set_name(service));
	} else if (how < 5) {
		set_kill(&run->set, service);
		start(run, service);
		trace(run, "%s is killed and starts", set_name(service));
	} else if (how < 7) {
		set_kill(&run->set, service);
		trace(run, "%s is killed and stays down", set_name(service));
	} else if (how < 8) {
		set_end(&run->set, service, true);
		start(run, service);
		trace(run, "%s ends and starts", set_name(service));
	} else {
		bool freezes = !run->set.processes[service].is_frozen;

		set_freeze(&run->set, service, freezes);
		trace(run, "%s %s", set_name(service), freezes ? "is frozen" : "goes on");
	}
}

static void step_all_die(struct run *run)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set_kill(&run->set, s);
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		start(run, s);
	trace(run, "all are killed and start");
}

/* A kernel that comes up has no interface and no rule; the disk is what it was. */
static void step_reboot(struct run *run)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set_kill(&run->set, s);
	set_shell("for i in $(ls /sys/class/net); do [ $i = lo ] || ip link del $i; done; nft flush ruleset; "
	          "nft list tables | while read -r t; do nft delete $t; done; rm -f %s/record/bc*",
	        run->set.dir);
	set_boot_id(&run->set);
	meddle_bridge_make();
	strangers_reboot(&run->strangers);
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		start(run, s);
	trace(run, "the host is rebooted");
}

/* False when it is not known whether it is so now. */
static bool drain(struct run *run, bool drains, bool stops)
{
	Bc__V1__DrainRequest request = BC__V1__DRAIN_REQUEST__INIT;
	struct rpc_status status;

	request.drain = drains;
	request.stop_instances = stops;
	/* What starts from now on was allowed to. */
	if (!drains)
		history_forbid_starts(run->history, false);
	ProtobufCMessage *reply =
	        plane_call(run->plane, SET_CONVERGER, PLANE_CONVERGER(drain), &request.base, &status);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
	run->is_draining = drains || !reply;
	run->drain_stops = stops;
	return reply != NULL;
}

static void step_drain(struct run *run)
{
	bool stops = random_chance(&run->random, 50), ends = random_chance(&run->random, 30);

	/* What a drain is for shows when all is at rest, before something else ends it. */
	run->settle_in = 1 + random_below(&run->random, 5);
	if (!set_is_up(&run->set, SET_CONVERGER) || run->set.processes[SET_CONVERGER].is_frozen)
		trace(run, "nobody is there to be drained");
	else if (run->is_draining && ends)
		trace(run, "the node is drained no longer%s", drain(run, false, false) ? "" : ", perhaps");
	else
		trace(run, "the node is drained%s%s", stops ? ", instances are stopped" : "",
		        drain(run, true, stops) ? "" : ", perhaps");
}

static void step_odd(struct run *run)
{
	bool gives;

	switch (random_below(&run->random, 4)) {
	case 0:
		plane_drop_session(run->plane);
		trace(run, "the session is dropped");
		return;
	case 1:
	case 2:
		gives = random_chance(&run->random, 50);
		trace(run, "secrets are %s", gives ? "given" : "refused");
		plane_give_secrets(run->plane, gives);
		return;
	default:
		step_all_die(run);
		return;
	}
}

static void step_stranger(struct run *run)
{
	char what[WISH_TEXT_MAX];

	strangers_change(&run->strangers, &run->wish, what);
	trace(run, "%s", what);
}

static void step_meddle(struct run *run)
{
	char what[WISH_TEXT_MAX];

	meddle(&run->meddler, what);
	trace(run, "%s", what);
}

static void step_snapshot(struct run *run)
{
	char what[WISH_TEXT_MAX];

	snapshots_take(run->snapshots, what);
	trace(run, "%s", what);
}

static void step(struct run *run)
{
	unsigned kind = random_below(&run->random, 1000);

	if (kind < 420)
		step_change(run);
	else if (kind < 530)
		step_fault(run);
	else if (kind < 590)
		step_event(run);
	else if (kind < 770)
		step_service(run);
	else if (kind < 830)
		step_stranger(run);
	else if (kind < 890)
		step_meddle(run);
	else if (kind < 940)
		step_snapshot(run);
	else if (kind < 965)
		step_odd(run);
	else if (kind < 990)
		step_drain(run);
	else
		step_reboot(run);
	/* Now and then it gets no time at all: the next step meets the last one's work half done. */
	if (random_chance(&run->random, 70))
		plane_run(run->plane, 1 + random_below(&run->random, PAUSE_MAX_USEC));
}

/* --- what has to be so --- */

/* What starts though it must not: known once all was at rest, and only of runtimes that tell where they stand. */
static void check_starts(struct run *run)
{
	if (run->set.options.trusts_converger && history_forbidden_start(run->history))
		failed(run, history_forbidden_start(run->history));
}

static void check_always(struct run *run)
{
	enum set_service crashed = set_crashed(&run->set);
	char words[256];

	if (crashed != SET_SERVICES) {
		(void)snprintf(words, sizeof(words), "bc-%s ended by itself", set_name(crashed));
		failed(run, words);
	}
	if (plane_fault(run->plane))
		failed(run, plane_fault(run->plane));
	history_read(run->history);
	const char *fault = run->set.options.trusts_converger ? history_double_writer(run->history) : NULL;
	if (fault)
		failed(run, fault);
	if (meddle_fault(&run->meddler))
		failed(run, meddle_fault(&run->meddler));
	if (snapshots_fault(run->snapshots))
		failed(run, snapshots_fault(run->snapshots));
	check_starts(run);
}

static uint64_t patience_begin(const struct run *run)
{
	return clock_monotonic_usec() + (run->patience_usec ?: test_timeout_usec(TEST_GUEST_SEC));
}

/* A step towards what has to come; why: what it is that has not come yet. */
static void await(struct run *run, uint64_t until_usec, const char *why)
{
	char words[1200];

	if (getenv("PROPERTY_VERBOSE") && strcmp(run->awaited, why) != 0)
		(void)fprintf(stderr, "%16.3f  %s\n",
		        (double)(clock_monotonic_usec() - run->begun_usec) / (double)USEC_PER_SEC, why);
	(void)snprintf(run->awaited, sizeof(run->awaited), "%s", why);
	check_always(run);
	if (clock_monotonic_usec() > until_usec) {
		(void)snprintf(words, sizeof(words), "long after the faults had stopped, %s", why);
		failed(run, words);
	}
	plane_wait(run->plane, 100 * USEC_PER_MSEC);
}

static void faults_stop(struct run *run)
{
	for (enum set_service s = 0; s < SET_SERVICES; s++) {
		set_freeze(&run->set, s, false);
		start(run, s);
	}
	for (size_t i = 0; i < ARRAY_SIZE(FAKES); i++)
		fault_none(&run->set, FAKES[i]);
	plane_give_secrets(run->plane, true);
	run->wish.without_instances = false;
}

static void spec_is_accepted(struct run *run)
{
	uint64_t until_usec = patience_begin(run);
	bool is_sent = false;

	do {
		if (plane_is_quiet(run->plane)) {
			apply(run);
			is_sent = true;
		}
		await(run, until_usec, "no spec is accepted any more");
		/* Who refuses at once is not asked without a pause. */
		if (plane_is_quiet(run->plane) && plane_accepted(run->plane) < run->wish.revision)
			plane_run(run->plane, APPLY_PAUSE_USEC);
	} while (!is_sent || plane_accepted(run->plane) < run->wish.revision);
}

static void truth_comes(struct run *run, enum truth_drain drained)
{
	uint64_t until_usec = patience_begin(run);

	run->truth.drain = drained;
	while (!truth_is_reached(&run->truth))
		await(run, until_usec, run->truth.words);
	check_always(run);
	if (truth_leak(&run->truth))
		failed(run, run->truth.words);
}

static void drain_is_told(struct run *run, bool drains)
{
	uint64_t until_usec = patience_begin(run);

	while (!drain(run, drains, drains && run->drain_stops))
		await(run, until_usec, drains ? "the node cannot be drained" : "the node stays drained");
}

/* A drained node is at rest, and stays so when another instance is to come up. */
static void drain_comes(struct run *run, bool tries_start)
{
	enum truth_drain drained = run->drain_stops ? TRUTH_STOPPED : TRUTH_DRAINED;
	/* Whether a node is drained may depend on time: the steps that follow must not. */
	struct random aside = { .state = run->seed + run->step };

	drain_is_told(run, true);
	truth_comes(run, drained);
	history_forbid_starts(run->history, true);
	if (!tries_start)
		return;
	run->wish.random = &aside;
	wish_start_one(&run->wish);
	run->wish.random = &run->random;
	spec_is_accepted(run);
	truth_comes(run, drained);
}

/* A snapshot of what is at rest does not fail; first: the slot to begin to look in. */
static void snapshot_is_taken(struct run *run, unsigned first, bool with_memory)
{
	const struct wish_instance *instance = truth_find_at_rest(&run->truth, first);

	if (!instance)
		return;
	for (unsigned i = 0; i < instance->n_attachments; i++)
		with_memory = with_memory && instance->attachments[i].read_only;
	with_memory = with_memory && run->set.options.trusts_converger &&
	        plane_status(run->plane, instance->id)->state == BC__V1__INSTANCE_STATUS__STATE__RUNNING;
	snapshots_want(run->snapshots, instance->id, with_memory);
	truth_comes(run, TRUTH_UNDRAINED);
}

/* The faults stop; what is wished has to come true. A drained node has to be that first, and may stay so unless this is
 * the last time. */
static void settle(struct run *run, bool is_last)
{
	/* Drawn whether they are used or not: what comes after does not depend on what became of it. */
	bool stays_drained = random_chance(&run->random, 40),
	     takes_snapshot = random_chance(&run->random, 50), with_memory = random_chance(&run->random, 40);
	unsigned first = random_below(&run->random, WISH_INSTANCES);

	faults_stop(run);
	spec_is_accepted(run);
	if (run->is_draining) {
		drain_comes(run, !is_last);
		if (stays_drained && !is_last)
			return;
		drain_is_told(run, false);
	}
	truth_comes(run, TRUTH_UNDRAINED);
	if (takes_snapshot)
		snapshot_is_taken(run, first, with_memory);
}

/* --- begin and end --- */

static void images_make(struct run *run)
{
	for (unsigned i = 0; i < WISH_IMAGES; i++) {
		struct wish_image *image = &run->wish.images[i];
		CLEANUP(sha256_stream) struct sha256_stream *stream = NULL;
		CLEANUP_FREE uint64_t *data = NULL;
		char path[200];
		FILE *f;

		image->size_bytes = 65536 << i;
		data = malloc(image->size_bytes);
		for (size_t k = 0; data && k < image->size_bytes / sizeof(*data); k++)
			data[k] = random_next(&run->random);
		f = fopen(set_path(&run->set, path, sizeof(path), "sources/image-%u", i), "we");
		if (!data || !f || fwrite(data, 1, image->size_bytes, f) != image->size_bytes ||
		        fclose(f) != 0 || sha256_stream_new(&stream) < 0 ||
		        sha256_stream_add(stream, data, image->size_bytes) < 0 ||
		        sha256_stream_digest(stream, image->digest) < 0)
			set_die("cannot make an image");
		(void)snprintf(image->url, sizeof(image->url), "file://%s", path);
	}
}

static void run_open(struct run *run, const char *bin_dir)
{
	run->random.state = run->seed;
	run->lies = random_chance(&run->random, 50);
	run->trace = calloc(run->n_steps + 1, sizeof(*run->trace));
	if (!run->trace)
		set_die("no memory");
	run->begun_usec = clock_monotonic_usec();
	wish_init(&run->wish, &run->random);
	set_open(&run->set,
	        &(struct set_options){
	                .bin_dir = bin_dir, .trusts_converger = !run->lies, .max_vcpus = MAX_VCPUS });
	images_make(run);
	meddle_bridge_make();
	run->history = history_new(&run->set);
	run->plane = plane_new(&run->set, run->seed);
	run->snapshots = snapshots_new(&run->set, run->plane, &run->wish);
	strangers_init(&run->strangers, &run->set, run->plane, run->history);
	run->meddler = (struct meddler){
		.set = &run->set, .plane = run->plane, .strangers = &run->strangers, .wish = &run->wish
	};
	run->truth = (struct truth){ .set = &run->set,
		.plane = run->plane,
		.history = run->history,
		.strangers = &run->strangers,
		.wish = &run->wish,
		.meddler = &run->meddler,
		.snapshots = run->snapshots };
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set_start(&run->set, s);
}

/* With nothing wished nothing is left, and every service ends well. */
static void run_close(struct run *run)
{
	faults_stop(run);
	wish_nothing(&run->wish);
	strangers_make_way(&run->strangers);
	settle(run, true);
	for (enum set_service s = 0; s < SET_SERVICES; s++)
		set_end(&run->set, s, false);
	run->plane = plane_free(run->plane);
	run->snapshots = snapshots_free(run->snapshots);
	run->history = history_free(run->history);
	strangers_done(&run->strangers);
	set_close(&run->set, false);
	free(run->trace);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoull(value, NULL, 0) : otherwise;
}

static uint64_t any_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) < 0)
		seed = clock_realtime_usec();
	return seed & 0xffffffff; /* short enough to be typed */
}

/* A network of our own, and a /sys that shows it. */
static bool enter_namespaces(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	        mount("sysfs", "/sys", "sysfs", 0, NULL) < 0)
		return false;
	set_shell("ip link set lo up");
	return true;
}

static void signals_block(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	static struct run run;

	if (argc != 2)
		set_die("usage: %s BIN_DIR", argv[0]);
	run.program = argv[0];
	run.seed = number_of("PROPERTY_SEED", any_seed());
	run.n_steps = (unsigned)number_of("PROPERTY_STEPS", STEPS_DEFAULT);
	run.patience_usec = number_of("PROPERTY_PATIENCE", 0) * USEC_PER_SEC;
	signals_block();
	if (!enter_namespaces()) {
		(void)fprintf(stderr, "no network namespace can be made here: %s\n", strerror(errno));
		return 77;
	}
	(void)on_exit(on_end, &run);
	run_open(&run, argv[1]);
	(void)printf("seed %" PRIu64 ", %u steps, runtimes %s\n", run.seed, run.n_steps,
	        run.lies ? "lie" : "tell the truth");
	(void)fflush(stdout);
	run.settle_in = 1 + random_below(&run.random, 40);
	for (run.step = 0; run.step < run.n_steps; run.step++) {
		step(&run);
		check_always(&run);
		if (--run.settle_in == 0) {
			settle(&run, false);
			run.settle_in = 10 + random_below(&run.random, 40);
		}
	}
	run_close(&run);
	(void)printf("all came true, in %.1f s\n",
	        (double)(clock_monotonic_usec() - run.begun_usec) / (double)USEC_PER_SEC);
	return 0;
}
