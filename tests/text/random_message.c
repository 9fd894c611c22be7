#include "tests/text/random_message.h"

#include "lib/base/cleanup.h"
#include "lib/base/utf8.h"
#include "lib/text/proto_shape.h"

#include <math.h>
#include <string.h>

enum { ITEMS_MAX = 3, TEXT_CHARACTERS_MAX = 12 };

/* splitmix64: the same numbers for the same seed on every machine. */
uint64_t random_next(struct random *random)
{
	uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t below(struct random *random, uint64_t n)
{
	return random_next(random) % n;
}

/* Zeros, extremes and small numbers more often than chance would. */
static uint64_t random_bits(struct random *random)
{
	switch (below(random, 4)) {
	case 0:
		return below(random, 3);
	case 1:
		return UINT64_MAX >> below(random, 64);
	case 2:
		return UINT64_C(1) << below(random, 64);
	default:
		return random_next(random);
	}
}

static double random_double(struct random *random)
{
	static const double SPECIAL[] = { 0.0, 1.0, -1.5, 0.1, 1e300, -1e-300, (double)NAN, HUGE_VAL,
		-HUGE_VAL };
	uint64_t bits = random_next(random);
	double value;

	if (below(random, 2))
		return SPECIAL[below(random, ARRAY_SIZE(SPECIAL))];
	memcpy(&value, &bits, sizeof(value));
	/* The bits of a NaN are not kept by any text. */
	return isnan(value) ? 0.5 : value;
}

static float random_float(struct random *random)
{
	float value = (float)random_double(random);

	return value;
}

static char *random_text(struct random *random)
{
	static const char *const WHOLE[] = { "", "null", "~", "true", "no", "on", "12", "-1.5e3", "0x1f",
		"1:30", "2024-02-29", ".inf", "a: b", "# c", "a #b", "- d", "? e", "---", "...", "|", ">-",
		"&a", "*a", "!t", "%d", "@", "`", "[x", "{y", "'", "\"", "\\", " lead", "trail ", "line\n",
		"\n\n x\n", "  two\n lines", "\ttab", "tab\t", "cr\r\n", "<<", "=", ",", ":", "k:" };
	static const uint32_t ODD[] = { 1, 7, '\t', '\n', '\r', 0x1b, 0x7f, 0x80, 0x85, 0x9f, 0xa0, 0xad,
		0x2028, 0x2029, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1f600, 0x10ffff };
	char text[TEXT_CHARACTERS_MAX * 4 + 1];
	size_t n = 0, n_characters = below(random, TEXT_CHARACTERS_MAX + 1);

	if (below(random, 3) == 0)
		return strdup(WHOLE[below(random, ARRAY_SIZE(WHOLE))]);
	for (size_t i = 0; i < n_characters; i++) {
		uint32_t c = below(random, 4) == 0 ? ODD[below(random, ARRAY_SIZE(ODD))]
		                                   : 0x20 + (uint32_t)below(random, 0x5f);

		n += utf8_encode(c, text + n);
	}
	return strndup(text, n);
}

static void random_bytes(struct random *random, ProtobufCBinaryData *slot)
{
	slot->len = below(random, 20);
	slot->data = slot->len ? malloc(slot->len) : NULL;
	for (size_t i = 0; i < slot->len; i++)
		slot->data[i] = (uint8_t)random_next(random);
}

static ProtobufCMessage *random_time(struct random *random, const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = calloc(1, type->sizeof_message);
	int64_t seconds = (int64_t)below(random, UINT64_C(253402300800));
	int32_t nanos = (int32_t)below(random, 2) * (int32_t)below(random, 1000000000);

	type->message_init(message);
	memcpy((char *)message + type->fields[0].offset, &seconds, sizeof(seconds));
	memcpy((char *)message + type->fields[1].offset, &nanos, sizeof(nanos));
	return message;
}

static void value_fill(
        struct random *random, const ProtobufCFieldDescriptor *field, void *slot, unsigned depth)
{
	const ProtobufCEnumDescriptor *values;

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)slot = (protobuf_c_boolean)below(random, 2);
		break;
	case PROTOBUF_C_TYPE_STRING:
		*(char **)slot = random_text(random);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		random_bytes(random, slot);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		values = proto_field_enum(field);
		*(int *)slot = values->values[below(random, values->n_values)].value;
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)slot = random_message(random, proto_field_message(field), depth);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		*(double *)slot = random_double(random);
		break;
	case PROTOBUF_C_TYPE_FLOAT:
		*(float *)slot = random_float(random);
		break;
	default:
		if (proto_type_size(field->type) == 4)
			*(uint32_t *)slot = (uint32_t)random_bits(random);
		else
			*(uint64_t *)slot = random_bits(random);
	}
}

/* Map keys: unlike each other by their number. */
static void key_fill(const ProtobufCFieldDescriptor *key, void *slot, size_t i)
{
	if (key->type == PROTOBUF_C_TYPE_STRING) {
		if (asprintf((char **)slot, "%s %zu", i ? "key:" : "", i) < 0)
			*(char **)slot = NULL;
	} else {
		memset(slot, (int)i, 1);
	}
}

static ProtobufCMessage *random_entry(
        struct random *random, const ProtobufCFieldDescriptor *map, size_t i, unsigned depth)
{
	const ProtobufCFieldDescriptor *key = proto_map_key(map), *value = proto_map_value(map);
	const ProtobufCMessageDescriptor *type = proto_field_message(map);
	ProtobufCMessage *entry = calloc(1, type->sizeof_message);

	type->message_init(entry);
	key_fill(key, (char *)entry + key->offset, i);
	value_fill(random, value, (char *)entry + value->offset, depth);
	return entry;
}

static void array_fill(struct random *random, const ProtobufCMessageDescriptor *type,
        const ProtobufCFieldDescriptor *field, ProtobufCMessage *message, unsigned depth)
{
	bool is_map = proto_field_is_map(type, field);
	size_t size = proto_type_size(field->type), n = below(random, ITEMS_MAX + 1);
	char *array = n ? calloc(n, size) : NULL;

	if (is_map && proto_map_key(field)->type == PROTOBUF_C_TYPE_BOOL && n > 2)
		n = 2;
	for (size_t i = 0; i < n; i++) {
		if (is_map)
			((ProtobufCMessage **)(void *)array)[i] = random_entry(random, field, i, depth);
		else
			value_fill(random, field, array + i * size, depth);
	}
	*(void **)(void *)((char *)message + field->offset) = array;
	*(size_t *)(void *)((char *)message + field->quantifier_offset) = n;
}

static void field_fill(struct random *random, const ProtobufCMessageDescriptor *type,
        const ProtobufCFieldDescriptor *field, ProtobufCMessage *message, unsigned depth)
{
	uint32_t *oneof_case = (uint32_t *)(void *)((char *)message + field->quantifier_offset);

	/* At the bottom only what ends there. */
	if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth == 0)
		return;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		array_fill(random, type, field, message, depth);
		return;
	}
	if (below(random, 2) || (proto_field_in_oneof(field) && *oneof_case))
		return;
	if (proto_field_in_oneof(field))
		*oneof_case = field->id;
	value_fill(random, field, (char *)message + field->offset, depth);
}

ProtobufCMessage *random_message(
        struct random *random, const ProtobufCMessageDescriptor *type, unsigned depth)
{
	if (proto_form(type) != PROTO_FORM_MESSAGE)
		return random_time(random, type);
	ProtobufCMessage *message = calloc(1, type->sizeof_message);
	type->message_init(message);
	for (unsigned i = 0; i < type->n_fields; i++)
		field_fill(random, type, &type->fields[i], message, depth ? depth - 1 : 0);
	return message;
}
