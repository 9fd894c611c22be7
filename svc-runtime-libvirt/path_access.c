#include "svc-runtime-libvirt/path_access.h"

#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

struct access {
	mode_t bit; /* the one permission that is added */
	path_access_fn on_change;
	void *userdata;
};

static int dir_open_up(const struct access *access, int fd, const char *dir, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot stat '%s': %m", dir);
	mode_t before = st.st_mode & 07777;
	if (before & access->bit)
		return 0;
	if (fchmod(fd, before | access->bit) < 0)
		return err_set(err, -errno, "cannot let QEMU pass through '%s': %m", dir);
	if (access->on_change)
		access->on_change(dir, before, before | access->bit, access->userdata);
	return 0;
}

/* The directory of path relative to data_dir, into buf: "" when the file is in data_dir itself. */
static int relative_dir(const char *data_dir, const char *path, char *buf, size_t size, struct err *err)
{
	size_t n = strlen(data_dir);

	while (n > 1 && data_dir[n - 1] == '/')
		n--;
	if (data_dir[0] != '/' || strncmp(path, data_dir, n) != 0 || path[n] != '/' || path[n + 1] == 0)
		return err_set(err, -EINVAL, "'%s' is not below '%s'", path, data_dir);
	const char *slash = strrchr(path, '/');
	size_t n_dir = slash > path + n ? (size_t)(slash - (path + n + 1)) : 0;
	if (n_dir >= size)
		return err_set(err, -ENAMETOOLONG, "'%.60s…' is too long", path);
	memcpy(buf, path + n + 1, n_dir);
	buf[n_dir] = 0;
	return 0;
}

int path_access_add(const char *data_dir, const char *path, enum path_access_who who,
        path_access_fn on_change, void *userdata, struct err *err)
{
	const struct access access = { .bit = who == PATH_ACCESS_OTHERS ? S_IXOTH : S_IXGRP,
		.on_change = on_change,
		.userdata = userdata };
	char names[PATH_MAX], dir[2 * PATH_MAX];
	char *rest = names;
	CLEANUP_CLOSE int fd = -EBADF;
	int r = relative_dir(data_dir, path, names, sizeof(names), err);

	if (r < 0)
		return r;
	(void)snprintf(dir, sizeof(dir), "%s", data_dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? err_set(err, -errno, "cannot open '%s': %m", dir) : dir_open_up(&access, fd, dir, err);
	for (const char *name; r >= 0 && (name = strsep(&rest, "/"));) {
		if (!name[0] || strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0)
			return err_set(err, -EINVAL, "'%s' has '..' in it", path);
		size_t n = strlen(dir);
		(void)snprintf(dir + n, sizeof(dir) - n, "/%s", name);
		CLEANUP_CLOSE int above = TAKE_FD(fd);
		fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* The kernel says ENOTDIR of a link to a directory too. */
		struct stat st;
		if (fd < 0 && errno == ENOTDIR && fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
		r = fd < 0 ? err_set(err, -errno, "cannot open '%s': %m", dir)
		           : dir_open_up(&access, fd, dir, err);
	}
	return r;
}
