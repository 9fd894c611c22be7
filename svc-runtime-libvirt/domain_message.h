/* A domain as bc.v1.Domain. */
#pragma once

#include "bc/v1/runtime.pb-c.h"
#include "svc-runtime-libvirt/domains.h"

/* What is said points into the entry, so it is for use at once; free with domain_message_free(). NULL for want of
 * memory. accel is the host's. */
Bc__V1__Domain *domain_message_new(const struct domain_entry *entry);
void domain_message_free(Bc__V1__Domain *message);
