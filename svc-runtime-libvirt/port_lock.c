#include "svc-runtime-libvirt/port_lock.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

int port_lock_drop_stale(const char *dir, const char *port)
{
	static const char dev[] = "/dev";
	char path[PATH_MAX];
	struct stat lock, tty;

	if (strncmp(port, dev, strlen(dev)) != 0 || port[strlen(dev)] != '/')
		return -EINVAL;
	int n = snprintf(path, sizeof(path), "%s/LCK..%s", dir, port + strlen(dev));
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	for (char *at = path + strlen(dir) + 1; *at; at++)
		if (*at == '/')
			*at = '_';
	if (lstat(path, &lock) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* what is read and written changes the other times of a pty, not this one */
	if (stat(port, &tty) < 0)
		return -errno;
	if (!S_ISREG(lock.st_mode) || !is_older(&lock.st_mtim, &tty.st_ctim))
		return 0;
	return unlink(path) < 0 ? -errno : 1;
}
