#include "lib/image/sparse_copy.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 64 << 20, BUFFER_BYTES = 256 << 10 };

int sparse_next(int fd, uint64_t offset, uint64_t end, uint64_t *ret_start, uint64_t *ret_end)
{
	off_t start;
	off_t hole;

	if (offset >= end)
		return -ENXIO;
	start = lseek(fd, (off_t)offset, SEEK_DATA);
	if (start < 0 && errno == EINVAL) {
		*ret_start = offset;
		*ret_end = end;
		return 0;
	}
	if (start < 0)
		return -errno;
	if ((uint64_t)start >= end)
		return -ENXIO;
	hole = lseek(fd, start, SEEK_HOLE);
	if (hole < 0)
		return -errno;
	*ret_start = (uint64_t)start;
	*ret_end = (uint64_t)hole < end ? (uint64_t)hole : end;
	return 0;
}

static int range_copy_plain(int src_fd, int dst_fd, uint64_t start, uint64_t end)
{
	CLEANUP_FREE char *buffer = malloc(BUFFER_BYTES);

	if (!buffer)
		return -ENOMEM;
	while (start < end) {
		size_t want = end - start < BUFFER_BYTES ? (size_t)(end - start) : BUFFER_BYTES;
		int r = fd_read_all_at(src_fd, buffer, want, start);

		if (r == 0)
			r = fd_write_all_at(dst_fd, buffer, want, start);
		if (r < 0)
			return r == -ENODATA ? -EIO : r; /* it was cut while we read */
		start += want;
	}
	return 0;
}

static int range_copy(int src_fd, int dst_fd, uint64_t start, uint64_t end)
{
	while (start < end) {
		off_t in = (off_t)start;
		off_t out = (off_t)start;
		ssize_t n = copy_file_range(src_fd, &in, dst_fd, &out, (size_t)(end - start), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EXDEV || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL))
			return range_copy_plain(src_fd, dst_fd, start, end);
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		start += (uint64_t)n;
	}
	return 0;
}

/* Copies the data below limit; total is what progress is measured against. */
static int data_copy(
        int src_fd, int dst_fd, uint64_t limit, uint64_t total, progress_fn progress, void *userdata)
{
	uint64_t at = 0;
	int r = 0;

	while (r >= 0) {
		uint64_t start = 0;
		uint64_t end = 0;

		r = sparse_next(src_fd, at, limit, &start, &end);
		if (r == -ENXIO)
			return progress ? progress(total, total, userdata) : 0;
		for (; r >= 0 && start < end; start = at) {
			at = end - start < PIECE_BYTES ? end : start + PIECE_BYTES;
			r = range_copy(src_fd, dst_fd, start, at);
			if (r >= 0 && progress)
				r = progress(at, total, userdata);
		}
	}
	return r;
}

int sparse_copy(int src_fd, int dst_fd, uint64_t bytes, progress_fn progress, void *userdata, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(src_fd, &st) < 0)
		return err_set(err, -errno, "cannot stat the source: %m");
	/* A clone takes no time and no space; only a whole file is worth asking for. */
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size <= bytes && ioctl(dst_fd, FICLONE, src_fd) == 0)
		r = progress ? progress(bytes, bytes, userdata) : 0;
	else
		r = data_copy(src_fd, dst_fd,
		        S_ISREG(st.st_mode) && (uint64_t)st.st_size < bytes ? (uint64_t)st.st_size : bytes,
		        bytes, progress, userdata);
	if (r >= 0 && ftruncate(dst_fd, (off_t)bytes) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "cannot copy %" PRIu64 " bytes: %s", bytes, err_text(NULL, r));
	return 0;
}
