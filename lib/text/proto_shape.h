/* What the JSON mapping needs to know of a message type and protobuf-c's descriptors do not say outright. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proto_form {
	PROTO_FORM_MESSAGE,   /* a mapping of its fields */
	PROTO_FORM_TIMESTAMP, /* text */
	PROTO_FORM_DURATION,  /* text */
};
enum proto_form proto_form(const ProtobufCMessageDescriptor *type);

enum { PROTO_NAME_MAX = 128 };
/* "memory_bytes" as "memoryBytes". Names over PROTO_NAME_MAX are cut. Returns buf. */
char *proto_json_name(const ProtobufCFieldDescriptor *field, char buf[static PROTO_NAME_MAX]);
/* The field a key names, in either spelling; NULL for none. */
const ProtobufCFieldDescriptor *proto_field_find(
        const ProtobufCMessageDescriptor *type, const char *key, size_t n_key);

/* A map<K, V> field: repeated entries {key = 1, value = 2} in protobuf-c, an object in JSON. The
 * descriptor has lost the map_entry option; the name protoc gives to the entry type tells. So a
 * hand-written "repeated XEntry x" of that shape counts as one. */
bool proto_field_is_map(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *field);
const ProtobufCFieldDescriptor *proto_map_key(const ProtobufCFieldDescriptor *map);
const ProtobufCFieldDescriptor *proto_map_value(const ProtobufCFieldDescriptor *map);

bool proto_field_in_oneof(const ProtobufCFieldDescriptor *field);
const ProtobufCMessageDescriptor *proto_field_message(const ProtobufCFieldDescriptor *field);
const ProtobufCEnumDescriptor *proto_field_enum(const ProtobufCFieldDescriptor *field);
/* Bytes of one element of that type in a message struct or a repeated field's array. */
size_t proto_type_size(ProtobufCType type);
