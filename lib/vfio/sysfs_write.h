/* A write to sysfs that may hang for as long as somebody uses a device: a driver's unbind waits for its last user,
 * in the kernel, where nothing can end it. */
#pragma once

#include "lib/base/err.h"

#include <stdint.h>

/* Writes text to path on a thread of its own. -ETIMEDOUT abandons the write: it may still happen, whenever the kernel
 * lets it. Then its thread stays until the kernel is done; no other write is kept waiting. */
int sysfs_write(const char *path, const char *text, uint64_t timeout_usec, struct err *err);
