#include "lib/seed/iso.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"
#include "lib/base/secret.h"

#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define LIBISOFS_WITHOUT_LIBBURN /* its copy of libburn's struct burn_source is what we read from */
#include <libisofs/libisofs.h>

enum {
	SECTOR_BYTES = 2048,
	FIRST_DESCRIPTOR = 16, /* in sectors */
	N_DESCRIPTORS_MAX = 16,
	DESCRIPTOR_SUPPLEMENTARY = 2,
	DESCRIPTOR_END = 255,
	NAME_MAX_BYTES = 64,
	DIRECTORY_BYTES_MAX = 64 * 1024,
	FIFO_SECTORS = 64,
	ISO_BYTES_MAX = 64 << 20,
};

/* --- libisofs --- */

static void library_init(void)
{
	/* Without the flag it would change the process' locale. It says errors by return values; never on stderr. */
	if (iso_init_with_flag(1) == 1)
		(void)iso_set_msgs_severities((char *)"NEVER", (char *)"NEVER", (char *)"");
}

static void cleanup_image(IsoImage **image)
{
	if (*image)
		iso_image_unref(*image);
}

static void cleanup_opts(IsoWriteOpts **opts)
{
	if (*opts)
		iso_write_opts_free(*opts);
}

/* Waits for the library's writing thread. */
static void cleanup_source(struct burn_source **source)
{
	if (!*source)
		return;
	(*source)->free_data(*source);
	free(*source);
}

static int errno_from_iso(int r)
{
	return r == (int)ISO_OUT_OF_MEM ? -ENOMEM : -EIO;
}

static int iso_failed(int r, const char *what, struct err *err)
{
	const char *text = iso_error_to_msg(r);

	return err_set(err, errno_from_iso(r), "%s: %s", what, text ? text : "unknown libisofs error");
}

static int member_add(IsoImage *image, const struct iso_member *member, struct err *err)
{
	CLEANUP_FREE unsigned char *data = calloc(1, member->n_data + 1);
	IsoStream *stream = NULL;
	IsoFile *file = NULL;
	int r;

	if (!data)
		return -ENOMEM;
	if (member->data)
		memcpy(data, member->data, member->n_data);
	r = iso_memory_stream_new(data, member->n_data, &stream);
	if (r < 0)
		return iso_failed(r, "cannot take up a file of the ISO", err);
	(void)TAKE_PTR(data); /* the stream's now */
	r = iso_tree_add_new_file(iso_image_get_root(image), member->name, stream, &file);
	if (r < 0) {
		iso_stream_unref(stream);
		return iso_failed(r, "cannot add a file to the ISO", err);
	}
	iso_node_set_permissions((IsoNode *)file, member->mode);
	return 0;
}

static int opts_new(IsoWriteOpts **ret)
{
	int r = iso_write_opts_new(ret, 0);

	if (r < 0)
		return r;
	(void)iso_write_opts_set_iso_level(*ret, 2);
	(void)iso_write_opts_set_rockridge(*ret, 1);
	(void)iso_write_opts_set_joliet(*ret, 1);
	(void)iso_write_opts_set_no_force_dots(*ret, 3);        /* "user-data", not "user-data." */
	(void)iso_write_opts_set_omit_version_numbers(*ret, 3); /* and without ";1" */
	(void)iso_write_opts_set_relaxed_vol_atts(*ret, 1);     /* a lower-case label stays lower-case */
	(void)iso_write_opts_set_fifo_size(*ret, FIFO_SECTORS);
	return 1;
}

static int sectors_take(struct burn_source *source, struct secret **ret, struct err *err)
{
	size_t expected = (size_t)source->get_size(source), n_total = 0;
	CLEANUP(secret) struct secret *image = NULL;
	unsigned char sector[SECTOR_BYTES];
	int n;

	int r = secret_new_empty(expected, &image);
	if (r < 0)
		return r;
	while ((n = source->read ? source->read(source, sector, sizeof(sector))
	                         : source->read_xt(source, sector, sizeof(sector))) > 0) {
		if ((size_t)n <= expected - n_total)
			memcpy(secret_data(image) + n_total, sector, (size_t)n);
		n_total += (size_t)n;
		if (n_total > expected) {
			if (!source->read)
				(void)source->cancel(source);
			break;
		}
	}
	explicit_bzero(sector, sizeof(sector));
	if (n < 0 || n_total != expected)
		return err_set(err, -EIO, "libisofs gave %zu of %zu bytes", n_total, expected);
	*ret = TAKE_PTR(image);
	return 0;
}

/* The image in memory, which user data is in. */
static int image_make(const char *label, const struct iso_member *members, size_t n_members,
        struct secret **ret, struct err *err)
{
	__attribute__((cleanup(cleanup_image))) IsoImage *image = NULL;
	__attribute__((cleanup(cleanup_opts))) IsoWriteOpts *opts = NULL;
	__attribute__((cleanup(cleanup_source))) struct burn_source *source = NULL;
	int r = iso_image_new(label, &image);

	if (r < 0)
		return iso_failed(r, "cannot make an ISO", err);
	for (size_t i = 0; i < n_members; i++) {
		r = member_add(image, &members[i], err);
		if (r < 0)
			return r;
	}
	r = opts_new(&opts);
	if (r >= 0)
		r = iso_image_create_burn_source(image, opts, &source);
	if (r < 0)
		return iso_failed(r, "cannot make an ISO", err);
	return sectors_take(source, ret, err);
}

/* One image at a time: the library counts files, and who uses its view of the host's, in variables of its own, without a
 * lock. Two threads in it would free that twice, or give a file what is another's. Nothing is written meanwhile, so that
 * a disk that hangs holds nobody else. */
static int image_write(
        int fd, const char *label, const struct iso_member *members, size_t n_members, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	CLEANUP(secret) struct secret *image = NULL;

	(void)pthread_mutex_lock(&lock);
	int r = image_make(label, members, n_members, &image, err);
	(void)pthread_mutex_unlock(&lock);
	if (r < 0)
		return r;
	r = fd_write_all_at(fd, secret_data(image), secret_size(image), 0);
	return r < 0 ? err_set(err, r, "cannot write the ISO: %s", strerror(-r)) : 0;
}

/* --- the image, read back --- */

static uint32_t le32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static int pread_all(int fd, void *data, size_t n_data, uint64_t offset)
{
	ssize_t n = pread(fd, data, n_data, (off_t)offset);

	return n < 0 ? -errno : (size_t)n < n_data ? -EINVAL : 0;
}

/* The root directory of the Joliet tree. */
static int joliet_root(int fd, uint64_t *ret_offset, uint32_t *ret_bytes)
{
	uint8_t d[SECTOR_BYTES];

	for (uint64_t i = FIRST_DESCRIPTOR; i < FIRST_DESCRIPTOR + N_DESCRIPTORS_MAX; i++) {
		int r = pread_all(fd, d, sizeof(d), i * SECTOR_BYTES);

		if (r < 0)
			return r;
		if (memcmp(d + 1, "CD001", 5) != 0 || d[0] == DESCRIPTOR_END)
			return -EINVAL;
		if (d[0] == DESCRIPTOR_SUPPLEMENTARY && d[88] == '%' && d[89] == '/') {
			*ret_offset = (uint64_t)le32_at(d + 156 + 2) * SECTOR_BYTES;
			*ret_bytes = le32_at(d + 156 + 10);
			return 0;
		}
	}
	return -EINVAL;
}

/* A record's name is big-endian UCS-2. */
static bool record_is(const uint8_t *record, const char *name)
{
	size_t n = strlen(name);

	if (record[32] != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (record[33 + 2 * i] != 0 || record[33 + 2 * i + 1] != (uint8_t)name[i])
			return false;
	return true;
}

int iso_find(int fd, const char *name, uint64_t *ret_offset, uint64_t *ret_bytes)
{
	CLEANUP_FREE uint8_t *dir = NULL;
	uint64_t offset;
	uint32_t n_dir;
	int r = joliet_root(fd, &offset, &n_dir);

	if (r < 0)
		return r;
	if (n_dir > DIRECTORY_BYTES_MAX)
		return -EINVAL;
	dir = malloc(n_dir + 1);
	if (!dir)
		return -ENOMEM;
	r = pread_all(fd, dir, n_dir, offset);
	if (r < 0)
		return r;
	for (size_t at = 0; at < n_dir;) {
		const uint8_t *record = dir + at;

		if (record[0] == 0) { /* records do not cross sectors */
			at = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
			continue;
		}
		if (record[0] < 34 || record[0] > n_dir - at || record[32] > record[0] - 33)
			return -EINVAL;
		if (record_is(record, name)) {
			*ret_offset = (uint64_t)le32_at(record + 2) * SECTOR_BYTES;
			*ret_bytes = le32_at(record + 10);
			return 0;
		}
		at += record[0];
	}
	return -ENOENT;
}

int iso_write(int fd, const char *label, struct iso_member *members, size_t n_members, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT; /* the library's own state is the process' */
	uint64_t n_total = 0;
	int r;

	for (size_t i = 0; i < n_members; i++) {
		n_total += members[i].n_data;
		if (strlen(members[i].name) > NAME_MAX_BYTES || members[i].n_data > ISO_BYTES_MAX ||
		        n_total > ISO_BYTES_MAX)
			return err_set(err, -EINVAL,
			        "an ISO of over %d bytes, or with a name over %d, is too large",
			        ISO_BYTES_MAX, NAME_MAX_BYTES);
	}
	if (strlen(label) > 16)
		return err_set(err, -EINVAL, "ISO label '%.32s' is longer than 16 bytes", label);
	(void)pthread_once(&once, library_init);
	r = image_write(fd, label, members, n_members, err);
	for (size_t i = 0; r >= 0 && i < n_members; i++) {
		uint64_t bytes;

		r = iso_find(fd, members[i].name, &members[i].offset, &bytes);
		if (r >= 0 && bytes != members[i].n_data)
			r = -EIO;
		if (r >= 0 && bytes == 0)
			members[i].offset = 0;
		if (r < 0)
			(void)err_set(err, r, "the ISO does not hold '%s' as it was given", members[i].name);
	}
	return r;
}
