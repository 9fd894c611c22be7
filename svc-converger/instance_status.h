/* What is said of an instance: one state, one reason, words. A pure reading of what the reconciler keeps. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/runtime_link.h"

#include "bc/v1/status.pb-c.h"

struct status_brief {
	Bc__V1__InstanceStatus__State state;
	const char *reason; /* CamelCase; "" when all is well; weak */
	const char *words;  /* weak; "" */
};
void instance_brief(
        const struct converger *converger, const struct instance *instance, struct status_brief *ret);

/* A status message and what it rests on. */
struct instance_report {
	Bc__V1__InstanceStatus status;
	/* private */
	Google__Protobuf__Timestamp since, next_attempt;
	Bc__V1__Progress progress;
	Bc__V1__Domain *domain;                /* owned */
	Bc__V1__PublishedPort *ports;          /* owned */
	Bc__V1__PublishedPort **port_pointers; /* owned */
	char message[512];
};
/* Valid until instance_report_done() or a change of the instance. */
void instance_report_init(
        const struct converger *converger, const struct instance *instance, struct instance_report *ret);
void instance_report_done(struct instance_report *report);

/* A domain that no instance stands for: UNMANAGED, or managed but not in any spec. */
struct foreign {
	char key[RUNTIME_ID_MAX + DOMAIN_ID_MAX]; /* runtime/id */
	struct status_item status;
	struct runtime_link *runtime; /* weak */
	const struct domain *domain;  /* weak: of the runtime's copy */
};
void foreign_report_init(const struct foreign *foreign, struct instance_report *ret);
