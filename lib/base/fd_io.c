#include "lib/base/fd_io.h"

#include <errno.h>
#include <unistd.h>

int fd_write_all(int fd, const void *data, size_t n_data)
{
	for (size_t n = 0; n < n_data;) {
		ssize_t k = write(fd, (const char *)data + n, n_data - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		n += (size_t)k;
	}
	return 0;
}

int fd_write_all_at(int fd, const void *data, size_t n_data, uint64_t offset)
{
	for (size_t n = 0; n < n_data;) {
		ssize_t k = pwrite(fd, (const char *)data + n, n_data - n, (off_t)(offset + n));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		n += (size_t)k;
	}
	return 0;
}

int fd_read_all_at(int fd, void *data, size_t n_data, uint64_t offset)
{
	for (size_t n = 0; n < n_data;) {
		ssize_t k = pread(fd, (char *)data + n, n_data - n, (off_t)(offset + n));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -ENODATA;
		n += (size_t)k;
	}
	return 0;
}
