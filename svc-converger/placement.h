/* Whether this host can apply an instance's placement, asked before anything is created: CPUs online, nodes
 * present, a pool of that page size, memory a multiple of it, as many pins as vCPUs. Whether enough pages are free
 * just now is admission's question. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include "lib/base/err.h"
#include "svc-converger/host_facts.h"

/* 0 also without a placement. -EBUSY says what the host lacks, -EINVAL what the spec has wrong; either fails the
 * instance until its spec or the host changes. Pins are not checked where the online CPUs could not be read. */
int placement_check(const struct host_facts *host, const Bc__V1__InstanceSpec *spec, struct err *err);
