/* Port mappings: which NIC one means, and which two cannot both hold. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The NIC that mapping resolves to: the pinned one, else the first user-mode NIC, else the first bridge NIC.
 * -EINVAL, with words, when there is none, the pin is to a macvtap NIC or to one that is not there, or the host's
 * address is a loopback one and the NIC on a bridge. */
int port_map_resolve(const Bc__V1__InstanceSpec *spec, const Bc__V1__PortMapping *mapping,
        uint32_t *ret_nic_index, struct err *err);

/* TCP where the mapping leaves it unsaid. */
Bc__V1__PortMapping__Protocol port_map_protocol(const Bc__V1__PortMapping *mapping);

/* True when both want one port of the host: same protocol and port, and the same address or either of them every
 * address (""). Addresses are compared as addresses, not as text. */
bool port_map_overlaps(const Bc__V1__PortMapping *a, const Bc__V1__PortMapping *b);

/* True when both publish the same port of the guest at the same one of the host. */
bool port_map_equal(const Bc__V1__PortMapping *a, const Bc__V1__PortMapping *b);

/* "tcp 192.0.2.7:8080", "tcp [2001:db8::1]:80", "udp *:53". Returns buf. */
char *port_map_text(const Bc__V1__PortMapping *mapping, char *buf, size_t size);
#define PORT_MAP_TEXT_MAX 80
