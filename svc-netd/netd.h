/* The service as a whole. Everything belongs to the loop thread but struct nics, which any thread may use. */
#pragma once

#include "svc-netd/guard.h"
#include "svc-netd/nics.h"
#include "svc-netd/request.h"
#include "svc-netd/watch.h"

#include "lib/conf/conf.h"
#include "lib/loop/job.h"
#include "lib/service/service.h"

struct netd_conf {
	struct conf_list allowed_bridges;
	uint64_t max_queues;
	bool default_vhost;
	int keep_rules; /* enum rules_keep */
	char *record_dir;
};

struct netd {
	Bc__V1__Netd_Service service; /* first: handlers get it */
	struct netd_conf conf;
	struct service *host;  /* weak */
	struct nics *nics;     /* owned */
	struct job_pool *jobs; /* owned: operations, in order per instance */
	struct watch *watch;   /* owned */
	struct guard *guard;   /* owned */
	struct job *reap;      /* owned: while a deletion runs */
	bool reap_again, stopping;
	bool knows_listeners; /* the kernel was built to say who listens at the host's ports */
	int record_error;     /* 0 or -errno: what was last logged of records */
	/* A test's hand in every step of every operation (nics_options); NULL in the service itself. */
	int (*before_step)(const char *step, const char *ifname, void *userdata);
	void *step_userdata;
};

/* Runs the service to its end; its exit status. */
int netd_main(struct netd *netd, int argc, char **argv);

struct request_policy netd_policy(const struct netd *netd);
/* The key of jobs that touch an interface of that name: one for all of an instance's, however they are asked for. */
void netd_lane(const char *ifname, char ret[static JOB_KEY_MAX]);
/* A job that was in the way of the end is done. */
void netd_released(struct netd *netd);
/* Lets the kernel delete what waits for it, off everybody's path. */
void netd_reap(struct netd *netd);

/* The handlers of bc.v1.Netd (edge.c). */
void netd_edge_init(struct netd *netd);
