/* A service of the smallest kind, for service_test.c: Describe tells of the process, Remove fails, Watch
 * never ends. */
#include "bc/v1/runtime.pb-c.h"
#include "lib/base/cleanup.h"
#include "lib/service/service.h"

#include <string.h>

struct probe {
	Bc__V1__Runtime_Service service;
	uint64_t number;        /* of the configuration */
	struct rpc_call *watch; /* weak; the one live stream */
};

static const struct conf_key KEYS[] = { { .section = "probe",
	.name = "number",
	.type = CONF_UINT,
	.offset = offsetof(struct probe, number),
	.preset = "1",
	.max = 10,
	.help = "a number" } };

static void on_describe(Bc__V1__Runtime_Service *service, const Bc__V1__DescribeRequest *request,
        Bc__V1__DescribeReply_Closure reply, void *closure_data)
{
	Bc__V1__DescribeReply answer = BC__V1__DESCRIBE_REPLY__INIT;
	char version[64];

	(void)service;
	(void)request;
	(void)snprintf(version, sizeof(version), "LISTEN_FDS %s", getenv("LISTEN_FDS") ? "set" : "unset");
	answer.version = version;
	reply(&answer, closure_data);
}

static void on_remove(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeRemoveRequest *request,
        Bc__V1__RuntimeRemoveReply_Closure reply, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	(void)service;
	(void)reply;
	rpc_call_set_subject(call, request->id);
	rpc_fail(call, GRPC_STATUS_NOT_FOUND, "no domain '%s'", request->id);
}

static void on_watch_end(struct rpc_call *call, void *userdata)
{
	struct probe *probe = userdata;

	(void)call;
	probe->watch = NULL;
}

static void on_watch(Bc__V1__Runtime_Service *service, const Bc__V1__RuntimeWatchRequest *request,
        Bc__V1__DomainEvent_Closure reply, void *closure_data)
{
	struct probe *probe = CONTAINER_OF(service, struct probe, service);
	Bc__V1__DomainEvent event = BC__V1__DOMAIN_EVENT__INIT;

	(void)request;
	(void)reply;
	probe->watch = rpc_call_of(closure_data);
	if (probe->number == 7)
		(void)rpc_call_ref(probe->watch); /* as work that does not end would */
	rpc_call_on_end(probe->watch, on_watch_end, probe);
	(void)rpc_stream_send(probe->watch, &event.base);
}

static int on_check(const struct service *service, void *userdata, struct err *err)
{
	const struct probe *probe = userdata;

	(void)service;
	return probe->number == 9 ? err_set(err, -EINVAL, "[probe] number=9: write another one") : 0;
}

static int on_start(struct service *service, void *userdata, struct err *err)
{
	struct probe *probe = userdata;

	if (probe->number == 8)
		return err_set(err, -EIO, "cannot start with 8");
	return rpc_server_add(service_server(service), &probe->service.base);
}

static bool on_stop(struct service *service, void *userdata)
{
	(void)service;
	(void)userdata;
	return true;
}

int main(int argc, char **argv)
{
	static struct probe probe = { .service = { .base = { .descriptor = &bc__v1__runtime__descriptor,
		                                           .invoke = protobuf_c_service_invoke_internal },
		                              .describe = on_describe,
		                              .remove = on_remove,
		                              .watch = on_watch } };
	const struct conf_table table = { .keys = KEYS, .n_keys = ARRAY_SIZE(KEYS), .target = &probe };

	return service_main(argc, argv,
	        &(struct service_options){ .name = "probe",
	                .tables = &table,
	                .n_tables = 1,
	                .check = on_check,
	                .start = on_start,
	                .stop = on_stop,
	                .userdata = &probe });
}
