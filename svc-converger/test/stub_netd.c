#include "svc-converger/test/stub_netd.h"

#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"
#include "svc-converger/test/stub_door.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct stub_netd *stub_of(Bc__V1__Netd_Service *service)
{
	return CONTAINER_OF(service, struct stub_netd, service);
}

static struct stub_nic *nic_find(struct stub_netd *stub, const char *id, unsigned index)
{
	for (size_t i = 0; i < stub->n_nics; i++)
		if (strcmp(stub->nics[i].instance_id, id) == 0 && stub->nics[i].index == index)
			return &stub->nics[i];
	return NULL;
}

unsigned stub_netd_held(const struct stub_netd *stub, const char *instance_id)
{
	unsigned n = 0;

	for (size_t i = 0; i < stub->n_nics; i++)
		n += strcmp(stub->nics[i].instance_id, instance_id) == 0;
	return n;
}

static void netd__hello(Bc__V1__Netd_Service *service, const Bc__V1__NetdHelloRequest *request,
        Bc__V1__NetdHelloReply_Closure closure, void *closure_data)
{
	Bc__V1__NetdHelloReply reply = BC__V1__NETD_HELLO_REPLY__INIT;

	(void)service;
	(void)request;
	reply.version = (char *)"1";
	closure(&reply, closure_data);
}

static void netd_prepare(struct stub_netd *stub, const Bc__V1__NicIdentity *identity, size_t n_ports,
        Bc__V1__PortMapping **ports, Bc__V1__Nic__Policy policy, Bc__V1__PreparedNic_Closure closure,
        void *closure_data)
{
	Bc__V1__PreparedNic reply = BC__V1__PREPARED_NIC__INIT;
	struct stub_nic *nic = nic_find(stub, identity->instance_id, identity->index);
	char name[IFNAME_MAX];

	if (stub->fail_prepare) {
		stub->fail_prepare--;
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_INTERNAL, "made to fail");
		return;
	}
	if (!nic) {
		assert(stub->n_nics < STUB_NICS_MAX);
		nic = &stub->nics[stub->n_nics++];
		(void)snprintf(nic->instance_id, sizeof(nic->instance_id), "%s", identity->instance_id);
		nic->index = identity->index;
	}
	nic->policy = policy;
	nic->n_ports = n_ports;
	nic->host_port = n_ports ? ports[0]->host_port : 0;
	nic->guest_port = n_ports ? ports[0]->guest_port : 0;
	stub->n_prepared++;
	assert(tap_name(identity->instance_id, identity->index, name) == 0);
	reply.interface = name;
	reply.queues = stub->lies_about_queues ? 0 : (identity->queues ? identity->queues : 1);
	reply.filtered = !stub->lies_about_filter;
	reply.vhost = (identity->vhost == BC__V1__NIC__VHOST__ON) != stub->lies_about_vhost;
	reply.n_published = n_ports;
	reply.published = ports;
	for (size_t i = 0; i < n_ports && stub->lies_about_ports; i++)
		ports[i]->host_port++;
	closure(&reply, closure_data);
}

static void netd__prepare_bridge(Bc__V1__Netd_Service *service, const Bc__V1__PrepareBridgeRequest *request,
        Bc__V1__PreparedNic_Closure closure, void *closure_data)
{
	netd_prepare(stub_of(service), request->nic, request->n_port_mappings, request->port_mappings,
	        request->filter->policy, closure, closure_data);
}

static void netd__prepare_macvtap(Bc__V1__Netd_Service *service, const Bc__V1__PrepareMacvtapRequest *request,
        Bc__V1__PreparedNic_Closure closure, void *closure_data)
{
	netd_prepare(stub_of(service), request->nic, 0, NULL, 0, closure, closure_data);
}

static void netd__remove(Bc__V1__Netd_Service *service, const Bc__V1__NicRef *request,
        Bc__V1__RemoveReply_Closure closure, void *closure_data)
{
	struct stub_netd *stub = stub_of(service);
	Bc__V1__RemoveReply reply = BC__V1__REMOVE_REPLY__INIT;
	struct stub_nic *nic = nic_find(stub, request->instance_id, request->index);

	if (nic)
		*nic = stub->nics[--stub->n_nics];
	closure(&reply, closure_data);
}

static void netd__remove_instance(Bc__V1__Netd_Service *service, const Bc__V1__RemoveInstanceRequest *request,
        Bc__V1__RemoveReply_Closure closure, void *closure_data)
{
	struct stub_netd *stub = stub_of(service);
	Bc__V1__RemoveReply reply = BC__V1__REMOVE_REPLY__INIT;

	if (stub->fail_remove) {
		stub->fail_remove--;
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_INTERNAL, "made to fail");
		return;
	}
	stub->n_removed++;
	for (size_t i = 0; i < stub->n_nics;)
		if (strcmp(stub->nics[i].instance_id, request->instance_id) == 0)
			stub->nics[i] = stub->nics[--stub->n_nics];
		else
			i++;
	closure(&reply, closure_data);
}

static void netd__set_policy(Bc__V1__Netd_Service *service, const Bc__V1__SetPolicyRequest *request,
        Bc__V1__PreparedNic_Closure closure, void *closure_data)
{
	struct stub_netd *stub = stub_of(service);
	struct stub_nic *nic = nic_find(stub, request->nic->instance_id, request->nic->index);
	Bc__V1__PreparedNic reply = BC__V1__PREPARED_NIC__INIT;
	Bc__V1__PortMapping port = BC__V1__PORT_MAPPING__INIT, *ports[] = { &port };

	if (!nic) {
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_NOT_FOUND, "no such NIC");
		return;
	}
	if (nic->index == 1 && stub->fail_policy) {
		stub->fail_policy--;
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_INTERNAL, "made to fail");
		return;
	}
	nic->policy = request->filter->policy;
	nic->host_port = stub->drops_ports ? 0 : nic->host_port;
	stub->n_policies++;
	port.host_port = nic->host_port;
	port.guest_port = nic->guest_port;
	reply.n_published = nic->host_port != 0;
	reply.published = ports;
	closure(&reply, closure_data);
}

static void netd__list(Bc__V1__Netd_Service *service, const Bc__V1__NetdListRequest *request,
        Bc__V1__NetdListReply_Closure closure, void *closure_data)
{
	struct stub_netd *stub = stub_of(service);
	Bc__V1__NetdListReply reply = BC__V1__NETD_LIST_REPLY__INIT;
	static Bc__V1__NetdInterface interfaces[STUB_NICS_MAX];
	static Bc__V1__PortMapping ports[STUB_NICS_MAX], *port_pointers[STUB_NICS_MAX];
	Bc__V1__NetdInterface *pointers[STUB_NICS_MAX];

	(void)request;
	for (size_t i = 0; i < stub->n_nics; i++) {
		bc__v1__netd_interface__init(&interfaces[i]);
		interfaces[i].instance_id = stub->nics[i].instance_id;
		interfaces[i].index = stub->nics[i].index;
		bc__v1__port_mapping__init(&ports[i]);
		ports[i].host_port = stub->nics[i].host_port;
		ports[i].guest_port = stub->nics[i].guest_port;
		port_pointers[i] = &ports[i];
		interfaces[i].n_ports = stub->nics[i].host_port != 0;
		interfaces[i].ports = &port_pointers[i];
		pointers[i] = &interfaces[i];
	}
	reply.n_interfaces = stub->n_nics;
	reply.interfaces = pointers;
	closure(&reply, closure_data);
}

static void on_watch_end(struct rpc_call *call, void *userdata)
{
	struct stub_netd *stub = userdata;

	for (size_t i = 0; i < stub->n_watchers; i++)
		if (stub->watchers[i] == call) {
			stub->watchers[i] = stub->watchers[--stub->n_watchers];
			return;
		}
}

/* Stays open, and silent but for what stub_netd_lose() says. */
static void netd__watch(Bc__V1__Netd_Service *service, const Bc__V1__NetdWatchRequest *request,
        Bc__V1__NetdEvent_Closure closure, void *closure_data)
{
	struct stub_netd *stub = stub_of(service);

	(void)request;
	(void)closure;
	assert(stub->n_watchers < ARRAY_SIZE(stub->watchers));
	stub->watchers[stub->n_watchers++] = rpc_call_of(closure_data);
	rpc_call_on_end(rpc_call_of(closure_data), on_watch_end, stub);
}

void stub_netd_lose(struct stub_netd *stub, const char *instance_id, unsigned index)
{
	Bc__V1__NetdEvent event = BC__V1__NETD_EVENT__INIT;
	struct stub_nic *nic = nic_find(stub, instance_id, index);

	assert(nic);
	*nic = stub->nics[--stub->n_nics];
	event.type = BC__V1__NETD_EVENT__TYPE__LOST;
	event.instance_id = (char *)(uintptr_t)instance_id;
	event.index = index;
	for (size_t i = 0; i < stub->n_watchers; i++)
		(void)rpc_stream_send(stub->watchers[i], &event.base);
}

#define NOT_SERVED(method, Request, Reply)                                                                   \
	static void netd__##method(Bc__V1__Netd_Service *service, const Bc__V1__##Request *request,          \
	        Bc__V1__##Reply##_Closure closure, void *closure_data)                                       \
	{                                                                                                    \
		(void)service;                                                                               \
		(void)request;                                                                               \
		(void)closure;                                                                               \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED, "not in the stub");           \
	}
NOT_SERVED(check, NicRef, PreparedNic)
NOT_SERVED(remove_interface, RemoveInterfaceRequest, RemoveReply)

void stub_netd_revive(struct stub_netd *stub)
{
	assert(!stub->server);
	stub->server = stub_door_open(stub->loop, stub->path, &stub->service.base);
}

struct stub_netd *stub_netd_new(struct loop *loop, const char *path)
{
	static const Bc__V1__Netd_Service service = BC__V1__NETD__INIT(netd__);
	struct stub_netd *stub = calloc(1, sizeof(*stub));

	assert(stub);
	stub->service = service;
	stub->loop = loop;
	(void)snprintf(stub->path, sizeof(stub->path), "%s", path);
	stub_netd_revive(stub);
	return stub;
}

void stub_netd_kill(struct stub_netd *stub)
{
	if (!stub->server)
		return;
	stub->server = stub_door_close(stub->loop, stub->path, stub->server);
}

struct stub_netd *stub_netd_free(struct stub_netd *stub)
{
	if (!stub)
		return NULL;
	stub_netd_kill(stub);
	free(stub);
	return NULL;
}
