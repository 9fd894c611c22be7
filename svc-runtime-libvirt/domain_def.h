/* What a domain is made of, in this service's own words: built from an EnsureRequest (domain_request.h), written as
 * domain XML and read back from it (domain_xml.h). Everything is a copy: jobs on other threads may hold one. */
#pragma once

#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/mac.h"
#include "lib/image/image.h"
#include "lib/vfio/pci.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DOMAIN_NAME_MAX = 3 + UUID_TEXT_MAX, /* "bc-" and the instance id, with the NUL */
	DOMAIN_NICS_MAX = 100,
	DOMAIN_USER_NICS_MAX = 12, /* the PCI slots kept for them */
	DOMAIN_VOLUMES_MAX = 24,
	DOMAIN_GPUS_MAX = 16,
	DOMAIN_PORTS_MAX = 256,
	DOMAIN_VCPUS_MAX = 512,
	DOMAIN_PATH_MAX = 1024, /* bytes with the NUL */
	DOMAIN_CMDLINE_MAX = 2049,
	DIGEST_TEXT_MAX = 72, /* "sha256:" and 64 hex digits, with the NUL */
};

enum domain_boot { DOMAIN_BOOT_IMAGE, DOMAIN_BOOT_KERNEL };
enum domain_kind { DOMAIN_SERVER, DOMAIN_JOB };
enum nic_kind { NIC_TAP, NIC_MACVTAP, NIC_USER };
enum port_protocol { PORT_TCP, PORT_UDP };

/* The words of a definition. From one that is none of them: -EINVAL, and *ret is as it was. */
const char *domain_kind_to_string(enum domain_kind kind);
int domain_kind_from_string(const char *text, enum domain_kind *ret);
const char *nic_kind_to_string(enum nic_kind kind);
int nic_kind_from_string(const char *text, enum nic_kind *ret);
const char *port_protocol_to_string(enum port_protocol protocol);
int port_protocol_from_string(const char *text, enum port_protocol *ret);

struct domain_nic {
	enum nic_kind kind;
	char mac[MAC_TEXT_MAX];
	char ifname[IFNAME_MAX]; /* "" for NIC_USER */
	uint32_t queues;         /* pairs */
	bool vhost;
	bool filtered;
	char **addresses; /* owned */
	size_t n_addresses;
};

struct domain_port {
	enum port_protocol protocol;
	char *host_address; /* owned; "" for every address */
	uint16_t host_port;
	uint16_t guest_port;
	uint32_t nic_index;
};

struct domain_volume {
	char id[VOLUME_ID_MAX];
	char serial[SERIAL_MAX];
	char *path; /* owned */
	bool read_only;
	uint64_t size_bytes;
};

/* address.text is "" until it is known. */
struct domain_gpu {
	char *uuid; /* owned */
	struct pci_address address;
};

struct domain_def {
	char id[UUID_TEXT_MAX];
	char *allocation_id; /* owned, as every char * here */
	enum domain_kind kind;
	uint32_t vcpus;
	uint64_t memory_bytes;

	enum domain_boot boot;
	char image_digest[DIGEST_TEXT_MAX]; /* "" with a direct kernel */
	enum image_format image_format;
	char *image_path;         /* the base, never written; NULL with a direct kernel */
	char *disk_path;          /* the overlay; NULL with a direct kernel */
	uint64_t root_disk_bytes; /* 0: the image's own */
	bool uefi;
	char *nvram_path;                   /* NULL without UEFI */
	char *kernel, *initramfs, *cmdline; /* NULL with an image; initramfs may be NULL */

	char *seed_path; /* NULL: none */
	char *log_path;  /* of the serial port */

	struct domain_nic *nics; /* owned */
	size_t n_nics;
	struct domain_port *ports; /* owned; hostfwd of user-mode NICs */
	size_t n_ports;
	struct domain_volume *volumes; /* owned */
	size_t n_volumes;
	struct domain_gpu *gpus; /* owned */
	size_t n_gpus;

	uint32_t *cpu_pins; /* owned; host CPU of vCPU i */
	size_t n_cpu_pins;
	uint32_t *emulator_cpus; /* owned */
	size_t n_emulator_cpus;
	uint32_t *numa_nodes; /* owned */
	size_t n_numa_nodes;
	uint64_t huge_page_bytes;   /* 0: normal pages */
	uint64_t balloon_min_bytes; /* 0: no wish */

	char *restored_from;               /* digest of a snapshot, or NULL */
	char *rebound_ref;                 /* the identity a guest took on, or NULL */
	char spec_digest[DIGEST_TEXT_MAX]; /* of the definition without this field */
};

struct domain_def *domain_def_free(struct domain_def *def);
CLEANUP_DEFINE(domain_def, domain_def_free)

/* "bc-<id>" */
void domain_name(const char *id, char ret[static DOMAIN_NAME_MAX]);
bool domain_has_user_ports(const struct domain_def *def, size_t nic_index);
