/* TAP interfaces through /dev/net/tun. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define TUN_PATH "/dev/net/tun"

/* Makes a new TAP with virtio headers and returns its descriptor, with which it also goes until
 * tap_persist(). -EEXIST when there is an interface of that name; -EINVAL when the kernel gave it another
 * name. tun_path is TUN_PATH, or a test's. */
int tap_create(const char *tun_path, const char *name, bool multi_queue, int *ret_fd, struct err *err);
/* Who may attach to it. */
int tap_set_owner(int fd, uid_t uid, gid_t gid);
int tap_persist(int fd);
/* Of any interface, by a socket of any family; -ENODEV. */
int tap_ifindex(int socket_fd, const char *name, int *ret);
