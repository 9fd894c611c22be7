/* Watches what others do to what is ours: interfaces over rtnetlink, and the tables where the kernel does
 * not keep them for us. What can be mended is mended at once, and everything is told to whoever watches. On
 * the loop thread. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>

struct guard;
struct netd;

/* Events of what happens from now on. netd is weak, and has its nics, jobs and watch. */
int guard_new(struct netd *netd, struct guard **ret, struct err *err);
/* Listens no more. False while jobs of it run: the last one calls netd_released() then. */
bool guard_stop(struct guard *guard);
struct guard *guard_free(struct guard *guard); /* after guard_stop() was true, or never started */
