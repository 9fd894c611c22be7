/* bc-runtime-plugin: one plugin as a bc.v1.Runtime. What the converger asks of a runtime is turned into Plugin.Invoke
 * calls; what a plugin cannot be trusted with is kept here: which interfaces a domain may use, that one instance has
 * one call in flight, that nothing comes too big or takes for ever.
 *
 *   edge.c    the RPCs            op.c     one change of one instance, through to its answer
 *   look.c    list, now and then  guest.c  what is known of each instance
 *   child.c   the plugin's process, where the manifest names one */
#pragma once

#include "lib/conf/conf.h"
#include "lib/loop/job.h"
#include "lib/rpc/client.h"
#include "lib/service/service.h"
#include "svc-runtime-plugin/guest.h"
#include "svc-runtime-plugin/tap_check.h"

#include "bc/v1/invoke.pb-c.h"
#include "bc/v1/runtime.pb-c.h"

struct child;
struct plugin;
struct watch;

/* The manifest. */
struct plugin_conf {
	char *id; /* owned, as all texts */
	int kind;
	char *version;
	char *socket;
	struct conf_list executable;
	struct conf_list features;
	struct conf_uids vmm_user;
	uint64_t timeout_usec, poll_usec, start_timeout_usec;
};

/* A call that waits for the plugin's first answer. */
struct parked {
	TAILQ_ENTRY(parked) link;
	struct rpc_call *call; /* a reference */
	void (*fn)(struct plugin *plugin, struct rpc_call *call, const void *request);
	const void *request;
};

struct plugin {
	Bc__V1__Runtime_Service service; /* first: handlers get it */
	struct plugin_conf conf;
	struct loop *loop;         /* weak */
	struct rpc_server *server; /* weak */
	struct service *daemon;    /* weak */
	char dir[512];             /* of the records */
	char why[512];             /* it is not known: words */
	tap_use_fn tap_use;

	struct rpc_channel *channel; /* owned; to the plugin */
	struct child *child;         /* owned; NULL: somebody else runs it */
	const char **argv;           /* owned; its texts are the manifest's */
	struct job_pool *jobs;       /* owned */
	struct guests guests;

	/* look.c */
	struct rpc_request *list;    /* weak; in flight */
	uint64_t list_began;         /* of guests' clock */
	bool is_look_due;            /* it was asked for while one was under way */
	sd_event_source *look_timer; /* owned */
	struct rpc_backoff backoff;
	bool is_known;        /* the last list was answered */
	bool is_settled;      /* it was answered, or given up, once */
	uint64_t settle_usec; /* monotonic; until then silence is starting up */
	TAILQ_HEAD(, parked) parked;
	size_t n_parked;

	LIST_HEAD(, watch) watches;
	size_t n_watches;
	size_t n_ops, n_calls; /* in flight: operations; calls to the plugin */
	bool is_started, is_draining, is_stopping, is_child_gone;
};

enum { PLUGIN_FEATURES_MAX = 8 };

extern const struct conf_key plugin_keys[];
extern const size_t n_plugin_keys;

/* For service_options. */
int plugin_check(const struct service *service, void *userdata, struct err *err);
int plugin_start(struct service *service, void *userdata, struct err *err);
void plugin_drain(struct service *service, void *userdata);
bool plugin_stop(struct service *service, void *userdata);
/* Something that was in flight has ended. */
void plugin_check_stopped(struct plugin *plugin);

#define PLUGIN_INVOKE RPC_METHOD(Bc__V1__Plugin_Service, bc__v1__plugin__descriptor, invoke)

/* edge.c */
void plugin_service_init(struct plugin *plugin);

/* look.c */
int look_start(struct plugin *plugin);
void look_now(struct plugin *plugin);                   /* once the look under way has ended */
void look_lost(struct plugin *plugin, const char *why); /* nothing is known any more */
void look_stop(struct plugin *plugin);
/* fn at once, or when the plugin has answered for the first time, or failed to. */
void look_when_settled(struct plugin *plugin, struct rpc_call *call,
        void (*fn)(struct plugin *plugin, struct rpc_call *call, const void *request), const void *request);

/* watch.c */
void watch_add(struct plugin *plugin, struct rpc_call *call, const void *request);
void watches_pump(void *plugin);
void watches_drop(struct plugin *plugin, const char *why);
/* Forgets what is gone once everybody was told; no caller holds a guest. */
void watches_bury(struct plugin *plugin);

/* op.c: each answers the call. */
void op_ensure(struct plugin *plugin, struct rpc_call *call, const Bc__V1__EnsureRequest *request);
void op_apply(struct plugin *plugin, struct rpc_call *call, const Bc__V1__SetStateRequest *request);
void op_remove(struct plugin *plugin, struct rpc_call *call, const Bc__V1__RuntimeRemoveRequest *request);
/* Ends a domain for what it was found to do; nobody waits. */
void op_halt(struct plugin *plugin, struct guest *guest);
/* Its record goes, off the loop. */
void op_forget(struct plugin *plugin, const char *id);
/* What waits for the plugin fails: this service ends. */
void ops_give_up(struct plugin *plugin);
