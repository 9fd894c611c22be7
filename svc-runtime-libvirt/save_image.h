/* libvirt's file of a guest's memory ("save image"): a header, the domain's XML, libvirt's own cookie, then QEMU's
 * stream. libvirt writes the file and restores from it, but insists that the XML keeps the domain's name and UUID;
 * an instance that is made from another one's snapshot has its own. So the XML is exchanged here, in place: libvirt
 * leaves 64 KiB of room behind it. The bytes of a snapshot are foreign: everything is bounded. */
#pragma once

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { SAVE_IMAGE_TEXT_MAX = 4 << 20 }; /* bytes of XML and cookie, with their room */

struct save_image {
	char *xml;    /* owned */
	char *cookie; /* owned; "" for none */
};
void save_image_done(struct save_image *image);

/* -EINVAL for what is no such file, one that is not complete (libvirt marks it while it writes), or compressed. */
int save_image_read(int fd, struct save_image *ret, struct err *err);
/* Writes xml in place of the one that is there; the cookie and the stream stay. Whether the guest ran is set to no:
 * who restores it decides. -ENOSPC when there is no room, and nothing is changed. */
int save_image_set_xml(int fd, const char *xml, struct err *err);
