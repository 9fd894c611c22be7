#include "cli/spec_file.h"

#include "lib/base/cleanup.h"
#include "lib/text/proto_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Reads to the end, at most TEXT_SIZE_MAX bytes; -EFBIG when there is more. */
static int stream_read(int fd, char **ret, size_t *ret_size)
{
	CLEANUP_FREE char *text = malloc(TEXT_SIZE_MAX + 1);
	size_t n = 0;

	if (!text)
		return -ENOMEM;
	for (;;) {
		ssize_t got = read(fd, text + n, TEXT_SIZE_MAX + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > TEXT_SIZE_MAX)
			return -EFBIG;
	}
	*ret = TAKE_PTR(text);
	*ret_size = n;
	return 0;
}

int spec_file_read(struct cli *cli, const char *path, Bc__V1__NodeSpec **ret)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = path };
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *words = NULL;
	ProtobufCMessage *message = NULL;
	size_t n = 0;
	int r;

	if (strcmp(path, "-") == 0) {
		problems.file = "standard input";
		r = stream_read(STDIN_FILENO, &text, &n);
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : stream_read(fd, &text, &n);
	}
	if (r < 0)
		return cli_fail(cli, EXIT_USAGE, "cannot read %s: %s", problems.file,
		        r == -EFBIG ? "it is larger than 4 MiB" : strerror(-r));
	r = proto_read(text, n, &bc__v1__node_spec__descriptor, &message, &problems);
	if (r == 0) {
		*ret = (Bc__V1__NodeSpec *)message;
		return EXIT_OK;
	}
	words = problems_text(&problems);
	if (r != -EINVAL || !words)
		return cli_fail(cli, EXIT_FAILED, "cannot read %s: %s", problems.file, strerror(-r));
	return cli_fail(cli, EXIT_USAGE, "%s is not a NodeSpec:\n%s", problems.file, words);
}
