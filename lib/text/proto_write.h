/* Any protobuf-c message as JSON or YAML in the standard protobuf JSON mapping: lowerCamelCase names,
 * 64-bit integers as strings, bytes as base64, enums by name (unknown ones by number), times as text.
 * Fields that hold their default are left out. It prints what the message holds: a message with secrets is
 * never written to a log with it. */
#pragma once

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

enum {
	PROTO_WRITE_COMPACT = 0,
	PROTO_WRITE_INDENT = 1 << 0,   /* JSON over several lines */
	PROTO_WRITE_DEFAULTS = 1 << 1, /* also scalars that are 0, false or "", and empty lists */
};

/* *ret_text is owned by the caller, NUL-terminated, and ends with a newline when indented or YAML.
 * -EINVAL for a string that is not UTF-8 or a time out of range, -ENOMEM. */
int proto_write_json(const ProtobufCMessage *message, unsigned flags, char **ret_text);
int proto_write_yaml(const ProtobufCMessage *message, unsigned flags, char **ret_text);

/* For answers made of several messages: the tree, to be put into another and printed with json_text(). */
int proto_write_tree(const ProtobufCMessage *message, unsigned flags, json_t **ret);
/* NULL without memory. Real numbers get as many digits as bring them back the same. */
char *json_text(const json_t *tree, unsigned flags);
