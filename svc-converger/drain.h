/* Draining: nothing new is started and, if asked, every instance is stopped. It survives a restart. */
#pragma once

#include "svc-converger/converger.h"

typedef void (*drain_fn)(int r, const struct err *err, uint32_t n_running, void *userdata);

/* fn runs exactly once, when it is on disk; n_running are the instances that are up then. */
void drain_set(struct converger *converger, bool drain, bool stop_instances, drain_fn fn, void *userdata);
