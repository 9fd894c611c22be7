/* What a snapshot says of itself (meta.json in its tar), and the rules on which snapshot may be taken and restored
 * where. The rules are the same for every runtime, and pure. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/ids.h"
#include "lib/base/sha256.h"
#include "lib/image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SNAPSHOT_TEXT_MAX = 129, /* bytes with the NUL, of the texts below */
	SNAPSHOT_VOLUMES_MAX = 24,
	SNAPSHOT_META_JSON_MAX = 64 * 1024, /* bytes */
};
#define SNAPSHOT_META_NAME "meta.json" /* the tar's first member */

enum snapshot_kind { SNAPSHOT_DISK, SNAPSHOT_MEMORY };
const char *snapshot_kind_to_string(enum snapshot_kind kind); /* "disk", "memory" */

struct snapshot_volume {
	char id[VOLUME_ID_MAX];
	char serial[SERIAL_MAX];
	bool read_only;
	uint64_t bytes;
};

struct snapshot_meta {
	char runtime[SNAPSHOT_TEXT_MAX]; /* the id of the runtime that made it */
	enum snapshot_kind kind;         /* SNAPSHOT_MEMORY holds the disk of the same moment too */
	char instance_id[UUID_TEXT_MAX];
	char allocation_id[SNAPSHOT_TEXT_MAX];
	char hypervisor_version[SNAPSHOT_TEXT_MAX];
	char cpu_model[SNAPSHOT_TEXT_MAX]; /* the one really in use; "" with SNAPSHOT_DISK when unknown */
	uint64_t created_usec;             /* since the epoch */
	uint32_t vcpus;
	uint64_t memory_bytes;
	uint32_t n_nics;
	/* The root disk in the tar; disk_bytes is 0 when the instance has none (direct kernel boot). */
	enum image_format disk_format;
	uint64_t disk_bytes; /* as the guest sees it */
	char image_digest
	        [SHA256_DIGEST_MAX]; /* of the image an overlay needs below it; "" when it stands alone */
	struct snapshot_volume
	        volumes[SNAPSHOT_VOLUMES_MAX]; /* attached then; their contents are not in the tar */
	size_t n_volumes;
};

/* *ret is owned by the caller. */
int snapshot_meta_print(const struct snapshot_meta *meta, char **ret);
/* Refuses (-EINVAL, naming the field) what is not a JSON object of ours; members it does not know are ignored. */
int snapshot_meta_parse(const char *text, size_t n_text, struct snapshot_meta *ret, struct err *err);

/* May this be taken? -EBUSY with the reason: memory beside a read-write volume (it would go on while the memory's
 * view of it does not) or with passthrough GPUs (their state is in the device). */
int snapshot_check_take(enum snapshot_kind kind, size_t n_writable_volumes, size_t n_gpus, struct err *err);

/* The new instance, and this host. All weak. */
struct snapshot_target {
	const char *runtime;
	const char *cpu_model;
	bool with_memory;
	const char *image_digest; /* of its boot.image; "" for direct kernel boot */
	uint64_t root_disk_bytes; /* 0: as the snapshot's */
	uint32_t vcpus;
	uint64_t memory_bytes;
	size_t n_nics;
	size_t n_writable_volumes;
	size_t n_gpus;
};
/* May this snapshot become that instance? -EBUSY with the reason. */
int snapshot_check_restore(
        const struct snapshot_meta *meta, const struct snapshot_target *target, struct err *err);
