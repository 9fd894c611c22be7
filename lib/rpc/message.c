#include "lib/rpc/message.h"

#include "lib/base/cleanup.h"

#include <string.h>

ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = calloc(1, type->sizeof_message);

	if (message)
		type->message_init(message);
	return message;
}

ProtobufCMessage *message_copy(const ProtobufCMessage *from)
{
	CLEANUP_FREE uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(from) + 1);

	if (!bytes)
		return NULL;
	size_t n = protobuf_c_message_pack(from, bytes);
	return protobuf_c_message_unpack(from->descriptor, NULL, n, bytes);
}

bool message_is_same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
	size_t n = protobuf_c_message_get_packed_size(a);

	if (a->descriptor != b->descriptor || protobuf_c_message_get_packed_size(b) != n)
		return false;
	CLEANUP_FREE uint8_t *bytes = malloc(2 * n + 1);
	if (!bytes)
		return false;
	(void)protobuf_c_message_pack(a, bytes);
	(void)protobuf_c_message_pack(b, bytes + n);
	return memcmp(bytes, bytes + n, n) == 0;
}

int message_text_set(char **slot, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	if (*slot != (const char *)protobuf_c_empty_string)
		free(*slot);
	*slot = copy;
	return 0;
}
