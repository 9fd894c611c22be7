/* Whether this service ends, for threads: what takes its time is broken off then, and what waits does not begin. Whoever
 * asked for it asks the next one again. */
#pragma once

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct ending {
	int fd; /* owned; an eventfd, readable for good once it ends */
};

int ending_init(struct ending *ending);
void ending_done(struct ending *ending);
void ending_begin(struct ending *ending);
/* Any thread. NULL: never. */
bool ending_begun(const struct ending *ending);
/* A progress_fn of sparse_copy.h whose userdata is the ending: -EAGAIN once that has begun. */
int ending_progress(uint64_t done_bytes, uint64_t total_bytes, void *userdata);
/* -EAGAIN, with words instead of what err had: what was broken off. */
int ending_refuse(struct err *err, const char *what);
