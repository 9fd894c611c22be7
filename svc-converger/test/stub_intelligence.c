#include "svc-converger/test/stub_intelligence.h"

#include "lib/base/cleanup.h"
#include "svc-converger/test/stub_door.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stub_intelligence *stub_of(Bc__V1__Intelligence_Service *service)
{
	return CONTAINER_OF(service, struct stub_intelligence, service);
}

static struct stub_vm *vm_find(struct stub_intelligence *stub, const char *instance_id)
{
	for (size_t i = 0; i < stub->n_vms; i++)
		if (strcmp(stub->vms[i].instance_id, instance_id) == 0)
			return &stub->vms[i];
	return NULL;
}

const struct stub_vm *stub_intelligence_vm(const struct stub_intelligence *stub, const char *instance_id)
{
	return vm_find((struct stub_intelligence *)stub, instance_id);
}

static void intelligence__status(Bc__V1__Intelligence_Service *service,
        const Bc__V1__IntelligenceStatusRequest *request, Bc__V1__IntelligenceStatus_Closure closure,
        void *closure_data)
{
	Bc__V1__IntelligenceStatus reply = BC__V1__INTELLIGENCE_STATUS__INIT;

	(void)service;
	(void)request;
	reply.version = (char *)"1";
	closure(&reply, closure_data);
}

static void intelligence__register(Bc__V1__Intelligence_Service *service,
        const Bc__V1__RegisterRequest *request, Bc__V1__RegisterReply_Closure closure, void *closure_data)
{
	struct stub_intelligence *stub = stub_of(service);
	Bc__V1__RegisterReply reply = BC__V1__REGISTER_REPLY__INIT;
	struct stub_vm *vm = vm_find(stub, request->instance_id);

	assert(request->n_pids > 0);
	if (!vm) {
		assert(stub->n_vms < STUB_VMS_MAX);
		vm = &stub->vms[stub->n_vms++];
	}
	(void)snprintf(vm->instance_id, sizeof(vm->instance_id), "%s", request->instance_id);
	vm->pid = request->pids[0];
	stub->n_registered++;
	closure(&reply, closure_data);
}

static void intelligence__unregister(Bc__V1__Intelligence_Service *service,
        const Bc__V1__UnregisterRequest *request, Bc__V1__UnregisterReply_Closure closure, void *closure_data)
{
	struct stub_intelligence *stub = stub_of(service);
	Bc__V1__UnregisterReply reply = BC__V1__UNREGISTER_REPLY__INIT;
	struct stub_vm *vm = vm_find(stub, request->instance_id);

	if (vm)
		*vm = stub->vms[--stub->n_vms];
	reply.existed = vm != NULL;
	stub->n_unregistered++;
	closure(&reply, closure_data);
}

#define NOT_SERVED(method, Request, Reply)                                                                   \
	static void intelligence__##method(Bc__V1__Intelligence_Service *service,                            \
	        const Bc__V1__##Request *request, Bc__V1__##Reply##_Closure closure, void *closure_data)     \
	{                                                                                                    \
		(void)service;                                                                               \
		(void)request;                                                                               \
		(void)closure;                                                                               \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED, "not in the stub");           \
	}
NOT_SERVED(list_vms, ListVmsRequest, ListVmsReply)
NOT_SERVED(get_vm, GetVmRequest, VmTelemetry)
NOT_SERVED(watch, IntelligenceWatchRequest, VmTelemetry)
NOT_SERVED(trace, TraceRequest, TraceEvent)

void stub_intelligence_revive(struct stub_intelligence *stub)
{
	assert(!stub->server);
	stub->server = stub_door_open(stub->loop, stub->path, &stub->service.base);
}

void stub_intelligence_kill(struct stub_intelligence *stub)
{
	if (!stub->server)
		return;
	stub->server = stub_door_close(stub->loop, stub->path, stub->server);
	stub->n_vms = 0;
}

struct stub_intelligence *stub_intelligence_new(struct loop *loop, const char *path)
{
	static const Bc__V1__Intelligence_Service service = BC__V1__INTELLIGENCE__INIT(intelligence__);
	struct stub_intelligence *stub = calloc(1, sizeof(*stub));

	assert(stub);
	stub->service = service;
	stub->loop = loop;
	(void)snprintf(stub->path, sizeof(stub->path), "%s", path);
	stub_intelligence_revive(stub);
	return stub;
}

struct stub_intelligence *stub_intelligence_free(struct stub_intelligence *stub)
{
	if (!stub)
		return NULL;
	stub_intelligence_kill(stub);
	free(stub);
	return NULL;
}
