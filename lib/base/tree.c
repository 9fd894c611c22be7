#include "lib/base/tree.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int dir_make(const char *path, mode_t mode, bool last)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return last && chmod(path, mode) < 0 ? -errno : 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int mkdir_p(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n == 0)
		return -ENOENT;
	if (n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, n + 1);
	while (n > 1 && part[n - 1] == '/')
		part[--n] = '\0';
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = dir_make(part, 0755, false);
		*slash = '/';
		if (r < 0)
			return r;
	}
	return dir_make(part, mode, true);
}

static int dir_empty(int dir_fd_consume, dev_t dev, unsigned depth);

static int entry_remove(int dir_fd, const char *name, dev_t dev, unsigned depth)
{
	/* Most entries are files: try the one call before asking what it is. */
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	int refused = -errno;
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? refused : -errno;
	int r = dir_empty(fd, dev, depth + 1);
	if (r < 0)
		return r;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static int dir_empty(int dir_fd_consume, dev_t dev, unsigned depth)
{
	CLEANUP_CLOSE int fd = dir_fd_consume;
	CLEANUP_CLOSEDIR DIR *dir = NULL;
	struct stat st;

	if (depth > TREE_DEPTH_MAX)
		return -ENAMETOOLONG;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != dev)
		return -EXDEV;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)TAKE_FD(fd);
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			return -errno;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int r = entry_remove(dirfd(dir), entry->d_name, dev, depth);
		if (r < 0)
			return r;
	}
}

int remove_tree(int dir_fd, const char *path)
{
	struct stat st;

	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	int r = entry_remove(dir_fd, path, st.st_dev, 0);
	if (r < 0)
		return r;
	return dir_sync_parent(dir_fd, path);
}
