#include "svc-runtime-libvirt/embed_root.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* No helper daemon, no confinement that would need one, nobody's files change owner. */
static const char qemu_conf[] = "# Written by bc-runtime-libvirt; not overwritten.\n"
                                "stdio_handler = \"file\"\n"
                                "security_driver = \"none\"\n"
                                "dynamic_ownership = 0\n"
                                "remember_owner = 0\n"
                                "namespaces = []\n"
                                "cgroup_controllers = []\n";
static const char qemu_conf_root[] = "user = \"root\"\n"
                                     "group = \"root\"\n";

int embed_root_parse(const char *uri, char **ret, struct err *err)
{
	static const char scheme[] = "qemu:///embed", key[] = "root=";

	if (strncmp(uri, scheme, strlen(scheme)) != 0) {
		*ret = NULL;
		return 0;
	}
	const char *query = uri + strlen(scheme);
	if (*query != '?' || strncmp(query + 1, key, strlen(key)) != 0)
		return err_set(
		        err, -EINVAL, "uri '%s' names no root: write qemu:///embed?root=/DIR", QUOTED(uri));
	const char *root = query + 1 + strlen(key);
	size_t n = strlen(root);
	if (root[0] != '/' || strpbrk(root, "&%?# ") || (n > 1 && root[n - 1] == '/'))
		return err_set(err, -EINVAL,
		        "uri '%s': the root must be an absolute path of plain characters, without a last '/'",
		        QUOTED(uri));
	if (n > EMBED_ROOT_MAX)
		return err_set(err, -EINVAL,
		        "uri: the root '%s' has %zu bytes; at most %d, for QEMU's sockets below it",
		        QUOTED(root), n, EMBED_ROOT_MAX);
	char *copy = strdup(root);
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

static int lock_root(const char *root, int *ret_fd, struct err *err)
{
	char path[PATH_MAX], holder[32] = "";

	(void)snprintf(path, sizeof(path), "%s/bc-runtime.lock", root);
	CLEANUP_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		ssize_t n = pread(fd, holder, sizeof(holder) - 1, 0);
		holder[n > 0 ? n : 0] = '\0';
		return err_set(err, r, "the root %s is in use by another runtime, pid %s", root,
		        holder[0] ? holder : "unknown");
	}
	int n = snprintf(holder, sizeof(holder), "%d", getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, holder, (size_t)n, 0) != n)
		return err_set(err, -EIO, "%s cannot be written", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int embed_root_prepare(const char *root, int *ret_lock_fd, struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 16], text[sizeof(qemu_conf) + sizeof(qemu_conf_root)];
	CLEANUP_CLOSE int lock_fd = -EBADF;

	(void)snprintf(dir, sizeof(dir), "%s/etc", root);
	int r = mkdir_p(dir, 0755);
	if (r < 0)
		return err_set(err, r, "%s: %s", dir, strerror(-r));
	r = lock_root(root, &lock_fd, err);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/qemu.conf", dir);
	if (access(path, F_OK) < 0) {
		(void)snprintf(text, sizeof(text), "%s%s", qemu_conf, geteuid() == 0 ? qemu_conf_root : "");
		r = atomic_file_write(AT_FDCWD, path, text, strlen(text), 0644);
		if (r < 0)
			return err_set(err, r, "%s: %s", path, strerror(-r));
	}
	*ret_lock_fd = TAKE_FD(lock_fd);
	return 0;
}
