#include "svc-netd/nic_message.h"

#include "lib/base/tap_name.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts of messages are never NULL; an empty one is protobuf-c's own, which is not freed. */
static bool text_set(char **field, const char *text)
{
	if (!text[0])
		return true;
	*field = strdup(text);
	return *field != NULL;
}

static bool mapping_same(const Bc__V1__PortMapping *m, const struct publication *p)
{
	return p->any && !m->host_address[0] && m->host_port == p->host_port &&
	        m->guest_port == p->guest_port &&
	        (m->protocol == BC__V1__PORT_MAPPING__PROTOCOL__UDP) == (p->protocol == IPPROTO_UDP);
}

static Bc__V1__PortMapping *mapping_new(const struct publication *p)
{
	Bc__V1__PortMapping *m = malloc(sizeof(*m));
	char text[IP_TEXT_MAX] = "";

	if (!m)
		return NULL;
	bc__v1__port_mapping__init(m);
	if (!p->any)
		ip_format(&p->host, text);
	m->protocol = p->protocol == IPPROTO_UDP ? BC__V1__PORT_MAPPING__PROTOCOL__UDP
	                                         : BC__V1__PORT_MAPPING__PROTOCOL__TCP;
	m->host_port = p->host_port;
	m->guest_port = p->guest_port;
	if (text_set(&m->host_address, text))
		return m;
	free(m);
	return NULL;
}

/* A mapping of every address is one entry per family in the kernel, and one here. */
static bool mappings_add(const struct elements *elements, size_t *n, Bc__V1__PortMapping ***ret)
{
	Bc__V1__PortMapping **list = calloc(elements->n ? elements->n : 1, sizeof(*list));
	size_t n_list = 0;

	if (!list)
		return false;
	*ret = list;
	for (size_t i = 0; i < elements->n; i++) {
		struct publication p;
		size_t k = 0;

		if (elements->items[i].set < SET_PUBLISHED4 || elements->items[i].set > SET_PUBLISHED6_ANY)
			continue;
		element_to_publication(&elements->items[i], &p);
		while (k < n_list && !mapping_same(list[k], &p))
			k++;
		if (k < n_list)
			continue;
		list[n_list] = mapping_new(&p);
		if (!list[n_list])
			return false;
		*n = ++n_list;
	}
	return true;
}

Bc__V1__PreparedNic *nic_to_message(const struct nic *nic)
{
	Bc__V1__PreparedNic *m = malloc(sizeof(*m));
	char mac[MAC_TEXT_MAX];
	char device[32] = "";

	if (!m)
		return NULL;
	bc__v1__prepared_nic__init(m);
	mac_format(&nic->owner.mac, mac);
	if (nic->kind == NIC_MACVTAP)
		(void)snprintf(device, sizeof(device), "/dev/tap%d", nic->ifindex);
	m->queues = nic->owner.queues;
	m->vhost = nic->owner.vhost;
	m->filtered = elements_filtered(&nic->elements);
	m->mtu_bytes = nic->mtu_bytes;
	m->ifindex = (uint32_t)nic->ifindex;
	if (text_set(&m->interface, nic->ifname) && text_set(&m->mac, mac) && text_set(&m->device, device) &&
	        text_set(&m->master, nic->owner.master) &&
	        mappings_add(&nic->elements, &m->n_published, &m->published))
		return m;
	bc__v1__prepared_nic__free_unpacked(m, NULL);
	return NULL;
}

Bc__V1__RemoveReply *nic_removal_to_message(const struct nic_removal *removal)
{
	Bc__V1__RemoveReply *m = malloc(sizeof(*m));

	if (!m)
		return NULL;
	bc__v1__remove_reply__init(m);
	m->rules = removal->n_rules;
	m->ports = removal->n_ports;
	m->interfaces = calloc(removal->n_interfaces + 1, sizeof(*m->interfaces));
	for (; m->interfaces && m->n_interfaces < removal->n_interfaces; m->n_interfaces++) {
		m->interfaces[m->n_interfaces] = strdup(removal->interfaces[m->n_interfaces].ifname);
		if (!m->interfaces[m->n_interfaces])
			break;
	}
	if (m->interfaces && m->n_interfaces == removal->n_interfaces)
		return m;
	bc__v1__remove_reply__free_unpacked(m, NULL);
	return NULL;
}

static Bc__V1__Nic__Policy policy_to_message(const struct elements *elements)
{
	switch (elements_policy(elements)) {
	case NIC_POLICY_PUBLIC:
		return BC__V1__NIC__POLICY__PUBLIC;
	case NIC_POLICY_PRIVATE:
		return BC__V1__NIC__POLICY__PRIVATE;
	case NIC_POLICY_NONE:
		return BC__V1__NIC__POLICY__NONE;
	}
	return BC__V1__NIC__POLICY__POLICY_UNSPECIFIED;
}

static bool interface_fill(Bc__V1__NetdInterface *m, const struct nic_view *view)
{
	char mac[MAC_TEXT_MAX];

	m->kind = view->kind == NIC_TAP ? BC__V1__NETD_INTERFACE__KIND__TAP
	                                : BC__V1__NETD_INTERFACE__KIND__MACVTAP;
	m->rules = (uint32_t)view->elements.n;
	m->filtered = elements_filtered(&view->elements);
	m->policy = policy_to_message(&view->elements);
	m->up = view->up;
	m->in_use = view->in_use;
	if (!text_set(&m->name, view->ifname) || !text_set(&m->master, view->master) ||
	        !mappings_add(&view->elements, &m->n_ports, &m->ports))
		return false;
	(void)tap_name_parse(view->ifname, NULL, &m->index);
	if (view->disbelief)
		return text_set(&m->disbelief, view->disbelief);
	mac_format(&view->owner.mac, mac);
	m->queues = view->owner.queues;
	return text_set(&m->mac, mac) && text_set(&m->instance_id, view->owner.instance_id) &&
	        text_set(&m->node_id, view->owner.node_id);
}

static bool interface_add(Bc__V1__NetdListReply *reply, const struct nic_view *view)
{
	Bc__V1__NetdInterface *m = malloc(sizeof(*m));

	if (!m)
		return false;
	bc__v1__netd_interface__init(m);
	reply->interfaces[reply->n_interfaces++] = m;
	return interface_fill(m, view);
}

static bool orphan_add(Bc__V1__NetdListReply *reply, const struct nic_view *view)
{
	Bc__V1__OrphanRule *m = malloc(sizeof(*m));

	if (!m)
		return false;
	bc__v1__orphan_rule__init(m);
	reply->orphan_rules[reply->n_orphan_rules++] = m;
	m->elements = (uint32_t)view->elements.n;
	return text_set(&m->interface, view->ifname) && text_set(&m->table, "bridge bc");
}

/* By name, which is derived from the id: an unbelieved interface under an instance's name is shown too. */
static bool view_concerns(const struct nic_view *view, const char *instance_id)
{
	unsigned index;

	return !instance_id[0] ||
	        (tap_name_parse(view->ifname, NULL, &index) &&
	                tap_name_matches(view->ifname, instance_id, index));
}

Bc__V1__NetdListReply *nic_views_to_message(const struct nic_view *views, size_t n, const char *instance_id)
{
	Bc__V1__NetdListReply *reply = malloc(sizeof(*reply));
	bool ok;

	if (!reply)
		return NULL;
	bc__v1__netd_list_reply__init(reply);
	reply->interfaces = calloc(n + 1, sizeof(*reply->interfaces));
	reply->orphan_rules = calloc(n + 1, sizeof(*reply->orphan_rules));
	ok = reply->interfaces && reply->orphan_rules;
	for (size_t i = 0; i < n && ok; i++)
		if (view_concerns(&views[i], instance_id))
			ok = views[i].exists ? interface_add(reply, &views[i]) : orphan_add(reply, &views[i]);
	if (ok)
		return reply;
	bc__v1__netd_list_reply__free_unpacked(reply, NULL);
	return NULL;
}
