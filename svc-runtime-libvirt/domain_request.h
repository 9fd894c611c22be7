/* An EnsureRequest as a domain_def: every bound and every agreement between its parts is checked here, once. */
#pragma once

#include "bc/v1/runtime.pb-c.h"
#include "svc-runtime-libvirt/domain_def.h"

enum { DOMAIN_USER_DATA_MAX = 64 * 1024 };

/* instances_dir is where the directory of each instance is; absolute. The paths in *ret are those the definition will
 * have, whether the files are there or not. -EINVAL with the field's path and what would be right. */
int domain_def_from_request(const Bc__V1__EnsureRequest *request, const char *instances_dir,
        struct domain_def **ret, struct err *err);
