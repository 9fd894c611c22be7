/* A domain_def as libvirt's domain XML, and back. Pure: nothing here speaks to libvirt or to the host. */
#pragma once

#include "svc-runtime-libvirt/domain_def.h"

#include <sys/types.h>

#define DOMAIN_XML_NS "https://better-compute.dev/libvirt/1"

/* What of the host and of the configuration is written into a definition. Strings weak. */
struct domain_host {
	bool kvm;
	const char *emulator;      /* absolute path of QEMU */
	const char *disk_cache;    /* "none" or "writeback" */
	const char *firmware_code; /* UEFI, read-only; NULL: none here */
	/* libvirt would otherwise give the files of a guest to QEMU's user, and to root afterwards */
	bool keep_owners;
	uid_t vmm_uid;
	gid_t vmm_gid;
};

/* The XML that defines def; owned by the caller. -ENOMEM, or -EBUSY with words when the host cannot do it. */
int domain_xml_write(
        const struct domain_def *def, const struct domain_host *host, char **ret, struct err *err);
/* Fills def->spec_digest: SHA-256 of the definition without that field and what a guest added since. */
int domain_xml_digest(struct domain_def *def, const struct domain_host *host, struct err *err);

/* The metadata element alone, as virDomainSetMetadata wants it: libvirt adds the namespace itself. */
int domain_xml_write_metadata(const struct domain_def *def, char **ret);

/* What a domain's XML says of it. */
struct domain_record {
	char uuid[UUID_TEXT_MAX];
	char *name; /* owned */
	/* It carries our metadata, and its name and UUID are those of an instance. */
	bool managed;
	bool kvm;
	uint32_t vcpus;
	uint64_t memory_bytes;
	uint64_t huge_page_bytes;
	struct domain_def *def; /* owned; NULL unless managed; image_path, kernel etc. as far as XML tells */
};

/* -EINVAL for what is no domain at all; of one whose metadata makes no sense the record says that it is not managed. */
int domain_xml_read(const char *xml, struct domain_record *ret, struct err *err);
void domain_record_done(struct domain_record *record);
