#include "svc-runtime-fake/state_file.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/image/new_file.h"
#include "lib/text/proto_read.h"
#include "lib/text/proto_write.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { STATE_SIZE_MAX = 1 << 30, STALE_LINES = 1000, STALE_LINES_RUNNING = 200000 };

struct state_file {
	char *path;     /* owned */
	int fd;         /* owned; appending */
	size_t n_lines; /* in the file */
	bool rewriting;
	struct new_file next; /* the file being written anew */
	size_t n_next;        /* lines in it */
};

struct state_file *state_file_close(struct state_file *file)
{
	if (!file)
		return NULL;
	new_file_done(&file->next);
	if (file->fd >= 0)
		(void)close(file->fd);
	free(file->path);
	free(file);
	return NULL;
}
CLEANUP_DEFINE(state_file, state_file_close)

static int write_all(int fd, const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, text, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		text += done;
		n -= (size_t)done;
	}
	return 0;
}

static int line_append(struct state_file *file, Bc__Fake__StateLine *line, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	int fd = file->rewriting ? file->next.fd : file->fd;

	line->time_usec = clock_realtime_usec();
	int r = proto_write_json(&line->base, PROTO_WRITE_COMPACT, &text);
	if (r < 0)
		return r;
	size_t n = strlen(text);
	text[n] = '\n'; /* in the place of the NUL: one write for the whole line */
	off_t before = lseek(fd, 0, SEEK_END);
	r = write_all(fd, text, n + 1);
	/* Half a line would spoil the next one. */
	if (r < 0 && ftruncate(fd, before) < 0)
		(void)err_set(
		        err, r, "%s: half a line cannot be taken back: %s", file->path, strerror(errno));
	if (r < 0)
		return err_set(err, r, "%s: cannot be written: %s", file->path, strerror(-r));
	if (file->rewriting)
		file->n_next++;
	else
		file->n_lines++;
	return 0;
}

int state_file_put(struct state_file *file, const record *r, struct err *err)
{
	Bc__Fake__StateLine line = BC__FAKE__STATE_LINE__INIT;

	line.line_case = BC__FAKE__STATE_LINE__LINE_RECORD;
	line.record = (record *)(uintptr_t)r;
	return line_append(file, &line, err);
}

int state_file_remove(struct state_file *file, const char *id, struct err *err)
{
	Bc__Fake__StateLine line = BC__FAKE__STATE_LINE__INIT;

	line.line_case = BC__FAKE__STATE_LINE__LINE_REMOVED;
	line.removed = (char *)(uintptr_t)id;
	return line_append(file, &line, err);
}

int state_file_set_boot_id(struct state_file *file, const char *boot_id, struct err *err)
{
	Bc__Fake__StateLine line = BC__FAKE__STATE_LINE__INIT;

	line.line_case = BC__FAKE__STATE_LINE__LINE_BOOT_ID;
	line.boot_id = (char *)(uintptr_t)boot_id;
	return line_append(file, &line, err);
}

static int line_read(const char *path, size_t number, const char *text, size_t n_text, state_line_fn fn,
        void *userdata, struct err *err)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = path };
	ProtobufCMessage *message = NULL;

	int r = proto_read(text, n_text, &bc__fake__state_line__descriptor, &message, &problems);
	if (r == -EINVAL) {
		(void)problems_to_err(&problems, err);
		(void)err_wrap(err, "line %zu", number);
	}
	if (r < 0)
		return r;
	r = fn((Bc__Fake__StateLine *)message, userdata);
	protobuf_c_message_free_unpacked(message, NULL);
	return r < 0 ? err_set(err, r, "%s: line %zu is none of a fake's state", path, number) : 0;
}

/* *ret_size is where the last whole line ends. */
static int lines_read(struct state_file *file, const char *text, size_t n_text, state_line_fn fn,
        void *userdata, size_t *ret_size, struct err *err)
{
	size_t start = 0;

	for (;;) {
		const char *newline = memchr(text + start, '\n', n_text - start);

		if (!newline) {
			*ret_size = start;
			return 0;
		}
		size_t n = (size_t)(newline - (text + start));
		int r = line_read(file->path, file->n_lines + 1, text + start, n, fn, userdata, err);
		if (r < 0)
			return r;
		file->n_lines++;
		start += n + 1;
	}
}

int state_file_open(
        const char *path, state_line_fn fn, void *userdata, struct state_file **ret, struct err *err)
{
	CLEANUP(state_file) struct state_file *file = calloc(1, sizeof(*file));
	CLEANUP_FREE char *text = NULL;
	size_t n_text = 0, n_whole = 0;

	if (!file)
		return -ENOMEM;
	file->fd = -EBADF;
	file->next = NEW_FILE_EMPTY;
	file->path = strdup(path);
	if (!file->path)
		return -ENOMEM;
	int r = file_read(AT_FDCWD, path, STATE_SIZE_MAX, &text, &n_text);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "%s: cannot be read: %s", path, strerror(-r));
	r = text ? lines_read(file, text, n_text, fn, userdata, &n_whole, err) : 0;
	if (r < 0)
		return r;
	file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file->fd < 0)
		return err_set(err, -errno, "%s: cannot be opened: %s", path, strerror(errno));
	if (ftruncate(file->fd, (off_t)n_whole) < 0)
		return -errno;
	*ret = TAKE_PTR(file);
	return 0;
}

bool state_file_is_stale(const struct state_file *file, size_t n_live, bool starting)
{
	return file->n_lines > 2 * n_live + (starting ? STALE_LINES : STALE_LINES_RUNNING);
}

int state_file_rewrite_begin(struct state_file *file, struct err *err)
{
	int r = new_file_open(file->path, FILE_PERM(0600), &file->next);

	if (r < 0)
		return err_set(err, r, "%s: cannot be written anew: %s", file->path, strerror(-r));
	file->rewriting = true;
	file->n_next = 0;
	return 0;
}

int state_file_rewrite_end(struct state_file *file, struct err *err)
{
	int r = new_file_commit(&file->next, true);
	int fd = r < 0 ? r : fcntl(file->next.fd, F_DUPFD_CLOEXEC, 3);

	file->rewriting = false;
	new_file_done(&file->next);
	file->next = NEW_FILE_EMPTY;
	if (fd < 0)
		return err_set(err, fd, "%s: cannot be written anew: %s", file->path, strerror(-fd));
	(void)close(file->fd);
	file->fd = fd;
	file->n_lines = file->n_next;
	return 0;
}
