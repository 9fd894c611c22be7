#include "svc-converger/drain.h"

#include "svc-converger/reconciler.h"

struct drain {
	struct converger *c; /* weak */
	bool drain, stop_instances;
	drain_fn fn;
	void *userdata; /* weak */
};

static uint32_t count_running(const struct converger *c)
{
	struct instance *instance;
	size_t cursor = 0;
	uint32_t n = 0;

	while ((instance = id_map_next(c->instances, &cursor)))
		n += instance->observed == OBSERVED_RUNNING || instance->observed == OBSERVED_PAUSED ||
		        instance->observed == OBSERVED_STOPPING;
	return n;
}

static void on_written(int r, const struct err *err, void *userdata)
{
	struct drain *drain = userdata;
	struct converger *c = drain->c;

	if (r == 0) {
		c->is_draining = drain->drain;
		c->drain_stops = drain->drain && drain->stop_instances;
		converger_event(c, EVENT_WARNING, "", drain->drain ? "Draining" : "Undrained", "%s",
		        !drain->drain ? "instances are started again"
		                      : (drain->stop_instances ? "every instance is stopped"
		                                               : "nothing new is started"));
		reconciler_mark_all(c);
	}
	drain->fn(r, err, count_running(c), drain->userdata);
	free(drain);
}

void drain_set(struct converger *c, bool drain, bool stop_instances, drain_fn fn, void *userdata)
{
	struct store_batch *batch = store_batch_new();
	struct drain *d = calloc(1, sizeof(*d));
	int r;

	if (!batch || !d) {
		store_batch_free(batch);
		free(d);
		fn(-ENOMEM, NULL, 0, userdata);
		return;
	}
	*d = (struct drain){
		.c = c, .drain = drain, .stop_instances = stop_instances, .fn = fn, .userdata = userdata
	};
	store_batch_set_number(batch, STORE_DRAINING, drain ? (stop_instances ? 2 : 1) : 0);
	r = store_lane_commit(c->lane, batch, on_written, d);
	if (r < 0) {
		free(d);
		fn(r, NULL, 0, userdata);
	}
}
