#include "lib/text/proto_shape.h"

#include <ctype.h>
#include <string.h>

enum proto_form proto_form(const ProtobufCMessageDescriptor *type)
{
	if (strcmp(type->name, "google.protobuf.Timestamp") == 0)
		return PROTO_FORM_TIMESTAMP;
	if (strcmp(type->name, "google.protobuf.Duration") == 0)
		return PROTO_FORM_DURATION;
	return PROTO_FORM_MESSAGE;
}

/* One character of the JSON name: an underscore goes and raises the letter behind it. */
static char json_letter(const char **p)
{
	bool raise = false;

	while (**p == '_') {
		raise = true;
		(*p)++;
	}
	char c = **p;
	if (c)
		(*p)++;
	return raise ? (char)toupper((unsigned char)c) : c;
}

char *proto_json_name(const ProtobufCFieldDescriptor *field, char buf[static PROTO_NAME_MAX])
{
	const char *p = field->name;
	size_t n = 0;

	for (char c; n + 1 < PROTO_NAME_MAX && (c = json_letter(&p)) != '\0';)
		buf[n++] = c;
	buf[n] = '\0';
	return buf;
}

static bool field_has_name(const ProtobufCFieldDescriptor *field, const char *key, size_t n_key)
{
	const char *p = field->name;

	if (strlen(field->name) == n_key && memcmp(field->name, key, n_key) == 0)
		return true;
	for (size_t i = 0; i < n_key; i++)
		if (key[i] == '\0' || json_letter(&p) != key[i])
			return false;
	return json_letter(&p) == '\0';
}

const ProtobufCFieldDescriptor *proto_field_find(
        const ProtobufCMessageDescriptor *type, const char *key, size_t n_key)
{
	/* Messages have few fields and most names part at their first letter: a scan beats building names
	 * to search. */
	for (unsigned i = 0; i < type->n_fields; i++)
		if (field_has_name(&type->fields[i], key, n_key))
			return &type->fields[i];
	return NULL;
}

bool proto_field_is_map(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *field)
{
	static const char ENTRY[] = "Entry";

	if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return false;
	const ProtobufCMessageDescriptor *entry = field->descriptor;
	if (entry->n_fields != 2 || entry->fields[0].id != 1 || entry->fields[1].id != 2 ||
	        strcmp(entry->fields[0].name, "key") != 0 || strcmp(entry->fields[1].name, "value") != 0)
		return false;
	/* "<parent>." + "FieldName" + "Entry" */
	size_t n_parent = strlen(parent->name);
	if (strncmp(entry->name, parent->name, n_parent) != 0 || entry->name[n_parent] != '.')
		return false;
	const char *name = entry->name + n_parent + 1;
	const char *p = field->name;
	char c = (char)toupper((unsigned char)json_letter(&p));
	for (; c && *name == c; c = json_letter(&p))
		name++;
	return c == '\0' && strcmp(name, ENTRY) == 0;
}

const ProtobufCFieldDescriptor *proto_map_key(const ProtobufCFieldDescriptor *map)
{
	return &proto_field_message(map)->fields[0];
}

const ProtobufCFieldDescriptor *proto_map_value(const ProtobufCFieldDescriptor *map)
{
	return &proto_field_message(map)->fields[1];
}

bool proto_field_in_oneof(const ProtobufCFieldDescriptor *field)
{
	return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

const ProtobufCMessageDescriptor *proto_field_message(const ProtobufCFieldDescriptor *field)
{
	return field->descriptor;
}

const ProtobufCEnumDescriptor *proto_field_enum(const ProtobufCFieldDescriptor *field)
{
	return field->descriptor;
}

size_t proto_type_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_ENUM:
		return 4;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
		return sizeof(char *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(ProtobufCMessage *);
	}
	return 0;
}
