#include "svc-intelligence/edge.h"

#define NOT_BUILT(method, request, closure)                                                                  \
	static void intelligence__##method(Bc__V1__Intelligence_Service *service, const request *req,        \
	        closure reply, void *closure_data)                                                           \
	{                                                                                                    \
		(void)service;                                                                               \
		(void)req;                                                                                   \
		(void)reply;                                                                                 \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED,                               \
		        "VM telemetry is not built yet in version " BC_VERSION ": Status says what is");     \
	}

NOT_BUILT(register, Bc__V1__RegisterRequest, Bc__V1__RegisterReply_Closure)
NOT_BUILT(unregister, Bc__V1__UnregisterRequest, Bc__V1__UnregisterReply_Closure)
NOT_BUILT(list_vms, Bc__V1__ListVmsRequest, Bc__V1__ListVmsReply_Closure)
NOT_BUILT(get_vm, Bc__V1__GetVmRequest, Bc__V1__VmTelemetry_Closure)
NOT_BUILT(watch, Bc__V1__IntelligenceWatchRequest, Bc__V1__VmTelemetry_Closure)
NOT_BUILT(trace, Bc__V1__TraceRequest, Bc__V1__TraceEvent_Closure)

/* What is not there is absent with a reason, never zero. */
static void intelligence__status(Bc__V1__Intelligence_Service *service,
        const Bc__V1__IntelligenceStatusRequest *req, Bc__V1__IntelligenceStatus_Closure reply,
        void *closure_data)
{
	static const char reason[] =
	        "kvm, sched, block, vhost, proc, psi: not built yet in version " BC_VERSION;
	char *missing[] = { (char *)reason };
	Bc__V1__IntelligenceStatus answer = BC__V1__INTELLIGENCE_STATUS__INIT;

	(void)service;
	(void)req;
	answer.version = (char *)BC_VERSION;
	answer.n_missing = 1;
	answer.missing = missing;
	reply(&answer, closure_data);
}

void intelligence_edge_init(Bc__V1__Intelligence_Service *service)
{
	*service = (Bc__V1__Intelligence_Service)BC__V1__INTELLIGENCE__INIT(intelligence__);
}
