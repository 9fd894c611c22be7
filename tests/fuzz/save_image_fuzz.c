/* A memory image from elsewhere: its header and XML, and what of that XML gets into a definition of ours. */
#include "svc-runtime-libvirt/restore_xml.h"
#include "svc-runtime-libvirt/save_image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

static const char WANTED[] =
        "<domain type='qemu'><name>bc-new</name><os><type machine='q35'>hvm</type></os><devices>"
        "<disk type='file'><source file='/ours'/><target dev='vda'/></disk><interface type='user'/>"
        "<memballoon model='virtio'/></devices></domain>";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	struct save_image image = { 0 };
	char *xml = NULL;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, n_data) != (ssize_t)n_data)
		abort();
	if (save_image_read(fd, &image, NULL) == 0) {
		if (restore_xml_write(WANTED, image.xml, &xml, NULL) == 0) {
			/* The one path there is ours. */
			const char *ours = strstr(xml, "/ours");
			if (!ours || strstr(ours + 1, "file=\""))
				abort();
			(void)save_image_set_xml(fd, xml, NULL);
		}
		free(xml);
		save_image_done(&image);
	}
	(void)close(fd);
	return 0;
}
