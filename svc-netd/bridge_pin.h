/* The bridge's own address, which must not change with the NICs on it: the host would be cut off for seconds. */
#pragma once

#include "svc-netd/nics_private.h"

/* Before a NIC is put on the bridge. */
int bridge_pin(struct nics *nics, struct netlink *nl, const struct link *bridge, struct err *err);
