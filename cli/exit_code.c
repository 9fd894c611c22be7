#include "cli/exit_code.h"

#include <errno.h>
#include <stddef.h>

enum exit_code exit_code_of(const struct rpc_status *status)
{
	if (status->code != GRPC_STATUS_OK && status->errno_hint == -EACCES)
		return EXIT_REFUSED;
	switch (status->code) {
	case GRPC_STATUS_OK:
		return EXIT_OK;
	case GRPC_STATUS_INVALID_ARGUMENT:
	case GRPC_STATUS_OUT_OF_RANGE:
		return EXIT_USAGE;
	case GRPC_STATUS_NOT_FOUND:
		return EXIT_NOT_FOUND;
	case GRPC_STATUS_UNAVAILABLE:
		return EXIT_ABSENT;
	case GRPC_STATUS_PERMISSION_DENIED:
	case GRPC_STATUS_UNAUTHENTICATED:
		return EXIT_REFUSED;
	case GRPC_STATUS_ALREADY_EXISTS:
	case GRPC_STATUS_FAILED_PRECONDITION:
	case GRPC_STATUS_ABORTED:
		return EXIT_CONFLICT;
	case GRPC_STATUS_DEADLINE_EXCEEDED:
		return EXIT_TIMEOUT;
	case GRPC_STATUS_RESOURCE_EXHAUSTED:
		return EXIT_NO_CAPACITY;
	case GRPC_STATUS_UNIMPLEMENTED:
		return EXIT_UNSUPPORTED;
	default:
		return EXIT_FAILED;
	}
}

const char *exit_code_text(int code)
{
	switch (code) {
	case EXIT_OK:
		return "all went well";
	case EXIT_FAILED:
		return "it was tried and failed";
	case EXIT_USAGE:
		return "what was asked for, or a file that was given, is not valid";
	case EXIT_NOT_FOUND:
		return "there is no such thing";
	case EXIT_ABSENT:
		return "the service does not run";
	case EXIT_REFUSED:
		return "the service runs, and you may not use it";
	case EXIT_CONFLICT:
		return "the state is not one in which that can be done";
	case EXIT_TIMEOUT:
		return "no answer in time, or a wait that ran out";
	case EXIT_NO_CAPACITY:
		return "the host has no room for it";
	case EXIT_UNSUPPORTED:
		return "this service or runtime cannot do that";
	case EXIT_INTERRUPTED:
		return "interrupted";
	default:
		return NULL;
	}
}
