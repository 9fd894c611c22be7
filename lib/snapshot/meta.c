#include "lib/snapshot/meta.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define FORMAT "bc-snapshot/1"

static void cleanup_json(json_t **json)
{
	json_decref(*json);
}
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))

const char *snapshot_kind_to_string(enum snapshot_kind kind)
{
	switch (kind) {
	case SNAPSHOT_DISK:
		return "disk";
	case SNAPSHOT_MEMORY:
		return "memory";
	}
	return NULL;
}

/* --- out --- */

static json_t *volumes_pack(const struct snapshot_meta *meta)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < meta->n_volumes; i++) {
		const struct snapshot_volume *v = &meta->volumes[i];
		json_t *item = json_pack("{ss ss sb sI}", "id", v->id, "serial", v->serial, "read_only",
		        (int)v->read_only, "bytes", (json_int_t)v->bytes);

		if (json_array_append_new(list, item) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int snapshot_meta_print(const struct snapshot_meta *meta, char **ret)
{
	CLEANUP_JSON json_t *root = json_pack("{ss ss ss ss ss ss ss sI sI sI sI s{ss sI ss} so}", "format",
	        FORMAT, "runtime", meta->runtime, "kind", snapshot_kind_to_string(meta->kind), "instance_id",
	        meta->instance_id, "allocation_id", meta->allocation_id, "hypervisor_version",
	        meta->hypervisor_version, "cpu_model", meta->cpu_model, "created_usec",
	        (json_int_t)meta->created_usec, "vcpus", (json_int_t)meta->vcpus, "memory_bytes",
	        (json_int_t)meta->memory_bytes, "nics", (json_int_t)meta->n_nics, "disk", "format",
	        image_format_to_string(meta->disk_format), "bytes", (json_int_t)meta->disk_bytes,
	        "image_digest", meta->image_digest, "volumes", volumes_pack(meta));
	char *text;

	/* Texts that are no UTF-8 cannot be packed: they were checked where they came in. */
	if (!root)
		return -EINVAL;
	text = json_dumps(root, JSON_INDENT(2));
	if (!text)
		return -ENOMEM;
	*ret = text;
	return 0;
}

/* --- in --- */

static int field_refuse(const char *name, const char *must, struct err *err)
{
	return err_set(err, -EINVAL, "meta.json: '%s' must be %s", name, must);
}

static int text_take(const json_t *object, const char *name, char *buf, size_t size, struct err *err)
{
	const json_t *value = json_object_get(object, name);
	size_t n = json_string_length(value);

	if (!json_is_string(value) || n >= size || memchr(json_string_value(value), 0, n))
		return field_refuse(name, "a string, and not longer than any we write", err);
	memcpy(buf, json_string_value(value), n + 1);
	return 0;
}

static int number_take(const json_t *object, const char *name, uint64_t max, uint64_t *ret, struct err *err)
{
	const json_t *value = json_object_get(object, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	        (uint64_t)json_integer_value(value) > max)
		return field_refuse(name, "a number that is not negative or absurd", err);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

static int number32_take(const json_t *object, const char *name, uint32_t *ret, struct err *err)
{
	uint64_t v;
	int r = number_take(object, name, UINT32_MAX, &v, err);

	if (r >= 0)
		*ret = (uint32_t)v;
	return r;
}

static int kind_take(const json_t *root, enum snapshot_kind *ret, struct err *err)
{
	char text[16];
	int r = text_take(root, "kind", text, sizeof(text), err);

	if (r < 0)
		return r;
	for (int kind = SNAPSHOT_DISK; kind <= SNAPSHOT_MEMORY; kind++)
		if (strcmp(text, snapshot_kind_to_string((enum snapshot_kind)kind)) == 0) {
			*ret = (enum snapshot_kind)kind;
			return 0;
		}
	return field_refuse("kind", "\"disk\" or \"memory\"", err);
}

static int disk_take(const json_t *root, struct snapshot_meta *meta, struct err *err)
{
	const json_t *disk = json_object_get(root, "disk");
	char text[16];
	int r = text_take(disk, "format", text, sizeof(text), err);

	if (r >= 0 && image_format_from_string(text, &meta->disk_format) < 0)
		r = field_refuse("disk.format", "\"raw\" or \"qcow2\"", err);
	if (r >= 0)
		r = number_take(disk, "bytes", INT64_MAX, &meta->disk_bytes, err);
	if (r >= 0)
		r = text_take(disk, "image_digest", meta->image_digest, sizeof(meta->image_digest), err);
	if (r >= 0 && meta->image_digest[0] && !digest_is_valid(meta->image_digest))
		r = field_refuse("disk.image_digest", "\"sha256:\" and 64 hex digits", err);
	return r;
}

static int volume_take(const json_t *item, struct snapshot_volume *ret, struct err *err)
{
	int r = text_take(item, "id", ret->id, sizeof(ret->id), err);

	if (r >= 0 && !volume_id_is_valid(ret->id))
		r = field_refuse("volumes[].id", "a volume id", err);
	if (r >= 0)
		r = text_take(item, "serial", ret->serial, sizeof(ret->serial), err);
	if (r >= 0 && !serial_is_valid(ret->serial))
		r = field_refuse("volumes[].serial", "a serial", err);
	if (r >= 0)
		r = number_take(item, "bytes", INT64_MAX, &ret->bytes, err);
	if (r >= 0 && !json_is_boolean(json_object_get(item, "read_only")))
		r = field_refuse("volumes[].read_only", "true or false", err);
	if (r >= 0)
		ret->read_only = json_is_true(json_object_get(item, "read_only"));
	return r;
}

static int volumes_take(const json_t *root, struct snapshot_meta *meta, struct err *err)
{
	const json_t *list = json_object_get(root, "volumes");

	if (!json_is_array(list) || json_array_size(list) > SNAPSHOT_VOLUMES_MAX)
		return field_refuse("volumes", "a list of at most 24", err);
	meta->n_volumes = json_array_size(list);
	for (size_t i = 0; i < meta->n_volumes; i++) {
		int r = volume_take(json_array_get(list, i), &meta->volumes[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

int snapshot_meta_parse(const char *text, size_t n_text, struct snapshot_meta *ret, struct err *err)
{
	struct snapshot_meta meta = { 0 };
	json_error_t where;
	char format[32];
	int r;

	if (n_text > SNAPSHOT_META_JSON_MAX)
		return err_set(
		        err, -EINVAL, "meta.json of %zu bytes is over %d", n_text, SNAPSHOT_META_JSON_MAX);
	CLEANUP_JSON json_t *root = json_loadb(text, n_text, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		return err_set(err, -EINVAL, "meta.json line %d: %s", where.line, where.text);
	r = text_take(root, "format", format, sizeof(format), err);
	if (r >= 0 && strcmp(format, FORMAT) != 0)
		r = err_set(err, -EINVAL, "meta.json: format '%s' is not %s", QUOTED(format), FORMAT);
	if (r >= 0)
		r = text_take(root, "runtime", meta.runtime, sizeof(meta.runtime), err);
	if (r >= 0)
		r = kind_take(root, &meta.kind, err);
	if (r >= 0)
		r = text_take(root, "instance_id", meta.instance_id, sizeof(meta.instance_id), err);
	if (r >= 0 && !uuid_is_valid(meta.instance_id))
		r = field_refuse("instance_id", "a UUID", err);
	if (r >= 0)
		r = text_take(root, "allocation_id", meta.allocation_id, sizeof(meta.allocation_id), err);
	if (r >= 0)
		r = text_take(root, "hypervisor_version", meta.hypervisor_version,
		        sizeof(meta.hypervisor_version), err);
	if (r >= 0)
		r = text_take(root, "cpu_model", meta.cpu_model, sizeof(meta.cpu_model), err);
	if (r >= 0)
		r = number_take(root, "created_usec", INT64_MAX, &meta.created_usec, err);
	if (r >= 0)
		r = number32_take(root, "vcpus", &meta.vcpus, err);
	if (r >= 0)
		r = number_take(root, "memory_bytes", INT64_MAX, &meta.memory_bytes, err);
	if (r >= 0)
		r = number32_take(root, "nics", &meta.n_nics, err);
	if (r >= 0)
		r = disk_take(root, &meta, err);
	if (r >= 0)
		r = volumes_take(root, &meta, err);
	if (r >= 0)
		*ret = meta;
	return r;
}

/* --- rules --- */

int snapshot_check_take(enum snapshot_kind kind, size_t n_writable_volumes, size_t n_gpus, struct err *err)
{
	if (kind == SNAPSHOT_DISK)
		return 0;
	if (n_gpus > 0)
		return err_set(err, -EBUSY,
		        "an instance with passthrough GPUs cannot be snapshotted with its memory; snapshot its "
		        "disk only");
	if (n_writable_volumes > 0)
		return err_set(err, -EBUSY,
		        "an instance with %zu read-write volumes cannot be snapshotted with its memory; snapshot "
		        "its disk only, or attach them read-only",
		        n_writable_volumes);
	return 0;
}

static int memory_check(
        const struct snapshot_meta *meta, const struct snapshot_target *target, struct err *err)
{
	int r = snapshot_check_take(SNAPSHOT_MEMORY, target->n_writable_volumes, target->n_gpus, NULL);

	if (meta->kind != SNAPSHOT_MEMORY)
		return err_set(
		        err, -EBUSY, "the snapshot holds a disk only: it cannot be restored with memory");
	if (!meta->cpu_model[0] || strcmp(meta->cpu_model, target->cpu_model) != 0)
		return err_set(err, -EBUSY,
		        "the snapshot's memory is from CPU model '%s', this host has '%s': only its disk can be "
		        "restored here",
		        QUOTED(meta->cpu_model), target->cpu_model);
	if (meta->vcpus != target->vcpus || meta->memory_bytes != target->memory_bytes)
		return err_set(err, -EBUSY,
		        "the snapshot's memory is from %" PRIu32 " vCPUs and %" PRIu64
		        " bytes, the instance has %" PRIu32 " and %" PRIu64 ": both must be the same",
		        meta->vcpus, meta->memory_bytes, target->vcpus, target->memory_bytes);
	if (meta->n_nics != target->n_nics)
		return err_set(err, -EBUSY,
		        "the snapshot's memory is from an instance with %" PRIu32 " NICs, this one has %zu",
		        meta->n_nics, target->n_nics);
	if (r < 0)
		return err_set(err, r,
		        "memory cannot be restored into an instance with %zu read-write volumes and %zu "
		        "passthrough GPUs",
		        target->n_writable_volumes, target->n_gpus);
	return 0;
}

int snapshot_check_restore(
        const struct snapshot_meta *meta, const struct snapshot_target *target, struct err *err)
{
	if (strcmp(meta->runtime, target->runtime) != 0)
		return err_set(err, -EBUSY, "the snapshot was made by runtime '%s': '%s' cannot restore it",
		        QUOTED(meta->runtime), target->runtime);
	if (meta->image_digest[0] && strcmp(meta->image_digest, target->image_digest) != 0)
		return err_set(err, -EBUSY,
		        "the snapshot's disk lies on image %s: the instance must boot from it, not from '%s'",
		        meta->image_digest, target->image_digest);
	if (target->root_disk_bytes != 0 && target->root_disk_bytes < meta->disk_bytes)
		return err_set(err, -EBUSY,
		        "a disk never shrinks: the snapshot's has %" PRIu64
		        " bytes, root_disk_bytes is %" PRIu64,
		        meta->disk_bytes, target->root_disk_bytes);
	return target->with_memory ? memory_check(meta, target, err) : 0;
}
