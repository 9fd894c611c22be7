#include "lib/text/proto_read.h"

#include "lib/base/quote.h"
#include "lib/base/suggest.h"
#include "lib/text/base64.h"
#include "lib/text/number.h"
#include "lib/text/proto_enum.h"
#include "lib/text/proto_shape.h"
#include "lib/text/well_known.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PATH_TEXT_MAX = 512 };

struct reader {
	struct problems *problems;
	size_t n_path; /* bytes of path; may count beyond what fits */
	char path[PATH_TEXT_MAX];
};

static int value_read(
        struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node, void *slot);
static int message_read(struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *node,
        ProtobufCMessage **ret);

/* --- messages about mistakes --- */

static size_t path_enter(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends to the path and returns what path_leave() needs. */
static size_t path_enter(struct reader *r, const char *fmt, ...)
{
	size_t old = r->n_path;
	va_list ap;

	va_start(ap, fmt);
	if (old < sizeof(r->path)) {
		int n = vsnprintf(r->path + old, sizeof(r->path) - old, fmt, ap);
		r->n_path += n > 0 ? (size_t)n : 0;
	}
	va_end(ap);
	return old;
}

static void path_leave(struct reader *r, size_t old)
{
	r->n_path = old;
	if (old < sizeof(r->path))
		r->path[old] = '\0';
}

__attribute__((format(printf, 4, 0))) static int complain_at(
        struct reader *r, unsigned line, unsigned column, const char *fmt, va_list ap)
{
	CLEANUP_FREE char *what = NULL;

	if (vasprintf(&what, fmt, ap) < 0)
		return -ENOMEM;
	problems_add(r->problems, line, column, "%s%s%s", r->path, r->path[0] ? ": " : "", what);
	return 0;
}

static int complain(struct reader *r, const struct doc_node *node, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static int complain_of_key(struct reader *r, const struct doc_node *node, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* Both return 0, so that reading goes on and finds the next mistake; the count says that it failed. */
static int complain(struct reader *r, const struct doc_node *node, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int result = complain_at(r, node->line, node->column, fmt, ap);
	va_end(ap);
	return result;
}

static int complain_of_key(struct reader *r, const struct doc_node *node, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int result = complain_at(r, node->key_line, node->key_column, fmt, ap);
	va_end(ap);
	return result;
}

static int complain_of_kind(struct reader *r, const struct doc_node *node, const char *expected)
{
	return complain(r, node, "%s stands where %s is expected", doc_kind_text(node->kind), expected);
}

/* --- scalars --- */

static bool holds_nul(const struct doc_node *node)
{
	return memchr(node->text, '\0', node->n_text) != NULL;
}

static bool is_scalar_number(const struct doc_node *node)
{
	return (node->kind == DOC_NUMBER || node->kind == DOC_STRING) && !holds_nul(node);
}

static int complain_of_integer(struct reader *r, const ProtobufCFieldDescriptor *field,
        const struct doc_node *node, int why, int64_t min, uint64_t max)
{
	uint64_t size;

	if (why == -ERANGE)
		return complain(r, node,
		        "%s is out of range; write a whole number from %" PRId64 " to %" PRIu64,
		        QUOTED(node->text), min, max);
	if (strstr(field->name, "_bytes") && number_guess_size(node->text, &size))
		return complain(
		        r, node, "'%s' is not a number of bytes; write %" PRIu64, QUOTED(node->text), size);
	return complain(r, node, "'%s' is not a whole number; write decimal digits without leading zeros",
	        QUOTED(node->text));
}

static int unsigned_read(struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node,
        uint64_t max, uint64_t *ret)
{
	uint64_t value;

	if (!is_scalar_number(node))
		return complain_of_kind(r, node, "a whole number");
	int why = number_parse_u64(node->text, &value);
	if (why == 0 && value > max)
		why = -ERANGE;
	if (why < 0)
		return complain_of_integer(r, field, node, why, 0, max);
	*ret = value;
	return 0;
}

static int signed_read(struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node,
        int64_t min, int64_t max, int64_t *ret)
{
	int64_t value;

	if (!is_scalar_number(node))
		return complain_of_kind(r, node, "a whole number");
	int why = number_parse_i64(node->text, &value);
	if (why == 0 && (value < min || value > max))
		why = -ERANGE;
	if (why < 0)
		return complain_of_integer(r, field, node, why, min, (uint64_t)max);
	*ret = value;
	return 0;
}

static int real_read(struct reader *r, const struct doc_node *node, double max, double *ret)
{
	double value;

	if (!is_scalar_number(node))
		return complain_of_kind(r, node, "a number");
	int why = number_parse_double(node->text, &value);
	if (why == 0 && isfinite(value) && fabs(value) > max)
		why = -ERANGE;
	if (why == -ERANGE)
		return complain(r, node, "%s is out of range; at most %g either way can be held",
		        QUOTED(node->text), max);
	if (why < 0)
		return complain(r, node,
		        "'%s' is not a number; write one such as 0.5, or NaN, Infinity, -Infinity",
		        QUOTED(node->text));
	*ret = value;
	return 0;
}

static int bool_read(struct reader *r, const struct doc_node *node, protobuf_c_boolean *slot)
{
	if (node->kind == DOC_STRING)
		return complain(r, node, "'%s' is not true or false; write one of these two without quotes",
		        QUOTED(node->text));
	if (node->kind != DOC_BOOL)
		return complain_of_kind(r, node, "true or false");
	*slot = strcmp(node->text, "true") == 0;
	return 0;
}

static int string_read(struct reader *r, const struct doc_node *node, char **slot)
{
	if (node->kind == DOC_NUMBER || node->kind == DOC_BOOL)
		return complain(r, node, "%s stands where text is expected; write it in quotes: \"%s\"",
		        doc_kind_text(node->kind), QUOTED(node->text));
	if (node->kind != DOC_STRING)
		return complain_of_kind(r, node, "text");
	if (holds_nul(node))
		return complain(r, node, "the text holds a NUL character; leave it out");
	char *copy = strdup(node->text);
	if (!copy)
		return -ENOMEM;
	*slot = copy;
	return 0;
}

static int bytes_read(struct reader *r, const struct doc_node *node, ProtobufCBinaryData *slot)
{
	if (node->kind == DOC_LIST || node->kind == DOC_MAP || node->kind == DOC_NULL)
		return complain_of_kind(r, node, "base64 text");
	int why = base64_decode(node->text, node->n_text, &slot->data, &slot->len);
	if (why == -ENOMEM)
		return why;
	/* The text itself may be a secret: it is not shown. */
	return why < 0
	        ? complain(r, node,
	                  "the text is not base64; write groups of four letters of A-Z, a-z, 0-9, + and /, "
	                  "ended with =")
	        : 0;
}

static int complain_of_enum(
        struct reader *r, const ProtobufCEnumDescriptor *type, const struct doc_node *node)
{
	struct suggestion suggestion = suggestion_of(node->text);
	char meant[SUGGESTION_TEXT_MAX];
	char names[256];
	size_t n = 0;

	names[0] = '\0';
	for (unsigned i = 0; i < type->n_values; i++) {
		const char *name = type->values[i].name;

		suggestion_offer(&suggestion, name);
		/* The zero of an enum says "not given": nobody has to write it. */
		if (type->values[i].value == 0 && type->n_values > 1)
			continue;
		if (n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "", name);
	}
	return complain(r, node, "'%s' is not a value of %s%s; one of: %s%s", QUOTED(node->text),
	        type->short_name, suggestion_text(&suggestion, meant), names, n >= sizeof(names) ? "…" : "");
}

static int enum_read(
        struct reader *r, const ProtobufCEnumDescriptor *type, const struct doc_node *node, int *slot)
{
	int64_t number;

	if (node->kind == DOC_LIST || node->kind == DOC_MAP)
		return complain_of_kind(r, node, "a name");
	if (node->kind == DOC_STRING && !holds_nul(node) && proto_enum_value(type, node->text, slot) == 0)
		return 0;
	if (node->kind == DOC_NUMBER && number_parse_i64(node->text, &number) == 0 && number >= INT32_MIN &&
	        number <= INT32_MAX && proto_enum_name(type, (int)number)) {
		*slot = (int)number;
		return 0;
	}
	return complain_of_enum(r, type, node);
}

/* --- well-known types --- */

static int time_read(struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *node,
        ProtobufCMessage **ret)
{
	bool is_timestamp = proto_form(type) == PROTO_FORM_TIMESTAMP;
	const char *expected = is_timestamp ? "a time; write one such as 2024-02-29T12:00:00Z"
	                                    : "a duration in seconds; write one such as 90s or 0.5s";
	struct proto_time time;

	if (node->kind != DOC_STRING || holds_nul(node))
		return complain_of_kind(r, node, expected);
	int why = is_timestamp ? timestamp_parse(node->text, &time) : duration_parse(node->text, &time);
	if (why < 0)
		return complain(r, node, "'%s' is not %s", QUOTED(node->text), expected);
	ProtobufCMessage *message = calloc(1, type->sizeof_message);
	if (!message)
		return -ENOMEM;
	type->message_init(message);
	/* Both types have int64 seconds = 1 and int32 nanos = 2. */
	memcpy((char *)message + type->fields[0].offset, &time.seconds, sizeof(time.seconds));
	memcpy((char *)message + type->fields[1].offset, &time.nanos, sizeof(time.nanos));
	*ret = message;
	return 0;
}

/* --- values --- */

static int number_read(
        struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node, void *slot)
{
	uint64_t u = 0;
	int64_t i = 0;
	double d = 0;
	int result;

	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		result = unsigned_read(r, field, node, UINT32_MAX, &u);
		*(uint32_t *)slot = (uint32_t)u;
		return result;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		result = unsigned_read(r, field, node, UINT64_MAX, &u);
		*(uint64_t *)slot = u;
		return result;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		result = signed_read(r, field, node, INT64_MIN, INT64_MAX, &i);
		*(int64_t *)slot = i;
		return result;
	case PROTOBUF_C_TYPE_FLOAT:
		result = real_read(r, node, (double)__FLT_MAX__, &d);
		*(float *)slot = (float)d;
		return result;
	case PROTOBUF_C_TYPE_DOUBLE:
		result = real_read(r, node, __DBL_MAX__, &d);
		*(double *)slot = d;
		return result;
	default: /* the signed 32-bit types */
		result = signed_read(r, field, node, INT32_MIN, INT32_MAX, &i);
		*(int32_t *)slot = (int32_t)i;
		return result;
	}
}

/* Fills the slot of one element; what could not be read leaves it empty. */
static int value_read(
        struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node, void *slot)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		return bool_read(r, node, slot);
	case PROTOBUF_C_TYPE_STRING:
		return string_read(r, node, slot);
	case PROTOBUF_C_TYPE_BYTES:
		return bytes_read(r, node, slot);
	case PROTOBUF_C_TYPE_ENUM:
		return enum_read(r, proto_field_enum(field), node, slot);
	case PROTOBUF_C_TYPE_MESSAGE:
		return message_read(r, proto_field_message(field), node, slot);
	default:
		return number_read(r, field, node, slot);
	}
}

/* --- lists and maps --- */

/* Room in the message for every item of node; NULL when there is none, or node is of another kind. */
static int array_new(struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node,
        enum doc_kind kind, ProtobufCMessage *message, char **ret)
{
	char *array;

	*ret = NULL;
	if (node->kind != kind)
		return complain_of_kind(r, node, doc_kind_text(kind));
	if (node->n_items == 0)
		return 0;
	array = calloc(node->n_items, proto_type_size(field->type));
	if (!array)
		return -ENOMEM;
	*(void **)((char *)message + field->offset) = array;
	*ret = array;
	return 0;
}

static size_t *array_count(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
	return (size_t *)((char *)message + field->quantifier_offset);
}

static int list_read(struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node,
        ProtobufCMessage *message)
{
	size_t size = proto_type_size(field->type);
	size_t *n = array_count(field, message);
	char *array;
	int result = array_new(r, field, node, DOC_LIST, message, &array);

	for (const struct doc_node *item = array ? node->first : NULL; item && result == 0;
	        item = item->next) {
		size_t old = path_enter(r, "[%zu]", *n);

		if (item->kind == DOC_NULL)
			result = complain(r, item, "null stands in a list; leave the entry out");
		else
			result = value_read(r, field, item, array + *n * size);
		(*n)++;
		path_leave(r, old);
	}
	return result;
}

/* The key's text as if it were a value. */
static int map_key_read(
        struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *item, void *slot)
{
	struct doc_node key = { .kind = DOC_STRING,
		.text = item->key,
		.n_text = item->n_key,
		.line = item->key_line,
		.column = item->key_column };

	if (field->type == PROTOBUF_C_TYPE_BOOL)
		key.kind = DOC_BOOL;
	if (key.kind == DOC_BOOL && strcmp(key.text, "true") != 0 && strcmp(key.text, "false") != 0)
		return complain(
		        r, &key, "'%s' is not a key of this map; keys are true and false", QUOTED(key.text));
	return value_read(r, field, &key, slot);
}

static int entry_read(struct reader *r, const ProtobufCFieldDescriptor *map, const struct doc_node *item,
        ProtobufCMessage *entry)
{
	const ProtobufCFieldDescriptor *key = proto_map_key(map), *value = proto_map_value(map);
	int result = map_key_read(r, key, item, (char *)entry + key->offset);

	if (result < 0)
		return result;
	if (item->kind == DOC_NULL)
		return complain(r, item, "null stands where a value is expected; leave the key out");
	return value_read(r, value, item, (char *)entry + value->offset);
}

static int map_read(struct reader *r, const ProtobufCFieldDescriptor *field, const struct doc_node *node,
        ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = proto_field_message(field);
	size_t *n = array_count(field, message);
	char *array;
	int result = array_new(r, field, node, DOC_MAP, message, &array);

	for (const struct doc_node *item = array ? node->first : NULL; item && result == 0;
	        item = item->next) {
		ProtobufCMessage *entry = calloc(1, type->sizeof_message);

		if (!entry)
			return -ENOMEM;
		type->message_init(entry);
		((ProtobufCMessage **)(void *)array)[(*n)++] = entry;
		size_t old = path_enter(r, "[\"%s\"]", QUOTED(item->key));
		result = entry_read(r, field, item, entry);
		path_leave(r, old);
	}
	return result;
}

/* --- messages --- */

static int complain_of_unknown_key(
        struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *item)
{
	struct suggestion suggestion = suggestion_of(item->key);
	char names[64][PROTO_NAME_MAX];
	char meant[SUGGESTION_TEXT_MAX];

	for (unsigned i = 0; i < type->n_fields && i < ARRAY_SIZE(names); i++)
		suggestion_offer(&suggestion, proto_json_name(&type->fields[i], names[i]));
	return complain_of_key(r, item, "unknown key '%s' in %s%s", QUOTED(item->key), type->short_name,
	        suggestion_text(&suggestion, meant));
}

/* The item that set this field, or another member of its oneof, before; NULL when none did. */
static const struct doc_node *given_before(const ProtobufCMessageDescriptor *type,
        const ProtobufCFieldDescriptor *field, const struct doc_node *const *given)
{
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *other = &type->fields[i];

		if (given[i] &&
		        (other == field ||
		                (proto_field_in_oneof(field) && proto_field_in_oneof(other) &&
		                        other->quantifier_offset == field->quantifier_offset)))
			return given[i];
	}
	return NULL;
}

static void presence_set(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
	char *quantifier = (char *)message + field->quantifier_offset;

	if (proto_field_in_oneof(field))
		*(uint32_t *)(void *)quantifier = field->id;
	else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_MESSAGE &&
	        field->type != PROTOBUF_C_TYPE_STRING)
		*(protobuf_c_boolean *)quantifier = 1;
}

static int field_read(struct reader *r, const ProtobufCMessageDescriptor *type,
        const ProtobufCFieldDescriptor *field, const struct doc_node *item, ProtobufCMessage *message)
{
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return proto_field_is_map(type, field) ? map_read(r, field, item, message)
		                                       : list_read(r, field, item, message);
	/* Also when reading fails: what is half read must be freed with the message, and a oneof frees
	 * only its case. */
	presence_set(field, message);
	return value_read(r, field, item, (char *)message + field->offset);
}

static int item_read(struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *item,
        const struct doc_node **given, ProtobufCMessage *message)
{
	const ProtobufCFieldDescriptor *field = proto_field_find(type, item->key, item->n_key);
	char name[PROTO_NAME_MAX];

	if (!field)
		return complain_of_unknown_key(r, type, item);
	if (item->kind == DOC_NULL)
		return 0;
	const struct doc_node *before = given_before(type, field, given);
	if (before)
		return complain_of_key(r, item,
		        "'%s' and '%s' (line %" PRIu32 ") exclude each other; remove one", QUOTED(item->key),
		        QUOTED(before->key), before->key_line);
	given[field - type->fields] = item;
	size_t old = path_enter(r, "%s%s", r->path[0] ? "." : "", proto_json_name(field, name));
	int result = field_read(r, type, field, item, message);
	path_leave(r, old);
	return result;
}

static int fields_read(struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *node,
        ProtobufCMessage *message)
{
	CLEANUP_FREE const struct doc_node **given =
	        calloc(type->n_fields + 1, sizeof(const struct doc_node *));
	int result = 0;

	if (!given)
		return -ENOMEM;
	for (const struct doc_node *item = node->first; item && result == 0; item = item->next)
		result = item_read(r, type, item, given, message);
	return result;
}

static int message_read(struct reader *r, const ProtobufCMessageDescriptor *type, const struct doc_node *node,
        ProtobufCMessage **ret)
{
	if (proto_form(type) != PROTO_FORM_MESSAGE)
		return time_read(r, type, node, ret);
	if (node->kind != DOC_MAP)
		return complain_of_kind(r, node, "a mapping");
	ProtobufCMessage *message = calloc(1, type->sizeof_message);
	if (!message)
		return -ENOMEM;
	type->message_init(message);
	/* Handed over at once: what was read so far is freed with the whole. */
	*ret = message;
	return fields_read(r, type, node, message);
}

int proto_read_node(const struct doc_node *node, const char *path, const ProtobufCMessageDescriptor *type,
        ProtobufCMessage **ret, struct problems *problems)
{
	struct reader r = { .problems = problems };
	size_t n_problems = problems->n;
	ProtobufCMessage *message = NULL;

	(void)path_enter(&r, "%s", path);
	int result = message_read(&r, type, node, &message);
	if (result == 0 && problems->n > n_problems)
		result = -EINVAL;
	if (result < 0) {
		protobuf_c_message_free_unpacked(message, NULL);
		return result;
	}
	*ret = message;
	return 0;
}

int proto_read(const char *text, size_t n_text, const ProtobufCMessageDescriptor *type,
        ProtobufCMessage **ret, struct problems *problems)
{
	CLEANUP(doc) struct doc *doc = NULL;
	int result = doc_parse(text, n_text, &doc, problems);

	return result < 0 ? result : proto_read_node(doc_root(doc), "", type, ret, problems);
}
