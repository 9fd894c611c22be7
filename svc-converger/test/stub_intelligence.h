/* An intelligence in the test's own process: it remembers who was registered. */
#pragma once

#include "lib/loop/loop.h"
#include "lib/rpc/server.h"

#include "bc/v1/intelligence.pb-c.h"

enum { STUB_VMS_MAX = 16 };

struct stub_vm {
	char instance_id[40];
	int64_t pid; /* the first */
};

struct stub_intelligence {
	Bc__V1__Intelligence_Service service;
	struct loop *loop;         /* weak */
	struct rpc_server *server; /* owned; NULL while it is away */
	char path[108];
	struct stub_vm vms[STUB_VMS_MAX];
	size_t n_vms;
	unsigned n_registered, n_unregistered; /* calls */
};

struct stub_intelligence *stub_intelligence_new(struct loop *loop, const char *path);
struct stub_intelligence *stub_intelligence_free(struct stub_intelligence *stub);
/* It dies and forgets everybody. */
void stub_intelligence_kill(struct stub_intelligence *stub);
void stub_intelligence_revive(struct stub_intelligence *stub);
/* What was registered of an instance; NULL: nothing. */
const struct stub_vm *stub_intelligence_vm(const struct stub_intelligence *stub, const char *instance_id);
