/* Names of enum values. */
#pragma once

#include <protobuf-c/protobuf-c.h>

/* "RUNNING", or NULL for a number the enum does not have. */
const char *proto_enum_name(const ProtobufCEnumDescriptor *type, int value);
/* -ENOENT when the enum has no value of that name; case counts. */
int proto_enum_value(const ProtobufCEnumDescriptor *type, const char *name, int *ret);
