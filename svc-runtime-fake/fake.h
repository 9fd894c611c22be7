/* The fake runtime as a whole. Everything belongs to the loop thread. */
#pragma once

#include "svc-runtime-fake/control.h"
#include "svc-runtime-fake/domains.h"
#include "svc-runtime-fake/rules.h"

#include "lib/conf/conf.h"
#include "lib/loop/job.h"
#include "lib/service/service.h"

struct consoles;
struct watchers;

struct fake_conf {
	char *id;
	char *cpu_model;
	char *boot_id_path;
	char *control_path; /* "": control.yaml beside the state file */
	uint64_t vcpus_max;
	uint64_t memory_bytes_max;
	bool self_admitting;
	bool one_writer;
	uint64_t start_usec, stop_usec;
};

struct fake {
	Bc__V1__Runtime_Service service; /* first: handlers get it */
	struct fake_conf conf;
	struct loop *loop;         /* weak */
	struct domains *domains;   /* owned */
	struct control *control;   /* owned */
	struct job_pool *jobs;     /* owned */
	struct consoles *consoles; /* owned */
	struct watchers *watchers; /* owned */
	size_t n_held;             /* calls that a fault or a delay holds */
};

extern const struct conf_key fake_keys[];
extern const size_t n_fake_keys;

/* For service_options. */
int fake_start(struct service *service, void *userdata, struct err *err);
void fake_drain(struct service *service, void *userdata);
bool fake_stop(struct service *service, void *userdata);

/* The rules as of now. */
struct rules fake_rules(const struct fake *fake);
/* As domains_put() and domains_remove(), and what hangs on a domain is told. */
int fake_put(struct fake *fake, record *r_consume, struct err *err);
int fake_remove(struct fake *fake, const char *id, struct err *err);
/* What a reader is told of a domain in a place such as "List.domain": a copy, owned by the caller, perhaps
 * with a lie in it; NULL in *ret when the reader is to see nothing of it. */
int fake_tell(struct fake *fake, const char *where, const record *r, Bc__V1__Domain **ret);

/* The handlers of bc.v1.Runtime. */
void fake_service_init(struct fake *fake);
