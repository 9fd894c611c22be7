/* gRPC takes the keys of channel arguments as char *, but only reads them. Private to lib/rpc. */
#pragma once

#include <grpc/grpc.h>

static inline grpc_arg channel_arg_int(const char *key, int value)
{
	return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

static inline grpc_arg channel_arg_string(const char *key, const char *value)
{
	return (grpc_arg){ .type = GRPC_ARG_STRING, .key = (char *)key, .value.string = (char *)value };
}
