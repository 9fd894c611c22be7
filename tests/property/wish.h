/* What is wished of the node: a NodeSpec in the few dimensions that the steps change, always one that the converger
 * accepts. */
#pragma once

#include "tests/property/random.h"

#include "lib/base/ids.h"
#include "lib/base/sha256.h"

#include "bc/v1/node.pb-c.h"

enum {
	WISH_INSTANCES = 12,
	WISH_NICS = 3,
	WISH_ATTACHMENTS = 2,
	WISH_VOLUMES = 7,
	WISH_PORTS = 2,
	WISH_IMAGES = 3,
	WISH_RUNTIMES = 2,
	WISH_SNAPSHOTS = 6,
	WISH_SNAPSHOTS_MADE =
	        4, /* of them: made before the run; the others are the last that were taken in it */
	WISH_TEXT_MAX = 400,
};

#define WISH_BRIDGE "br0"

struct wish_nic {
	bool is_bridge; /* else user mode */
	Bc__V1__Nic__Policy policy;
	unsigned n_addresses; /* 0..2 */
	unsigned octet;       /* of the first address */
	unsigned queues;
};

struct wish_attachment {
	unsigned volume;
	bool read_only;
};

/* A tar that an instance can be made from, and what that has to have in common with it. */
struct wish_snapshot {
	bool exists, with_memory;
	char url[256];
	char digest[SHA256_DIGEST_MAX];
	uint64_t size_bytes;
	unsigned runtime, vcpus, memory_mib, n_nics;
};

struct wish_instance {
	bool is_wished;
	bool was_wished; /* once, under this id */
	char id[UUID_TEXT_MAX];
	unsigned allocation;
	unsigned runtime;
	Bc__V1__InstanceSpec__DesiredState desired;
	bool is_job, ssh_from_host_only;
	unsigned vcpus, memory_mib;
	unsigned n_nics, n_attachments, n_ports;
	struct wish_nic nics[WISH_NICS];
	struct wish_attachment attachments[WISH_ATTACHMENTS];
	unsigned guest_port;
	unsigned image;               /* 0: direct kernel boot */
	unsigned user_data;           /* 0: none */
	struct wish_snapshot restore; /* which one it is made from */
	unsigned identity;            /* 0: none; a restored guest has to take it on */
};

struct wish_volume {
	enum { WISH_UNNAMED, WISH_PRESENT, WISH_ABSENT } state;
	uint64_t size_mib; /* never shrinks, whatever became of the volume meanwhile */
};

struct wish_image {
	char url[256];
	char digest[SHA256_DIGEST_MAX];
	uint64_t size_bytes;
};

struct wish {
	struct random *random; /* weak */
	struct wish_instance instances[WISH_INSTANCES];
	struct wish_volume volumes[WISH_VOLUMES];
	struct wish_image images[WISH_IMAGES];
	struct wish_snapshot snapshots[WISH_SNAPSHOTS];
	bool without_instances; /* the section is left out: no opinion */
	uint64_t revision;      /* the last that was given out */
};

void wish_init(struct wish *wish, struct random *random);
/* One random change; what it was, for the trace. */
void wish_change(struct wish *wish, char ret[static WISH_TEXT_MAX]);
/* One that is not there, or is down, is to be up. */
void wish_start_one(struct wish *wish);
/* An instance that was never wished, so that nothing of it is anywhere, and may be later; NULL for none. */
const struct wish_instance *wish_newcomer(struct wish *wish);
/* Nothing is wished any more, and no volume either. */
void wish_nothing(struct wish *wish);

/* The whole as a message under a new revision; everything points into ret or wish. */
struct wish_message {
	Bc__V1__NodeSpec spec;
	Bc__V1__Instances instances;
	Bc__V1__Volume volumes[WISH_VOLUMES], *volume_pointers[WISH_VOLUMES];
	Bc__V1__InstanceSpec *instance_pointers[WISH_INSTANCES];
	struct wish_instance_message {
		Bc__V1__InstanceSpec spec;
		char allocation_id[32], user_data_ref[32], identity_ref[32];
		Bc__V1__RestoreFrom restore;
		Bc__V1__Boot boot;
		Bc__V1__ImageBoot image;
		Bc__V1__KernelBoot kernel;
		struct wish_nic_message {
			Bc__V1__Nic nic;
			Bc__V1__BridgeAttachment bridge;
			Bc__V1__UserAttachment user;
			char addresses[2][48], *address_pointers[2];
			char *prefix_pointers[1];
		} nics[WISH_NICS];
		Bc__V1__Nic *nic_pointers[WISH_NICS];
		struct {
			Bc__V1__VolumeAttachment attachment;
			char id[16], serial[16];
		} attachments[WISH_ATTACHMENTS];
		Bc__V1__VolumeAttachment *attachment_pointers[WISH_ATTACHMENTS];
		Bc__V1__PortMapping ports[WISH_PORTS], *port_pointers[WISH_PORTS];
	} items[WISH_INSTANCES];
	char volume_ids[WISH_VOLUMES][16];
};
void wish_fill(struct wish *wish, struct wish_message *ret);

/* NULL when no slot has that id. */
const struct wish_instance *wish_find(const struct wish *wish, const char *id);
void wish_allocation(const struct wish_instance *instance, char ret[static 32]);
void wish_volume_id(unsigned volume, char ret[static 16]);
const char *wish_runtime(unsigned runtime);
void wish_ref(unsigned number, char ret[static 32]); /* of user data, and of an identity */
/* A runtime must not make it from its snapshot: another runtime's, or a memory that it does not fit. */
bool wish_restore_is_wrong(const struct wish_instance *instance);
/* The host port of mapping i of the instance in that slot: slots never share one. */
uint16_t wish_port(unsigned slot, unsigned i);
void wish_address(
        const struct wish_nic *nic, unsigned slot, unsigned nic_index, unsigned i, char ret[static 48]);
