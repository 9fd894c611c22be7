#include "svc-netd/macvtap.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

void macvtap_device(const char *dev_dir, int ifindex, char ret[static MACVTAP_DEVICE_MAX])
{
	(void)snprintf(ret, MACVTAP_DEVICE_MAX, "%s/tap%d", dev_dir, ifindex);
}

enum { SYS_FILE_MAX = 8192 }; /* sysfs calls each of its files 4 KiB long */

static int device_number(const char *sys_dir, const char *ifname, int ifindex, dev_t *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	unsigned high, low;
	char path[256];
	int r;

	(void)snprintf(path, sizeof(path), "%s/class/net/%s/macvtap/tap%d/dev", sys_dir, ifname, ifindex);
	r = file_read(AT_FDCWD, path, SYS_FILE_MAX, &text, NULL);
	if (r < 0)
		return err_set(err, r, "cannot read '%s': %s; is %s that of this network namespace?", path,
		        strerror(-r), sys_dir);
	if (sscanf(text, "%u:%u", &high, &low) != 2)
		return err_set(err, -EBADMSG, "'%s' has no device number", path);
	*ret = makedev(high, low);
	return 0;
}

int macvtap_node_give(const char *sys_dir, const char *dev_dir, const char *ifname, int ifindex, uid_t uid,
        gid_t gid, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char device[MACVTAP_DEVICE_MAX];
	struct stat st;
	dev_t number = 0;
	int r = device_number(sys_dir, ifname, ifindex, &number, err);

	if (r < 0)
		return r;
	macvtap_device(dev_dir, ifindex, device);
	/* The kernel makes the node before it answers the request for the interface. What is checked is
	 * what is given: one descriptor for both. */
	fd = open(device, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot open '%s': %s", device, strerror(errno));
	if (!S_ISCHR(st.st_mode) || st.st_rdev != number)
		return err_set(err, -EBUSY,
		        "'%s' is device %u:%u, but '%s' is %u:%u: another network namespace has that node",
		        device, major(st.st_rdev), minor(st.st_rdev), ifname, major(number), minor(number));
	if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return err_set(err, -errno, "cannot give '%s' to user %u: %s", device, (unsigned)uid,
		        strerror(errno));
	return 0;
}
