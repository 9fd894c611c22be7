/* The client of netd, and which instances have interfaces on the host: kept current by its Watch stream and List.
 * Only interfaces whose owner record netd believes count. */
#pragma once

#include "svc-converger/link.h"

#include "bc/v1/netd.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netd_link;

struct netd_link_handlers {
	/* is_known, or how it answers, has changed. */
	void (*on_state)(struct netd_link *link, void *userdata);
	/* What an instance holds may have changed. */
	void (*on_instance)(struct netd_link *link, const char *instance_id, void *userdata);
	/* Anything people should read: lost interfaces, flushed rules. instance_id may be "". */
	void (*on_event)(struct netd_link *link, const Bc__V1__NetdEvent *event, void *userdata);
};

struct netd_link_options {
	struct link_options link;
	const struct netd_link_handlers *handlers; /* weak */
	void *userdata;                            /* weak */
};

int netd_link_new(struct loop *loop, const struct netd_link_options *options, struct netd_link **ret);
struct netd_link *netd_link_free(struct netd_link *link);
void netd_link_poke(struct netd_link *link);
void netd_link_resync(struct netd_link *link);

bool netd_link_is_known(const struct netd_link *link); /* it answers, and its List was complete */
enum link_state netd_link_state(const struct netd_link *link);
const char *netd_link_message(const struct netd_link *link);
struct rpc_channel *netd_link_channel(const struct netd_link *link);         /* weak */
const Bc__V1__NetdHelloReply *netd_link_hello(const struct netd_link *link); /* weak; NULL until it spoke */

/* How many interfaces it holds for an instance, as last known. */
unsigned netd_link_held(const struct netd_link *link, const char *instance_id);
bool netd_link_holds(const struct netd_link *link, const char *instance_id, unsigned index);
/* A port of the host that it really publishes for an instance. */
struct held_port {
	uint32_t nic_index;
	Bc__V1__PortMapping *mapping; /* owned by the link */
};
/* All of them; weak, until control returns to the loop. Returns how many. */
size_t netd_link_ports(const struct netd_link *link, const char *instance_id, const struct held_port **ret);

/* What a call of ours has just made or removed. */
void netd_link_learn(
        struct netd_link *link, const char *instance_id, unsigned index, const Bc__V1__PreparedNic *nic);
void netd_link_learn_removed(struct netd_link *link, const char *instance_id);
void netd_link_learn_released(struct netd_link *link, const char *instance_id, unsigned index);
