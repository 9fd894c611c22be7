#include "svc-runtime-libvirt/checks.h"

#include "svc-runtime-libvirt/domain_find.h"
#include "svc-runtime-libvirt/op.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <stdlib.h>

/* A call that asks nothing of QEMU, but takes its turn on the domain, and so comes after the reconnection. The look that
 * follows is what counts. */
static void check_work(struct op *op)
{
	CLEANUP_DOMAIN virDomainPtr domain = virDomainLookupByUUIDString(op->conn, op->id);
	virTypedParameterPtr events = NULL;
	int n_events = 0;

	if (!domain)
		return;
	if (virDomainGetPerfEvents(domain, &events, &n_events, 0) < 0)
		op->r = virt_err(&op->err, "state of a domain");
	(void)virTypedParamsFree(events, n_events);
}

static void check_begin(struct runtime *runtime, const char *id);

static void check_end(struct op *op, struct domain_entry *entry)
{
	/* libvirt waits half a minute: a QEMU that answers nothing is not found again so soon */
	bool again = op->r == -EAGAIN && entry && domain_state_is_active(entry->condition.state);

	if (again && !op->runtime->stopping)
		check_begin(op->runtime, op->id);
	free(op);
}

static void check_begin(struct runtime *runtime, const char *id)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op)
		return;
	op_init(op, runtime, id, check_work, check_end);
	(void)op_submit(op, runtime->checks);
}

void checks_begin(struct runtime *runtime)
{
	for (struct domain_entry *entry = domains_next(runtime->domains, NULL); entry;
	        entry = domains_next(runtime->domains, entry))
		if (domain_state_is_active(entry->condition.state))
			check_begin(runtime, entry->uuid);
}
