#include "lib/image/image.h"

#include "lib/base/cleanup.h"
#include "lib/image/qcow2_header.h"

#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *magic;
	size_t n_magic;
	const char *what;
} NOT_RAW[] = {
	{ "QFI\xfb", 4, "a qcow2 image: state format QCOW2" },
	{ "KDMV", 4, "a VMDK image: convert it (qemu-img convert -O raw)" },
	{ "vhdxfile", 8, "a VHDX image: convert it (qemu-img convert -O raw)" },
	{ "\x1f\x8b\x08", 3, "compressed with gzip: unpack it" },
	{ "\xfd"
	  "7zXZ\0",
	        6, "compressed with xz: unpack it" },
	{ "\x28\xb5\x2f\xfd", 4, "compressed with zstd: unpack it" },
};

const char *image_format_to_string(enum image_format format)
{
	switch (format) {
	case IMAGE_RAW:
		return "raw";
	case IMAGE_QCOW2:
		return "qcow2";
	}
	return NULL;
}

int image_format_from_string(const char *text, enum image_format *ret)
{
	if (!strcmp(text, "raw"))
		*ret = IMAGE_RAW;
	else if (!strcmp(text, "qcow2"))
		*ret = IMAGE_QCOW2;
	else
		return -EINVAL;
	return 0;
}

static int raw_check(int fd, uint64_t *ret_virtual_bytes, struct err *err)
{
	char head[8] = { 0 };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot stat the image: %m");
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return err_set(err, -EINVAL, "the image is empty or not a regular file");
	ssize_t n = pread(fd, head, sizeof(head), 0);
	if (n < 0)
		return err_set(err, -errno, "cannot read the image: %m");
	for (size_t i = 0; i < ARRAY_SIZE(NOT_RAW); i++)
		if ((size_t)n >= NOT_RAW[i].n_magic && !memcmp(head, NOT_RAW[i].magic, NOT_RAW[i].n_magic))
			return err_set(
			        err, -EINVAL, "the image is stated to be raw but is %s", NOT_RAW[i].what);
	*ret_virtual_bytes = ((uint64_t)st.st_size + 511) & ~UINT64_C(511);
	return 0;
}

static int qcow2_check(int fd, uint64_t *ret_virtual_bytes, struct err *err)
{
	struct qcow2_header header;
	int r = qcow2_header_read(fd, &header, err);

	if (r >= 0)
		r = qcow2_header_check_base(&header, err);
	if (r >= 0)
		*ret_virtual_bytes = header.virtual_bytes;
	return r;
}

int image_check_base(int fd, enum image_format format, uint64_t *ret_virtual_bytes, struct err *err)
{
	switch (format) {
	case IMAGE_RAW:
		return raw_check(fd, ret_virtual_bytes, err);
	case IMAGE_QCOW2:
		return qcow2_check(fd, ret_virtual_bytes, err);
	}
	return -EINVAL;
}
