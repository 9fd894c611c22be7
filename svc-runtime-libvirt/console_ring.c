#include "svc-runtime-libvirt/console_ring.h"

#include "lib/base/fd_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A page with the header, then the bytes; offset o is at DATA_AT + o % CONSOLE_RING_BYTES. */
enum { DATA_AT = 4096 };
static const char magic[8] = "bcring1";

struct header {
	char magic[8];
	uint64_t end;
};

struct console_ring {
	int fd; /* owned */
	uint64_t end;
};

int console_ring_open(const char *path, struct console_ring **ret)
{
	CLEANUP_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct header header = { 0 };
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	        memcmp(header.magic, magic, sizeof(magic)) != 0 || header.end > INT64_MAX) {
		header = (struct header){ 0 };
		memcpy(header.magic, magic, sizeof(magic));
		if (ftruncate(fd, 0) < 0 || pwrite(fd, &header, sizeof(header), 0) != sizeof(header))
			return errno ? -errno : -EIO;
	}
	struct console_ring *ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->fd = TAKE_FD(fd);
	ring->end = header.end;
	*ret = ring;
	return 0;
}

struct console_ring *console_ring_free(struct console_ring *ring)
{
	if (!ring)
		return NULL;
	(void)close(ring->fd);
	free(ring);
	return NULL;
}

int console_ring_write(struct console_ring *ring, const void *data, size_t n_data)
{
	const char *bytes = data;
	uint64_t end = ring->end + n_data;

	if (n_data > CONSOLE_RING_BYTES) {
		bytes += n_data - CONSOLE_RING_BYTES;
		n_data = CONSOLE_RING_BYTES;
	}
	size_t at = (size_t)((end - n_data) % CONSOLE_RING_BYTES);
	size_t first = n_data < CONSOLE_RING_BYTES - at ? n_data : CONSOLE_RING_BYTES - at;
	int r = fd_write_all_at(ring->fd, bytes, first, DATA_AT + at);
	if (r == 0 && n_data > first)
		r = fd_write_all_at(ring->fd, bytes + first, n_data - first, DATA_AT);
	/* the bytes first: a header that a kill leaves behind is true of them */
	if (r == 0)
		r = fd_write_all_at(ring->fd, &end, sizeof(end), offsetof(struct header, end));
	if (r == 0)
		ring->end = end;
	return r;
}

uint64_t console_ring_end(const struct console_ring *ring)
{
	return ring->end;
}

uint64_t console_ring_start(const struct console_ring *ring)
{
	return ring->end > CONSOLE_RING_BYTES ? ring->end - CONSOLE_RING_BYTES : 0;
}

ssize_t console_ring_read(const struct console_ring *ring, uint64_t offset, void *buf, size_t size)
{
	if (offset < console_ring_start(ring) || offset > ring->end)
		return -ERANGE;
	if (size > ring->end - offset)
		size = (size_t)(ring->end - offset);
	size_t at = (size_t)(offset % CONSOLE_RING_BYTES);
	if (size > CONSOLE_RING_BYTES - at)
		size = CONSOLE_RING_BYTES - at;
	ssize_t n = pread(ring->fd, buf, size, (off_t)(DATA_AT + at));
	return n < 0 ? -errno : n;
}
