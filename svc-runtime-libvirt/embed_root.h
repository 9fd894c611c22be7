/* The directory of libvirt's in-process driver, qemu:///embed?root=DIR: where QEMU's sockets, pids, logs and libvirt's
 * definitions are. One process at a time; one root per process. */
#pragma once

#include "lib/base/err.h"

/* "/lib/qemu/domain-<6 digits>-<20 bytes of the name>/monitor.sock" has to fit a socket address behind it */
enum { EMBED_ROOT_MAX = 107 - 57 };

/* The root that uri names, owned by the caller; NULL when uri is of another kind. -EINVAL for one without a root, or
 * one that is relative, not plain, or longer than EMBED_ROOT_MAX bytes. */
int embed_root_parse(const char *uri, char **ret, struct err *err);

/* Makes root, locks it against other runtimes for as long as *ret_lock_fd is open, and writes etc/qemu.conf unless
 * there is one. -EBUSY names the root and, where known, who has it. */
int embed_root_prepare(const char *root, int *ret_lock_fd, struct err *err);
