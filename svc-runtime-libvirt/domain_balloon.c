#include "svc-runtime-libvirt/domain_balloon.h"

#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <inttypes.h>

enum { TARGET_MIN_MIB = 16 };

static int find_active(virConnectPtr conn, const char *id, virDomainPtr *ret,
        struct domain_record *ret_record, struct err *err)
{
	int r = domain_find_current(conn, id, ret, ret_record, err);

	if (r < 0)
		return r;
	r = domain_is_active(*ret, NULL, err);
	if (r == 0)
		r = err_set(err, -EBUSY, "%s is off: it has no memory", id);
	if (r < 0)
		domain_record_done(ret_record);
	return r < 0 ? r : 0;
}

static int read_memory(virDomainPtr domain, struct domain_memory *ret, struct err *err)
{
	virDomainMemoryStatStruct stats[VIR_DOMAIN_MEMORY_STAT_NR];
	struct domain_memory memory = { 0 };
	uint64_t unused = 0, usable = 0, updated = 0;
	bool has_unused = false, has_usable = false;

	int n = virDomainMemoryStats(domain, stats, VIR_DOMAIN_MEMORY_STAT_NR, 0);
	if (n < 0)
		return virt_err(err, "memory of the guest");
	for (int i = 0; i < n; i++) {
		switch (stats[i].tag) {
		case VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON:
			memory.current_bytes = stats[i].val * 1024;
			break;
		case VIR_DOMAIN_MEMORY_STAT_UNUSED:
			unused = stats[i].val * 1024;
			has_unused = true;
			break;
		case VIR_DOMAIN_MEMORY_STAT_USABLE:
			usable = stats[i].val * 1024;
			has_usable = true;
			break;
		case VIR_DOMAIN_MEMORY_STAT_LAST_UPDATE:
			updated = stats[i].val;
			break;
		default:
			break;
		}
	}
	memory.maximum_bytes = (uint64_t)virDomainGetMaxMemory(domain) * 1024;
	if (!memory.maximum_bytes)
		return virt_err(err, "memory of the guest");
	/* caches that it can drop are no use of it; older kernels tell only what is free */
	memory.unused_bytes = has_usable ? usable : unused;
	/* a guest that has not spoken yet, or has no driver, says zeros */
	memory.usage_known = updated != 0 && (has_usable || has_unused);
	if (!memory.usage_known)
		memory.unused_bytes = 0;
	*ret = memory;
	return 0;
}

int domain_op_get_memory(virConnectPtr conn, const char *id, struct domain_memory *ret, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	struct domain_record record = { 0 };

	int r = find_active(conn, id, &domain, &record, err);
	if (r < 0)
		return r;
	domain_record_done(&record);
	return read_memory(domain, ret, err);
}

static int check_target(const struct domain_def *def, uint64_t target_bytes, struct err *err)
{
	uint64_t min = def->balloon_min_bytes ? def->balloon_min_bytes : (uint64_t)TARGET_MIN_MIB << 20;

	if (target_bytes < min)
		return err_set(err, -EINVAL,
		        "target_bytes: %" PRIu64 " is below the least it may have, %" PRIu64, target_bytes,
		        min);
	if (target_bytes > def->memory_bytes)
		return err_set(err, -EINVAL, "target_bytes: %" PRIu64 " is above its memory, %" PRIu64,
		        target_bytes, def->memory_bytes);
	return 0;
}

int domain_op_set_memory(
        virConnectPtr conn, const char *id, uint64_t target_bytes, struct domain_memory *ret, struct err *err)
{
	CLEANUP_DOMAIN virDomainPtr domain = NULL;
	struct domain_record record = { 0 };

	int r = find_active(conn, id, &domain, &record, err);
	if (r < 0)
		return r;
	r = check_target(record.def, target_bytes, err);
	domain_record_done(&record);
	if (r < 0)
		return r;
	if (virDomainSetMemoryFlags(domain, (unsigned long)(target_bytes / 1024), VIR_DOMAIN_AFFECT_LIVE) < 0)
		return virt_err(err, "balloon");
	return read_memory(domain, ret, err);
}
