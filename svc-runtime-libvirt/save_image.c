#include "svc-runtime-libvirt/save_image.h"

#include "lib/base/cleanup.h"
#include "lib/base/fd_io.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* As libvirt writes it, in the byte order of the host. */
struct header {
	char magic[16];
	uint32_t version;
	uint32_t n_data; /* bytes of XML, cookie and room; the stream follows */
	uint32_t was_running;
	uint32_t compressed;
	uint32_t cookie_offset; /* in the data; 0: none */
	uint32_t unused[14];
};
_Static_assert(sizeof(struct header) == 92, "no padding");

enum { VERSION = 2 };
static const char MAGIC[] = "LibvirtQemudSave";
static const char MAGIC_PARTIAL[] = "LibvirtQemudPart";

void save_image_done(struct save_image *image)
{
	free(image->xml);
	free(image->cookie);
	*image = (struct save_image){ 0 };
}

static int header_read(int fd, struct header *ret, struct err *err)
{
	struct stat st;
	int r = fd_read_all_at(fd, ret, sizeof(*ret), 0);

	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r == -ENODATA ? -EINVAL : r,
		        "the memory image is too short or cannot be read: %s", strerror(-r));
	if (memcmp(ret->magic, MAGIC_PARTIAL, sizeof(ret->magic)) == 0)
		return err_set(err, -EINVAL, "the memory image is not complete");
	if (memcmp(ret->magic, MAGIC, sizeof(ret->magic)) != 0 || ret->version != VERSION)
		return err_set(err, -EINVAL, "the memory image is not one of libvirt's, version %d", VERSION);
	if (ret->compressed)
		return err_set(
		        err, -EINVAL, "the memory image is compressed (method %" PRIu32 ")", ret->compressed);
	if (ret->n_data == 0 || ret->n_data > SAVE_IMAGE_TEXT_MAX ||
	        (uint64_t)st.st_size - sizeof(*ret) < ret->n_data || ret->cookie_offset >= ret->n_data)
		return err_set(err, -EINVAL,
		        "the memory image's header is nonsense (%" PRIu32 " bytes of XML)", ret->n_data);
	return 0;
}

/* *ret_data is owned by the caller, ends with a NUL. */
static int data_read(int fd, const struct header *header, char **ret_data, struct err *err)
{
	CLEANUP_FREE char *data = malloc(header->n_data + (size_t)1);
	size_t n_xml = header->cookie_offset ? header->cookie_offset : header->n_data;
	int r;

	if (!data)
		return -ENOMEM;
	r = fd_read_all_at(fd, data, header->n_data, sizeof(*header));
	if (r < 0)
		return err_set(err, r, "cannot read the memory image: %s", strerror(-r));
	data[header->n_data] = 0;
	/* Both texts must end where they should. */
	if (!memchr(data, 0, n_xml) || data[0] == 0)
		return err_set(err, -EINVAL, "the memory image's XML has no end");
	*ret_data = TAKE_PTR(data);
	return 0;
}

int save_image_read(int fd, struct save_image *ret, struct err *err)
{
	CLEANUP_FREE char *data = NULL;
	struct save_image image = { 0 };
	struct header header;
	int r = header_read(fd, &header, err);

	if (r >= 0)
		r = data_read(fd, &header, &data, err);
	if (r < 0)
		return r;
	image.xml = strdup(data);
	image.cookie = strdup(header.cookie_offset ? data + header.cookie_offset : "");
	if (!image.xml || !image.cookie) {
		save_image_done(&image);
		return -ENOMEM;
	}
	*ret = image;
	return 0;
}

static int write_synced(int fd, const void *data, size_t n_data, uint64_t offset)
{
	int r = fd_write_all_at(fd, data, n_data, offset);

	return r == 0 && fdatasync(fd) < 0 ? -errno : r;
}

int save_image_set_xml(int fd, const char *xml, struct err *err)
{
	CLEANUP_FREE char *data = NULL;
	CLEANUP_FREE char *old = NULL;
	struct header header;
	int r = header_read(fd, &header, err);

	if (r >= 0)
		r = data_read(fd, &header, &old, err);
	if (r < 0)
		return r;
	const char *cookie = header.cookie_offset ? old + header.cookie_offset : "";
	size_t n_xml = strlen(xml) + 1, n_cookie = strlen(cookie) + 1;
	if (n_xml + n_cookie > header.n_data)
		return err_set(err, -ENOSPC,
		        "the memory image has room for %" PRIu32 " bytes of XML; the instance's takes %zu",
		        header.n_data, n_xml + n_cookie);
	data = calloc(1, header.n_data);
	if (!data)
		return -ENOMEM;
	memcpy(data, xml, n_xml);
	memcpy(data + n_xml, cookie, n_cookie);
	header.cookie_offset = cookie[0] ? (uint32_t)n_xml : 0;
	header.was_running = 0;
	/* Marked as not complete until all of it is there, whenever the host may lose its power. */
	memcpy(header.magic, MAGIC_PARTIAL, sizeof(header.magic));
	r = write_synced(fd, &header, sizeof(header), 0);
	if (r == 0)
		r = write_synced(fd, data, header.n_data, sizeof(header));
	memcpy(header.magic, MAGIC, sizeof(header.magic));
	if (r == 0)
		r = write_synced(fd, &header, sizeof(header), 0);
	return r < 0 ? err_set(err, r, "cannot write the memory image: %s", strerror(-r)) : 0;
}
