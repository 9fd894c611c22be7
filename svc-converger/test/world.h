/* A converger in a private directory with a stub runtime and a stub netd beside it, all on one loop; and words to
 * write specs and expectations in. What is waited for and does not happen fails the test. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/secrets.h"
#include "svc-converger/test/stub_intelligence.h"
#include "svc-converger/test/stub_netd.h"
#include "svc-converger/test/stub_runtime.h"

#include "bc/v1/status.pb-c.h"

enum { WORLD_INSTANCES_MAX = 16, WORLD_RUNTIMES_MAX = 4, WORLD_MEMORY_MIB = 1 << 16 };

struct world {
	struct loop *loop;
	char dir[64];
	char run_dir[96], data_dir[96], proc_dir[96], boot_id_path[128];
	struct converger *converger; /* NULL while it is away */
	struct rpc_server *server;   /* NULL unless world_serve() */
	struct edge *edge;
	struct secret_asker *asker;                        /* NULL unless world_ask() */
	struct rpc_channel *channel;                       /* to it */
	struct stub_runtime *runtime;                      /* "stub"; weak: the first of these */
	struct stub_runtime *runtimes[WORLD_RUNTIMES_MAX]; /* owned */
	size_t n_runtimes;
	struct stub_netd *netd;
	struct stub_intelligence *intelligence; /* NULL unless world_intelligence() */
	uint64_t hold_mib;                      /* kept back by the specs sent from now on */
	bool memory_was_set;                    /* by world_has_memory() */
	unsigned n_parallel;                    /* 0: as it is by default */
	uint64_t resync_usec;                   /* 0: 200 ms */
	uint64_t call_timeout_usec;             /* 0: none is given up, however slow the machine is */
	const struct transfer_config *transfer; /* weak; NULL: as it is by default */
	uint64_t revision;                      /* of the last spec sent */
	/* the answer to the last apply */
	bool is_answered;
	int answer;
	char message[4096];
	size_t n_planned;
};

int world_setup(void **state);
int world_teardown(void **state);
/* The converger alone dies and comes back. It is stopped in order: nothing of what it has in memory is kept. */
void world_restart(struct world *world);
void world_start(struct world *world);
void world_stop(struct world *world);

/* bc.v1.Converger on a socket, and a channel to it. Undone by world_stop(). */
void world_serve(struct world *world);

/* Another runtime, on runtime-NAME.sock; and an intelligence service. They are the world's: a test that fails leaves no
 * server behind, whose calls the end of the loop would wait for. */
struct stub_runtime *world_runtime(struct world *world, const char *name, const char *id);
struct stub_intelligence *world_intelligence(struct world *world);
/* Who asks for secrets, one at a time. Undone by world_stop(). */
void world_ask(struct world *world, bool (*ask)(const struct secret_request *request, void *userdata),
        void *userdata);

/* An instance as tests need it. */
struct wish {
	const char *id;
	const char *allocation;                   /* NULL: "a1" */
	const char *runtime;                      /* NULL: "stub" */
	Bc__V1__InstanceSpec__DesiredState state; /* 0: RUNNING */
	unsigned n_bridge_nics;
	Bc__V1__Nic__Policy policy;
	Bc__V1__Nic__Vhost vhost; /* of the bridge NICs */
	bool is_job;
	const char *volume; /* NULL: none */
	bool volume_read_only;
	uint64_t memory_mib; /* 0: 64 */
	const char *user_data_ref;
	const char *kernel;                   /* NULL: "/boot/k" */
	uint64_t balloon_min_mib;             /* 0: no balloon */
	const char *image_digest, *image_url; /* NULL: boots the kernel */
	/* NULL: not restored; with memory otherwise, and another identity when there is a ref for it */
	const char *restore_digest, *restore_url, *rebind_ref;
	bool has_user_nic;  /* one behind the others */
	uint32_t host_port; /* published, of the guest's 22; 0: none */
};
/* Applies a spec of these wishes, ended by one without an id, and waits for the answer. */
int world_apply(struct world *world, const struct wish *wishes);
/* Without an instances section. */
int world_apply_no_opinion(struct world *world);
/* The host has so much memory from now on, of which 1 GiB is never given to instances; 0: it cannot be read. The first
 * time the converger is restarted. Until then it has WORLD_MEMORY_MIB: what others leave of this one's is no matter. */
void world_has_memory(struct world *world, unsigned mib);
bool world_domain_is(struct world *world, const char *id, Bc__V1__Domain__State state);
/* Of the domain as it is. What a runtime tells by itself may come behind the next apply. */
bool world_has_heard(struct world *world, const char *id);
bool world_said(struct world *world, const char *reason); /* an event */
/* A volume every later spec names; id "" for none. */
void world_volume(struct world *world, const char *id, uint64_t mib);

#define WORLD_WAIT(world, condition)                                                                         \
	do {                                                                                                 \
		struct world_wait wait_ = { 0 };                                                             \
		while (!(condition))                                                                         \
			world_tick((world), &wait_, #condition, __FILE__, __LINE__);                         \
	} while (0)
/* Words of every test: the spec is accepted; the instance comes to that status; names without their prefix. */
#define APPLY(world, ...) assert_int_equal(world_apply((world), (struct wish[]){ __VA_ARGS__, { 0 } }), 0)
#define WAIT_STATUS(world, id, status) WORLD_WAIT((world), world_is((world), (id), (status)))
#define STATE(name) BC__V1__INSTANCE_SPEC__DESIRED_STATE__##name
#define DOMAIN(name) BC__V1__DOMAIN__STATE__##name
struct world_wait {
	uint64_t until_usec;
};
void world_tick(struct world *world, struct world_wait *wait, const char *what, const char *file, int line);
/* Lets everything that can happen happen: until nothing is in flight and nothing is queued for a while. */
void world_settle(struct world *world);

/* "RUNNING" or "PENDING/FetchingImage"; "none" for an id nobody knows. Valid until the next call. */
const char *world_status(struct world *world, const char *id);
const char *world_words(struct world *world, const char *id);
bool world_is(struct world *world, const char *id, const char *status);
