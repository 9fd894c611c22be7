#include "lib/base/atomic_file.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the directory part of path, "." when there is none. */
static int parent_open(int dir_fd, const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n >= sizeof(dir))
		return -ENAMETOOLONG;
	if (!slash) {
		(void)strcpy(dir, ".");
	} else if (n == 0) {
		(void)strcpy(dir, "/");
	} else {
		memcpy(dir, path, n);
		dir[n] = '\0';
	}
	int fd = openat(dir_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int temporary_fill(int fd, const void *data, size_t n_data, mode_t mode)
{
	int r = fd_write_all(fd, data, n_data);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

int atomic_file_write(int dir_fd, const char *path, const void *data, size_t n_data, mode_t mode)
{
	CLEANUP_CLOSE int parent_fd = -EBADF;
	CLEANUP_CLOSE int fd = -EBADF;
	char temporary[NAME_MAX + 1];
	const char *name = last_name(path);
	uint64_t salt;

	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EISDIR;
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return -EIO;
	int n = snprintf(temporary, sizeof(temporary), ".%s.%016" PRIx64 ".tmp", name, salt);
	if (n < 0 || (size_t)n >= sizeof(temporary))
		return -ENAMETOOLONG;
	parent_fd = parent_open(dir_fd, path);
	if (parent_fd < 0)
		return parent_fd;
	/* 0600 until it is filled: a secret is never readable by more than its final mode allows. */
	fd = openat(parent_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = temporary_fill(fd, data, n_data, mode);
	if (r == 0 && renameat(parent_fd, temporary, parent_fd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(parent_fd, temporary, 0);
		return r;
	}
	return fsync(parent_fd) < 0 ? -errno : 0;
}

bool atomic_file_is_temporary(const char *name)
{
	static const char SUFFIX[] = ".tmp";
	size_t n = strlen(name), n_suffix = sizeof(SUFFIX) - 1;

	/* ".", at least one byte, ".", 16 hex digits, ".tmp" */
	if (n < 2 + 1 + 16 + n_suffix || name[0] != '.' || strcmp(name + n - n_suffix, SUFFIX) != 0)
		return false;
	const char *salt = name + n - n_suffix - 16;
	return salt[-1] == '.' && strspn(salt, "0123456789abcdef") == 16;
}

int file_read(int dir_fd, const char *path, size_t max, char **ret_data, size_t *ret_size)
{
	CLEANUP_CLOSE int fd =
	        openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	CLEANUP_FREE char *data = NULL;
	struct stat st;
	size_t n_data = 0, n_room = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	for (;;) {
		/* Files of /proc and /sys say size 0, so the size is only where to start. */
		if (n_data == n_room) {
			if (n_room > max)
				return -EFBIG;
			n_room = n_room ? n_room * 2 : (st.st_size ? (size_t)st.st_size + 1 : 4096);
			if (n_room > max)
				n_room = max + 1;
			char *grown = realloc(data, n_room + 1);
			if (!grown)
				return -ENOMEM;
			data = grown;
		}
		ssize_t n = read(fd, data + n_data, n_room - n_data);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		n_data += (size_t)n;
	}
	if (n_data > max)
		return -EFBIG;
	data[n_data] = '\0';
	*ret_data = TAKE_PTR(data);
	if (ret_size)
		*ret_size = n_data;
	return 0;
}

int dir_sync_parent(int dir_fd, const char *path)
{
	CLEANUP_CLOSE int parent_fd = parent_open(dir_fd, path);

	if (parent_fd < 0)
		return parent_fd;
	return fsync(parent_fd) < 0 ? -errno : 0;
}
