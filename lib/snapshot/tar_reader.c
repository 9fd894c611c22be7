#include "lib/base/fd_io.h"
#include "lib/snapshot/tar.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 1 << 20 };

static void cleanup_archive(struct archive **archive)
{
	if (*archive)
		(void)archive_read_free(*archive);
}
#define CLEANUP_ARCHIVE __attribute__((cleanup(cleanup_archive)))

static int archive_failed(struct archive *archive, struct err *err)
{
	int code = archive_errno(archive);
	const char *text = archive_error_string(archive);

	return err_set(err, code == ENOMEM ? -ENOMEM : -EINVAL, "the snapshot is not a tar of ours: %s",
	        text ? QUOTED(text) : "it ends early");
}

/* Only plain tar, only uncompressed: no other reader of the library sees the bytes. */
static int archive_open(const char *path, int *ret_fd, struct archive **ret, struct err *err)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	CLEANUP_ARCHIVE struct archive *archive = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot open snapshot '%s': %m", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "snapshot '%s' is not a regular file", path);
	archive = archive_read_new();
	if (!archive || archive_read_support_filter_none(archive) != ARCHIVE_OK ||
	        archive_read_support_format_tar(archive) != ARCHIVE_OK)
		return -ENOMEM;
	if (archive_read_open_fd(archive, fd, BLOCK_BYTES) != ARCHIVE_OK)
		return archive_failed(archive, err);
	*ret_fd = TAKE_FD(fd);
	*ret = TAKE_PTR(archive);
	return 0;
}

/* The next entry, if it is a plain file with a plain name: 1; 0 at the tar's end. */
static int entry_next(struct archive *archive, struct archive_entry **ret, struct err *err)
{
	struct archive_entry *entry = NULL;
	int r = archive_read_next_header(archive, &entry);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return archive_failed(archive, err);
	const char *name = archive_entry_pathname(entry);
	if (!name || !name[0] || strlen(name) > SNAPSHOT_NAME_MAX || strchr(name, '/'))
		return err_set(err, -EINVAL, "the snapshot holds '%s', which is no plain name", QUOTED(name));
	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
	        archive_entry_symlink(entry) || !archive_entry_size_is_set(entry) ||
	        archive_entry_size(entry) < 0)
		return err_set(err, -EINVAL, "the snapshot holds '%s', which is no plain file", QUOTED(name));
	*ret = entry;
	return 1;
}

static int meta_take(struct archive *archive, struct snapshot_meta *ret, struct err *err)
{
	struct archive_entry *entry;
	CLEANUP_FREE char *text = NULL;
	size_t n_text;
	int r = entry_next(archive, &entry, err);

	if (r < 0)
		return r;
	if (r == 0 || strcmp(archive_entry_pathname(entry), SNAPSHOT_META_NAME) != 0 ||
	        archive_entry_size(entry) > SNAPSHOT_META_JSON_MAX)
		return err_set(err, -EINVAL,
		        "the snapshot does not begin with a " SNAPSHOT_META_NAME " of at most %d bytes",
		        SNAPSHOT_META_JSON_MAX);
	n_text = (size_t)archive_entry_size(entry);
	text = malloc(n_text + 1);
	if (!text)
		return -ENOMEM;
	if (archive_read_data(archive, text, n_text) != (la_ssize_t)n_text)
		return archive_failed(archive, err);
	return snapshot_meta_parse(text, n_text, ret, err);
}

int snapshot_read_meta(const char *path, struct snapshot_meta *ret, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_ARCHIVE struct archive *archive = NULL;
	int r = archive_open(path, &fd, &archive, err);

	return r < 0 ? r : meta_take(archive, ret, err);
}

struct extraction {
	struct archive *archive; /* weak */
	uint64_t n_tar;          /* bytes of the whole tar, what progress is measured against */
	progress_fn progress;
	void *userdata;
	struct new_file files[SNAPSHOT_MEMBERS_MAX]; /* owned; by member */
};

static void cleanup_extraction(struct extraction *extraction)
{
	for (size_t i = 0; i < SNAPSHOT_MEMBERS_MAX; i++)
		new_file_done(&extraction->files[i]);
}

/* fd -EBADF: the data is only counted. */
static int body_take(struct extraction *x, int fd, uint64_t bytes, struct err *err)
{
	uint64_t told = 0;

	for (;;) {
		const void *data;
		size_t n_data;
		la_int64_t offset;
		int r = archive_read_data_block(x->archive, &data, &n_data, &offset);

		if (r == ARCHIVE_EOF)
			break;
		if (r != ARCHIVE_OK)
			return archive_failed(x->archive, err);
		if (offset < 0 || (uint64_t)offset > bytes || n_data > bytes - (uint64_t)offset)
			return err_set(err, -EINVAL, "the snapshot holds data behind the end of a file");
		r = fd < 0 ? 0 : fd_write_all_at(fd, data, n_data, (uint64_t)offset);
		if (r < 0)
			return err_set(err, r, "cannot write what the snapshot holds: %s", strerror(-r));
		uint64_t at = (uint64_t)archive_filter_bytes(x->archive, -1);
		if (x->progress && at - told >= 64 * BLOCK_BYTES) {
			told = at;
			r = x->progress(at < x->n_tar ? at : x->n_tar, x->n_tar, x->userdata);
			if (r < 0)
				return r;
		}
	}
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) < 0)
		return err_set(err, -errno, "cannot write what the snapshot holds: %m");
	return 0;
}

static int member_take(struct extraction *x, struct archive_entry *entry, struct snapshot_member *members,
        size_t n_members, struct err *err)
{
	const char *name = archive_entry_pathname(entry);
	uint64_t bytes = (uint64_t)archive_entry_size(entry);
	size_t i = 0;
	int r = 0;

	while (i < n_members && strcmp(members[i].name, name) != 0)
		i++;
	if (i == n_members)
		return err_set(
		        err, -EINVAL, "the snapshot holds '%s', which does not belong there", QUOTED(name));
	struct snapshot_member *member = &members[i];
	if (member->found)
		return err_set(err, -EINVAL, "the snapshot holds '%s' twice", name);
	if (bytes > member->bytes_max)
		return err_set(err, -EINVAL, "the snapshot's '%s' of %" PRIu64 " bytes is over %" PRIu64,
		        name, bytes, member->bytes_max);
	if (member->path)
		r = new_file_open(member->path, member->perm, &x->files[i]);
	if (r < 0)
		return err_set(err, r, "cannot create '%s': %s", member->path, strerror(-r));
	r = body_take(x, x->files[i].fd, bytes, err);
	if (r < 0)
		return r;
	member->found = true;
	member->bytes = bytes;
	return 0;
}

static int members_commit(
        struct extraction *x, const struct snapshot_member *members, size_t n_members, struct err *err)
{
	for (size_t i = 0; i < n_members; i++)
		if (members[i].required && !members[i].found)
			return err_set(err, -EINVAL, "the snapshot lacks '%s'", members[i].name);
	for (size_t i = 0; i < n_members; i++) {
		int r = members[i].found && members[i].path ? new_file_commit(&x->files[i], true) : 0;

		if (r < 0)
			return err_set(err, r, "cannot create '%s': %s", members[i].path, strerror(-r));
	}
	return x->progress ? x->progress(x->n_tar, x->n_tar, x->userdata) : 0;
}

int snapshot_extract(const char *path, struct snapshot_member *members, size_t n_members,
        progress_fn progress, void *userdata, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_ARCHIVE struct archive *archive = NULL;
	__attribute__((cleanup(cleanup_extraction))) struct extraction x = { .progress = progress,
		.userdata = userdata };
	struct snapshot_meta meta;
	struct archive_entry *entry;
	struct stat st;
	int r;

	for (size_t i = 0; i < SNAPSHOT_MEMBERS_MAX; i++)
		x.files[i] = NEW_FILE_EMPTY;
	if (n_members > SNAPSHOT_MEMBERS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n_members; i++)
		members[i].found = false;
	r = archive_open(path, &fd, &archive, err);
	if (r >= 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r >= 0)
		r = meta_take(archive, &meta, err);
	if (r < 0)
		return r;
	x.archive = archive;
	x.n_tar = (uint64_t)st.st_size;
	while ((r = entry_next(archive, &entry, err)) > 0) {
		r = member_take(&x, entry, members, n_members, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : members_commit(&x, members, n_members, err);
}
