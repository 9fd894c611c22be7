#include "svc-runtime-libvirt/domain_restore.h"

#include "lib/base/atomic_file.h"
#include "svc-runtime-libvirt/restore_xml.h"
#include "svc-runtime-libvirt/save_image.h"
#include "svc-runtime-libvirt/virt_err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void cleanup_image(struct save_image *image)
{
	save_image_done(image);
}

bool domain_has_memory(const struct instance_files_conf *conf, const char *id)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, id, INSTANCE_MEMORY);

	return path && access(path, F_OK) == 0;
}

int domain_restore_memory(
        virDomainPtr domain, const char *id, const struct instance_files_conf *conf, struct err *err)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, id, INSTANCE_MEMORY);
	CLEANUP_FREE char *wanted = NULL, *xml = NULL;
	__attribute__((cleanup(cleanup_image))) struct save_image image = { 0 };

	if (!path)
		return -ENOMEM;
	CLEANUP_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s': %m", path);
	wanted = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE);
	if (!wanted)
		return virt_err(err, "definition of a domain");
	int r = save_image_read(fd, &image, err);
	if (r == 0)
		r = restore_xml_write(wanted, image.xml, &xml, err);
	if (r == 0)
		r = save_image_set_xml(fd, xml, err);
	if (r < 0)
		return r;
	if (virDomainRestoreFlags(virDomainGetConnect(domain), path, NULL, VIR_DOMAIN_SAVE_PAUSED) < 0)
		return virt_err(err, "restore of a memory");
	return 0;
}

int domain_forget_memory(const struct instance_files_conf *conf, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = instance_path(conf->instances_dir, id, INSTANCE_MEMORY);

	if (!path)
		return -ENOMEM;
	if (unlink(path) < 0)
		return errno == ENOENT ? 0 : err_set(err, -errno, "cannot remove '%s': %m", path);
	int r = dir_sync_parent(AT_FDCWD, path);
	return r < 0 ? err_set(err, r, "cannot sync the directory of '%s': %s", path, strerror(-r)) : 0;
}
