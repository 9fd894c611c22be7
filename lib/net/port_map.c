#include "lib/net/port_map.h"

#include "lib/base/ip.h"
#include "lib/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The first NIC attached in this way; -1: none. */
static int first_nic(const Bc__V1__InstanceSpec *spec, Bc__V1__Nic__AttachmentCase attachment)
{
	for (size_t i = 0; i < spec->n_nics; i++)
		if (spec->nics[i]->attachment_case == attachment)
			return (int)i;
	return -1;
}

static int resolve_pin(const Bc__V1__InstanceSpec *spec, uint32_t index, uint32_t *ret, struct err *err)
{
	if (index >= spec->n_nics)
		return err_set(err, -EINVAL, "NIC %u is not there: the instance has %zu, numbered from 0",
		        index, spec->n_nics);
	switch (spec->nics[index]->attachment_case) {
	case BC__V1__NIC__ATTACHMENT_USER:
	case BC__V1__NIC__ATTACHMENT_BRIDGE:
		*ret = index;
		return 0;
	case BC__V1__NIC__ATTACHMENT_MACVTAP:
		return err_set(err, -EINVAL,
		        "NIC %u is a macvtap, where the host has no hand on packets; pin the mapping to a "
		        "user-mode or bridge NIC",
		        index);
	case BC__V1__NIC__ATTACHMENT__NOT_SET:
	default:
		return err_set(err, -EINVAL, "NIC %u has no attachment", index);
	}
}

static int resolve_first(const Bc__V1__InstanceSpec *spec, uint32_t *ret, struct err *err)
{
	int i = first_nic(spec, BC__V1__NIC__ATTACHMENT_USER);

	if (i < 0)
		i = first_nic(spec, BC__V1__NIC__ATTACHMENT_BRIDGE);
	if (i < 0)
		return err_set(err, -EINVAL,
		        "no NIC of the instance can publish a port: add a user-mode or a bridge NIC");
	*ret = (uint32_t)i;
	return 0;
}

static bool is_loopback(const char *host_address)
{
	struct ip ip;

	return ip_parse("", host_address, &ip, NULL) == 0 && ip_is_loopback(&ip);
}

int port_map_resolve(const Bc__V1__InstanceSpec *spec, const Bc__V1__PortMapping *mapping,
        uint32_t *ret_nic_index, struct err *err)
{
	uint32_t nic = 0;
	int r = mapping->nic_case == BC__V1__PORT_MAPPING__NIC_NIC_INDEX
	        ? resolve_pin(spec, mapping->nic_index, &nic, err)
	        : resolve_first(spec, &nic, err);

	if (r < 0)
		return r;
	/* The kernel keeps loopback addresses off every wire, and a bridge is one. */
	if (spec->nics[nic]->attachment_case == BC__V1__NIC__ATTACHMENT_BRIDGE &&
	        is_loopback(mapping->host_address))
		return err_set(err, -EINVAL,
		        "no bridge NIC can be reached by %s, and NIC %u is one: leave hostAddress out, write another "
		        "address of the host, or use a user-mode NIC",
		        mapping->host_address, nic);
	*ret_nic_index = nic;
	return 0;
}

Bc__V1__PortMapping__Protocol port_map_protocol(const Bc__V1__PortMapping *mapping)
{
	return mapping->protocol == BC__V1__PORT_MAPPING__PROTOCOL__UDP ? BC__V1__PORT_MAPPING__PROTOCOL__UDP
	                                                                : BC__V1__PORT_MAPPING__PROTOCOL__TCP;
}

static bool addresses_overlap(const char *a, const char *b)
{
	struct ip x, y;

	if (!a[0] || !b[0] || strcmp(a, b) == 0)
		return true;
	return ip_parse("", a, &x, NULL) == 0 && ip_parse("", b, &y, NULL) == 0 && ip_equal(&x, &y);
}

bool port_map_overlaps(const Bc__V1__PortMapping *a, const Bc__V1__PortMapping *b)
{
	return a->host_port == b->host_port && port_map_protocol(a) == port_map_protocol(b) &&
	        addresses_overlap(a->host_address, b->host_address);
}

bool port_map_equal(const Bc__V1__PortMapping *a, const Bc__V1__PortMapping *b)
{
	return a->guest_port == b->guest_port && !a->host_address[0] == !b->host_address[0] &&
	        port_map_overlaps(a, b);
}

char *port_map_text(const Bc__V1__PortMapping *mapping, char *buf, size_t size)
{
	const char *protocol =
	        port_map_protocol(mapping) == BC__V1__PORT_MAPPING__PROTOCOL__UDP ? "udp" : "tcp";
	const char *address = mapping->host_address[0] ? QUOTED(mapping->host_address) : "*";
	bool bracket = strchr(address, ':') != NULL;

	(void)snprintf(buf, size, "%s %s%s%s:%u", protocol, bracket ? "[" : "", address, bracket ? "]" : "",
	        mapping->host_port);
	return buf;
}
