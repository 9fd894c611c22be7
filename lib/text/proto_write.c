#include "lib/text/proto_write.h"

#include "lib/base/cleanup.h"
#include "lib/base/utf8.h"
#include "lib/text/base64.h"
#include "lib/text/number.h"
#include "lib/text/proto_enum.h"
#include "lib/text/proto_shape.h"
#include "lib/text/well_known.h"
#include "lib/text/yaml_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Messages that are built by hand can be deeper than any that came over the wire. */
enum { DEPTH_MAX = 100 };

struct writer {
	unsigned flags;
	unsigned depth;
};

static void cleanup_json(json_t **p)
{
	json_decref(*p);
}
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))

static int message_write(struct writer *w, const ProtobufCMessage *message, json_t **ret);

/* --- values --- */

static int tree_made(json_t *tree, json_t **ret)
{
	*ret = tree;
	return tree ? 0 : -ENOMEM;
}

static int unsigned_text_write(uint64_t value, json_t **ret)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return tree_made(json_string_nocheck(text), ret);
}

static int signed_text_write(int64_t value, json_t **ret)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	return tree_made(json_string_nocheck(text), ret);
}

static int real_write(double value, json_t **ret)
{
	if (isnan(value))
		return tree_made(json_string_nocheck("NaN"), ret);
	if (isinf(value))
		return tree_made(json_string_nocheck(value > 0 ? "Infinity" : "-Infinity"), ret);
	return tree_made(json_real(value), ret);
}

/* The double with the fewest digits that is read back as this float: 0.1f is 0.1, not 0.10000000149011612. */
static double float_as_double(float value)
{
	char text[40];

	if (!isfinite(value))
		return (double)value;
	(void)snprintf(text, sizeof(text), "%.*g", number_digits_float(value), (double)value);
	return strtod(text, NULL);
}

static int string_write(const char *text, json_t **ret)
{
	if (!text)
		text = "";
	if (!utf8_is_valid(text, strlen(text)))
		return -EINVAL;
	return tree_made(json_string_nocheck(text), ret);
}

static int bytes_write(const ProtobufCBinaryData *bytes, json_t **ret)
{
	CLEANUP_FREE char *text = base64_encode(bytes->data, bytes->len);

	if (!text)
		return -ENOMEM;
	return tree_made(json_string_nocheck(text), ret);
}

static int enum_write(const ProtobufCEnumDescriptor *type, int value, json_t **ret)
{
	const char *name = proto_enum_name(type, value);

	return tree_made(name ? json_string_nocheck(name) : json_integer(value), ret);
}

static int value_write(
        struct writer *w, const ProtobufCFieldDescriptor *field, const void *slot, json_t **ret)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		return tree_made(json_integer(*(const int32_t *)slot), ret);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return tree_made(json_integer(*(const uint32_t *)slot), ret);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		return signed_text_write(*(const int64_t *)slot, ret);
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return unsigned_text_write(*(const uint64_t *)slot, ret);
	case PROTOBUF_C_TYPE_FLOAT:
		return real_write(float_as_double(*(const float *)slot), ret);
	case PROTOBUF_C_TYPE_DOUBLE:
		return real_write(*(const double *)slot, ret);
	case PROTOBUF_C_TYPE_BOOL:
		return tree_made(json_boolean(*(const protobuf_c_boolean *)slot), ret);
	case PROTOBUF_C_TYPE_ENUM:
		return enum_write(proto_field_enum(field), *(const int *)slot, ret);
	case PROTOBUF_C_TYPE_STRING:
		return string_write(*(const char *const *)slot, ret);
	case PROTOBUF_C_TYPE_BYTES:
		return bytes_write(slot, ret);
	case PROTOBUF_C_TYPE_MESSAGE:
		return message_write(w, *(const ProtobufCMessage *const *)slot, ret);
	}
	return -EINVAL;
}

static int time_write(const ProtobufCMessage *message, json_t **ret)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	char text[WELL_KNOWN_TEXT_MAX];
	struct proto_time time;

	memcpy(&time.seconds, (const char *)message + type->fields[0].offset, sizeof(time.seconds));
	memcpy(&time.nanos, (const char *)message + type->fields[1].offset, sizeof(time.nanos));
	int r = proto_form(type) == PROTO_FORM_TIMESTAMP ? timestamp_format(&time, text)
	                                                 : duration_format(&time, text);
	return r < 0 ? -EINVAL : tree_made(json_string_nocheck(text), ret);
}

/* --- fields --- */

static size_t array_count(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	return *(const size_t *)(const void *)((const char *)message + field->quantifier_offset);
}

static const char *array_items(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	return *(const char *const *)(const void *)((const char *)message + field->offset);
}

static int list_write(struct writer *w, const ProtobufCFieldDescriptor *field,
        const ProtobufCMessage *message, json_t **ret)
{
	CLEANUP_JSON json_t *list = json_array();
	const char *items = array_items(field, message);
	size_t size = proto_type_size(field->type);

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < array_count(field, message); i++) {
		json_t *item;
		int r = value_write(w, field, items + i * size, &item);

		if (r < 0)
			return r;
		if (json_array_append_new(list, item) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(list);
	return 0;
}

/* A map key as text: strings as they are, numbers and booleans as their JSON. */
static int map_key_write(
        struct writer *w, const ProtobufCFieldDescriptor *key, const void *slot, json_t **ret)
{
	CLEANUP_JSON json_t *tree = NULL;
	int r = value_write(w, key, slot, &tree);

	if (r < 0)
		return r;
	if (json_is_string(tree)) {
		*ret = TAKE_PTR(tree);
		return 0;
	}
	if (json_is_boolean(tree))
		return tree_made(json_string_nocheck(json_is_true(tree) ? "true" : "false"), ret);
	return tree_made(json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(tree)), ret);
}

static int entry_write(
        struct writer *w, const ProtobufCFieldDescriptor *map, const ProtobufCMessage *entry, json_t *object)
{
	const ProtobufCFieldDescriptor *key = proto_map_key(map), *value = proto_map_value(map);
	CLEANUP_JSON json_t *name = NULL;
	json_t *tree;

	int r = map_key_write(w, key, (const char *)entry + key->offset, &name);
	if (r < 0)
		return r;
	r = value_write(w, value, (const char *)entry + value->offset, &tree);
	if (r < 0)
		return r;
	return json_object_set_new_nocheck(object, json_string_value(name), tree) < 0 ? -ENOMEM : 0;
}

static int map_write(struct writer *w, const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message,
        json_t **ret)
{
	CLEANUP_JSON json_t *object = json_object();
	const char *items = array_items(field, message);

	if (!object)
		return -ENOMEM;
	for (size_t i = 0; i < array_count(field, message); i++) {
		int r = entry_write(
		        w, field, ((const ProtobufCMessage *const *)(const void *)items)[i], object);

		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(object);
	return 0;
}

static bool scalar_is_default(const ProtobufCFieldDescriptor *field, const void *slot)
{
	static const char ZEROS[8];

	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(const char *const *)slot;
		return !text || !text[0];
	}
	if (field->type == PROTOBUF_C_TYPE_BYTES)
		return ((const ProtobufCBinaryData *)slot)->len == 0;
	return memcmp(slot, ZEROS, proto_type_size(field->type)) == 0;
}

static bool field_is_given(
        const struct writer *w, const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	const char *quantifier = (const char *)message + field->quantifier_offset;
	const void *slot = (const char *)message + field->offset;
	bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;

	if (proto_field_in_oneof(field))
		return *(const uint32_t *)(const void *)quantifier == field->id &&
		        (!is_message || *(const void *const *)slot);
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return array_count(field, message) > 0 || w->flags & PROTO_WRITE_DEFAULTS;
	if (is_message)
		return *(const void *const *)slot;
	if (field->label == PROTOBUF_C_LABEL_REQUIRED)
		return true;
	if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
		if (field->type == PROTOBUF_C_TYPE_STRING)
			return *(const void *const *)slot &&
			        *(const void *const *)slot != field->default_value;
		return *(const protobuf_c_boolean *)(const void *)quantifier;
	}
	return w->flags & PROTO_WRITE_DEFAULTS || !scalar_is_default(field, slot);
}

static int field_write(struct writer *w, const ProtobufCFieldDescriptor *field,
        const ProtobufCMessage *message, json_t **ret)
{
	if (field->label != PROTOBUF_C_LABEL_REPEATED)
		return value_write(w, field, (const char *)message + field->offset, ret);
	return proto_field_is_map(message->descriptor, field) ? map_write(w, field, message, ret)
	                                                      : list_write(w, field, message, ret);
}

static int fields_write(struct writer *w, const ProtobufCMessage *message, json_t *object)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;

	for (unsigned i = 0; i < type->n_fields; i++) {
		char name[PROTO_NAME_MAX];
		json_t *tree;

		if (!field_is_given(w, &type->fields[i], message))
			continue;
		int r = field_write(w, &type->fields[i], message, &tree);
		if (r < 0)
			return r;
		if (json_object_set_new_nocheck(object, proto_json_name(&type->fields[i], name), tree) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int message_write(struct writer *w, const ProtobufCMessage *message, json_t **ret)
{
	if (!message)
		return tree_made(json_object(), ret);
	if (proto_form(message->descriptor) != PROTO_FORM_MESSAGE)
		return time_write(message, ret);
	if (w->depth == DEPTH_MAX)
		return -EINVAL;
	CLEANUP_JSON json_t *object = json_object();
	if (!object)
		return -ENOMEM;
	w->depth++;
	int r = fields_write(w, message, object);
	w->depth--;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(object);
	return 0;
}

/* --- text --- */

static int real_digits(const json_t *tree)
{
	int most = 15, digits;
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_real(tree))
		return number_digits_double(json_real_value(tree));
	json_array_foreach(tree, i, item)
	{
		digits = real_digits(item);
		most = digits > most ? digits : most;
	}
	json_object_foreach((json_t *)(uintptr_t)tree, key, item)
	{
		digits = real_digits(item);
		most = digits > most ? digits : most;
	}
	return most;
}

char *json_text(const json_t *tree, unsigned flags)
{
	size_t layout = flags & PROTO_WRITE_INDENT ? JSON_INDENT(2) : JSON_COMPACT;
	/* One precision for the whole text is all that jansson takes: as many digits as the neediest
	 * number. */
	char *text = json_dumps(tree, layout | JSON_ENCODE_ANY | JSON_REAL_PRECISION(real_digits(tree)));

	if (!text || !(flags & PROTO_WRITE_INDENT))
		return text;
	size_t n = strlen(text);
	char *longer = realloc(text, n + 2);
	if (!longer) {
		free(text);
		return NULL;
	}
	memcpy(longer + n, "\n", 2);
	return longer;
}

int proto_write_tree(const ProtobufCMessage *message, unsigned flags, json_t **ret)
{
	struct writer w = { .flags = flags };

	return message_write(&w, message, ret);
}

int proto_write_json(const ProtobufCMessage *message, unsigned flags, char **ret_text)
{
	CLEANUP_JSON json_t *tree = NULL;
	int r = proto_write_tree(message, flags, &tree);

	if (r < 0)
		return r;
	char *text = json_text(tree, flags);
	if (!text)
		return -ENOMEM;
	*ret_text = text;
	return 0;
}

int proto_write_yaml(const ProtobufCMessage *message, unsigned flags, char **ret_text)
{
	CLEANUP_JSON json_t *tree = NULL;
	int r = proto_write_tree(message, flags, &tree);

	return r < 0 ? r : yaml_text(tree, ret_text);
}
