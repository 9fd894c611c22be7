#include "svc-converger/transfer/source.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int source_open(int fd, uint64_t size_bytes, const char *digest, struct source *ret, struct err *err)
{
	struct source source = { .fd = fd, .size_bytes = size_bytes, .digest = digest };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != size_bytes)
		return err_set(err, -EBADMSG, "the file has %" PRIu64 " bytes, not %" PRIu64,
		        (uint64_t)st.st_size, size_bytes);
	int r = sha256_stream_new(&source.stream);

	if (r < 0)
		return r;
	*ret = source;
	return 0;
}

void source_done(struct source *source)
{
	source->stream = sha256_stream_free(source->stream);
}

int source_rewind(struct source *source)
{
	struct sha256_stream *stream;
	int r = sha256_stream_new(&stream);

	if (r < 0)
		return r;
	source_done(source);
	source->stream = stream;
	source->done_bytes = 0;
	return 0;
}

ssize_t source_read(struct source *source, void *buf, size_t size, struct err *err)
{
	uint64_t left = source->size_bytes - source->done_bytes;
	char have[SHA256_DIGEST_MAX];
	ssize_t n;

	if (left == 0)
		return 0;
	do
		n = pread(source->fd, buf, left < size ? (size_t)left : size, (off_t)source->done_bytes);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, -errno, "cannot read the file: %s", strerror(errno));
	if (n == 0)
		return err_set(err, -EBADMSG, "the file became shorter while it was sent");
	int r = sha256_stream_add(source->stream, buf, (size_t)n);

	if (r < 0)
		return r;
	source->done_bytes += (uint64_t)n;
	if (source->done_bytes == source->size_bytes) {
		r = sha256_stream_digest(source->stream, have);
		if (r < 0)
			return r;
		if (strcmp(have, source->digest) != 0)
			return err_set(
			        err, -EBADMSG, "the file is not what was to be sent: its digest is %s", have);
	}
	if (source->on_progress)
		source->on_progress(source->done_bytes, source->userdata);
	return n;
}
