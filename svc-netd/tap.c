#include "svc-netd/tap.h"

#include "lib/base/cleanup.h"
#include "lib/base/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <string.h>
#include <sys/ioctl.h>

int tap_create(const char *tun_path, const char *name, bool multi_queue, int *ret_fd, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	/* EXCL: make one, never attach to one that is there. MULTI_QUEUE only when asked for: whoever
	 * attaches must say the same, and one who wants a single queue does not. */
	struct ifreq req = {
		.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL |
		        (multi_queue ? IFF_MULTI_QUEUE : 0)),
	};

	/* TUNSETIFF cuts a long name and expands a '%'. */
	if (!ifname_is_valid(name))
		return err_set(err, -EINVAL, "'%s' is no interface name", name);
	memcpy(req.ifr_name, name, strlen(name));
	fd = open(tun_path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", tun_path, strerror(errno));
	if (ioctl(fd, TUNSETIFF, &req) < 0) {
		int r = errno == EBUSY ? -EEXIST : -errno;

		return err_set(err, r, "cannot create TAP '%s': %s", name, strerror(errno));
	}
	if (strcmp(req.ifr_name, name) != 0)
		return err_set(err, -EINVAL, "TAP '%s' came out as '%s'", name, req.ifr_name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int tap_set_owner(int fd, uid_t uid, gid_t gid)
{
	if (ioctl(fd, TUNSETOWNER, (unsigned long)uid) < 0 || ioctl(fd, TUNSETGROUP, (unsigned long)gid) < 0)
		return -errno;
	return 0;
}

int tap_persist(int fd)
{
	return ioctl(fd, TUNSETPERSIST, 1UL) < 0 ? -errno : 0;
}

int tap_ifindex(int socket_fd, const char *name, int *ret)
{
	struct ifreq req = { 0 };

	memcpy(req.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
	if (ioctl(socket_fd, SIOCGIFINDEX, &req) < 0)
		return -errno;
	*ret = req.ifr_ifindex;
	return 0;
}
