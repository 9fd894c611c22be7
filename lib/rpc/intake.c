#include "lib/rpc/intake.h"

#include "lib/base/cleanup.h"
#include "lib/base/utf8.h"
#include "lib/rpc/varint.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	FIELDS_MAX = 64,      /* of one message type of ours */
	PATH_MAX_BYTES = 400, /* of a path in an error; longer ones are cut in front */
	SHORT_VARINT_MAX =
	        5, /* bytes of a tag or a length: padded to more, they are none to protobuf-c either */
	MALLOC_COST = 16,
	SCANNED_MEMBER_COST = 48, /* what protobuf-c notes down per field before it parses it */
};

enum wire_type { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

struct step {
	const ProtobufCFieldDescriptor *field;
	uint32_t index;
};

struct map_key {
	uint32_t message; /* ordinal of the message that holds the map */
	uint32_t field;
	const uint8_t *data; /* weak, into the input */
	size_t n;
	const ProtobufCMessageDescriptor *holder; /* for the words */
};

struct scan {
	struct err *err;
	size_t cost;
	size_t n_unknown;
	uint32_t n_messages;
	struct step path[RPC_DEPTH_MAX + 1];
	size_t depth;
	struct map_key *keys; /* owned */
	size_t n_keys, n_keys_allocated;
};

struct cursor {
	const uint8_t *p, *end;
};

static void path_print(const struct scan *s, char buf[static PATH_MAX_BYTES])
{
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < s->depth; i++) {
		const struct step *step = &s->path[i];
		int n = step->field->label == PROTOBUF_C_LABEL_REPEATED
		        ? snprintf(buf + at, PATH_MAX_BYTES - at, "%s%s[%u]", i ? "." : "", step->field->name,
		                  step->index)
		        : snprintf(buf + at, PATH_MAX_BYTES - at, "%s%s", i ? "." : "", step->field->name);
		if (n < 0 || (size_t)n >= PATH_MAX_BYTES - at)
			return; /* cut: the front says enough */
		at += (size_t)n;
	}
}

static int refuse(const struct scan *s, int code, const char *what)
{
	char path[PATH_MAX_BYTES];

	path_print(s, path);
	return err_set(s->err, code, "%s%s%s", path, path[0] ? ": " : "message: ", what);
}

/* The bytes of one value of this wire type; the cursor moves behind it. */
static int value_read(struct cursor *c, unsigned wire, struct cursor *ret)
{
	uint64_t n = 0;
	const uint8_t *start = c->p;

	switch (wire) {
	case WIRE_VARINT:
		if (varint_read(&c->p, c->end, &n) < 0)
			return -EBADMSG;
		*ret = (struct cursor){ start, c->p };
		return 0;
	case WIRE_64BIT:
		n = 8;
		break;
	case WIRE_32BIT:
		n = 4;
		break;
	case WIRE_BYTES:
		if (varint_read(&c->p, c->end, &n) < 0 || c->p - start > SHORT_VARINT_MAX)
			return -EBADMSG;
		break;
	default: /* groups are gone from proto3 */
		return -EBADMSG;
	}
	if (n > (uint64_t)(c->end - c->p))
		return -EBADMSG;
	*ret = (struct cursor){ c->p, c->p + n };
	c->p += n;
	return 0;
}

static unsigned wire_type_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return WIRE_32BIT;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return WIRE_64BIT;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return WIRE_BYTES;
	default:
		return WIRE_VARINT;
	}
}

static size_t element_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default:
		return wire_type_of(type) == WIRE_32BIT ? 4 : 8;
	}
}

static int cost_add(struct scan *s, size_t bytes)
{
	s->cost += bytes;
	return s->cost <= RPC_UNPACKED_MAX
	        ? 0
	        : refuse(s, -E2BIG, "too many elements for one message (15 MiB unpacked)");
}

static int enum_check(const struct scan *s, const ProtobufCFieldDescriptor *field, uint64_t v)
{
	char what[96];

	if (v <= INT32_MAX && protobuf_c_enum_descriptor_get_value(field->descriptor, (int)v))
		return 0;
	const ProtobufCEnumDescriptor *e = field->descriptor;
	(void)snprintf(what, sizeof(what), "%lld is no value of %.40s", (long long)(int64_t)v, e->name);
	return refuse(s, -EINVAL, what);
}

static int string_check(const struct scan *s, struct cursor v)
{
	size_t n = (size_t)(v.end - v.p);

	if (memchr(v.p, 0, n))
		return refuse(s, -EINVAL, "a NUL byte inside the string");
	return utf8_is_valid((const char *)v.p, n) ? 0 : refuse(s, -EINVAL, "not valid UTF-8");
}

/* protoc-c keeps no map flag: an entry is a repeated message "…Entry" of exactly key and value. */
static bool field_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *d = field->descriptor;
	size_t n;

	return field->type == PROTOBUF_C_TYPE_MESSAGE && field->label == PROTOBUF_C_LABEL_REPEATED &&
	        d->n_fields == 2 && strcmp(d->fields[0].name, "key") == 0 &&
	        strcmp(d->fields[1].name, "value") == 0 && (n = strlen(d->short_name)) >= 5 &&
	        strcmp(d->short_name + n - 5, "Entry") == 0;
}

static int map_key_note(struct scan *s, const ProtobufCMessageDescriptor *holder, uint32_t message,
        const ProtobufCFieldDescriptor *field, struct cursor entry)
{
	struct cursor key = { NULL, NULL };
	struct cursor v;
	uint64_t tag;

	for (struct cursor c = entry; c.p < c.end;) {
		if (varint_read(&c.p, c.end, &tag) < 0 || value_read(&c, tag & 7, &v) < 0)
			return refuse(s, -EBADMSG, "malformed map entry");
		if (tag >> 3 == 1)
			key = v;
	}
	if (s->n_keys == s->n_keys_allocated) {
		size_t n = s->n_keys_allocated ? s->n_keys_allocated * 2 : 64;
		struct map_key *keys = reallocarray(s->keys, n, sizeof(*keys));
		if (!keys)
			return -ENOMEM;
		s->keys = keys;
		s->n_keys_allocated = n;
	}
	s->keys[s->n_keys++] =
	        (struct map_key){ message, field->id, key.p, (size_t)(key.end - key.p), holder };
	return cost_add(s, sizeof(struct map_key));
}

static int message_scan(struct scan *s, const ProtobufCMessageDescriptor *d, struct cursor c);

static int packed_scan(struct scan *s, const ProtobufCFieldDescriptor *field, struct cursor v)
{
	unsigned wire = wire_type_of(field->type);

	while (v.p < v.end) {
		struct cursor element;
		struct cursor at;
		uint64_t n = 0;
		if (value_read(&v, wire, &element) < 0)
			return refuse(s, -EBADMSG, "malformed packed values");
		at = element;
		int r = cost_add(s, element_size(field->type));
		if (r == 0 && field->type == PROTOBUF_C_TYPE_ENUM && varint_read(&at.p, at.end, &n) == 0)
			r = enum_check(s, field, n);
		if (r < 0)
			return r;
	}
	return 0;
}

static int value_scan(struct scan *s, const ProtobufCFieldDescriptor *field, unsigned wire, struct cursor v)
{
	bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
	uint64_t n = 0;
	int r;

	if (wire != wire_type_of(field->type)) {
		if (repeated && wire == WIRE_BYTES)
			return packed_scan(s, field, v);
		return refuse(s, -EBADMSG, "sent with the wire type of another kind of field");
	}
	r = cost_add(s, repeated ? element_size(field->type) * 2 : 0); /* arrays grow by doubling */
	if (r < 0)
		return r;
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		r = cost_add(s, (size_t)(v.end - v.p) + 1 + MALLOC_COST);
		return r < 0 ? r : string_check(s, v);
	case PROTOBUF_C_TYPE_BYTES:
		return cost_add(s, (size_t)(v.end - v.p) + MALLOC_COST);
	case PROTOBUF_C_TYPE_MESSAGE:
		return message_scan(s, field->descriptor, v);
	case PROTOBUF_C_TYPE_ENUM:
		return varint_read(&v.p, v.end, &n) < 0 ? refuse(s, -EBADMSG, "malformed number")
		                                        : enum_check(s, field, n);
	default:
		return 0;
	}
}

/* One field of d. seen[] counts how often each field of this message came. */
static int field_scan(struct scan *s, const ProtobufCMessageDescriptor *d, uint32_t message,
        uint32_t seen[static FIELDS_MAX], struct cursor *c)
{
	struct cursor v;
	const uint8_t *start = c->p;
	uint64_t tag;

	if (varint_read(&c->p, c->end, &tag) < 0 || c->p - start > SHORT_VARINT_MAX || tag >> 3 == 0 ||
	        tag >> 3 > (1U << 29) - 1)
		return refuse(s, -EBADMSG, "malformed field tag");
	const ProtobufCFieldDescriptor *field =
	        protobuf_c_message_descriptor_get_field(d, (unsigned)(tag >> 3));
	if (!field) {
		if (value_read(c, tag & 7, &v) < 0)
			return refuse(s, -EBADMSG, "malformed or cut unknown field");
		if (++s->n_unknown > RPC_UNKNOWN_FIELDS_MAX)
			return refuse(
			        s, -E2BIG, "too many fields that this version does not know (limit 1000)");
		return cost_add(s,
		        SCANNED_MEMBER_COST + sizeof(ProtobufCMessageUnknownField) + MALLOC_COST +
		                (size_t)(v.end - v.p));
	}
	size_t i = (size_t)(field - d->fields);
	s->path[s->depth++] = (struct step){ field, seen[i] };
	int r;
	if (value_read(c, tag & 7, &v) < 0)
		r = refuse(s, -EBADMSG, "cut short");
	else if (field->label != PROTOBUF_C_LABEL_REPEATED && seen[i] > 0)
		r = refuse(s, -EINVAL, "given twice");
	else
		r = cost_add(s, SCANNED_MEMBER_COST);
	seen[i]++;
	if (r == 0)
		r = value_scan(s, field, tag & 7, v);
	if (r == 0 && field_is_map(field))
		r = map_key_note(s, d, message, field, v);
	s->depth--;
	return r;
}

/* Two members of one oneof: protobuf-c would free the one and keep the other; no sender of ours writes that. */
static int oneof_check(
        const struct scan *s, const ProtobufCMessageDescriptor *d, const uint32_t seen[static FIELDS_MAX])
{
	for (unsigned i = 0; i < d->n_fields; i++)
		for (unsigned k = i + 1;
		        k < d->n_fields && (d->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF); k++) {
			char what[160];
			if (!seen[i] || !seen[k] || !(d->fields[k].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
			        d->fields[i].quantifier_offset != d->fields[k].quantifier_offset)
				continue;
			(void)snprintf(what, sizeof(what),
			        "both '%.40s' and '%.40s' are set, only one may be", d->fields[i].name,
			        d->fields[k].name);
			return refuse(s, -EINVAL, what);
		}
	return 0;
}

/* Recursion is bounded by RPC_DEPTH_MAX. */
static int message_scan(struct scan *s, const ProtobufCMessageDescriptor *d, struct cursor c)
{
	uint32_t seen[FIELDS_MAX] = { 0 };
	uint32_t message = s->n_messages++;

	if (s->depth >= RPC_DEPTH_MAX)
		return refuse(s, -E2BIG, "nested deeper than 64 messages");
	if (d->n_fields > FIELDS_MAX)
		return refuse(s, -EOPNOTSUPP, "a type with more than 64 fields");
	int r = cost_add(s, d->sizeof_message + MALLOC_COST);
	while (r == 0 && c.p < c.end)
		r = field_scan(s, d, message, seen, &c);
	return r < 0 ? r : oneof_check(s, d, seen);
}

static int map_key_compare(const void *a, const void *b)
{
	const struct map_key *x = a;
	const struct map_key *y = b;

	if (x->message != y->message)
		return x->message < y->message ? -1 : 1;
	if (x->field != y->field)
		return x->field < y->field ? -1 : 1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->n ? memcmp(x->data, y->data, x->n) : 0;
}

static int map_keys_check(struct scan *s)
{
	if (s->n_keys < 2)
		return 0;
	qsort(s->keys, s->n_keys, sizeof(*s->keys), map_key_compare);
	for (size_t i = 1; i < s->n_keys; i++) {
		const struct map_key *k = &s->keys[i];
		if (map_key_compare(k - 1, k) != 0)
			continue;
		const ProtobufCFieldDescriptor *field =
		        protobuf_c_message_descriptor_get_field(k->holder, k->field);
		return err_set(s->err, -EINVAL, "%s of %s: key '%.*s' given twice", field->name,
		        k->holder->name, (int)(k->n < 64 ? k->n : 64), k->n ? (const char *)k->data : "");
	}
	return 0;
}

int rpc_message_check(
        const ProtobufCMessageDescriptor *descriptor, const void *data, size_t n, struct err *err)
{
	struct scan s = { .err = err };

	if (n > RPC_WIRE_MAX)
		return err_set(err, -E2BIG, "message of %zu bytes: at most 4 MiB are taken", n);
	const uint8_t *p = n ? data : (const uint8_t *)"";
	int r = message_scan(&s, descriptor, (struct cursor){ p, p + n });
	if (r == 0)
		r = map_keys_check(&s);
	free(s.keys);
	return r;
}

int rpc_message_parse(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t n,
        ProtobufCMessage **ret_message, struct err *err)
{
	int r = rpc_message_check(descriptor, data, n, err);

	if (r < 0)
		return r;
	ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, n, data);
	if (!message)
		return err_set(err, -EBADMSG, "not a well-formed %s", descriptor->name);
	*ret_message = message;
	return 0;
}
