/* Foreign bytes become a message only here.
 *
 * protobuf-c checks neither nesting, counts, UTF-8, NULs, enum values nor doubled keys, and multiplies counts into
 * allocations. So a scan of the wire bytes against the descriptor comes first; it allocates next to nothing and
 * bounds what unpacking will cost. */
#pragma once

#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

enum {
	RPC_WIRE_MAX = 4 << 20,      /* bytes on the wire */
	RPC_DEPTH_MAX = 64,          /* messages within messages */
	RPC_UNPACKED_MAX = 15 << 20, /* bytes that unpacking may allocate, as estimated by the scan */
	RPC_UNKNOWN_FIELDS_MAX =
	        1000, /* per message as a whole: a newer peer's fields are kept, a flood is not */
};

/* Checks the wire bytes of a message of this type. -EBADMSG: malformed; -E2BIG: over a limit; -EINVAL: a value
 * that is refused. err names the field, e.g. "instances.items[3].nics[0].mac: not UTF-8". */
int rpc_message_check(
        const ProtobufCMessageDescriptor *descriptor, const void *data, size_t n, struct err *err);

/* Checks and unpacks. *ret_message is owned by the caller: protobuf_c_message_free_unpacked(). */
int rpc_message_parse(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t n,
        ProtobufCMessage **ret_message, struct err *err);
