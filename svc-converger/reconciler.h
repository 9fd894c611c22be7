/* Looks at instances that something happened to, and begins what the machine says: stops and removals before
 * anything else, at most so many at once per runtime, one operation per instance. Level-triggered: a mark says
 * "look", never "do". */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/runtime_link.h"

int reconciler_start(struct converger *converger);
void reconciler_stop(struct converger *converger);

/* Look at it in the next pass, which comes as soon as the loop is free. */
void reconciler_mark(struct converger *converger, struct instance *instance);
/* The same for one whose spec has changed: the turn it may wait for was for another wish, at another runtime perhaps. */
void reconciler_mark_changed(struct converger *converger, struct instance *instance);
void reconciler_mark_id(struct converger *converger, const char *id);
void reconciler_mark_all(struct converger *converger);
/* What was given back, and others may wait for. */
enum freed {
	FREED_VOLUME = 1 << 0,
	FREED_CHARGE =
	        1 << 1, /* the memory of a start that came to nothing: there is room in our own ledger */
	FREED_MEMORY = 1 << 2, /* of the host: whom a runtime had refused may ask again */
	FREED_ALL = FREED_VOLUME | FREED_CHARGE | FREED_MEMORY,
};
void reconciler_freed(struct converger *converger, enum freed what);
/* What the start under way has prepared and holds is given up; nothing where there is none. */
void reconciler_end_attempt(struct converger *converger, struct instance *instance);
/* The full look that also comes by itself: runtimes, netd and the host are asked anew. */
void reconciler_resync(struct converger *converger);

/* The end of an operation; instance->operation is the ended one and is forgotten. */
void reconciler_operation_ended(struct converger *converger, struct instance *instance, unsigned lane);

/* What is remembered of it has changed: written soon, with others. */
void reconciler_save_facts(struct converger *converger, struct instance *instance);
/* Its status may have changed: readers are told if it has. */
void reconciler_refresh(struct converger *converger, struct instance *instance);
/* A person asks: no trouble counts any more, an ended job may run again. */
void reconciler_retry(struct converger *converger, struct instance *instance);

/* An accepted spec speaks of instances for the first time: managed domains it does not name are to go. */
void reconciler_judge_unlisted(struct converger *converger);

/* Handlers of the runtimes' and netd's links; userdata is the converger. */
extern const struct runtime_link_handlers reconciler_runtime_handlers;
extern const struct netd_link_handlers reconciler_netd_handlers;
/* Intelligence answers: it is told of every VM. userdata is the converger. */
void reconciler_tell_intelligence(void *userdata);
/* How a service answers has changed. userdata is the converger. */
void reconciler_drivers_changed(void *userdata);
