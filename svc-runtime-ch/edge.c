#include "svc-runtime-ch/edge.h"

/* The generated struct wants a function of each type; all of them say the same. */
#define NOT_BUILT(method, request, closure)                                                                  \
	static void ch__##method(                                                                            \
	        Bc__V1__Runtime_Service *service, const request *req, closure reply, void *closure_data)     \
	{                                                                                                    \
		(void)service;                                                                               \
		(void)req;                                                                                   \
		(void)reply;                                                                                 \
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_UNIMPLEMENTED,                               \
		        "the cloud-hypervisor runtime is not built yet in version " BC_VERSION               \
		        ": use runtime 'libvirt-kvm'");                                                      \
	}

NOT_BUILT(describe, Bc__V1__DescribeRequest, Bc__V1__DescribeReply_Closure)
NOT_BUILT(ensure, Bc__V1__EnsureRequest, Bc__V1__EnsureReply_Closure)
NOT_BUILT(set_state, Bc__V1__SetStateRequest, Bc__V1__Domain_Closure)
NOT_BUILT(remove, Bc__V1__RuntimeRemoveRequest, Bc__V1__RuntimeRemoveReply_Closure)
NOT_BUILT(get, Bc__V1__RuntimeGetRequest, Bc__V1__Domain_Closure)
NOT_BUILT(list, Bc__V1__RuntimeListRequest, Bc__V1__RuntimeListReply_Closure)
NOT_BUILT(watch, Bc__V1__RuntimeWatchRequest, Bc__V1__DomainEvent_Closure)
NOT_BUILT(snapshot, Bc__V1__RuntimeSnapshotRequest, Bc__V1__RuntimeSnapshotEvent_Closure)
NOT_BUILT(console, Bc__V1__ConsoleInput, Bc__V1__ConsoleOutput_Closure)
NOT_BUILT(rebind, Bc__V1__RebindRequest, Bc__V1__RebindReply_Closure)
NOT_BUILT(grow_volume, Bc__V1__GrowVolumeRequest, Bc__V1__GrowVolumeReply_Closure)
NOT_BUILT(get_balloon, Bc__V1__BalloonRequest, Bc__V1__BalloonReply_Closure)
NOT_BUILT(set_balloon, Bc__V1__SetBalloonRequest, Bc__V1__BalloonReply_Closure)

void ch_edge_init(Bc__V1__Runtime_Service *service)
{
	*service = (Bc__V1__Runtime_Service)BC__V1__RUNTIME__INIT(ch__);
}
