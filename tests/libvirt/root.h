/* A root of libvirt's embedded driver, for one test. */
#pragma once

/* The kernel of a test guest begins with this. What follows panic= is a quarter of an emulated boot that no test looks at. */
#define GUEST_CMDLINE                                                                                        \
	"console=ttyS0 quiet no_timer_check panic=-1 mitigations=off init_on_alloc=0 tsc=reliable "          \
	"random.trust_cpu=on cryptomgr.notests noreplace-smp"

struct root {
	char path[32]; /* short: QEMU's sockets are below it */
	char uri[64];
	char instances[48]; /* for the instances' directories; not made yet */
};

void root_make(struct root *root);
void root_remove(const struct root *root);
