#include "lib/rpc/status.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
	int r;
	grpc_status_code code;
} codes[] = {
	/* the first row of a code is also its errno on the client's side */
	{ 0, GRPC_STATUS_OK },
	{ -ECANCELED, GRPC_STATUS_CANCELLED },
	{ -EINVAL, GRPC_STATUS_INVALID_ARGUMENT },
	{ -EBADMSG, GRPC_STATUS_INVALID_ARGUMENT },
	{ -E2BIG, GRPC_STATUS_INVALID_ARGUMENT },
	{ -ENAMETOOLONG, GRPC_STATUS_INVALID_ARGUMENT },
	{ -ERANGE, GRPC_STATUS_OUT_OF_RANGE },
	{ -ETIMEDOUT, GRPC_STATUS_DEADLINE_EXCEEDED },
	{ -ENOENT, GRPC_STATUS_NOT_FOUND },
	{ -ESRCH, GRPC_STATUS_NOT_FOUND },
	{ -ENODEV, GRPC_STATUS_NOT_FOUND },
	{ -EEXIST, GRPC_STATUS_ALREADY_EXISTS },
	{ -EACCES, GRPC_STATUS_PERMISSION_DENIED },
	{ -EPERM, GRPC_STATUS_PERMISSION_DENIED },
	{ -ENOSPC, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -ENOMEM, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -EMFILE, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -ENFILE, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -EDQUOT, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -EXFULL, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ -EBUSY, GRPC_STATUS_FAILED_PRECONDITION },
	{ -ENOTEMPTY, GRPC_STATUS_FAILED_PRECONDITION },
	{ -ETXTBSY, GRPC_STATUS_FAILED_PRECONDITION },
	{ -ESTALE, GRPC_STATUS_ABORTED },
	{ -EOPNOTSUPP, GRPC_STATUS_UNIMPLEMENTED },
	{ -ENOSYS, GRPC_STATUS_UNIMPLEMENTED },
	{ -EAGAIN, GRPC_STATUS_UNAVAILABLE },
	{ -ECONNREFUSED, GRPC_STATUS_UNAVAILABLE },
	{ -ECONNRESET, GRPC_STATUS_UNAVAILABLE },
	{ -EPIPE, GRPC_STATUS_UNAVAILABLE },
	{ -ENOTCONN, GRPC_STATUS_UNAVAILABLE },
	{ -ENODATA, GRPC_STATUS_DATA_LOSS },
};

grpc_status_code rpc_code_from_errno(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].r == r)
			return codes[i].code;
	return r > 0 ? GRPC_STATUS_OK : GRPC_STATUS_INTERNAL;
}

int rpc_errno_from_code(grpc_status_code code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].code == code)
			return codes[i].r;
	return -EIO;
}

const char *rpc_code_to_string(grpc_status_code code)
{
	static const char *const names[] = {
		[GRPC_STATUS_OK] = "OK",
		[GRPC_STATUS_CANCELLED] = "CANCELLED",
		[GRPC_STATUS_UNKNOWN] = "UNKNOWN",
		[GRPC_STATUS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
		[GRPC_STATUS_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
		[GRPC_STATUS_NOT_FOUND] = "NOT_FOUND",
		[GRPC_STATUS_ALREADY_EXISTS] = "ALREADY_EXISTS",
		[GRPC_STATUS_PERMISSION_DENIED] = "PERMISSION_DENIED",
		[GRPC_STATUS_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[GRPC_STATUS_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
		[GRPC_STATUS_ABORTED] = "ABORTED",
		[GRPC_STATUS_OUT_OF_RANGE] = "OUT_OF_RANGE",
		[GRPC_STATUS_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[GRPC_STATUS_INTERNAL] = "INTERNAL",
		[GRPC_STATUS_UNAVAILABLE] = "UNAVAILABLE",
		[GRPC_STATUS_DATA_LOSS] = "DATA_LOSS",
		[GRPC_STATUS_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};

	return (size_t)code < ARRAY_SIZE(names) ? names[code] : NULL;
}

bool rpc_status_absent(const struct rpc_status *status)
{
	return status->errno_hint == -ENOENT || status->errno_hint == -ECONNREFUSED;
}

int rpc_status_set(struct rpc_status *status, grpc_status_code code, const char *fmt, ...)
{
	va_list ap;

	status->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(status->message, sizeof(status->message), fmt, ap);
	va_end(ap);
	return rpc_errno_from_code(code);
}
