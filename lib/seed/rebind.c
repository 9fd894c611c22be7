#include "lib/seed/rebind.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/fd_io.h"
#include "lib/base/quote.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

enum { ANSWER_OFFSET = REBIND_BLOCK_BYTES, PAYLOAD_OFFSET = 2 * REBIND_BLOCK_BYTES };
_Static_assert(PAYLOAD_OFFSET + REBIND_PAYLOAD_MAX <= REBIND_DISK_BYTES, "the payload fits");

static int ref_check(const char *ref, struct err *err)
{
	size_t n = strlen(ref);

	if (n == 0 || n > REBIND_REF_MAX)
		return err_set(err, -EINVAL, "rebind ref of %zu bytes: must be 1..%d", n, REBIND_REF_MAX);
	for (const char *s = ref; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return err_set(err, -EINVAL, "rebind ref '%s' has control characters: it is one line",
			        QUOTED(ref));
	return 0;
}

int rebind_disk_write(
        const char *path, const char *ref, struct secret *payload, struct file_perm perm, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	char header[REBIND_BLOCK_BYTES] = { 0 };
	int r = ref_check(ref, err);

	if (r < 0)
		return r;
	if (secret_size(payload) > REBIND_PAYLOAD_MAX)
		return err_set(err, -EINVAL, "rebind payload of %zu bytes is over %d", secret_size(payload),
		        REBIND_PAYLOAD_MAX);
	(void)snprintf(header, sizeof(header), "bc-rebind 1\nref=%s\npayload-offset=%d\npayload-bytes=%zu\n",
	        ref, PAYLOAD_OFFSET, secret_size(payload));
	r = new_file_open(path, perm, &file);
	if (r >= 0 && ftruncate(file.fd, REBIND_DISK_BYTES) < 0)
		r = -errno;
	if (r >= 0)
		r = fd_write_all_at(file.fd, header, strlen(header), 0);
	if (r >= 0)
		r = fd_write_all_at(file.fd, secret_data(payload), secret_size(payload), PAYLOAD_OFFSET);
	if (r >= 0)
		r = new_file_commit(&file, true);
	return r < 0 ? err_set(err, r, "cannot write rebind disk '%s': %s", path, strerror(-r)) : 0;
}

/* Takes the next line off text, without its newline; NULL when no whole line is left. */
static char *line_take(char **text)
{
	char *line = *text;
	char *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = 0;
	*text = end + 1;
	return line;
}

enum rebind_answer rebind_answer_parse(
        const uint8_t *block, const char *ref, char ret_message[static REBIND_MESSAGE_MAX])
{
	char copy[REBIND_BLOCK_BYTES + 1];
	char *text = copy;
	char *line;

	ret_message[0] = 0;
	memcpy(copy, block, REBIND_BLOCK_BYTES);
	copy[REBIND_BLOCK_BYTES] = 0;
	line = line_take(&text);
	if (!line)
		return REBIND_WAITING;
	bool done = strcmp(line, "bc-rebound 1") == 0;
	if (!done && strcmp(line, "bc-rebind-refused 1") != 0)
		return REBIND_WAITING;
	line = line_take(&text);
	if (!line || strncmp(line, "ref=", 4) != 0 || strcmp(line + 4, ref) != 0)
		return REBIND_WAITING;
	if (done)
		return REBIND_DONE;
	line = line_take(&text);
	if (line && strncmp(line, "message=", 8) == 0)
		(void)quote_text(line + 8, ret_message, REBIND_MESSAGE_MAX);
	return REBIND_REFUSED;
}

/* 1: answered well, 0: not yet. */
static int answer_look(int fd, const char *ref, struct err *err)
{
	uint8_t block[REBIND_BLOCK_BYTES] = { 0 };
	char message[REBIND_MESSAGE_MAX];
	ssize_t n = pread(fd, block, sizeof(block), ANSWER_OFFSET);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	switch (rebind_answer_parse(block, ref, message)) {
	case REBIND_WAITING:
		return 0;
	case REBIND_DONE:
		return 1;
	case REBIND_REFUSED:
		return err_set(err, -EBADMSG, "the guest refused its new identity: %s",
		        message[0] ? message : "it gave no reason");
	}
	return 0;
}

static void events_drop(int inotify_fd)
{
	char buf[4096];

	while (read(inotify_fd, buf, sizeof(buf)) > 0)
		;
}

int rebind_disk_wait(const char *path, const char *ref, uint64_t timeout_usec, int cancel_fd, struct err *err)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	CLEANUP_CLOSE int inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	uint64_t start = clock_monotonic_usec();
	int r;

	if (fd < 0 || inotify_fd < 0 || inotify_add_watch(inotify_fd, path, IN_MODIFY) < 0)
		return err_set(err, -errno, "cannot watch rebind disk '%s': %m", path);
	struct pollfd fds[] = { { .fd = inotify_fd, .events = POLLIN },
		{ .fd = cancel_fd, .events = POLLIN } };
	/* Watched first, looked at then: no answer falls between. */
	while ((r = answer_look(fd, ref, err)) == 0) {
		uint64_t spent = clock_monotonic_usec() - start;
		uint64_t left_msec = spent < timeout_usec ? (timeout_usec - spent + 999) / 1000 : 0;

		if (left_msec == 0)
			return err_set(err, -ETIMEDOUT,
			        "the guest has not acknowledged identity '%s' on its disk '%s'", QUOTED(ref),
			        REBIND_SERIAL);
		r = poll(fds, 2, left_msec > INT_MAX ? INT_MAX : (int)left_msec);
		if (r < 0 && errno != EINTR)
			return err_set(err, -errno, "cannot wait for the rebind disk: %m");
		if (fds[1].revents)
			return err_set(err, -ECANCELED, "the rebind was cancelled");
		events_drop(inotify_fd);
	}
	return r < 0 ? err_set(err, r, "cannot read rebind disk '%s': %s", path, strerror(-r)) : 0;
}

int rebind_disk_erase(const char *path)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	static const char zeros[REBIND_DISK_BYTES - PAYLOAD_OFFSET];

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	int r = fd_write_all_at(fd, zeros, sizeof(zeros), PAYLOAD_OFFSET);
	return r < 0 ? r : fdatasync(fd) < 0 ? -errno : 0;
}

int rebind_disk_remove(const char *path)
{
	(void)rebind_disk_erase(path); /* what counts is that the name is gone */
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}
