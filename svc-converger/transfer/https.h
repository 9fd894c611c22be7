/* The two things done over https, with libcurl. Certificates are always verified; a redirect may only lead to
 * another https address. */
#pragma once

#include "svc-converger/transfer/sink.h"
#include "svc-converger/transfer/source.h"
#include "svc-converger/transfer/wire.h"

/* Fills sink from where it is. -ERANGE when the server cannot go on from there: begin anew. *ret_permanent is set when
 * trying again is useless. on_total hears the whole size when the server says it; may be NULL. */
int https_get(const struct transfer_order *order, struct sink *sink,
        void (*on_total)(uint64_t total_bytes, void *userdata), void *userdata, bool *ret_permanent,
        struct err *err);
int https_put(
        const struct transfer_order *order, struct source *source, bool *ret_permanent, struct err *err);
