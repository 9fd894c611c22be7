#include "svc-converger/balloons.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "svc-converger/call.h"
#include "svc-converger/runtimes.h"

#include <stdio.h>
#include <string.h>

#define PERIOD_USEC (5 * USEC_PER_SEC)
enum { PARALLEL = 16 };

/* A guest with a balloon. */
struct guest {
	char id[UUID_TEXT_MAX]; /* the key */
	struct balloons *owner; /* weak */
	struct call *call;      /* owned; while one is in flight */
	struct balloon_guest numbers;
	bool is_known; /* it has answered in this look */
	bool is_asked; /* since it runs: what it has is known, or cannot be */
	bool is_seen;  /* in this look it still is one */
};

enum phase {
	PHASE_IDLE,
	PHASE_ASKING,
	PHASE_TELLING,
};

struct balloons {
	struct converger *c;    /* weak */
	sd_event_source *timer; /* owned */
	struct balloon_config config;
	struct balloon_control control;
	struct balloon_host host; /* in this look */
	struct id_map *guests;    /* owned, with what is in it */
	enum phase phase;
	size_t n_in_flight;
	struct guest **queue; /* owned; weak guests of this look */
	size_t n_queue, n_begun;
};

static struct rpc_method const GET =
        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, get_balloon);
static struct rpc_method const SET =
        RPC_METHOD(Bc__V1__Runtime_Service, bc__v1__runtime__descriptor, set_balloon);

static void look_step(struct balloons *b);

static void guest_free(struct balloons *b, struct guest *guest)
{
	(void)id_map_remove(b->guests, guest->id);
	call_drop(&guest->call);
	free(guest);
}

/* The runtime under which it is up just now; NULL: none. */
static struct runtime_link *runtime_of(const struct balloons *b, const struct guest *guest)
{
	const struct instance *instance = converger_instance(b->c, guest->id);
	struct runtime_link *link =
	        instance && instance->spec ? runtimes_find(b->c->runtimes, instance->spec->runtime) : NULL;
	const struct domain *domain =
	        link && runtime_link_is_known(link) ? runtime_link_domain(link, guest->id) : NULL;

	/* While something is done to it, it is left alone. */
	return domain && domain->is_managed && domain->state == BC__V1__DOMAIN__STATE__RUNNING &&
	                !instance->operation && runtime_link_has(link, "balloon")
	        ? link
	        : NULL;
}

/* --- one call to one guest --- */

static void on_reply(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct guest *guest = owner;
	struct balloons *b = guest->owner;
	const Bc__V1__BalloonReply *balloon = (const Bc__V1__BalloonReply *)reply;

	guest->is_asked = true;
	if (status->code == GRPC_STATUS_OK) {
		guest->is_known = true;
		guest->numbers.current_bytes = balloon->current_bytes;
		if (b->phase == PHASE_ASKING) {
			guest->numbers.unused_bytes = balloon->unused_bytes;
			guest->numbers.usage_known = balloon->usage_known;
		}
	}
	b->n_in_flight--;
	look_step(b);
}

static bool guest_call(struct balloons *b, struct guest *guest)
{
	Bc__V1__BalloonRequest ask = BC__V1__BALLOON_REQUEST__INIT;
	Bc__V1__SetBalloonRequest tell = BC__V1__SET_BALLOON_REQUEST__INIT;
	struct runtime_link *link = runtime_of(b, guest);

	if (!link)
		return false;
	ask.id = tell.id = guest->id;
	tell.target_bytes = guest->numbers.target_bytes;
	return call_unary(&guest->call, runtime_link_channel(link), b->phase == PHASE_ASKING ? GET : SET,
	               b->phase == PHASE_ASKING ? &ask.base : &tell.base, b->c->options.call_timeout_usec,
	               on_reply, guest) == 0;
}

/* --- a look --- */

/* The guests that have a balloon now; others are forgotten. */
static int guests_gather(struct balloons *b)
{
	const struct instance *instance;
	size_t cursor = 0;
	struct guest *guest;

	while ((guest = id_map_next(b->guests, &cursor)))
		guest->is_seen = false;
	cursor = 0;
	while ((instance = id_map_next(b->c->instances, &cursor))) {
		const struct instance_spec *spec = instance->spec;

		if (!spec || spec->balloon_min_bytes == 0 || spec->balloon_min_bytes >= spec->memory_bytes)
			continue;
		guest = id_map_get(b->guests, instance->id);
		if (!guest) {
			guest = calloc(1, sizeof(*guest));
			if (!guest)
				return -ENOMEM;
			guest->owner = b;
			(void)snprintf(guest->id, sizeof(guest->id), "%s", instance->id);
			if (id_map_put(b->guests, guest) < 0) {
				free(guest);
				return -ENOMEM;
			}
		}
		guest->numbers.memory_bytes = spec->memory_bytes;
		guest->numbers.min_bytes = spec->balloon_min_bytes;
		if (!runtime_of(b, guest)) { /* what it had is over */
			guest->numbers.current_bytes = 0;
			guest->is_asked = false;
		}
		guest->is_seen = true;
	}
	return 0;
}

static void guests_forget(struct balloons *b)
{
	struct guest *guest, *gone;
	size_t cursor;

	do {
		gone = NULL;
		cursor = 0;
		while (!gone && (guest = id_map_next(b->guests, &cursor)))
			gone = guest->is_seen ? NULL : guest;
		if (gone)
			guest_free(b, gone);
	} while (gone);
}

/* Some guest has less than its memory, or may: a converger that comes back does not know what it took before. */
static bool somebody_lacks(const struct balloons *b)
{
	const struct guest *guest;
	size_t cursor = 0;

	while ((guest = id_map_next(b->guests, &cursor)))
		if (guest->numbers.current_bytes ? guest->numbers.current_bytes < guest->numbers.memory_bytes
		                                 : !guest->is_asked && runtime_of(b, guest))
			return true;
	return false;
}

static void look_end(struct balloons *b)
{
	free(TAKE_PTR(b->queue));
	b->phase = PHASE_IDLE;
}

/* Everybody has answered, or will not. */
static void decide(struct balloons *b)
{
	CLEANUP_FREE struct balloon_guest *numbers = calloc(b->n_queue + 1, sizeof(*numbers));
	size_t n = 0, n_told = 0;

	if (!numbers) {
		look_end(b);
		return;
	}
	for (size_t i = 0; i < b->n_queue; i++)
		if (b->queue[i]->is_known)
			numbers[n++] = b->queue[i]->numbers;
	(void)balloon_decide(&b->control, &b->config, &b->host, clock_monotonic_usec(), numbers, n);
	n = 0;
	for (size_t i = 0; i < b->n_queue; i++) {
		struct guest *guest = b->queue[i];

		if (!guest->is_known)
			continue;
		guest->numbers.target_bytes = numbers[n++].target_bytes;
		if (guest->numbers.target_bytes != guest->numbers.current_bytes)
			b->queue[n_told++] = guest;
	}
	b->n_queue = n_told;
	b->n_begun = 0;
	b->phase = PHASE_TELLING;
}

/* Begins what may be begun, and goes on to the next phase when nothing is left of this one. */
static void look_step(struct balloons *b)
{
	while (b->phase != PHASE_IDLE) {
		while (b->n_in_flight < PARALLEL && b->n_begun < b->n_queue) {
			struct guest *guest = b->queue[b->n_begun++];

			if (!guest->call && guest_call(b, guest))
				b->n_in_flight++;
		}
		if (b->n_in_flight > 0)
			return;
		if (b->phase == PHASE_ASKING)
			decide(b);
		else
			look_end(b);
	}
}

static int queue_fill(struct balloons *b)
{
	size_t cursor = 0;
	struct guest *guest;

	b->queue = calloc(id_map_count(b->guests) + 1, sizeof(struct guest *));
	if (!b->queue)
		return -ENOMEM;
	b->n_queue = b->n_begun = 0;
	while ((guest = id_map_next(b->guests, &cursor))) {
		guest->is_known = false;
		b->queue[b->n_queue++] = guest;
	}
	return 0;
}

void balloons_look(struct balloons *b)
{
	enum balloon_phase before = b->control.phase;

	if (b->c->is_stopping || b->phase != PHASE_IDLE ||
	        balloon_host_read(b->c->options.proc, &b->host) < 0)
		return;
	/* The host alone decides whether it is pressed; that costs nothing and asks nobody. */
	(void)balloon_decide(&b->control, &b->config, &b->host, clock_monotonic_usec(), NULL, 0);
	if (b->control.phase != before)
		converger_event(b->c, EVENT_INFO, "",
		        b->control.phase == BALLOON_PRESSURE ? "MemoryPressure" : "MemoryCalm",
		        "%llu MiB of the host's %llu MiB are available",
		        (unsigned long long)(b->host.available_bytes >> 20),
		        (unsigned long long)(b->host.total_bytes >> 20));
	if (guests_gather(b) < 0)
		return;
	guests_forget(b);
	if (b->control.phase == BALLOON_CALM && !somebody_lacks(b))
		return;
	if (queue_fill(b) < 0)
		return;
	b->phase = PHASE_ASKING;
	look_step(b);
}

bool balloons_are_busy(const struct balloons *balloons)
{
	return balloons->phase != PHASE_IDLE;
}

uint64_t balloons_current_bytes(const struct balloons *b, const char *instance_id)
{
	const struct guest *guest = b ? id_map_get(b->guests, instance_id) : NULL;

	return guest ? guest->numbers.current_bytes : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct balloons *b = userdata;

	(void)usec;
	balloons_look(b);
	(void)sd_event_source_set_time_relative(source, PERIOD_USEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

int balloons_new(struct converger *c, struct balloons **ret)
{
	struct balloons *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->c = c;
	b->config = balloon_config_default();
	b->guests = id_map_new(offsetof(struct guest, id));
	r = b->guests ? sd_event_add_time_relative(loop_event(c->loop), &b->timer, CLOCK_MONOTONIC,
	                        PERIOD_USEC, USEC_PER_SEC, on_timer, b)
	              : -ENOMEM;
	if (r < 0) {
		(void)balloons_free(b);
		return r;
	}
	(void)sd_event_source_set_description(b->timer, "balloons");
	*ret = b;
	return 0;
}

struct balloons *balloons_free(struct balloons *b)
{
	struct guest *guest;
	size_t cursor = 0;

	if (!b)
		return NULL;
	sd_event_source_disable_unref(b->timer);
	while (b->guests && (guest = id_map_next(b->guests, &cursor))) {
		guest_free(b, guest);
		cursor = 0;
	}
	(void)id_map_free(b->guests);
	free(b->queue);
	free(b);
	return NULL;
}
