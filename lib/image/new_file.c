#include "lib/image/new_file.h"

#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* In the form of all our temporaries, but the same one each time. */
static const char SUFFIX[] = "0000000000000000.tmp";

static int dir_open(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	CLEANUP_FREE char *dir = NULL;
	int fd;

	if (!name[0] || !strcmp(name, ".") || !strcmp(name, "..") ||
	        strlen(name) > NAME_MAX - strlen("..") - strlen(SUFFIX))
		return -EINVAL;
	if (!slash)
		dir = strdup(".");
	else if (slash == path)
		dir = strdup("/");
	else
		dir = strndup(path, (size_t)(slash - path));
	if (!dir)
		return -ENOMEM;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_name = name;
	return fd;
}

int new_file_open(const char *path, struct file_perm perm, struct new_file *ret)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	const char *name = NULL;

	file.dir_fd = dir_open(path, &name);
	if (file.dir_fd < 0)
		return file.dir_fd;
	file.name = strdup(name);
	if (!file.name)
		return -ENOMEM;
	CLEANUP_FREE char *tmp = NULL;
	if (asprintf(&tmp, ".%s.%s", name, SUFFIX) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	/* A new inode each time: whoever still writes to an old temporary cannot reach this file. */
	if (unlinkat(file.dir_fd, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	file.fd = openat(file.dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file.fd < 0)
		return -errno;
	file.tmp = TAKE_PTR(tmp);
	/* Owner first: chown clears set-id bits, and a wide mode under the wrong owner must never be seen. */
	if ((perm.uid != (uid_t)-1 || perm.gid != (gid_t)-1) && fchown(file.fd, perm.uid, perm.gid) < 0)
		return -errno;
	if (fchmod(file.fd, perm.mode) < 0)
		return -errno;
	*ret = file;
	file = NEW_FILE_EMPTY;
	return 0;
}

int new_file_commit(struct new_file *file, bool replace)
{
	if (fsync(file->fd) < 0)
		return -errno;
	if (renameat2(file->dir_fd, file->tmp, file->dir_fd, file->name, replace ? 0 : RENAME_NOREPLACE) < 0)
		return -errno;
	free(file->tmp);
	file->tmp = NULL;
	return fsync(file->dir_fd) < 0 ? -errno : 0;
}

void new_file_done(struct new_file *file)
{
	int saved = errno;

	if (file->tmp)
		(void)unlinkat(file->dir_fd, file->tmp, 0);
	cleanup_close(&file->fd);
	cleanup_close(&file->dir_fd);
	free(file->name);
	free(file->tmp);
	*file = NEW_FILE_EMPTY;
	errno = saved;
}
