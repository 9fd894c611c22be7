#include "lib/rpc/reflection.h"

#include "lib/base/cleanup.h"

#include <grpc/reflection/v1/reflection.pb-c.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;
typedef Grpc__Reflection__V1__ServerReflection_Service service_type;

struct reflection {
	/* v1alpha is v1 under another name, byte for byte: it gets a descriptor that differs in its name only */
	service_type services[REFLECTION_SERVICES];
	ProtobufCServiceDescriptor alpha;
	const struct descriptor_pool *pool; /* weak */
	const char *const *names;           /* weak */
};

static int error_send(struct rpc_call *call, response answer, grpc_status_code code, const char *text)
{
	Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

	error.error_code = (int32_t)code;
	error.error_message = (char *)text;
	answer.message_response_case =
	        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	answer.error_response = &error;
	return rpc_stream_send(call, &answer.base);
}

static int list_send(const struct reflection *reflection, struct rpc_call *call, response answer)
{
	enum { NAMES_MAX = 32 };
	Grpc__Reflection__V1__ListServiceResponse list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
	Grpc__Reflection__V1__ServiceResponse entries[NAMES_MAX];
	Grpc__Reflection__V1__ServiceResponse *pointers[NAMES_MAX];

	for (; reflection->names[list.n_service] && list.n_service < NAMES_MAX; list.n_service++) {
		entries[list.n_service] =
		        (Grpc__Reflection__V1__ServiceResponse)GRPC__REFLECTION__V1__SERVICE_RESPONSE__INIT;
		entries[list.n_service].name = (char *)reflection->names[list.n_service];
		pointers[list.n_service] = &entries[list.n_service];
	}
	list.service = pointers;
	answer.message_response_case =
	        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	answer.list_services_response = &list;
	return rpc_stream_send(call, &answer.base);
}

static int file_send(struct rpc_call *call, response answer, int found, const struct descriptor_file *file,
        const char *what)
{
	Grpc__Reflection__V1__FileDescriptorResponse files =
	        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
	ProtobufCBinaryData bytes = { file->n, (uint8_t *)file->data };
	char text[ERR_TEXT_MAX];

	if (found < 0) {
		(void)snprintf(text, sizeof(text), "'%.400s' is not known here", what);
		return error_send(call, answer, GRPC_STATUS_NOT_FOUND, text);
	}
	files.n_file_descriptor_proto = 1;
	files.file_descriptor_proto = &bytes;
	answer.message_response_case =
	        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	answer.file_descriptor_response = &files;
	return rpc_stream_send(call, &answer.base);
}

static int request_answer(const struct reflection *reflection, struct rpc_call *call, const request *req)
{
	response answer = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	struct descriptor_file file = { 0 };

	answer.original_request = (request *)req;
	answer.valid_host = req->host;
	switch (req->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		return list_send(reflection, call, answer);
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		return file_send(call, answer,
		        descriptor_pool_find_file(reflection->pool, req->file_by_filename, &file), &file,
		        req->file_by_filename);
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		return file_send(call, answer,
		        descriptor_pool_find_symbol(reflection->pool, req->file_containing_symbol, &file),
		        &file, req->file_containing_symbol);
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
		return error_send(call, answer, GRPC_STATUS_NOT_FOUND, "no type here has extensions");
	default:
		return error_send(call, answer, GRPC_STATUS_INVALID_ARGUMENT, "the request asks for nothing");
	}
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	if (!message) {
		rpc_stream_finish(call);
		return;
	}
	if (request_answer(userdata, call, (const request *)message) < 0)
		rpc_fail(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "answers are not being read");
	rpc_stream_read(call);
}

static void info_begin(struct reflection *reflection, void *closure_data)
{
	struct rpc_call *call = rpc_call_of(closure_data);

	rpc_stream_on_message(call, on_message, reflection);
	rpc_stream_read(call);
}

static void v1__server_reflection_info(service_type *service, const request *req,
        Grpc__Reflection__V1__ServerReflectionResponse_Closure reply, void *closure_data)
{
	(void)req;
	(void)reply;
	info_begin(CONTAINER_OF(service, struct reflection, services[0]), closure_data);
}

static void v1alpha__server_reflection_info(service_type *service, const request *req,
        Grpc__Reflection__V1__ServerReflectionResponse_Closure reply, void *closure_data)
{
	(void)req;
	(void)reply;
	info_begin(CONTAINER_OF(service, struct reflection, services[1]), closure_data);
}

int reflection_new(const struct descriptor_pool *pool, const char *const *names, struct reflection **ret)
{
	struct reflection *reflection = calloc(1, sizeof(*reflection));

	if (!reflection)
		return -ENOMEM;
	reflection->pool = pool;
	reflection->names = names;
	reflection->services[0] = (service_type)GRPC__REFLECTION__V1__SERVER_REFLECTION__INIT(v1__);
	reflection->services[1] = (service_type)GRPC__REFLECTION__V1__SERVER_REFLECTION__INIT(v1alpha__);
	reflection->alpha = grpc__reflection__v1__server_reflection__descriptor;
	reflection->alpha.name = "grpc.reflection.v1alpha.ServerReflection";
	reflection->services[1].base.descriptor = &reflection->alpha;
	*ret = reflection;
	return 0;
}

struct reflection *reflection_free(struct reflection *reflection)
{
	free(reflection);
	return NULL;
}

ProtobufCService *reflection_service(struct reflection *reflection, size_t i)
{
	return &reflection->services[i].base;
}
