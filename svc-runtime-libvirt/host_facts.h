/* What libvirt and the kernel say of this host, found once per run: whether guests get KVM, QEMU's version, the CPU
 * model they see. On a fresh libvirt this makes it probe QEMU, which takes seconds; later it is cached there. */
#pragma once

#include "svc-runtime-libvirt/runtime.h"

struct host_facts {
	bool kvm;
	char accel_reason[160]; /* why not kvm; "" with it */
	char version[32];       /* of QEMU, "7.2.0" */
	char cpu_model[128];
};

/* A job in pool; fn on the loop, unless libvirt went away meanwhile: then the next connection asks again. */
int host_facts_find(struct job_pool *pool, struct virt *virt, const struct runtime_conf *conf,
        void (*fn)(const struct host_facts *facts, void *userdata), void *userdata);

/* The model of the "host-model" mode in domain capabilities, with a short hash of the features around it: two hosts
 * that differ in one of them do not have one CPU. "" when there is none. */
int host_facts_cpu_model(const char *capabilities_xml, char *buf, size_t size);
