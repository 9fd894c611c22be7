#include "lib/image/disk.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"
#include "lib/base/process.h"
#include "lib/base/quote.h"
#include "lib/image/qcow2_header.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* Our overlays: clusters of 64 KiB (QEMU's own default), 16-bit refcounts, and in this order a cluster each of
 * header, refcount table and refcount block, then the L1 table. */
enum {
	CLUSTER_BITS = 16,
	CLUSTER_BYTES = 1 << CLUSTER_BITS,
	REFCOUNT_ORDER = 4,
	REFTABLE_CLUSTER = 1,
	REFBLOCK_CLUSTER = 2,
	L1_CLUSTER = 3,
	L1_ENTRIES_PER_CLUSTER = CLUSTER_BYTES / 8,
	L1_COVERS_SHIFT = CLUSTER_BITS + CLUSTER_BITS - 3, /* 512 MiB an entry */
	HEADER_BYTES = 112,
	SIZE_OFFSET = 24, /* of the virtual size in any qcow2 header */
};
#define EXTENSION_BACKING_FORMAT 0xe2792acaU

static void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static int size_check(uint64_t bytes, struct err *err)
{
	if (bytes == 0 || bytes % 512 != 0 || bytes > QCOW2_VIRTUAL_BYTES_MAX)
		return err_set(err, -EINVAL,
		        "a disk of %" PRIu64 " bytes: must be a multiple of 512 up to 64 TiB", bytes);
	return 0;
}

static int shrink_refuse(uint64_t bytes, uint64_t from, struct err *err)
{
	return err_set(
	        err, -EBUSY, "a disk never shrinks: %" PRIu64 " bytes wanted, it has %" PRIu64, bytes, from);
}

/* Opens and judges the base; *bytes becomes the new disk's size. */
static int base_open(const struct disk_base *base, uint64_t *bytes, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	uint64_t base_bytes;
	int r;

	if (base->path[0] != '/' || strlen(base->path) > QCOW2_NAME_MAX)
		return err_set(err, -EINVAL,
		        "base image '%.60s': its path must be absolute and at most %d bytes", base->path,
		        QCOW2_NAME_MAX);
	fd = open(base->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open base image '%s': %m", base->path);
	r = image_check_base(fd, base->format, &base_bytes, err);
	if (r < 0) {
		err_wrap(err, "base image '%s'", base->path);
		return r;
	}
	if (*bytes == 0)
		*bytes = base_bytes;
	r = size_check(*bytes, err);
	if (r < 0)
		return r;
	if (*bytes < base_bytes)
		return shrink_refuse(*bytes, base_bytes, err);
	return TAKE_FD(fd);
}

/* Fixed fields, the backing format, the end mark, the backing name. buf is a zeroed cluster. */
static void references_put(uint8_t *buf, uint32_t header_bytes, const struct disk_base *base)
{
	const char *format = image_format_to_string(base->format);
	uint8_t *p = buf + header_bytes;

	put32(p, EXTENSION_BACKING_FORMAT);
	put32(p + 4, (uint32_t)strlen(format));
	memcpy(p + 8, format, strlen(format)); /* at most 8 bytes, padded to 8 */
	p += 8 + 8 + 8;                        /* and the end mark: a type and a length of 0 */
	put64(buf + 8, (uint64_t)(p - buf));
	put32(buf + 16, (uint32_t)strlen(base->path));
	memcpy(p, base->path, strlen(base->path));
}

static int overlay_write(int fd, const struct disk_base *base, uint64_t bytes)
{
	CLEANUP_FREE uint8_t *cluster = calloc(1, CLUSTER_BYTES);
	uint64_t needed = ((bytes - 1) >> L1_COVERS_SHIFT) + 1;
	/* Room to grow in: then growing is eight bytes in the header. Holes until QEMU writes there. */
	uint64_t l1_clusters = (2 * needed + L1_ENTRIES_PER_CLUSTER - 1) / L1_ENTRIES_PER_CLUSTER;
	uint64_t n_clusters = L1_CLUSTER + l1_clusters;
	int r;

	if (!cluster)
		return -ENOMEM;
	put32(cluster, QCOW2_MAGIC);
	put32(cluster + 4, 3);
	put32(cluster + 20, CLUSTER_BITS);
	put64(cluster + SIZE_OFFSET, bytes);
	put32(cluster + 36, (uint32_t)(l1_clusters * L1_ENTRIES_PER_CLUSTER));
	put64(cluster + 40, (uint64_t)L1_CLUSTER << CLUSTER_BITS);
	put64(cluster + 48, (uint64_t)REFTABLE_CLUSTER << CLUSTER_BITS);
	put32(cluster + 56, 1);
	put32(cluster + 96, REFCOUNT_ORDER);
	put32(cluster + 100, HEADER_BYTES);
	references_put(cluster, HEADER_BYTES, base);
	r = fd_write_all_at(fd, cluster, HEADER_BYTES + 24 + strlen(base->path), 0);
	if (r >= 0) {
		uint8_t entry[8];

		put64(entry, (uint64_t)REFBLOCK_CLUSTER << CLUSTER_BITS);
		r = fd_write_all_at(fd, entry, sizeof(entry), (uint64_t)REFTABLE_CLUSTER << CLUSTER_BITS);
	}
	if (r >= 0) {
		memset(cluster, 0, CLUSTER_BYTES);
		for (uint64_t i = 0; i < n_clusters; i++)
			cluster[2 * i + 1] = 1;
		r = fd_write_all_at(fd, cluster, 2 * n_clusters, (uint64_t)REFBLOCK_CLUSTER << CLUSTER_BITS);
	}
	if (r >= 0 && ftruncate(fd, (off_t)(n_clusters << CLUSTER_BITS)) < 0)
		r = -errno;
	return r;
}

int disk_create_overlay(const char *path, const struct disk_base *base, uint64_t bytes, struct file_perm perm,
        struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	CLEANUP_CLOSE int base_fd = base_open(base, &bytes, err);
	int r = base_fd;

	if (r >= 0)
		r = new_file_open(path, perm, &file);
	if (r >= 0)
		r = overlay_write(file.fd, base, bytes);
	if (r >= 0)
		r = new_file_commit(&file, false);
	return r < 0 ? err_set(err, r, "cannot create disk '%s': %s", path, strerror(-r)) : 0;
}

int disk_create_layer(
        const char *path, const char *lower, uint64_t bytes, struct file_perm perm, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	const struct disk_base base = { .path = lower, .format = IMAGE_QCOW2 };
	int r = size_check(bytes, err);

	if (r >= 0 && (lower[0] != '/' || strlen(lower) > QCOW2_NAME_MAX))
		r = err_set(err, -EINVAL, "'%.60s': the path of a disk must be absolute and at most %d bytes",
		        lower, QCOW2_NAME_MAX);
	if (r >= 0)
		r = new_file_open(path, perm, &file);
	if (r >= 0)
		r = overlay_write(file.fd, &base, bytes);
	if (r >= 0)
		r = new_file_commit(&file, false);
	return r < 0 ? err_set(err, r, "cannot create disk '%s': %s", path, strerror(-r)) : 0;
}

int disk_create_copy(const char *path, const struct disk_base *base, uint64_t bytes, struct file_perm perm,
        progress_fn progress, void *userdata, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	CLEANUP_CLOSE int base_fd = -EBADF;
	int r;

	if (base->format != IMAGE_RAW)
		return err_set(err, -EINVAL,
		        "base image '%s' is %s: only a raw one can be copied to a raw disk", base->path,
		        image_format_to_string(base->format));
	base_fd = base_open(base, &bytes, err);
	r = base_fd;
	if (r >= 0)
		r = new_file_open(path, perm, &file);
	if (r >= 0)
		r = sparse_copy(base_fd, file.fd, bytes, progress, userdata, err);
	if (r >= 0)
		r = new_file_commit(&file, false);
	return r < 0 ? err_set(err, r, "cannot create disk '%s': %s", path, strerror(-r)) : 0;
}

/* argv[1] is what it is to do. cancel_fd NULL: nothing ends it but the time. */
static int qemu_img_run(const char *const *argv, uint64_t timeout_usec, const int *cancel_fd, struct err *err)
{
	const char *const env[] = { "LC_ALL=C", NULL };
	struct process_options options = { .argv = argv, .env = env, .cancel_fd = cancel_fd };
	struct process_output output = { 0 };
	char status[64];
	int r = process_capture(&options, ERR_TEXT_MAX / 2, timeout_usec, &output);

	if (r < 0)
		return err_set(err, r, "qemu-img %s: %s", argv[1], strerror(-r));
	if (output.status != 0)
		r = err_set(err, strstr(output.text, "No space left") ? -ENOSPC : -EIO, "qemu-img %s %s: %s",
		        argv[1], process_status_text(output.status, status, sizeof(status)),
		        QUOTED(output.text));
	process_output_done(&output);
	return r;
}

/* -n: into the file that is there and has its size; what is zeros stays a hole. */
static int convert_run(const char *from, const char *to, uint64_t timeout_usec, struct err *err)
{
	const char *const argv[] = { "qemu-img", "convert", "-q", "-n", "--target-is-zero", "-f", "qcow2",
		"-O", "raw", from, to, NULL };

	return qemu_img_run(argv, timeout_usec, NULL, err);
}

int disk_create_converted(const char *path, const struct disk_base *base, uint64_t bytes,
        struct file_perm perm, uint64_t timeout_usec, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	CLEANUP_CLOSE int base_fd = -EBADF;
	CLEANUP_FREE char *target = NULL;
	int r;

	if (base->format != IMAGE_QCOW2)
		return err_set(err, -EINVAL, "base image '%s' is %s: there is nothing to convert", base->path,
		        image_format_to_string(base->format));
	base_fd = base_open(base, &bytes, err);
	r = base_fd;
	if (r >= 0)
		r = new_file_open(path, perm, &file);
	if (r >= 0 && ftruncate(file.fd, (off_t)bytes) < 0)
		r = -errno;
	if (r >= 0 && asprintf(&target, "/proc/%d/fd/%d", getpid(), file.fd) < 0) {
		target = NULL;
		r = -ENOMEM;
	}
	if (r >= 0)
		r = convert_run(base->path, target, timeout_usec, err);
	if (r >= 0)
		r = new_file_commit(&file, false);
	return r < 0 ? err_set(err, r, "cannot create disk '%s': %s", path, strerror(-r)) : 0;
}

int disk_create_empty(const char *path, uint64_t bytes, struct file_perm perm, struct err *err)
{
	CLEANUP_NEW_FILE struct new_file file = NEW_FILE_EMPTY;
	int r = size_check(bytes, err);

	if (r >= 0)
		r = new_file_open(path, perm, &file);
	if (r >= 0 && ftruncate(file.fd, (off_t)bytes) < 0)
		r = -errno;
	if (r >= 0)
		r = new_file_commit(&file, false);
	return r < 0 ? err_set(err, r, "cannot create disk '%s': %s", path, strerror(-r)) : 0;
}

static int raw_grow(int fd, uint64_t bytes, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (bytes < (uint64_t)st.st_size)
		return shrink_refuse(bytes, (uint64_t)st.st_size, err);
	if (bytes == (uint64_t)st.st_size)
		return 0;
	return ftruncate(fd, (off_t)bytes) < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int overlay_grow(int fd, uint64_t bytes, struct err *err)
{
	struct qcow2_header header;
	uint8_t size[8];
	unsigned l1_shift;
	int r = qcow2_header_read(fd, &header, err);

	if (r < 0)
		return r;
	if (bytes < header.virtual_bytes)
		return shrink_refuse(bytes, header.virtual_bytes, err);
	if (bytes == header.virtual_bytes)
		return 0;
	/* An internal snapshot's memory begins where the guest's part of the L1 table ends. */
	if (header.n_snapshots > 0)
		return err_set(err, -EBUSY, "the disk holds internal snapshots: it cannot grow");
	l1_shift = 2 * header.cluster_bits - (header.incompatible & QCOW2_EXTENDED_L2 ? 4 : 3);
	if ((bytes - 1) >> l1_shift >= header.l1_entries)
		return err_set(err, -EFBIG,
		        "the disk was made with room for %" PRIu64 " bytes: %" PRIu64
		        " is beyond (qemu-img resize moves its tables)",
		        (uint64_t)header.l1_entries << l1_shift, bytes);
	put64(size, bytes);
	r = fd_write_all_at(fd, size, sizeof(size), SIZE_OFFSET);
	return r >= 0 && fsync(fd) < 0 ? -errno : r;
}

int disk_grow(const char *path, enum image_format format, uint64_t bytes, struct err *err)
{
	CLEANUP_CLOSE int fd = -EBADF;
	int r = size_check(bytes, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	r = fd < 0 ? -errno : format == IMAGE_QCOW2 ? overlay_grow(fd, bytes, err) : raw_grow(fd, bytes, err);
	return r < 0 ? err_set(err, r, "cannot grow disk '%s': %s", path, strerror(-r)) : 0;
}

int disk_usage(const char *path, enum image_format format, struct disk_usage *ret, struct err *err)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct qcow2_header header;
	struct disk_usage usage;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot look at disk '%s': %m", path);
	usage = (struct disk_usage){
		.virtual_bytes = (uint64_t)st.st_size,
		.apparent_bytes = (uint64_t)st.st_size,
		.allocated_bytes = (uint64_t)st.st_blocks * 512,
	};
	if (format == IMAGE_QCOW2) {
		r = qcow2_header_read(fd, &header, err);
		if (r < 0) {
			err_wrap(err, "disk '%s'", path);
			return r;
		}
		usage.virtual_bytes = header.virtual_bytes;
	}
	*ret = usage;
	return 0;
}

/* Everything a base may not have is refused here too, but the one reference an overlay is for. */
static int overlay_check(const struct qcow2_header *header, const struct disk_base *base, struct err *err)
{
	struct qcow2_header alone = *header;

	if (!header->has_backing || strcmp(header->backing_format, image_format_to_string(base->format)) != 0)
		return err_set(err, -EINVAL, "the disk is not an overlay on a %s image (backing format '%s')",
		        image_format_to_string(base->format), header->backing_format);
	alone.has_backing = false;
	return qcow2_header_check_base(&alone, err);
}

int disk_adopt_overlay(const char *path, const struct disk_base *base, struct err *err)
{
	CLEANUP_CLOSE int base_fd = -EBADF;
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_FREE uint8_t *buf = NULL;
	struct qcow2_header header;
	uint64_t bytes;
	uint32_t n;
	int r;

	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, -errno, "cannot open disk '%s': %m", path);
	r = qcow2_header_read(fd, &header, err);
	if (r >= 0)
		r = overlay_check(&header, base, err);
	if (r < 0) {
		err_wrap(err, "disk '%s'", path);
		return r;
	}
	bytes = header.virtual_bytes;
	base_fd = base_open(base, &bytes, err);
	if (base_fd < 0)
		return base_fd;
	/* All behind the fixed fields is written anew, so that no other extension stays. */
	n = UINT32_C(1) << header.cluster_bits;
	if (header.header_bytes + 24 + strlen(base->path) > n)
		return err_set(
		        err, -EINVAL, "disk '%s': its clusters are too small for the base's path", path);
	if (n > QCOW2_READ_MAX)
		n = QCOW2_READ_MAX;
	buf = calloc(1, n);
	if (!buf)
		return -ENOMEM;
	if (pread(fd, buf, header.header_bytes, 0) != (ssize_t)header.header_bytes)
		return err_set(err, -EIO, "cannot read disk '%s'", path);
	if (header.version == 3)
		put64(buf + 88, 0); /* autoclear: what the dropped extensions held is no longer valid */
	references_put(buf, header.header_bytes, base);
	r = fd_write_all_at(fd, buf, n, 0);
	if (r >= 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "cannot write disk '%s': %s", path, strerror(-r)) : 0;
}

/* qemu-img opens what the header names, and would write to it. */
static int reference_check(const char *path, const struct disk_base *below, struct err *err)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct qcow2_header header;

	if (fd < 0)
		return err_set(err, -errno, "cannot open disk '%s': %m", path);
	int r = qcow2_header_read(fd, &header, err);
	if (r >= 0 &&
	        (!header.has_backing || strcmp(header.backing_name, below->path) != 0 ||
	                strcmp(header.backing_format, image_format_to_string(below->format)) != 0))
		r = err_set(err, -EINVAL, "it says that it lies on '%s' (%s), not on '%s' (%s)",
		        header.has_backing ? QUOTED(header.backing_name) : "", QUOTED(header.backing_format),
		        below->path, image_format_to_string(below->format));
	if (r >= 0 && (header.has_data_file || header.encryption))
		r = err_set(
		        err, -EINVAL, "it keeps its data in another file, or encrypted: we made it without");
	if (r < 0)
		err_wrap(err, "disk '%s'", path);
	return r < 0 ? r : 0;
}

int disk_commit_layer(const char *path, const char *lower, const struct disk_base *base,
        uint64_t timeout_usec, const int *cancel_fd, struct err *err)
{
	const char *const argv[] = { "qemu-img", "commit", "-q", "-f", "qcow2", path, NULL };
	int r = reference_check(path, &(struct disk_base){ .path = lower, .format = IMAGE_QCOW2 }, err);

	if (r == 0)
		r = reference_check(lower, base, err);
	return r < 0 ? r : qemu_img_run(argv, timeout_usec, cancel_fd, err);
}
