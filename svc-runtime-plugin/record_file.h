/* Records: what each instance was defined as, kept while the instance exists. User data is never in them. */
#pragma once

#include "lib/base/err.h"

#include "bc/v1/runtime.pb-c.h"

#include <stddef.h>

/* All block: for start-up and pool threads. dir exists. */
int record_file_write(const char *dir, const char *id, const void *data, size_t n_data, struct err *err);
int record_file_remove(const char *dir, const char *id, struct err *err); /* none: 0 */
/* fn owns each record that can be read; one that cannot is put aside as ".bad" and told to on_bad. */
int record_files_load(const char *dir, int (*fn)(Bc__V1__EnsureRequest *record, void *userdata),
        void (*on_bad)(const char *path, const char *why, void *userdata), void *userdata, struct err *err);
