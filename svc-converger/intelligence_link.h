/* The client of intelligence: every VM is registered with it as it starts, and again when it comes back. Its absence
 * is harmless; nothing waits for it. */
#pragma once

#include "svc-converger/link.h"

#include <stddef.h>
#include <stdint.h>

struct intelligence_link;

enum { INTELLIGENCE_PIDS_MAX = 16 };

struct intelligence_link_options {
	struct link_options link;
	/* It answers (again), and knows nobody: register every VM. */
	void (*on_ready)(void *userdata);
	/* How it answers has changed. */
	void (*on_state)(void *userdata);
	void *userdata; /* weak */
};

int intelligence_link_new(
        struct loop *loop, const struct intelligence_link_options *options, struct intelligence_link **ret);
struct intelligence_link *intelligence_link_free(struct intelligence_link *link);
void intelligence_link_poke(struct intelligence_link *link);
enum link_state intelligence_link_state(const struct intelligence_link *link);
const char *intelligence_link_message(const struct intelligence_link *link);
const char *intelligence_link_version(const struct intelligence_link *link); /* "" until it spoke */

/* Nothing while it does not answer. */
void intelligence_link_register(struct intelligence_link *link, const char *instance_id, const int64_t *pids,
        size_t n_pids, const char *cgroup);
void intelligence_link_unregister(struct intelligence_link *link, const char *instance_id);
