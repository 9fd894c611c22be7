#include "svc-runtime-plugin/tap_check.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum tap_use tap_use(const char *name)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	(void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return TAP_ABSENT;
	return request.ifr_flags & IFF_RUNNING ? TAP_USED : TAP_IDLE;
}

bool tap_is_guarded(const Bc__V1__InstanceSpec *spec)
{
	for (size_t i = 0; i < spec->n_nics; i++) {
		const Bc__V1__Nic *nic = spec->nics[i];

		if (nic->attachment_case == BC__V1__NIC__ATTACHMENT_BRIDGE &&
		        (spec->ssh_from_host_only || nic->policy == BC__V1__NIC__POLICY__PRIVATE ||
		                nic->policy == BC__V1__NIC__POLICY__NONE))
			return true;
	}
	return false;
}

static bool is_prepared(const Bc__V1__EnsureRequest *record, const char *name)
{
	for (size_t i = 0; record && i < record->n_nics; i++)
		if (strcmp(record->nics[i]->interface, name) == 0)
			return true;
	return false;
}

/* "bc0123456789n0, bc0123456789n1", and the best that any of them is. */
static enum tap_use taps_look(const Bc__V1__EnsureRequest *record, tap_use_fn use, char *names, size_t size)
{
	enum tap_use best = TAP_ABSENT;
	size_t n = 0;

	names[0] = 0;
	for (size_t i = 0; i < record->n_nics && i < record->spec->n_nics; i++) {
		const char *name = record->nics[i]->interface;
		enum tap_use now;

		if (!*name || record->spec->nics[i]->attachment_case != BC__V1__NIC__ATTACHMENT_BRIDGE)
			continue;
		now = use(name);
		best = now > best ? now : best;
		if (n < size)
			n += (size_t)snprintf(names + n, size - n, "%s%s", n ? ", " : "", name);
	}
	return best;
}

int tap_check(const char *runtime, const Bc__V1__EnsureRequest *record, const Bc__V1__PluginDomain *domain,
        tap_use_fn use, const char **ret_reason, struct err *err)
{
	char names[256];
	enum tap_use best;

	for (size_t i = 0; i < domain->n_taps; i++)
		if (!is_prepared(record, domain->taps[i])) {
			*ret_reason = "TapNotPrepared";
			return err_set(err, -EPERM,
			        "runtime %s uses interface %s, which was not prepared for this instance",
			        runtime, QUOTED(domain->taps[i]));
		}
	if (!record || !tap_is_guarded(record->spec))
		return 0;
	best = taps_look(record, use, names, sizeof(names));
	if (best == TAP_USED)
		return 0;
	*ret_reason = "TapMissing";
	return err_set(err, -EPERM, "runtime %s did not %s taps %s: its network rules cannot apply", runtime,
	        best == TAP_IDLE ? "use" : "create", *names ? names : "(none were prepared)");
}
