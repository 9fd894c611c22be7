/* A managed domain found by its instance id, and what operations first ask of it. */
#pragma once

#include "svc-runtime-libvirt/domain_xml.h"

#include <libvirt/libvirt.h>

static inline void cleanup_domain(virDomainPtr *domain)
{
	if (*domain)
		(void)virDomainFree(*domain);
}
#define CLEANUP_DOMAIN __attribute__((cleanup(cleanup_domain)))

/* The call that just failed on this thread failed because there is no such domain. */
bool domain_vanished(void);
/* With its stored definition, which the caller ends with domain_record_done(); ret_record may be NULL. -ENOENT when
 * there is none, -EACCES when it is a foreign one. */
int domain_find_managed(virConnectPtr conn, const char *id, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err);
/* The same with the definition that it runs by, which may be an older one than the stored; of one that is off they are
 * the same. */
int domain_find_current(virConnectPtr conn, const char *id, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err);
/* Found, and whether QEMU runs for it: as domain_is_active() below. *ret is there unless it failed. */
int domain_find_active(
        virConnectPtr conn, const char *id, virDomainPtr *ret, int *ret_state, struct err *err);
/* flags as of virDomainGetXMLDesc. */
int domain_read_record(virDomainPtr domain, unsigned flags, struct domain_record *ret, struct err *err);
/* 1 when QEMU runs for it, 0 when not. ret_state may be NULL. */
int domain_is_active(virDomainPtr domain, int *ret_state, struct err *err);
