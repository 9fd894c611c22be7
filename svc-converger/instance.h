/* One instance as the converger holds it: what is wished, what stands in the way, what is under way. */
#pragma once

#include "svc-converger/admission.h"
#include "svc-converger/instance_machine.h"
#include "svc-converger/instance_spec.h"
#include "svc-converger/status_board.h"
#include "svc-converger/store.h"

#include "lib/base/ids.h"

#include "bc/v1/netd.pb-c.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct converger;
struct operation;
struct trouble;

/* An incarnation that is being removed; its durable mark is in the store. */
struct removal {
	char runtime[RUNTIME_ID_MAX];
	char allocation_id[ALLOCATION_ID_MAX];
	bool uses_netd; /* may have interfaces on the host */
	bool domain_gone, nics_gone, files_gone;
};

/* A start under way, from the first thing built for it to the domain that runs. */
struct attempt {
	Bc__V1__PreparedNic **nics; /* owned; by NIC order */
	size_t n_nics;
	bool is_claimed; /* its volumes */
	bool nics_ready, is_defined;
	bool is_outdated;            /* the spec has changed since: it is not gone on with */
	struct memory_charge charge; /* in the ledger while is_charged */
	bool is_charged;
};

/* Where it waits in the reconciler. */
enum instance_queue {
	QUEUE_NONE,
	QUEUE_DIRTY,   /* to be looked at */
	QUEUE_FREEING, /* looked at, waiting for a slot; the three classes of work */
	QUEUE_OTHER,
	QUEUE_STARTING,
	QUEUE_MAX,
};

/* Whether the runtime that its spec names may answer yet. */
enum runtime_absence {
	RUNTIME_AWAITED = 0, /* it is here, or may be behind a socket that has not told whose it is */
	RUNTIME_NOT_INSTALLED,
	RUNTIME_NONE, /* nor is any other */
};

struct instance {
	char id[UUID_TEXT_MAX];
	struct converger *converger; /* weak */
	struct status_item status;   /* on the board */

	struct instance_spec *spec; /* owned; NULL: not in the accepted spec */
	struct removal *removal;    /* owned; NULL: none stands */
	struct store_facts facts;
	uint64_t revision;    /* of the spec that last changed it */
	bool is_changing;     /* an accepted change of it is being written: nothing new is begun */
	bool is_snapshotting; /* likewise */

	struct attempt *attempt;        /* owned; NULL: no start under way */
	struct trouble *trouble;        /* owned; NULL: the last try went well */
	struct operation *operation;    /* weak: owns itself until it ends */
	bool is_decided;                /* looked at since this service runs: the next two mean something */
	enum machine_action action;     /* as decided last */
	enum machine_observed observed; /* likewise */
	enum runtime_absence absence;   /* likewise, where nothing was observed */
	char *words; /* owned; for people: what the action waits for, or why it refuses; may be NULL */

	bool was_up;            /* seen running or paused since this service looks */
	bool was_stopped;       /* by us, on a wish: going down is no crash */
	uint32_t crashes;       /* in a row */
	uint64_t up_since_usec; /* monotonic */
	uint64_t rebound_hash;  /* the guest has just taken on this identity; its domain may not say so yet */
	uint64_t grown_bytes;   /* likewise of its volumes */

	/* as last put on the board */
	bool is_news;    /* something else of its status has changed since */
	bool is_waiting; /* counted among those that wait for what others hold */
	uint64_t named;  /* the number of the apply that named it last */
	int state;       /* of InstanceStatus */
	char reason[40];
	uint64_t state_since_usec; /* realtime */

	enum instance_queue queue;
	unsigned lane;                /* of work; past QUEUE_DIRTY */
	struct instance *next, *prev; /* weak; in the queue */
};

struct instance *instance_new(const char *id); /* NULL: no memory */
/* It is in no queue, on no board, and nothing of it is in flight. */
struct instance *instance_free(struct instance *instance);
void instance_end_attempt(struct instance *instance, struct admission *admission);
void instance_forgive(struct instance *instance); /* no trouble any more */
void instance_set_words(struct instance *instance, const char *words);
