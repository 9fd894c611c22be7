/* Secrets in files: the one named REF is DIR/REF. */
#pragma once

#include "lib/base/err.h"
#include "lib/base/secret.h"

enum { SECRET_BYTES_MAX = 64 * 1024 };

/* ref is a single file name: nothing outside the directory can be named. -ENOENT, -EINVAL, -EFBIG, with words. */
int secret_dir_read(int dir_fd, const char *ref, struct secret **ret, struct err *err);
