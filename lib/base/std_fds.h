/* The three descriptors every process takes for given. Where one is closed, the next file, socket or database that is
 * opened gets its number, and what is meant for the log or a pipe is written into it. */
#pragma once

/* Takes the numbers 0, 1 and 2 that are free. Reading or writing them fails with EBADF, as it did. -errno. */
int std_fds_take(void);
