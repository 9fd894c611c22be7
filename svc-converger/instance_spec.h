/* An InstanceSpec at rest: packed, with the few fields that are looked at often beside it. Ten thousand unpacked
 * trees would cost ten times as much. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUNTIME_ID_MAX = 33, ALLOCATION_ID_MAX = 129 }; /* bytes with the NUL */

struct instance_spec {
	uint64_t memory_bytes;
	uint64_t huge_page_bytes;   /* 0: normal pages */
	uint64_t balloon_min_bytes; /* 0: no balloon */
	uint64_t started_hash;      /* of all that needs a new start to take effect */
	uint64_t nics_hash;         /* of the NICs' filters */
	uint64_t rebind_hash;       /* of the identity a restored guest must take on; 0: none */
	uint32_t vcpus;
	Bc__V1__InstanceSpec__DesiredState desired_state;
	bool is_job;
	bool uses_netd;   /* has a bridge or macvtap NIC */
	bool is_filtered; /* rules guard it: a PRIVATE or NONE policy, or SSH from the host only */
	bool has_image, has_restore, has_user_data, has_volumes, has_placement, has_gpus, has_ports;
	bool has_macs; /* of its own choice, where another instance could have the same */
	char runtime[RUNTIME_ID_MAX];
	const char *allocation_id; /* behind data; NUL-terminated */
	size_t size;               /* of data, in bytes */
	uint8_t data[];
};

/* The network of the host that a NIC's MAC has to be the only one on: a bridge's name, or a macvtap's parent. NULL: it
 * is on none. Weak. */
const char *instance_nic_segment(const Bc__V1__Nic *nic);

/* -ENOMEM; -EINVAL for ids that do not fit (spec_check refuses those before). */
int instance_spec_new(const Bc__V1__InstanceSpec *message, struct instance_spec **ret);
/* From a store: -EBADMSG when the bytes are no InstanceSpec. */
int instance_spec_parse(const void *data, size_t size, struct instance_spec **ret);
struct instance_spec *instance_spec_free(struct instance_spec *spec);

/* The whole tree, owned by the caller (bc__v1__instance_spec__free_unpacked). NULL: no memory. */
Bc__V1__InstanceSpec *instance_spec_unpack(const struct instance_spec *spec);
/* True when the packed message is this one, byte for byte. scratch of *n_scratch bytes is grown as needed. */
bool instance_spec_equals(const struct instance_spec *spec, const Bc__V1__InstanceSpec *message,
        uint8_t **scratch, size_t *n_scratch);
