#include "lib/image/qcow2_header.h"

#include "lib/base/cleanup.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum {
	V2_HEADER_BYTES = 72,
	V3_HEADER_BYTES = 104,
	V3_HEADER_WITH_COMPRESSION_BYTES = 112,
	L1_BYTES_MAX = 32 << 20, /* these three are QEMU's own limits */
	REFTABLE_BYTES_MAX = 8 << 20,
	SNAPSHOTS_MAX = 65536,
};
#define EXTENSION_BACKING_FORMAT 0xe2792acaU
#define EXTENSION_ENCRYPTION 0x0537be77U
#define EXTENSION_DATA_FILE 0x44415441U
#define INCOMPATIBLE_KNOWN                                                                                   \
	(QCOW2_DIRTY | QCOW2_CORRUPT | QCOW2_DATA_FILE | QCOW2_COMPRESSION_TYPE | QCOW2_EXTENDED_L2)

/* The fields as they lie in the file. */
struct fields {
	uint64_t backing_offset, virtual_bytes, l1_offset, reftable_offset, snapshots_offset, incompatible;
	uint32_t version, backing_bytes, cluster_bits, encryption, l1_entries, reftable_clusters, n_snapshots,
	        refcount_order, header_bytes;
	uint8_t compression;
};

static uint32_t be32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t be64_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static int fields_read(const uint8_t *data, size_t n_data, struct fields *ret, struct err *err)
{
	struct fields f;

	if (n_data < 4 || be32_at(data) != QCOW2_MAGIC)
		return err_set(err, -EINVAL, "not a qcow2 image: it does not begin with the magic QFI\\xfb");
	if (n_data < V2_HEADER_BYTES)
		return err_set(err, -EINVAL, "qcow2 header cut short: %zu bytes of at least %d", n_data,
		        V2_HEADER_BYTES);
	f = (struct fields){
		.version = be32_at(data + 4),
		.backing_offset = be64_at(data + 8),
		.backing_bytes = be32_at(data + 16),
		.cluster_bits = be32_at(data + 20),
		.virtual_bytes = be64_at(data + 24),
		.encryption = be32_at(data + 32),
		.l1_entries = be32_at(data + 36),
		.l1_offset = be64_at(data + 40),
		.reftable_offset = be64_at(data + 48),
		.reftable_clusters = be32_at(data + 56),
		.n_snapshots = be32_at(data + 60),
		.snapshots_offset = be64_at(data + 64),
		.refcount_order = 4,
		.header_bytes = V2_HEADER_BYTES,
	};
	if (f.version != 2 && f.version != 3)
		return err_set(err, -EINVAL, "qcow2 version %" PRIu32 " is not 2 or 3", f.version);
	if (f.version == 3) {
		if (n_data < V3_HEADER_BYTES)
			return err_set(err, -EINVAL, "qcow2 header cut short: %zu bytes of at least %d",
			        n_data, V3_HEADER_BYTES);
		f.incompatible = be64_at(data + 72);
		f.refcount_order = be32_at(data + 96);
		f.header_bytes = be32_at(data + 100);
		if (f.header_bytes >= V3_HEADER_WITH_COMPRESSION_BYTES &&
		        n_data >= V3_HEADER_WITH_COMPRESSION_BYTES)
			f.compression = data[104];
	}
	*ret = f;
	return 0;
}

static int fields_check_header(const struct fields *f, size_t n_data, struct err *err)
{
	uint64_t unknown = f->incompatible & ~(uint64_t)INCOMPATIBLE_KNOWN;

	if (f->cluster_bits < 9 || f->cluster_bits > 21)
		return err_set(
		        err, -EINVAL, "qcow2 cluster_bits %" PRIu32 " is not within 9..21", f->cluster_bits);
	if (f->header_bytes < V2_HEADER_BYTES || (f->version == 3 && f->header_bytes < V3_HEADER_BYTES) ||
	        f->header_bytes % 8 != 0 || f->header_bytes > UINT64_C(1) << f->cluster_bits ||
	        f->header_bytes > n_data)
		return err_set(err, -EINVAL,
		        "qcow2 header length %" PRIu32 " is not a multiple of 8 from %d to the cluster size",
		        f->header_bytes, V3_HEADER_BYTES);
	if (unknown)
		return err_set(
		        err, -EINVAL, "qcow2 has unknown incompatible features: bits %#" PRIx64, unknown);
	if (f->compression > 1 ||
	        (f->incompatible & QCOW2_COMPRESSION_TYPE ? f->compression == 0 : f->compression != 0))
		return err_set(err, -EINVAL,
		        "qcow2 compression type %u disagrees with its feature bit or is unknown",
		        f->compression);
	if (f->incompatible & QCOW2_EXTENDED_L2 && f->cluster_bits < 14)
		return err_set(err, -EINVAL, "qcow2 has subclusters with clusters below 16 KiB");
	if (f->refcount_order > 6)
		return err_set(
		        err, -EINVAL, "qcow2 refcount order %" PRIu32 " is above 6", f->refcount_order);
	if (f->encryption > 2)
		return err_set(err, -EINVAL, "qcow2 encryption method %" PRIu32 " is unknown", f->encryption);
	return 0;
}

/* offset is cluster-aligned, behind the header's cluster, and [offset, offset + bytes) lies in the file. */
static bool table_fits(const struct fields *f, uint64_t offset, uint64_t bytes, uint64_t file_bytes)
{
	uint64_t cluster = UINT64_C(1) << f->cluster_bits;

	return offset >= cluster && offset % cluster == 0 && offset <= file_bytes &&
	        bytes <= file_bytes - offset;
}

static int fields_check_tables(const struct fields *f, uint64_t file_bytes, struct err *err)
{
	unsigned l2_entry_bits = f->incompatible & QCOW2_EXTENDED_L2 ? 4 : 3;
	/* Guest bytes that one L1 entry covers: a cluster full of L2 entries, a cluster each. */
	unsigned l1_shift = f->cluster_bits + f->cluster_bits - l2_entry_bits;
	uint64_t l1_needed;

	if (f->virtual_bytes == 0 || f->virtual_bytes % 512 != 0 ||
	        f->virtual_bytes > QCOW2_VIRTUAL_BYTES_MAX)
		return err_set(err, -EINVAL,
		        "qcow2 virtual size %" PRIu64 " is not a multiple of 512 from 512 to 64 TiB",
		        f->virtual_bytes);
	l1_needed = ((f->virtual_bytes - 1) >> l1_shift) + 1;
	if (f->l1_entries < l1_needed || f->l1_entries > L1_BYTES_MAX / 8)
		return err_set(err, -EINVAL,
		        "qcow2 L1 table of %" PRIu32 " entries for a virtual size that needs %" PRIu64
		        " (at most %d)",
		        f->l1_entries, l1_needed, L1_BYTES_MAX / 8);
	if (!table_fits(f, f->l1_offset, (uint64_t)f->l1_entries * 8, file_bytes))
		return err_set(
		        err, -EINVAL, "qcow2 L1 table at %#" PRIx64 " is not within the file", f->l1_offset);
	if (f->reftable_clusters == 0 ||
	        (uint64_t)f->reftable_clusters << f->cluster_bits > REFTABLE_BYTES_MAX ||
	        !table_fits(
	                f, f->reftable_offset, (uint64_t)f->reftable_clusters << f->cluster_bits, file_bytes))
		return err_set(err, -EINVAL,
		        "qcow2 refcount table of %" PRIu32 " clusters at %#" PRIx64
		        " is too large or not within the file",
		        f->reftable_clusters, f->reftable_offset);
	/* A snapshot's entry takes 40 bytes or more. */
	if (f->n_snapshots > SNAPSHOTS_MAX ||
	        (f->n_snapshots > 0 &&
	                !table_fits(f, f->snapshots_offset, f->n_snapshots * UINT64_C(40), file_bytes)))
		return err_set(err, -EINVAL,
		        "qcow2 table of %" PRIu32 " snapshots at %#" PRIx64
		        " is too large or not within the file",
		        f->n_snapshots, f->snapshots_offset);
	return 0;
}

/* Extensions lie between the header and the backing file's name, or the first cluster's end. */
static int extensions_read(const uint8_t *data, size_t n_data, const struct fields *f,
        struct qcow2_header *header, struct err *err)
{
	uint64_t end = f->backing_offset ? f->backing_offset : UINT64_C(1) << f->cluster_bits;

	if (end > n_data)
		end = n_data;
	for (uint64_t at = f->header_bytes; at < end && end - at >= 8;) {
		uint32_t type = be32_at(data + at);
		uint32_t bytes = be32_at(data + at + 4);
		uint64_t padded = (UINT64_C(7) + bytes) & ~UINT64_C(7);

		at += 8;
		if (type == 0)
			return 0;
		if (bytes > end - at)
			return err_set(err, -EINVAL,
			        "qcow2 header extension %#" PRIx32 " of %" PRIu32
			        " bytes reaches beyond the header's cluster (or 64 KiB)",
			        type, bytes);
		switch (type) {
		case EXTENSION_BACKING_FORMAT:
			if (bytes > QCOW2_FORMAT_MAX || memchr(data + at, 0, bytes))
				return err_set(err, -EINVAL, "qcow2 backing format's name is nonsense");
			memcpy(header->backing_format, data + at, bytes);
			header->backing_format[bytes] = 0;
			break;
		case EXTENSION_ENCRYPTION:
			if (!header->encryption)
				return err_set(err, -EINVAL,
				        "qcow2 has an encryption header without an encryption method");
			break;
		case EXTENSION_DATA_FILE:
			header->has_data_file = true;
			break;
		default:
			break; /* the format says: what is unknown here may be ignored */
		}
		at = padded <= end - at ? at + padded : end;
	}
	return 0;
}

static int backing_read(const uint8_t *data, size_t n_data, const struct fields *f,
        struct qcow2_header *header, struct err *err)
{
	if (f->backing_offset == 0)
		return 0;
	if (f->backing_bytes == 0 || f->backing_bytes > QCOW2_NAME_MAX ||
	        f->backing_offset < f->header_bytes || f->backing_offset > n_data ||
	        f->backing_bytes > n_data - f->backing_offset ||
	        f->backing_offset + f->backing_bytes > UINT64_C(1) << f->cluster_bits)
		return err_set(err, -EINVAL,
		        "qcow2 backing file's name of %" PRIu32 " bytes at %#" PRIx64
		        " is not within the header's cluster, or longer than %d",
		        f->backing_bytes, f->backing_offset, QCOW2_NAME_MAX);
	if (memchr(data + f->backing_offset, 0, f->backing_bytes))
		return err_set(err, -EINVAL, "qcow2 backing file's name has a NUL in it");
	header->has_backing = true;
	memcpy(header->backing_name, data + f->backing_offset, f->backing_bytes);
	header->backing_name[f->backing_bytes] = 0;
	return 0;
}

int qcow2_header_parse(
        const uint8_t *data, size_t n_data, uint64_t file_bytes, struct qcow2_header *ret, struct err *err)
{
	struct fields f = { 0 };
	int r = fields_read(data, n_data, &f, err);

	if (r >= 0)
		r = fields_check_header(&f, n_data, err);
	if (r >= 0)
		r = fields_check_tables(&f, file_bytes, err);
	if (r < 0)
		return r;
	struct qcow2_header header = {
		.version = f.version,
		.header_bytes = f.header_bytes,
		.virtual_bytes = f.virtual_bytes,
		.cluster_bits = f.cluster_bits,
		.refcount_order = f.refcount_order,
		.encryption = f.encryption,
		.n_snapshots = f.n_snapshots,
		.incompatible = f.incompatible,
		.l1_offset = f.l1_offset,
		.l1_entries = f.l1_entries,
		.has_data_file = f.incompatible & QCOW2_DATA_FILE,
	};
	r = backing_read(data, n_data, &f, &header, err);
	if (r >= 0)
		r = extensions_read(data, n_data, &f, &header, err);
	if (r < 0)
		return r;
	*ret = header;
	return 0;
}

int qcow2_header_read(int fd, struct qcow2_header *ret, struct err *err)
{
	CLEANUP_FREE uint8_t *data = NULL;
	size_t n_data = 0;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot stat the image: %m");
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the image is not a regular file");
	data = malloc(QCOW2_READ_MAX);
	if (!data)
		return -ENOMEM;
	while (n_data < QCOW2_READ_MAX) {
		ssize_t n = pread(fd, data + n_data, QCOW2_READ_MAX - n_data, (off_t)n_data);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "cannot read the image's header: %m");
		if (n == 0)
			break;
		n_data += (size_t)n;
	}
	return qcow2_header_parse(data, n_data, (uint64_t)st.st_size, ret, err);
}

int qcow2_header_check_base(const struct qcow2_header *header, struct err *err)
{
	if (header->has_backing)
		return err_set(err, -EINVAL,
		        "qcow2 image has a backing file ('%.100s'): an image must stand alone "
		        "(qemu-img convert makes it so)",
		        header->backing_name);
	if (header->has_data_file)
		return err_set(err, -EINVAL,
		        "qcow2 image keeps its data in an external file: an image must stand alone "
		        "(qemu-img convert makes it so)");
	if (header->encryption)
		return err_set(err, -EINVAL, "qcow2 image is encrypted: there is nobody to ask for the key");
	if (header->incompatible & QCOW2_CORRUPT)
		return err_set(
		        err, -EINVAL, "qcow2 image is marked corrupt (qemu-img check -r all may mend it)");
	if (header->incompatible & QCOW2_DIRTY)
		return err_set(
		        err, -EINVAL, "qcow2 image was not closed cleanly (qemu-img check -r all mends it)");
	if (header->n_snapshots > 0)
		return err_set(err, -EINVAL,
		        "qcow2 image holds %" PRIu32
		        " internal snapshots: an image must be plain (qemu-img convert makes it so)",
		        header->n_snapshots);
	return 0;
}
