#include "lib/snapshot/tar.h"

#include "lib/base/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 1 << 20, PIECE_BYTES = 64 << 20, ZEROS_BYTES = 1 << 30 };

struct snapshot_writer {
	struct new_file file;         /* owned */
	struct archive *archive;      /* owned */
	struct sha256_stream *sha256; /* owned */
	uint64_t n_written;           /* bytes */
	char *buffer;                 /* owned; BLOCK_BYTES */
	void *zeros;                  /* owned; a read-only mapping of ZEROS_BYTES */
};

static void cleanup_entry(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}
#define CLEANUP_ENTRY __attribute__((cleanup(cleanup_entry)))

static la_ssize_t on_write(struct archive *archive, void *userdata, const void *data, size_t n_data)
{
	struct snapshot_writer *writer = userdata;
	ssize_t n;

	do
		n = write(writer->file.fd, data, n_data);
	while (n < 0 && errno == EINTR);
	int r = n < 0 ? -errno : sha256_stream_add(writer->sha256, data, (size_t)n);
	if (r < 0) {
		archive_set_error(archive, -r, "%s", strerror(-r));
		return -1;
	}
	writer->n_written += (uint64_t)n;
	return n;
}

static int archive_failed(const struct snapshot_writer *writer, const char *name, struct err *err)
{
	int code = archive_errno(writer->archive);
	const char *text = archive_error_string(writer->archive);

	return err_set(err, code > 0 ? -code : -EIO, "cannot write '%s' to the snapshot: %s", name,
	        text ? text : "unknown libarchive error");
}

static struct archive_entry *entry_new(const char *name, uint64_t bytes)
{
	struct archive_entry *entry = archive_entry_new();

	if (!entry)
		return NULL;
	archive_entry_set_pathname(entry, name);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0600);
	archive_entry_set_size(entry, (la_int64_t)bytes);
	return entry;
}

/* total bytes of an entry's body; the archive takes at most INT_MAX of them at a time. */
static int body_put(struct snapshot_writer *writer, const void *data, uint64_t n_data)
{
	while (n_data > 0) {
		size_t want = n_data < INT_MAX ? (size_t)n_data : INT_MAX;
		la_ssize_t n = archive_write_data(writer->archive, data, want);

		if (n <= 0)
			return -EIO;
		n_data -= (uint64_t)n;
		data = (const char *)data + n;
	}
	return 0;
}

/* The pax writer knows the holes from the entry and only counts the bytes it is given for them: zeros that nobody
 * touches cost no memory, however many they are. */
static int hole_put(struct snapshot_writer *writer, uint64_t n_hole)
{
	while (n_hole > 0) {
		uint64_t want = n_hole < ZEROS_BYTES ? n_hole : ZEROS_BYTES;
		int r = body_put(writer, writer->zeros, want);

		if (r < 0)
			return r;
		n_hole -= want;
	}
	return 0;
}

static int run_put(struct snapshot_writer *writer, int fd, uint64_t start, uint64_t end)
{
	while (start < end) {
		size_t want = end - start < BLOCK_BYTES ? (size_t)(end - start) : BLOCK_BYTES;
		ssize_t n = pread(fd, writer->buffer, want, (off_t)start);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ESTALE; /* it was cut while we read */
		int r = body_put(writer, writer->buffer, (uint64_t)n);
		if (r < 0)
			return r;
		start += (uint64_t)n;
	}
	return 0;
}

/* The runs of data, told to the entry; *ret_data is their sum. */
static int runs_declare(struct archive_entry *entry, int fd, uint64_t bytes, uint64_t *ret_data)
{
	uint64_t at = 0, start, end, n_data = 0;
	int r;

	while ((r = sparse_next(fd, at, bytes, &start, &end)) == 0) {
		archive_entry_sparse_add_entry(entry, (la_int64_t)start, (la_int64_t)(end - start));
		n_data += end - start;
		at = end;
	}
	if (r != -ENXIO)
		return r;
	if (n_data == 0 && bytes > 0) /* nothing but a hole */
		archive_entry_sparse_add_entry(entry, (la_int64_t)bytes, 0);
	*ret_data = n_data;
	return 0;
}

struct put_progress {
	uint64_t n_done, n_total; /* bytes of data */
	progress_fn fn;
	void *userdata;
};

static int run_put_told(
        struct snapshot_writer *writer, int fd, uint64_t start, uint64_t end, struct put_progress *progress)
{
	int r = 0;

	while (r >= 0 && start < end) {
		uint64_t piece = end - start < PIECE_BYTES ? end - start : PIECE_BYTES;

		r = run_put(writer, fd, start, start + piece);
		start += piece;
		progress->n_done += piece;
		if (r >= 0 && progress->fn)
			r = progress->fn(progress->n_done, progress->n_total, progress->userdata);
	}
	return r;
}

/* The body, by the very runs that were declared. */
static int runs_put(struct snapshot_writer *writer, struct archive_entry *entry, int fd, uint64_t bytes,
        struct put_progress *progress)
{
	uint64_t at = 0;
	la_int64_t start, length;
	int r = 0;

	if (archive_entry_sparse_reset(entry) == 0)
		return run_put_told(writer, fd, 0, bytes, progress);
	while (r >= 0 && archive_entry_sparse_next(entry, &start, &length) == ARCHIVE_OK) {
		r = hole_put(writer, (uint64_t)start - at);
		at = (uint64_t)(start + length);
		if (r >= 0)
			r = run_put_told(writer, fd, (uint64_t)start, at, progress);
	}
	return r >= 0 ? hole_put(writer, bytes - at) : r;
}

int snapshot_writer_add_file(struct snapshot_writer *writer, const char *name, int fd, progress_fn progress,
        void *userdata, struct err *err)
{
	CLEANUP_ENTRY struct archive_entry *entry = NULL;
	struct put_progress told = { .fn = progress, .userdata = userdata };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%s' of the snapshot is not a regular file", name);
	entry = entry_new(name, (uint64_t)st.st_size);
	if (!entry)
		return -ENOMEM;
	r = runs_declare(entry, fd, (uint64_t)st.st_size, &told.n_total);
	if (r < 0)
		return err_set(err, r, "cannot read '%s': %s", name, strerror(-r));
	if (archive_write_header(writer->archive, entry) != ARCHIVE_OK)
		return archive_failed(writer, name, err);
	r = runs_put(writer, entry, fd, (uint64_t)st.st_size, &told);
	if (r == -EIO)
		return archive_failed(writer, name, err);
	if (r < 0)
		return err_set(err, r, "cannot put '%s' into the snapshot: %s", name, strerror(-r));
	if (archive_write_finish_entry(writer->archive) != ARCHIVE_OK)
		return archive_failed(writer, name, err);
	return 0;
}

int snapshot_writer_add_bytes(
        struct snapshot_writer *writer, const char *name, const void *data, size_t n_data, struct err *err)
{
	CLEANUP_ENTRY struct archive_entry *entry = entry_new(name, n_data);

	if (!entry)
		return -ENOMEM;
	if (archive_write_header(writer->archive, entry) != ARCHIVE_OK ||
	        body_put(writer, data, n_data) < 0 ||
	        archive_write_finish_entry(writer->archive) != ARCHIVE_OK)
		return archive_failed(writer, name, err);
	return 0;
}

static int archive_begin(struct snapshot_writer *writer)
{
	writer->archive = archive_write_new();
	if (!writer->archive)
		return -ENOMEM;
	if (archive_write_set_format_pax_restricted(writer->archive) != ARCHIVE_OK ||
	        archive_write_add_filter_none(writer->archive) != ARCHIVE_OK ||
	        archive_write_set_bytes_per_block(writer->archive, BLOCK_BYTES) != ARCHIVE_OK ||
	        archive_write_set_bytes_in_last_block(writer->archive, 1) != ARCHIVE_OK ||
	        archive_write_open(writer->archive, writer, NULL, on_write, NULL) != ARCHIVE_OK)
		return -ENOMEM;
	return 0;
}

int snapshot_writer_new(const char *path, struct file_perm perm, const struct snapshot_meta *meta,
        struct snapshot_writer **ret, struct err *err)
{
	CLEANUP(snapshot_writer) struct snapshot_writer *writer = calloc(1, sizeof(*writer));
	CLEANUP_FREE char *json = NULL;
	int r;

	if (!writer)
		return -ENOMEM;
	writer->file = NEW_FILE_EMPTY;
	writer->zeros = MAP_FAILED;
	/* Known early; the commit refuses it again without a race. */
	if (access(path, F_OK) == 0)
		return err_set(err, -EEXIST, "snapshot file '%s' exists", path);
	r = snapshot_meta_print(meta, &json);
	if (r < 0)
		return err_set(err, r, "cannot write meta.json: %s", strerror(-r));
	writer->buffer = malloc(BLOCK_BYTES);
	if (!writer->buffer)
		return -ENOMEM;
	writer->zeros =
	        mmap(NULL, ZEROS_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (writer->zeros == MAP_FAILED)
		return -ENOMEM;
	r = sha256_stream_new(&writer->sha256);
	if (r >= 0)
		r = new_file_open(path, perm, &writer->file);
	if (r >= 0)
		r = archive_begin(writer);
	if (r < 0)
		/* its directory is the host's state: no instance is what was not found */
		return err_set(err, r == -ENOENT ? -EBUSY : r, "cannot create snapshot file '%s': %s", path,
		        strerror(-r));
	r = snapshot_writer_add_bytes(writer, SNAPSHOT_META_NAME, json, strlen(json), err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(writer);
	return 0;
}

int snapshot_writer_finish(struct snapshot_writer *writer, char ret_digest[static SHA256_DIGEST_MAX],
        uint64_t *ret_bytes, struct err *err)
{
	char digest[SHA256_DIGEST_MAX];
	int r;

	if (archive_write_close(writer->archive) != ARCHIVE_OK)
		return archive_failed(writer, "end", err);
	r = sha256_stream_digest(writer->sha256, digest);
	if (r >= 0)
		r = new_file_commit(&writer->file, false);
	if (r < 0)
		return err_set(err, r, "cannot finish the snapshot file: %s", strerror(-r));
	memcpy(ret_digest, digest, sizeof(digest));
	*ret_bytes = writer->n_written;
	return 0;
}

struct snapshot_writer *snapshot_writer_free(struct snapshot_writer *writer)
{
	if (!writer)
		return NULL;
	/* An archive that was not closed would be ended now: the file it goes to is given up anyway. */
	if (writer->archive)
		(void)archive_write_free(writer->archive);
	(void)sha256_stream_free(writer->sha256);
	new_file_done(&writer->file);
	if (writer->zeros != MAP_FAILED)
		(void)munmap(writer->zeros, ZEROS_BYTES);
	free(writer->buffer);
	free(writer);
	return NULL;
}
