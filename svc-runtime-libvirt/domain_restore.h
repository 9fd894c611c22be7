/* The first start of an instance that has a memory to go on with. For pool threads. */
#pragma once

#include "svc-runtime-libvirt/instance_files.h"

#include <libvirt/libvirt.h>

/* A memory waits to be restored. */
bool domain_has_memory(const struct instance_files_conf *conf, const char *id);
/* Starts the domain, paused, where the memory was left. The memory stays until domain_forget_memory(). */
int domain_restore_memory(
        virDomainPtr domain, const char *id, const struct instance_files_conf *conf, struct err *err);
/* Must come before the guest's first instruction: afterwards its disk and that memory do not belong together any more.
 * It is gone for good when this returns 0. */
int domain_forget_memory(const struct instance_files_conf *conf, const char *id, struct err *err);
