/* Between protobuf-c messages and gRPC byte buffers. */
#pragma once

#include "lib/base/err.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <protobuf-c/protobuf-c.h>

/* Owned by the caller. NULL: out of memory. */
grpc_byte_buffer *wire_buffer_pack(const ProtobufCMessage *message);
/* The bytes in one piece; *ret is owned by the caller (grpc_slice_unref). */
int wire_buffer_bytes(grpc_byte_buffer *buffer, grpc_slice *ret, struct err *err);
/* Checks and unpacks as lib/rpc/intake.h says; the buffer stays the caller's. */
int wire_buffer_parse(grpc_byte_buffer *buffer, const ProtobufCMessageDescriptor *descriptor,
        ProtobufCMessage **ret_message, struct err *err);
