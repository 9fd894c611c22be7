#include "lib/rpc/health.h"

#include "lib/base/cleanup.h"

#include <grpc/health/v1/health.pb-c.h>
#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse response;
typedef Grpc__Health__V1__HealthCheckRequest request;
enum { NAMES_MAX = 32 };

#define SERVING_STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct watcher {
	struct health *health; /* weak */
	struct rpc_call *call; /* weak; the watcher ends with it */
	char name[128];
	struct watcher *next;
};

struct health {
	Grpc__Health__V1__Health_Service service;
	const char *names[NAMES_MAX]; /* weak; [0] is "" */
	bool serving[NAMES_MAX];
	size_t n_names;
	struct watcher *watchers;
};

static struct health *health_of(Grpc__Health__V1__Health_Service *service)
{
	return CONTAINER_OF(service, struct health, service);
}

static int name_find(const struct health *h, const char *name)
{
	for (size_t i = 0; i < h->n_names; i++)
		if (strcmp(h->names[i], name) == 0)
			return (int)i;
	return -1;
}

static response status_of(const struct health *h, const char *name)
{
	response answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	int i = name_find(h, name);

	answer.status = i < 0   ? SERVING_STATUS(SERVICE_UNKNOWN)
	        : h->serving[i] ? SERVING_STATUS(SERVING)
	                        : SERVING_STATUS(NOT_SERVING);
	return answer;
}

static void health__check(Grpc__Health__V1__Health_Service *service, const request *req,
        Grpc__Health__V1__HealthCheckResponse_Closure reply, void *closure_data)
{
	response answer = status_of(health_of(service), req->service);

	if (answer.status == SERVING_STATUS(SERVICE_UNKNOWN))
		rpc_fail(rpc_call_of(closure_data), GRPC_STATUS_NOT_FOUND, "service '%s' is not served here",
		        req->service);
	else
		reply(&answer, closure_data);
}

static void on_watcher_end(struct rpc_call *call, void *userdata)
{
	struct watcher *w = userdata;

	(void)call;
	for (struct watcher **at = &w->health->watchers; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	free(w);
}

static void health__watch(Grpc__Health__V1__Health_Service *service, const request *req,
        Grpc__Health__V1__HealthCheckResponse_Closure reply, void *closure_data)
{
	struct health *h = health_of(service);
	struct rpc_call *call = rpc_call_of(closure_data);
	struct watcher *w = calloc(1, sizeof(*w));
	response answer = status_of(h, req->service);

	(void)reply;
	if (!w || strlen(req->service) >= sizeof(w->name)) {
		free(w);
		rpc_fail(call, GRPC_STATUS_INVALID_ARGUMENT, "a service name has at most 127 bytes");
		return;
	}
	w->health = h;
	w->call = call;
	(void)snprintf(w->name, sizeof(w->name), "%s", req->service);
	w->next = h->watchers;
	h->watchers = w;
	rpc_call_on_end(call, on_watcher_end, w);
	(void)rpc_stream_send(call, &answer.base);
}

int health_new(struct health **ret)
{
	struct health *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->service = (Grpc__Health__V1__Health_Service)GRPC__HEALTH__V1__HEALTH__INIT(health__);
	*ret = h;
	return 0;
}

struct health *health_free(struct health *h)
{
	free(h);
	return NULL;
}

ProtobufCService *health_service(struct health *h)
{
	return &h->service.base;
}

void health_start(struct health *h, const char *const *names)
{
	h->names[0] = "";
	h->serving[0] = true;
	h->n_names = 1;
	for (; *names && h->n_names < NAMES_MAX; names++) {
		h->names[h->n_names] = *names;
		h->serving[h->n_names++] = true;
	}
}

static void watchers_tell(const struct health *h, const char *name)
{
	for (struct watcher *w = h->watchers; w; w = w->next)
		if (strcmp(w->name, name) == 0) {
			response answer = status_of(h, name);
			(void)rpc_stream_send(
			        w->call, &answer.base); /* full: 64 changes unread, the next one tells */
		}
}

void health_set(struct health *h, const char *name, bool serving)
{
	int i = name_find(h, name);

	if (i < 0 || h->serving[i] == serving)
		return;
	h->serving[i] = serving;
	watchers_tell(h, name);
}

void health_shutdown(struct health *h)
{
	for (size_t i = 0; i < h->n_names; i++)
		health_set(h, h->names[i], false);
	for (struct watcher *w = h->watchers, *next = NULL; w; w = next) {
		next = w->next;
		rpc_fail(w->call, GRPC_STATUS_UNAVAILABLE, "the service is shutting down");
	}
}
