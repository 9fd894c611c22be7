/* The same two for file: addresses. */
#pragma once

#include "svc-converger/transfer/sink.h"
#include "svc-converger/transfer/source.h"
#include "svc-converger/transfer/wire.h"

/* "file:///a%20b" as "/a b"; owned by the caller. -EINVAL for a host, a query, a NUL, or no absolute path. */
int local_file_path(const char *url, char **ret_path, struct err *err);
/* Only regular files are read. *ret_permanent as of https_get(). */
int local_file_get(const struct transfer_order *order, struct sink *sink,
        void (*on_total)(uint64_t total_bytes, void *userdata), void *userdata, bool *ret_permanent,
        struct err *err);
/* Appears whole or not at all, readable by the service's user and group; one that is there is replaced. */
int local_file_put(
        const struct transfer_order *order, struct source *source, bool *ret_permanent, struct err *err);
