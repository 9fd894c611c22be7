/* A netd in the test's own process: it builds nothing but remembers who was given what. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/rpc/server.h"

#include "bc/v1/netd.pb-c.h"

#include <stdbool.h>

enum { STUB_NICS_MAX = 256 };

struct stub_nic {
	char instance_id[40];
	unsigned index;
	Bc__V1__Nic__Policy policy;
	size_t n_ports;
	uint32_t host_port, guest_port; /* the first of them */
};

struct stub_netd {
	Bc__V1__Netd_Service service;
	struct loop *loop;         /* weak */
	struct rpc_server *server; /* owned; NULL while it is away */
	char path[108];
	struct stub_nic nics[STUB_NICS_MAX];
	size_t n_nics;
	unsigned fail_prepare, fail_remove; /* the next so many fail */
	unsigned fail_policy;               /* the next so many of a NIC 1 fail */
	bool lies_about_queues, lies_about_filter, lies_about_vhost, lies_about_ports;
	bool drops_ports;             /* SetPolicy leaves a NIC without an address to lead its ports to */
	struct rpc_call *watchers[4]; /* weak */
	size_t n_watchers;
	unsigned n_prepared, n_removed, n_policies;
};

struct stub_netd *stub_netd_new(struct loop *loop, const char *path);
struct stub_netd *stub_netd_free(struct stub_netd *stub);
void stub_netd_kill(struct stub_netd *stub);
void stub_netd_revive(struct stub_netd *stub);
/* Somebody deletes this interface: the watchers are told. */
void stub_netd_lose(struct stub_netd *stub, const char *instance_id, unsigned index);
unsigned stub_netd_held(const struct stub_netd *stub, const char *instance_id);
