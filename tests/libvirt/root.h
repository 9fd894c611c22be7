/* A root of libvirt's embedded driver, for one test. */
#pragma once

struct root {
	char path[32]; /* short: QEMU's sockets are below it */
	char uri[64];
	char instances[48]; /* for the instances' directories; not made yet */
};

void root_make(struct root *root);
void root_remove(const struct root *root);
