#include "svc-runtime-libvirt/ending.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int ending_init(struct ending *ending)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	ending->fd = fd;
	return 0;
}

void ending_done(struct ending *ending)
{
	if (ending->fd >= 0)
		(void)close(ending->fd);
	ending->fd = -EBADF;
}

void ending_begin(struct ending *ending)
{
	(void)eventfd_write(ending->fd, 1);
}

bool ending_begun(const struct ending *ending)
{
	struct pollfd fd = { .fd = ending ? ending->fd : -1, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

int ending_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata)
{
	(void)done_bytes;
	(void)total_bytes;
	return ending_begun(userdata) ? -EAGAIN : 0;
}

int ending_refuse(struct err *err, const char *what)
{
	if (err)
		*err = (struct err){ 0 };
	return err_set(err, -EAGAIN, "%s: this service ends: ask again", what);
}
