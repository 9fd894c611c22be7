#include "svc-converger/transfer/local_file.h"

#include "lib/base/cleanup.h"
#include "lib/image/new_file.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 256 * 1024 };

static void cleanup_url(CURLU **url)
{
	curl_url_cleanup(*url);
}

static void cleanup_part(char **part)
{
	curl_free(*part);
}

int local_file_path(const char *url, char **ret_path, struct err *err)
{
	CURLU *parts __attribute__((cleanup(cleanup_url))) = curl_url();
	char *path __attribute__((cleanup(cleanup_part))) = NULL;
	char *query __attribute__((cleanup(cleanup_part))) = NULL;

	if (!parts)
		return -ENOMEM;
	/* A "%00" is refused by libcurl's decoder; a host other than localhost by its parser. */
	if (strncmp(url, "file:", 5) != 0 || curl_url_set(parts, CURLUPART_URL, url, 0) ||
	        curl_url_get(parts, CURLUPART_QUERY, &query, 0) != CURLUE_NO_QUERY ||
	        curl_url_get(parts, CURLUPART_PATH, &path, CURLU_URLDECODE) || path[0] != '/')
		return err_set(err, -EINVAL, "%s is no file of this host", url);
	*ret_path = strdup(path);
	return *ret_path ? 0 : -ENOMEM;
}

static int regular_open(const char *path, int *ret_fd, uint64_t *ret_size, struct err *err)
{
	/* Without O_NONBLOCK a FIFO in the way would hang the open. */
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file", path);
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int copy_in(int fd, struct sink *sink, struct err *err)
{
	CLEANUP_FREE char *buf = malloc(CHUNK);

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = pread(fd, buf, CHUNK, (off_t)sink->done_bytes);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "cannot read the source: %s", strerror(errno));
		if (n == 0)
			return 0;
		r = sink_add(sink, buf, (size_t)n, err);
		if (r < 0)
			return r;
	}
}

int local_file_get(const struct transfer_order *order, struct sink *sink,
        void (*on_total)(uint64_t total_bytes, void *userdata), void *userdata, bool *ret_permanent,
        struct err *err)
{
	CLEANUP_FREE char *path = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	uint64_t size = 0;
	int r = local_file_path(order->url, &path, err);

	if (r == 0)
		r = regular_open(path, &fd, &size, err);
	if (r == 0 && on_total)
		on_total(size, userdata);
	if (r == 0)
		r = copy_in(fd, sink, err);
	*ret_permanent = r == -EINVAL || r == -EFBIG;
	return r;
}

static int copy_out(struct source *source, int fd, struct err *err)
{
	CLEANUP_FREE char *buf = malloc(CHUNK);
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	while ((n = source_read(source, buf, CHUNK, err)) > 0)
		for (ssize_t at = 0; at < n;) {
			ssize_t written = write(fd, buf + at, (size_t)(n - at));

			if (written < 0 && errno == EINTR)
				continue;
			if (written < 0)
				return err_set(err, -errno, "cannot write the target: %s", strerror(errno));
			at += written;
		}
	return (int)n;
}

int local_file_put(
        const struct transfer_order *order, struct source *source, bool *ret_permanent, struct err *err)
{
	CLEANUP_FREE char *path = NULL;
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	int r = local_file_path(order->url, &path, err);

	if (r == 0) {
		r = new_file_open(path, FILE_PERM(0640), &file);
		if (r < 0)
			(void)err_set(err, r, "cannot create %s: %s", path, strerror(-r));
	}
	if (r == 0)
		r = copy_out(source, file.fd, err);
	if (r == 0) {
		r = new_file_commit(&file, true);
		if (r < 0)
			(void)err_set(err, r, "cannot keep %s: %s", path, strerror(-r));
	}
	*ret_permanent = r == -EINVAL || r == -EBADMSG || r == -ENOENT || r == -EACCES;
	return r;
}
