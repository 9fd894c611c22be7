#include "lib/text/proto_enum.h"

#include <errno.h>

const char *proto_enum_name(const ProtobufCEnumDescriptor *type, int value)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

	return found ? found->name : NULL;
}

int proto_enum_value(const ProtobufCEnumDescriptor *type, const char *name, int *ret)
{
	const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value_by_name(type, name);

	if (!found)
		return -ENOENT;
	*ret = found->value;
	return 0;
}
