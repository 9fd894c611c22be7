/* A runtime in the test's own process: real socket, real messages, domains in an array. It does what it is told,
 * counts what it is asked, and can be made to fail, hang, lie and vanish. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/rpc/server.h"

#include "bc/v1/runtime.pb-c.h"

#include <stdbool.h>

enum { STUB_DOMAINS_MAX = 64, STUB_VOLUMES_MAX = 4, STUB_NICS_OF_ONE_MAX = 4 };

enum stub_method {
	STUB_DESCRIBE,
	STUB_ENSURE,
	STUB_SET_STATE,
	STUB_REMOVE,
	STUB_GET,
	STUB_LIST,
	STUB_WATCH,
	STUB_SNAPSHOT,
	STUB_GROW_VOLUME,
	STUB_REBIND,
	STUB_METHOD_MAX
};

struct stub_domain {
	char id[40];
	char allocation_id[64];
	bool is_managed, is_completed, was_started;
	Bc__V1__Domain__State state;
	uint64_t memory_bytes;
	uint64_t since_usec; /* realtime; in this state */
	char reason[32];
	char volumes[STUB_VOLUMES_MAX][65];
	bool read_only[STUB_VOLUMES_MAX];
	uint64_t volume_bytes[STUB_VOLUMES_MAX]; /* as the guest knows them */
	size_t n_volumes;
	unsigned n_nics; /* those on interfaces */
	char user_data[64];
	char restored_from[80], rebound_ref[64], rebind_payload[64];
	int64_t vmm_pid;                /* made up; 0 while it is down */
	uint32_t host_port, guest_port; /* forwarded by the VMM; 0: none */
};

struct stub_runtime {
	Bc__V1__Runtime_Service service;
	struct loop *loop;         /* weak */
	struct rpc_server *server; /* owned; NULL while it is away */
	char path[108];
	char id[33];
	const char *features[8];
	size_t n_features;

	struct stub_domain domains[STUB_DOMAINS_MAX];
	size_t n_domains;
	struct rpc_call *watchers[8]; /* held */
	size_t n_watchers;

	/* what goes wrong */
	unsigned fail[STUB_METHOD_MAX]; /* the next so many calls fail, with code */
	grpc_status_code code;
	bool fails_after;    /* a failing SetState has its effect all the same, and is not told to watchers */
	bool starts_nothing; /* a start is answered well, and the domain stays down */
	bool hangs[STUB_METHOD_MAX];   /* calls are held until stub_runtime_release() */
	bool *raises[STUB_METHOD_MAX]; /* weak; set to true when such a call has come, before its answer */
	struct rpc_call *held[64];
	enum stub_method held_methods[64];
	char held_ids[64][40]; /* "" where a call is about no instance */
	size_t n_held;
	int64_t last_pid;
	bool syncs_never; /* Watch says what there is, and not that this was all, until stub_runtime_sync() */
	bool is_mute;     /* changes are not told to watchers */

	/* what was asked */
	unsigned n_calls[STUB_METHOD_MAX];
	unsigned n_in_flight_max; /* mutating calls for one instance that were not cancelled */
	char log[4096];           /* "ensure ID;start ID;…" with the last four digits of the id */
};

struct stub_runtime *stub_runtime_new(struct loop *loop, const char *path, const char *id);
struct stub_runtime *stub_runtime_free(struct stub_runtime *stub);
/* It dies and comes back; domains outlive it. */
void stub_runtime_kill(struct stub_runtime *stub);
void stub_runtime_revive(struct stub_runtime *stub);
/* Held calls are answered: a List with what there is, others with UNAVAILABLE. */
void stub_runtime_sync(struct stub_runtime *stub);
void stub_runtime_release(struct stub_runtime *stub);

struct stub_domain *stub_runtime_domain(struct stub_runtime *stub, const char *id); /* NULL: none */
struct stub_domain *stub_runtime_add(struct stub_runtime *stub, const char *id, const char *allocation_id,
        bool is_managed, Bc__V1__Domain__State state);
/* It changes by itself, and the watchers are told. */
void stub_runtime_change(struct stub_runtime *stub, struct stub_domain *domain, Bc__V1__Domain__State state);
/* Tells the watchers that this is so. */
void stub_runtime_tell(struct stub_runtime *stub, const struct stub_domain *domain);
