#include "svc-runtime-libvirt/domain_ops.h"

#include "lib/base/clock.h"
#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/domain_restore.h"
#include "svc-runtime-libvirt/domain_snapshot.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- ensure --- */

/* Neither our UUID nor our name may be somebody else's. */
static int check_taken(virConnectPtr conn, const char *id, struct domain_record *ret, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	CLEANUP_DOMAIN virDomainPtr other = NULL;
	char name[DOMAIN_NAME_MAX], uuid[VIR_UUID_STRING_BUFLEN];

	int r = domain_find_managed(conn, id, &domain, ret, err);
	if (r == -EACCES) {
		err->code = -EEXIST;
		return -EEXIST;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		return 1;
	*err = (struct err){ 0 };
	domain_name(id, name);
	other = virDomainLookupByName(conn, name);
	if (!other)
		return domain_vanished() ? 0 : virt_err(err, "look for a domain");
	if (virDomainGetUUIDString(other, uuid) < 0)
		return virt_err(err, "UUID of a domain");
	return err_set(err, -EEXIST, "the name '%s' belongs to another domain, %s, which is not managed",
	        name, uuid);
}

/* What cannot become another thing while it exists. */
static int check_same(const struct domain_def *old, const struct domain_def *def, struct err *err)
{
	if (strcmp(old->allocation_id, def->allocation_id) != 0)
		return err_set(err, -EBUSY,
		        "%s exists with allocation '%s': remove it before '%s' can be made", def->id,
		        old->allocation_id, def->allocation_id);
	if (old->boot != def->boot || strcmp(old->image_digest, def->image_digest) != 0)
		return err_set(err, -EBUSY,
		        "%s has a disk of image '%s': another image needs another allocation, or a removal first",
		        def->id, old->image_digest);
	if (def->root_disk_bytes && def->root_disk_bytes < old->root_disk_bytes)
		return err_set(err, -EBUSY, "the root disk has %llu bytes: a disk never shrinks",
		        (unsigned long long)old->root_disk_bytes);
	return 0;
}

static int define(
        virConnectPtr conn, const struct domain_def *def, const struct domain_host *host, struct err *err)
{
	CLEANUP_FREE char *xml = NULL;
	int r = domain_xml_write(def, host, &xml, err);

	if (r < 0)
		return r;
	CLEANUP_DOMAIN virDomainPtr domain = virDomainDefineXMLFlags(conn, xml, 0);
	return domain ? 0 : virt_err(err, "defining the domain");
}

int domain_op_ensure(virConnectPtr conn, struct domain_def *def, const struct domain_host *host,
        const struct instance_files_conf *files, const struct seed *seed,
        const struct instance_restore *restore, struct err *err)
{
	struct domain_record old = { 0 };
	struct instance_files_made made = { 0 };

	int known = check_taken(conn, def->id, &old, err);
	if (known < 0)
		return known;
	int r = known ? check_same(old.def, def, err) : 0;
	bool same = known && strcmp(old.def->spec_digest, def->spec_digest) == 0;
	/* what no spec wishes is not lost with another one: an identity that the guest took on, and the layer of a
	 * snapshot that was broken off, which only the definition knows of */
	if (known)
		def->rebound_ref = TAKE_PTR(old.def->rebound_ref);
	if (r == 0 && known && !same && domain_is_unsettled(old.def))
		r = domain_op_settle(conn, def->id, files, err);
	if (r == 0)
		r = instance_files_make(files, def, seed, known ? NULL : restore, known, &made, err);
	if (r == 0 && !same) {
		r = define(conn, def, host, err);
		if (r < 0)
			instance_files_undo(files, def, &made);
	}
	instance_files_made_done(&made);
	domain_record_done(&old);
	return r;
}

/* --- run --- */

/* libvirt does not say which interface "the specified dev" is, and this process may be in another network namespace. */
static int start_error(const struct domain_def *def, struct err *err)
{
	struct err why = { 0 };
	char names[128] = "";
	size_t n_names = 0;

	int r = virt_err(&why, "start");
	if (!strstr(err_text(&why, r), "specified dev doesn't exist"))
		return err_set(err, r, "%s", err_text(&why, r));
	for (size_t i = 0; i < def->n_nics && n_names < sizeof(names) - IFNAME_MAX - 2; i++)
		if (def->nics[i].ifname[0])
			n_names += (size_t)snprintf(names + n_names, sizeof(names) - n_names, "%s%s",
			        n_names ? ", " : "", def->nics[i].ifname);
	return err_set(err, -EBUSY, "an interface is not there (of %s): prepare it first", names);
}

static int start(virConnectPtr conn, virDomainPtr domain, const struct domain_def *def,
        struct domain_start *start, struct err *err)
{
	int r = gpus_check(def, start->gpus, err);

	instance_files_begin_run(start->files, def->id);
	if (r == 0)
		r = instance_files_open_way(start->files, def, err);
	if (r == 0 && domain_is_unsettled(def))
		r = domain_op_settle(conn, def->id, start->files, err);
	if (r < 0)
		return r;
	if (domain_has_memory(start->files, def->id)) {
		start->prepared_usec = clock_monotonic_usec();
		r = domain_restore_memory(domain, def->id, start->files, err);
	} else {
		r = instance_files_grow(start->files, def, err);
		start->prepared_usec = clock_monotonic_usec();
		if (r == 0 && virDomainCreateWithFlags(domain, VIR_DOMAIN_START_PAUSED) < 0)
			r = start_error(def, err);
	}
	if (r < 0)
		return r;
	start->started_usec = clock_monotonic_usec();
	/* without its port a guest still runs; the console attaches again later */
	(void)serial_tap_open(start->loop, domain, false, &start->tap, NULL);
	return 0;
}

/* What was paused a moment ago may have been ended: libvirt, begun anew, does so with what was half started. */
static int resume_error(virDomainPtr domain, struct err *err)
{
	int r = virt_err(err, "resume");

	if (domain_is_active(domain, NULL, NULL) != 0)
		return r;
	if (err)
		*err = (struct err){ 0 };
	return err_set(err, -EAGAIN, "the guest ended before it was resumed: try again");
}

int domain_op_run(virConnectPtr conn, const char *id, struct domain_start *what, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	struct domain_record record;
	int state;

	int r = domain_find_managed(conn, id, &domain, &record, err);
	if (r < 0)
		return r;
	instance_files_forget_stop(what->files, id);
	r = domain_is_active(domain, &state, err);
	if (r == 0) {
		r = start(conn, domain, record.def, what, err);
		state = VIR_DOMAIN_PAUSED;
	}
	if (r >= 0 && state == VIR_DOMAIN_PAUSED)
		r = domain_forget_memory(what->files, id, err);
	domain_record_done(&record);
	if (r < 0)
		return r;
	if (!what->paused && state == VIR_DOMAIN_PAUSED && virDomainResume(domain) < 0)
		return resume_error(domain, err);
	if (!what->paused && state == VIR_DOMAIN_PMSUSPENDED && virDomainPMWakeup(domain, 0) < 0)
		return virt_err(err, "wake up");
	if (what->paused && state == VIR_DOMAIN_RUNNING && virDomainSuspend(domain) < 0)
		return virt_err(err, "pause");
	return 0;
}

/* --- stop --- */

int domain_op_press(virConnectPtr conn, const char *id, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	int state;

	int r = domain_find_active(conn, id, &domain, &state, err);
	if (r <= 0)
		return r;
	if (state != VIR_DOMAIN_RUNNING)
		return err_set(err, -EBUSY, "a paused guest hears no power button");
	if (virDomainShutdownFlags(domain, VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN) < 0)
		return virt_err(err, "power button");
	return 0;
}

int domain_op_destroy(virConnectPtr conn, const char *id, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	int state;

	int r = domain_find_active(conn, id, &domain, &state, err);
	if (r <= 0)
		return r;
	if (virDomainDestroy(domain) == 0)
		return 0;
	r = virt_err(err, "end");
	/* it may have ended by itself meanwhile */
	return domain_is_active(domain, &state, NULL) == 0 ? 0 : r;
}

/* --- remove --- */

static int undefine(virDomainPtr domain, struct err *err)
{
	/* each of these would block a plain undefine; drivers without a notion of one refuse the flag */
	static const unsigned flags[] = {
		VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA |
		        VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA | VIR_DOMAIN_UNDEFINE_NVRAM,
		VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
	};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (virDomainUndefineFlags(domain, flags[i]) == 0 || domain_vanished())
			return 0;
		const virError *last = virGetLastError();
		if (!last ||
		        (last->code != VIR_ERR_INVALID_ARG && last->code != VIR_ERR_ARGUMENT_UNSUPPORTED &&
		                last->code != VIR_ERR_NO_SUPPORT))
			break;
	}
	return virt_err(err, "undefine");
}

int domain_op_remove(virConnectPtr conn, const char *id, const struct instance_files_conf *files,
        bool *ret_existed, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	bool had_files = false;

	int r = domain_find_managed(conn, id, &domain, NULL, err);
	bool had_domain = r == 0;
	if (r == 0)
		r = domain_op_destroy(conn, id, err);
	if (r == 0)
		r = undefine(domain, err);
	if (r < 0 && r != -ENOENT)
		return r;
	*err = (struct err){ 0 };
	r = instance_files_remove(files, id, &had_files, err);
	if (r < 0)
		return r;
	*ret_existed = had_domain || had_files;
	return 0;
}

int domain_op_attach(
        virConnectPtr conn, const char *id, struct loop *loop, struct serial_tap **ret, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;

	int r = domain_find_managed(conn, id, &domain, NULL, err);
	return r < 0 ? r : serial_tap_open(loop, domain, false, ret, err);
}
