/* What a killed process of ours left below the root of libvirt's in-process driver: libvirt looks after its guests, but
 * not after a QEMU that it had only asked for its features, nor after a guest whose QEMU it had just not begun, nor after
 * a file of its own that it had half written. */
#pragma once

/* With the root's lock held, before libvirt is opened. What cannot be removed stays. */
void embed_sweep(const char *root);
