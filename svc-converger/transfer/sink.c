#include "svc-converger/transfer/sink.h"

#include "lib/base/fd_io.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, CHUNK = 256 * 1024 };

static int write_failed(const char *what, int r, struct err *err)
{
	return err_set(err, r, "cannot %s the file: %s", what, strerror(-r));
}

/* Hashes what an earlier attempt left. */
static int rehash(struct sink *sink, uint64_t offset, struct err *err)
{
	CLEANUP_FREE char *buf = malloc(CHUNK);

	if (!buf)
		return -ENOMEM;
	while (sink->done_bytes < offset) {
		uint64_t left = offset - sink->done_bytes;
		ssize_t n =
		        pread(sink->fd, buf, left < CHUNK ? (size_t)left : CHUNK, (off_t)sink->done_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return write_failed("read", -errno, err);
		if (n == 0) /* shorter than it was said to be: go on from there */
			break;
		int r = sha256_stream_add(sink->stream, buf, (size_t)n);

		if (r < 0)
			return r;
		sink->done_bytes += (uint64_t)n;
	}
	return 0;
}

int sink_open(int fd, uint64_t offset, uint64_t max_bytes, struct sink *ret, struct err *err)
{
	struct sink sink = { .fd = fd, .max_bytes = max_bytes };
	int r = sha256_stream_new(&sink.stream);

	if (r == 0)
		r = rehash(&sink, offset, err);
	if (r == 0 && ftruncate(fd, (off_t)sink.done_bytes) < 0)
		r = write_failed("cut", -errno, err);
	if (r < 0) {
		sink_done(&sink);
		return r;
	}
	*ret = sink;
	return 0;
}

void sink_done(struct sink *sink)
{
	sink->stream = sha256_stream_free(sink->stream);
}

static bool is_zero(const char *data, size_t n_data)
{
	return n_data == 0 || (data[0] == 0 && memcmp(data, data + 1, n_data - 1) == 0);
}

/* Writes data in runs that do or do not need a block on the disk. Only whole aligned blocks become holes. */
static int write_sparse(int fd, const char *data, size_t n_data, uint64_t at)
{
	while (n_data > 0) {
		size_t n = BLOCK - (size_t)(at % BLOCK);
		int r;

		n = n < n_data ? n : n_data;
		if (n == BLOCK && is_zero(data, n)) {
			r = ftruncate(fd, (off_t)(at + n)) < 0 ? -errno : 0;
		} else {
			while (n + BLOCK <= n_data && !is_zero(data + n, BLOCK))
				n += BLOCK;
			r = fd_write_all_at(fd, data, n, at);
		}
		if (r < 0)
			return r;
		data += n;
		n_data -= n;
		at += n;
	}
	return 0;
}

int sink_add(struct sink *sink, const void *data, size_t n_data, struct err *err)
{
	if (n_data > sink->max_bytes || sink->done_bytes > sink->max_bytes - n_data)
		return err_set(err, -EFBIG, "the source is larger than %" PRIu64 " bytes", sink->max_bytes);
	int r = write_sparse(sink->fd, data, n_data, sink->done_bytes);

	if (r < 0)
		return write_failed("write", r, err);
	r = sha256_stream_add(sink->stream, data, n_data);
	if (r < 0)
		return r;
	sink->done_bytes += n_data;
	if (sink->on_progress)
		sink->on_progress(sink->done_bytes, sink->userdata);
	return 0;
}

int sink_finish(struct sink *sink, uint64_t size_bytes, const char *digest, struct err *err)
{
	char have[SHA256_DIGEST_MAX];
	int r = sha256_stream_digest(sink->stream, have);

	if (r < 0)
		return r;
	if (size_bytes && sink->done_bytes != size_bytes)
		r = err_set(err, -EBADMSG, "the source has %" PRIu64 " bytes, not %" PRIu64, sink->done_bytes,
		        size_bytes);
	else if (strcmp(have, digest) != 0)
		r = err_set(err, -EBADMSG, "the source is another file: its digest is %s", have);
	if (r < 0) {
		if (ftruncate(sink->fd, 0) == 0)
			sink->done_bytes = 0;
		return r;
	}
	return fsync(sink->fd) < 0 ? write_failed("flush", -errno, err) : 0;
}
