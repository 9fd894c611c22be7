#include "svc-runtime-libvirt/domain_find.h"

#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <libvirt/virterror.h>

bool domain_vanished(void)
{
	const virError *last = virGetLastError();

	return last && last->code == VIR_ERR_NO_DOMAIN;
}

int domain_read_record(virDomainPtr domain, unsigned flags, struct domain_record *ret, struct err *err)
{
	CLEANUP_FREE char *xml = virDomainGetXMLDesc(domain, flags);

	return xml ? domain_xml_read(xml, ret, err) : virt_err(err, "definition of a domain");
}

static int find(virConnectPtr conn, const char *id, unsigned flags, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = virDomainLookupByUUIDString(conn, id);
	struct domain_record record;

	if (!domain && domain_vanished())
		return err_set(err, -ENOENT, "no domain %s", id);
	if (!domain)
		return virt_err(err, "look for a domain");
	int r = domain_read_record(domain, flags, &record, err);
	if (r < 0)
		return r;
	if (!record.managed) {
		r = err_set(err, -EACCES, "domain '%s' (%s) is not managed: it is listed, and never touched",
		        record.name, record.uuid);
		domain_record_done(&record);
		return r;
	}
	if (ret_record)
		*ret_record = record;
	else
		domain_record_done(&record);
	*ret = TAKE_PTR(domain);
	return 0;
}

int domain_find_managed(virConnectPtr conn, const char *id, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err)
{
	return find(conn, id, VIR_DOMAIN_XML_INACTIVE, ret, ret_record, err);
}

int domain_find_current(virConnectPtr conn, const char *id, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err)
{
	return find(conn, id, 0, ret, ret_record, err);
}

int domain_is_active(virDomainPtr domain, int *ret_state, struct err *err)
{
	int state, reason;

	if (virDomainGetState(domain, &state, &reason, 0) < 0)
		return virt_err(err, "state of a domain");
	if (ret_state)
		*ret_state = state;
	return state != VIR_DOMAIN_SHUTOFF && state != VIR_DOMAIN_NOSTATE;
}

int domain_find_active(virConnectPtr conn, const char *id, virDomainPtr *ret, int *ret_state, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;

	int r = domain_find_managed(conn, id, &domain, NULL, err);
	if (r == 0)
		r = domain_is_active(domain, ret_state, err);
	if (r >= 0)
		*ret = TAKE_PTR(domain);
	return r;
}
