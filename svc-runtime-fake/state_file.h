/* The fake's memory: a file of JSON lines that is appended to at every change, and written anew at the
 * start.
 *
 * A change is in the file before it is answered, so that it outlives the process. It is not fsynced: a
 * host that crashes takes real VMs with it too. A last line that is torn is left out. */
#pragma once

#include "svc-runtime-fake/record.h"

#include "lib/base/err.h"

#include <stddef.h>

struct state_file;

/* Called for each line in order; takes the record. */
typedef int (*state_line_fn)(const Bc__Fake__StateLine *line, void *userdata);

/* Reads path, which need not exist, and opens it for appending. -EINVAL, naming file and line, for what is
 * no state. */
int state_file_open(
        const char *path, state_line_fn fn, void *userdata, struct state_file **ret, struct err *err);
int state_file_put(struct state_file *file, const record *r, struct err *err);
int state_file_remove(struct state_file *file, const char *id, struct err *err);
int state_file_set_boot_id(struct state_file *file, const char *boot_id, struct err *err);

/* True once it is worth writing the n_live records anew: at the start soon, later only when it got very
 * large, because nothing is answered meanwhile. */
bool state_file_is_stale(const struct state_file *file, size_t n_live, bool starting);
/* Writes everything anew: begin, put and set what there is, end. Between them the old file counts. */
int state_file_rewrite_begin(struct state_file *file, struct err *err);
int state_file_rewrite_end(struct state_file *file, struct err *err);
struct state_file *state_file_close(struct state_file *file);
