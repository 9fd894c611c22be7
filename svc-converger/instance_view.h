/* What the machine must know of one instance, gathered at this moment. */
#pragma once

#include "svc-converger/converger.h"
#include "svc-converger/runtime_link.h"

struct instance_view {
	enum machine_desired desired;
	enum machine_observed observed;
	enum runtime_absence absence;
	uint32_t facts;
	struct runtime_link *runtime; /* weak; the one asked, NULL: there is none of this name */
	const struct domain *domain;  /* weak; of that runtime, managed or not; NULL: none or not known */
	struct err words;             /* for people: of the fact that decides */
};

/* States wishes to the stores on the way (an image, a volume): asking is wishing. */
void instance_view_take(struct converger *converger, struct instance *instance, struct instance_view *ret);

/* Of the instance that a call names. There is none, or its runtime cannot tell: code and words in ret_status. */
int instance_view_named(struct converger *converger, const char *id, struct instance **ret_instance,
        struct instance_view *ret, struct rpc_status *ret_status);

/* The wish alone: the spec's, or STOPPED where the node is drained with its instances. */
enum machine_desired instance_desired(const struct converger *converger, const struct instance *instance);
/* Its spec wants it up, and the node stops its instances. */
bool instance_is_drained(const struct converger *converger, const struct instance *instance);
/* This start's charge on the host's memory; nothing for a runtime that admits for itself. */
void instance_charge(
        const struct runtime_link *runtime, const Bc__V1__InstanceSpec *spec, struct memory_charge *ret);
/* The uses of an instance's volumes, into room for n_max; returns how many. Weak texts of spec. */
size_t instance_volume_uses(const Bc__V1__InstanceSpec *spec, struct volume_use *ret, size_t n_max);
/* True once a managed domain of this id and allocation stands, so that its seed was written. */
bool instance_has_domain(const struct instance_view *view);
