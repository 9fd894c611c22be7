#include "svc-converger/instance_machine.h"

#include "lib/base/cleanup.h"

#include <stddef.h>

#define D(state) (1u << DESIRED_##state)
#define O(state) (1u << OBSERVED_##state)
#define F(fact) FACT_##fact

#define D_ANY ((1u << DESIRED_MAX) - 1)
#define D_UP (D(RUNNING) | D(PAUSED))
#define O_ANY ((1u << OBSERVED_MAX) - 1)
#define O_DOWN (O(ABSENT) | O(STOPPED) | O(CRASHED))
#define O_UP (O(RUNNING) | O(PAUSED))
/* What a runtime must never be asked to touch: what it cannot speak about, and what is not ours. */
#define O_OURS (O_DOWN | O_UP | O(STOPPING))
/* What was prepared for a start, ports of the host among it, is not kept from others for as long as these last. */
#define HINDRANCES                                                                                           \
	(F(TERMINAL) | F(DRAINING) | F(MISPLACED) | F(VOLUME_MISSING) | F(VOLUME_BUSY) | F(NO_CAPACITY) |    \
	        F(IMAGE_MISSING) | F(IMAGE_REFUSED) | F(RESTORE_MISSING) | F(SECRET_MISSING))

struct row {
	uint32_t desired, observed; /* sets */
	uint32_t with, without;     /* facts that must and must not hold */
	enum machine_action action;
};

/* clang-format off */
static const struct row table[] = {
	/* An earlier or dropped incarnation goes first. Failures of its starts do not count here: a mark starts
	 * counting anew, so that what is dropped can always be removed. */
	{ D_ANY, O_ANY,       F(REMOVAL) | F(BACKOFF), 0,               ACTION_WAIT_BACKOFF },
	{ D_ANY, O(UNKNOWN),  F(REMOVAL), F(DOMAIN_GONE),               ACTION_WAIT_RUNTIME },
	{ D_ANY, O_OURS,      F(REMOVAL), F(DOMAIN_GONE),               ACTION_REMOVE_DOMAIN },
	{ D_ANY, O_ANY,       F(REMOVAL) | F(NETD_AWAY), F(NICS_GONE),  ACTION_WAIT_NETD },
	{ D_ANY, O_ANY,       F(REMOVAL), F(NICS_GONE),                 ACTION_RELEASE_NICS },
	{ D_ANY, O_ANY,       F(REMOVAL), F(FILES_GONE),                ACTION_REMOVE_FILES },
	{ D_ANY, O_ANY,       F(REMOVAL), 0,                            ACTION_FORGET_REMOVAL },

	{ D_ANY, O_OURS,      F(STALE), 0,                              ACTION_MARK_REMOVAL },
	{ D(ABSENT), O_ANY,   0, 0,                                     ACTION_FORGET },
	{ D_ANY, O(FOREIGN),  0, 0,                                     ACTION_REFUSE_FOREIGN },
	{ D_ANY, O(UNKNOWN),  0, 0,                                     ACTION_WAIT_RUNTIME },
	{ D_ANY, O(STOPPING), 0, 0,                                     ACTION_WAIT_STOPPING },

	/* Down, and to stay so. */
	{ D(STOPPED), O_UP,   F(BACKOFF), 0,                            ACTION_WAIT_BACKOFF },
	{ D(STOPPED), O_UP,   0, 0,                                     ACTION_STOP },
	{ D(STOPPED), O_DOWN, F(NICS_HELD) | F(BACKOFF), 0,             ACTION_WAIT_BACKOFF },
	{ D(STOPPED), O_DOWN, F(NICS_HELD), F(NETD_AWAY),               ACTION_RELEASE_NICS },
	{ D(STOPPED), O_DOWN, 0, 0,                                     ACTION_NONE },
	{ D_UP, O_DOWN,       F(JOB_ENDED) | F(NICS_HELD) | F(BACKOFF), 0, ACTION_WAIT_BACKOFF },
	{ D_UP, O_DOWN,       F(JOB_ENDED) | F(NICS_HELD), F(NETD_AWAY), ACTION_RELEASE_NICS },
	{ D_UP, O_DOWN,       F(JOB_ENDED), 0,                          ACTION_NONE },

	{ D_UP, O_DOWN,       F(HINDERED) | F(NICS_HELD), F(NETD_AWAY) | F(BACKOFF), ACTION_RELEASE_NICS },

	/* Down, and to come up: every reason not to, the cheap and lasting ones first; then step by step. */
	{ D_UP, O_DOWN,       F(TERMINAL), 0,                           ACTION_REFUSE_TERMINAL },
	{ D_UP, O_DOWN,       F(DRAINING), 0,                           ACTION_WAIT_DRAINING },
	{ D_UP, O_DOWN,       F(BACKOFF), 0,                            ACTION_WAIT_BACKOFF },
	{ D_UP, O_DOWN,       F(MISPLACED), 0,                          ACTION_REFUSE_MISPLACED },
	{ D_UP, O_DOWN,       F(VOLUME_MISSING), 0,                     ACTION_WAIT_VOLUME },
	{ D_UP, O_DOWN,       F(VOLUME_BUSY), 0,                        ACTION_WAIT_VOLUME_BUSY },
	{ D_UP, O_DOWN,       F(NO_CAPACITY), 0,                        ACTION_WAIT_CAPACITY },
	{ D_UP, O_DOWN,       F(IMAGE_REFUSED), 0,                      ACTION_REFUSE_IMAGE },
	{ D_UP, O_DOWN,       F(IMAGE_MISSING), 0,                      ACTION_WAIT_IMAGE },
	{ D_UP, O_DOWN,       F(RESTORE_MISSING), 0,                    ACTION_WAIT_RESTORE },
	{ D_UP, O_DOWN,       F(NETD_AWAY), 0,                          ACTION_WAIT_NETD },
	{ D_UP, O_DOWN,       F(SECRET_MISSING), 0,                     ACTION_WAIT_SECRET },
	{ D_UP, O_DOWN,       F(UNRECORDED), 0,                         ACTION_RECORD },
	{ D_UP, O_DOWN,       0, F(NICS_READY),                         ACTION_PREPARE_NICS },
	{ D_UP, O_DOWN,       0, F(DEFINED),                            ACTION_DEFINE },
	{ D_UP, O_DOWN,       0, 0,                                     ACTION_START },

	/* Up. The state first, then what a running domain can be given. */
	{ D_UP, O_UP,         F(BACKOFF), 0,                            ACTION_WAIT_BACKOFF },
	{ D(RUNNING), O(PAUSED), 0, 0,                                  ACTION_RESUME },
	{ D_UP, O_UP,         F(NICS_DUE), F(NETD_AWAY),                ACTION_SET_POLICY },
	{ D_UP, O_UP,         F(GROW_DUE), 0,                           ACTION_GROW_VOLUMES },
	{ D_UP, O(RUNNING),   F(REBIND_DUE), 0,                         ACTION_REBIND },
	{ D_UP, O(RUNNING),   F(REBIND_WAITS), 0,                       ACTION_WAIT_REBIND_SECRET },
	{ D(PAUSED), O(RUNNING), 0, 0,                                  ACTION_PAUSE },
	{ D_UP, O_UP,         0, 0,                                     ACTION_NONE },
};
/* clang-format on */

enum machine_action machine_next(enum machine_desired desired, enum machine_observed observed, uint32_t facts)
{
	if (facts & HINDRANCES)
		facts |= F(HINDERED);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct row *row = &table[i];

		if ((row->desired & 1u << desired) && (row->observed & 1u << observed) &&
		        (facts & row->with) == row->with && !(facts & row->without))
			return row->action;
	}
	return ACTION_NONE; /* the table is complete: the test enumerates it */
}

bool machine_wants_start(enum machine_desired desired, enum machine_observed observed, uint32_t facts)
{
	return (D_UP & 1u << desired) && (O_DOWN & 1u << observed) &&
	        !(facts & (F(REMOVAL) | F(STALE) | F(JOB_ENDED) | F(TERMINAL) | F(DRAINING) | F(BACKOFF)));
}

enum machine_class machine_action_class(enum machine_action action)
{
	switch (action) {
	case ACTION_NONE:
	case ACTION_WAIT_RUNTIME:
	case ACTION_WAIT_NETD:
	case ACTION_WAIT_STOPPING:
	case ACTION_WAIT_BACKOFF:
	case ACTION_WAIT_DRAINING:
	case ACTION_WAIT_VOLUME:
	case ACTION_WAIT_VOLUME_BUSY:
	case ACTION_WAIT_CAPACITY:
	case ACTION_WAIT_IMAGE:
	case ACTION_WAIT_RESTORE:
	case ACTION_WAIT_SECRET:
	case ACTION_WAIT_REBIND_SECRET:
	case ACTION_REFUSE_FOREIGN:
	case ACTION_REFUSE_MISPLACED:
	case ACTION_REFUSE_IMAGE:
	case ACTION_REFUSE_TERMINAL:
		return CLASS_REST;
	case ACTION_MARK_REMOVAL:
	case ACTION_REMOVE_DOMAIN:
	case ACTION_RELEASE_NICS:
	case ACTION_REMOVE_FILES:
	case ACTION_FORGET_REMOVAL:
	case ACTION_FORGET:
	case ACTION_STOP:
		return CLASS_FREEING;
	case ACTION_PAUSE:
	case ACTION_RESUME:
	case ACTION_SET_POLICY:
	case ACTION_GROW_VOLUMES:
	case ACTION_REBIND:
		return CLASS_OTHER;
	case ACTION_RECORD:
	case ACTION_PREPARE_NICS:
	case ACTION_DEFINE:
	case ACTION_START:
		return CLASS_STARTING;
	case ACTION_MAX:
		break;
	}
	return CLASS_REST;
}

const char *machine_action_to_string(enum machine_action action)
{
	static const char *const names[ACTION_MAX] = {
		[ACTION_NONE] = "none",
		[ACTION_WAIT_RUNTIME] = "wait-runtime",
		[ACTION_WAIT_NETD] = "wait-netd",
		[ACTION_WAIT_STOPPING] = "wait-stopping",
		[ACTION_WAIT_BACKOFF] = "wait-backoff",
		[ACTION_WAIT_DRAINING] = "wait-draining",
		[ACTION_WAIT_VOLUME] = "wait-volume",
		[ACTION_WAIT_VOLUME_BUSY] = "wait-volume-busy",
		[ACTION_WAIT_CAPACITY] = "wait-capacity",
		[ACTION_WAIT_IMAGE] = "wait-image",
		[ACTION_WAIT_RESTORE] = "wait-restore",
		[ACTION_WAIT_SECRET] = "wait-secret",
		[ACTION_WAIT_REBIND_SECRET] = "wait-rebind-secret",
		[ACTION_REFUSE_FOREIGN] = "refuse-foreign",
		[ACTION_REFUSE_MISPLACED] = "refuse-misplaced",
		[ACTION_REFUSE_IMAGE] = "refuse-image",
		[ACTION_REFUSE_TERMINAL] = "refuse-terminal",
		[ACTION_MARK_REMOVAL] = "mark-removal",
		[ACTION_REMOVE_DOMAIN] = "remove-domain",
		[ACTION_RELEASE_NICS] = "release-nics",
		[ACTION_REMOVE_FILES] = "remove-files",
		[ACTION_FORGET_REMOVAL] = "forget-removal",
		[ACTION_FORGET] = "forget",
		[ACTION_STOP] = "stop",
		[ACTION_PAUSE] = "pause",
		[ACTION_RESUME] = "resume",
		[ACTION_RECORD] = "record",
		[ACTION_PREPARE_NICS] = "prepare-nics",
		[ACTION_DEFINE] = "define",
		[ACTION_START] = "start",
		[ACTION_SET_POLICY] = "set-policy",
		[ACTION_GROW_VOLUMES] = "grow-volumes",
		[ACTION_REBIND] = "rebind",
	};

	return (unsigned)action < ACTION_MAX ? names[action] : NULL;
}
