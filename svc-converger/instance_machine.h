/* What to do next for one instance: a pure function of what is wished, what is seen and what else is known.
 *
 * The reconciler gathers the inputs anew each time an instance is looked at, asks here, and does that one thing;
 * nothing is ever replayed. The table in instance_machine.c is read from the top, the first row that matches
 * decides; docs/converger.md draws it. No clock, no I/O, no memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum machine_desired {
	DESIRED_ABSENT, /* not in the spec */
	DESIRED_STOPPED,
	DESIRED_RUNNING,
	DESIRED_PAUSED,
	DESIRED_MAX,
};

/* What the runtime shows under this id. While a removal stands, this is about the runtime of the removal. */
enum machine_observed {
	OBSERVED_UNKNOWN, /* the runtime cannot tell (yet): nothing may be concluded */
	OBSERVED_ABSENT,  /* a complete list does not have it */
	OBSERVED_STOPPED,
	OBSERVED_CRASHED, /* stopped, and nobody asked for it */
	OBSERVED_STOPPING,
	OBSERVED_RUNNING,
	OBSERVED_PAUSED,
	OBSERVED_FOREIGN, /* a domain that bcd did not make has this id */
	OBSERVED_MAX,
};

enum machine_fact {
	/* about an earlier incarnation, or one that was dropped from the spec */
	FACT_REMOVAL = 1u << 0, /* a durable mark: it is removed before anything else happens under this id */
	FACT_DOMAIN_GONE = 1u << 1, /* its runtime has said so since the mark was read or made */
	FACT_NICS_GONE = 1u << 2,   /* netd has said so, or it never had one */
	FACT_FILES_GONE = 1u << 3,
	FACT_STALE = 1u << 4, /* the domain seen belongs to another allocation or runtime than the spec's */
	/* about trying */
	FACT_BACKOFF = 1u << 5,  /* the last try failed and the next is not due */
	FACT_TERMINAL = 1u << 6, /* trying again is useless until the spec changes or somebody asks */
	FACT_DRAINING = 1u << 7,
	FACT_JOB_ENDED = 1u << 8, /* a JOB that ran, well or not */
	/* about a start; each is a reason not to */
	FACT_MISPLACED = 1u << 9,       /* the host cannot apply its placement or lacks its GPUs */
	FACT_VOLUME_MISSING = 1u << 10, /* not made yet */
	FACT_VOLUME_BUSY = 1u << 11,    /* another domain has it open, and one of the two writes */
	FACT_NO_CAPACITY = 1u << 12,
	FACT_IMAGE_MISSING = 1u << 13,
	FACT_RESTORE_MISSING = 1u << 14,
	FACT_NETD_AWAY = 1u << 15, /* netd is needed and does not answer */
	FACT_SECRET_MISSING = 1u << 16,
	/* how far a start has come */
	FACT_UNRECORDED =
	        1u << 17, /* the store does not say yet that something may exist of this incarnation */
	FACT_NICS_READY = 1u << 18,
	FACT_DEFINED = 1u << 19,
	/* about a domain that stands */
	FACT_NICS_HELD = 1u << 20, /* netd holds interfaces for it */
	FACT_NICS_DUE = 1u << 21,  /* the filter in force is not the spec's */
	FACT_GROW_DUE = 1u << 22,
	FACT_REBIND_DUE = 1u << 23,    /* and the payload is here */
	FACT_REBIND_WAITS = 1u << 24,  /* due, and the payload is not here yet */
	FACT_IMAGE_REFUSED = 1u << 25, /* it is here, and can never be used as the spec says */
	/* derived by the machine itself: some reason not to start that may last */
	FACT_HINDERED = 1u << 26,
};
enum { FACT_BITS = 26 }; /* that are gathered */

enum machine_action {
	ACTION_NONE, /* as it should be */
	/* wait: an event brings the instance back */
	ACTION_WAIT_RUNTIME,
	ACTION_WAIT_NETD,
	ACTION_WAIT_STOPPING,
	ACTION_WAIT_BACKOFF,
	ACTION_WAIT_DRAINING,
	ACTION_WAIT_VOLUME, /* made or freed; the wish for it is (re)stated */
	ACTION_WAIT_VOLUME_BUSY,
	ACTION_WAIT_CAPACITY,
	ACTION_WAIT_IMAGE,   /* likewise */
	ACTION_WAIT_RESTORE, /* likewise */
	ACTION_WAIT_SECRET,  /* likewise */
	ACTION_WAIT_REBIND_SECRET,
	/* refuse: only a change of the spec, the host or a person's word helps */
	ACTION_REFUSE_FOREIGN,
	ACTION_REFUSE_MISPLACED,
	ACTION_REFUSE_IMAGE,
	ACTION_REFUSE_TERMINAL,
	/* do: exactly one operation, its end brings the instance back */
	ACTION_MARK_REMOVAL,
	ACTION_REMOVE_DOMAIN,
	ACTION_RELEASE_NICS,
	ACTION_REMOVE_FILES,
	ACTION_FORGET_REMOVAL, /* the mark itself, durably */
	ACTION_FORGET,         /* the record in memory: nothing is left and nothing is wished */
	ACTION_STOP,
	ACTION_PAUSE,
	ACTION_RESUME,
	ACTION_RECORD, /* durably: from now on something may exist */
	ACTION_PREPARE_NICS,
	ACTION_DEFINE,
	ACTION_START,
	ACTION_SET_POLICY,
	ACTION_GROW_VOLUMES,
	ACTION_REBIND,
	ACTION_MAX,
};

/* In one pass the classes are begun in this order. */
enum machine_class {
	CLASS_REST,    /* none, wait, refuse: costs nothing */
	CLASS_FREEING, /* stops and removals */
	CLASS_OTHER,
	CLASS_STARTING,
};

enum machine_action machine_next(
        enum machine_desired desired, enum machine_observed observed, uint32_t facts);
enum machine_class machine_action_class(enum machine_action action);
const char *machine_action_to_string(enum machine_action action); /* "prepare-nics"; NULL outside the enum */

/* True where the facts about a start decide anything: gathering them costs, and a settled instance need not. */
bool machine_wants_start(enum machine_desired desired, enum machine_observed observed, uint32_t facts);
