#include "cli/secret_dir.h"

#include "lib/base/quote.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int secret_dir_read(int dir_fd, const char *ref, struct secret **ret, struct err *err)
{
	CLEANUP(secret) struct secret *secret = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;
	size_t n = 0;
	int r;

	if (!ref[0] || strchr(ref, '/') || strcmp(ref, ".") == 0 || strcmp(ref, "..") == 0)
		return err_set(err, -EINVAL, "'%s' is not the name of a file", QUOTED(ref));
	fd = openat(dir_fd, ref, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "no secret '%s': %s", QUOTED(ref), strerror(errno));
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the secret '%s' is not a regular file", QUOTED(ref));
	if (st.st_size > SECRET_BYTES_MAX)
		return err_set(
		        err, -EFBIG, "the secret '%s' has more than %d bytes", QUOTED(ref), SECRET_BYTES_MAX);
	r = secret_new_empty((size_t)st.st_size, &secret);
	if (r < 0)
		return r;
	while (n < (size_t)st.st_size) {
		ssize_t got = read(fd, secret_data(secret) + n, (size_t)st.st_size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(
			        err, -errno, "cannot read the secret '%s': %s", QUOTED(ref), strerror(errno));
		if (got == 0)
			return err_set(
			        err, -EAGAIN, "the secret '%s' changed while it was read", QUOTED(ref));
		n += (size_t)got;
	}
	*ret = TAKE_PTR(secret);
	return 0;
}
