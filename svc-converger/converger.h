/* The converger as a whole: what its units share. One thread, the loop's, touches any of it.
 *
 *   apply.c       accepts a NodeSpec and turns it into changed instances
 *   reconciler.c  looks at what changed and begins what the machine says, within limits
 *   instance_view.c  gathers desired, observed and facts for one instance
 *   operation.c   does one action, call by call, with the *_steps.c
 *   runtimes.c    the runtimes that are there
 *   edge.c        the RPCs; session.c the control plane's */
#pragma once

#include "lib/base/ids.h"
#include "lib/loop/job.h"
#include "lib/loop/loop.h"
#include "svc-converger/admission.h"
#include "svc-converger/events.h"
#include "svc-converger/host_facts.h"
#include "svc-converger/id_map.h"
#include "svc-converger/image_store.h"
#include "svc-converger/instance.h"
#include "svc-converger/netd_link.h"
#include "svc-converger/secrets.h"
#include "svc-converger/snapshot_store.h"
#include "svc-converger/status_board.h"
#include "svc-converger/store_lane.h"
#include "svc-converger/volume_store.h"

#include "bc/v1/node.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct runtimes;
struct intelligence_link;
struct snapshot_tasks;
struct housekeeping;
struct balloons;
struct apply_queue;

struct converger_options {
	const char *node_id;  /* all texts weak, copied */
	const char *data_dir; /* exists */
	const char *run_dir;  /* runtime-*.sock in it are runtimes */
	const char *netd_socket;
	const char *intelligence_socket;
	const char *
	        instances_dir; /* where runtimes keep directories of instances; NULL: instances/ in data_dir */
	const char *boot_id_path;                          /* NULL: the kernel's */
	const char *proc, *sys;                            /* NULL: "/proc", "/sys" */
	uint64_t resync_usec;                              /* 0: 30 s */
	uint64_t retry_min_usec, retry_max_usec;           /* of an instance; 0: 1 s, 60 s */
	uint64_t link_retry_min_usec, link_retry_max_usec; /* 0: as in link.h */
	uint64_t call_timeout_usec;                        /* of a quick call; 0: 10 s */
	uint64_t change_timeout_usec;           /* of one that changes a domain or an interface; 0: 120 s */
	uint64_t snapshot_timeout_usec;         /* of one that writes a snapshot; 0: 1 h */
	uint64_t stop_grace_usec;               /* for a guest to shut down; 0: the runtime's default */
	uint64_t stable_usec;                   /* up for so long, a crash is the first one again; 0: 60 s */
	uint64_t image_keep_usec;               /* images unused for so long go; 0: 24 h */
	unsigned n_parallel;                    /* instances worked on at once; 0: 32 */
	const struct transfer_config *transfer; /* weak; how downloads and uploads are done */
};

/* kinds on the status board */
enum { STATUS_INSTANCE, STATUS_FOREIGN, STATUS_VOLUME, STATUS_DRIVERS };

/* A volume on the board; its numbers are asked for when somebody reads. */
struct volume_item {
	char id[VOLUME_ID_MAX];
	struct status_item status;
};

/* First in, first out, of instances. */
struct instance_list {
	struct instance *first, *last; /* weak */
};

enum { LANES_MAX = 65 }; /* of work: one for each runtime, and one for what needs none */

/* A stuck runtime keeps its own work waiting, nobody else's. */
struct work_lane {
	struct instance_list queues[QUEUE_MAX];
	unsigned n_operations;
};

/* The control plane that the node dials, as status tells of it. */
struct dialled {
	const char *endpoint; /* weak; NULL: none */
	bool is_connected;    /* it has answered */
	char message[512];    /* of the last failure; "" */
};

struct converger {
	struct loop *loop;                /* weak */
	struct converger_options options; /* texts owned */
	char boot_id[UUID_TEXT_MAX];

	/* what is wished */
	uint64_t revision;  /* last accepted; 0: none */
	bool has_instances; /* an accepted spec had an instances section */
	bool is_draining, drain_stops;
	void *node; /* owned; the packed NodeSpec without instances, NULL for none */
	size_t n_node;
	struct apply_queue *applies; /* owned */
	struct id_map *instances;    /* owned, as the instances are */

	/* what is seen */
	struct runtimes *runtimes;              /* owned */
	struct netd_link *netd;                 /* owned */
	struct intelligence_link *intelligence; /* owned */
	struct host_facts host;
	bool host_is_fresh; /* read in this pass */
	bool host_is_blind; /* its memory could not be read then, and it was said */
	struct admission admission;
	struct status_board *board;  /* owned */
	struct status_item drivers;  /* on the board, all of them as one */
	struct id_map *volume_items; /* owned, as the items are */
	struct events *events;       /* owned */
	struct dialled dialled;      /* control_plane.c's */

	/* what it works with */
	struct store_lane *lane;               /* owned */
	struct job_pool *pool;                 /* owned; for what blocks */
	struct image_store *images;            /* owned */
	struct volume_store *volumes;          /* owned */
	struct snapshot_store *snapshots;      /* owned */
	struct snapshot_tasks *snapshot_tasks; /* owned */
	struct secrets *secrets;               /* owned */
	struct housekeeping *housekeeping;     /* owned */
	struct balloons *balloons;             /* owned */

	/* the reconciler's */
	struct instance_list dirty;
	struct work_lane lanes[LANES_MAX];
	size_t n_operations;     /* in all lanes */
	size_t n_waiting;        /* instances that wait for what others hold: memory, volumes */
	unsigned freed;          /* a set of enum freed, since the last pass */
	struct id_map *foreigns; /* owned, as what is in it; domains no instance stands for */
	struct loop_tag pass_tag;
	bool pass_is_posted, is_stopping;
	sd_event_source *resync_timer;   /* owned */
	struct store_batch *facts_batch; /* owned; facts that go with the next pass; NULL: none */
	bool facts_are_unsaved;          /* some could not be written: all are, at the next full look */
	uint64_t stop_patience_usec; /* monotonic; stopping: until then operations may end by themselves */
	void (*on_idle)(void *userdata); /* stopping: nothing is in flight any more */
	void *on_idle_userdata;
};

/* Opens the stores, loads what was accepted, begins to look for runtimes. -errno with words refuses to start, and
 * nothing was touched. */
int converger_new(
        struct loop *loop, const struct converger_options *options, struct converger **ret, struct err *err);
/* Begins nothing new; on_idle runs once all that is in flight has ended, then it may be freed. */
void converger_stop(struct converger *converger, void (*on_idle)(void *userdata), void *userdata);
struct converger *converger_free(struct converger *converger);

struct instance *converger_instance(const struct converger *converger, const char *id); /* NULL: none */
/* The record of an id, new if there is none; NULL: no memory. */
struct instance *converger_instance_make(struct converger *converger, const char *id);
void converger_event(struct converger *converger, enum event_severity severity, const char *instance_id,
        const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
