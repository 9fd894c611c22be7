/* The device node of a macvtap, through which the VMM gets at it. */
#pragma once

#include "lib/base/err.h"

#include <stddef.h>
#include <sys/types.h>

enum { MACVTAP_DEVICE_MAX = 64 };

/* "/dev/tap<ifindex>" */
void macvtap_device(const char *dev_dir, int ifindex, char ret[static MACVTAP_DEVICE_MAX]);

/* Gives the node to the VMM. Its name is only a number, which another network namespace can have too:
 * -EBUSY when it is not the device that sysfs says this very interface has. */
int macvtap_node_give(const char *sys_dir, const char *dev_dir, const char *ifname, int ifindex, uid_t uid,
        gid_t gid, struct err *err);
