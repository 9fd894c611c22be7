#include "svc-runtime-libvirt/domain_look.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/instance_path.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DOMAINS_MAX = 65536 };

void domain_look_done(struct domain_look *look)
{
	domain_record_done(&look->record);
	free(look->cgroup);
	look->cgroup = NULL;
}

static int read_small(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int read_small(char **ret, const char *fmt, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	return file_read(AT_FDCWD, path, 64 * 1024, ret, NULL);
}

/* Field 22 of /proc/PID/stat, in clock ticks since boot; the command before it may hold anything. */
static uint64_t start_ticks(const char *stat)
{
	const char *at = strrchr(stat, ')');
	uint64_t ticks = 0;

	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		(void)sscanf(at, " %" SCNu64, &ticks);
	return ticks;
}

static uint64_t boot_time_usec(void)
{
	struct timespec real, boot;

	(void)clock_gettime(CLOCK_REALTIME, &real);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	return (uint64_t)(real.tv_sec - boot.tv_sec) * 1000000 + (uint64_t)real.tv_nsec / 1000 -
	        (uint64_t)boot.tv_nsec / 1000;
}

/* All of it is for information: what cannot be read stays unknown. */
static void find_process(const struct look_paths *paths, struct domain_look *look)
{
	CLEANUP_FREE char *pid_text = NULL, *cgroup = NULL, *stat = NULL;

	if (read_small(&pid_text, "%s/%s.pid", paths->pid_dir, look->record.name) < 0)
		return;
	int64_t pid = strtoll(pid_text, NULL, 10);
	if (pid <= 0)
		return;
	/* its file is taken away when libvirt knows that it has ended, which may be half a minute after a restart */
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
		return;
	/* a sandbox may hide from us what it is */
	look->pid = pid;
	if (read_small(&stat, "%s/%" PRId64 "/stat", paths->proc_dir, pid) < 0)
		return;
	uint64_t ticks = start_ticks(stat);
	long per_second = sysconf(_SC_CLK_TCK);
	if (ticks && per_second > 0)
		look->since_usec = boot_time_usec() + ticks * 1000000 / (uint64_t)per_second;
	if (read_small(&cgroup, "%s/%" PRId64 "/cgroup", paths->proc_dir, pid) < 0)
		return;
	const char *unified = strstr(cgroup, "0::/");
	if (unified)
		look->cgroup = strndup(unified + 4, strcspn(unified + 4, "\n"));
}

static bool is_stop_noted(const struct look_paths *paths, const char *uuid)
{
	CLEANUP_FREE char *path =
	        paths->instances_dir ? instance_path(paths->instances_dir, uuid, INSTANCE_STOPPING) : NULL;

	return path && access(path, F_OK) == 0;
}

int domain_look_at(
        virDomainPtr domain, const struct look_paths *paths, struct domain_look *ret, struct err *err)
{
	struct domain_look look = { .begun_usec = clock_monotonic_usec(), .present = true };

	if (virDomainGetUUIDString(domain, look.uuid) < 0)
		return virt_err(err, "UUID of a domain");
	if (virDomainGetState(domain, &look.state, &look.reason, 0) < 0)
		goto failed;
	char *xml = virDomainGetXMLDesc(domain, 0);
	if (!xml)
		goto failed;
	int r = domain_xml_read(xml, &look.record, err);
	free(xml);
	if (r < 0)
		return r;
	if (look.state != VIR_DOMAIN_SHUTOFF)
		find_process(paths, &look);
	else if (look.record.def)
		look.stop_noted = is_stop_noted(paths, look.uuid);
	look.ended_usec = clock_monotonic_usec();
	*ret = look;
	return 0;
failed:
	if (!domain_vanished())
		return virt_err(err, "state of a domain");
	look.present = false;
	look.ended_usec = clock_monotonic_usec();
	*ret = look;
	return 0;
}

int domain_look_up(virConnectPtr conn, const char *uuid, const struct look_paths *paths,
        struct domain_look *ret, struct err *err)
{
	uint64_t begun = clock_monotonic_usec();
	virDomainPtr domain = virDomainLookupByUUIDString(conn, uuid);

	if (!domain && domain_vanished()) {
		*ret = (struct domain_look){ .begun_usec = begun, .ended_usec = clock_monotonic_usec() };
		(void)snprintf(ret->uuid, sizeof(ret->uuid), "%s", uuid);
		return 0;
	}
	if (!domain)
		return virt_err(err, "look for a domain");
	int r = domain_look_at(domain, paths, ret, err);
	(void)virDomainFree(domain);
	return r;
}

int domain_look_all(virConnectPtr conn, const struct look_paths *paths, struct domain_look **ret,
        size_t *ret_n, struct err *err)
{
	virDomainPtr *domains = NULL;
	int n = virConnectListAllDomains(conn, &domains, 0);

	if (n < 0)
		return virt_err(err, "list of domains");
	int r = 0;
	size_t n_looks = 0;
	struct domain_look *looks = calloc((size_t)n + 1, sizeof(*looks));
	if (!looks)
		r = -ENOMEM;
	else if (n > DOMAINS_MAX)
		r = err_set(err, -EFBIG, "libvirt has %d domains; at most %d are handled", n, DOMAINS_MAX);
	for (int i = 0; r == 0 && i < n; i++) {
		r = domain_look_at(domains[i], paths, &looks[n_looks], err);
		if (r == 0 && looks[n_looks].present)
			n_looks++;
	}
	for (int i = 0; i < n; i++)
		(void)virDomainFree(domains[i]);
	free(domains);
	if (r < 0) {
		for (size_t i = 0; i < n_looks; i++)
			domain_look_done(&looks[i]);
		free(looks);
		return r;
	}
	*ret = looks;
	*ret_n = n_looks;
	return 0;
}
