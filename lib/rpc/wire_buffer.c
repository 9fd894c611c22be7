#include "lib/rpc/wire_buffer.h"

#include "lib/rpc/intake.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/compression.h>
#include <grpc/slice.h>

grpc_byte_buffer *wire_buffer_pack(const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	grpc_slice slice = grpc_slice_malloc(n);

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return buffer;
}

int wire_buffer_bytes(grpc_byte_buffer *buffer, grpc_slice *ret, struct err *err)
{
	grpc_byte_buffer_reader reader;
	grpc_slice *whole = NULL;

	/* nobody bounds what it would become */
	if (buffer->data.raw.compression != GRPC_COMPRESS_NONE)
		return err_set(err, -EOPNOTSUPP, "the message is compressed: send it as it is");
	if (!grpc_byte_buffer_reader_init(&reader, buffer))
		return err_set(err, -EBADMSG, "the message cannot be read");
	/* a short message is in one piece, and read where it lies */
	if (buffer->data.raw.slice_buffer.count == 1 && grpc_byte_buffer_reader_peek(&reader, &whole))
		*ret = grpc_slice_ref(*whole);
	else
		*ret = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	return 0;
}

int wire_buffer_parse(grpc_byte_buffer *buffer, const ProtobufCMessageDescriptor *descriptor,
        ProtobufCMessage **ret_message, struct err *err)
{
	grpc_slice slice;
	int r = wire_buffer_bytes(buffer, &slice, err);

	if (r < 0)
		return r;
	r = rpc_message_parse(
	        descriptor, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice), ret_message, err);
	grpc_slice_unref(slice);
	return r;
}
