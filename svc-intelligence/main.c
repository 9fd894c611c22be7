#include "lib/service/service.h"
#include "svc-intelligence/edge.h"

static int intelligence_start(struct service *service, void *userdata, struct err *err)
{
	Bc__V1__Intelligence_Service *edge = userdata;
	int r;

	intelligence_edge_init(edge);
	r = rpc_server_add(service_server(service), &edge->base);
	return r < 0 ? err_set(err, r, "cannot serve %s", edge->base.descriptor->name) : 0;
}

static bool intelligence_stop(struct service *service, void *userdata)
{
	(void)service;
	(void)userdata;
	return true;
}

int main(int argc, char **argv)
{
	Bc__V1__Intelligence_Service edge;

	return service_main(argc, argv,
	        &(struct service_options){ .name = "intelligence",
	                .start = intelligence_start,
	                .stop = intelligence_stop,
	                .userdata = &edge });
}
