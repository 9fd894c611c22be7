#include "svc-converger/spec_intake.h"

#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/rpc/intake.h"
#include "lib/rpc/varint.h"
#include "svc-converger/instance.h"

#include "bc/v1/converger.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECES_MAX = 20000, /* more instances than may be are not worth a short cut */
	LENGTH_BYTES = 5,   /* of a length that is written before it is known */
	WIRE_BYTES = 2,     /* protobuf's wire type of what has a length */
};

/* Where the instances are: the field to go into, level by level. */
static const uint8_t path_in_node[] = { 2, 1 }, path_in_apply[] = { 1, 2, 1 };

/* The message without its known instances, and what was left out where. */
struct cut {
	const struct id_map *instances; /* weak */
	const uint8_t *path;            /* weak */
	size_t n_path;
	uint8_t *out; /* owned */
	size_t n_out;
	const struct instance **pieces; /* owned; an item each: the instance it is, or NULL: it is in out */
	size_t n_pieces, n_pieces_max;
	bool level_seen[3];
};

static int cut_note(struct cut *cut, const struct instance *known)
{
	if (cut->n_pieces == PIECES_MAX)
		return -E2BIG;
	if (cut->n_pieces == cut->n_pieces_max) {
		size_t n = cut->n_pieces_max ? cut->n_pieces_max * 2 : 64;
		const struct instance **pieces =
		        reallocarray((void *)cut->pieces, n, sizeof(struct instance *));

		if (!pieces)
			return -ENOMEM;
		cut->pieces = pieces;
		cut->n_pieces_max = n;
	}
	cut->pieces[cut->n_pieces++] = known;
	return 0;
}

/* The accepted instance that these bytes are, or NULL. An id comes first in all that writes fields in order. */
static const struct instance *cut_find(const struct cut *cut, const uint8_t *p, size_t n)
{
	static const uint8_t TAG_ID = 1 << 3 | WIRE_BYTES;
	const struct instance *known;
	char id[UUID_TEXT_MAX];

	if (n < 2 || p[0] != TAG_ID || p[1] >= sizeof(id) || p[1] > n - 2)
		return NULL;
	memcpy(id, p + 2, p[1]);
	id[p[1]] = 0;
	known = id_map_get(cut->instances, id);
	return known && known->spec && known->spec->size == n && memcmp(known->spec->data, p, n) == 0 ? known
	                                                                                              : NULL;
}

static void cut_copy(struct cut *cut, const uint8_t *from, const uint8_t *to)
{
	memcpy(cut->out + cut->n_out, from, (size_t)(to - from));
	cut->n_out += (size_t)(to - from);
}

static int skip_value(const uint8_t **p, const uint8_t *end, unsigned wire)
{
	uint64_t n = 0;

	switch (wire) {
	case 0:
		return varint_read(p, end, &n);
	case 1:
		n = 8;
		break;
	case 5:
		n = 4;
		break;
	case WIRE_BYTES:
		if (varint_read(p, end, &n) < 0)
			return -EBADMSG;
		break;
	default:
		return -EBADMSG;
	}
	if (n > (uint64_t)(end - *p))
		return -EBADMSG;
	*p += n;
	return 0;
}

/* Any failure means: no short cut, let the message as a whole say what is wrong with it. Not deeper than the path. */
static int cut_message(struct cut *cut, size_t level, const uint8_t *p, const uint8_t *end)
{
	while (p < end) {
		const uint8_t *begin = p, *value;
		size_t length_at;
		uint64_t tag, n = 0;
		int r;

		if (varint_read(&p, end, &tag) < 0)
			return -EBADMSG;
		value = p;
		if (skip_value(&p, end, tag & 7) < 0)
			return -EBADMSG;
		if (tag != ((uint64_t)cut->path[level] << 3 | WIRE_BYTES)) {
			cut_copy(cut, begin, p);
			continue;
		}
		(void)varint_read(&value, end, &n);
		if (level + 1 == cut->n_path) {
			const struct instance *known = cut_find(cut, value, n);

			r = cut_note(cut, known);
			if (r < 0)
				return r;
			if (!known)
				cut_copy(cut, begin, p);
			continue;
		}
		if (cut->level_seen[level])
			return -EBADMSG; /* twice: refused by the scan */
		cut->level_seen[level] = true;
		cut->out[cut->n_out++] = (uint8_t)tag;
		length_at = cut->n_out;
		cut->n_out += LENGTH_BYTES;
		r = cut_message(cut, level + 1, value, p);
		if (r < 0)
			return r;
		n = cut->n_out - length_at - LENGTH_BYTES;
		for (size_t i = 0; i < LENGTH_BYTES; i++, n >>= 7)
			cut->out[length_at + i] = (uint8_t)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
	}
	return 0;
}

static const ProtobufCMessageDescriptor *descriptor_of(enum spec_form form)
{
	return form == SPEC_APPLY ? &bc__v1__apply_request__descriptor : &bc__v1__node_spec__descriptor;
}

static int intake_parse(
        struct spec_intake *intake, enum spec_form form, const void *data, size_t size, struct err *err)
{
	int r = rpc_message_parse(descriptor_of(form), data, size, &intake->message, err);

	if (r < 0)
		return r;
	if (form == SPEC_APPLY) {
		const Bc__V1__ApplyRequest *request = (const Bc__V1__ApplyRequest *)intake->message;

		intake->spec = request->spec;
		intake->is_dry_run = request->dry_run;
	} else {
		intake->spec = (Bc__V1__NodeSpec *)intake->message;
	}
	if (intake->spec)
		return 0;
	protobuf_c_message_free_unpacked(intake->message, NULL);
	intake->message = NULL;
	return err_set(err, -EINVAL, "spec: missing; write a NodeSpec");
}

static bool destroys_volumes(const Bc__V1__NodeSpec *spec)
{
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (spec->volumes[i]->state == BC__V1__VOLUME__STATE__ABSENT)
			return true;
	return false;
}

/* Known and unpacked instances in the order in which they came. */
static int intake_merge(struct spec_intake *intake, const struct cut *cut)
{
	static const Bc__V1__InstanceSpec shell = BC__V1__INSTANCE_SPEC__INIT;
	bool needs_volumes = destroys_volumes(intake->spec);
	Bc__V1__Instances *parsed = intake->spec->instances;
	size_t n_parsed = 0;

	if (!parsed)
		return 0;
	bc__v1__instances__init(&intake->instances);
	intake->is_known = calloc(cut->n_pieces + 1, sizeof(bool));
	intake->shells = malloc((cut->n_pieces + 1) * sizeof(Bc__V1__InstanceSpec));
	intake->wholes = calloc(cut->n_pieces + 1, sizeof(Bc__V1__InstanceSpec *));
	intake->instances.items = calloc(cut->n_pieces + 1, sizeof(Bc__V1__InstanceSpec *));
	if (!intake->is_known || !intake->shells || !intake->wholes || !intake->instances.items)
		return -ENOMEM;
	for (size_t i = 0; i < cut->n_pieces; i++) {
		const struct instance *known = cut->pieces[i];
		Bc__V1__InstanceSpec *item;

		intake->is_known[i] = known;
		if (!known) {
			item = parsed->items[n_parsed++];
		} else if (known->spec->has_ports || known->spec->has_macs ||
		        (known->spec->has_volumes && needs_volumes)) {
			item = instance_spec_unpack(known->spec);
			if (!item)
				return -ENOMEM;
			intake->wholes[intake->n_wholes++] = item;
		} else {
			item = &intake->shells[i];
			*item = shell;
			item->id = (char *)known->id;
		}
		intake->instances.items[i] = item;
	}
	intake->instances.n_items = cut->n_pieces;
	intake->parsed = parsed;
	intake->spec->instances = &intake->instances;
	return 0;
}

static int intake_take_cut(struct spec_intake *intake, const struct spec_bytes *bytes, struct cut *cut)
{
	const uint8_t *data = bytes->size ? bytes->data : (const uint8_t *)"";
	int r;

	cut->path = bytes->form == SPEC_APPLY ? path_in_apply : path_in_node;
	cut->n_path = bytes->form == SPEC_APPLY ? sizeof(path_in_apply) : sizeof(path_in_node);
	if (bytes->size > RPC_WIRE_MAX)
		return -E2BIG;
	cut->out = malloc(bytes->size + cut->n_path * LENGTH_BYTES);
	r = cut->out ? cut_message(cut, 0, data, data + bytes->size) : -ENOMEM;
	if (r == 0)
		r = intake_parse(intake, bytes->form, cut->out, cut->n_out, NULL);
	if (r == 0)
		r = intake_merge(intake, cut);
	return r;
}

int spec_intake_read(const struct spec_bytes *bytes, const struct id_map *instances, struct spec_intake *ret,
        struct err *err)
{
	struct cut cut = { .instances = instances };
	int r;

	*ret = (struct spec_intake){ 0 };
	r = intake_take_cut(ret, bytes, &cut);
	free(cut.out);
	free((void *)cut.pieces);
	if (r == 0)
		return 0;
	spec_intake_done(ret);
	/* The whole of it has the words for what is wrong, with its places counted right. */
	r = intake_parse(ret, bytes->form, bytes->data, bytes->size, err);
	if (r < 0)
		return r;
	ret->is_known = calloc(ret->spec->instances ? ret->spec->instances->n_items + 1 : 1, sizeof(bool));
	if (!ret->is_known) {
		spec_intake_done(ret);
		return -ENOMEM;
	}
	return 0;
}

void spec_intake_done(struct spec_intake *intake)
{
	if (intake->parsed)
		intake->spec->instances = intake->parsed;
	if (intake->message)
		protobuf_c_message_free_unpacked(intake->message, NULL);
	for (size_t i = 0; i < intake->n_wholes; i++)
		bc__v1__instance_spec__free_unpacked(intake->wholes[i], NULL);
	free(intake->wholes);
	free(intake->instances.items);
	free(intake->shells);
	free(intake->is_known);
	*intake = (struct spec_intake){ 0 };
}
