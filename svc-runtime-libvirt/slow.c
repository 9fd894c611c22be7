#include "svc-runtime-libvirt/slow.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

int slow_check(const struct domain_entry *entry, struct err *err)
{
	if (!entry || !entry->slow)
		return 0;
	return err_set(err, -EAGAIN, "%s of %s is under way: try again", entry->slow->what, entry->uuid);
}

void slow_cancel(struct slow *slow)
{
	(void)eventfd_write(slow->cancel_fd, 1);
}

bool slow_is_cancelled(const struct slow *slow)
{
	struct pollfd fd = { .fd = slow->cancel_fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void slow_end(struct op *op, struct domain_entry *entry)
{
	struct slow *slow = CONTAINER_OF(op, struct slow, op);

	if (slow->entry)
		slow->entry->slow = NULL;
	if (op->r == -ECANCELED && op->runtime->stopping)
		op->r = ending_refuse(&op->err, slow->what);
	slow->fn(op->r, &op->err, entry, slow->userdata);
	(void)close(slow->cancel_fd);
	free(slow);
}

int slow_init(struct slow *slow, struct runtime *runtime, const char *id, const char *what,
        void (*work)(struct op *op), lifecycle_fn fn, void *userdata)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	op_init(&slow->op, runtime, id, work, slow_end);
	slow->what = what;
	slow->cancel_fd = fd;
	slow->fn = fn;
	slow->userdata = userdata;
	return 0;
}

void slow_begin(struct slow *slow)
{
	struct runtime *runtime = slow->op.runtime;
	struct domain_entry *entry = domains_find(runtime->domains, slow->op.id);

	int r = slow_check(entry, &slow->op.err);
	if (r == 0 && entry && (entry->starting || entry->stop || entry->n_ensures))
		r = err_set(&slow->op.err, -EAGAIN, "%s is being %s: try again", entry->uuid,
		        entry->stop               ? "stopped"
		                : entry->starting ? "started"
		                                  : "defined anew");
	if (r < 0) {
		op_fail(&slow->op, r);
		return;
	}
	if (op_submit(&slow->op, runtime->slow) == 0 && entry) {
		slow->entry = entry;
		entry->slow = slow;
	}
}
