/* A NIC's elements in a file of its name, for the one case in which the kernel cannot tell: somebody
 * flushed the tables while netd was down. Lives as long as the kernel's own state does, in /run, and is
 * never fsynced for it. */
#pragma once

#include "svc-netd/element.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { RECORD_MAX = 4 << 20 }; /* bytes */

/* Atomic: the old or the new record is there, never half of one. */
int record_write(int dir_fd, const char *ifname, const struct elements *elements);
/* -ENOENT; -EINVAL when it is no record, or has elements of another NIC. */
int record_read(int dir_fd, const char *ifname, struct elements *ret);
void record_remove(int dir_fd, const char *ifname); /* absent is fine */
/* Removes the records of interfaces that is_there does not know, and halves: what a death in between leaves. Files with
 * other names are not ours. */
void record_sweep(int dir_fd, bool (*is_there)(const char *ifname, void *userdata), void *userdata);

/* Text of at most RECORD_MAX bytes, NUL-terminated. */
int record_parse(const char *text, const char *ifname, struct elements *ret);
